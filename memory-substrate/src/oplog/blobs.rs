//! Old versions of files, by their hash.
//!
//! Before a file is replaced or deleted its bytes are put here, so that a change can be undone. A blob always holds the
//! bytes of its name, and its age counts from the last time that they were replaced.

use std::io;
use std::path::{Path, PathBuf};

use memory_core::env::{EntryKind, Fs};

use crate::pages::hash_bytes;

/// Letters of a hash that name the folder of its blob.
const FAN_OUT: usize = 2;

/// The blobs of one assistant.
#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    folder: PathBuf,
}

impl Blobs {
    /// Returns the blobs in a folder.
    pub(crate) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Keeps bytes. Those that are there already are written again, because their age counts from now.
    pub(crate) fn put(&self, fs: &dyn Fs, bytes: &[u8]) -> io::Result<()> {
        fs.write(&self.path_of(&hash_bytes(bytes)), bytes)
    }

    /// Returns the bytes of a hash, unless they are not kept or damaged.
    pub(crate) fn get(&self, fs: &dyn Fs, hash: &str) -> io::Result<Option<Vec<u8>>> {
        match fs.read(&self.path_of(hash)) {
            Ok(bytes) => Ok((hash_bytes(&bytes) == hash).then_some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes blobs that were kept before an instant, and returns how many.
    pub(crate) fn prune(&self, fs: &dyn Fs, before_ms: i64) -> io::Result<usize> {
        let mut removed = 0;
        for folder in list(fs, &self.folder)? {
            if folder.kind != EntryKind::Directory {
                continue;
            }
            let folder = self.folder.join(folder.name);
            for blob in list(fs, &folder)? {
                if blob.kind == EntryKind::File && blob.modified_ms < before_ms {
                    fs.remove(&folder.join(blob.name))?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    fn path_of(&self, hash: &str) -> PathBuf {
        let (fan, rest) = hash.split_at(FAN_OUT.min(hash.len()));
        self.folder.join(fan).join(rest)
    }
}

fn list(fs: &dyn Fs, folder: &Path) -> io::Result<Vec<memory_core::env::FileInfo>> {
    match fs.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::RealFs;

    #[test]
    fn blobs_are_kept_checked_and_forgotten_by_age() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let blobs = Blobs::new(folder.path().join("blobs"));
        assert_eq!(blobs.get(&RealFs, "00ff").expect("read"), None);
        assert_eq!(blobs.prune(&RealFs, i64::MAX).expect("nothing there"), 0);
        blobs.put(&RealFs, b"old").expect("kept");
        blobs.put(&RealFs, b"old").expect("kept already");
        let hash = hash_bytes(b"old");
        assert_eq!(
            blobs.get(&RealFs, &hash).expect("read").as_deref(),
            Some(&b"old"[..])
        );
        std::fs::write(blobs.path_of(&hash), b"odd").expect("damaged");
        assert_eq!(blobs.get(&RealFs, &hash).expect("read"), None);
        let file = std::fs::File::options()
            .write(true)
            .open(blobs.path_of(&hash))
            .expect("opened");
        file.set_modified(std::time::UNIX_EPOCH).expect("aged");
        blobs.put(&RealFs, b"old").expect("kept again");
        assert_eq!(blobs.prune(&RealFs, 1).expect("too young"), 0);
        assert_eq!(blobs.prune(&RealFs, i64::MAX).expect("removed"), 1);
    }
}
