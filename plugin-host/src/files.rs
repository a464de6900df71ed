//! Reading a file of the plugin folder without trusting what stands there.
//!
//! A pipe would be waited for without end, a device may act when it is read, and a file that says nothing of its length
//! could fill the memory. So a name is looked at first, opened without waiting, looked at again, and read up to a limit.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Why a file was not read.
#[derive(Debug)]
pub(crate) enum FileFault {
    /// The system said so.
    Io(io::Error),
    /// It is this, and not a file.
    NotAFile(&'static str),
    /// It is longer than it may be.
    TooLong(u64),
}

impl FileFault {
    /// Returns the fault as a reason, unless it is an error of the system.
    pub(crate) fn reason(self, limit: u64) -> Result<String, io::Error> {
        match self {
            Self::Io(error) => Err(error),
            Self::NotAFile(what) => Ok(format!("it is {what}, not a file")),
            Self::TooLong(found) => Ok(format!(
                "it has {found} bytes, more than the {limit} it may have"
            )),
        }
    }
}

impl From<io::Error> for FileFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Opens a regular file and returns it with its length. Never waits for another process.
pub(crate) fn open(path: &Path) -> Result<(File, u64), FileFault> {
    // Looked at before it is opened, because opening a device may already do something.
    check(std::fs::metadata(path)?.file_type())?;
    // Something else may stand there by now: a pipe must not be waited for, and what was opened is looked at again.
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let metadata = file.metadata()?;
    check(metadata.file_type())?;
    Ok((file, metadata.len()))
}

/// Reads a regular file of at most so many bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, FileFault> {
    let (file, length) = open(path)?;
    if length > limit {
        return Err(FileFault::TooLong(length));
    }
    let bytes = read_at_most(file, length)?;
    let found = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if found > limit {
        return Err(FileFault::TooLong(found));
    }
    Ok(bytes)
}

/// Reads a file up to one byte more than the length it is said to have, which shows whether it has grown.
pub(crate) fn read_at_most(file: File, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0).saturating_add(1));
    file.take(length.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn check(kind: FileType) -> Result<(), FileFault> {
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(FileFault::NotAFile(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_refused(path: &Path, limit: u64, expected: &str) {
        let fault = read(path, limit).expect_err("must be refused");
        assert_eq!(fault.reason(limit).expect("a reason"), expected);
    }

    #[test]
    fn only_a_regular_file_of_bounded_length_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, b"four").expect("written");
        assert_eq!(read(&file, 4).expect("read"), b"four");
        check_refused(&file, 3, "it has 4 bytes, more than the 3 it may have");
        check_refused(folder.path(), 9, "it is a folder, not a file");
        check_refused(Path::new("/dev/zero"), 9, "it is a device, not a file");

        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo is there").success());
        check_refused(&pipe, 9, "it is a pipe, not a file");
        // Nothing of a file without end is read before it is refused.
        let sparse = folder.path().join("sparse");
        File::create(&sparse)
            .and_then(|file| file.set_len(1 << 40))
            .expect("made");
        check_refused(
            &sparse,
            9,
            "it has 1099511627776 bytes, more than the 9 it may have",
        );
        assert!(matches!(
            read(&folder.path().join("none"), 9),
            Err(FileFault::Io(_))
        ));
    }
}
