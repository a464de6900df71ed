//! Bringing acknowledged operations into their files.
//!
//! Applying looks before it acts and can be done again at any moment, so what finishes the work of a writer that was
//! killed is the same code that does it in the first place. A file that already has what it should is flushed before
//! that is noted, because whoever wrote it may have been killed before flushing; after a failed flush even that is no
//! proof, and the file is written anew. Trouble with one path holds back only what is to be done to that path.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memory_core::env::{EntryKind, Fs};
use memory_core::text::buffer;

use super::append::{Appending, id_of, ids_of};
use super::blobs::Blobs;
use super::health::Halt;
use super::operation::{Change, Outcome};
use super::pending::OpenPart;
use super::resolve::{self, Removal, Renamed, Written};
use crate::state::SqliteState;
use crate::state::ops::{self, Mark};

/// One go at everything that is open.
pub(super) struct Applying<'a> {
    pub(super) root: &'a Path,
    pub(super) fs: &'a dyn Fs,
    pub(super) state: &'a SqliteState,
    pub(super) blobs: &'a Blobs,
    /// Whether what is read may not be what is on disk, because a flush failed.
    pub(super) distrust: bool,
    /// Paths that cannot be written now.
    pub(super) blocked: HashSet<String>,
    /// What was brought to an end.
    pub(super) marks: Vec<(Arc<OpenPart>, Outcome)>,
}

/// Why a part could not be applied.
struct Failure {
    action: &'static str,
    place: PathBuf,
    error: io::Error,
}

type Attempt<T> = Result<T, Failure>;

impl Applying<'_> {
    /// Applies parts in their order. Ends early only when the disk fails.
    pub(super) fn run(&mut self, open: &[Arc<OpenPart>]) -> Result<(), Halt> {
        let mut rest = open;
        while let Some(first) = rest.first() {
            let is_append =
                |part: &Arc<OpenPart>| matches!(part.part.change, Change::Append { .. });
            let run = rest.iter().take_while(|part| is_append(part)).count();
            if run > 0 {
                self.append(&rest[..run])?;
                rest = &rest[run..];
            } else {
                self.one(first)?;
                rest = &rest[1..];
            }
        }
        Ok(())
    }

    fn one(&mut self, open: &Arc<OpenPart>) -> Result<(), Halt> {
        if open.part.paths().any(|path| self.blocked.contains(path)) {
            self.blocked.extend(open.part.paths().map(str::to_owned));
            return Ok(());
        }
        let done = match &open.part.change {
            Change::Write {
                base,
                content,
                merged,
            } => self.write(open, base.as_deref(), content, *merged),
            Change::Remove { entries } => self.take_out(&open.part.path, entries),
            Change::Delete { base } => self.delete(&open.part.path, base),
            Change::Rename { to, content } => {
                self.rename(&open.part.path, to, content, &open.operation)
            }
            // Appends are taken together.
            Change::Append { .. } => return Ok(()),
        };
        match done {
            Ok(outcome) => self.marks.push((Arc::clone(open), outcome)),
            Err(failure) => self.failed(&failure, open.part.paths())?,
        }
        Ok(())
    }

    fn write(
        &self,
        open: &OpenPart,
        base: Option<&[u8]>,
        content: &[u8],
        merged_before: bool,
    ) -> Attempt<Outcome> {
        let path = open.part.path.as_str();
        let done = |merged| {
            if merged || merged_before {
                Outcome::Merged
            } else {
                Outcome::Done
            }
        };
        let current = self.read(path)?;
        match resolve::written(current.as_deref(), base, content) {
            Written::InPlace => {
                self.ensure(path, current.as_deref().unwrap_or_default())?;
                // Somebody may have made the same change beside others of their own.
                Ok(done(current.as_deref() != Some(content)))
            }
            Written::Put { bytes, merged } => {
                if let Some(base) = base {
                    self.keep(base)?;
                }
                if merged && let Some(edited) = &current {
                    self.keep(edited)?;
                    self.rebase(open, edited, &bytes)?;
                }
                self.put(path, &bytes)?;
                Ok(done(merged))
            }
            Written::Conflict => {
                let copy = resolve::conflict_copy(path, &open.operation);
                match self.read(&copy)? {
                    // Its owner may be at work on it already.
                    Some(there) => self.ensure(&copy, &there)?,
                    None => self.put(&copy, content)?,
                }
                Ok(Outcome::Conflict { copy })
            }
        }
    }

    /// Takes an entry out. No old version is kept of a file for the sake of what was to go from it.
    fn take_out(&self, path: &str, entries: &[u8]) -> Attempt<Outcome> {
        let Some(current) = self.read(path)? else {
            return Ok(Outcome::Done);
        };
        match resolve::removed(&current, entries) {
            Removal::Put(left) => self.put(path, &left)?,
            Removal::InPlace => self.ensure(path, &current)?,
            Removal::Edited => return Ok(Outcome::Kept),
        }
        Ok(Outcome::Done)
    }

    fn delete(&self, path: &str, base: &[u8]) -> Attempt<Outcome> {
        match self.read(path)? {
            Some(current) if !resolve::may_go(&current, base) => Ok(Outcome::Kept),
            Some(_) => {
                self.keep(base)?;
                self.remove(path)?;
                Ok(Outcome::Done)
            }
            None => Ok(Outcome::Done),
        }
    }

    fn rename(&self, from: &str, to: &str, content: &[u8], operation: &str) -> Attempt<Outcome> {
        let (there, target) = (self.read(from)?, self.read(to)?);
        match resolve::renamed(there.as_deref(), target.as_deref(), content) {
            Renamed::InPlace => {
                self.ensure(to, target.as_deref().unwrap_or_default())?;
                let copy = resolve::conflict_copy(to, operation);
                Ok(match self.read(&copy)? {
                    // It was moved there before it could be noted.
                    Some(_) => Outcome::Conflict { copy },
                    None => Outcome::Done,
                })
            }
            Renamed::Move => {
                self.move_file(from, to)?;
                Ok(Outcome::Done)
            }
            Renamed::Anew => {
                self.put(to, content)?;
                Ok(Outcome::Done)
            }
            Renamed::RemoveOld => {
                self.remove(from)?;
                Ok(Outcome::Done)
            }
            Renamed::Clash => {
                let copy = resolve::conflict_copy(to, operation);
                self.move_file(from, &copy)?;
                Ok(Outcome::Conflict { copy })
            }
        }
    }

    /// Appends what several operations add to some files, each file in one go.
    fn append(&mut self, parts: &[Arc<OpenPart>]) -> Result<(), Halt> {
        let mut files: Vec<Appended> = Vec::new();
        for open in parts {
            let path = open.part.path.as_str();
            if self.blocked.contains(path) {
                continue;
            }
            if let Some(file) = files.iter_mut().find(|file| file.path == path) {
                file.parts.push(open);
                continue;
            }
            match self.read(path) {
                Ok(there) => files.push(Appended::new(path, there, open)),
                Err(failure) => self.failed(&failure, std::iter::once(path))?,
            }
        }
        for at in 0..files.len() {
            let file = &files[at];
            let addition = file.addition(&files[at + 1..]);
            for open in &file.parts {
                open.tried.store(true, Ordering::Release);
            }
            let written = if addition.is_empty() && !file.exists {
                Ok(())
            } else if self.distrust {
                let whole = [file.there.as_slice(), &addition].concat();
                self.put(file.path, &whole)
            } else if addition.is_empty() {
                self.ensure(file.path, &file.there)
            } else {
                let path = self.root.join(file.path);
                self.fs
                    .append(&path, &addition)
                    .map_err(failure("append to", path))
            };
            match written {
                Ok(()) => {
                    let done = file
                        .parts
                        .iter()
                        .map(|open| (Arc::clone(open), Outcome::Done));
                    self.marks.extend(done);
                }
                Err(failure) => self.failed(&failure, std::iter::once(file.path))?,
            }
        }
        Ok(())
    }

    /// Reads a file; `None` when there is none. What is not a plain file below plain folders is an error.
    fn read(&self, path: &str) -> Attempt<Option<Vec<u8>>> {
        let place = self.root.join(path);
        match is_clear(self.fs, self.root, path) {
            Ok(true) => {}
            Ok(false) => {
                let error = io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a link or something else is in the way",
                );
                return Err(failure("write", place)(error));
            }
            Err(error) => return Err(failure("look at", place)(error)),
        }
        match self.fs.read(&place) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failure("read", place)(error)),
        }
    }

    fn put(&self, path: &str, bytes: &[u8]) -> Attempt<()> {
        let path = self.root.join(path);
        self.fs.write(&path, bytes).map_err(failure("write", path))
    }

    /// Makes sure that what a file holds is on disk. Nothing may be there if nothing was to be written.
    fn ensure(&self, path: &str, bytes: &[u8]) -> Attempt<()> {
        if self.distrust {
            return self.put(path, bytes);
        }
        let path = self.root.join(path);
        // Appending nothing flushes the file, and renaming it to itself flushes its folder.
        match self
            .fs
            .append(&path, b"")
            .and_then(|()| self.fs.rename(&path, &path))
        {
            Ok(()) => Ok(()),
            Err(error) => Err(failure("flush", path)(error)),
        }
    }

    /// Records what a merge gave before it is written.
    fn rebase(&self, open: &OpenPart, edited: &[u8], merged: &[u8]) -> Attempt<()> {
        self.state
            .write_blocking(|transaction| ops::rebase(transaction, open.key, edited, merged))
            .map_err(io::Error::other)
            .map_err(failure(
                "record a merge of",
                self.root.join(&open.part.path),
            ))
    }

    fn keep(&self, bytes: &[u8]) -> Attempt<()> {
        self.blobs
            .put(self.fs, bytes)
            .map_err(failure("keep the old version of", self.root.to_owned()))
    }

    fn remove(&self, path: &str) -> Attempt<()> {
        let path = self.root.join(path);
        match self.fs.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failure("delete", path)(error))
            }
            _ => Ok(()),
        }
    }

    fn move_file(&self, from: &str, to: &str) -> Attempt<()> {
        let (from, to) = (self.root.join(from), self.root.join(to));
        if let Some(folder) = to.parent() {
            self.fs
                .create_dir_all(folder)
                .map_err(failure("create", folder.to_owned()))?;
        }
        self.fs.rename(&from, &to).map_err(failure("rename", from))
    }

    /// Takes note of a failure: the disk's ends everything, any other holds back what is to be done to these paths.
    fn failed<'a>(
        &mut self,
        failure: &Failure,
        paths: impl Iterator<Item = &'a str>,
    ) -> Result<(), Halt> {
        if let Some(halt) = Halt::of_io(failure.action, &failure.place, &failure.error) {
            return Err(halt);
        }
        tracing::warn!(
            action = failure.action,
            place = %failure.place.display(),
            error = %failure.error,
            "a write is safe but could not be brought into its file yet"
        );
        self.blocked.extend(paths.map(str::to_owned));
        Ok(())
    }
}

/// Returns whether a path leads over plain folders to a plain file or to nothing: a link would lead a write out of the
/// assistant's folder.
pub(crate) fn is_clear(fs: &dyn Fs, root: &Path, path: &str) -> io::Result<bool> {
    let mut place = root.to_owned();
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        place.push(part);
        let wanted = if parts.peek().is_some() {
            EntryKind::Directory
        } else {
            EntryKind::File
        };
        match fs.info(&place) {
            Ok(info) if info.kind == wanted => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn failure(action: &'static str, place: PathBuf) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure {
        action,
        place,
        error,
    }
}

/// A file to which entries are added.
struct Appended<'a> {
    path: &'a str,
    exists: bool,
    there: Vec<u8>,
    ids: HashSet<String>,
    parts: Vec<&'a Arc<OpenPart>>,
}

impl<'a> Appended<'a> {
    fn new(path: &'a str, there: Option<Vec<u8>>, part: &'a Arc<OpenPart>) -> Self {
        let exists = there.is_some();
        let there = there.unwrap_or_default();
        Self {
            path,
            exists,
            ids: ids_of(&String::from_utf8_lossy(&there)),
            there,
            parts: vec![part],
        }
    }

    /// Returns what the file lacks. An operation adds to its files in order, so an entry that a later one has was in
    /// this one too: if it is not any more, somebody took it out.
    fn addition(&self, later: &[Appended<'_>]) -> Vec<u8> {
        let header = self
            .parts
            .first()
            .map_or("", |open| match &open.part.change {
                Change::Append { header, .. } => header.as_str(),
                _ => "",
            });
        let mut appending = Appending::to(&self.there, header);
        for open in &self.parts {
            let Change::Append { content, .. } = &open.part.change else {
                continue;
            };
            let followers: Vec<&Appended<'_>> = later
                .iter()
                .filter(|file| file.parts.iter().any(|other| other.key.0 == open.key.0))
                .collect();
            for group in buffer::split(content) {
                let id = id_of(&group);
                let is_further = |file: &&&Appended<'_>| id.is_some_and(|id| file.ids.contains(id));
                if !followers.iter().any(|file| is_further(&file)) {
                    appending.add(id, group.raw, open.tried.load(Ordering::Acquire));
                }
            }
        }
        appending.into_addition()
    }
}

/// Returns what the state database is to note.
pub(super) fn marks_of(marks: &[(Arc<OpenPart>, Outcome)]) -> Vec<Mark> {
    marks
        .iter()
        .map(|(open, outcome)| Mark {
            seq: open.key.0,
            part: open.key.1,
            outcome: outcome.clone(),
        })
        .collect()
}
