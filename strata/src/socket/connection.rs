//! One client of the writer: its opening, its requests, its end.
//!
//! Reading and writing are tasks of their own, so that neither side waits for the other to listen. Each request runs in
//! a task that nothing but its own end stops: a client that goes away learns nothing, but what it was promised is done.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::frame::{self, Frame, FrameError, FrameReader};
use super::protocol::{Fault, FaultCode, Hello, Operation, Said, Told, VERSION, Welcome};
use super::server::{Service, Steps, Visitor};
use super::{
    GREETING_TIME, LONGEST_ANSWER, LONGEST_GREETING, LONGEST_REQUEST, MOST_AT_ONCE, SIGN_OF_LIFE,
};
use crate::error::ErrorKind;

/// Requests that a client may seem to have above its limit: it hears of an answer before its task has ended.
const SPARE: usize = 32;

/// Frames that wait to be written.
const QUEUE: usize = 64;

/// What all clients of one writer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) service: Arc<dyn Service>,
    /// The assistant that is written here.
    pub(super) assistant: String,
    /// What its folder is called on its disk, where that is known.
    pub(super) root: Option<(u64, u64)>,
    /// Bytes of requests that may be read at once.
    pub(super) budget: Arc<Semaphore>,
    /// Turns true when no more requests are taken.
    pub(super) stopped: watch::Receiver<bool>,
}

/// Answers a client until it goes away or the writer ends, and until everything that was accepted is finished.
pub(super) async fn serve<S>(stream: S, shared: Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (reading, mut writing) = tokio::io::split(stream);
    let mut reader = FrameReader::new(reading, LONGEST_GREETING);
    match timeout(GREETING_TIME, greet(&mut reader, &mut writing, &shared)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return tracing::debug!(%error, "a client did not get past the opening"),
        Err(_) => return tracing::debug!("a client did not open in time"),
    }
    let (told, telling) = mpsc::channel(QUEUE);
    let writer = tokio::spawn(write_all(telling, writing));
    let reader = reader
        .accepting(LONGEST_REQUEST)
        .sharing(Arc::clone(&shared.budget));
    Connection {
        visitor: Arc::clone(&shared.service).receive(),
        told,
        running: HashMap::new(),
        closing: Arc::default(),
        tasks: JoinSet::new(),
    }
    .run(reader, shared.stopped.clone())
    .await;
    if let Err(error) = writer.await {
        tracing::warn!(%error, "answers could not be written");
    }
}

/// Opens the connection, or says why not.
async fn greet(
    reader: &mut FrameReader<impl AsyncRead + Unpin>,
    writing: &mut (impl AsyncWrite + Unpin),
    shared: &Shared,
) -> Result<(), FrameError> {
    let refused = match reader.next().await {
        Ok(frame) => refusal(&frame.bytes, shared),
        Err(error @ FrameError::TooLong { .. }) => Some(too_long(&error)),
        Err(error) => return Err(error),
    };
    let welcome = Welcome {
        strata: VERSION,
        refused,
    };
    frame::write(writing, &frame::encode(&welcome, LONGEST_GREETING)?).await?;
    match welcome.refused {
        None => Ok(()),
        Some(fault) => {
            tracing::debug!(fault = fault.message(), "a client was refused");
            Err(FrameError::Closed)
        }
    }
}

/// Returns why a client is refused that opens with this.
fn refusal(bytes: &[u8], shared: &Shared) -> Option<Fault> {
    let hello: Hello = match serde_json::from_slice(bytes) {
        Ok(hello) => hello,
        Err(error) => return Some(Fault::malformed("the opening", &error)),
    };
    if hello.strata != VERSION {
        let message = format!(
            "the process that writes speaks version {VERSION} of the socket's protocol, this one version {}",
            hello.strata
        );
        return Some(Fault::new(
            FaultCode::Version,
            ErrorKind::Unavailable,
            message,
        ));
    }
    let is_another = hello
        .root
        .zip(shared.root)
        .is_some_and(|(theirs, ours)| theirs != ours);
    (hello.assistant != shared.assistant || is_another).then(|| {
        let message = format!(
            "the process that writes has another `{}` open",
            shared.assistant
        );
        Fault::new(FaultCode::AnotherAssistant, ErrorKind::NotFound, message)
    })
}

fn too_long(error: &FrameError) -> Fault {
    Fault::new(FaultCode::TooLong, ErrorKind::Usage, error.to_string())
}

/// Writes what there is to tell until nobody tells any more or the client is gone.
async fn write_all(mut telling: mpsc::Receiver<Told>, mut writing: impl AsyncWrite + Unpin) {
    while let Some(told) = telling.recv().await {
        let frame = match frame::encode(&told, LONGEST_ANSWER) {
            Ok(frame) => frame,
            Err(error) => match unsaid(&told, &error) {
                Some(frame) => frame,
                None => continue,
            },
        };
        if let Err(error) = frame::write(&mut writing, &frame).await {
            return tracing::debug!(%error, "a client went away");
        }
    }
}

/// Returns what is said instead of an answer that is too long.
fn unsaid(told: &Told, error: &std::io::Error) -> Option<Vec<u8>> {
    let (Told::Done { id, .. } | Told::Failed { id, .. }) = told else {
        return None;
    };
    let message = format!("it was done, but the answer cannot be sent: {error}");
    let fault = Fault::new(FaultCode::TooLong, ErrorKind::Failed, message);
    frame::encode(&Told::Failed { id: *id, fault }, LONGEST_ANSWER).ok()
}

/// A request that runs.
struct Running {
    stop: Arc<AtomicBool>,
    is_resumable: bool,
}

/// A client that is past the opening.
struct Connection {
    visitor: Arc<dyn Visitor>,
    told: mpsc::Sender<Told>,
    /// Requests that run, and what tells them to stop.
    running: HashMap<u64, Running>,
    /// Whether the writer is ending.
    closing: Arc<AtomicBool>,
    tasks: JoinSet<u64>,
}

impl Connection {
    async fn run<R>(mut self, reader: FrameReader<R>, mut stopped: watch::Receiver<bool>)
    where
        R: AsyncRead + Send + Unpin + 'static,
    {
        let (pass, mut frames) = mpsc::channel(1);
        let reading = tokio::spawn(read_all(reader, pass));
        let mut pulse = interval(SIGN_OF_LIFE);
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // Whoever was heard before the end is answered.
                biased;
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => self.ended(ended),
                () = until_true(&mut stopped) => {
                    self.closing.store(true, Ordering::Relaxed);
                    self.end(Fault::closing()).await;
                    self.stop_work_on_the_index();
                    break;
                }
                frame = frames.recv() => match frame {
                    Some(Ok(frame)) => if let Err(fault) = self.heard(&frame).await {
                        self.end(fault).await;
                        break;
                    },
                    Some(Err(error @ FrameError::TooLong { .. })) => {
                        self.end(too_long(&error)).await;
                        break;
                    }
                    Some(Err(error)) => {
                        tracing::debug!(%error, "a client ended");
                        break;
                    }
                    None => break,
                },
                _ = pulse.tick(), if !self.running.is_empty() => {
                    // Whoever does not listen needs no sign.
                    drop(self.told.try_send(Told::Working));
                }
            }
        }
        reading.abort();
        if !self.closing.load(Ordering::Relaxed) {
            // The client is gone, and nobody waits for an index that the next one would finish.
            self.stop_work_on_the_index();
        }
        self.finish(pulse).await;
    }

    /// Stops what is done in pieces and can be gone on with by whoever asks next.
    fn stop_work_on_the_index(&self) {
        for running in self.running.values().filter(|running| running.is_resumable) {
            running.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Waits for what was accepted, still saying that it goes on.
    async fn finish(mut self, mut pulse: tokio::time::Interval) {
        while !self.tasks.is_empty() {
            tokio::select! {
                Some(ended) = self.tasks.join_next() => self.ended(ended),
                _ = pulse.tick() => drop(self.told.try_send(Told::Working)),
            }
        }
    }

    /// Takes in what the client said; an error when nothing more can be made of what it says.
    async fn heard(&mut self, frame: &Frame) -> Result<(), Fault> {
        let said = serde_json::from_slice(&frame.bytes)
            .map_err(|error| Fault::malformed("a message", &error))?;
        match said {
            Said::Request {
                id,
                operation,
                with,
            } => self.begin(id, operation, with).await,
            Said::Stop { id } => {
                if let Some(running) = self.running.get(&id) {
                    running.stop.store(true, Ordering::Relaxed);
                }
            }
            Said::GiveUp { turn } => self.visitor.give_up(turn),
        }
        Ok(())
    }

    /// Begins a request, or says why not.
    async fn begin(&mut self, id: u64, operation: Value, with: Value) {
        let name = operation.to_string();
        let refused = match serde_json::from_value::<Operation>(operation) {
            Ok(operation)
                if self.running.len() < MOST_AT_ONCE + SPARE && !self.running.contains_key(&id) =>
            {
                return self.start(id, operation, with);
            }
            Ok(_) => Fault::new(
                FaultCode::Busy,
                ErrorKind::Unavailable,
                format!(
                    "there are {} requests of this client already",
                    self.running.len()
                ),
            ),
            Err(_) => Fault::new(
                FaultCode::UnknownOperation,
                ErrorKind::Unavailable,
                format!("the process that writes does not know the operation {name}"),
            ),
        };
        drop(self.told.send(Told::Failed { id, fault: refused }).await);
    }

    fn start(&mut self, id: u64, operation: Operation, with: Value) {
        let stop = Arc::new(AtomicBool::new(false));
        let is_resumable = operation.is_resumable();
        let running = Running {
            stop: Arc::clone(&stop),
            is_resumable,
        };
        self.running.insert(id, running);
        let closing = Arc::clone(&self.closing);
        let steps = Steps {
            id,
            told: self.told.clone(),
            stop,
        };
        let (visitor, told) = (Arc::clone(&self.visitor), self.told.clone());
        self.tasks.spawn(async move {
            // A task of its own, so that a panic in it is an answer too.
            let work = tokio::spawn(async move { visitor.answer(operation, with, steps).await });
            let answer = work.await.unwrap_or_else(|error| {
                let message = format!("the process that writes could not answer: {error}");
                Err(Fault::new(FaultCode::Failed, ErrorKind::Failed, message))
            });
            let answer = match answer {
                // It may have been stopped half way, and is gone on with by the next writer.
                Ok(_) if is_resumable && closing.load(Ordering::Relaxed) => Told::Failed {
                    id,
                    fault: Fault::closing(),
                },
                Ok(value) => Told::Done { id, value },
                Err(fault) => Told::Failed { id, fault },
            };
            // It was done, whether anybody is there to hear it or not.
            drop(told.send(answer).await);
            id
        });
    }

    fn ended(&mut self, ended: Result<u64, tokio::task::JoinError>) {
        match ended {
            Ok(id) => drop(self.running.remove(&id)),
            Err(error) => tracing::warn!(%error, "a request did not end in order"),
        }
    }

    async fn end(&self, fault: Fault) {
        tracing::debug!(fault = fault.message(), "a client is sent away");
        let running = self.running.keys().copied().collect();
        drop(self.told.send(Told::Ended { fault, running }).await);
    }
}

/// Passes on frames until the client says nothing more or nobody listens.
async fn read_all(
    mut reader: FrameReader<impl AsyncRead + Unpin>,
    pass: mpsc::Sender<Result<Frame, FrameError>>,
) {
    loop {
        let next = reader.next().await;
        let over = next.is_err();
        if pass.send(next).await.is_err() || over {
            return;
        }
    }
}

/// Waits until it turns true, or until nobody can turn it any more.
pub(super) async fn until_true(stopped: &mut watch::Receiver<bool>) {
    drop(stopped.wait_for(|stopped| *stopped).await);
}
