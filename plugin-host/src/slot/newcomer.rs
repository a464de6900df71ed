//! An instance that is coming up in the background, and the wait for it.
//!
//! It may take long or never come, and turns must be answered all the same. So it comes up in a task of its own, and a turn
//! waits for it as long as suits the turn.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::wish::{Change, Wanted};

/// An instance that is coming up.
#[derive(Clone, Debug)]
pub struct Newcomer {
    number: u64,
    wanted: Wanted,
    patience: Duration,
    ended: watch::Receiver<bool>,
    change: Arc<Mutex<Option<Change>>>,
}

/// The task's end of it. However the task ends, the waiting ends with it.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) number: u64,
    ended: watch::Sender<bool>,
    change: Arc<Mutex<Option<Change>>>,
}

impl Newcomer {
    pub(super) fn new(number: u64, wanted: Wanted, patience: Duration) -> (Self, Arrival) {
        let (sender, ended) = watch::channel(false);
        let change = Arc::default();
        let arrival = Arrival {
            number,
            ended: sender,
            change: Arc::clone(&change),
        };
        let newcomer = Self {
            number,
            wanted,
            patience,
            ended,
            change,
        };
        (newcomer, arrival)
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) const fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Returns whether its task is gone without an end, as when the host's runtime was shut down.
    pub(super) fn is_lost(&self) -> bool {
        self.ended.has_changed().is_err() && !*self.ended.borrow()
    }

    pub(super) fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Returns how long a turn should wait for it: longer when nothing of its tier serves meanwhile.
    pub const fn patience(&self) -> Duration {
        self.patience
    }

    /// Waits until it serves, was refused, or is not wanted any more.
    pub async fn ended(&self) {
        // An error means that the task is gone, and so nothing comes any more.
        drop(self.ended.clone().wait_for(|ended| *ended).await);
    }

    /// Returns what became of it, to the first who asks once it has ended.
    pub fn take_change(&self) -> Option<Change> {
        self.change
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Arrival {
    pub(super) fn end(self, change: Change) {
        *self.change.lock().unwrap_or_else(PoisonError::into_inner) = Some(change);
        // Nobody may be waiting.
        self.ended.send_replace(true);
    }
}
