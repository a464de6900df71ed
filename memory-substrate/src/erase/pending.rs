//! What an erasure is about, until it is through.
//!
//! What is to be erased is deleted first and every copy of it afterwards, so an erasure that ends in between would leave
//! copies of something that nobody can name any more. What they are known by is therefore written down before anything is
//! deleted, and removed last.

use std::io;
use std::path::PathBuf;

use memory_core::store::{StoreError, StoreResult};
use serde::{Deserialize, Serialize};

use super::{EraseTarget, Trace};
use crate::error::store_io;
use crate::workspace::Workspace;

/// Name of the file, in the assistant's folder.
pub(crate) const FILE: &str = "erasing.json";

/// An erasure that was begun.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) target: EraseTarget,
    pub(super) trace: Trace,
    /// Whether the thing itself is gone. What has its name by now is something else.
    #[serde(default)]
    pub(super) taken_out: bool,
}

/// Returns the erasure that was begun and is not through.
pub(super) fn load(workspace: &Workspace) -> StoreResult<Option<Pending>> {
    let path = path_of(workspace);
    let bytes = match workspace.fs().read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(store_io("read", &path)(error)),
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| StoreError::Damaged {
            what: format!("the record of an erasure, `{}`", path.display()),
            reason: format!("{error}; what it was about cannot be told any more: remove the file and erase again"),
        })
}

/// Writes down what is about to be erased.
pub(super) fn store(workspace: &Workspace, pending: &Pending) -> StoreResult<()> {
    let path = path_of(workspace);
    let bytes = serde_json::to_vec(pending)
        .map_err(|error| StoreError::engine("write down an erasure", error))?;
    workspace
        .fs()
        .write(&path, &bytes)
        .map_err(store_io("write", &path))
}

/// Removes the record.
pub(super) fn clear(workspace: &Workspace) -> StoreResult<()> {
    let path = path_of(workspace);
    match workspace.fs().remove(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(store_io("remove", &path)(error))
        }
        _ => Ok(()),
    }
}

pub(super) fn path_of(workspace: &Workspace) -> PathBuf {
    workspace.root().join(FILE)
}
