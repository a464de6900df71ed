//! One build of a plugin, loaded for the life of the process, and its instances.
//!
//! Code of the plugin runs in five places: while the library is prepared, in `create`, in calls, in `shutdown`, and when
//! something of it is dropped. All but the first go through here, so that each is counted, listened to and held to a time.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use memory_core::abi::ErrorCode;
use memory_core::abi::host::{GuestTier, PluginManifest, PluginModule, Spawner, TierCallError};
use memory_core::services::{Capability, Services};
use tokio::runtime::Handle;

use crate::error::LoadError;
use crate::gate::{Gate, Passage};
use crate::incident::{Incident, IncidentKind, Quarantine};
use crate::method::Method;
use crate::metrics::{BuildMetrics, Ending, get};
use crate::panics;
use crate::record::Record;
use crate::threads::Threads;
use crate::trust::Trust;

/// Instances of one build that may be made at once. If none of them ends, no more threads than these are lost.
const CREATES_AT_ONCE: usize = 4;

/// One build of a plugin, loaded for the life of the process.
#[derive(Debug)]
pub struct Build {
    manifest: PluginManifest,
    sha256: String,
    module: PluginModule,
    trust: Mutex<Trust>,
    record: Arc<Record>,
    threads: Threads,
    creating: Gate,
    host: Handle,
    shutdown_limit: Duration,
}

/// What a build is made from.
pub(crate) struct Parts {
    pub(crate) manifest: PluginManifest,
    pub(crate) sha256: String,
    pub(crate) module: PluginModule,
    pub(crate) trust: Trust,
    pub(crate) record: Arc<Record>,
    pub(crate) threads: Threads,
    pub(crate) host: Handle,
    pub(crate) shutdown_limit: Duration,
}

impl Build {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            manifest: parts.manifest,
            sha256: parts.sha256,
            module: parts.module,
            trust: Mutex::new(parts.trust),
            record: parts.record,
            threads: parts.threads,
            creating: Gate::new(CREATES_AT_ONCE),
            host: parts.host,
            shutdown_limit: parts.shutdown_limit,
        }
    }

    /// Returns what the library says of itself.
    pub fn manifest(&self) -> &PluginManifest {
        &self.manifest
    }

    /// Returns the library's hash.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns by what it was trusted when it was last loaded.
    pub fn trust(&self) -> Trust {
        self.trust
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set_trust(&self, trust: Trust) {
        *self.trust.lock().unwrap_or_else(PoisonError::into_inner) = trust;
    }

    /// Returns what went wrong in it, the latest last. Only the latest are kept.
    pub fn incidents(&self) -> Vec<Incident> {
        self.record.incidents.list()
    }

    /// Returns why it is not used any more, if so.
    pub fn quarantine(&self) -> Option<Quarantine> {
        self.record.incidents.quarantine()
    }

    /// Returns an error if the build must not be used.
    pub(crate) fn check_quarantine(&self) -> Result<(), LoadError> {
        self.quarantine().map_or(Ok(()), |reason| {
            Err(LoadError::Quarantined {
                plugin: self.manifest.id.clone(),
                sha256: self.sha256.clone(),
                reason,
            })
        })
    }

    /// Returns what it has counted.
    pub fn metrics(&self) -> BuildMetrics {
        BuildMetrics {
            plugin: self.manifest.id.clone(),
            tier: self.manifest.tier,
            version: self.manifest.version.clone(),
            sha256: self.sha256.clone(),
            quarantined: self.quarantine().map(|reason| reason.to_string()),
            blocked_threads: self.threads.blocked(),
            log_lines: get(&self.record.log_lines),
            log_dropped: get(&self.record.log_dropped),
            methods: self.record.methods.snapshot(),
        }
    }

    pub(crate) fn set_max_level(&self, level: u32) {
        self.module.set_max_level(level);
    }

    /// Returns the capabilities the library asks for, those of a newer host left out.
    pub(crate) fn asked(&self) -> Vec<Capability> {
        let names = self.manifest.requires.iter().chain(&self.manifest.uses);
        names
            .filter_map(|name| Capability::from_name(name))
            .collect()
    }

    /// Waits for a place among those who make an instance; `None` when none comes free within a limit.
    pub(crate) fn enter_create(&self, limit: Duration) -> Option<Passage<'_>> {
        self.creating.enter(limit)
    }

    /// Makes an instance on this thread, which the plugin may hold for as long as it likes.
    pub(crate) fn create(
        self: &Arc<Self>,
        services: Services,
        spawner: Arc<dyn Spawner>,
        config: &str,
    ) -> Result<Guest, TierCallError> {
        let made = self.here(Method::Create, || {
            self.module.create(services, spawner, config)
        })?;
        Ok(Guest {
            build: Arc::clone(self),
            tier: Some(Arc::new(made)),
        })
    }

    /// Runs a call on the build's own threads and waits for it within a limit.
    pub(crate) async fn run<T, F>(
        &self,
        method: Method,
        limit: Duration,
        call: F,
    ) -> Result<T, TierCallError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, TierCallError>> + Send + 'static,
    {
        self.threads.run(method, limit, call).await
    }

    /// Notes an answer that cannot be used.
    pub(crate) fn note_nonsense(&self, method: Method, message: &str) {
        self.record
            .incidents
            .note(IncidentKind::Nonsense, method.name(), message);
    }

    /// Watches a thread of its own that a method has held for its time already: until it ends, the build is not used.
    pub(crate) async fn watch_late(
        &self,
        method: Method,
        limit: Duration,
        ended: impl Future<Output = ()> + Send,
    ) {
        let message = format!(
            "its thread was not given back within {} ms",
            limit.as_millis()
        );
        let loss = self.record.blocked(method, &message);
        ended.await;
        self.record.came_back(loss);
    }

    /// Runs a method on this thread, counted and listened to.
    fn here<T>(
        &self,
        method: Method,
        work: impl FnOnce() -> Result<T, TierCallError>,
    ) -> Result<T, TierCallError> {
        self.record.methods.begun(method);
        let start = Instant::now();
        let (result, heard) = panics::listen(work);
        let ending = match &result {
            Ok(_) => Ending::Answered,
            Err(error) => Ending::Failed(error.code),
        };
        self.record.methods.ended(method, ending, start.elapsed());
        match &result {
            Err(error) if error.code == ErrorCode::PANICKED => {
                self.record.panicked(method, &error.message);
            }
            _ => heard
                .iter()
                .for_each(|message| self.record.panicked(method, message)),
        }
        result
    }

    /// Shuts an instance down on a thread of its own, for which nobody waits.
    fn retire(self: &Arc<Self>, tier: Arc<GuestTier>) {
        let (ended, mut wait) = tokio::sync::oneshot::channel::<()>();
        let build = Arc::clone(self);
        let work = move || {
            let ending = build.here(Method::Shutdown, || {
                let result = tier.shutdown();
                drop(tier);
                result
            });
            if let Err(error) = ending {
                tracing::warn!(plugin = %build.manifest.id, %error, "an instance did not shut down cleanly");
            }
            // The other end may have stopped waiting.
            let _ = ended.send(());
        };
        let thread = std::thread::Builder::new().name("strata-plugin-stop".to_owned());
        if let Err(error) = thread.spawn(work) {
            let plugin = &self.manifest.id;
            tracing::warn!(plugin, %error, "no thread for shutting an instance down; it was dropped instead");
            return;
        }
        let build = Arc::clone(self);
        drop(self.host.spawn(async move {
            let limit = build.shutdown_limit;
            if tokio::time::timeout(limit, &mut wait).await.is_err() {
                let ended = async { drop(wait.await) };
                build.watch_late(Method::Shutdown, limit, ended).await;
            }
        }));
    }
}

/// An instance. Dropping it shuts it down elsewhere, since the plugin's own code runs then.
pub(crate) struct Guest {
    build: Arc<Build>,
    /// There until it is dropped. Then it is handed on whole: a copy left behind could be the last one, and end here.
    tier: Option<Arc<GuestTier>>,
}

impl Guest {
    pub(crate) const fn build(&self) -> &Arc<Build> {
        &self.build
    }

    pub(crate) fn tier(&self) -> &Arc<GuestTier> {
        self.tier.as_ref().expect("it is there until it is dropped")
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plugin = &self.build.manifest.id;
        formatter
            .debug_struct("Guest")
            .field("plugin", plugin)
            .finish_non_exhaustive()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(tier) = self.tier.take() {
            self.build.retire(tier);
        }
    }
}
