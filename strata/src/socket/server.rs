//! The writer's side: a task that waits for clients, and how it comes to an end.
//!
//! The file goes away first, so that nobody new comes; then requests that were accepted are finished, and only then is
//! the last hold on the assistant let go. What a request does is not known here: it is the [`Service`]'s.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use memory_substrate::assistant::EngineProgress;
use memory_substrate::workspace::Workspace;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::connection::{self, Shared, until_true};
use super::endpoint::{self, Listener};
use super::protocol::{Fault, FaultCode, Operation, Told, VERSION, Welcome};
use super::{LONGEST_GREETING, LONGEST_REQUEST, frame};
use crate::error::ErrorKind;

/// Most clients at once, unless a test says otherwise.
const MOST_CLIENTS: usize = 128;

/// Most bytes of requests that are being read at once, of all clients.
const MOST_BYTES: usize = 2 * LONGEST_REQUEST;

/// How long to wait when no client can be taken because the process has too many files open.
const PAUSE: Duration = Duration::from_millis(100);

/// Who answers.
pub(crate) trait Service: fmt::Debug + Send + Sync + 'static {
    /// Returns who answers one client, from its first request to its last.
    fn receive(self: Arc<Self>) -> Arc<dyn Visitor>;
}

/// Who answers one client.
#[async_trait]
pub(crate) trait Visitor: Send + Sync + 'static {
    /// Does what is asked for. Once this is called, it is finished, whether the client stays or not.
    async fn answer(&self, operation: Operation, with: Value, steps: Steps)
    -> Result<Value, Fault>;

    /// Gives up a turn that the client will not finish.
    fn give_up(&self, turn: u64);
}

/// How a request says how far it is, and learns that it may stop.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(super) id: u64,
    pub(super) told: mpsc::Sender<Told>,
    pub(super) stop: Arc<AtomicBool>,
}

impl Steps {
    /// Tells the client how far the request is. A client that is behind is told only now and then.
    pub(crate) fn tell(&self, at: EngineProgress) -> ControlFlow<()> {
        drop(self.told.try_send(Told::Progress { id: self.id, at }));
        if self.stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// A socket that is listened on, until it is dropped or closed.
#[derive(Debug)]
pub(crate) struct Server {
    listener: Arc<Listener>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens for clients that want this assistant. The caller holds the writer's lock. It blocks, and must be called
    /// inside a tokio runtime.
    pub(crate) fn start(
        workspace: &Workspace,
        runtime: Option<&Path>,
        service: Arc<dyn Service>,
    ) -> io::Result<Self> {
        Self::with_room_for(MOST_CLIENTS, workspace, runtime, service)
    }

    pub(super) fn with_room_for(
        clients: usize,
        workspace: &Workspace,
        runtime: Option<&Path>,
        service: Arc<dyn Service>,
    ) -> io::Result<Self> {
        let listener = Arc::new(Listener::bind(workspace, runtime)?);
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            service,
            assistant: workspace.id().to_string(),
            root: endpoint::root_of(workspace),
            budget: Arc::new(Semaphore::new(MOST_BYTES)),
            stopped,
        });
        let task = tokio::spawn(listen(Arc::clone(&listener), shared, clients));
        Ok(Self {
            listener,
            stop,
            task: Some(task),
        })
    }

    /// Returns where it listens.
    pub(crate) fn path(&self) -> PathBuf {
        self.listener.path().to_owned()
    }

    /// Takes no more requests and waits until those that were accepted are finished.
    pub(crate) async fn close(mut self) {
        self.end();
        if let Some(task) = self.task.take()
            && let Err(error) = task.await
        {
            tracing::warn!(%error, "the socket did not end in order");
        }
    }

    fn end(&self) {
        self.listener.remove();
        self.stop.send_replace(true);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What was accepted is finished by its own task. Another's file may have the name by now, so this is done once.
        if self.task.is_some() {
            self.end();
        }
    }
}

/// Where an assistant's socket is, if it has one: it comes with the lock and ends with the assistant.
#[derive(Debug, Default)]
pub(crate) struct Door(Mutex<Option<Server>>);

impl Door {
    /// Puts a server here, ending the one before.
    pub(crate) fn open(&self, server: Server) {
        *self.server() = Some(server);
    }

    /// Closes it. What was accepted is finished all the same.
    pub(crate) fn shut(&self) {
        drop(self.server().take());
    }

    /// Closes it and waits until everything that was accepted is finished.
    pub(crate) async fn close(&self) {
        let server = self.server().take();
        if let Some(server) = server {
            server.close().await;
        }
    }

    fn server(&self) -> std::sync::MutexGuard<'_, Option<Server>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn listen(listener: Arc<Listener>, shared: Arc<Shared>, most: usize) {
    let mut clients = JoinSet::new();
    let mut stopped = shared.stopped.clone();
    loop {
        let accepted = tokio::select! {
            biased;
            () = until_true(&mut stopped) => break,
            Some(ended) = clients.join_next(), if !clients.is_empty() => {
                note(ended);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(stream) if clients.len() < most => {
                clients.spawn(connection::serve(stream, Arc::clone(&shared)));
            }
            Ok(mut stream) => drop(frame::write(&mut stream, &full(most)).await),
            Err(error) => {
                tracing::warn!(%error, "a client could not be taken");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    while let Some(ended) = clients.join_next().await {
        note(ended);
    }
}

fn note(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::warn!(%error, "a client's connection did not end in order");
    }
}

/// Returns what a client is told for whom there is no room.
fn full(most: usize) -> Vec<u8> {
    let message = format!("the process that writes has {most} clients already");
    let fault = Fault::new(FaultCode::Busy, ErrorKind::Unavailable, message);
    let welcome = Welcome {
        strata: VERSION,
        refused: Some(fault),
    };
    frame::encode(&welcome, LONGEST_GREETING).unwrap_or_default()
}
