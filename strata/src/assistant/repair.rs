//! Repairing, rebuilding, copying, taking back and erasing: what is done to a memory as a whole.

use std::ops::ControlFlow;
use std::path::PathBuf;

use memory_substrate::assistant::{ReconcileProgress, ReconcileReport};
use memory_substrate::backup::BackupReport;
use memory_substrate::blocking;
use memory_substrate::erase::{EraseReport, EraseTarget};
use memory_substrate::state::PastOperation;
use memory_substrate::sync::{SyncProgress, SyncReport};
use memory_substrate::undo::UndoReport;

use super::Assistant;
use crate::error::StrataError;

impl Assistant {
    /// Holds everything that is derived against what it is derived from, and makes what differs again. May be stopped or
    /// killed anywhere; the next call goes on from there. Nothing that a person wrote is changed.
    pub async fn reconcile(
        &self,
        progress: &mut (dyn FnMut(ReconcileProgress) -> ControlFlow<()> + Send),
    ) -> Result<ReconcileReport, StrataError> {
        self.writable("repair")?;
        self.embedding.warm();
        Ok(self.engine().await?.store.reconcile(progress).await?)
    }

    /// Reads every page anew and makes the index from that, beside the one in use. That this gives the same memory is
    /// what shows that nothing else is needed.
    pub async fn rebuild(
        &self,
        progress: &mut (dyn FnMut(SyncProgress) -> ControlFlow<()> + Send),
    ) -> Result<SyncReport, StrataError> {
        self.writable("rebuild")?;
        self.embedding.warm();
        Ok(self.engine().await?.store.rebuild(progress).await?)
    }

    /// Copies everything that cannot be made again into a new folder, as it is at one moment, and checks the copy.
    pub async fn back_up(&self, to: PathBuf) -> Result<BackupReport, StrataError> {
        self.writable("back up")?;
        let writer = self.writer().await?;
        Ok(blocking::run(move || writer.back_up(&to)).await?)
    }

    /// Returns the newest operations on files, newest first.
    pub async fn operations(&self, limit: u32) -> Result<Vec<PastOperation>, StrataError> {
        let store = &self.engine().await?.store;
        Ok(store.state().past_operations(limit).await?)
    }

    /// Takes back what an operation did to files, as far as nobody has changed the same places since.
    pub async fn undo(&self, operation: &str) -> Result<UndoReport, StrataError> {
        self.writable("undo")?;
        Ok(self.engine().await?.store.undo(operation).await?)
    }

    /// Makes something unrecoverable from this assistant's folder, and searches every byte of it afterwards. What lies
    /// outside, such as backups, is not reached.
    pub async fn erase(
        &self,
        target: EraseTarget,
        progress: &mut (dyn FnMut(SyncProgress) -> ControlFlow<()> + Send),
    ) -> Result<EraseReport, StrataError> {
        self.writable("erase")?;
        self.embedding.warm();
        Ok(self.engine().await?.store.erase(target, progress).await?)
    }
}
