//! How everything that a person reads is written: acknowledged once, applied to the files, never lost and never twice.
//!
//! An operation is first committed to the state database with all its bytes; that one flushed commit is the promise to
//! the caller. Then it is applied to its files, each whole or not at all, and then noted as applied, which lets the
//! bytes go. Whatever a crash leaves of this is finished by the next writer, and until then every reader sees the files
//! as they will be. An edit that a person made meanwhile is merged, or both texts are kept.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use memory_core::env::Fs;
use memory_core::store::{PageOrigin, StoreError, StoreResult};
use rusqlite::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::apply::{Applying, marks_of};
use self::blobs::Blobs;
use self::health::Health;
use self::pending::{OpenPart, Pending};
use self::queue::Queue;
use crate::blocking;
use crate::state::{SqliteState, jobs, ops, origins, runs};
use crate::workspace::{Workspace, WriterLock};

pub use self::health::Halt;
pub use self::operation::{WriteConflict, WriteContext};

pub(crate) use self::append::ids_of;
pub(crate) use self::apply::is_clear;
pub(crate) use self::operation::{
    Change, Operation, OperationKind, OriginChange, Outcome, Part, Plan, Request, less_trusted,
};
pub(crate) use self::overlay::OverlayFs;
pub(crate) use crate::pages::hash_bytes as hash_of_bytes;

mod append;
mod apply;
mod blobs;
mod health;
mod operation;
mod overlay;
mod pending;
mod queue;
mod resolve;

/// The writing side of one assistant's files. Cloning shares it.
#[derive(Clone)]
pub(crate) struct OpLog {
    inner: Arc<Inner>,
}

struct Inner {
    root: PathBuf,
    fs: Arc<dyn Fs>,
    state: Arc<SqliteState>,
    blobs: Blobs,
    epoch: i64,
    queue: Queue,
    pending: Arc<RwLock<Pending>>,
    /// Held while operations are applied.
    applying: Mutex<()>,
    /// Whether something was committed since the last application began.
    dirty: AtomicBool,
    /// Whether a thread applies or is about to.
    running: AtomicBool,
    distrust: AtomicBool,
    health: Health,
    /// Let go only when nothing will be written any more.
    _lock: Option<WriterLock>,
}

impl OpLog {
    /// Takes over what earlier writers left. The workspace has the plain files.
    pub(crate) fn open(
        workspace: &Workspace,
        state: Arc<SqliteState>,
        lock: Option<WriterLock>,
    ) -> StoreResult<Self> {
        let epoch = state.write_unflushed_blocking(|transaction| ops::begin_epoch(transaction))?;
        let left = state.read_blocking(ops::unapplied)?;
        let halted = state.read_blocking(ops::halt)?;
        Ok(Self {
            inner: Arc::new(Inner {
                root: workspace.root().to_owned(),
                fs: Arc::clone(workspace.fs()),
                state,
                blobs: Blobs::new(workspace.blobs_dir()),
                epoch,
                queue: Queue::default(),
                pending: Arc::new(RwLock::new(Pending::of(left))),
                applying: Mutex::default(),
                dirty: AtomicBool::new(false),
                running: AtomicBool::new(false),
                distrust: AtomicBool::new(halted.is_some()),
                health: Health::new(workspace.reserve_path()),
                _lock: lock,
            }),
        })
    }

    /// Returns the files with open operations laid over them.
    pub(crate) fn overlay(&self) -> OverlayFs {
        OverlayFs::live(
            self.inner.root.clone(),
            Arc::clone(&self.inner.fs),
            Arc::clone(&self.inner.pending),
        )
    }

    /// Returns a path as operations name it; `None` when it is not the assistant's.
    pub(crate) fn relative(&self, path: &Path) -> Option<String> {
        overlay::relative(&self.inner.root, path)
    }

    /// Returns the state, in which operations are recorded.
    pub(crate) fn state(&self) -> &SqliteState {
        &self.inner.state
    }

    /// Returns why writes are refused; `None` while they are not.
    pub(crate) fn halt(&self) -> Option<Halt> {
        self.inner.health.halt()
    }

    /// Commits what a request comes to. When this returns, it survives anything; the files may not have it yet.
    ///
    /// A request with a key that is known gets the first answer again. It blocks.
    pub(crate) fn commit<T>(
        &self,
        request: Request,
        plan: impl FnOnce(&Connection) -> StoreResult<Plan<T>> + Send + 'static,
    ) -> StoreResult<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let inner = &self.inner;
        inner.health.require()?;
        inner.queue.commit(
            &inner.state,
            inner.epoch,
            request,
            plan,
            &|operations| inner.take_in(operations),
            &|error| inner.failed(error),
        )
    }

    /// Applies everything that is open, on the calling thread. Returns what could not be applied yet as an error only
    /// if the disk failed.
    pub(crate) fn settle(&self) -> StoreResult<Settled> {
        self.inner.settle()
    }

    /// Applies everything that is open on another thread.
    pub(crate) fn settle_soon(&self) {
        if self.inner.running.swap(true, Ordering::AcqRel) {
            return;
        }
        let running = Running(self.clone());
        blocking::detach(move || {
            let log = running.0.clone();
            while log.inner.dirty.load(Ordering::Acquire) {
                if log.settle().is_err() {
                    break;
                }
            }
            drop(running);
            // What was committed between the last look and the end of this run.
            if log.inner.dirty.load(Ordering::Acquire) && log.halt().is_none() {
                log.settle_soon();
            }
        });
    }

    /// Does something while no file is being changed by operations, after every acknowledged one is in its files. What is
    /// committed meanwhile waits.
    pub(crate) fn while_still<T>(&self, work: impl FnOnce() -> T) -> StoreResult<(Settled, T)> {
        let _applying = self
            .inner
            .applying
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let settled = self.inner.settle_alone()?;
        Ok((settled, work()))
    }

    /// Returns the bytes of a hash that a file had before it was changed, unless they are not kept any more.
    pub(crate) fn old_version(&self, hash: &str) -> std::io::Result<Option<Vec<u8>>> {
        self.inner.blobs.get(self.inner.fs.as_ref(), hash)
    }

    /// Returns whether something acknowledged is not yet in this file.
    pub(crate) fn is_open(&self, path: &str) -> bool {
        self.inner.pending().concerns(path)
    }

    /// Brings everything into order after opening: what is left of a failed disk, and the reserve for the next time.
    pub(crate) fn recover(&self) -> StoreResult<Settled> {
        let settled = self.settle()?;
        if self.inner.distrust.load(Ordering::Acquire) {
            self.inner
                .state
                .write_blocking(|transaction| ops::put_halt(transaction, None))
                .map_err(|error| self.inner.failed(error))?;
            self.inner.distrust.store(false, Ordering::Release);
        }
        let (fs, health) = (self.inner.fs.as_ref(), &self.inner.health);
        if let Err(error) = health.keep_reserve(fs) {
            if let Some(halt) = Halt::of_io("reserve space in", health.reserve(), &error) {
                self.inner.stop(&halt);
                return health.require().map(|()| settled);
            }
            tracing::warn!(%error, "no disk space could be reserved");
        }
        Ok(settled)
    }

    /// Forgets old versions and answers from before an instant.
    pub(crate) fn prune(&self, before: memory_core::time::Timestamp) -> StoreResult<()> {
        let inner = &self.inner;
        inner.state.write_unflushed_blocking(|transaction| {
            ops::prune(transaction, before)?;
            runs::prune(transaction, before)?;
            jobs::prune(transaction, before)
        })?;
        inner
            .blobs
            .prune(inner.fs.as_ref(), before.as_millis())
            .map(drop)
            .map_err(|error| StoreError::engine("forget old versions", error))
    }
}

/// What an application came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Parts that are in their files now.
    pub(crate) applied: usize,
    /// Parts that could not be applied yet.
    pub(crate) left: usize,
    /// Writes that met an edit.
    pub(crate) conflicts: Vec<WriteConflict>,
}

/// Says that a thread applies, until it is dropped.
struct Running(OpLog);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.inner.running.store(false, Ordering::Release);
    }
}

impl Inner {
    fn take_in(&self, operations: Vec<Operation>) {
        if operations.is_empty() {
            return;
        }
        let mut pending = self.pending_mut();
        for operation in operations {
            pending.add(operation);
        }
        self.dirty.store(true, Ordering::Release);
    }

    fn settle(&self) -> StoreResult<Settled> {
        let _applying = self.applying.lock().unwrap_or_else(PoisonError::into_inner);
        self.settle_alone()
    }

    /// Applies everything that is open. The caller keeps others from doing so.
    fn settle_alone(&self) -> StoreResult<Settled> {
        self.health.require()?;
        self.dirty.store(false, Ordering::Release);
        let open = self.pending().open();
        if open.is_empty() {
            return Ok(Settled::default());
        }
        let mut applying = Applying {
            root: &self.root,
            fs: self.fs.as_ref(),
            state: &self.state,
            blobs: &self.blobs,
            distrust: self.distrust.load(Ordering::Acquire),
            blocked: HashSet::new(),
            marks: Vec::new(),
        };
        let ended = applying.run(&open);
        let marks = applying.marks;
        let noted = self.note(&marks);
        if let Err(halt) = ended {
            self.stop(&halt);
        }
        noted.map_err(|error| self.failed(error))?;
        self.health.require()?;
        Ok(Settled {
            applied: marks.len(),
            left: open.len() - marks.len(),
            conflicts: marks.iter().filter_map(conflict_of).collect(),
        })
    }

    /// Notes what was applied. Without this note the next writer looks again and finds it in place, so it need not be
    /// flushed by itself.
    fn note(&self, marks: &[(Arc<OpenPart>, Outcome)]) -> StoreResult<()> {
        if marks.is_empty() {
            return Ok(());
        }
        let noted = self.state.write_unflushed_blocking(|transaction| {
            for (open, outcome) in marks {
                if let Some(origin) = &open.part.origin {
                    follow(transaction, &open.part.change, origin, outcome)?;
                }
            }
            ops::mark(transaction, &marks_of(marks))
        });
        let mut pending = self.pending_mut();
        for (open, _) in marks {
            pending.remove(open.key);
        }
        noted
    }

    /// Ends writing if an error says that the disk failed, and returns what the caller is told.
    fn failed(&self, error: StoreError) -> StoreError {
        match Halt::of_store(&error, &self.root.join("state.db")) {
            Some(halt) => {
                self.stop(&halt);
                halt.error()
            }
            None => error,
        }
    }

    fn stop(&self, halt: &Halt) {
        if !self.health.stop(halt.clone()) {
            return;
        }
        self.health.release_reserve(self.fs.as_ref());
        // Should this fail too, the next writer still compares every open operation with its files.
        if let Err(error) = self
            .state
            .write_blocking(|transaction| ops::put_halt(transaction, Some(halt)))
        {
            tracing::error!(%error, "the failure of the disk could not be recorded");
        }
    }

    fn pending(&self) -> RwLockReadGuard<'_, Pending> {
        self.pending.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending_mut(&self) -> RwLockWriteGuard<'_, Pending> {
        self.pending.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.pending().is_empty() || self.health.halt().is_some() {
            return;
        }
        if let Err(error) = self.settle() {
            tracing::warn!(%error, "acknowledged writes are left to the next start");
        }
    }
}

impl fmt::Debug for OpLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OpLog")
            .field("root", &self.inner.root)
            .field("epoch", &self.inner.epoch)
            .field("halt", &self.halt())
            .finish_non_exhaustive()
    }
}

fn conflict_of((open, outcome): &(Arc<OpenPart>, Outcome)) -> Option<WriteConflict> {
    let copy = match outcome {
        Outcome::Conflict { copy } => Some(copy.clone()),
        Outcome::Kept => None,
        Outcome::Done | Outcome::Merged => return None,
    };
    Some(WriteConflict {
        operation: open.operation.clone(),
        path: open.part.path.clone(),
        copy,
    })
}

/// Makes a page's record say how the bytes that are there came in.
fn follow(
    connection: &Connection,
    done: &Change,
    change: &OriginChange,
    outcome: &Outcome,
) -> StoreResult<()> {
    let set = |origin: Option<&PageOrigin>| match origin {
        Some(origin) => origins::put(connection, std::slice::from_ref(origin)),
        None => origins::remove(connection, &change.slug),
    };
    match outcome {
        Outcome::Done => set(change.after.as_ref()),
        // Both texts are in it, and the record says so since the commit.
        Outcome::Merged => Ok(()),
        Outcome::Kept => set(change.before.as_ref()),
        Outcome::Conflict { copy } => {
            match done {
                Change::Rename { to, .. } => give_back(connection, to, change)?,
                _ => set(change.before.as_ref())?,
            }
            match change.after.as_ref().or(change.before.as_ref()) {
                Some(after) => {
                    let name = crate::pages::page_of_path(copy);
                    let origin = PageOrigin {
                        slug: name.0,
                        original_name: name.1,
                        ..after.clone()
                    };
                    origins::put(connection, &[origin])
                }
                None => Ok(()),
            }
        }
    }
}

/// Takes a record from both names of a page that was moved beside the file which took its new name: under the old one
/// there is nothing any more, and under the new one is what somebody else wrote.
fn give_back(connection: &Connection, to: &str, change: &OriginChange) -> StoreResult<()> {
    origins::remove(connection, &change.slug)?;
    let slug = crate::pages::page_of_path(to).0;
    let given = change.before.as_ref().map(|before| PageOrigin {
        slug: slug.clone(),
        ..before.clone()
    });
    if given == origins::of(connection, &slug)? {
        origins::remove(connection, &slug)?;
    }
    Ok(())
}
