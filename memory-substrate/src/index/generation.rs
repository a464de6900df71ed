//! Where an index lies: one directory for each space, numbered generations in it, and `CURRENT` naming the one in use.
//!
//! A rebuild fills a new generation while the old one serves, and the switch is the atomic replacement of one small
//! file. The directory's name is a hash of the space, so vectors of two models can never meet in one table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_core::env::{EntryKind, Fs};
use memory_core::store::{IndexSpace, StoreError, StoreResult};
use serde::{Deserialize, Serialize};

use crate::pages::hash_bytes;
use crate::sync::describe;

const CURRENT: &str = "CURRENT";
const CHECK: &str = "CHECK";
const SPACE: &str = "space.json";
const PREFIX: &str = "gen-";

/// The `index/` directory of a workspace.
#[derive(Clone, Debug)]
pub struct IndexHome {
    fs: Arc<dyn Fs>,
    root: PathBuf,
}

/// What a generation should hold: written and flushed after each batch, compared when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// Version of the table.
    pub(crate) version: u64,
    /// Its rows.
    pub(crate) rows: u64,
}

/// One generation of one space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) space_dir: PathBuf,
    pub(crate) number: u64,
}

impl Generation {
    pub(crate) fn dir(&self) -> PathBuf {
        self.space_dir.join(format!("{PREFIX}{}", self.number))
    }
}

impl IndexHome {
    /// Returns the home below a directory, which need not exist.
    pub fn new(fs: Arc<dyn Fs>, root: PathBuf) -> Self {
        Self { fs, root }
    }

    /// Returns the directory of a space.
    pub(crate) fn space_dir(&self, space: &IndexSpace) -> StoreResult<PathBuf> {
        let text = serde_json::to_vec(space)
            .map_err(|error| StoreError::engine("naming the index", error))?;
        Ok(self.root.join(&hash_bytes(&text)[..16]))
    }

    /// Returns the spaces an index was made for, whatever its state, by directory.
    pub fn spaces(&self) -> StoreResult<Vec<IndexSpace>> {
        let mut spaces = Vec::new();
        for entry in self.list(&self.root)? {
            let path = self.root.join(&entry).join(SPACE);
            // An unreadable description belongs to no space; it is swept away by the next rebuild.
            if let Ok(bytes) = self.fs.read(&path)
                && let Ok(space) = serde_json::from_slice::<IndexSpace>(&bytes)
            {
                spaces.push(space);
            }
        }
        Ok(spaces)
    }

    /// Returns the generation in use, `None` when the space has none yet.
    pub(crate) fn current(&self, space: &IndexSpace) -> StoreResult<Option<Generation>> {
        let space_dir = self.space_dir(space)?;
        let path = space_dir.join(CURRENT);
        let text = match self.fs.read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // The very first generation is empty until it is in use, so one that holds something was in use.
                let was_in_use = self.generations(&space_dir)?.into_iter().any(|number| {
                    self.read_check(&Generation {
                        space_dir: space_dir.clone(),
                        number,
                    })
                    .is_some_and(|check| check.rows > 0)
                });
                return if was_in_use {
                    Err(damaged("`CURRENT` is missing"))
                } else {
                    Ok(None)
                };
            }
            Err(error) => return Err(StoreError::engine("reading `CURRENT` of the index", error)),
        };
        let number = text
            .strip_prefix(PREFIX)
            .and_then(|number| number.parse().ok());
        match number {
            Some(number) if self.generations(&space_dir)?.contains(&number) => {
                Ok(Some(Generation { space_dir, number }))
            }
            _ => Err(damaged("`CURRENT` names no generation")),
        }
    }

    /// Makes the directory of the next generation, or returns the one that an interrupted rebuild left behind.
    pub(crate) fn next(&self, space: &IndexSpace) -> StoreResult<Generation> {
        let space_dir = self.space_dir(space)?;
        let current = self
            .current(space)
            .ok()
            .flatten()
            .map_or(0, |generation| generation.number);
        let highest = self.generations(&space_dir)?.into_iter().max().unwrap_or(0);
        let staged = Generation {
            space_dir: space_dir.clone(),
            number: highest,
        };
        if current > 0 && highest > current && self.read_check(&staged).is_some() {
            return Ok(staged);
        }
        self.make(space, highest + 1)
    }

    /// Makes an empty generation and puts it into use at once, for an index that is new or whose old content is lost.
    pub(crate) fn replace(&self, space: &IndexSpace) -> StoreResult<Generation> {
        let space_dir = self.space_dir(space)?;
        let highest = self.generations(&space_dir)?.into_iter().max().unwrap_or(0);
        self.make(space, highest + 1)
    }

    fn make(&self, space: &IndexSpace, number: u64) -> StoreResult<Generation> {
        let generation = Generation {
            space_dir: self.space_dir(space)?,
            number,
        };
        self.fs
            .create_dir_all(&generation.dir())
            .map_err(|error| StoreError::engine("making a directory for the index", error))?;
        let text = serde_json::to_vec_pretty(space)
            .map_err(|error| StoreError::engine("naming the index", error))?;
        self.write(&generation.space_dir.join(SPACE), &text)?;
        Ok(generation)
    }

    /// Puts a generation into use and removes the others of its space.
    pub(crate) fn switch(&self, generation: &Generation) -> StoreResult<()> {
        self.write(
            &generation.space_dir.join(CURRENT),
            format!("{PREFIX}{}\n", generation.number).as_bytes(),
        )?;
        for other in self.generations(&generation.space_dir)? {
            if other != generation.number {
                let other = Generation {
                    number: other,
                    ..generation.clone()
                };
                remove_tree(&other.dir());
            }
        }
        Ok(())
    }

    /// Removes every space but this one.
    pub fn remove_others(&self, space: &IndexSpace) -> StoreResult<()> {
        let kept = self.space_dir(space)?;
        for entry in self.list(&self.root)? {
            let path = self.root.join(entry);
            if path != kept {
                remove_tree(&path);
            }
        }
        Ok(())
    }

    /// Returns what a generation should hold; `None` when that is not known.
    pub(crate) fn read_check(&self, generation: &Generation) -> Option<Check> {
        let bytes = self.fs.read(&generation.dir().join(CHECK)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Records what a generation holds now.
    pub(crate) fn write_check(&self, generation: &Generation, check: Check) -> StoreResult<()> {
        let text = serde_json::to_vec(&check)
            .map_err(|error| StoreError::engine("recording the index", error))?;
        self.write(&generation.dir().join(CHECK), &text)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> StoreResult<()> {
        let action = || {
            format!(
                "writing `{}` of the index",
                path.file_name().unwrap_or_default().to_string_lossy()
            )
        };
        self.fs
            .write(path, bytes)
            .map_err(|error| StoreError::engine(action(), error))
    }

    fn generations(&self, space_dir: &Path) -> StoreResult<Vec<u64>> {
        let entries = self.list(space_dir)?;
        Ok(entries
            .iter()
            .filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok())
            .collect())
    }

    /// Returns the names of a directory's directories; none when there is no such directory.
    fn list(&self, path: &Path) -> StoreResult<Vec<String>> {
        match self.fs.list(path) {
            Ok(entries) => Ok(entries
                .into_iter()
                .filter(|entry| entry.kind == EntryKind::Directory)
                .map(|entry| entry.name)
                .collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(StoreError::engine("listing the index", error)),
        }
    }
}

/// Removes a directory that nothing names any more. What cannot be removed now is removed by the next switch.
fn remove_tree(path: &Path) {
    if let Err(error) = std::fs::remove_dir_all(path) {
        tracing::warn!(path = %path.display(), %error, "an old index could not be removed");
    }
}

/// Returns what a failure to read an index means. A disk that refuses to be read, or a machine that is out of
/// something, says nothing about the data, so the index must not be thrown away for it.
pub(crate) fn unreadable(what: &str, error: lancedb::Error) -> StoreError {
    if refused(&error) {
        StoreError::engine(format!("reading the section index: {what}"), error)
    } else {
        damaged(format!("{what}: {}", describe(&error)))
    }
}

fn refused(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            // An error that was only wrapped into an input/output error has no number.
            if error.raw_os_error().is_some()
                && !matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
            {
                return true;
            }
        }
        cause = error.source();
    }
    false
}

/// Returns the error of an index that must be rebuilt.
pub(crate) fn damaged(reason: impl Into<String>) -> StoreError {
    StoreError::Damaged {
        what: "the section index".to_owned(),
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("above")]
    struct Above(#[source] Error);

    #[test]
    fn a_disk_that_refuses_is_no_damage() {
        assert!(
            refused(&Above(Error::from_raw_os_error(13))),
            "permission denied"
        );
        assert!(
            refused(&Above(Error::from_raw_os_error(24))),
            "too many open files"
        );
        assert!(
            !refused(&Above(Error::from_raw_os_error(2))),
            "a missing file"
        );
        assert!(!refused(&Above(Error::other("not a manifest"))));
    }
}
