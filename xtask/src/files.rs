//! Small file helpers that every verb shares: hashing, atomic replacement, locking, walking.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use crate::output::note;

/// A SHA-256 being computed.
#[derive(Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    /// Feeds bytes in.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest in lower-case hexadecimal.
    pub(crate) fn finish(self) -> String {
        use std::fmt::Write as _;
        self.0
            .finalize()
            .iter()
            .fold(String::with_capacity(64), |mut text, byte| {
                write!(text, "{byte:02x}").ok();
                text
            })
    }
}

/// Returns the SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let mut hasher = Hasher::default();
    hasher.update(bytes);
    hasher.finish()
}

/// Returns the SHA-256 of a file, read in pieces.
pub(crate) fn sha256_file(path: &Path) -> Result<String> {
    let context = || format!("cannot read `{}`", path.display());
    let mut file = File::open(path).with_context(context)?;
    let mut hasher = Hasher::default();
    copy_hashed(&mut file, &mut io::sink(), &mut hasher).with_context(context)?;
    Ok(hasher.finish())
}

/// Copies everything from `from` to `to`, hashing on the way, and returns the byte count.
pub(crate) fn copy_hashed(
    from: &mut impl Read,
    to: &mut impl io::Write,
    hasher: &mut Hasher,
) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..count]);
        to.write_all(&buffer[..count])?;
        total += count as u64;
    }
}

/// Returns `path` with `.part` appended, the name under which a file is written before it is complete.
pub(crate) fn part_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".part");
    PathBuf::from(name)
}

/// Replaces a file by rename, so that no reader ever sees half of it. Equal content is left alone.
///
/// Returns whether anything was written.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<bool> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(false);
    }
    let context = || format!("cannot write `{}`", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(context)?;
    }
    let part = part_path(path);
    let mut file = File::create(&part).with_context(context)?;
    file.write_all(bytes).with_context(context)?;
    file.sync_all().with_context(context)?;
    drop(file);
    fs::rename(&part, path).with_context(context)?;
    Ok(true)
}

/// Waits until this process alone holds the lock file at `path`; dropping the result ends that.
pub(crate) fn lock(path: &Path) -> Result<File> {
    let context = || format!("cannot lock `{}`", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(context)?;
    }
    let file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .with_context(context)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            note(format_args!(
                "waiting for another xtask that holds `{}`",
                path.display()
            ));
            file.lock().with_context(context)?;
        }
        Err(TryLockError::Error(error)) => return Err(error).with_context(context),
    }
    Ok(file)
}

/// Returns every file below `root`, sorted by path; a missing folder has none.
pub(crate) fn walk(root: &Path) -> Result<Vec<PathBuf>> {
    walk_into(root, |_| true)
}

/// Returns every file below `root` that a person wrote: build output and hidden folders are left out.
pub(crate) fn walk_sources(root: &Path) -> Result<Vec<PathBuf>> {
    walk_into(root, |folder| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        name != "target" && !name.starts_with('.')
    })
}

/// Returns every file of a checkout, hidden ones included: all but build output.
pub(crate) fn walk_checkout(root: &Path) -> Result<Vec<PathBuf>> {
    walk_into(root, |folder| {
        folder.file_name().is_none_or(|name| name != "target")
    })
}

fn walk_into(root: &Path, enters: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(folder) = pending.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot list `{}`", folder.display()));
            }
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list `{}`", folder.display()))?;
            let path = entry.path();
            let kind = entry
                .file_type()
                .with_context(|| format!("cannot inspect `{}`", path.display()))?;
            if kind.is_file() {
                found.push(path);
            } else if kind.is_dir() && enters(&path) {
                pending.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns whether a file holds Rust, by its name.
pub(crate) fn is_rust(path: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|extension| extension == "rs")
}

/// Returns `path` relative to `root` with forward slashes, the form used in tables and messages.
pub(crate) fn relative(root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(root).unwrap_or(path);
    inside
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

#[cfg(test)]
mod tests {
    use super::{sha256, walk, write_atomic};

    #[test]
    fn hash_is_the_published_one() {
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn equal_content_is_not_rewritten() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("deep/er/file");
        assert!(write_atomic(&path, b"one").expect("first write"));
        assert!(!write_atomic(&path, b"one").expect("second write"));
        assert!(write_atomic(&path, b"two").expect("third write"));
        assert_eq!(walk(folder.path()).expect("walk"), [path]);
    }
}
