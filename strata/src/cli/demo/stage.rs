//! Gathers the repository's documentation for the demonstration.
//!
//! The pages are copied into a folder of their own so that their names start with `docs/` whatever the checkout is
//! called, and the file system reports one fixed time for all of them: two clones must give the same injections.

use std::io;
use std::path::{Path, PathBuf};

use memory_core::env::{EntryKind, FileInfo, Fs};
use memory_core::time::Timestamp;
use memory_substrate::fs::RealFs;

/// Documents at the top of a checkout.
const TOP: [&str; 4] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
];

/// Copies the documentation of a checkout below `<into>/docs` and returns how many files that were.
pub(super) fn documentation(repo: &Path, into: &Path) -> io::Result<usize> {
    let docs = into.join("docs");
    let mut copies: Vec<(PathBuf, PathBuf)> = TOP
        .iter()
        .map(|name| (repo.join(name), docs.join(name)))
        .collect();
    collect(&repo.join("docs"), &docs, &mut copies)?;
    for crate_folder in RealFs
        .list(repo)?
        .into_iter()
        .filter(|entry| entry.kind == EntryKind::Directory)
    {
        let folder = repo.join(&crate_folder.name);
        if folder.join("Cargo.toml").is_file() {
            copies.push((
                folder.join("README.md"),
                docs.join("crates")
                    .join(format!("{}.md", crate_folder.name)),
            ));
        }
    }
    let mut count = 0;
    for (from, to) in copies {
        match RealFs.read(&from) {
            Ok(bytes) => RealFs.write(&to, &bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        }
        count += 1;
    }
    Ok(count)
}

fn collect(from: &Path, to: &Path, copies: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    for entry in RealFs.list(from)? {
        let (source, target) = (from.join(&entry.name), to.join(&entry.name));
        match entry.kind {
            EntryKind::Directory => collect(&source, &target, copies)?,
            EntryKind::File
                if source
                    .extension()
                    .is_some_and(|extension| extension == "md") =>
            {
                copies.push((source, target));
            }
            EntryKind::File | EntryKind::Other => {}
        }
    }
    Ok(())
}

/// The real file system with one time for every file.
#[derive(Debug)]
pub(super) struct TimelessFs {
    pub(super) time: Timestamp,
}

impl TimelessFs {
    fn timeless(&self, info: FileInfo) -> FileInfo {
        FileInfo {
            modified_ms: self.time.as_millis(),
            ..info
        }
    }
}

impl Fs for TimelessFs {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        RealFs.read(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        RealFs.write(path, bytes)
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        RealFs.append(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealFs.remove(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        RealFs.create_dir_all(path)
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        RealFs.info(path).map(|info| self.timeless(info))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FileInfo>> {
        Ok(RealFs
            .list(path)?
            .into_iter()
            .map(|info| self.timeless(info))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_crate_readmes_are_gathered() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            RealFs
                .write(&root.path().join("repo").join(path), path.as_bytes())
                .unwrap();
        };
        for path in [
            "README.md",
            "docs/a.md",
            "docs/deep/b.md",
            "docs/c.txt",
            "engine/Cargo.toml",
            "engine/README.md",
            "x/README.md",
        ] {
            write(path);
        }
        let into = root.path().join("out");
        assert_eq!(documentation(&root.path().join("repo"), &into).unwrap(), 4);
        for path in [
            "docs/README.md",
            "docs/a.md",
            "docs/deep/b.md",
            "docs/crates/engine.md",
        ] {
            assert!(into.join(path).is_file(), "{path}");
        }
    }

    #[test]
    fn every_file_has_the_same_time() {
        let root = tempfile::tempdir().unwrap();
        let fs = TimelessFs {
            time: Timestamp::from_millis(7),
        };
        fs.write(&root.path().join("a"), b"x").unwrap();
        assert_eq!(fs.info(&root.path().join("a")).unwrap().modified_ms, 7);
        assert_eq!(fs.list(root.path()).unwrap()[0].modified_ms, 7);
    }
}
