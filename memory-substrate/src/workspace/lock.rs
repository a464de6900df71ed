//! The lock that keeps one writer process per assistant.
//!
//! The operating system holds it on an open file and frees it when the process ends, however it ends, so there is no
//! stale lock to guess about. The file's text only tells people who the holder is; it is never deleted, because a new
//! file of the same name would be another lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use memory_core::store::StoreError;
use serde::{Deserialize, Serialize};

use crate::error::{SubstrateError, SubstrateResult};

/// The right to write to one assistant, until it is dropped.
#[derive(Debug)]
pub struct WriterLock {
    _file: File,
}

#[derive(Serialize, Deserialize)]
struct Holder {
    pid: u32,
    command: String,
}

impl WriterLock {
    /// Takes the lock at once or tells who holds it.
    pub(super) fn take(path: &Path, command: &str) -> SubstrateResult<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(SubstrateError::io("open", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(SubstrateError::Store(StoreError::Locked {
                    holder: describe_holder(&mut file),
                }));
            }
            Err(TryLockError::Error(error)) => return Err(SubstrateError::io("lock", path)(error)),
        }
        let holder = Holder {
            pid: std::process::id(),
            command: command.to_owned(),
        };
        write_holder(&mut file, &holder).map_err(SubstrateError::io("write", path))?;
        Ok(Self { _file: file })
    }
}

fn write_holder(file: &mut File, holder: &Holder) -> io::Result<()> {
    let text = serde_json::to_string(holder)?;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())
}

fn describe_holder(file: &mut File) -> String {
    let mut text = String::new();
    let holder = file
        .read_to_string(&mut text)
        .ok()
        .and_then(|_| serde_json::from_str::<Holder>(&text).ok());
    holder.map_or_else(
        || "another process is writing to it".to_owned(),
        |Holder { pid, command }| format!("process {pid} (`{command}`) is writing to it"),
    )
}
