//! The private store that libraries are loaded from: one file per hash, written once and never changed.
//!
//! Loading the file an operator copied would be a race and worse: a library that is cut short while it is mapped ends the
//! process, and a path that was loaded once keeps giving the old library.
//!
//! Nothing is synced to disk. A copy is only ever opened by the process that has just written it or has compared every
//! byte of it with a library it has just checked; one that a power cut left damaged is found by that and written again.
//!
//! Several processes share a store, and it would grow with every build there ever was. So whoever adds a copy removes
//! those that nobody has loaded for long. Who uses a copy holds a shared lock on it, from before it is compared and for as
//! long as the library is loaded; what is removed is locked exclusively, so the two exclude each other.

mod prune;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::library;

/// What the name of a copy ends with.
const COPY: &str = ".so";

/// What the name of a copy ends with while it is written.
const UNFINISHED: &str = ".tmp";

/// How often a copy is looked for before it is given up: another process may remove or replace it each time.
const ATTEMPTS: usize = 8;

static TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// A private copy, which nobody removes while this is held.
#[derive(Debug)]
pub(crate) struct Staged {
    path: PathBuf,
    held: File,
}

impl Staged {
    /// Returns where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Holds the copy for the life of the process, as what was loaded from it stays loaded.
    pub(crate) fn keep(self) {
        std::mem::forget(self.held);
    }
}

/// Returns the private copy of a library, writing it unless it is there already.
pub(crate) fn stage(folder: &Path, sha256: &str, library: &[u8]) -> io::Result<Staged> {
    stage_at(folder, sha256, library, SystemTime::now())
}

fn stage_at(folder: &Path, sha256: &str, library: &[u8], now: SystemTime) -> io::Result<Staged> {
    make_private_folder(folder)?;
    let path = folder.join(format!("{sha256}{COPY}"));
    // Held until the copy is held by its place too, so that nobody removes it in between.
    let mut fresh = None;
    for _ in 0..ATTEMPTS {
        if let Some(held) = hold(&path, library, now) {
            if fresh.is_some() {
                prune::prune(folder, now);
            }
            return Ok(Staged { path, held });
        }
        match write(folder, sha256, library, &path) {
            Ok(written) => fresh = written,
            // Its temporary was taken for an old one in the moment before it was locked, as when a clock has jumped.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let reason = "its private copy is gone or changed whenever it is looked at";
    Err(io::Error::new(io::ErrorKind::ResourceBusy, reason))
}

/// Holds the copy at a path if it is the library, and notes that it was used now.
fn hold(path: &Path, library: &[u8], now: SystemTime) -> Option<File> {
    let mut file = File::open(path).ok()?;
    lock_shared(&file);
    // Before the lock was had, the file may have been removed.
    if !has_content(&mut file, library) || !is_at(&file, path) {
        return None;
    }
    // A copy whose time cannot be set looks older than it is, and is made again one day.
    drop(file.set_modified(now));
    Some(file)
}

/// Returns whether a file is a library. Compared by content, not by name alone: a copy that a disk fault or a hand has
/// changed is replaced.
fn has_content(file: &mut File, library: &[u8]) -> bool {
    let mut staged = Vec::with_capacity(library.len());
    file.read_to_end(&mut staged).is_ok() && staged == library
}

/// Locks a copy against removal. On a file system without locks nothing is ever removed, so none are needed.
fn lock_shared(file: &File) {
    if let Err(error) = file.lock_shared() {
        tracing::debug!(%error, "a private copy cannot be locked");
    }
}

/// Returns whether an open file is still the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => id(open) == id(there),
        _ => false,
    }
}

/// Puts a copy into its place and returns it, held; nothing when a good one has been put there meanwhile.
fn write(folder: &Path, sha256: &str, library: &[u8], path: &Path) -> io::Result<Option<File>> {
    let number = TEMPORARY.fetch_add(1, Ordering::Relaxed);
    let name = format!("{sha256}.{}.{number}{UNFINISHED}", std::process::id());
    let temporary = folder.join(name);
    let written = write_new(&temporary, library).and_then(|held| {
        // One at a time, whoever puts a copy there or removes one: what others hold must stay at its place.
        let store = File::open(folder)?;
        if let Err(error) = store.lock() {
            tracing::debug!(%error, "the store of private copies cannot be locked");
        }
        if File::open(path).is_ok_and(|mut there| has_content(&mut there, library)) {
            fs::remove_file(&temporary)?;
            return Ok(None);
        }
        fs::rename(&temporary, path).map(|()| Some(held))
    });
    if written.is_err() {
        // What is left of a failed write is of no use; failing to remove it changes nothing.
        drop(fs::remove_file(&temporary));
    }
    written
}

/// Writes a new file and returns it, held.
fn write_new(path: &Path, library: &[u8]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o500)
        .open(path)?;
    lock_shared(&file);
    file.write_all(library)?;
    Ok(file)
}

fn make_private_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    // It may have been there before, made by somebody with other ideas of privacy.
    let metadata = fs::metadata(folder)?;
    let denied = |reason: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    if metadata.uid() != library::user() {
        // Its owner can put another file in the place of one that was just compared.
        return denied("it belongs to another user; remove it, or name another folder");
    }
    if metadata.permissions().mode() & 0o022 != 0 {
        return denied("others may write to it; run `chmod go-w` on it");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
