//! The queue as whoever runs an assistant sees it.

use std::sync::Arc;

use memory_core::job::{Job, JobStatus, NewJob};
use memory_core::store::StoreResult;
use serde::{Deserialize, Serialize};

use crate::assistant::AssistantStore;
use crate::blocking;
use crate::state::jobs;

/// How many jobs there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCounts {
    /// Those that wait.
    pub pending: u64,
    /// Those at work.
    pub running: u64,
    /// Those that were done, as far as they are kept.
    pub completed: u64,
    /// Those that failed for good.
    pub failed: u64,
    /// Those that nobody wanted any more.
    pub cancelled: u64,
}

impl AssistantStore {
    /// Asks for a job. Returns its identifier, or that of the one that makes it superfluous, and whether it is new.
    pub async fn enqueue(&self, new: NewJob) -> StoreResult<(String, bool)> {
        let (id, now) = (self.writer()?.ids().next_id(), self.now());
        let state = Arc::clone(self.state());
        blocking::run(move || {
            state.write_blocking(|transaction| jobs::enqueue(transaction, &id, &new, now))
        })
        .await
    }

    /// Returns the newest jobs, newest first.
    pub async fn jobs(&self, limit: u32) -> StoreResult<Vec<Job>> {
        let state = Arc::clone(self.state());
        blocking::run(move || state.read_blocking(|connection| jobs::newest(connection, limit)))
            .await
    }

    /// Returns how many jobs there are of each status.
    pub async fn job_counts(&self) -> StoreResult<JobCounts> {
        let state = Arc::clone(self.state());
        let found = blocking::run(move || state.read_blocking(jobs::counts)).await?;
        let mut counts = JobCounts::default();
        for (status, number) in found {
            *match status {
                JobStatus::Pending => &mut counts.pending,
                JobStatus::Running => &mut counts.running,
                JobStatus::Completed => &mut counts.completed,
                JobStatus::Failed => &mut counts.failed,
                JobStatus::Cancelled => &mut counts.cancelled,
            } = number;
        }
        Ok(counts)
    }

    /// Cancels a job that waits, and asks one that is at work to end. Returns how far it has come then.
    pub async fn cancel_job(&self, id: &str) -> StoreResult<JobStatus> {
        self.writer()?;
        let (state, now, id) = (Arc::clone(self.state()), self.now(), id.to_owned());
        blocking::run(move || {
            let status = state.write_blocking(|transaction| jobs::cancel(transaction, &id, now))?;
            status.ok_or_else(|| jobs::unknown(&id))
        })
        .await
    }

    /// Has a job tried again that failed or was cancelled. Returns how far it has come then.
    pub async fn retry_job(&self, id: &str) -> StoreResult<JobStatus> {
        self.writer()?;
        let (state, now, id) = (Arc::clone(self.state()), self.now(), id.to_owned());
        blocking::run(move || {
            let status = state.write_blocking(|transaction| jobs::retry(transaction, &id, now))?;
            status.ok_or_else(|| jobs::unknown(&id))
        })
        .await
    }
}
