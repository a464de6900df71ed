//! A copy of an assistant as it was at one moment, and an assistant made from such a copy.
//!
//! The copy is a folder of plain files with a list of their hashes beside them, so that it can be looked at, put into any
//! archive and checked without this program. The index is left out: it is made again. A copy is compared with its list
//! when it was made and before anything is made from it, and one of a newer form is refused untouched.

use std::io;
use std::path::{Component, Path, PathBuf};

use memory_core::env::{EntryKind, Fs};
use memory_core::store::{StoreError, StoreResult};
use memory_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::erase::pending;
use crate::error::{SubstrateError, SubstrateResult, store_io};
use crate::fs::TEMPORARY_MARK;
use crate::pages::hash_bytes;
use crate::state::SqliteState;
use crate::workspace::LOCK;
use crate::writer::Writer;

pub use self::restore::{RestoreOptions, Restored, restore};

mod restore;

/// The form of a copy. A program refuses what is newer.
const FORM: u32 = 1;
/// The list of what a copy holds.
const LIST: &str = "backup.json";
/// The folder of its files.
const FILES: &str = "files";
/// The state database, in the assistant's folder and in a copy.
const STATE: &str = "state.db";

/// What a copy holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupList {
    /// The form of the copy.
    pub form: u32,
    /// The form of its state database.
    pub schema: u32,
    /// Whose memory it is.
    pub assistant: String,
    /// When it was made.
    pub at: Timestamp,
    /// Every file.
    pub files: Vec<BackupFile>,
}

/// What even a newer form of the list says.
#[derive(Deserialize)]
struct Form {
    form: u32,
}

/// A file of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFile {
    /// Its path in the assistant's folder, with forward slashes.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its bytes.
    pub sha256: String,
}

/// A copy that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    /// Where it is.
    pub path: PathBuf,
    /// How many files it holds.
    pub files: usize,
    /// How long they are together.
    pub bytes: u64,
    /// What was left out because it is neither a file nor a folder, or not readable as text, such as a link.
    pub left_out: Vec<String>,
}

impl Writer {
    /// Copies everything that cannot be made again into a new folder, as it is at one moment. It blocks; what is
    /// remembered meanwhile is kept and not part of the copy.
    pub fn back_up(&self, to: &Path) -> SubstrateResult<BackupReport> {
        if to.exists() {
            return Err(SubstrateError::AlreadyExists {
                what: "a file or folder".to_owned(),
                path: to.to_owned(),
            });
        }
        refuse_inside(self.workspace().root(), to)?;
        let unfinished = with_suffix(to, ".unfinished");
        remove_unfinished(&unfinished)?;
        let fs = crate::fs::RealFs;
        let files = unfinished.join(FILES);
        fs.create_dir_all(&files)
            .map_err(SubstrateError::io("create", &files))?;
        let mut copy = Copy {
            fs: &fs,
            root: self.workspace().root(),
            to: &files,
            files: Vec::new(),
            left_out: Vec::new(),
        };
        // Files and database are of the same moment: what is in the one and not in the other would be lost or unknown.
        let (_, copied) = self.log().while_still(|| {
            self.state().copy_to(&files.join(STATE))?;
            copy.folder("")
        })?;
        copied?;
        let Copy {
            files: mut listed,
            left_out,
            ..
        } = copy;
        listed.push(entry_of(&fs, &files, STATE)?);
        listed.sort_by(|left, right| left.path.cmp(&right.path));
        let list = BackupList {
            form: FORM,
            schema: SqliteState::newest_schema(),
            assistant: self.workspace().id().to_string(),
            at: self.clock().now(),
            files: listed,
        };
        let text = serde_json::to_vec_pretty(&list)
            .map_err(|error| StoreError::engine("write the list of a backup", error))?;
        let path = unfinished.join(LIST);
        fs.write(&path, &text)
            .map_err(SubstrateError::io("write", &path))?;
        verify(&fs, &unfinished)?;
        fs.rename(&unfinished, to)
            .map_err(SubstrateError::io("rename", &unfinished))?;
        Ok(BackupReport {
            path: to.to_owned(),
            files: list.files.len(),
            bytes: list.files.iter().map(|file| file.bytes).sum(),
            left_out,
        })
    }
}

/// Copies the assistant's folder, piece by piece.
struct Copy<'a> {
    fs: &'a dyn Fs,
    root: &'a Path,
    to: &'a Path,
    files: Vec<BackupFile>,
    left_out: Vec<String>,
}

impl Copy<'_> {
    fn folder(&mut self, below: &str) -> StoreResult<()> {
        let folder = self.root.join(below);
        let entries = match self.fs.list(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(store_io("list", &folder)(error)),
        };
        for entry in entries {
            let path = if below.is_empty() {
                entry.name.clone()
            } else {
                format!("{below}/{}", entry.name)
            };
            if is_left_out(&path) {
                continue;
            }
            match entry.kind {
                EntryKind::Directory => self.folder(&path)?,
                EntryKind::File => self.file(path)?,
                EntryKind::Other => self.left_out.push(path),
            }
        }
        Ok(())
    }

    fn file(&mut self, path: String) -> StoreResult<()> {
        let from = self.root.join(&path);
        let bytes = match self.fs.read(&from) {
            Ok(bytes) => bytes,
            // Its owner has just removed it, or its name is not one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.left_out.push(path);
                return Ok(());
            }
            Err(error) => return Err(store_io("read", &from)(error)),
        };
        let to = self.to.join(&path);
        self.fs.write(&to, &bytes).map_err(store_io("write", &to))?;
        self.files.push(BackupFile {
            bytes: bytes.len() as u64,
            sha256: hash_bytes(&bytes),
            path,
        });
        Ok(())
    }
}

/// Returns whether a path of the assistant's folder belongs to no copy: what is derived, what belongs to a running
/// process, and the database, which is copied by itself.
fn is_left_out(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    let is_of_process = ["index", "run", LOCK, pending::FILE].contains(&first);
    let name = path.rsplit('/').next().unwrap_or_default();
    is_of_process
        || path == "blobs/reserve"
        || (first.starts_with(STATE) && first == path)
        || name.contains(TEMPORARY_MARK)
}

/// Compares a copy with its list, and returns the list.
pub(crate) fn verify(fs: &dyn Fs, copy: &Path) -> SubstrateResult<BackupList> {
    let path = copy.join(LIST);
    let text = fs.read(&path).map_err(SubstrateError::io("read", &path))?;
    let damaged = |reason: String| {
        SubstrateError::Store(StoreError::Damaged {
            what: format!("the backup `{}`", copy.display()),
            reason,
        })
    };
    let unreadable = |error: serde_json::Error| damaged(format!("`{LIST}` is no list: {error}"));
    // Only the form is known to be there in a newer one.
    let Form { form } = serde_json::from_slice(&text).map_err(unreadable)?;
    require_known("the backup", form, FORM)?;
    let list: BackupList = serde_json::from_slice(&text).map_err(unreadable)?;
    require_known(
        "the state database of the backup",
        list.schema,
        SqliteState::newest_schema(),
    )?;
    for file in &list.files {
        if !is_plain(&file.path) {
            return Err(damaged(format!("`{}` leads out of it", file.path)));
        }
        let found = entry_of(fs, &copy.join(FILES), &file.path)?;
        if found != *file {
            return Err(damaged(format!("`{}` is not what was copied", file.path)));
        }
    }
    let state = copy.join(FILES).join(STATE);
    if !crate::state::rescue::is_intact(&state) {
        return Err(damaged("its state database is not sound".to_owned()));
    }
    Ok(list)
}

fn require_known(what: &str, found: u32, known: u32) -> StoreResult<()> {
    if found <= known {
        return Ok(());
    }
    Err(StoreError::Newer {
        what: what.to_owned(),
        found: found.into(),
        known: known.into(),
    })
}

fn is_plain(path: &str) -> bool {
    !path.is_empty()
        && !path.contains('\\')
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}

fn entry_of(fs: &dyn Fs, files: &Path, path: &str) -> SubstrateResult<BackupFile> {
    let place = files.join(path);
    let bytes = fs
        .read(&place)
        .map_err(SubstrateError::io("read", &place))?;
    Ok(BackupFile {
        path: path.to_owned(),
        bytes: bytes.len() as u64,
        sha256: hash_bytes(&bytes),
    })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Refuses a target inside of what is copied: the copy would be copied too, without end.
fn refuse_inside(root: &Path, to: &Path) -> SubstrateResult<()> {
    let folder = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if real(folder).starts_with(real(root)) {
        return Err(SubstrateError::Refused {
            reason: format!(
                "`{}` is inside of the memory itself: choose a place outside of `{}`",
                to.display(),
                root.display()
            ),
        });
    }
    Ok(())
}

/// Removes what an interrupted backup left, and refuses what is none.
fn remove_unfinished(path: &Path) -> SubstrateResult<()> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SubstrateError::io("list", path)(error)),
    };
    for entry in entries {
        let name = entry.map_err(SubstrateError::io("list", path))?.file_name();
        if name != FILES && name != LIST {
            return Err(SubstrateError::AlreadyExists {
                what: "a folder that is no unfinished backup".to_owned(),
                path: path.to_owned(),
            });
        }
    }
    remove_tree(path)
}

fn remove_tree(path: &Path) -> SubstrateResult<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(SubstrateError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
