//! Group commit: requests that wait for the same disk share one flushed transaction.
//!
//! Whoever finds nobody committing commits everything that waits by then, its own request included; whoever comes
//! meanwhile waits and is usually served by the next one. A request that is alone waits for nobody. Each request runs
//! in a savepoint of its own, so one that is refused costs the others nothing.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_core::store::{StoreError, StoreResult};
use rusqlite::{Connection, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::operation::{Operation, Plan, Request};
use crate::state::{SqliteState, ops, savepoint};

/// Most requests in one transaction.
const LARGEST_GROUP: usize = 64;

/// Requests that wait to be committed.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Vec<Box<dyn Job>>>,
    leading: Mutex<()>,
}

impl fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Queue")
    }
}

/// A request on its way.
trait Job: Send {
    /// Does the request's part of the transaction. `None` when there is nothing to apply.
    fn run(&mut self, connection: &Connection, epoch: i64) -> StoreResult<Option<Operation>>;

    /// Tells whoever waits how it ended.
    fn finish(&mut self, ended: StoreResult<()>);
}

/// Where the answer to a request is left.
type Slot<T> = Arc<Mutex<Option<StoreResult<T>>>>;

struct Pledge<T, F> {
    request: Request,
    plan: Option<F>,
    value: Option<T>,
    slot: Slot<T>,
}

impl<T, F> Pledge<T, F> {
    fn answer(&self, answer: StoreResult<T>) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }
}

impl<T, F> Job for Pledge<T, F>
where
    T: Serialize + DeserializeOwned + Send,
    F: FnOnce(&Connection) -> StoreResult<Plan<T>> + Send,
{
    fn run(&mut self, connection: &Connection, epoch: i64) -> StoreResult<Option<Operation>> {
        if ops::epoch(connection)? != epoch {
            return Err(StoreError::Locked {
                holder: "another writer has taken over; open the assistant again".to_owned(),
            });
        }
        if let Some(key) = &self.request.context.key
            && let Some(answered) = ops::answered(connection, key)?
        {
            // Of what was forgotten since, only the key is left to compare.
            if !answered.request.is_empty() && answered.request != self.request.hash {
                return Err(StoreError::BadRequest {
                    reason: format!("the key `{key}` was used for another request"),
                });
            }
            let outcome = serde_json::from_str(&answered.outcome).map_err(|error| {
                StoreError::engine("read the answer to a repeated request", error)
            })?;
            self.value = Some(outcome);
            return Ok(None);
        }
        let Some(plan) = self.plan.take() else {
            return Err(StoreError::BadRequest {
                reason: "a request runs once".to_owned(),
            });
        };
        let plan = plan(connection)?;
        if plan.parts.is_empty() && self.request.context.key.is_none() {
            self.value = Some(plan.outcome);
            return Ok(None);
        }
        let outcome = serde_json::to_string(&plan.outcome)
            .map_err(|error| StoreError::engine("record the answer to a request", error))?;
        let (value, operation) = ops::add(connection, &self.request, epoch, plan, &outcome)?;
        self.value = Some(value);
        Ok((!operation.parts.is_empty()).then_some(operation))
    }

    fn finish(&mut self, ended: StoreResult<()>) {
        let answer = match (ended, self.value.take()) {
            (Ok(()), Some(value)) => Ok(value),
            (Ok(()), None) => return,
            (Err(error), _) => Err(error),
        };
        self.answer(answer);
    }
}

impl<T, F> Drop for Pledge<T, F> {
    fn drop(&mut self) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever committed this panicked before the answer was known.
        slot.get_or_insert_with(|| {
            Err(StoreError::engine(
                "commit a write",
                "a write that shared its commit panicked",
            ))
        });
    }
}

impl Queue {
    /// Commits a request, alone or with others. `committed` is told of every operation before anybody is answered.
    pub(super) fn commit<T>(
        &self,
        state: &SqliteState,
        epoch: i64,
        request: Request,
        plan: impl FnOnce(&Connection) -> StoreResult<Plan<T>> + Send + 'static,
        committed: &dyn Fn(Vec<Operation>),
        failed: &dyn Fn(StoreError) -> StoreError,
    ) -> StoreResult<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let slot: Slot<T> = Slot::default();
        self.waiting().push(Box::new(Pledge {
            request,
            plan: Some(plan),
            value: None,
            slot: Arc::clone(&slot),
        }));
        loop {
            let leading = self.leading.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(answer) = slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return answer;
            }
            self.lead(state, epoch, committed, failed);
            drop(leading);
        }
    }

    fn lead(
        &self,
        state: &SqliteState,
        epoch: i64,
        committed: &dyn Fn(Vec<Operation>),
        failed: &dyn Fn(StoreError) -> StoreError,
    ) {
        let mut group: Vec<Box<dyn Job>> = {
            let mut waiting = self.waiting();
            let count = waiting.len().min(LARGEST_GROUP);
            waiting.drain(..count).collect()
        };
        let ended = state.write_blocking(|transaction| run_all(&mut group, transaction, epoch));
        match ended {
            Ok(results) => {
                let mut operations = Vec::new();
                let mut answers = Vec::with_capacity(results.len());
                for result in results {
                    answers.push(result.map(|operation| operations.extend(operation)));
                }
                committed(operations);
                for (job, answer) in group.iter_mut().zip(answers) {
                    job.finish(answer.map_err(failed));
                }
            }
            Err(error) => {
                let error = failed(error);
                let mut others = group.iter_mut();
                let first = others.next();
                for job in others {
                    job.finish(Err(same(&error)));
                }
                if let Some(job) = first {
                    job.finish(Err(error));
                }
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Box<dyn Job>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs every request. The result is an error only if the whole transaction is lost.
fn run_all(
    group: &mut [Box<dyn Job>],
    transaction: &Transaction<'_>,
    epoch: i64,
) -> StoreResult<Vec<StoreResult<Option<Operation>>>> {
    if let [job] = group {
        return Ok(vec![Ok(job.run(transaction, epoch)?)]);
    }
    group
        .iter_mut()
        .map(|job| savepoint(transaction, |connection| job.run(connection, epoch)))
        .collect()
}

/// Returns an error that says the same.
fn same(error: &StoreError) -> StoreError {
    match error {
        StoreError::ReadOnly {
            action,
            place,
            cause,
            remedy,
        } => StoreError::ReadOnly {
            action: action.clone(),
            place: place.clone(),
            cause: cause.clone(),
            remedy: remedy.clone(),
        },
        error => StoreError::engine("commit a write", crate::sync::describe(error)),
    }
}
