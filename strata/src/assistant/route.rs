//! Where an assistant's writes are done: in this process, or in the one that holds the lock.
//!
//! The lock decides. Whoever finds it free takes it and listens for others; whoever finds it held asks its holder, and
//! waits a little only for one that does not answer. A holder that goes away is noticed by the next call, which then
//! looks anew, so a process that was a client yesterday may be the writer today.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use memory_core::store::StoreError;
use memory_substrate::blocking;
use memory_substrate::error::SubstrateError;
use memory_substrate::workspace::{LockHolder, Workspace, WriterLock};

use super::guest::Host;
use super::{Assistant, Writing};
use crate::error::{StrataError, cause_chain};
use crate::options::{SocketUse, StrataOptions};
use crate::socket::{Client, LinkError, Server};

/// How long to wait before the lock is looked at again.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// Name under which the lock is held.
const COMMAND: &str = "strata";

/// Where to write.
#[derive(Debug)]
pub(super) enum Route {
    /// In this process.
    Here,
    /// In the process at the other end.
    There(Arc<Client>),
}

/// The right to write, or the way to who has it.
#[derive(Debug)]
pub(super) enum Acquired {
    Lock(WriterLock),
    Link(Client),
}

/// A holder that will not talk, and why: it is not asked again, and another one may come.
type Refused = Option<(LockHolder, LinkError)>;

impl Acquired {
    /// Takes the lock, or connects to its holder, or waits until one of both works.
    pub(super) async fn within(
        patience: Duration,
        options: &StrataOptions,
        workspace: &Workspace,
    ) -> Result<Self, StrataError> {
        let (started, mut refused) = (Instant::now(), None);
        loop {
            match Self::attempt(patience, options, workspace, &mut refused).await? {
                Ok(acquired) => return Ok(acquired),
                Err(locked) if started.elapsed() >= patience => return Err(locked),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Tries both once; the inner error says who has the lock.
    async fn attempt(
        patience: Duration,
        options: &StrataOptions,
        workspace: &Workspace,
        refused: &mut Refused,
    ) -> Result<Result<Self, StrataError>, StrataError> {
        let locked = match try_lock(workspace).await? {
            Ok(lock) => return Ok(Ok(Self::Lock(lock))),
            Err(locked) => locked,
        };
        if options.socket == SocketUse::Off {
            return Ok(Err(locked));
        }
        if let Some((holder, socket)) = holder_with_socket(workspace).await?
            && refused
                .as_ref()
                .is_none_or(|(known, error)| *known != holder || error.may_pass())
        {
            match Client::connect(&socket, workspace, patience).await {
                Ok(client) => return Ok(Ok(Self::Link(client))),
                // It may have begun to listen, or to end, this very moment.
                Err(error) => *refused = Some((holder, error)),
            }
        }
        Ok(Err(match refused {
            Some((holder, error)) => StoreError::Locked {
                holder: format!("{holder}; {}", cause_chain(error).join(": ")),
            }
            .into(),
            None => locked,
        }))
    }
}

/// Takes the lock if it is free; the inner error says who has it.
async fn try_lock(workspace: &Workspace) -> Result<Result<WriterLock, StrataError>, StrataError> {
    let workspace = workspace.clone();
    blocking::run(
        move || match workspace.lock_within(COMMAND, Duration::ZERO) {
            Ok(lock) => Ok(Ok(lock)),
            Err(error @ SubstrateError::Store(StoreError::Locked { .. })) => Ok(Err(error.into())),
            Err(error) => Err(error.into()),
        },
    )
    .await
}

/// Returns what the file of a lock that is held says of its holder, if it takes requests.
async fn holder_with_socket(
    workspace: &Workspace,
) -> Result<Option<(LockHolder, PathBuf)>, StrataError> {
    let workspace = workspace.clone();
    blocking::run(move || {
        let holder = workspace.said_of_lock()?;
        Ok(holder.and_then(|holder| {
            let socket = holder.socket.clone()?;
            Some((holder, socket))
        }))
    })
    .await
}

impl Assistant {
    /// Returns where to write, looking for it anew if it is not known any more.
    pub(super) async fn route(&self, patience: Duration) -> Result<Route, StrataError> {
        let (started, mut refused) = (Instant::now(), None);
        loop {
            // Let go while it waits, so that a call without patience does not wait for one that has some.
            let mut writing = self.writing.lock().await;
            match &*writing {
                Writing::Locked(_) | Writing::Open(_) => return Ok(Route::Here),
                Writing::Elsewhere(client) if client.is_open() => {
                    return Ok(Route::There(Arc::clone(client)));
                }
                Writing::Elsewhere(_) | Writing::Closed => {}
            }
            let attempt = Acquired::attempt(patience, &self.options, &self.workspace, &mut refused);
            match Box::pin(attempt).await? {
                Ok(acquired) => return self.take(&mut writing, acquired).await,
                Err(locked) if started.elapsed() >= patience => return Err(locked),
                Err(_) => {}
            }
            drop(writing);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Takes over what was acquired.
    pub(super) async fn take(
        &self,
        writing: &mut Writing,
        acquired: Acquired,
    ) -> Result<Route, StrataError> {
        Ok(match acquired {
            Acquired::Lock(lock) => {
                *writing = Writing::Locked(self.listen(lock).await?);
                self.here.store(true, Ordering::Release);
                Route::Here
            }
            Acquired::Link(client) => {
                let client = Arc::new(client);
                *writing = Writing::Elsewhere(Arc::clone(&client));
                Route::There(client)
            }
        })
    }

    /// Gives up a connection that is of no use any more, so that the next call looks for another way.
    pub(super) async fn unlink(&self, client: &Arc<Client>) {
        let mut writing = self.writing.lock().await;
        if let Writing::Elsewhere(current) = &*writing
            && Arc::ptr_eq(current, client)
        {
            *writing = Writing::Closed;
        }
    }

    /// Listens for other processes, and says so in the lock's file. Without a socket the lock is as good as before.
    async fn listen(&self, mut lock: WriterLock) -> Result<WriterLock, StrataError> {
        let Some(door) = self
            .door
            .get()
            .filter(|_| self.options.socket == SocketUse::Listen)
        else {
            return Ok(lock);
        };
        let workspace = self.workspace.clone();
        let runtime = self.options.environment.get("XDG_RUNTIME_DIR");
        let runtime = runtime.map(PathBuf::from);
        let host = Arc::new(Host::of(self));
        let started = blocking::run(move || {
            Ok::<_, StrataError>(Server::start(&workspace, runtime.as_deref(), host))
        })
        .await
        // A runtime without I/O panics.
        .unwrap_or_else(|error| Err(io::Error::other(error)));
        let server = match started {
            Ok(server) => server,
            Err(error) => return Ok(self.unheard(lock, &error)),
        };
        let socket = server.path();
        let (lock, announced) = blocking::run(move || {
            let announced = lock.announce(&socket);
            Ok::<_, StrataError>((lock, announced))
        })
        .await?;
        match announced {
            Ok(()) => door.open(server),
            Err(error) => return Ok(self.unheard(lock, &error)),
        }
        Ok(lock)
    }

    fn unheard(&self, lock: WriterLock, error: &io::Error) -> WriterLock {
        let assistant = self.workspace.id();
        let what = "other processes cannot hand in requests, they wait for the lock instead";
        if error.kind() == io::ErrorKind::Unsupported {
            tracing::debug!(%assistant, what);
        } else {
            tracing::warn!(%error, %assistant, what);
        }
        lock
    }
}
