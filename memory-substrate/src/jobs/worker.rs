//! The loops of a worker: one for each lane, and one that looks at the schedules.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory_core::env::{Clock, Rng};
use memory_core::job::Lane;
use memory_core::store::StoreResult;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::attempt::Bench;
use super::{JobHandler, Schedule, Stop};
use crate::state::SqliteState;

/// How long a lane without work waits before it looks again: the first time, and at most.
const IDLE: (Duration, Duration) = (Duration::from_millis(1_500), Duration::from_secs(30));

/// How often the schedules are looked at.
const TICK: Duration = Duration::from_mins(1);

/// Jobs done in one go by whoever waits for them.
const MOST_AT_ONCE: usize = 1_000;

/// What a worker is made of.
#[derive(Debug)]
pub struct WorkerOptions {
    /// Where jobs are kept.
    pub state: Arc<SqliteState>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Spreads what is tried again.
    pub rng: Arc<dyn Rng>,
    /// What does each kind of job.
    pub handlers: HashMap<String, Arc<dyn JobHandler>>,
    /// What asks for jobs.
    pub schedules: Vec<Arc<dyn Schedule>>,
}

/// Does the jobs of one assistant, until it is closed.
#[derive(Debug)]
pub struct Worker {
    bench: Arc<Bench>,
    schedules: Arc<Vec<Arc<dyn Schedule>>>,
    wake: Arc<Notify>,
    look: Arc<Notify>,
    loops: Mutex<JoinSet<()>>,
}

impl Worker {
    /// Returns a worker that does nothing yet.
    pub fn new(options: WorkerOptions) -> Self {
        let WorkerOptions {
            state,
            clock,
            rng,
            handlers,
            schedules,
        } = options;
        Self {
            bench: Arc::new(Bench {
                state,
                clock,
                rng,
                handlers,
                at_work: Mutex::default(),
                closing: Stop::default(),
            }),
            schedules: Arc::new(schedules),
            wake: Arc::new(Notify::new()),
            look: Arc::new(Notify::new()),
            loops: Mutex::default(),
        }
    }

    /// Begins to work in the background. Must be called inside a tokio runtime, and does nothing the second time.
    pub fn start(&self) {
        let mut loops = self
            .loops
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if !loops.is_empty() || self.bench.closing.is_set() {
            return;
        }
        for lane in Lane::ALL {
            let (bench, wake, stop) = (
                self.bench.clone(),
                self.wake.clone(),
                self.bench.closing.clone(),
            );
            loops.spawn(async move { serve(&bench, lane, &wake, &stop).await });
        }
        let (schedules, stop) = (self.schedules.clone(), self.bench.closing.clone());
        let (clock, wake, look) = (
            self.bench.clock.clone(),
            self.wake.clone(),
            self.look.clone(),
        );
        loops.spawn(async move {
            while !stop.is_set() {
                let asked = look.notified();
                for schedule in schedules.iter() {
                    let (schedule, now) = (Arc::clone(schedule), clock.now());
                    // In a task of its own, so that one that panics does not take the others along.
                    match tokio::spawn(async move { schedule.tick(now).await }).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "a schedule could not be looked at"
                        ),
                        Err(error) => tracing::error!(%error, "a schedule panicked"),
                    }
                }
                wake.notify_waiters();
                tokio::select! {
                    () = sleep(TICK) => {}
                    () = asked => {}
                    () = stop.wait() => {}
                }
            }
        });
    }

    /// Looks at the schedules and does whatever is due, without anything in the background. Returns how many jobs that were.
    pub async fn drain(&self) -> StoreResult<usize> {
        for schedule in self.schedules.iter() {
            schedule.tick(self.bench.clock.now()).await?;
        }
        let mut done = 0;
        for lane in Lane::ALL {
            while done < MOST_AT_ONCE
                && !self.bench.closing.is_set()
                && self.bench.one(lane).await?
            {
                done += 1;
            }
        }
        Ok(done)
    }

    /// Looks at the schedules and for work at once.
    pub fn wake(&self) {
        self.look.notify_waiters();
        self.wake.notify_waiters();
    }

    /// Asks a job that is at work here to end. Returns whether there is such a one.
    pub fn stop_job(&self, id: &str) -> bool {
        let stop = self.bench.at_work().get(id).cloned();
        stop.map(|stop| stop.set()).is_some()
    }

    /// Ends all work and returns when it has ended.
    pub async fn close(&self) {
        self.bench.closing.set();
        let mut loops = std::mem::take(
            &mut *self
                .loops
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        );
        while let Some(ended) = loops.join_next().await {
            if let Err(error) = ended {
                tracing::warn!(%error, "a lane did not end in order");
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.bench.closing.set();
    }
}

/// Does the jobs of one lane, one after the other.
async fn serve(bench: &Bench, lane: Lane, wake: &Notify, stop: &Stop) {
    let mut idle = IDLE.0;
    while !stop.is_set() {
        let woken = wake.notified();
        let due = match bench.one(lane).await {
            Ok(true) => {
                idle = IDLE.0;
                continue;
            }
            Ok(false) => bench.due_in(lane).await.ok().flatten(),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    lane = lane.as_str(),
                    "the queue could not be read"
                );
                None
            }
        };
        let wait = due
            .and_then(|due| u64::try_from(due).ok())
            .map_or(idle, |due| idle.min(Duration::from_millis(due.max(1))));
        tokio::select! {
            () = sleep(wait) => idle = (idle * 2).min(IDLE.1),
            () = woken => idle = IDLE.0,
            () = stop.wait() => {}
        }
    }
}
