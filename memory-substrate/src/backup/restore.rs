//! Making an assistant from a copy.
//!
//! Everything is checked and written beside its place first, so a copy that is damaged or too new changes nothing, and
//! whoever looks sees the assistant as it was or as it will be. One that is replaced is kept under another name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_core::env::Fs;
use memory_core::time::Timestamp;
use serde::Serialize;

use super::{BackupList, FILES, STATE, remove_tree, verify, with_suffix};
use crate::error::{SubstrateError, SubstrateResult};
use crate::fs::RealFs;
use crate::state::backup::forget_index;
use crate::workspace::{AssistantId, Workspace, root_of};

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
    // Nobody may write to what is about to be replaced.
    let lock = match Workspace::open(home, id, Arc::new(RealFs)) {
        Ok(workspace) => Some(workspace.lock("strata restore")?),
        Err(SubstrateError::NoSuchAssistant { .. }) => None,
        Err(error) => return Err(error),
    };
    let folder = root.parent().unwrap_or(home);
    let staged = folder.join(format!(".restoring-{id}"));
    remove_tree(&staged)?;
    write_out(&fs, &list, copy, &staged)?;
    forget_index(&staged.join(STATE))?;
    let replaced = taken.then(|| with_suffix(&root, &format!(".replaced-{}", now.as_millis())));
    if let Some(replaced) = &replaced {
        fs.rename(&root, replaced)
            .map_err(SubstrateError::io("set aside", &root))?;
    }
    fs.rename(&staged, &root)
        .map_err(SubstrateError::io("rename", &staged))?;
    drop(lock);
    Ok(Restored {
        path: root,
        assistant: list.assistant,
        at: list.at,
        files: list.files.len(),
        replaced,
    })
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
