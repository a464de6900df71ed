//! What other processes hand in, done as if this process's own host had asked for it.
//!
//! Who they are was settled by the socket: processes of this user, which could open the assistant themselves. So they may
//! say what a host may say of where a text comes from and who speaks, and what a host may not have kept is refused to
//! them by the same checks; the name under which it is written down is ours. A guest holds the assistant only while it
//! does something: once its host has let it go, nobody else keeps it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use memory_substrate::assistant::EngineProgress;
use memory_substrate::erase::EraseTarget;
use memory_substrate::ingest::IngestSource;
use memory_substrate::workspace::Workspace;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::beside::{
    AttachedWith, BegunTurn, EndWith, EventWith, IngestWith, RecordWith, RememberWith, Taken,
};
use super::consolidate::ConsolidateWith;
use super::decide::TurnCounters;
use super::{Access, Assistant, Doorway, Engine, Writing};
use crate::embedding::Embedding;
use crate::error::{ErrorKind, StrataError};
use crate::model::LiveModel;
use crate::options::StrataOptions;
use crate::plugins::Plugins;
use crate::settings::LiveSettings;
use crate::socket::{Door, Fault, FaultCode, Operation, Service, Steps, Visitor, arguments};
use crate::turn::{Injection, TurnInput};

/// Under which name a guest's notes are written down.
const ACTOR: &str = "strata socket";

/// Most turns that a guest may have begun and not finished; with more, the oldest is given up.
const MOST_TURNS: usize = 4096;

/// An assistant as guests reach it: without a hold on what only its host may keep.
pub(super) struct Host {
    /// A guest may be who takes the lock anew, and then the host listens again.
    door: Weak<Door>,
    options: Arc<StrataOptions>,
    plugins: Arc<Plugins>,
    workspace: Workspace,
    settings: Arc<LiveSettings>,
    embedding: Embedding,
    model: Arc<LiveModel>,
    writing: Weak<tokio::sync::Mutex<Writing>>,
    here: Arc<AtomicBool>,
    engine: Weak<OnceCell<Engine>>,
    reading: Weak<OnceCell<Engine>>,
    served: Arc<TurnCounters>,
}

impl Host {
    /// Returns an assistant as its guests reach it.
    pub(super) fn of(assistant: &Assistant) -> Self {
        Self {
            door: assistant.door.weak(),
            options: Arc::clone(&assistant.options),
            plugins: Arc::clone(&assistant.plugins),
            workspace: assistant.workspace.clone(),
            settings: Arc::clone(&assistant.settings),
            embedding: assistant.embedding.clone(),
            model: Arc::clone(&assistant.model),
            writing: Arc::downgrade(&assistant.writing),
            here: Arc::clone(&assistant.here),
            engine: Arc::downgrade(&assistant.engine),
            reading: Arc::downgrade(&assistant.reading),
            served: Arc::clone(&assistant.served),
        }
    }

    /// Holds the assistant for one request; nothing once its host has let it go.
    fn enter(&self) -> Option<Assistant> {
        Some(Assistant {
            door: Doorway::Of(Weak::clone(&self.door)),
            options: Arc::clone(&self.options),
            plugins: Arc::clone(&self.plugins),
            workspace: self.workspace.clone(),
            access: Access::ReadWrite,
            settings: Arc::clone(&self.settings),
            embedding: self.embedding.clone(),
            model: Arc::clone(&self.model),
            writing: self.writing.upgrade()?,
            here: Arc::clone(&self.here),
            engine: self.engine.upgrade()?,
            reading: self.reading.upgrade()?,
            served: Arc::clone(&self.served),
        })
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Host")
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

impl Service for Host {
    fn receive(self: Arc<Self>) -> Arc<dyn Visitor> {
        Arc::new(Guest {
            host: self,
            turns: Mutex::default(),
        })
    }
}

/// One client.
struct Guest {
    host: Arc<Host>,
    turns: Mutex<Turns>,
}

/// Turns that a guest began and has not finished.
#[derive(Default)]
struct Turns {
    begun: BTreeMap<u64, Arc<tokio::sync::Mutex<Injection>>>,
    last: u64,
}

#[async_trait]
impl Visitor for Guest {
    async fn answer(
        &self,
        operation: Operation,
        with: Value,
        steps: Steps,
    ) -> Result<Value, Fault> {
        let assistant = self.host.enter().ok_or_else(Fault::closing)?;
        let mut indexing = |at| steps.tell(EngineProgress::Indexing(at));
        match operation {
            Operation::Remember => {
                let RememberWith { input, key } = arguments(with)?;
                answered(assistant.keep_here(input, Some(key), ACTOR).await)
            }
            Operation::Forget => {
                let id: String = arguments(with)?;
                answered(assistant.forget(&id).await)
            }
            Operation::Ingest => {
                let IngestWith::<IngestSource> { source, options } = arguments(with)?;
                let follow = &mut |at| steps.tell(at);
                let done = assistant.ingest(source, options, follow).await;
                answered(done.map(|(report, index)| Taken { report, index }))
            }
            Operation::Sync => answered(assistant.sync(&mut indexing).await),
            Operation::Reindex => answered(assistant.reindex(&mut indexing).await),
            Operation::Rebuild => answered(assistant.rebuild(&mut indexing).await),
            Operation::Reconcile => {
                let follow = &mut |at| steps.tell(EngineProgress::Repairing(at));
                answered(assistant.reconcile(follow).await)
            }
            Operation::BackUp => {
                let to: PathBuf = arguments(with)?;
                answered(assistant.back_up(to).await)
            }
            Operation::Consolidate => {
                let ConsolidateWith { cause, dry_run } = arguments(with)?;
                answered(assistant.consolidate(cause, dry_run).await)
            }
            Operation::Work => answered(assistant.work().await),
            Operation::CancelJob => {
                let id: String = arguments(with)?;
                answered(assistant.cancel_job(&id).await)
            }
            Operation::RetryJob => {
                let id: String = arguments(with)?;
                answered(assistant.retry_job(&id).await)
            }
            Operation::Undo => {
                let operation: String = arguments(with)?;
                answered(assistant.undo(&operation).await)
            }
            Operation::Erase => {
                let target: EraseTarget = arguments(with)?;
                answered(assistant.erase(target, &mut indexing).await)
            }
            Operation::BeginTurn => {
                let input: TurnInput = arguments(with)?;
                let injection = assistant.begin_turn(input).await;
                encoded(&self.begun(injection))
            }
            Operation::Attached => {
                let AttachedWith { turn, blocks } = arguments(with)?;
                let turn = self.turn(turn)?;
                let mut injection = turn.lock().await;
                injection.blocks = blocks;
                answered(assistant.attached(&injection).await)
            }
            Operation::EndTurn => {
                let EndWith { turn, end } = arguments(with)?;
                let turn = self.turn(turn)?;
                let injection = turn.lock().await;
                answered(assistant.end_turn(&injection, end).await)
            }
            Operation::RecordTurn => {
                let with: RecordWith = arguments(with)?;
                answered(assistant.record(with).await)
            }
            Operation::Event => {
                let EventWith {
                    conversation,
                    event,
                } = arguments(with)?;
                answered(assistant.on_event(&conversation, event).await)
            }
            Operation::ClearConversations => answered(assistant.clear_conversations().await),
        }
    }

    fn give_up(&self, turn: u64) {
        drop(self.turns().begun.remove(&turn));
    }
}

impl Guest {
    /// Keeps a turn until the guest finishes it, and returns what the guest gets of it.
    fn begun(&self, injection: Injection) -> BegunTurn {
        let mut turns = self.turns();
        turns.last += 1;
        let turn = turns.last;
        let begun = BegunTurn {
            turn,
            recorded: injection.pending.recorded,
            blocks: injection.blocks.clone(),
            trace: injection.trace.clone(),
            notices: injection.notices.clone(),
        };
        let injection = Arc::new(tokio::sync::Mutex::new(injection));
        turns.begun.insert(turn, injection);
        if turns.begun.len() > MOST_TURNS {
            drop(turns.begun.pop_first());
        }
        begun
    }

    fn turn(&self, turn: u64) -> Result<Arc<tokio::sync::Mutex<Injection>>, Fault> {
        self.turns().begun.get(&turn).cloned().ok_or_else(|| {
            let kind = ErrorKind::Unavailable;
            Fault::new(FaultCode::UnknownTurn, kind, "the turn is not known here")
        })
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answered<T: Serialize>(result: Result<T, StrataError>) -> Result<Value, Fault> {
    encoded(&result?)
}

fn encoded(value: &impl Serialize) -> Result<Value, Fault> {
    serde_json::to_value(value).map_err(|error| {
        let message = format!("it was done, but the answer cannot be written: {error}");
        Fault::new(FaultCode::Failed, ErrorKind::Failed, message)
    })
}
