//! The error of everything around the stores: workspaces, ingest, remember.
//!
//! Stores themselves speak [`StoreError`], which is part of the contract with other engines; this enum adds what only a
//! local workspace can run into.

use std::io;
use std::path::{Path, PathBuf};

use memory_core::store::StoreError;
use thiserror::Error;

use crate::blocking::BlockingError;

/// Why the substrate refused or failed.
#[derive(Debug, Error)]
pub enum SubstrateError {
    /// A store refused or failed. React as the inner error says.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file system failed. Report it; may be retried once the cause is gone.
    #[error("could not {action} `{path}`")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A name cannot be used for an assistant. Choose another.
    #[error("`{id}` cannot name an assistant: {reason}")]
    InvalidId {
        /// The name that was given.
        id: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// It is there already. Open it, or choose another name.
    #[error("{what} exists already at `{path}`")]
    AlreadyExists {
        /// What exists.
        what: String,
        /// Where.
        path: PathBuf,
    },
    /// There is no such assistant. Create it first, or correct the name.
    #[error("there is no assistant `{id}` at `{path}`; create it with `strata init`")]
    NoSuchAssistant {
        /// The name that was given.
        id: String,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The request makes no sense or is not permitted. Fix the caller.
    #[error("refused: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
}

impl SubstrateError {
    /// Returns a function that turns a failed file operation into an error, for `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

impl From<BlockingError> for SubstrateError {
    fn from(error: BlockingError) -> Self {
        Self::Store(error.into())
    }
}

/// A result of the substrate.
pub type SubstrateResult<T> = Result<T, SubstrateError>;

/// Returns a function that turns a failed file operation into a store error, for `map_err`.
pub(crate) fn store_io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let what = format!("{action} `{}`", path.display());
    move |source| StoreError::engine(what, source)
}
