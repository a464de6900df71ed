//! What a host keeps about one build: its counters and its incidents.
//!
//! It exists before the build does, because a library may log and panic while it is still being prepared.

use std::sync::atomic::AtomicU64;

use crate::incident::{IncidentKind, Incidents, Loss};
use crate::method::Method;
use crate::metrics::MethodCounters;

/// Counters and incidents of one build.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) plugin: String,
    pub(crate) incidents: Incidents,
    pub(crate) methods: MethodCounters,
    pub(crate) log_lines: AtomicU64,
    pub(crate) log_dropped: AtomicU64,
}

impl Record {
    pub(crate) fn new(plugin: &str, incidents: Incidents) -> Self {
        Self {
            plugin: plugin.to_owned(),
            incidents,
            methods: MethodCounters::default(),
            log_lines: AtomicU64::new(0),
            log_dropped: AtomicU64::new(0),
        }
    }

    /// Notes a contained panic.
    pub(crate) fn panicked(&self, method: Method, message: &str) {
        self.methods.panicked(method);
        let count = self
            .incidents
            .note(IncidentKind::Panic, method.name(), message);
        let (plugin, method) = (self.plugin.as_str(), method.name());
        tracing::error!(
            plugin,
            method,
            message,
            count,
            "a plugin panicked; the panic was contained"
        );
    }

    /// Notes a thread that does not come back.
    pub(crate) fn blocked(&self, method: Method, message: &str) -> Loss {
        let loss = self.incidents.lost(method.name(), message);
        let (plugin, method) = (self.plugin.as_str(), method.name());
        tracing::error!(
            plugin,
            method,
            message,
            "a plugin blocks its thread; until it gives it back this build is not used"
        );
        loss
    }

    /// Notes that a thread came back after all.
    pub(crate) fn came_back(&self, loss: Loss) {
        let (plugin, method) = (self.plugin.as_str(), loss.method());
        tracing::warn!(plugin, method, "a plugin gave a thread back after all");
        self.incidents.came_back(loss);
    }
}
