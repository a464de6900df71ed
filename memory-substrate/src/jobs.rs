//! The worker: takes jobs from the queue and does them, each lane by itself.
//!
//! A lane is one loop, so a job that takes many minutes holds up nothing but its own lane, and no schedule. A job is held
//! under a lease that is renewed while it is at work. One that is cancelled is told so, and only when its work has really
//! ended is it let go.

mod attempt;
mod consolidation;
mod queue;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use memory_core::job::{Job, Resolution};
use memory_core::store::StoreResult;
use memory_core::time::Timestamp;
use tokio::sync::Notify;

pub(crate) use self::consolidation::failures;
pub use self::consolidation::{ConsolidateSettings, Consolidation};
pub use self::queue::JobCounts;
pub use self::worker::{Worker, WorkerOptions};

/// Does one kind of job.
#[async_trait]
pub trait JobHandler: Send + Sync + std::fmt::Debug {
    /// Does a job. It has to look at `stop` wherever it can end, and must leave nothing half done.
    async fn run(&self, job: &Job, stop: &Stop) -> Resolution;
}

/// Asks for jobs when their time has come.
#[async_trait]
pub trait Schedule: Send + Sync + std::fmt::Debug {
    /// Looks what is due, and asks for it. Looking more often changes nothing.
    async fn tick(&self, now: Timestamp) -> StoreResult<()>;
}

/// Whether work is to end. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_set: AtomicBool,
    set: Notify,
}

impl Stop {
    /// Asks the work to end.
    pub fn set(&self) {
        self.0.is_set.store(true, Ordering::SeqCst);
        self.0.set.notify_waiters();
    }

    /// Returns whether the work is to end.
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::SeqCst)
    }

    /// Waits until the work is to end.
    pub async fn wait(&self) {
        loop {
            let set = self.0.set.notified();
            if self.is_set() {
                return;
            }
            set.await;
        }
    }
}

#[cfg(test)]
mod tests;
