//! Making an assistant from a copy.
//!
//! Everything is checked and written beside its place first, so a copy that is damaged or too new changes nothing, and
//! whoever looks sees the assistant as it was or as it will be. One that is replaced is kept under another name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use memory_core::env::Fs;
use memory_core::time::Timestamp;
use serde::Serialize;

use super::{BackupList, FILES, STATE, remove_tree, verify, with_suffix};
use crate::error::{SubstrateError, SubstrateResult};
use crate::fs::{RealFs, exchange};
use crate::state::backup::forget_index;
use crate::workspace::{AssistantId, LOCK, PATIENCE, WriterLock, root_of};

/// How an assistant is made from a copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestoreOptions {
    /// Whether an assistant of that name is replaced.
    pub replace: bool,
}

/// An assistant that was made from a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Its folder.
    pub path: PathBuf,
    /// Whose memory the copy was.
    pub assistant: String,
    /// When the copy was made.
    pub at: Timestamp,
    /// How many files it has.
    pub files: usize,
    /// Where the assistant is that was replaced.
    pub replaced: Option<PathBuf>,
}

/// Makes an assistant from a copy. It blocks. The index is made again by whatever opens the assistant.
pub fn restore(
    home: &Path,
    id: &AssistantId,
    copy: &Path,
    options: RestoreOptions,
    now: Timestamp,
) -> SubstrateResult<Restored> {
    let fs = RealFs;
    let list = verify(&fs, copy)?;
    let root = root_of(home, id);
    let taken = root.exists();
    if taken && !options.replace {
        return Err(SubstrateError::AlreadyExists {
            what: format!("the assistant `{id}`"),
            path: root,
        });
    }
    let folder = root.parent().unwrap_or(home);
    fs.create_dir_all(folder)
        .map_err(SubstrateError::io("create", folder))?;
    // Nobody may write to what is about to be replaced, whether it is whole or not.
    let lock = taken
        .then(|| WriterLock::take(&root.join(LOCK), "strata restore", PATIENCE))
        .transpose()?;
    let staged = folder.join(format!(".restoring-{id}"));
    fs.create_dir_all(&staged)
        .map_err(SubstrateError::io("create", &staged))?;
    // Another restore of the same name would write into the same folder. The lock moves with it.
    let staging = WriterLock::take(&staged.join(LOCK), "strata restore", Duration::ZERO)?;
    clear(&staged)?;
    write_out(&fs, &list, copy, &staged)?;
    forget_index(&staged.join(STATE))?;
    let replaced = if taken {
        Some(replace(&fs, &root, &staged, now)?)
    } else {
        fs.rename(&staged, &root)
            .map_err(SubstrateError::io("rename", &staged))?;
        None
    };
    drop((lock, staging));
    Ok(Restored {
        path: root,
        assistant: list.assistant,
        at: list.at,
        files: list.files.len(),
        replaced,
    })
}

/// Puts a folder into the place of another one, and returns under which name that one is kept.
///
/// The new one has the other name first, and then both change names in one step: the assistant is there at every moment.
/// Where the system has no such step there is a moment in which it is not; a restore that ends there leaves the old one
/// under the name that it is kept by, and the next restore makes it whole.
fn replace(fs: &dyn Fs, root: &Path, staged: &Path, now: Timestamp) -> SubstrateResult<PathBuf> {
    let kept = with_suffix(root, &format!(".replaced-{}", now.as_millis()));
    if kept.exists() {
        return Err(SubstrateError::AlreadyExists {
            what: "a memory that was put aside at the same moment".to_owned(),
            path: kept,
        });
    }
    fs.rename(staged, &kept)
        .map_err(SubstrateError::io("rename", staged))?;
    let exchanged = exchange(root, &kept);
    if matches!(exchanged, Ok(true)) {
        return Ok(kept);
    }
    // The new one must not stay under a name by which people know the old one.
    fs.rename(&kept, staged)
        .map_err(SubstrateError::io("rename", &kept))?;
    exchanged.map_err(SubstrateError::io("replace", root))?;
    fs.rename(root, &kept)
        .map_err(SubstrateError::io("set aside", root))?;
    if let Err(error) = fs.rename(staged, root) {
        fs.rename(&kept, root)
            .map_err(SubstrateError::io("put back", &kept))?;
        return Err(SubstrateError::io("rename", staged)(error));
    }
    Ok(kept)
}

/// Empties the folder of an interrupted restore, but for the lock that is held on it.
fn clear(staged: &Path) -> SubstrateResult<()> {
    for entry in std::fs::read_dir(staged).map_err(SubstrateError::io("list", staged))? {
        let entry = entry.map_err(SubstrateError::io("list", staged))?;
        let path = entry.path();
        let kind = entry
            .file_type()
            .map_err(SubstrateError::io("look at", &path))?;
        if entry.file_name() == LOCK {
            continue;
        }
        if kind.is_dir() {
            remove_tree(&path)?;
        } else {
            std::fs::remove_file(&path).map_err(SubstrateError::io("remove", &path))?;
        }
    }
    Ok(())
}

fn write_out(fs: &dyn Fs, list: &BackupList, copy: &Path, to: &Path) -> SubstrateResult<()> {
    for file in &list.files {
        let (from, to) = (copy.join(FILES).join(&file.path), to.join(&file.path));
        let bytes = fs.read(&from).map_err(SubstrateError::io("read", &from))?;
        fs.write(&to, &bytes)
            .map_err(SubstrateError::io("write", &to))?;
    }
    Ok(())
}
