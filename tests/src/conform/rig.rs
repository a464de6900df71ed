//! What a rule works with: the library, worlds, and instances of the tier in them.
//!
//! Every rule gets a plugin host of its own, and with it a plugin thread of its own, so a tier that blocks a thread or
//! panics often in one rule does not spoil the next.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use memory_core::causes::with_causes;
use memory_core::config::Config;
use memory_core::services::{Call, Services};
use memory_core::tier::{CommitToken, Explanation, TierEvent, TierHealth, TierStats, TurnPlan};
use plugin_host::{
    AllowEntry, AllowList, Drained, HostOptions, IncidentKind, Limits, LoadError, PinnedTurn,
    PluginHost, Registry, Sidecar, Slot, SlotError, Wanted,
};
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::ask::Ask;
use super::rule::Failure;
use crate::world::{Story, World};

/// How long a rule may take, in units of patience.
const PATIENCES_PER_RULE: u32 = 30;

/// How a library is checked.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a tier that ought to answer at once is waited for.
    pub patience: Duration,
    /// The settings that instances are made with; `None` for those of a host where nothing was set.
    pub config: Option<String>,
    /// The only rule to check; `None` for all of them.
    pub rule: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(10),
            config: None,
            rule: None,
        }
    }
}

/// The files of a delivered plugin.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) library: PathBuf,
    pub(crate) manifest: PathBuf,
}

/// A library to be checked, with its sidecar beside it.
#[derive(Debug)]
pub struct Target {
    folder: PathBuf,
    files: Files,
    sidecar: Sidecar,
    /// Holds the private copies and the list that trusts this one library, for this run only.
    scratch: TempDir,
}

impl Target {
    /// Finds the sidecar of a library and trusts what it says of it, for this run only.
    pub fn find(library: &Path) -> Result<Self> {
        let folder = match library.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        if !library.is_file() {
            bail!("there is no library at `{}`", library.display());
        }
        let name = library.file_name().unwrap_or_default().to_string_lossy();
        let found = Registry::new(Some(folder.clone())).scan()?;
        let mut own = found
            .into_iter()
            .flatten()
            .filter(|candidate| candidate.sidecar.file == name);
        let candidate = own.next().with_context(|| {
            format!(
                "no manifest `*.plugin.toml` beside `{}` names it; `cargo xtask build-plugins` writes one",
                library.display()
            )
        })?;
        let scratch = tempfile::Builder::new()
            .prefix("strata-conform-")
            .tempdir()
            .context("cannot make a temporary folder")?;
        let mut trusted = AllowList::default();
        trusted.trust(AllowEntry {
            id: candidate.sidecar.id.clone(),
            sha256: candidate.sidecar.sha256.clone(),
            note: "trusted for one run of `conform`".to_owned(),
        });
        std::fs::write(scratch.path().join("allow.toml"), trusted.render())
            .context("cannot write the list of trusted libraries")?;
        Ok(Self {
            folder,
            files: Files {
                library: candidate.library,
                manifest: candidate.manifest,
            },
            sidecar: candidate.sidecar,
            scratch,
        })
    }

    /// Returns what the manifest beside the library says.
    pub const fn sidecar(&self) -> &Sidecar {
        &self.sidecar
    }
}

/// What one rule works with.
#[derive(Debug)]
pub(crate) struct Rig {
    rule: &'static str,
    files: Files,
    sidecar: Sidecar,
    host: Arc<PluginHost>,
    config: String,
    patience: Duration,
}

impl Rig {
    pub(crate) fn new(
        rule: &'static str,
        target: &Target,
        options: &Options,
    ) -> Result<Self, Failure> {
        let patience = options.patience;
        let limits = Limits {
            create: patience,
            health: patience,
            call: patience * PATIENCES_PER_RULE,
            drain: patience / 4,
            grace: patience / 8,
            retry: Duration::ZERO,
            // A rule counts panics itself.
            panic_window: Duration::ZERO,
            ..Limits::default()
        };
        let host = HostOptions {
            folder: Some(target.folder.clone()),
            allow_files: vec![target.scratch.path().join("allow.toml")],
            staging: target.scratch.path().join("staging"),
            limits,
        };
        let host = PluginHost::start(host, Handle::current())
            .map_err(|error| Failure::new(error.to_string(), "free some threads and try again"))?;
        let tier = target.sidecar.tier;
        let usual = || Config::default().tier_config_json(tier).to_string();
        Ok(Self {
            rule,
            files: target.files.clone(),
            sidecar: target.sidecar.clone(),
            host,
            config: options.config.clone().unwrap_or_else(usual),
            patience,
        })
    }

    pub(crate) const fn sidecar(&self) -> &Sidecar {
        &self.sidecar
    }

    /// Returns what was delivered.
    pub(crate) const fn files(&self) -> &Files {
        &self.files
    }

    /// Returns what panicked in this rule: the method and the message, each once.
    pub(crate) fn panics(&self) -> Vec<(&'static str, String)> {
        let builds = self.host.incidents().into_iter();
        let incidents = builds.flat_map(|build| build.incidents);
        let panics = incidents.filter(|incident| incident.kind == IncidentKind::Panic);
        panics
            .map(|incident| (incident.method, incident.message))
            .collect()
    }

    pub(crate) const fn host(&self) -> &Arc<PluginHost> {
        &self.host
    }

    pub(crate) fn config(&self) -> &str {
        &self.config
    }

    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    pub(crate) fn rule_limit(&self) -> Duration {
        self.patience * PATIENCES_PER_RULE
    }

    /// Returns a world with the usual story.
    pub(crate) fn world(&self) -> Arc<World> {
        self.world_of(Story::new(0))
    }

    pub(crate) fn world_of(&self, story: Story) -> Arc<World> {
        World::new(story, self.sidecar.tier)
    }

    /// Returns the owner's first question in a conversation of this rule's own.
    pub(crate) fn ask(&self, name: &str) -> Ask {
        Ask::owner(&format!("{}-{name}", self.rule))
    }

    /// Makes an instance in a world where everything works.
    pub(crate) async fn instance(&self, world: &Arc<World>) -> Result<Instance, Failure> {
        let made = self.instance_with(&world.services(), &self.config).await;
        made.map_err(|error| {
            Failure::new(
                with_causes(&*error),
                "make `create` and `health` succeed where every service works",
            )
        })
    }

    /// Returns the wish for the tier with given settings.
    pub(crate) fn wanted(&self, config: &str) -> Wanted {
        Wanted {
            tier: self.sidecar.tier,
            plugin: self.sidecar.id.clone(),
            config: config.to_owned(),
            digest: config.to_owned(),
        }
    }

    /// Makes an instance of given services and settings.
    pub(crate) async fn instance_with(
        &self,
        services: &Services,
        config: &str,
    ) -> Result<Instance, Arc<LoadError>> {
        let slot = self.host.slot(self.rule);
        slot.ensure(&self.wanted(config), services).await;
        match slot.pin() {
            Ok(turn) => Ok(Instance {
                slot,
                turn: Arc::new(turn),
                patience: self.patience,
            }),
            Err(error) => Err(slot.status().problem.unwrap_or_else(|| {
                Arc::new(LoadError::Unhealthy {
                    plugin: self.sidecar.id.clone(),
                    reason: error.to_string(),
                })
            })),
        }
    }

    /// Waits until a condition holds, and returns whether it came to hold in time.
    pub(crate) async fn comes_true(&self, condition: impl Fn() -> bool) -> bool {
        let waiting = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(self.patience, waiting).await.is_ok()
    }
}

/// One instance of the tier.
#[derive(Debug)]
pub(crate) struct Instance {
    slot: Slot,
    turn: Arc<PinnedTurn>,
    patience: Duration,
}

impl Instance {
    /// Returns the hold on the instance, to be moved into a task.
    pub(crate) fn turn(&self) -> Arc<PinnedTurn> {
        Arc::clone(&self.turn)
    }

    fn call(&self, ask: &Ask) -> Call {
        ask.call(self.patience).0
    }

    pub(crate) async fn begin(&self, ask: &Ask) -> Result<TurnPlan, SlotError> {
        self.turn.begin_turn(&self.call(ask), ask.request()).await
    }

    /// Begins a turn that has no reason to fail.
    pub(crate) async fn plan(&self, ask: &Ask) -> Result<TurnPlan, Failure> {
        let plan = self.begin(ask).await;
        plan.map_err(|error| {
            Failure::new(
                with_causes(&error),
                "make `begin_turn` succeed where every service works",
            )
        })
    }

    /// Begins a turn that has something to show.
    pub(crate) async fn shown(&self, ask: &Ask) -> Result<TurnPlan, Failure> {
        let plan = self.plan(ask).await?;
        if plan.blocks.iter().all(|block| block.shows.is_empty()) {
            return Err(Failure::new(
                format!("it shows nothing for `{}`", ask.message),
                "the scripted world has pages and files with these very words; make the tier find some of them",
            ));
        }
        Ok(plan)
    }

    /// Commits every block of a plan, which has no reason to fail.
    pub(crate) async fn attach(
        &self,
        ask: &Ask,
        plan: &TurnPlan,
        message: &str,
    ) -> Result<(), Failure> {
        for token in tokens(plan) {
            let committed = self.commit(ask, token, message).await;
            committed.map_err(|error| {
                Failure::new(
                    with_causes(&error),
                    "make `commit` succeed where every service works",
                )
            })?;
        }
        Ok(())
    }

    pub(crate) async fn commit(
        &self,
        ask: &Ask,
        token: CommitToken,
        message: &str,
    ) -> Result<(), SlotError> {
        let call = self.call(ask);
        self.turn.commit(&call, token, message.to_owned()).await
    }

    pub(crate) async fn discard(&self, ask: &Ask, token: CommitToken) -> Result<(), SlotError> {
        self.turn.discard(&self.call(ask), token).await
    }

    pub(crate) async fn explain(&self, ask: &Ask) -> Result<Explanation, SlotError> {
        self.turn.explain(&self.call(ask), ask.request()).await
    }

    pub(crate) async fn tell(&self, ask: &Ask, event: TierEvent) -> Result<(), SlotError> {
        self.turn.on_event(&self.call(ask), event).await
    }

    pub(crate) async fn stats(&self, ask: &Ask) -> Result<TierStats, Failure> {
        let stats = self.turn.stats(&self.call(ask)).await;
        stats.map_err(|error| {
            Failure::new(
                with_causes(&error),
                "counters need no service; make `stats` succeed",
            )
        })
    }

    pub(crate) async fn health(&self, ask: &Ask) -> Result<TierHealth, SlotError> {
        self.turn.health(&self.call(ask)).await
    }

    /// Takes the instance out of service and waits until nothing of it runs; `None` if there was nothing to drain.
    pub(crate) async fn end(self) -> Option<Drained> {
        let Self { slot, turn, .. } = self;
        drop(turn);
        let change = slot.ensure(&Wanted::off(), &Services::default()).await;
        change.drain?.await.ok()
    }
}

/// Returns the tokens of a plan.
pub(crate) fn tokens(plan: &TurnPlan) -> Vec<CommitToken> {
    let tokens = plan.blocks.iter().filter_map(|block| block.commit.clone());
    tokens.collect()
}
