//! Repairing, rebuilding, copying, taking back and erasing: what is done to a memory as a whole.

use std::ops::ControlFlow;
use std::path::PathBuf;

use memory_substrate::assistant::{EngineProgress, ReconcileProgress, ReconcileReport};
use memory_substrate::backup::BackupReport;
use memory_substrate::blocking;
use memory_substrate::erase::{EraseReport, EraseTarget};
use memory_substrate::error::SubstrateError;
use memory_substrate::pages::PagesReport;
use memory_substrate::state::PastOperation;
use memory_substrate::sync::{SyncProgress, SyncReport};
use memory_substrate::undo::UndoReport;

use super::Assistant;
use super::beside::{Request, go_on, of_index};
use crate::error::StrataError;
use crate::socket::Operation;

impl Assistant {
    /// Holds everything that is derived against what it is derived from, and makes what differs again. May be stopped or
    /// killed anywhere; the next call goes on from there. Nothing that a person wrote is changed.
    pub async fn reconcile(
        &self,
        progress: &mut (dyn FnMut(ReconcileProgress) -> ControlFlow<()> + Send),
    ) -> Result<ReconcileReport, StrataError> {
        self.writable("repair")?;
        let request = Request::repeatable("repair", Operation::Reconcile);
        let mut follow = |at| match at {
            EngineProgress::Repairing(at) => progress(at),
            _ => ControlFlow::Continue(()),
        };
        if let Some(report) = self.hand_over(request, &(), &mut follow).await? {
            return Ok(report);
        }
        self.embedding.warm();
        Ok(self.engine().await?.store.reconcile(progress).await?)
    }

    /// Returns what a person may want to mend in their pages: links that lead nowhere, pages that are too long, places that
    /// could not be understood. It works whatever tier is on, and changes nothing.
    pub async fn validate(&self) -> Result<PagesReport, StrataError> {
        let longest = self.look().await?.config.memory.substrate.max_page_chars;
        let store = &self.engine().await?.store;
        store.refresh().await?;
        Ok(store.validate(longest as usize).await?)
    }

    /// Reads every page anew and makes the index from that, beside the one in use. That this gives the same memory is
    /// what shows that nothing else is needed.
    pub async fn rebuild(
        &self,
        progress: &mut (dyn FnMut(SyncProgress) -> ControlFlow<()> + Send),
    ) -> Result<SyncReport, StrataError> {
        self.writable("rebuild")?;
        if let Some(report) = self.index_there(Operation::Rebuild, progress).await? {
            return Ok(report);
        }
        self.embedding.warm();
        Ok(self.engine().await?.store.rebuild(progress).await?)
    }

    /// Copies everything that cannot be made again into a new folder, as it is at one moment, and checks the copy.
    pub async fn back_up(&self, to: PathBuf) -> Result<BackupReport, StrataError> {
        self.writable("back up")?;
        // The process that writes may stand in another folder.
        let to = std::path::absolute(&to).map_err(|source| SubstrateError::Io {
            action: "look for",
            path: to,
            source,
        })?;
        let request = Request::once("back up", Operation::BackUp);
        if let Some(report) = self.hand_over(request, &to, &mut go_on).await? {
            return Ok(report);
        }
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
        let request = Request::repeatable("undo", Operation::Undo);
        if let Some(report) = self.hand_over(request, &operation, &mut go_on).await? {
            return Ok(report);
        }
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
        let request = Request::once("erase", Operation::Erase);
        let there = self
            .hand_over(request, &target, &mut of_index(progress))
            .await?;
        if let Some(report) = there {
            return Ok(report);
        }
        self.embedding.warm();
        Ok(self.engine().await?.store.erase(target, progress).await?)
    }
}
