//! Whether the store still accepts writes.
//!
//! A flush that failed is never tried again as if nothing had happened: the system may have dropped the bytes and
//! report success the next time. So the first sign of a failing or full disk ends writing until the store is opened
//! again and has compared every open operation with its files. Reading goes on. A reserve of disk space is given up
//! then, so that a full disk does not keep the failure from being recorded.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use memory_core::env::Fs;
use memory_core::store::{StoreError, StoreResult};
use rusqlite::ErrorCode;
use serde::{Deserialize, Serialize};

/// Bytes kept in reserve.
pub(crate) const RESERVE_BYTES: usize = if cfg!(test) { 64 << 10 } else { 4 << 20 };

/// Why a store accepts no writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    /// What was being done.
    pub action: String,
    /// To which file.
    pub place: String,
    /// What the system said.
    pub cause: String,
    /// Whether there was no space left.
    pub disk_full: bool,
}

impl Halt {
    /// Returns the halt that a failed file operation causes; `None` when the failure is that file's own.
    pub(super) fn of_io(action: &str, place: &Path, error: &io::Error) -> Option<Self> {
        is_storage_failure(error).then(|| Self {
            action: action.to_owned(),
            place: place.display().to_string(),
            cause: error.to_string(),
            disk_full: is_full(error),
        })
    }

    /// Returns the halt that a failed commit causes; `None` when the failure is that request's own.
    pub(super) fn of_store(error: &StoreError, place: &Path) -> Option<Self> {
        let StoreError::Engine { action, source } = error else {
            return None;
        };
        let halt = |disk_full| Self {
            action: action.clone(),
            place: place.display().to_string(),
            cause: source.to_string(),
            disk_full,
        };
        if let Some(error) = source.downcast_ref::<io::Error>() {
            return is_storage_failure(error).then(|| halt(is_full(error)));
        }
        match source
            .downcast_ref::<rusqlite::Error>()?
            .sqlite_error_code()
        {
            Some(ErrorCode::DiskFull) => Some(halt(true)),
            Some(ErrorCode::SystemIoFailure | ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
                Some(halt(false))
            }
            _ => None,
        }
    }

    /// Returns what a caller is told.
    pub(crate) fn error(&self) -> StoreError {
        let remedy = if self.disk_full {
            "free some disk space, then open the assistant again"
        } else {
            "check the disk, then open the assistant again"
        };
        StoreError::ReadOnly {
            action: self.action.clone(),
            place: self.place.clone(),
            cause: self.cause.clone(),
            remedy: remedy.to_owned(),
        }
    }
}

/// The state of health, and the reserve.
#[derive(Debug)]
pub(super) struct Health {
    halt: Mutex<Option<Halt>>,
    reserve: PathBuf,
}

impl Health {
    pub(super) fn new(reserve: PathBuf) -> Self {
        Self {
            halt: Mutex::default(),
            reserve,
        }
    }

    /// Returns why writes are refused; `None` while they are not.
    pub(super) fn halt(&self) -> Option<Halt> {
        self.lock().clone()
    }

    /// Refuses while writes are refused.
    pub(super) fn require(&self) -> StoreResult<()> {
        self.lock()
            .as_ref()
            .map_or(Ok(()), |halt| Err(halt.error()))
    }

    /// Ends writing. Returns whether it had not ended already.
    pub(super) fn stop(&self, halt: Halt) -> bool {
        let mut current = self.lock();
        let first = current.is_none();
        if first {
            tracing::error!(
                action = halt.action,
                place = halt.place,
                cause = halt.cause,
                "the disk failed; the store accepts no writes until it is opened again"
            );
            *current = Some(halt);
        }
        first
    }

    /// Gives the reserve up.
    pub(super) fn release_reserve(&self, fs: &dyn Fs) {
        if let Err(error) = fs.remove(&self.reserve) {
            tracing::debug!(%error, "there is no reserve to give up");
        }
    }

    /// Makes the reserve if it is not there. Its bytes are written out, so that the space is really taken.
    pub(super) fn keep_reserve(&self, fs: &dyn Fs) -> io::Result<()> {
        match fs.info(&self.reserve) {
            Ok(info) if info.bytes == RESERVE_BYTES as u64 => Ok(()),
            _ => fs.write(&self.reserve, &vec![b'.'; RESERVE_BYTES]),
        }
    }

    /// Returns where the reserve is.
    pub(super) fn reserve(&self) -> &Path {
        &self.reserve
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Halt>> {
        self.halt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Returns whether an error says something about the disk and not about one path. What nobody knows counts as the disk.
fn is_storage_failure(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidData
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ResourceBusy
            | io::ErrorKind::OutOfMemory
    )
}
