//! The file operations Strata performs, as a trait.
//!
//! Only durable shapes are offered (replace a whole file, append to one), so that a crash leaves either the old bytes or
//! the new ones and a test can stand in for a failing disk.

use std::fmt;
use std::io;
use std::path::Path;

/// What a directory entry is. Links are reported as links and never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, device, socket or pipe.
    Other,
}

/// One entry of a directory, or the state of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// The last component of the path.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// Length in bytes.
    pub bytes: u64,
    /// Modification time in milliseconds since the epoch, 0 when unknown.
    pub modified_ms: i64,
}

/// Durable file operations. Every path is absolute.
pub trait Fs: Send + Sync + fmt::Debug {
    /// Returns a file's bytes.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Replaces a file in one step: temporary file, flush, rename, flush of the directory. Creates parent directories.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Appends to a file and flushes it, creating it and its parents when missing.
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Renames a file and flushes both directories.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file and flushes its directory.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a directory and its parents.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Returns what is known of one path, without following a link.
    fn info(&self, path: &Path) -> io::Result<FileInfo>;

    /// Returns a directory's entries, sorted by name.
    fn list(&self, path: &Path) -> io::Result<Vec<FileInfo>>;
}
