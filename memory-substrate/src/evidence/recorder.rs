//! Turns as evidence: acknowledged with the tree, in one commit, and brought into the journal afterwards.
//!
//! The redo record is kept until the journal has flushed the record, and doing it again is harmless because a record is
//! known by its key. So whatever a crash leaves is finished by the next writer, or by the next turn.

use std::sync::{Arc, Mutex, PoisonError};

use memory_core::store::{
    ConversationRows, Erasure, EvidenceStream, ExpectedHead, StoreError, StoreResult, StreamHead,
    TurnNode,
};
use memory_core::time::Timestamp;

use super::EvidenceJournal;
use crate::blocking;
use crate::state::SqliteState;
use crate::state::evidence::{self, Redo};

/// What evidence waits to be brought into the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvidenceBacklog {
    /// Redo records that are not in the journal yet.
    pub waiting: u64,
    /// Redo records that the journal refused for good.
    pub refused: u64,
}

/// Records what is said. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Recorder {
    state: Arc<SqliteState>,
    journal: EvidenceJournal,
    /// Held while redo records are carried out, so that they are in their order.
    settling: Arc<Mutex<()>>,
}

impl Recorder {
    /// Returns the recorder of an assistant that is open for writing.
    pub(crate) fn new(state: Arc<SqliteState>, journal: EvidenceJournal) -> Self {
        Self {
            state,
            journal,
            settling: Arc::default(),
        }
    }

    /// Returns the journal. Ask [`settle`](Self::settle) first for what was acknowledged a moment ago.
    pub fn journal(&self) -> &EvidenceJournal {
        &self.journal
    }

    /// Makes the messages of a turn part of the tree and evidence, both or neither. The first is the one that began the
    /// turn. When this returns, it survives anything; the same again changes nothing.
    pub async fn end_turn(&self, messages: Vec<TurnNode>) -> StoreResult<()> {
        self.commit(move |connection| evidence::end_turn(connection, &messages))
            .await
    }

    /// Removes everything that belongs to a conversation, and erases what it said.
    pub async fn delete_conversation(
        &self,
        conversation: &str,
        at: Timestamp,
    ) -> StoreResult<ConversationRows> {
        let conversation = conversation.to_owned();
        self.commit(move |connection| evidence::delete_conversation(connection, &conversation, at))
            .await
    }

    /// Brings everything that was acknowledged into the journal.
    pub async fn settle(&self) -> StoreResult<()> {
        let recorder = self.clone();
        blocking::run(move || recorder.settle_blocking()).await
    }

    /// Returns what waits.
    pub async fn backlog(&self) -> StoreResult<EvidenceBacklog> {
        backlog_of(&self.state).await
    }

    async fn commit<T: Send + 'static>(
        &self,
        change: impl FnOnce(&rusqlite::Connection) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let recorder = self.clone();
        blocking::run(move || {
            let done = recorder
                .state
                .write_blocking(|transaction| change(transaction))?;
            // It is safe even if the journal cannot have it yet.
            if let Err(error) = recorder.settle_blocking() {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "evidence is safe but could not be brought into the journal yet"
                );
            }
            Ok(done)
        })
        .await
    }

    /// Does what [`settle`](Self::settle) does, on the calling thread, which may block.
    pub(crate) fn settle_blocking(&self) -> StoreResult<()> {
        let _settling = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        let open = self.state.read_blocking(evidence::open)?;
        if open.is_empty() {
            return Ok(());
        }
        let (mut done, mut refused) = (Vec::new(), Vec::new());
        let mut ended = Ok(());
        for (seq, redo) in open {
            match self.carry_out(redo) {
                Ok(()) => done.push(seq),
                // The same request will not be better another time, and must not keep the others waiting.
                Err(StoreError::BadRequest { reason }) => {
                    tracing::error!(reason, "evidence was refused and is kept for a look at it");
                    refused.push((seq, reason));
                }
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        // Without this note the next writer does the same once more and finds it in place, so it need not be flushed.
        self.state.write_unflushed_blocking(|transaction| {
            evidence::close(transaction, &done, &refused)
        })?;
        ended
    }

    fn carry_out(&self, redo: Redo) -> StoreResult<()> {
        match redo {
            Redo::Append { stream, evidence } => self
                .journal
                .append_blocking(&stream, *evidence, &ExpectedHead::Any)
                .map(drop),
            Redo::EraseSession {
                session,
                reason,
                at,
            } => {
                let is_of = |head: &StreamHead| match &head.stream {
                    EvidenceStream::Session { session: of, .. } => *of == session,
                    EvidenceStream::Project(_) | EvidenceStream::Import(_) => false,
                };
                let streams = self.journal.heads_blocking()?.into_iter().filter(is_of);
                let what = Erasure::Streams(streams.map(|head| head.stream).collect());
                self.journal.erase_blocking(&what, reason, at).map(drop)
            }
        }
    }
}

/// Returns what waits according to a state database that somebody else may be writing to.
pub async fn backlog_of(state: &SqliteState) -> StoreResult<EvidenceBacklog> {
    let (waiting, refused) = state.read(evidence::backlog).await?;
    Ok(EvidenceBacklog { waiting, refused })
}

#[cfg(test)]
mod tests;
