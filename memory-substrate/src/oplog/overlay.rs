//! The files as they are once every acknowledged operation is applied.
//!
//! A reader that looks at the files alone may miss a write that was acknowledged a moment ago, or one that a writer left
//! behind when it was killed. So whatever reads an assistant's files reads them through here: the bytes of a file with
//! open operations are those that applying would give, by the very same rules. The writer knows what is open; another
//! process asks the database, which costs it one look at a counter as long as nothing was committed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use memory_core::env::{EntryKind, FileInfo, Fs};
use memory_core::store::StoreResult;

use super::pending::Pending;
use crate::state::{SqliteState, ops};

/// Looks again this often when the database changes while a file is read.
const ATTEMPTS: usize = 3;

/// A file system with open operations laid over it. Writes pass through.
#[derive(Debug)]
pub(crate) struct OverlayFs {
    root: PathBuf,
    below: Arc<dyn Fs>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// This process writes.
    Live(Arc<RwLock<Pending>>),
    /// Another process may write.
    Stored(Arc<SqliteState>, Mutex<Known>),
}

/// What was open when the database was last asked.
#[derive(Debug, Default)]
struct Known {
    version: Option<i64>,
    pending: Arc<Pending>,
}

impl OverlayFs {
    pub(super) fn live(root: PathBuf, below: Arc<dyn Fs>, pending: Arc<RwLock<Pending>>) -> Self {
        Self {
            root,
            below,
            source: Source::Live(pending),
        }
    }

    /// Returns the files of an assistant that another process may write to.
    pub(crate) fn stored(root: PathBuf, below: Arc<dyn Fs>, state: Arc<SqliteState>) -> Self {
        Self {
            root,
            below,
            source: Source::Stored(state, Mutex::default()),
        }
    }

    /// Returns a path relative to the assistant's folder, with forward slashes.
    fn relative(&self, path: &Path) -> Option<String> {
        relative(&self.root, path)
    }

    /// Runs a look at the files with what is open at that moment.
    fn look<T>(&self, look: impl Fn(&Pending) -> T) -> io::Result<T> {
        match &self.source {
            Source::Live(pending) => Ok(look(
                &pending.read().unwrap_or_else(PoisonError::into_inner),
            )),
            Source::Stored(state, known) => {
                let mut seen = look_up(state, known)?;
                for _ in 1..ATTEMPTS {
                    let result = look(&seen.1);
                    let again = look_up(state, known)?;
                    if again.0 == seen.0 {
                        return Ok(result);
                    }
                    seen = again;
                }
                Ok(look(&seen.1))
            }
        }
    }

    fn read_now(&self, path: &str) -> Option<Vec<u8>> {
        let path = self.root.join(path);
        match self.below.info(&path) {
            Ok(info) if info.kind == EntryKind::File => self.below.read(&path).ok(),
            _ => None,
        }
    }

    /// Returns a file as it will be; `None` when nothing is to be done to it.
    fn pending_file(
        &self,
        relative: &str,
        pending: &Pending,
    ) -> Option<io::Result<(Vec<u8>, i64)>> {
        if !pending.concerns(relative) {
            return None;
        }
        let (bytes, at) = pending.effective(relative, &|path| self.read_now(path));
        Some(
            bytes
                .map(|bytes| (bytes, at.as_millis()))
                .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound)),
        )
    }
}

/// Returns a path relative to a root, with forward slashes; `None` when it is not below it or not Unicode.
pub(super) fn relative(root: &Path, path: &Path) -> Option<String> {
    let below = path.strip_prefix(root).ok()?;
    let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
    Some(parts?.join("/"))
}

fn look_up(state: &SqliteState, known: &Mutex<Known>) -> io::Result<(i64, Arc<Pending>)> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    let looked: StoreResult<(i64, Option<Pending>)> = state.read_blocking(|connection| {
        // Asked first: what is committed between the two questions is then asked for again.
        let version = ops::data_version(connection)?;
        if known.version == Some(version) {
            return Ok((version, None));
        }
        Ok((version, Some(Pending::of(ops::unapplied(connection)?))))
    });
    let (version, fresh) = looked.map_err(io::Error::other)?;
    if let Some(fresh) = fresh {
        known.version = Some(version);
        known.pending = Arc::new(fresh);
    }
    Ok((version, Arc::clone(&known.pending)))
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn file(name: String, bytes: &[u8], modified_ms: i64) -> FileInfo {
    FileInfo {
        name,
        kind: EntryKind::File,
        bytes: bytes.len() as u64,
        modified_ms,
    }
}

fn folder(name: String) -> FileInfo {
    FileInfo {
        name,
        kind: EntryKind::Directory,
        bytes: 0,
        modified_ms: 0,
    }
}

impl Fs for OverlayFs {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let Some(relative) = self.relative(path) else {
            return self.below.read(path);
        };
        self.look(|pending| match self.pending_file(&relative, pending) {
            Some(file) => file.map(|(bytes, _)| bytes),
            None => self.below.read(path),
        })?
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.below.write(path, bytes)
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.below.append(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.below.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.below.remove(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.below.create_dir_all(path)
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let Some(relative) = self.relative(path) else {
            return self.below.info(path);
        };
        self.look(|pending| {
            let now = self.below.info(path);
            if now.as_ref().is_ok_and(|info| info.kind != EntryKind::File) {
                return now;
            }
            match self.pending_file(&relative, pending) {
                Some(Ok((bytes, at))) => Ok(file(name_of(path), &bytes, at)),
                Some(Err(error)) => Err(error),
                None if now.is_err() && pending.concerns_below(&format!("{relative}/")) => {
                    Ok(folder(name_of(path)))
                }
                None => now,
            }
        })?
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FileInfo>> {
        let Some(relative) = self.relative(path) else {
            return self.below.list(path);
        };
        let prefix = if relative.is_empty() {
            relative
        } else {
            format!("{relative}/")
        };
        self.look(|pending| {
            let now = self.below.list(path);
            if !pending.concerns_below(&prefix) {
                return now;
            }
            let mut entries = match now {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(error),
            };
            let children: BTreeSet<(&str, bool)> = pending
                .below(&prefix)
                .filter_map(|path| path.get(prefix.len()..))
                .map(|rest| {
                    rest.split_once('/')
                        .map_or((rest, true), |(name, _)| (name, false))
                })
                .collect();
            for (name, is_file) in children {
                let there = entries.iter().position(|entry| entry.name == name);
                match (is_file, there) {
                    (true, there) => {
                        if there.is_some_and(|at| entries[at].kind != EntryKind::File) {
                            continue;
                        }
                        if let Some(at) = there {
                            entries.remove(at);
                        }
                        if let Some(Ok((bytes, at))) =
                            self.pending_file(&format!("{prefix}{name}"), pending)
                        {
                            entries.push(file(name.to_owned(), &bytes, at));
                        }
                    }
                    (false, None) => entries.push(folder(name.to_owned())),
                    (false, Some(_)) => {}
                }
            }
            entries.sort_by(|left, right| left.name.cmp(&right.name));
            Ok(entries)
        })?
    }
}
