//! Where plugins are, and what bounds them.

use std::path::PathBuf;
use std::time::Duration;

/// How long things may take and how often they may fail.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Loading a library and making an instance. An instance that takes longer to shut down is taken for one that never will.
    pub create: Duration,
    /// An answer to the health check.
    pub health: Duration,
    /// An answer to any other call whose own deadline is later.
    pub call: Duration,
    /// Waiting for the calls and pinned turns of an instance that was replaced.
    pub drain: Duration,
    /// Waiting once more after the remaining calls were told to stop, and after any call was given up: one that holds its
    /// thread for longer is taken for one that never gives it back.
    pub grace: Duration,
    /// How long a turn waits for a newcomer while an instance of the same tier serves. It goes on coming up, and serves
    /// later turns.
    pub patience: Duration,
    /// How long a turn waits for a newcomer while nothing of its tier serves.
    pub arrival: Duration,
    /// Before a plugin that could not be loaded is tried again with the same configuration.
    pub retry: Duration,
    /// Panics of one build within [`Self::panic_window`] after which it is no longer used.
    pub panics: usize,
    /// The window for counting panics.
    pub panic_window: Duration,
    /// Different builds one process may load.
    pub builds: usize,
    /// Changes of settings or plugin that one tier's instance may see within [`Self::dwell_window`], those that came to
    /// nothing counted; a further one waits. A change of tier, or to none, never waits.
    pub dwell_changes: usize,
    /// The window for counting changes.
    pub dwell_window: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            create: Duration::from_secs(10),
            health: Duration::from_millis(500),
            call: Duration::from_secs(10),
            drain: Duration::from_secs(5),
            grace: Duration::from_secs(1),
            patience: Duration::from_millis(250),
            arrival: Duration::from_secs(3),
            retry: Duration::from_secs(30),
            panics: 3,
            panic_window: Duration::from_mins(10),
            builds: 64,
            dwell_changes: 4,
            dwell_window: Duration::from_secs(10),
        }
    }
}

/// Where plugins are and what bounds them.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// The plugin folder; `None` when there is none.
    pub folder: Option<PathBuf>,
    /// Files that list trusted hashes and keys; read again at each load. One that cannot be read takes nothing from the others.
    pub allow_files: Vec<PathBuf>,
    /// The folder for private copies of libraries. Nobody else may write to it.
    pub staging: PathBuf,
    /// The limits.
    pub limits: Limits,
}
