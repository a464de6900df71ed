//! Flushing what the database wrote.
//!
//! LanceDB hands its files to the operating system and no further: after a power cut the newest ones may be empty or
//! full of zeros. So everything a batch created is flushed here before the batch counts as done. Its files are never
//! changed once written, which makes "not flushed yet" the same as "not seen yet".

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Which files of a directory tree are known to be on disk.
#[derive(Debug, Default)]
pub(crate) struct Flushed {
    files: HashSet<PathBuf>,
}

/// What a directory tree holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeSize {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl Flushed {
    /// Takes every file that is there now as flushed.
    pub(crate) fn trust_tree(&mut self, root: &Path) -> io::Result<()> {
        self.files.clear();
        walk(root, &mut |path, _| {
            self.files.insert(path);
            Ok(())
        })
    }

    /// Flushes every file that appeared since, and the directories they are in.
    pub(crate) fn flush_new(&mut self, root: &Path) -> io::Result<()> {
        let mut present = HashSet::new();
        let mut directories: HashSet<PathBuf> = HashSet::new();
        walk(root, &mut |path, _| {
            if !self.files.contains(&path) {
                File::open(&path)?.sync_all()?;
                let mut parent = path.parent();
                while let Some(directory) = parent.filter(|directory| directory.starts_with(root)) {
                    if !directories.insert(directory.to_owned()) {
                        break;
                    }
                    parent = directory.parent();
                }
            }
            present.insert(path);
            Ok(())
        })?;
        for directory in directories {
            File::open(directory)?.sync_all()?;
        }
        self.files = present;
        Ok(())
    }
}

/// Returns how many files a tree has, and how large they are.
pub(crate) fn tree_size(root: &Path) -> io::Result<TreeSize> {
    let mut size = TreeSize::default();
    walk(root, &mut |_, bytes| {
        size.files += 1;
        size.bytes += bytes;
        Ok(())
    })?;
    Ok(size)
}

fn walk(directory: &Path, visit: &mut dyn FnMut(PathBuf, u64) -> io::Result<()>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), visit)?;
        } else if kind.is_file() {
            visit(entry.path(), entry.metadata()?.len())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_files_are_flushed_and_all_are_counted() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let deep = root.path().join("data");
        std::fs::create_dir(&deep).expect("a directory");
        std::fs::write(deep.join("a"), b"12").expect("a file");
        let mut flushed = Flushed::default();
        flushed.trust_tree(root.path()).expect("a walk");
        assert_eq!(flushed.files.len(), 1);
        std::fs::write(root.path().join("b"), b"345").expect("a file");
        flushed.flush_new(root.path()).expect("a flush");
        assert_eq!(flushed.files.len(), 2);
        assert_eq!(
            tree_size(root.path()).expect("a walk"),
            TreeSize { files: 2, bytes: 5 }
        );
    }
}
