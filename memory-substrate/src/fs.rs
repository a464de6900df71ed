//! The operating system's files behind [`Fs`], written so that a crash leaves the old bytes or the new ones.
//!
//! A replaced file is written beside its target, flushed, renamed over it, and the directory flushed: without the last
//! step the rename itself may be lost with the power. New files and folders are private to the user, since they
//! hold a person's memory; a file that is replaced keeps the permissions it has.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use memory_core::env::{EntryKind, FileInfo, Fs};

#[cfg(test)]
pub(crate) mod faulty;
pub(crate) mod sweep;

/// Part of the name of every temporary file. Listings of pages skip names that contain it.
pub const TEMPORARY_MARK: &str = ".tmp.";

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFs;

impl Fs for RealFs {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Opening a pipe would wait for a writer that may never come.
        regular(&fs::metadata(path)?)?;
        fs::read(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let directory = parent_of(path)?;
        self.create_dir_all(directory)?;
        let temporary = directory.join(temporary_name());
        let written =
            write_new(&temporary, path, bytes).and_then(|()| fs::rename(&temporary, path));
        if let Err(error) = written {
            // The error that matters is the first one; a left-over temporary file is skipped by every reader.
            drop(fs::remove_file(&temporary));
            return Err(error);
        }
        sync_directory(directory)
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let directory = parent_of(path)?;
        self.create_dir_all(directory)?;
        let existed = match fs::symlink_metadata(path) {
            // A link would let a note be written outside the workspace.
            Ok(metadata) => regular(&metadata).map(|()| true)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        let mut file = private(OpenOptions::new().append(true).create(true)).open(path)?;
        let length = file.metadata()?.len();
        if let Err(error) = file.write_all(bytes) {
            // Half an entry must not stay when the disk is full. Appending is serialised by the caller, so what is
            // behind the old length is ours.
            drop(file.set_len(length));
            return Err(error);
        }
        file.sync_all()?;
        if existed {
            Ok(())
        } else {
            sync_directory(directory)
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (source, target) = (parent_of(from)?, parent_of(to)?);
        fs::rename(from, to)?;
        sync_directory(target)?;
        if source == target {
            Ok(())
        } else {
            sync_directory(source)
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)?;
        sync_directory(parent_of(path)?)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = path
            .ancestors()
            .take_while(|ancestor| !ancestor.exists())
            .collect();
        for directory in missing.into_iter().rev() {
            if directory.as_os_str().is_empty() {
                continue;
            }
            match private_directory(directory) {
                Ok(()) => sync_directory(parent_of(directory)?)?,
                // Somebody else made it between the look and the call.
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
                Err(error) => return Err(error),
            }
        }
        if path.is_dir() {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::NotADirectory))
        }
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        Ok(describe(name, &fs::symlink_metadata(path)?))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FileInfo>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.metadata() {
                Ok(metadata) => entries.push(describe(name, &metadata)),
                // Gone since the directory was read, which is the same as never listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(entries)
    }
}

/// Refuses what is neither a regular file nor, where links were followed, a link to one.
fn regular(metadata: &fs::Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let kind = if metadata.is_dir() {
        io::ErrorKind::IsADirectory
    } else {
        io::ErrorKind::InvalidInput
    };
    Err(io::Error::new(kind, "not a regular file"))
}

fn parent_of(path: &Path) -> io::Result<&Path> {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no parent folder"))
}

fn temporary_name() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(format!("{TEMPORARY_MARK}{}.{number}", std::process::id()))
}

fn write_new(temporary: &Path, target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file =
        private(OpenOptions::new().write(true).create(true).truncate(true)).open(temporary)?;
    file.write_all(bytes)?;
    match fs::symlink_metadata(target) {
        Ok(metadata) if metadata.is_file() => file.set_permissions(metadata.permissions())?,
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    file.sync_all()
}

fn describe(name: String, metadata: &fs::Metadata) -> FileInfo {
    let kind = if metadata.is_file() {
        EntryKind::File
    } else if metadata.is_dir() {
        EntryKind::Directory
    } else {
        EntryKind::Other
    };
    FileInfo {
        name,
        kind,
        bytes: metadata.len(),
        modified_ms: modified_ms(metadata),
    }
}

fn modified_ms(metadata: &fs::Metadata) -> i64 {
    let Ok(modified) = metadata.modified() else {
        return 0;
    };
    match modified.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => {
            i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis)
        }
    }
}

/// Flushes a directory, so that the names in it survive a power cut.
#[cfg(unix)]
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Other systems cannot open a directory for flushing; their renames are flushed with the file.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on Unix")]
pub(crate) fn sync_directory(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Gives two files or folders of one folder each other's names in one step, so that both names are always there. Returns
/// whether the system could.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;

    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => {
            // It is done; at worst it is undone by a loss of power.
            if let Err(error) = sync_directory(parent_of(one)?) {
                tracing::warn!(%error, path = %one.display(), "an exchange could not be flushed");
            }
            Ok(true)
        }
        // Not every file system has it.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Other systems have no such step.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
pub(crate) fn exchange(_one: &Path, _other: &Path) -> io::Result<bool> {
    Ok(false)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(unix)]
fn private_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn private_directory(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder can be made")
    }

    #[test]
    fn a_write_replaces_whole_files_and_leaves_nothing_else() {
        let folder = folder();
        let path = folder.path().join("a/b/page.md");
        RealFs.write(&path, b"one").expect("first write");
        RealFs.write(&path, b"two").expect("second write");
        assert_eq!(RealFs.read(&path).expect("read"), b"two");
        let names: Vec<String> = RealFs
            .list(path.parent().expect("parent"))
            .expect("list")
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert_eq!(names, ["page.md"]);
    }

    #[test]
    fn a_write_that_cannot_be_renamed_leaves_the_target_and_no_temporary_file() {
        let folder = folder();
        let target = folder.path().join("page.md");
        fs::create_dir(&target).expect("a directory where the file should go");
        assert!(RealFs.write(&target, b"x").is_err());
        assert_eq!(RealFs.list(folder.path()).expect("list").len(), 1);
        assert!(target.is_dir());
    }

    #[test]
    fn appending_creates_and_extends() {
        let folder = folder();
        let path = folder.path().join("log/buffer.md");
        RealFs.append(&path, b"one\n").expect("first append");
        RealFs.append(&path, b"two\n").expect("second append");
        assert_eq!(RealFs.read(&path).expect("read"), b"one\ntwo\n");
    }

    #[cfg(unix)]
    #[test]
    fn links_and_pipes_are_neither_waited_for_nor_written_through() {
        let folder = folder();
        let outside = folder.path().join("outside.md");
        RealFs.write(&outside, b"kept").expect("write");
        let link = folder.path().join("buffer.md");
        std::os::unix::fs::symlink(&outside, &link).expect("a link can be made");
        RealFs
            .append(&link, b"more")
            .expect_err("a link is not written through");
        assert_eq!(RealFs.read(&outside).expect("read"), b"kept");
        assert_eq!(RealFs.read(&link).expect("a link is read"), b"kept");

        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        RealFs.read(&socket).expect_err("a socket is no file");
        RealFs.read(folder.path()).expect_err("a folder is no file");
    }

    #[test]
    fn listings_are_sorted_and_renames_and_removals_take_effect() {
        let folder = folder();
        for name in ["b.md", "a.md", "c"] {
            RealFs
                .write(&folder.path().join(name), b"x")
                .expect("write");
        }
        RealFs
            .rename(&folder.path().join("c"), &folder.path().join("0.md"))
            .expect("rename");
        RealFs.remove(&folder.path().join("b.md")).expect("remove");
        let names: Vec<String> = RealFs
            .list(folder.path())
            .expect("list")
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert_eq!(names, ["0.md", "a.md"]);
        assert!(RealFs.info(&folder.path().join("b.md")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_reported_as_links_and_new_files_are_private() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = folder();
        let target = folder.path().join("sub/page.md");
        RealFs.write(&target, b"x").expect("write");
        let link = folder.path().join("link.md");
        std::os::unix::fs::symlink(&target, &link).expect("link");
        assert_eq!(RealFs.info(&link).expect("info").kind, EntryKind::Other);
        let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode(&target), 0o600);
        assert_eq!(mode(target.parent().expect("parent")), 0o700);
        fs::set_permissions(&target, fs::Permissions::from_mode(0o644)).expect("chmod");
        RealFs.write(&target, b"y").expect("replace");
        assert_eq!(mode(&target), 0o644);
    }
}
