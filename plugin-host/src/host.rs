//! The plugin machinery of a process: where plugins are, what is trusted, how long they may take, and what runs them.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use memory_core::abi::ErrorCode;
use memory_core::abi::host::Spawner;
use memory_core::causes::with_causes;
use memory_core::predicates::Tier;
use memory_core::services::{CallScope, Capability, Requester, Services};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::allow::AllowList;
use crate::build::{Build, Guest};
use crate::call::new_call;
use crate::error::{HostError, LoadError};
use crate::incident::{Incident, Quarantine};
use crate::limits::{HostOptions, Limits};
use crate::loader::{LoadTimings, Loader, verified};
use crate::log;
use crate::method::Method;
use crate::metrics::{ChangeCounters, Metrics, SlotMetrics};
use crate::registry::{Candidate, Registry};
use crate::slot::Slot;
use crate::step::{Progress, Step};
use crate::trust::{Trust, Trusted};

/// A plugin that was checked without running any of its code.
#[derive(Debug)]
pub struct Verified {
    /// The plugin.
    pub candidate: Candidate,
    /// Whether its library is the one its manifest speaks of and is trusted.
    pub result: Result<(), LoadError>,
    /// By what it is trusted, when it is.
    pub trust: Option<Trust>,
}

/// What went wrong in one build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildIncidents {
    /// The plugin.
    pub plugin: String,
    /// The tier it serves.
    pub tier: Tier,
    /// Its own version.
    pub version: String,
    /// Hash of the library.
    pub sha256: String,
    /// Why the build is not used any more, if so.
    pub quarantine: Option<Quarantine>,
    /// What went wrong, the latest last.
    pub incidents: Vec<Incident>,
}

/// The plugin machinery of a process.
#[derive(Debug)]
pub struct PluginHost {
    registry: Registry,
    allow_files: Vec<PathBuf>,
    faults: Mutex<Vec<String>>,
    limits: Arc<Limits>,
    loader: Loader,
    handle: Handle,
    log_level: AtomicU32,
    changes: ChangeCounters,
    slots: Mutex<Vec<(String, Weak<ChangeCounters>)>>,
}

/// An instance that has just come up.
pub(crate) struct Instance {
    pub(crate) guest: Guest,
    pub(crate) timings: LoadTimings,
}

/// What an instance is to be made from.
pub(crate) enum Source {
    /// The plugin of this name.
    Named(String),
    /// A build that is loaded already.
    Loaded(Arc<Build>),
}

/// A wait for the thread that loads a library and makes an instance.
///
/// When it ends before that thread does, because it took too long or because nobody wants the instance any more, the thread
/// goes on being watched. If it has not ended when it would be tried again, it is taken for one that never will.
struct Awaited {
    made: Option<oneshot::Receiver<Result<Instance, LoadError>>>,
    progress: Progress,
    host: Handle,
    retry: Duration,
}

impl Awaited {
    /// Returns what the thread has made, `None` when it is late.
    async fn within(
        &mut self,
        limit: Duration,
    ) -> Option<Result<Result<Instance, LoadError>, oneshot::error::RecvError>> {
        let made = self.made.as_mut()?;
        let answer = tokio::time::timeout(limit, made).await.ok()?;
        self.made = None;
        Some(answer)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let Some(mut made) = self.made.take() else {
            return;
        };
        let (progress, retry) = (self.progress.clone(), self.retry);
        drop(self.host.spawn(async move {
            if tokio::time::timeout(retry, &mut made).await.is_err()
                && let Some(build) = progress.build()
            {
                // An instance that came too late is shut down here.
                let ended = async { drop(made.await) };
                build.watch_late(Method::Create, retry, ended).await;
            }
        }));
    }
}

impl PluginHost {
    /// Starts the machinery. Services of the host will run on the runtime of the handle.
    pub fn start(options: HostOptions, host: Handle) -> Result<Arc<Self>, HostError> {
        let limits = Arc::new(options.limits);
        limits.check()?;
        Ok(Arc::new(Self {
            registry: Registry::new(options.folder),
            allow_files: options.allow_files,
            faults: Mutex::default(),
            loader: Loader::new(options.staging, Arc::clone(&limits), host.clone()),
            limits,
            handle: host,
            log_level: AtomicU32::new(log::current_level()),
            changes: ChangeCounters::default(),
            slots: Mutex::default(),
        }))
    }

    /// Returns the plugins of the folder.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the builds that are loaded, by plugin and then by hash.
    pub fn builds(&self) -> Vec<Arc<Build>> {
        let mut builds = self.loader.builds();
        builds.sort_by(|one, other| {
            let order = one.manifest().id.cmp(&other.manifest().id);
            order.then_with(|| one.sha256().cmp(other.sha256()))
        });
        builds
    }

    /// Returns an empty slot for an assistant.
    pub fn slot(self: &Arc<Self>, assistant: impl Into<String>) -> Slot {
        let assistant = assistant.into();
        let counters = Arc::new(ChangeCounters::default());
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|(_, counters)| counters.strong_count() > 0);
        slots.push((assistant.clone(), Arc::downgrade(&counters)));
        drop(slots);
        Slot::new(Arc::clone(self), assistant, counters)
    }

    /// Returns what the allow files trust now; an error only when none of them can be read.
    pub fn allow_list(&self) -> Result<AllowList, LoadError> {
        let mut trusted = self.trusted();
        if trusted.faults.len() < self.allow_files.len() || trusted.faults.is_empty() {
            Ok(trusted.list)
        } else {
            Err(trusted.faults.swap_remove(0))
        }
    }

    /// Returns what the allow files trust now, and what is wrong with those that cannot be read.
    pub fn trusted(&self) -> Trusted {
        let mut trusted = Trusted::default();
        for file in &self.allow_files {
            match AllowList::read(file) {
                Ok(list) => trusted.list.extend(list),
                Err(fault) => trusted.faults.push(fault),
            }
        }
        let faults = trusted
            .faults
            .iter()
            .map(|fault| with_causes(fault))
            .collect();
        let mut known = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != faults {
            for fault in &faults {
                tracing::warn!(
                    fault,
                    "an allow file cannot be read; what only it trusts is not trusted"
                );
            }
            *known = faults;
        }
        drop(known);
        trusted
    }

    /// Returns what was wrong with the allow files when they were last read, a line each.
    pub fn warnings(&self) -> Vec<String> {
        self.faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Checks every plugin of the folder without running any of its code.
    pub fn verify(&self) -> Result<Vec<Result<Verified, LoadError>>, LoadError> {
        let trusted = self.trusted();
        let check = |candidate: Candidate| {
            let decided = verified(&candidate).and_then(|_| trusted.decide(&candidate));
            let (result, trust) = match decided {
                Ok(trust) => (Ok(()), Some(trust)),
                Err(error) => (Err(error), None),
            };
            Verified {
                candidate,
                result,
                trust,
            }
        };
        let found = self.registry.scan()?.into_iter();
        Ok(found.map(|found| found.map(check)).collect())
    }

    /// Returns what went wrong in the builds that are loaded, for those in which something did.
    pub fn incidents(&self) -> Vec<BuildIncidents> {
        let of = |build: Arc<Build>| BuildIncidents {
            plugin: build.manifest().id.clone(),
            tier: build.manifest().tier,
            version: build.manifest().version.clone(),
            sha256: build.sha256().to_owned(),
            quarantine: build.quarantine(),
            incidents: build.incidents(),
        };
        let all = self.builds().into_iter().map(of);
        all.filter(|build| !build.incidents.is_empty()).collect()
    }

    /// Returns what was counted since the start.
    pub fn metrics(&self) -> Metrics {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = |(assistant, counters): &(String, Weak<ChangeCounters>)| {
            Some(SlotMetrics {
                assistant: assistant.clone(),
                changes: counters.upgrade()?.snapshot(),
            })
        };
        let mut slots: Vec<_> = slots.iter().filter_map(counted).collect();
        slots.sort_by(|one, other| one.assistant.cmp(&other.assistant));
        let builds = self.builds();
        Metrics {
            changes: self.changes.snapshot(),
            slots,
            builds: builds.iter().map(|build| build.metrics()).collect(),
        }
    }

    pub(crate) const fn changes(&self) -> &ChangeCounters {
        &self.changes
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Tells every library when the host's log filter has changed.
    pub(crate) fn follow_log_level(&self) {
        let level = log::current_level();
        if self.log_level.swap(level, Ordering::Relaxed) != level {
            for build in self.loader.builds() {
                build.set_max_level(level);
            }
        }
    }

    /// Returns whether a build was trusted and certainly is not any more. While an allow file cannot be read, nothing is
    /// certain, and what serves goes on serving.
    pub(crate) fn is_revoked(&self, build: &Build) -> bool {
        let trusted = self.trusted();
        trusted.faults.is_empty()
            && !trusted.still(build.manifest(), build.sha256(), &build.trust())
    }

    /// Loads, makes and asks an instance for its health. Nothing that serves is touched. The place is taken until the loading
    /// thread has ended.
    pub(crate) async fn bring_up(
        self: &Arc<Self>,
        assistant: &str,
        tier: Tier,
        source: Source,
        config: &str,
        services: &Services,
        place: OwnedSemaphorePermit,
    ) -> Result<Instance, LoadError> {
        let plugin = match &source {
            Source::Named(plugin) => plugin.clone(),
            Source::Loaded(build) => build.manifest().id.clone(),
        };
        let (sender, receiver) = oneshot::channel();
        let (host, assistant) = (Arc::clone(self), assistant.to_owned());
        let (config, services) = (config.to_owned(), services.clone());
        let progress = Progress::default();
        let told = progress.clone();
        // A thread of its own: code of the plugin runs in it, and if it never returns nothing waits for it.
        let load = move || {
            let made = host.load_and_create(&assistant, tier, source, &config, services, &told);
            // Nobody may be waiting any more, and then the instance is shut down here.
            drop(sender.send(made));
            drop(place);
        };
        std::thread::Builder::new()
            .name("strata-plugin-load".to_owned())
            .spawn(load)
            .map_err(|source| LoadError::Threads {
                plugin: plugin.clone(),
                source,
            })?;
        let mut awaited = Awaited {
            made: Some(receiver),
            progress,
            host: self.handle.clone(),
            retry: self.limits.retry,
        };
        let mut instance = match awaited.within(self.limits.create).await {
            Some(answer) => answer.map_err(|_| LoadError::Create {
                plugin: plugin.clone(),
                code: ErrorCode::INTERNAL,
                message: "the loading thread ended without an answer".to_owned(),
            })??,
            None => {
                return Err(LoadError::Late {
                    plugin,
                    step: awaited.progress.step(),
                    limit_ms: millis(self.limits.create),
                });
            }
        };
        instance.timings.health = self.check_health(&plugin, &instance.guest).await?;
        Ok(instance)
    }

    /// Asks a new instance for its health, and returns how long the answer took if it is a good one.
    async fn check_health(&self, plugin: &str, guest: &Guest) -> Result<Duration, LoadError> {
        let start = Instant::now();
        let scope = CallScope {
            requester: Requester {
                consumer: "health".to_owned(),
                ..Requester::default()
            },
            ..CallScope::default()
        };
        let (call, _control) = new_call(scope, self.limits.health);
        let asked = Arc::clone(guest.tier());
        let answer = async move { asked.health(&call).await };
        let plugin = plugin.to_owned();
        match guest
            .build()
            .run(Method::Health, self.limits.health, answer)
            .await
        {
            Ok(health) if health.ok => Ok(start.elapsed()),
            Ok(health) => Err(LoadError::Unhealthy {
                plugin,
                reason: health.detail,
            }),
            Err(error) if error.code == ErrorCode::DEADLINE => Err(LoadError::HealthTimeout {
                plugin,
                limit_ms: millis(self.limits.health),
            }),
            Err(error) => Err(LoadError::Unhealthy {
                plugin,
                reason: error.to_string(),
            }),
        }
    }

    fn load_and_create(
        &self,
        assistant: &str,
        tier: Tier,
        source: Source,
        config: &str,
        services: Services,
        progress: &Progress,
    ) -> Result<Instance, LoadError> {
        let mut timings = LoadTimings::default();
        let build = match source {
            Source::Loaded(build) => {
                // It was trusted when it was loaded, and that may be long ago.
                self.trusted()
                    .check_still(build.manifest(), build.sha256(), &build.trust())?;
                build
            }
            Source::Named(plugin) => {
                let candidate = self.registry.find_for(tier, &plugin)?;
                self.loader
                    .load(&candidate, &self.trusted(), progress, &mut timings)?
            }
        };
        build.check_quarantine()?;
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
        let spawner = Arc::new(HostSpawner(self.handle.clone()));
        progress.begin(Step::Create);
        let Some(_passage) = build.enter_create(self.limits.create) else {
            return Err(LoadError::Late {
                plugin: plugin.clone(),
                step: Step::Create,
                limit_ms: millis(self.limits.create),
            });
        };
        // While it waited, one of those before it may have been given up.
        build.check_quarantine()?;
        progress.begin_create(&build);
        let guest = build
            .create(narrowed, spawner, config)
            .map_err(|error| LoadError::create(plugin, error))?;
        timings.create = start.elapsed();
        Ok(Instance { guest, timings })
    }
}

/// Runs the work of services on the host's own runtime.
#[derive(Debug)]
struct HostSpawner(Handle);

impl Spawner for HostSpawner {
    fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        // The work reports its own result, and is cancelled by its own means.
        drop(self.0.spawn(work));
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
