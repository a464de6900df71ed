//! An instance that is coming up in the background, and the wait for it.
//!
//! It may take long or never come, and turns must be answered all the same. So it comes up in a task of its own, and a turn
//! waits for it as long as suits the turn, and no longer than it is wanted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::wish::{Change, Wanted};

/// How far a newcomer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is coming up.
    Coming,
    /// It is not wanted any more.
    LetGo,
    /// Its task has ended.
    Ended,
}

/// An instance that is coming up.
#[derive(Clone, Debug)]
pub struct Newcomer {
    number: u64,
    wanted: Wanted,
    patience: Duration,
    stage: Arc<watch::Sender<Stage>>,
    change: Arc<Mutex<Option<Change>>>,
}

/// The task's end of it. However the task ends, the waiting ends with it.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) number: u64,
    stage: Arc<watch::Sender<Stage>>,
    change: Arc<Mutex<Option<Change>>>,
}

impl Newcomer {
    pub(super) fn new(number: u64, wanted: Wanted, patience: Duration) -> (Self, Arrival) {
        let stage = Arc::new(watch::Sender::new(Stage::Coming));
        let change = Arc::default();
        let arrival = Arrival {
            number,
            stage: Arc::clone(&stage),
            change: Arc::clone(&change),
        };
        let newcomer = Self {
            number,
            wanted,
            patience,
            stage,
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

    /// Says that it is not wanted any more: whoever waits for it goes on, and so does its task.
    pub(super) fn let_go(&self) {
        self.stage.send_if_modified(|stage| {
            let comes = *stage == Stage::Coming;
            if comes {
                *stage = Stage::LetGo;
            }
            comes
        });
    }

    /// Returns whether nothing comes any more.
    pub(super) fn is_over(&self) -> bool {
        *self.stage.borrow() != Stage::Coming
    }

    pub(super) fn is_let_go(&self) -> bool {
        *self.stage.borrow() == Stage::LetGo
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
        let mut stage = self.stage.subscribe();
        // An error would mean that the sender is gone, which this very value holds.
        drop(stage.wait_for(|stage| *stage != Stage::Coming).await);
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
    /// Waits until it is not wanted any more.
    pub(super) async fn let_go(&self) {
        let mut stage = self.stage.subscribe();
        drop(stage.wait_for(|stage| *stage == Stage::LetGo).await);
    }

    pub(super) fn end(self, change: Change) {
        *self.change.lock().unwrap_or_else(PoisonError::into_inner) = Some(change);
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.stage.send_replace(Stage::Ended);
    }
}
