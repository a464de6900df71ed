//! One try of one job, from taking it to letting it go.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_core::env::{Clock, Rng};
use memory_core::job::{Job, Lane, Resolution, after, is_retired};
use memory_core::store::StoreResult;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{JobHandler, Stop};
use crate::blocking;
use crate::state::{SqliteState, jobs};

/// How long a job is held without word of whoever is at it.
const LEASE: Duration = Duration::from_mins(2);

/// How often word is given.
const WORD: Duration = Duration::from_secs(15);

/// What every try needs.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) state: Arc<SqliteState>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) rng: Arc<dyn Rng>,
    pub(super) handlers: HashMap<String, Arc<dyn JobHandler>>,
    /// The jobs at work here.
    pub(super) at_work: Mutex<HashMap<String, Stop>>,
    /// Whether the worker ends.
    pub(super) closing: Stop,
}

impl Bench {
    /// Does the job of a lane that is due. Returns whether there was one.
    pub(super) async fn one(&self, lane: Lane) -> StoreResult<bool> {
        let (now, lease) = (self.clock.now(), millis(LEASE));
        let ids: Vec<String> = self.at_work().keys().cloned().collect();
        let at_work = serde_json::Value::from(ids).to_string();
        let claimed = self
            .on_state(move |connection| {
                jobs::settle_left(connection, now, &at_work)?;
                jobs::claim(connection, lane, now, lease, &at_work)
            })
            .await?;
        let Some(job) = claimed else {
            return Ok(false);
        };
        let resolution = self.resolution(&job).await;
        tracing::debug!(
            job = job.id,
            kind = job.kind,
            ?resolution,
            "a job was tried"
        );
        let now = self.clock.now();
        let (rng, given) = (Arc::clone(&self.rng), job.clone());
        let is_ours = self
            .on_state(move |connection| {
                // Somebody may have cancelled it at the last moment.
                let is_stopping =
                    jobs::get(connection, &given.id)?.is_some_and(|stored| stored.is_stopping);
                let given = Job {
                    is_stopping,
                    ..given
                };
                let next = after(&given, resolution, now, rng.as_ref());
                jobs::finish(connection, &given.id, given.token, &next, now)
            })
            .await?;
        if !is_ours {
            tracing::warn!(
                job = job.id,
                kind = job.kind,
                "a job was taken over by another worker"
            );
        }
        Ok(true)
    }

    /// Returns when the next job of a lane is due, in milliseconds from now.
    pub(super) async fn due_in(&self, lane: Lane) -> StoreResult<Option<i64>> {
        let now = self.clock.now();
        let due = self
            .on_state(move |connection| jobs::next_due(connection, lane))
            .await?;
        Ok(due.map(|due| due.as_millis().saturating_sub(now.as_millis()).max(0)))
    }

    async fn resolution(&self, job: &Job) -> Resolution {
        if is_retired(&job.kind) {
            return Resolution::Completed;
        }
        let Some(handler) = self.handlers.get(&job.kind) else {
            return Resolution::Failed {
                reason: format!("nobody here knows how to do `{}`", job.kind),
            };
        };
        let stop = Stop::default();
        self.at_work().insert(job.id.clone(), stop.clone());
        let resolution = self.supervise(job, Arc::clone(handler), &stop).await;
        self.at_work().remove(&job.id);
        resolution
    }

    /// Lets a handler work in a task of its own, gives word of it, and returns only when it has ended. It is never torn off:
    /// what it has begun on another thread would go on without anybody holding the job.
    async fn supervise(&self, job: &Job, handler: Arc<dyn JobHandler>, stop: &Stop) -> Resolution {
        let (given, told) = (job.clone(), stop.clone());
        let mut work: JoinHandle<Resolution> =
            tokio::spawn(async move { handler.run(&given, &told).await });
        // It may have been cancelled before it was known to be at work here.
        if self.closing.is_set() || self.should_end(job).await {
            stop.set();
        }
        let ended = loop {
            tokio::select! {
                ended = &mut work => break ended,
                () = self.closing.wait(), if !stop.is_set() => stop.set(),
                () = sleep(WORD) => {
                    if self.should_end(job).await {
                        stop.set();
                    }
                }
            }
        };
        match ended {
            Ok(resolution) => resolution,
            Err(error) => Resolution::Failed {
                reason: format!("it panicked: {}", message(error)),
            },
        }
    }

    /// Gives word of a job. Returns whether it is to end, because somebody wants that or it is held by another.
    async fn should_end(&self, job: &Job) -> bool {
        let until = self.clock.now().plus_millis(millis(LEASE));
        let (id, token) = (job.id.clone(), job.token);
        let held = self
            .on_state(move |connection| jobs::renew(connection, &id, token, until))
            .await;
        match held {
            Ok(Some(is_stopping)) => is_stopping,
            Ok(None) => true,
            // Word can be given the next time; the lease is long enough.
            Err(error) => {
                tracing::warn!(%error, job = job.id, "a job could not be held for longer");
                false
            }
        }
    }

    pub(super) fn at_work(&self) -> MutexGuard<'_, HashMap<String, Stop>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn on_state<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let state = Arc::clone(&self.state);
        // What is lost of it in a power failure is done again, which every handler has to expect.
        blocking::run(move || state.write_unflushed_blocking(|transaction| work(transaction))).await
    }
}

fn message(error: tokio::task::JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else {
        return "for an unknown reason".to_owned();
    };
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
