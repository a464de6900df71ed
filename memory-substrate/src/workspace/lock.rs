//! The lock that keeps one writer process per assistant.
//!
//! The operating system holds it on an open file and frees it when the process ends, however it ends, so there is no
//! stale lock to guess about. The file's text only tells people and other programs who the holder is; it is never
//! deleted, because a new file of the same name would be another lock.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memory_core::store::StoreError;
use memory_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{SubstrateError, SubstrateResult};

/// How long a writer waits for another to end, unless it is told otherwise. A note takes milliseconds, so several
/// processes that each keep one get their turn; a program that stays open is named after this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// How long even a writer without patience tries: whoever only asks who writes has the lock for a moment.
const GLANCE: Duration = Duration::from_millis(25);

/// How often a waiting writer looks again.
const PAUSE: Duration = Duration::from_millis(10);

/// The right to write to one assistant, until it is dropped.
#[derive(Debug)]
pub struct WriterLock {
    file: File,
    holder: LockHolder,
}

/// Who holds the lock, as it said itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// The process.
    pub pid: u32,
    /// What it is doing.
    pub command: String,
    /// When it took the lock.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// The machine it runs on, when that has a name.
    #[serde(default)]
    pub host: Option<String>,
    /// Where it takes requests of other processes, when it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, command, .. } = self;
        write!(formatter, "process {pid} (`{command}`) is writing to it")?;
        if let Some(since) = self.since {
            write!(formatter, " since {} UTC", since.civil_minute("UTC"))?;
        }
        match &self.host {
            Some(host) if Some(host) != host_name().as_ref() => write!(formatter, " on `{host}`"),
            _ => Ok(()),
        }
    }
}

impl WriterLock {
    /// Takes the lock, waiting for the holder to end, or tells who holds it.
    pub(crate) fn take(path: &Path, command: &str, patience: Duration) -> SubstrateResult<Self> {
        let (started, patience) = (Instant::now(), patience.max(GLANCE));
        let mut file = loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .map_err(SubstrateError::io("open", path))?;
            wait_for(&mut file, path, patience, started)?;
            // The folder may have been replaced while this one waited, and then this lock guards the old one.
            if is_at(&file, path).map_err(SubstrateError::io("look at", path))? {
                break file;
            }
        };
        let holder = LockHolder {
            pid: std::process::id(),
            command: command.to_owned(),
            since: now(),
            host: host_name(),
            socket: None,
        };
        write_holder(&mut file, &holder).map_err(SubstrateError::io("write", path))?;
        Ok(Self { file, holder })
    }

    /// Tells other processes where they can hand in requests while this one holds the lock.
    pub fn announce(&mut self, socket: &Path) -> io::Result<()> {
        self.holder.socket = Some(socket.to_owned());
        write_holder(&mut self.file, &self.holder)
    }

    /// Returns what the file says of a holder, who may be gone; `None` when it says nothing.
    pub(super) fn said(path: &Path) -> SubstrateResult<Option<LockHolder>> {
        match File::open(path) {
            Ok(mut file) => Ok(read_holder(&mut file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SubstrateError::io("open", path)(error)),
        }
    }

    /// Returns who holds the lock, leaving the file as it is; `None` when it is free.
    ///
    /// Only a shared lock is asked for, and let go at once. A writer that starts at that very moment waits for it.
    pub(super) fn holder(path: &Path) -> SubstrateResult<Option<LockHolder>> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SubstrateError::io("open", path)(error)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => {
                Ok(Some(read_holder(&mut file).unwrap_or(LockHolder {
                    pid: 0,
                    command: "unknown".to_owned(),
                    since: None,
                    host: None,
                    socket: None,
                })))
            }
            Err(TryLockError::Error(error)) => Err(SubstrateError::io("lock", path)(error)),
        }
    }
}

/// Waits until the lock of an open file is this process's.
fn wait_for(
    file: &mut File,
    path: &Path,
    patience: Duration,
    started: Instant,
) -> SubstrateResult<()> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if started.elapsed() < patience => {
                // The system can wait for a lock, but not for a limited time.
                std::thread::park_timeout(PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(SubstrateError::Store(StoreError::Locked {
                    holder: described(file),
                }));
            }
            Err(TryLockError::Error(error)) => {
                return Err(SubstrateError::io("lock", path)(error));
            }
        }
    }
}

/// Returns whether a path still leads to an open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;

    let held = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A folder with an open file in it cannot be replaced there.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on Unix")]
fn is_at(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}

fn now() -> Option<Timestamp> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let millis = i64::try_from(since_epoch.as_millis()).ok()?;
    Some(Timestamp::from_millis(millis))
}

/// Returns the machine's name where the system keeps it in a file.
fn host_name() -> Option<String> {
    let name = ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok())?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

fn write_holder(file: &mut File, holder: &LockHolder) -> io::Result<()> {
    let text = serde_json::to_string(holder)?;
    file.rewind()?;
    // Written before it is cut, so that whoever reads meanwhile finds a holder in it.
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}

fn read_holder(file: &mut File) -> Option<LockHolder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn described(file: &mut File) -> String {
    read_holder(file).map_or_else(
        || "another process is writing to it".to_owned(),
        |holder| holder.to_string(),
    )
}
