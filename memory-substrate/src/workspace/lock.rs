//! The lock that keeps one writer process per assistant.
//!
//! The operating system holds it on an open file and frees it when the process ends, however it ends, so there is no
//! stale lock to guess about. The file's text only tells people and other programs who the holder is; it is never
//! deleted, because a new file of the same name would be another lock.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memory_core::store::StoreError;
use memory_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{SubstrateError, SubstrateResult};

/// How long a writer waits for another to end, unless it is told otherwise. A note takes milliseconds, so several
/// processes that each keep one get their turn; a program that stays open is named after this.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// How often a waiting writer looks again.
const PAUSE: Duration = Duration::from_millis(10);

/// The right to write to one assistant, until it is dropped.
#[derive(Debug)]
pub struct WriterLock {
    _file: File,
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
    pub(super) fn take(path: &Path, command: &str, patience: Duration) -> SubstrateResult<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(SubstrateError::io("open", path))?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if started.elapsed() < patience => {
                    // The system can wait for a lock, but not for a limited time.
                    std::thread::park_timeout(PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(SubstrateError::Store(StoreError::Locked {
                        holder: described(&mut file),
                    }));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(SubstrateError::io("lock", path)(error));
                }
            }
        }
        let holder = LockHolder {
            pid: std::process::id(),
            command: command.to_owned(),
            since: now(),
            host: host_name(),
        };
        write_holder(&mut file, &holder).map_err(SubstrateError::io("write", path))?;
        Ok(Self { _file: file })
    }

    /// Returns who holds the lock, leaving the file as it is; `None` when it is free.
    ///
    /// Only a shared lock is asked for, and let go at once: taking the writer's own would turn away a writer that starts.
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
                })))
            }
            Err(TryLockError::Error(error)) => Err(SubstrateError::io("lock", path)(error)),
        }
    }
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
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())
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
