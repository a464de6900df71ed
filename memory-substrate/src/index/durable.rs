//! Flushing what the database wrote, and telling whether it is still there.
//!
//! LanceDB hands its files to the operating system and no further: after a power cut the newest ones may be empty or
//! full of zeros. So everything a batch created is flushed here before the batch counts as done. Its files are never
//! changed once written, which makes "not flushed yet" the same as "not recorded yet", and a checksum taken then holds
//! for as long as the file does.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::state::indexed::FileRecord;

/// The one file that the database does write over. It only saves a look at the folder and may be missing.
const HINT: &str = "latest_version_hint.json";
/// The folder with a file for each version.
const VERSIONS: &str = "_versions";
/// Bytes read at once.
const BUFFER: usize = 1 << 18;

/// Length and checksum of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    bytes: u64,
    checksum: u32,
}

/// The files of a generation that are known to be on disk, by their path below its folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    marks: BTreeMap<String, Mark>,
}

/// How the files of a generation changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) added: Vec<FileRecord>,
    pub(crate) gone: Vec<String>,
}

/// What a directory tree holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeSize {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Files that each stand for a version of the table.
    pub(crate) versions: u64,
}

impl Files {
    /// Returns the files that were recorded.
    pub(crate) fn recorded(records: Vec<FileRecord>) -> Self {
        let marks = records.into_iter().map(|record| {
            let FileRecord {
                path,
                bytes,
                checksum,
            } = record;
            (path, Mark { bytes, checksum })
        });
        Self {
            marks: marks.collect(),
        }
    }

    /// Flushes every file that appeared since, and the directories they are in, and returns what changed.
    pub(crate) fn flush_new(&mut self, root: &Path) -> io::Result<Changes> {
        let mut changes = Changes::default();
        let mut present = HashSet::new();
        let mut directories: HashSet<PathBuf> = HashSet::new();
        walk(root, &mut |path, _| {
            let Some(name) = name_of(root, &path) else {
                return Ok(());
            };
            if !self.marks.contains_key(&name) {
                let mark = flush(&path)?;
                changes.added.push(FileRecord {
                    path: name.clone(),
                    bytes: mark.bytes,
                    checksum: mark.checksum,
                });
                let mut parent = path.parent();
                while let Some(directory) = parent.filter(|directory| directory.starts_with(root)) {
                    if !directories.insert(directory.to_owned()) {
                        break;
                    }
                    parent = directory.parent();
                }
            }
            present.insert(name);
            Ok(())
        })?;
        for directory in directories {
            File::open(directory)?.sync_all()?;
        }
        changes.gone = self
            .marks
            .keys()
            .filter(|name| !present.contains(*name))
            .cloned()
            .collect();
        for name in &changes.gone {
            self.marks.remove(name);
        }
        for FileRecord {
            path,
            bytes,
            checksum,
        } in changes.added.iter().cloned()
        {
            self.marks.insert(path, Mark { bytes, checksum });
        }
        Ok(changes)
    }

    /// Removes files that were never recorded: they belong to a batch that was not finished.
    pub(crate) fn remove_strangers(&self, root: &Path) -> io::Result<usize> {
        let mut strangers = Vec::new();
        walk(root, &mut |path, _| {
            if name_of(root, &path).is_none_or(|name| !self.marks.contains_key(&name)) {
                strangers.push(path);
            }
            Ok(())
        })?;
        for path in &strangers {
            std::fs::remove_file(path)?;
        }
        Ok(strangers.len())
    }

    /// Returns what is wrong with the presence and length of the files; `None` when nothing is.
    pub(crate) fn wrong_size(&self, root: &Path, may_be_gone: bool) -> io::Result<Option<String>> {
        for (name, mark) in &self.marks {
            match std::fs::metadata(root.join(name)) {
                Ok(found) if found.len() == mark.bytes => {}
                Ok(found) => {
                    return Ok(Some(format!(
                        "`{name}` has {} bytes instead of {}",
                        found.len(),
                        mark.bytes
                    )));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if !may_be_gone {
                        return Ok(Some(format!("`{name}` is missing")));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Reads every file and returns which one is not what was written; `None` when all are.
    pub(crate) fn wrong_content(&self, root: &Path) -> io::Result<Option<String>> {
        for (name, mark) in &self.marks {
            match File::open(root.join(name)).and_then(|mut file| checksum(&mut file)) {
                Ok(found) if found == *mark => {}
                Ok(_) => return Ok(Some(format!("`{name}` does not hold what was written"))),
                // Whether it may be missing was decided already.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Returns the path of a file that is recorded, as it is recorded.
fn name_of(root: &Path, path: &Path) -> Option<String> {
    let below = path.strip_prefix(root).ok()?;
    if below.file_name()? == HINT {
        return None;
    }
    let parts: Vec<&str> = below
        .iter()
        .map(|part| part.to_str())
        .collect::<Option<_>>()?;
    Some(parts.join("/"))
}

fn flush(path: &Path) -> io::Result<Mark> {
    let mut file = File::open(path)?;
    let mark = checksum(&mut file)?;
    file.sync_all()?;
    Ok(mark)
}

fn checksum(file: &mut File) -> io::Result<Mark> {
    let mut buffer = vec![0; BUFFER];
    let (mut hasher, mut bytes) = (crc32fast::Hasher::new(), 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(Mark {
                bytes,
                checksum: hasher.finalize(),
            });
        }
        hasher.update(&buffer[..read]);
        bytes += read as u64;
    }
}

/// Returns how many files a tree has, and how large they are.
pub(crate) fn tree_size(root: &Path) -> io::Result<TreeSize> {
    let mut size = TreeSize::default();
    walk(root, &mut |path, bytes| {
        let folder = path.parent().and_then(Path::file_name);
        size.versions += u64::from(folder.is_some_and(|folder| folder == VERSIONS));
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

    fn tree() -> (tempfile::TempDir, Files) {
        let root = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(root.path().join("data")).expect("a directory");
        std::fs::write(root.path().join("data/a"), b"12").expect("a file");
        let mut files = Files::default();
        let changes = files.flush_new(root.path()).expect("a flush");
        assert_eq!(changes.added.len(), 1);
        (root, files)
    }

    #[test]
    fn only_new_files_are_flushed_and_all_are_counted() {
        let (root, mut files) = tree();
        std::fs::write(root.path().join("b"), b"345").expect("a file");
        std::fs::write(root.path().join(HINT), b"9").expect("a file");
        let changes = files.flush_new(root.path()).expect("a flush");
        assert_eq!(
            (changes.added[0].path.as_str(), changes.gone.len()),
            ("b", 0)
        );
        assert_eq!(changes.added[0].checksum, crc32fast::hash(b"345"));
        assert_eq!(
            tree_size(root.path()).expect("a walk"),
            TreeSize {
                files: 3,
                bytes: 6,
                versions: 0
            }
        );
        std::fs::remove_file(root.path().join("data/a")).expect("removed");
        let changes = files.flush_new(root.path()).expect("a flush");
        assert_eq!(
            (changes.added.len(), changes.gone),
            (0, vec!["data/a".to_owned()])
        );
    }

    #[test]
    fn a_file_that_is_missing_cut_or_changed_is_told() {
        let (root, files) = tree();
        let (sizes, contents) = (
            |may_be_gone| files.wrong_size(root.path(), may_be_gone).expect("a look"),
            || files.wrong_content(root.path()).expect("a read"),
        );
        assert_eq!((sizes(false), contents()), (None, None));
        let path = root.path().join("data/a");
        std::fs::write(&path, b"13").expect("a file");
        assert!(sizes(false).is_none() && contents().is_some_and(|why| why.contains("data/a")));
        std::fs::write(&path, b"1").expect("a file");
        assert!(sizes(true).is_some_and(|why| why.contains("1 bytes")));
        std::fs::remove_file(&path).expect("removed");
        assert!(sizes(true).is_none() && sizes(false).is_some_and(|why| why.contains("missing")));
    }

    #[test]
    fn what_was_never_recorded_is_removed() {
        let (root, files) = tree();
        for name in ["b", "data/c", HINT] {
            std::fs::write(root.path().join(name), b"torn").expect("a file");
        }
        assert_eq!(files.remove_strangers(root.path()).expect("removed"), 3);
        assert_eq!(tree_size(root.path()).expect("a walk").files, 1);
    }
}
