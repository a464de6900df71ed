//! The private store that libraries are loaded from: one file per hash, written once and never changed.
//!
//! Loading the file an operator copied would be a race and worse: a library that is cut short while it is mapped ends the
//! process, and a path that was loaded once keeps giving the old library.
//!
//! Nothing is synced to disk. A copy is only ever opened by the process that has just written it or has compared every
//! byte of it with a library it has just checked; one that a power cut left damaged is found by that and written again.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// Returns the path of the private copy of a library, writing it unless it is there already.
pub(crate) fn stage(folder: &Path, sha256: &str, library: &[u8]) -> io::Result<PathBuf> {
    make_private_folder(folder)?;
    let path = folder.join(format!("{sha256}.so"));
    // Compared by content, not by name alone: a copy that a disk fault or a hand has changed is replaced.
    if fs::read(&path).is_ok_and(|staged| staged == library) {
        return Ok(path);
    }
    let number = TEMPORARY.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!("{sha256}.{}.{number}.tmp", std::process::id()));
    let written = write(&temporary, library).and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        // What is left of a failed write is of no use; failing to remove it changes nothing.
        drop(fs::remove_file(&temporary));
    }
    written?;
    Ok(path)
}

fn write(path: &Path, library: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o500);
    options.open(path)?.write_all(library)
}

fn make_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    // It may have been there before, made by somebody with other ideas of privacy.
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(folder)?.permissions());
        if mode & 0o022 != 0 {
            let reason = "others may write to it; run `chmod go-w` on it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_written_once_and_repaired_when_damaged() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("deep/store");
        let path = stage(&store, "00", b"library").expect("staged");
        assert_eq!(fs::read(&path).expect("there"), b"library");
        let before = fs::metadata(&path)
            .and_then(|data| data.modified())
            .expect("a time");
        assert_eq!(stage(&store, "00", b"library").expect("reused"), path);
        assert_eq!(
            fs::metadata(&path)
                .and_then(|data| data.modified())
                .expect("a time"),
            before
        );

        fs::remove_file(&path).expect("removed");
        fs::write(&path, b"damaged").expect("written");
        stage(&store, "00", b"library").expect("repaired");
        assert_eq!(fs::read(&path).expect("there"), b"library");
        assert_eq!(
            fs::read_dir(&store).expect("listed").count(),
            1,
            "no temporary file is left"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("set");
        let error = stage(folder.path(), "00", b"library").expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set");
        stage(folder.path(), "00", b"library").expect("staged");
    }
}
