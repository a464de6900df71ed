//! The one repair: everything that is derived is held against what it is derived from, and what differs is made again.
//!
//! Each step looks before it acts and leaves what it did behind it, so the whole may be cut off anywhere and the next run
//! goes on from there. It needs no knowledge of what went wrong. Nothing that a person wrote is changed.

use std::ops::ControlFlow;

use memory_core::store::{ItemStore as _, OrphanSweep, StoreResult, TurnTree as _};
use serde::{Deserialize, Serialize};

use super::AssistantStore;
use super::report::IntegrityReport;
use crate::blocking;
use crate::oplog::WriteConflict;
use crate::spool::SpoolReport;
use crate::sync::{SyncProgress, SyncReport, describe};

/// How long rows without a conversation are left alone, because the conversation may be about to begin: a day.
const ORPHAN_GRACE_MS: i64 = 24 * 60 * 60 * 1000;
/// How long word of a changed item is held while it is dealt with.
const LEASE_MS: i64 = 10 * 60 * 1000;
/// Words of changed items taken at once.
const EVENTS: u32 = 256;

/// A step of the repair, in the order in which they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReconcileStep {
    /// Acknowledged writes are brought into their files, and notes that were left are kept.
    Files,
    /// Every page file is looked at.
    Pages,
    /// The index is compared with the pages.
    Compare,
    /// Pages are embedded and written to the index.
    Index,
    /// What was derived from items that changed, and rows without a conversation.
    State,
    /// The database and the ledger are held against their own digests.
    Verify,
}

/// How far the repair is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReconcileProgress {
    /// The step at hand.
    pub step: ReconcileStep,
    /// What is done of it, in pages.
    pub done: usize,
    /// What there is to do; 0 when that is not known.
    pub total: usize,
}

/// What the repair found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReconcileReport {
    /// Changes of files that were acknowledged and that were made now.
    pub applied: usize,
    /// Changes that could not be made yet; they are safe.
    pub left: usize,
    /// Changes that met an edit.
    pub conflicts: Vec<WriteConflict>,
    /// Notes that other processes had left.
    pub spool: SpoolReport,
    /// Pages that were found changed.
    pub changed: usize,
    /// Pages that were found gone.
    pub removed: usize,
    /// How the index compared with the pages before anything was done about it.
    pub before: IntegrityReport,
    /// Whether the index was made anew instead of mended.
    pub rebuilt: bool,
    /// What was written to the index.
    pub index: SyncReport,
    /// Conversations that do not exist and whose rows were removed.
    pub orphans: usize,
    /// Changes of items that were followed up.
    pub followed: usize,
    /// How the index compares with the pages now.
    pub after: IntegrityReport,
    /// What is wrong and cannot be repaired from anything.
    pub faults: Vec<String>,
    /// Whether it was stopped before it was through.
    pub stopped: bool,
}

impl ReconcileReport {
    /// Returns whether everything agrees now.
    pub fn is_clean(&self) -> bool {
        !self.stopped && self.left == 0 && self.after.is_clean() && self.faults.is_empty()
    }
}

/// Told how far the repair is; may stop it. What was not finished is done by the next run.
pub type OnReconcile<'a> = dyn FnMut(ReconcileProgress) -> ControlFlow<()> + Send + 'a;

/// Tells that a step begins, and returns whether to go on.
fn begin(progress: &mut OnReconcile<'_>, step: ReconcileStep) -> ControlFlow<()> {
    progress(ReconcileProgress {
        step,
        done: 0,
        total: 0,
    })
}

impl AssistantStore {
    /// Brings everything that is derived in line with what it is derived from.
    pub async fn reconcile(&self, progress: &mut OnReconcile<'_>) -> StoreResult<ReconcileReport> {
        let mut report = ReconcileReport::default();
        report.stopped = self
            .reconcile_steps(&mut report, progress)
            .await?
            .is_break();
        Ok(report)
    }

    async fn reconcile_steps(
        &self,
        report: &mut ReconcileReport,
        progress: &mut OnReconcile<'_>,
    ) -> StoreResult<ControlFlow<()>> {
        if begin(progress, ReconcileStep::Files).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.reconcile_files(report).await?;
        if begin(progress, ReconcileStep::Pages).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let looked = self.look(true).await?;
        (report.changed, report.removed) = (looked.changed, looked.removed);
        if begin(progress, ReconcileStep::Compare).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        report.before = self.integrity().await?;
        report.rebuilt = report.before.damage.is_some();
        let mut indexing = |at: SyncProgress| {
            progress(ReconcileProgress {
                step: ReconcileStep::Index,
                done: at.done,
                total: at.total,
            })
        };
        report.index = if report.rebuilt {
            self.reindex(&mut indexing).await?
        } else {
            self.waiting().extend(report.before.pages.iter().cloned());
            self.sync(&mut indexing).await?
        };
        if report.index.stopped {
            return Ok(ControlFlow::Break(()));
        }
        if begin(progress, ReconcileStep::State).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        report.followed = self.follow_items().await?;
        report.orphans = self.sweep_orphans().await?.conversations.len();
        if begin(progress, ReconcileStep::Verify).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        report.after = self.integrity().await?;
        report.faults = self.faults().await?;
        if let Some(error) = self.upkeep_error().await? {
            report.faults.push(error);
        }
        Ok(ControlFlow::Continue(()))
    }

    async fn reconcile_files(&self, report: &mut ReconcileReport) -> StoreResult<()> {
        let writer = self.writer()?.clone();
        let (settled, spool, evidence) = blocking::run(move || {
            let settled = writer.log().settle()?;
            let spool = crate::spool::drain(writer.workspace(), &writer.rememberer());
            let later = writer.log().settle()?;
            let evidence = writer.recorder().settle_blocking();
            Ok::<_, memory_core::store::StoreError>((
                crate::oplog::Settled {
                    applied: settled.applied + later.applied,
                    left: later.left,
                    conflicts: [settled.conflicts, later.conflicts].concat(),
                },
                spool,
                evidence,
            ))
        })
        .await?;
        report.applied = settled.applied;
        report.left = settled.left;
        report.conflicts = settled.conflicts;
        match spool {
            Ok(spool) => report.spool = spool,
            Err(error) => report.faults.push(describe(&error)),
        }
        if let Err(error) = evidence {
            report.faults.push(describe(&error));
        }
        Ok(())
    }

    /// Deals with what has happened to items since the last time: pages that cite one are indexed again. Returns how many
    /// changes that were.
    pub async fn follow_items(&self) -> StoreResult<usize> {
        self.writer()?;
        let (state, clock) = (&self.engine.shared.state, &self.engine.shared.clock);
        let mut followed = 0;
        loop {
            let events = state.lease_outbox(clock.now(), LEASE_MS, EVENTS).await?;
            if events.is_empty() {
                return Ok(followed);
            }
            let mut pages = Vec::new();
            for event in &events {
                let cited = state.citations(&event.item).await?;
                pages.extend(cited.into_iter().map(|citation| citation.page));
            }
            self.waiting().extend(pages);
            let synced = self.sync(&mut |_| ControlFlow::Continue(())).await;
            for event in &events {
                let noted = match &synced {
                    Ok(_) => state.ack_outbox(event.event, event.token).await,
                    Err(_) => state
                        .release_outbox(event.event, event.token, clock.now())
                        .await
                        .map(drop),
                };
                // Somebody else has taken it since, and deals with it.
                if let Err(error) = noted {
                    tracing::debug!(%error, "word of a changed item was taken by another");
                }
            }
            synced?;
            followed += events.len();
        }
    }

    /// Removes rows of conversations that do not exist, if they were seen a day ago already.
    pub async fn sweep_orphans(&self) -> StoreResult<OrphanSweep> {
        self.writer()?;
        let now = self.engine.shared.clock.now();
        let state = &self.engine.shared.state;
        state.sweep_orphans(now, ORPHAN_GRACE_MS, false).await
    }

    /// Returns what is wrong with what nothing else could give back.
    async fn faults(&self) -> StoreResult<Vec<String>> {
        let state = &self.engine.shared.state;
        let mut faults = Vec::new();
        if let Err(error) = state.check().await {
            faults.push(describe(&error));
            return Ok(faults);
        }
        match state.verify_ledger().await {
            Ok(ledger) => faults.extend(ledger.faults.into_iter().map(|fault| {
                format!(
                    "operation {} of the ledger: {}",
                    fault.sequence, fault.reason
                )
            })),
            Err(error) => faults.push(describe(&error)),
        }
        let backlog = state.outbox_backlog().await?;
        if backlog.dead > 0 {
            faults.push(format!(
                "{} changes of items could not be followed up",
                backlog.dead
            ));
        }
        Ok(faults)
    }
}
