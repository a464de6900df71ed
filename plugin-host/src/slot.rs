//! What serves one assistant, and how it is replaced while turns go on.
//!
//! The slot holds one pointer. A newcomer is loaded, made and asked for its health while the old instance serves; then the
//! pointer is switched, and the old one is drained in the background. If the newcomer does not come up, nothing has
//! changed. What is configured and what serves are two facts, and the status tells both: when the configured plugin
//! cannot serve, the instance of the same tier that did before stays, or the newest good build of that tier comes back, and
//! never another tier.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use memory_core::abi::ErrorCode;
use memory_core::abi::host::GuestTier;
use memory_core::predicates::Tier;
use memory_core::services::Services;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::drain::{Drained, drain};
use crate::error::{LoadError, SlotError};
use crate::host::{Instance, PluginHost, Source};
use crate::loader::{Build, LoadTimings};
use crate::pinned::PinnedTurn;

use self::good::{Good, GoodBuilds};

mod good;

/// What is to serve. Any difference means another instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The configured tier.
    pub tier: Tier,
    /// The plugin that serves it.
    pub plugin: String,
    /// The tier's own settings as JSON.
    pub config: String,
    /// Digest of the settings.
    pub digest: String,
}

impl Wanted {
    /// Returns the wish for no tier at all.
    pub fn off() -> Self {
        Self {
            tier: Tier::Off,
            plugin: String::new(),
            config: String::new(),
            digest: String::new(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.tier == other.tier && self.plugin == other.plugin && self.digest == other.digest
    }
}

/// What really serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// The tier.
    pub tier: Tier,
    /// The plugin.
    pub plugin: String,
    /// The plugin's own version.
    pub version: String,
    /// Hash of the library.
    pub sha256: String,
    /// Digest of the settings.
    pub digest: String,
    /// Number of the instance in its slot, from 1.
    pub generation: u64,
}

/// What is configured, what serves, and why they differ if they do.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotStatus {
    /// The configured tier.
    pub configured: Tier,
    /// What serves; `None` when nothing does.
    pub serving: Option<Serving>,
    /// Why the configured plugin, or the build that a reload asked for, does not serve. A host tells its user when this changes.
    pub problem: Option<Arc<LoadError>>,
}

/// What became of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It serves already, or was refused a moment ago and is not tried again yet, and nothing changed for what serves.
    Unchanged,
    /// It serves now.
    Switched,
    /// It was refused; the instance of the same tier that served before still does.
    KeptPrevious,
    /// It was refused; the newest good build of the same tier that comes up serves now.
    FellBack,
    /// It was refused or is `off`; nothing serves.
    Emptied,
}

/// What a call of [`Slot::ensure`] did.
#[derive(Debug)]
pub struct Change {
    /// What became of the wish.
    pub outcome: Outcome,
    /// How long the new instance took to come up, when there is one.
    pub timings: Option<LoadTimings>,
    /// The drain of the instance that was replaced. It runs whether or not anybody waits for it.
    pub drain: Option<JoinHandle<Drained>>,
}

impl Change {
    const UNCHANGED: Self = Self {
        outcome: Outcome::Unchanged,
        timings: None,
        drain: None,
    };
}

/// One instance that serves or served.
pub(crate) struct Active {
    pub(crate) build: Arc<Build>,
    pub(crate) tier: Arc<GuestTier>,
    pub(crate) wanted: Wanted,
    pub(crate) generation: u64,
    fallback: bool,
    leases: AtomicUsize,
    idle: Notify,
}

impl fmt::Debug for Active {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plugin = &self.build.manifest().id;
        formatter
            .debug_struct("Active")
            .field("plugin", plugin)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl Active {
    pub(crate) fn leases(&self) -> usize {
        self.leases.load(Ordering::SeqCst)
    }

    /// Waits until no turn holds the instance any more.
    pub(crate) async fn idle(&self) {
        loop {
            let notified = self.idle.notified();
            if self.leases() == 0 {
                return;
            }
            notified.await;
        }
    }

    fn serving(&self) -> Serving {
        let manifest = self.build.manifest();
        Serving {
            tier: manifest.tier,
            plugin: manifest.id.clone(),
            version: manifest.version.clone(),
            sha256: self.build.sha256().to_owned(),
            digest: self.wanted.digest.clone(),
            generation: self.generation,
        }
    }
}

/// A hold on an instance, counted.
#[derive(Debug)]
pub(crate) struct Lease(pub(crate) Arc<Active>);

impl Lease {
    fn take(current: &ArcSwapOption<Active>) -> Option<Self> {
        loop {
            let active = current.load_full()?;
            active.leases.fetch_add(1, Ordering::SeqCst);
            let lease = Self(active);
            // Looked at again after it was counted: either the switch came later and its drain sees this lease, or it came
            // before and the newcomer is taken instead.
            if current
                .load()
                .as_ref()
                .is_some_and(|now| Arc::ptr_eq(now, &lease.0))
            {
                return Some(lease);
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.0.leases.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

#[derive(Debug, Default)]
struct Planning {
    generation: u64,
    refused: Option<(Wanted, Instant)>,
    good: GoodBuilds,
}

#[derive(Debug)]
struct Told {
    configured: Tier,
    problem: Option<Arc<LoadError>>,
}

/// What serves one assistant.
#[derive(Debug)]
pub struct Slot {
    host: Arc<PluginHost>,
    assistant: String,
    current: ArcSwapOption<Active>,
    planning: tokio::sync::Mutex<Planning>,
    told: Mutex<Told>,
}

impl Slot {
    pub(crate) fn new(host: Arc<PluginHost>, assistant: String) -> Self {
        Self {
            host,
            assistant,
            current: ArcSwapOption::empty(),
            planning: tokio::sync::Mutex::default(),
            told: Mutex::new(Told {
                configured: Tier::Off,
                problem: None,
            }),
        }
    }

    /// Returns what is configured and what serves.
    pub fn status(&self) -> SlotStatus {
        let serving = self.current.load().as_ref().map(|active| active.serving());
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        SlotStatus {
            configured: told.configured,
            serving,
            problem: told.problem.clone(),
        }
    }

    /// Pins what serves now for one turn.
    pub fn pin(&self) -> Result<PinnedTurn, SlotError> {
        let lease = Lease::take(&self.current).ok_or(SlotError::Empty)?;
        Ok(PinnedTurn::new(Arc::clone(&self.host), lease))
    }

    /// Makes a wish come true if it can be. Cheap when it is true already, so it belongs at the start of every turn.
    pub async fn ensure(&self, wanted: &Wanted, services: &Services) -> Change {
        self.host.follow_log_level();
        if self.serves(wanted) && self.status().problem.is_none() {
            return Change::UNCHANGED;
        }
        let mut planning = self.planning.lock().await;
        let refused = planning
            .refused
            .as_ref()
            .filter(|(refused, _)| refused.is_same(wanted))
            .map(|(_, at)| *at);
        if self.serves(wanted) {
            // What was refused is not wanted any more. A refused reload of this same wish remains a problem.
            if refused.is_none() {
                planning.refused = None;
                self.tell(wanted.tier, None);
            }
            return Change::UNCHANGED;
        }
        if wanted.tier == Tier::Off {
            planning.refused = None;
            self.tell(wanted.tier, None);
            return Change {
                outcome: Outcome::Emptied,
                timings: None,
                drain: self.switch(None),
            };
        }
        if refused.is_some_and(|at| at.elapsed() < self.host.limits().retry) {
            // What stands in for it may have gone bad since, and that is no reason to wait.
            let current = self.current.load_full();
            if current.is_none_or(|active| self.may_serve(wanted.tier, &active.build)) {
                return Change::UNCHANGED;
            }
            return self.stand_in(&mut planning, wanted, services).await;
        }
        self.replace(&mut planning, wanted, services).await
    }

    /// Makes a new instance even if the same is serving, for instance because a new build was installed.
    pub async fn reload(&self, wanted: &Wanted, services: &Services) -> Change {
        let mut planning = self.planning.lock().await;
        self.replace(&mut planning, wanted, services).await
    }

    fn serves(&self, wanted: &Wanted) -> bool {
        match self.current.load().as_ref() {
            None => wanted.tier == Tier::Off && self.status().configured == Tier::Off,
            Some(active) => {
                active.wanted.is_same(wanted)
                    && !active.fallback
                    && self.host.check_quarantine(&active.build).is_ok()
            }
        }
    }

    /// Returns whether a build may serve a tier: it is of that tier and not quarantined.
    fn may_serve(&self, tier: Tier, build: &Build) -> bool {
        build.manifest().tier == tier && self.host.check_quarantine(build).is_ok()
    }

    async fn bring_up(
        &self,
        source: Source,
        wanted: &Wanted,
        services: &Services,
    ) -> Result<Instance, LoadError> {
        let (assistant, config) = (&self.assistant, &wanted.config);
        self.host
            .bring_up(assistant, wanted.tier, source, config, services)
            .await
    }

    async fn replace(
        &self,
        planning: &mut Planning,
        wanted: &Wanted,
        services: &Services,
    ) -> Change {
        let source = Source::Named(wanted.plugin.clone());
        match self.bring_up(source, wanted, services).await {
            Ok(instance) => {
                planning.refused = None;
                planning.good.note(&instance.build, wanted);
                self.tell(wanted.tier, None);
                self.install(planning, wanted, instance, false)
            }
            Err(error) => {
                tracing::warn!(assistant = %self.assistant, tier = %wanted.tier, %error, "the configured tier cannot serve");
                planning.refused = Some((wanted.clone(), Instant::now()));
                self.tell(wanted.tier, Some(Arc::new(error)));
                self.stand_in(planning, wanted, services).await
            }
        }
    }

    /// Finds what may serve instead: the same tier, or nothing.
    async fn stand_in(
        &self,
        planning: &mut Planning,
        wanted: &Wanted,
        services: &Services,
    ) -> Change {
        let current = self.current.load_full();
        if current.is_some_and(|active| self.may_serve(wanted.tier, &active.build)) {
            return Change {
                outcome: Outcome::KeptPrevious,
                timings: None,
                drain: None,
            };
        }
        for good in planning.good.of(wanted.tier) {
            if let Some((settings, instance)) = self.revive(&good, wanted, services).await {
                return self.install(planning, &settings, instance, true);
            }
        }
        Change {
            outcome: Outcome::Emptied,
            timings: None,
            drain: self.switch(None),
        }
    }

    /// Makes an instance of a good build if it can be, and returns it with the wish whose settings it has.
    async fn revive(
        &self,
        good: &Good,
        wanted: &Wanted,
        services: &Services,
    ) -> Option<(Wanted, Instance)> {
        // The settings of now may be the very fault, or too new for this build. Those it served with before are good.
        for settings in [wanted, &good.wanted] {
            if !self.may_serve(wanted.tier, &good.build) {
                return None;
            }
            let source = Source::Loaded(Arc::clone(&good.build));
            match self.bring_up(source, settings, services).await {
                Ok(instance) => return Some((settings.clone(), instance)),
                Err(error) => {
                    let sha256 = good.build.sha256();
                    tracing::warn!(assistant = %self.assistant, sha256, %error, "a good build cannot stand in");
                    if !matches!(
                        error,
                        LoadError::Create {
                            code: ErrorCode::BAD_CONFIG,
                            ..
                        }
                    ) {
                        return None;
                    }
                }
            }
        }
        None
    }

    fn install(
        &self,
        planning: &mut Planning,
        wanted: &Wanted,
        instance: Instance,
        fallback: bool,
    ) -> Change {
        planning.generation += 1;
        let active = Active {
            build: instance.build,
            tier: instance.tier,
            wanted: wanted.clone(),
            generation: planning.generation,
            fallback,
            leases: AtomicUsize::new(0),
            idle: Notify::new(),
        };
        let outcome = if fallback {
            Outcome::FellBack
        } else {
            Outcome::Switched
        };
        Change {
            outcome,
            timings: Some(instance.timings),
            drain: self.switch(Some(Arc::new(active))),
        }
    }

    fn switch(&self, newcomer: Option<Arc<Active>>) -> Option<JoinHandle<Drained>> {
        let old = self.current.swap(newcomer)?;
        let host = Arc::clone(&self.host);
        Some(self.host.runtime().host().spawn(drain(host, old)))
    }

    fn tell(&self, configured: Tier, problem: Option<Arc<LoadError>>) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Told {
            configured,
            problem,
        };
    }
}
