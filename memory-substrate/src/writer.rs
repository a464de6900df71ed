//! The one writer of an assistant: its lock, its state database and the log of operations, opened together.
//!
//! Opening finishes what the last writer left, however it ended. The lock is let go only after the last operation is in
//! its files, so two processes never apply the same one.

use std::io;
use std::sync::Arc;

use memory_core::env::{Clock, Ids};
use memory_core::store::{StoreError, StoreResult};
use serde::Serialize;

use self::loss::open_state;
use crate::evidence::{EvidenceJournal, Recorder};
use crate::fs::sweep::{sweep_shared, sweep_tree};
use crate::oplog::{OpLog, WriteConflict};
use crate::random::SystemRng;
use crate::remember::{Rememberer, adopt};
use crate::spool::{self, SpoolReport};
use crate::state::SqliteState;
use crate::workspace::{Workspace, WriterLock};

pub use self::loss::StateLoss;

mod loss;

/// How long old versions of files and answers to requests with a key are kept.
const KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1000;

/// The writer of one assistant. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Writer {
    workspace: Workspace,
    state: Arc<SqliteState>,
    log: OpLog,
    recorder: Recorder,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    recovery: Recovery,
}

/// What a writer found when it opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Recovery {
    /// Changes of files that an interruption had left and that were made now.
    pub applied: usize,
    /// Changes that could not be made yet; they are safe, and every reader sees them.
    pub left: usize,
    /// Changes that met an edit made meanwhile.
    pub conflicts: Vec<WriteConflict>,
    /// Notes that other processes had left.
    pub spool: SpoolReport,
    /// The state database, if it was lost.
    pub loss: Option<StateLoss>,
    /// Temporary files of writes that were cut off, which were removed.
    pub swept: usize,
}

/// Removes what writes that were cut off left. The caller holds the lock.
fn sweep(workspace: &Workspace) -> io::Result<usize> {
    let fs = workspace.fs().as_ref();
    let mut swept = sweep_tree(fs, &workspace.memory_dir())?;
    swept += sweep_tree(fs, &workspace.blobs_dir())?;
    // Others write here without the lock.
    for folder in [workspace.root().to_owned(), workspace.spool_dir()] {
        swept += sweep_shared(fs, &folder)?;
    }
    Ok(swept)
}

impl Writer {
    /// Opens the writing side of an assistant and finishes what the last writer left. It blocks.
    ///
    /// A disk that is full or failing is no error: then reading goes on and every write is refused.
    pub fn open(
        workspace: &Workspace,
        lock: WriterLock,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> StoreResult<Self> {
        let (state, loss) = open_state(workspace, clock.as_ref())?;
        if let Some(loss) = &loss {
            tracing::error!("{}", loss.message());
        }
        let mut writer = Self::over(workspace, Arc::new(state), Some(lock), clock, ids)?;
        writer.recovery.loss = loss;
        Ok(writer)
    }

    /// Opens the writing side over a state database that is open.
    pub(crate) fn over(
        workspace: &Workspace,
        state: Arc<SqliteState>,
        lock: Option<WriterLock>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> StoreResult<Self> {
        let swept = match sweep(workspace) {
            Ok(swept) => swept,
            Err(error) => {
                tracing::warn!(%error, "temporary files of earlier writes could not be removed");
                0
            }
        };
        let log = OpLog::open(workspace, Arc::clone(&state), lock)?;
        let mut recovery = Recovery {
            swept,
            ..Recovery::default()
        };
        match log.recover() {
            Ok(settled) => {
                recovery.applied = settled.applied;
                recovery.left = settled.left;
                recovery.conflicts = settled.conflicts;
            }
            Err(StoreError::ReadOnly { .. }) => {}
            Err(error) => return Err(error),
        }
        if recovery.applied > 0 {
            tracing::info!(
                applied = recovery.applied,
                left = recovery.left,
                "what an interruption had left undone was done"
            );
        }
        if log.halt().is_none()
            && let Err(error) = log.prune(clock.now().plus_millis(-KEPT_MS))
        {
            tracing::warn!(%error, "old versions could not be removed");
        }
        let journal = EvidenceJournal::new(
            Arc::clone(workspace.fs()),
            workspace.evidence_dir(),
            Arc::new(SystemRng),
        );
        let recorder = Recorder::new(Arc::clone(&state), journal);
        if log.halt().is_none()
            && let Err(error) = recorder.settle_blocking()
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "evidence is safe but could not be brought into the journal yet"
            );
        }
        let workspace = workspace.with_fs(Arc::new(log.overlay()));
        let mut writer = Self {
            workspace,
            state,
            log,
            recorder,
            clock,
            ids,
            recovery,
        };
        if writer.refusal().is_none() {
            match adopt(&writer.workspace, &writer.state) {
                Ok(0) => {}
                Ok(adopted) => tracing::info!(adopted, "items were made of entries of the buffer"),
                Err(error) => tracing::warn!(%error, "entries of the buffer have no items yet"),
            }
            match spool::drain(&writer.workspace, &writer.rememberer()) {
                Ok(report) => writer.recovery.spool = report,
                Err(error) => tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "notes that were left are kept by the next start"
                ),
            }
            if writer.recovery.spool.kept > 0 {
                drop(writer.settle());
            }
        }
        Ok(writer)
    }

    /// Returns the folder, whose files are shown as they are once every acknowledged write is in them.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Returns the state.
    pub fn state(&self) -> &Arc<SqliteState> {
        &self.state
    }

    /// Returns what was found when it opened.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Returns the intake.
    pub fn rememberer(&self) -> Rememberer {
        Rememberer::new(
            self.workspace.clone(),
            self.log.clone(),
            Arc::clone(&self.clock),
            Arc::clone(&self.ids),
        )
    }

    /// Returns what records turns as evidence.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Brings every acknowledged write into its files. It blocks.
    pub fn settle(&self) -> StoreResult<()> {
        self.log.settle().map(drop)
    }

    /// Returns the error that every write ends with; `None` while writes are accepted.
    pub fn refusal(&self) -> Option<StoreError> {
        self.log.halt().map(|halt| halt.error())
    }

    /// Returns what tells the time.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Returns what makes identifiers.
    pub fn ids(&self) -> &Arc<dyn Ids> {
        &self.ids
    }

    pub(crate) fn log(&self) -> &OpLog {
        &self.log
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
