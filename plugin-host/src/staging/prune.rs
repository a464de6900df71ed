//! Removing copies that nobody has loaded for long, and what writers that were killed left behind.
//!
//! Age alone would not do: a host that runs for months loads nothing, and a clock may jump. So a file is only removed under
//! an exclusive lock, which nobody gets while somebody writes, compares, opens or has loaded it.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{COPY, TryLockError, UNFINISHED, is_at};
use crate::sidecar::is_sha256;

/// How long ago a copy must have been loaded last.
const COPY_AGE: Duration = Duration::from_hours(30 * 24);

/// How long ago a copy must have been begun that was never finished.
const UNFINISHED_AGE: Duration = Duration::from_hours(24);

/// Removes what is of no use any more. What cannot be removed stays, and the next one tries again.
pub(super) fn prune(folder: &Path, now: SystemTime) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::debug!(%error, "the store of private copies cannot be listed");
            return;
        }
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(age) = name.to_str().and_then(age_of) else {
            continue;
        };
        let path = entry.path();
        match remove_if_unused(folder, &path, age, now) {
            Ok(true) => tracing::debug!(path = %path.display(), "an old private copy was removed"),
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "an old private copy cannot be removed");
            }
        }
    }
}

/// Returns how old a file of a name must be; nothing for one that is not ours.
fn age_of(name: &str) -> Option<Duration> {
    if name.strip_suffix(COPY).is_some_and(is_sha256) {
        return Some(COPY_AGE);
    }
    let stem = name.strip_suffix(UNFINISHED)?;
    let (sha256, _) = stem.split_once('.')?;
    is_sha256(sha256).then_some(UNFINISHED_AGE)
}

fn remove_if_unused(
    folder: &Path,
    path: &Path,
    age: Duration,
    now: SystemTime,
) -> std::io::Result<bool> {
    let is_old = |modified: SystemTime| now.duration_since(modified).is_ok_and(|past| past >= age);
    // Without the lock, to leave alone at once what is fresh.
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_file() || !is_old(metadata.modified()?) {
        return Ok(false);
    }
    // The folder too, so that nobody puts a fresh copy into the place of an old one that is looked at.
    let (file, store) = (File::open(path)?, File::open(folder)?);
    for locked in [&file, &store] {
        match locked.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    // With the lock, since somebody may have used or replaced it meanwhile.
    if !is_old(file.metadata()?.modified()?) || !is_at(&file, path) {
        return Ok(false);
    }
    fs::remove_file(path)?;
    Ok(true)
}
