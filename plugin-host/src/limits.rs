//! Where plugins are, and what bounds them.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::HostError;

/// Faults that are remembered of a build. A quarantine that takes more of them would never come.
pub(crate) const MOST_PANICS: usize = 64;

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
    /// Panics of one build within [`Self::panic_window`] after which it is no longer used; from 1 to 64.
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

impl Limits {
    /// Returns an error for a limit with which nothing could be loaded, or that would never hold.
    pub(crate) fn check(&self) -> Result<(), HostError> {
        let positive = "more than zero";
        let panics = format!("from 1 to {MOST_PANICS}");
        for (limit, is_good, range) in [
            ("create", !self.create.is_zero(), positive),
            ("health", !self.health.is_zero(), positive),
            ("builds", self.builds > 0, positive),
            ("panics", (1..=MOST_PANICS).contains(&self.panics), &panics),
        ] {
            if !is_good {
                return Err(HostError::Limit {
                    limit,
                    range: range.to_owned(),
                });
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_make_no_sense_are_refused_by_name() {
        let check = |change: fn(&mut Limits), expected: Option<&str>| {
            let mut limits = Limits::default();
            change(&mut limits);
            let refused = limits.check().err().map(|error| error.to_string());
            assert_eq!(refused.as_deref(), expected);
        };
        check(|_| (), None);
        check(
            |limits| limits.create = Duration::ZERO,
            Some("the plugin limit `create` must be more than zero"),
        );
        check(
            |limits| limits.builds = 0,
            Some("the plugin limit `builds` must be more than zero"),
        );
        for panics in [1, MOST_PANICS] {
            let limits = Limits {
                panics,
                ..Limits::default()
            };
            assert!(limits.check().is_ok(), "{panics}");
        }
        let expected = Some("the plugin limit `panics` must be from 1 to 64");
        check(|limits| limits.panics = 0, expected);
        check(|limits| limits.panics = MOST_PANICS + 1, expected);
    }
}
