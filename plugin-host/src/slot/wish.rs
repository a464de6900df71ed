//! What is to serve, and what became of the wish.

use memory_core::predicates::Tier;
use tokio::task::JoinHandle;

use super::newcomer::Newcomer;
use crate::drain::Drained;
use crate::loader::LoadTimings;

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

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.tier == other.tier && self.plugin == other.plugin && self.digest == other.digest
    }
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
    /// It is still coming up, and serves later turns if it comes; what served before still does.
    Coming,
    /// Another wish came before it was fulfilled.
    Superseded,
    /// It is of the tier that serves, and there were too many such changes a moment ago; what served before still does, and
    /// a later call makes the change.
    Postponed,
}

/// What a call of [`Slot::ensure`](super::Slot::ensure) did.
#[derive(Debug)]
pub struct Change {
    /// What became of the wish.
    pub outcome: Outcome,
    /// How long the new instance took to come up, when there is one.
    pub timings: Option<LoadTimings>,
    /// The drain of the instance that was replaced. It runs whether or not anybody waits for it.
    pub drain: Option<JoinHandle<Drained>>,
}

/// What was begun about a wish.
#[derive(Debug)]
pub enum Begun {
    /// There is nothing to wait for.
    Settled(Change),
    /// An instance is coming up. Once it has ended, the wish is looked at again.
    Coming(Newcomer),
}

impl Change {
    pub(super) const fn without_newcomer(outcome: Outcome) -> Self {
        Self {
            outcome,
            timings: None,
            drain: None,
        }
    }
}
