//! An assistant whose writer is another process: what is to be written is handed to that one.
//!
//! Reading stays here. A turn that is to be recorded is begun there, because only the instance of the tier that chose a
//! block can commit it; if that process ends before the turn does, whoever writes then records it without that. Most requests may be repeated without harm, by their key or by what they are; these are handed in
//! again, or done here, when the writer goes away before it has answered.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::services::Notice;
use memory_core::store::StoreError;
use memory_substrate::assistant::EngineProgress;
use memory_substrate::ingest::{IngestOptions, IngestReport, IngestSource};
use memory_substrate::remember::RememberInput;
use memory_substrate::sync::{SyncProgress, SyncReport};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;

use super::route::{PAUSE, Route};
use super::{Access, Assistant, ConversationEvent, begin};
use crate::error::{ErrorKind, StrataError, cause_chain};
use crate::socket::{Client, Fault, FaultCode, LinkError, Operation};
use crate::turn::{InjectedBlock, Injection, TurnEnd, TurnIds, TurnInput, TurnTrace};

/// How long a turn waits for a writer that is just coming or going.
const TURN_PATIENCE: Duration = Duration::from_millis(250);

/// How long a turn waits for a writer to choose. The tier's own deadline is well below.
const ANSWER_TIME: Duration = Duration::from_secs(8);

/// How often a request is handed in again whose answer was lost.
const MOST_LOSSES: u32 = 3;

/// A note to keep.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RememberWith {
    pub(super) input: RememberInput,
    pub(super) key: String,
}

/// Pages to take in.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IngestWith<S> {
    pub(super) source: S,
    pub(super) options: IngestOptions,
}

/// What became of them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) report: IngestReport,
    pub(super) index: SyncReport,
}

/// A turn that was begun.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BegunTurn {
    pub(super) turn: u64,
    pub(super) recorded: bool,
    pub(super) blocks: Vec<InjectedBlock>,
    pub(super) trace: TurnTrace,
    pub(super) notices: Vec<Notice>,
}

/// Blocks of a turn that went into a prompt.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AttachedWith {
    pub(super) turn: u64,
    pub(super) blocks: Vec<InjectedBlock>,
}

/// The end of a turn.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EndWith {
    pub(super) turn: u64,
    pub(super) end: TurnEnd,
}

/// A turn that was begun in a process that cannot finish it, and what is known of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordWith {
    /// With the name that the message was given when the turn was begun.
    pub(super) input: TurnInput,
    pub(super) trace: TurnTrace,
    /// What went into the prompt, if that is to be recorded.
    pub(super) blocks: Option<Vec<InjectedBlock>>,
    /// How the turn ended, if it did; a reply has a name.
    pub(super) end: Option<TurnEnd>,
}

/// What happened to a conversation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EventWith {
    pub(super) conversation: String,
    pub(super) event: ConversationEvent,
}

/// Which process can finish a turn.
#[derive(Debug)]
pub(crate) enum TurnHome {
    /// This one.
    Here,
    /// The writer it was begun by.
    There(RemoteTurn),
    /// Whichever writes by then: it was chosen with what can be read here, because no writer could be asked.
    Anywhere,
}

/// A turn that another process holds until this is dropped.
#[derive(Debug)]
pub(crate) struct RemoteTurn {
    client: Arc<Client>,
    turn: u64,
}

impl RemoteTurn {
    /// Records that blocks went into a prompt; nothing when that process does not know the turn any more.
    pub(super) async fn attached(
        &self,
        blocks: &[InjectedBlock],
    ) -> Result<Option<()>, StrataError> {
        let with = AttachedWith {
            turn: self.turn,
            blocks: blocks.to_vec(),
        };
        self.ask(Operation::Attached, &with).await
    }

    /// Makes the turn part of its conversation; nothing when that process does not know the turn any more.
    pub(super) async fn end(&self, end: &TurnEnd) -> Result<Option<Option<TurnIds>>, StrataError> {
        let with = EndWith {
            turn: self.turn,
            end: end.clone(),
        };
        self.ask(Operation::EndTurn, &with).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        operation: Operation,
        with: &impl Serialize,
    ) -> Result<Option<T>, StrataError> {
        match self.client.ask(operation, arguments(with)?).await {
            Ok(answer) => Ok(Some(answer)),
            Err(LinkError::Failed(fault)) if fault.code != FaultCode::UnknownTurn => {
                Err(fault.into())
            }
            Err(_) => Ok(None),
        }
    }
}

impl Drop for RemoteTurn {
    fn drop(&mut self) {
        self.client.give_up(self.turn);
    }
}

/// A turn, as far as another process has to do with it.
#[derive(Debug)]
pub(super) enum Begun {
    /// It is to be begun here, and can be finished there.
    Here(TurnHome),
    /// It was begun in another process.
    There(Box<Injection>),
}

impl Assistant {
    /// Begins a turn where it can be recorded, or says that it is to be begun here.
    pub(super) async fn begin_there(&self, input: &TurnInput) -> Begun {
        if self.access == Access::ReadOnly {
            return Begun::Here(TurnHome::Here);
        }
        for _ in 0..MOST_LOSSES {
            let client = match self.route(TURN_PATIENCE).await {
                Ok(Route::Here) => return Begun::Here(TurnHome::Here),
                Ok(Route::There(client)) => client,
                Err(error) => {
                    let reason = cause_chain(&error).join(": ");
                    tracing::debug!(reason, "a turn is begun without a writer");
                    break;
                }
            };
            let asked = match arguments(input) {
                Ok(with) => timeout(ANSWER_TIME, client.ask(Operation::BeginTurn, with)).await,
                Err(error) => Ok(Err(LinkError::Failed(error.into()))),
            };
            match asked {
                Ok(Ok(begun)) => {
                    let config = self.settings.in_force().config;
                    let injection = injection_of(begun, client, input, &config);
                    return Begun::There(Box::new(injection));
                }
                Ok(Err(LinkError::Failed(fault))) => {
                    let reason = fault.message();
                    tracing::debug!(reason, "a turn is begun without the writer");
                    break;
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, "another writer is looked for");
                    self.unlink(&client).await;
                }
                Err(_) => {
                    tracing::warn!("the process that writes does not answer");
                    break;
                }
            }
        }
        Begun::Here(TurnHome::Anywhere)
    }

    /// Has a turn recorded by whichever process writes now. Without the tier that chose its blocks nothing is committed
    /// with that, so at worst a section is shown again.
    pub(super) async fn record_anywhere(
        &self,
        with: RecordWith,
    ) -> Result<Option<TurnIds>, StrataError> {
        let request = Request::repeatable("record a turn", Operation::RecordTurn);
        match self.hand_over(request, &with, &mut go_on).await? {
            Some(recorded) => Ok(recorded),
            None => self.record(with).await,
        }
    }

    /// Has pages taken in by the writer; nothing when that is this process.
    pub(super) async fn ingest_there(
        &self,
        source: &IngestSource,
        options: IngestOptions,
        progress: &mut (dyn FnMut(EngineProgress) -> ControlFlow<()> + Send),
    ) -> Result<Option<(IngestReport, SyncReport)>, StrataError> {
        let with = IngestWith { source, options };
        let request = Request::repeatable("ingest", Operation::Ingest);
        let taken: Option<Taken> = self.hand_over(request, &with, progress).await?;
        Ok(taken.map(|Taken { report, index }| (report, index)))
    }

    /// Has the index brought up to date or made anew by the writer; nothing when that is this process.
    pub(super) async fn index_there(
        &self,
        operation: Operation,
        progress: &mut (dyn FnMut(SyncProgress) -> ControlFlow<()> + Send),
    ) -> Result<Option<SyncReport>, StrataError> {
        let request = Request::repeatable("index", operation);
        self.hand_over(request, &(), &mut of_index(progress)).await
    }

    /// Tells the writer what happened to a conversation, and returns whether that is another process.
    pub(super) async fn event_there(
        &self,
        conversation: &str,
        event: &ConversationEvent,
    ) -> Result<bool, StrataError> {
        let with = EventWith {
            conversation: conversation.to_owned(),
            event: event.clone(),
        };
        let (action, operation) = ("take note of an event", Operation::Event);
        // A copy cannot be made twice, and the others would undo what somebody else did in between.
        let request = match event {
            ConversationEvent::Fork { .. }
            | ConversationEvent::Rewind { .. }
            | ConversationEvent::Delete => Request::once(action, operation),
            _ => Request::repeatable(action, operation),
        };
        let done: Option<()> = self.hand_over(request, &with, &mut go_on).await?;
        Ok(done.is_some())
    }

    /// Has the writer forget the context of every conversation, and returns whether that is another process.
    pub(super) async fn clear_there(&self) -> Result<bool, StrataError> {
        let operation = Operation::ClearConversations;
        let request = Request::repeatable("clear conversations", operation);
        let done: Option<()> = self.hand_over(request, &(), &mut go_on).await?;
        Ok(done.is_some())
    }

    /// Hands a request to the writer, and returns nothing when that is this process.
    pub(super) async fn hand_over<T: DeserializeOwned>(
        &self,
        request: Request,
        with: &(impl Serialize + Sync),
        progress: &mut (dyn FnMut(EngineProgress) -> ControlFlow<()> + Send),
    ) -> Result<Option<T>, StrataError> {
        let Request {
            action,
            operation,
            repeatable,
        } = request;
        let (mut losses, mut failing): (u32, Option<Instant>) = (0, None);
        // After a lost answer nobody can say that it was not done.
        let failed = |losses: u32, error: StrataError| match losses {
            0 => error,
            _ => StrataError::Unanswered { action },
        };
        loop {
            let failed_for = failing.map_or_else(Default::default, |since| since.elapsed());
            let patience = self.options.write_patience.saturating_sub(failed_for);
            let route = self.route(patience).await;
            let client = match route.map_err(|error| failed(losses, error))? {
                Route::Here => return Ok(None),
                Route::There(client) => client,
            };
            let error = match client.follow(operation, arguments(with)?, progress).await {
                Ok(answer) => return Ok(Some(answer)),
                Err(LinkError::Failed(fault)) => return Err(fault.into()),
                Err(error) => error,
            };
            self.unlink(&client).await;
            if matches!(error, LinkError::Lost) {
                losses += 1;
                if !repeatable || losses > MOST_LOSSES {
                    return Err(StrataError::Unanswered { action });
                }
                failing = None;
            }
            if failing.get_or_insert_with(Instant::now).elapsed() >= self.options.write_patience {
                let holder = format!(
                    "another process writes to `{}` and could not be asked; {}",
                    self.workspace.root().display(),
                    cause_chain(&error).join(": ")
                );
                return Err(failed(losses, StoreError::Locked { holder }.into()));
            }
            tracing::debug!(%error, action, "another way is looked for");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Something that only the writer can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    action: &'static str,
    operation: Operation,
    /// Whether doing it twice is the same as doing it once.
    repeatable: bool,
}

impl Request {
    pub(super) fn repeatable(action: &'static str, operation: Operation) -> Self {
        Self {
            action,
            operation,
            repeatable: true,
        }
    }

    /// Returns a request whose second run would fail after the first, or undo what came in between, so that a lost answer
    /// is told as such.
    pub(super) fn once(action: &'static str, operation: Operation) -> Self {
        Self {
            repeatable: false,
            ..Self::repeatable(action, operation)
        }
    }
}

/// Follows the part of a request that is about the index, and ignores the others.
pub(super) fn of_index(
    progress: &mut (dyn FnMut(SyncProgress) -> ControlFlow<()> + Send),
) -> impl FnMut(EngineProgress) -> ControlFlow<()> + Send {
    move |at| match at {
        EngineProgress::Indexing(at) => progress(at),
        _ => ControlFlow::Continue(()),
    }
}

/// Ignores how far a request is.
pub(super) fn go_on(_: EngineProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Returns the arguments of a request as they are handed over.
pub(super) fn arguments(with: &impl Serialize) -> Result<Value, StrataError> {
    serde_json::to_value(with).map_err(|error| {
        let message = format!("the request cannot be handed to the process that writes: {error}");
        Fault::new(FaultCode::Malformed, ErrorKind::Usage, message).into()
    })
}

fn injection_of(
    begun: BegunTurn,
    client: Arc<Client>,
    input: &TurnInput,
    config: &memory_core::config::Config,
) -> Injection {
    let BegunTurn {
        turn,
        recorded,
        blocks,
        trace,
        notices,
    } = begun;
    let mut injection = begin::empty(input.clone(), config);
    injection.blocks = blocks;
    injection.trace = trace;
    injection.notices = notices;
    injection.pending.recorded = recorded;
    injection.pending.home = TurnHome::There(RemoteTurn { client, turn });
    injection
}
