//! The plugin machinery of a process: where plugins are, how long they may take, and what runs them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use memory_core::abi::ErrorCode;
use memory_core::abi::host::GuestTier;
use memory_core::predicates::Tier;
use memory_core::services::{CallScope, Capability, Requester, Services};
use tokio::runtime::Handle;

use crate::allow::AllowList;
use crate::call::new_call;
use crate::error::{HostError, LoadError};
use crate::loader::{Build, LoadTimings, Loader, verified};
use crate::log;
use crate::registry::{Candidate, Registry};
use crate::runtime::{HostSpawner, PluginRuntime};
use crate::slot::Slot;

/// How long things may take and how often they may fail.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Loading a library and making an instance.
    pub create: Duration,
    /// An answer to the health check.
    pub health: Duration,
    /// An answer to any other call whose own deadline is later.
    pub call: Duration,
    /// Waiting for the calls and pinned turns of an instance that was replaced.
    pub drain: Duration,
    /// Waiting once more after the remaining calls were told to stop.
    pub grace: Duration,
    /// Before a plugin that could not be loaded is tried again with the same configuration.
    pub retry: Duration,
    /// Panics of one build within [`Self::panic_window`] after which it is no longer used.
    pub panics: usize,
    /// The window for counting panics.
    pub panic_window: Duration,
    /// Different builds one process may load.
    pub builds: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            create: Duration::from_secs(10),
            health: Duration::from_millis(500),
            call: Duration::from_secs(10),
            drain: Duration::from_secs(5),
            grace: Duration::from_secs(1),
            retry: Duration::from_secs(30),
            panics: 3,
            panic_window: Duration::from_mins(10),
            builds: 64,
        }
    }
}

/// Where plugins are and what bounds them.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// The plugin folder; `None` when there is none.
    pub folder: Option<PathBuf>,
    /// Files that list trusted hashes; read again at each load.
    pub allow_files: Vec<PathBuf>,
    /// The folder for private copies of libraries. Nobody else may write to it.
    pub staging: PathBuf,
    /// The limits.
    pub limits: Limits,
}

/// A plugin that was checked without running any of its code.
#[derive(Debug)]
pub struct Verified {
    /// The plugin.
    pub candidate: Candidate,
    /// Whether its library is the one its manifest speaks of and is trusted.
    pub result: Result<(), LoadError>,
}

/// The plugin machinery of a process.
#[derive(Debug)]
pub struct PluginHost {
    registry: Registry,
    allow_files: Vec<PathBuf>,
    limits: Limits,
    loader: Loader,
    runtime: Arc<PluginRuntime>,
    log_level: AtomicU32,
}

/// An instance that has just come up.
pub(crate) struct Instance {
    pub(crate) build: Arc<Build>,
    pub(crate) tier: Arc<GuestTier>,
    pub(crate) timings: LoadTimings,
}

/// What an instance is to be made from.
pub(crate) enum Source {
    /// The plugin of this name.
    Named(String),
    /// A build that is loaded already.
    Loaded(Arc<Build>),
}

impl PluginHost {
    /// Starts the machinery. Services of the host will run on the runtime of the handle.
    pub fn start(options: HostOptions, host: Handle) -> Result<Arc<Self>, HostError> {
        let runtime = PluginRuntime::start(host, options.limits.grace)
            .map_err(|source| HostError::Runtime { source })?;
        Ok(Arc::new(Self {
            registry: Registry::new(options.folder),
            allow_files: options.allow_files,
            loader: Loader::new(options.staging, options.limits.builds),
            limits: options.limits,
            runtime: Arc::new(runtime),
            log_level: AtomicU32::new(log::current_level()),
        }))
    }

    /// Returns the plugins of the folder.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the limits.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the builds that are loaded.
    pub fn builds(&self) -> Vec<Arc<Build>> {
        self.loader.builds()
    }

    /// Returns an empty slot for an assistant.
    pub fn slot(self: &Arc<Self>, assistant: impl Into<String>) -> Slot {
        Slot::new(Arc::clone(self), assistant.into())
    }

    /// Returns the trusted hashes as the files say now.
    pub fn allow_list(&self) -> Result<AllowList, LoadError> {
        let mut list = AllowList::default();
        for file in &self.allow_files {
            list.extend(AllowList::read(file)?);
        }
        Ok(list)
    }

    /// Checks every plugin of the folder without running any of its code.
    pub fn verify(&self) -> Result<Vec<Result<Verified, LoadError>>, LoadError> {
        let allow = self.allow_list()?;
        let check = |candidate: Candidate| {
            let result = verified(&candidate.library, &candidate.sidecar, &allow).map(drop);
            Verified { candidate, result }
        };
        Ok(self
            .registry
            .scan()?
            .into_iter()
            .map(|found| found.map(check))
            .collect())
    }

    pub(crate) const fn runtime(&self) -> &Arc<PluginRuntime> {
        &self.runtime
    }

    /// Tells every library when the host's log filter has changed.
    pub(crate) fn follow_log_level(&self) {
        let level = log::current_level();
        if self.log_level.swap(level, Ordering::Relaxed) != level {
            for build in self.loader.builds() {
                build.module().set_max_level(level);
            }
        }
    }

    pub(crate) fn check_quarantine(&self, build: &Build) -> Result<(), LoadError> {
        let panics = build.recent_panics(self.limits.panic_window);
        if panics < self.limits.panics {
            return Ok(());
        }
        Err(LoadError::Quarantined {
            plugin: build.manifest().id.clone(),
            panics,
        })
    }

    /// Loads, makes and asks an instance for its health. Nothing that serves is touched.
    pub(crate) async fn bring_up(
        self: &Arc<Self>,
        assistant: &str,
        tier: Tier,
        source: Source,
        config: &str,
        services: &Services,
    ) -> Result<Instance, LoadError> {
        let plugin = match &source {
            Source::Named(plugin) => plugin.clone(),
            Source::Loaded(build) => build.manifest().id.clone(),
        };
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let (host, assistant) = (Arc::clone(self), assistant.to_owned());
        let (config, services) = (config.to_owned(), services.clone());
        // A thread of its own: code of the plugin runs in it, and if it never returns nothing waits for it.
        let load = move || {
            let made = host.load_and_create(&assistant, tier, source, &config, services);
            // Nobody may be waiting any more, and then the instance is dropped here.
            drop(sender.send(made));
        };
        std::thread::Builder::new()
            .name("strata-plugin-load".to_owned())
            .spawn(load)
            .map_err(|error| LoadError::Create {
                plugin: plugin.clone(),
                code: ErrorCode::UNAVAILABLE,
                message: format!("no thread for loading it: {error}"),
            })?;
        let mut instance = match tokio::time::timeout(self.limits.create, receiver).await {
            Ok(Ok(made)) => made?,
            Ok(Err(_)) => {
                let message = "the loading thread ended without an answer".to_owned();
                return Err(LoadError::Create {
                    plugin,
                    code: ErrorCode::INTERNAL,
                    message,
                });
            }
            Err(_) => {
                let limit_ms = u64::try_from(self.limits.create.as_millis()).unwrap_or(u64::MAX);
                return Err(LoadError::CreateTimeout { plugin, limit_ms });
            }
        };

        let start = Instant::now();
        let asked = Arc::clone(&instance.tier);
        let requester = Requester {
            consumer: "health".to_owned(),
            ..Requester::default()
        };
        let (call, _control) = new_call(
            CallScope {
                requester,
                ..CallScope::default()
            },
            self.limits.health,
        );
        let health = self
            .runtime
            .run(self.limits.health, async move { asked.health(&call).await })
            .await;
        instance.timings.health = start.elapsed();
        match health {
            Ok(health) if health.ok => {}
            Ok(health) => {
                return Err(LoadError::Unhealthy {
                    plugin,
                    reason: health.detail,
                });
            }
            Err(error) if error.code == ErrorCode::DEADLINE => {
                let limit_ms = u64::try_from(self.limits.health.as_millis()).unwrap_or(u64::MAX);
                return Err(LoadError::HealthTimeout { plugin, limit_ms });
            }
            Err(error) => {
                return Err(LoadError::Unhealthy {
                    plugin,
                    reason: error.to_string(),
                });
            }
        }
        Ok(instance)
    }

    fn load_and_create(
        &self,
        assistant: &str,
        tier: Tier,
        source: Source,
        config: &str,
        services: Services,
    ) -> Result<Instance, LoadError> {
        let mut timings = LoadTimings::default();
        let build = match source {
            Source::Loaded(build) => build,
            Source::Named(plugin) => {
                let candidate = self.registry.find_for(tier, &plugin)?;
                self.loader
                    .load(&candidate, &self.allow_list()?, &mut timings)?
            }
        };
        self.check_quarantine(&build)?;
        let plugin = &build.manifest().id;
        let offered = |name: &str| {
            Capability::from_name(name).is_some_and(|capability| services.has(capability))
        };
        if let Some(missing) = build.manifest().requires.iter().find(|name| !offered(name)) {
            return Err(LoadError::NotOffered {
                plugin: plugin.clone(),
                capability: missing.clone(),
                assistant: assistant.to_owned(),
            });
        }
        let start = Instant::now();
        let narrowed = services.narrowed(tier, &build.asked());
        let spawner = Arc::new(HostSpawner(self.runtime.host().clone()));
        let made = build
            .module()
            .create(narrowed, spawner, config)
            .map_err(|error| {
                if error.code == ErrorCode::PANICKED {
                    build.note_panic(self.limits.panic_window);
                }
                LoadError::create(plugin, error)
            })?;
        timings.create = start.elapsed();
        Ok(Instance {
            build,
            tier: Arc::new(made),
            timings,
        })
    }
}
