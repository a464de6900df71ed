//! The other side: a process that hands its requests to the one that writes.
//!
//! Several requests may run at once; each waits on a channel of its own. A request whose answer never came may have been
//! done, and only its caller knows whether it may be repeated, so "not begun" and "lost" are told apart wherever the
//! writer said enough.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_substrate::assistant::EngineProgress;
use memory_substrate::workspace::Workspace;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::frame::{self, FrameReader};
use super::protocol::{Fault, FaultCode, Hello, Operation, Said, Told, VERSION, Welcome};
use super::{
    GREETING_TIME, LONGEST_ANSWER, LONGEST_GREETING, LONGEST_REQUEST, MOST_AT_ONCE,
    SHORTEST_GREETING, SILENCE, endpoint,
};
use crate::error::ErrorKind;

/// Why a request to the writer has no result.
#[derive(Debug, Error)]
pub(crate) enum LinkError {
    /// Nobody could be asked. Go another way.
    #[error("the process that writes cannot be reached")]
    Unreachable(#[source] io::Error),
    /// The writer did not begin it. Go another way.
    #[error("the process that writes did not take the request: {}", .0.message())]
    NotBegun(Fault),
    /// The connection ended before the answer. It may have been done; repeat it only if that does no harm.
    #[error("the process that writes went away before it answered")]
    Lost,
    /// The writer says that it failed, or that it makes no sense. Report it.
    #[error("{}", .0.message())]
    Failed(Fault),
}

impl LinkError {
    /// Returns whether the same writer may take the same request a moment later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Lost => true,
            Self::NotBegun(fault) => matches!(fault.code, FaultCode::Busy | FaultCode::Closing),
            Self::Failed(_) => false,
        }
    }
}

impl From<Fault> for LinkError {
    fn from(fault: Fault) -> Self {
        if fault.was_not_begun() {
            Self::NotBegun(fault)
        } else {
            Self::Failed(fault)
        }
    }
}

/// A connection to the process that writes.
#[derive(Debug)]
pub(crate) struct Client {
    out: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<Waiting>,
    next: AtomicU64,
    room: Semaphore,
    reader: AbortHandle,
    /// With nothing heard for this long, the writer counts as gone.
    pub(super) silence: Duration,
}

/// Requests that wait for an answer; `None` once nothing more can be heard.
#[derive(Debug)]
struct Waiting(Mutex<Option<Callers>>);

#[derive(Debug, Default)]
struct Callers {
    channels: HashMap<u64, mpsc::UnboundedSender<Heard>>,
    /// Why the writer takes no more requests.
    ended: Option<Fault>,
}

/// What one request hears.
#[derive(Debug)]
enum Heard {
    Working,
    Progress(EngineProgress),
    Done(Value),
    Failed(Fault),
}

impl Waiting {
    fn callers(&self) -> MutexGuard<'_, Option<Callers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes on what the writer told.
    fn hear(&self, told: Told) {
        let mut callers = self.callers();
        let Some(callers) = callers.as_mut() else {
            return;
        };
        let (id, heard) = match told {
            Told::Working => {
                callers
                    .channels
                    .retain(|_, channel| channel.send(Heard::Working).is_ok());
                return;
            }
            Told::Ended { fault, running } => {
                callers.channels.retain(|id, channel| {
                    running.contains(id) || {
                        drop(channel.send(Heard::Failed(fault.clone())));
                        false
                    }
                });
                callers.ended = Some(fault);
                return;
            }
            Told::Progress { id, at } => (id, Heard::Progress(at)),
            Told::Done { id, value } => (id, Heard::Done(value)),
            Told::Failed { id, fault } => (id, Heard::Failed(fault)),
        };
        if let Some(channel) = callers.channels.get(&id) {
            // Its caller may have given up.
            drop(channel.send(heard));
        }
    }

    /// Ends every wait.
    fn end(&self) {
        *self.callers() = None;
    }
}

impl Client {
    /// Connects to the writer of an assistant, and gives up soon for a caller without patience.
    pub(crate) async fn connect(
        socket: &Path,
        workspace: &Workspace,
        patience: Duration,
    ) -> Result<Self, LinkError> {
        let hello = Hello {
            strata: VERSION,
            assistant: workspace.id().to_string(),
            root: endpoint::root_of(workspace),
        };
        Self::connect_as(&hello, socket, patience).await
    }

    /// Connects as whoever opens with this.
    pub(super) async fn connect_as(
        hello: &Hello,
        socket: &Path,
        patience: Duration,
    ) -> Result<Self, LinkError> {
        let connecting = async {
            let stream = endpoint::connect(socket)
                .await
                .map_err(LinkError::Unreachable)?;
            Self::over(stream, hello).await
        };
        timeout(patience.clamp(SHORTEST_GREETING, GREETING_TIME), connecting)
            .await
            .unwrap_or_else(|_| Err(LinkError::Unreachable(io::ErrorKind::TimedOut.into())))
    }

    /// Opens a connection over a stream.
    pub(super) async fn over<S>(stream: S, hello: &Hello) -> Result<Self, LinkError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (reading, mut writing) = tokio::io::split(stream);
        let hello = frame::encode(hello, LONGEST_GREETING).map_err(LinkError::Unreachable)?;
        // A writer without room answers at once and hears nothing.
        let said = frame::write(&mut writing, &hello).await;
        let mut reader = FrameReader::new(reading, LONGEST_GREETING);
        let answer = match (reader.next().await, said) {
            (Ok(answer), _) => answer,
            (Err(_), Err(error)) => return Err(LinkError::Unreachable(error)),
            (Err(error), Ok(())) => return Err(LinkError::Unreachable(io::Error::other(error))),
        };
        let welcome: Welcome = serde_json::from_slice(&answer.bytes)
            .map_err(|error| LinkError::Unreachable(error.into()))?;
        if let Some(fault) = welcome.refused {
            return Err(LinkError::NotBegun(fault));
        }
        if welcome.strata != VERSION {
            let message = format!(
                "it speaks version {} of the socket's protocol, this process version {VERSION}",
                welcome.strata
            );
            let fault = Fault::new(FaultCode::Version, ErrorKind::Unavailable, message);
            return Err(LinkError::NotBegun(fault));
        }
        let calls = Arc::new(Waiting(Mutex::new(Some(Callers::default()))));
        let (out, outgoing) = mpsc::unbounded_channel();
        tokio::spawn(write_all(outgoing, writing));
        let reader = reader.accepting(LONGEST_ANSWER);
        let reader = tokio::spawn(read_all(reader, Arc::clone(&calls))).abort_handle();
        Ok(Self {
            out,
            waiting: calls,
            next: AtomicU64::new(1),
            room: Semaphore::new(MOST_AT_ONCE),
            reader,
            silence: SILENCE,
        })
    }

    /// Returns whether it takes requests.
    pub(crate) fn is_open(&self) -> bool {
        let callers = self.waiting.callers();
        callers
            .as_ref()
            .is_some_and(|callers| callers.ended.is_none())
    }

    /// Asks for something, without being told how far it is.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        operation: Operation,
        with: Value,
    ) -> Result<T, LinkError> {
        self.follow(operation, with, &mut |_| ControlFlow::Continue(()))
            .await
    }

    /// Asks for something and is told how far it is. To break is to ask it to stop; its answer still comes.
    pub(crate) async fn follow<T: DeserializeOwned>(
        &self,
        operation: Operation,
        with: Value,
        progress: &mut (dyn FnMut(EngineProgress) -> ControlFlow<()> + Send),
    ) -> Result<T, LinkError> {
        let unsaid = |error: &dyn std::fmt::Display| {
            let message = format!("the request cannot be handed on: {error}");
            LinkError::Failed(Fault::new(FaultCode::TooLong, ErrorKind::Usage, message))
        };
        let operation = serde_json::to_value(operation).map_err(|error| unsaid(&error))?;
        let _room = self.room.acquire().await.map_err(|_| gone())?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let request = Said::Request {
            id,
            operation,
            with,
        };
        let request = frame::encode(&request, LONGEST_REQUEST).map_err(|error| unsaid(&error))?;
        let mut call = self.register(id)?;
        let mut stopped = false;
        if self.out.send(request).is_err() {
            return Err(gone());
        }
        loop {
            let heard = match timeout(self.silence, call.heard.recv()).await {
                Ok(Some(heard)) => heard,
                Ok(None) => return Err(LinkError::Lost),
                Err(_) => {
                    self.hang_up();
                    return Err(LinkError::Lost);
                }
            };
            match heard {
                Heard::Working => {}
                Heard::Progress(at) => {
                    // What was told before it heard of that is of no interest any more.
                    if !stopped && progress(at).is_break() {
                        stopped = true;
                        self.say(&Said::Stop { id });
                    }
                }
                Heard::Done(value) => {
                    call.answered = true;
                    return serde_json::from_value(value)
                        .map_err(|error| Fault::malformed("the answer", &error).into());
                }
                Heard::Failed(fault) => {
                    call.answered = true;
                    return Err(fault.into());
                }
            }
        }
    }

    /// Says that a turn will not be finished.
    pub(crate) fn give_up(&self, turn: u64) {
        self.say(&Said::GiveUp { turn });
    }

    fn register(&self, id: u64) -> Result<Call<'_>, LinkError> {
        let mut callers = self.waiting.callers();
        let callers = callers.as_mut().ok_or_else(gone)?;
        if let Some(fault) = &callers.ended {
            return Err(LinkError::NotBegun(fault.clone()));
        }
        let (channel, heard) = mpsc::unbounded_channel();
        callers.channels.insert(id, channel);
        Ok(Call {
            client: self,
            id,
            heard,
            answered: false,
        })
    }

    /// Says something that has no answer.
    fn say(&self, said: &Said) {
        if let Ok(frame) = frame::encode(said, LONGEST_REQUEST) {
            // Without a connection there is nothing left to say it about.
            drop(self.out.send(frame));
        }
    }

    fn hang_up(&self) {
        self.reader.abort();
        self.waiting.end();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // What was said last is still sent; nobody waits for an answer.
        self.reader.abort();
    }
}

/// Returns the error of a connection that was gone before anything was said.
fn gone() -> LinkError {
    LinkError::Unreachable(io::ErrorKind::NotConnected.into())
}

/// A request that waits, until it is dropped.
struct Call<'a> {
    client: &'a Client,
    id: u64,
    heard: mpsc::UnboundedReceiver<Heard>,
    answered: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(callers) = self.client.waiting.callers().as_mut() {
            callers.channels.remove(&self.id);
        }
        if !self.answered {
            // Nobody waits any more, so it may end where it can.
            self.client.say(&Said::Stop { id: self.id });
        }
    }
}

async fn write_all(
    mut outgoing: mpsc::UnboundedReceiver<Vec<u8>>,
    mut writing: impl AsyncWrite + Unpin,
) {
    while let Some(frame) = outgoing.recv().await {
        if let Err(error) = frame::write(&mut writing, &frame).await {
            tracing::debug!(%error, "the process that writes went away");
            // Whoever waits for an answer still may get one: what was sent before.
            return;
        }
    }
    // The other half keeps the stream open, so its end has to be said.
    drop(tokio::io::AsyncWriteExt::shutdown(&mut writing).await);
}

async fn read_all(mut reader: FrameReader<impl AsyncRead + Unpin>, waiting: Arc<Waiting>) {
    loop {
        let frame = match reader.next().await {
            Ok(frame) => frame,
            Err(error) => {
                tracing::debug!(%error, "the connection to the process that writes ended");
                break;
            }
        };
        match serde_json::from_slice(&frame.bytes) {
            Ok(told) => waiting.hear(told),
            Err(error) => {
                tracing::warn!(%error, "the process that writes said what cannot be understood");
                break;
            }
        }
    }
    waiting.end();
}
