//! What is told of a slot: what is configured, what serves, and why they differ.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use memory_core::predicates::Tier;

use crate::error::LoadError;

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

/// A change that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The plugin that will serve.
    pub plugin: String,
    /// Digest of its settings.
    pub digest: String,
    /// Changes there were a moment ago.
    pub changes: usize,
    /// The window in which they were.
    pub window: Duration,
}

impl fmt::Display for Pending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "settings or plugin of this tier changed {} times within {} s; the latest change follows when that time has passed",
            self.changes,
            self.window.as_secs()
        )
    }
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
    /// The change that waits, because there were too many of them a moment ago.
    pub pending: Option<Pending>,
    /// The plugin that is coming up.
    pub coming: Option<String>,
    /// What was wrong with the allow files when they were last read, a line each. What other files trust is not affected.
    pub warnings: Vec<String>,
}
