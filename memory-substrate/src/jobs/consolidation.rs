//! Consolidation as a job: when it is due, and what its end means for the next time.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::job::{Job, NewJob, Resolution, Unless};
use memory_core::schedule::{Failures, Situation, begun, consolidation};
use memory_core::store::{StoreError, StoreResult};
use memory_core::text::buffer::non_empty_lines;
use memory_core::time::Timestamp;
use memory_core::wire::{checkpoint, job as name};
use rusqlite::Connection;

use super::{JobHandler, Schedule, Stop};
use crate::assistant::AssistantStore;
use crate::blocking;
use crate::consolidate::{Agent, ConsolidateOptions, RunOutcome};
use crate::state::{checkpoints, jobs};
use crate::sync::describe;
use crate::workspace::read_text_or_empty;

/// What the settings say of consolidation at some moment.
#[derive(Clone, Debug)]
pub struct ConsolidateSettings {
    /// Hours between runs.
    pub interval_hours: u32,
    /// Lines of the buffer from which a run does not wait for its time; nothing for never.
    pub most_lines: Option<u32>,
    /// What a run is made with.
    pub options: ConsolidateOptions,
    /// The model that decides; the rules without one.
    pub agent: Option<Agent>,
}

/// Consolidation of one assistant, as a job and its schedule.
#[derive(Clone)]
pub struct Consolidation {
    store: AssistantStore,
    /// Asked each time, because settings change; nothing while the assistant has no concept pages.
    settings: Arc<dyn Fn() -> Option<ConsolidateSettings> + Send + Sync>,
}

impl std::fmt::Debug for Consolidation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Consolidation")
            .finish_non_exhaustive()
    }
}

impl Consolidation {
    /// Returns the consolidation of an assistant.
    pub fn new(
        store: AssistantStore,
        settings: Arc<dyn Fn() -> Option<ConsolidateSettings> + Send + Sync>,
    ) -> Self {
        Self { store, settings }
    }

    /// Looks at the settings, which may mean to read a file.
    async fn settings(&self) -> StoreResult<Option<ConsolidateSettings>> {
        let settings = Arc::clone(&self.settings);
        blocking::run(move || Ok(settings())).await
    }
}

#[async_trait]
impl JobHandler for Consolidation {
    async fn run(&self, _job: &Job, stop: &Stop) -> Resolution {
        if stop.is_set() {
            return Resolution::Stopped;
        }
        let settings = match self.settings().await {
            Ok(Some(settings)) => settings,
            Ok(None) => return Resolution::Completed,
            Err(error) => {
                let reason = describe(&error);
                return Resolution::Retry { reason };
            }
        };
        let agent = settings.agent.as_ref();
        let ran = self.store.consolidate_with(settings.options, agent, stop);
        // When a run that failed is made again is for the schedule to say.
        match ran.await {
            Ok(report) if report.outcome == RunOutcome::Failed && stop.is_set() => {
                Resolution::Stopped
            }
            Ok(report) if report.outcome == RunOutcome::Failed => Resolution::Failed {
                reason: report.problems.join("; "),
            },
            Ok(_) => Resolution::Completed,
            Err(error @ StoreError::Locked { .. }) => Resolution::Deferred {
                reason: describe(&error),
            },
            Err(error) => Resolution::Failed {
                reason: describe(&error),
            },
        }
    }
}

#[async_trait]
impl Schedule for Consolidation {
    async fn tick(&self, now: Timestamp) -> StoreResult<()> {
        let Some(settings) = self.settings().await? else {
            return Ok(());
        };
        let id = self.store.writer()?.ids().next_id();
        let (state, workspace) = (
            Arc::clone(self.store.state()),
            self.store.workspace().clone(),
        );
        let why = blocking::run(move || {
            let (fs, path) = (workspace.fs().as_ref(), workspace.buffer_path());
            let lines = non_empty_lines(&read_text_or_empty(fs, &path)?);
            let touched = fs.info(&path).ok();
            state.write_unflushed_blocking(|transaction| {
                let at = Situation {
                    now,
                    last_run: checkpoints::instant(transaction, checkpoint::CONSOLIDATE_LAST_RUN)?,
                    interval_hours: settings.interval_hours,
                    lines,
                    touched: touched.map(|info| Timestamp::from_millis(info.modified_ms)),
                    most_lines: settings.most_lines,
                    is_active: jobs::of_kind(transaction, name::CONSOLIDATE, true)?.is_some(),
                    failures: failures(transaction)?,
                };
                let decision = consolidation(&at);
                if decision.begins_anew {
                    let key = checkpoint::CONSOLIDATE_LAST_RUN;
                    let begun = begun(at.last_run, at.interval_hours, now);
                    let value = begun.as_millis().to_string();
                    checkpoints::put(transaction, key, Some(&value), now)?;
                }
                if decision.runs {
                    let new = NewJob {
                        kind: name::CONSOLIDATE.to_owned(),
                        payload: "{\"trigger\":\"automatic\"}".to_owned(),
                        run_after: now,
                        unless: Unless::Pending,
                    };
                    jobs::enqueue(transaction, &id, &new, now)?;
                }
                Ok(decision.why)
            })
        })
        .await?;
        tracing::trace!(why, "whether to consolidate");
        Ok(())
    }
}

pub(crate) fn failures(connection: &Connection) -> StoreResult<Option<Failures>> {
    let text = checkpoints::get(connection, checkpoint::CONSOLIDATE_FAILURE_STATE)?;
    Ok(text.as_deref().and_then(Failures::read))
}
