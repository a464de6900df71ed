//! Where an index lies: one directory for each space, numbered generations in it, and `CURRENT` naming the one in use.
//!
//! A rebuild fills a new generation while the old one serves, and the switch is the atomic replacement of one small
//! file. The directory's name is a hash of the space, so vectors of two models can never meet in one table. What each
//! generation should hold is recorded in the state database, which also knows the one in use should `CURRENT` be lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_core::env::{EntryKind, Fs};
use memory_core::store::{IndexSpace, StoreError, StoreResult};

use super::durable::{Changes, Files};
use crate::pages::hash_bytes;
use crate::state::SqliteState;
use crate::state::indexed::{self, Watermark};
use crate::sync::describe;

const CURRENT: &str = "CURRENT";
const SPACE: &str = "space.json";
const PREFIX: &str = "gen-";
/// Where a damaged generation waits until the one that replaces it is complete.
const DAMAGED: &str = "damaged-";

/// The `index/` directory of a workspace.
#[derive(Clone, Debug)]
pub struct IndexHome {
    fs: Arc<dyn Fs>,
    root: PathBuf,
    state: Arc<SqliteState>,
}

/// One generation of one space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) space_dir: PathBuf,
    pub(crate) number: u64,
}

/// The generation in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) generation: Generation,
    /// Why `CURRENT` could not be followed and the record was.
    pub(crate) lost: Option<String>,
}

impl Generation {
    pub(crate) fn dir(&self) -> PathBuf {
        self.space_dir.join(format!("{PREFIX}{}", self.number))
    }

    /// Returns the generation as the state database names it.
    fn place(&self) -> indexed::Place<'_> {
        let name = self.space_dir.file_name().and_then(|name| name.to_str());
        indexed::Place {
            // The name is a hash, so it is there and it is text.
            space: name.unwrap_or_default(),
            number: self.number,
        }
    }
}

impl IndexHome {
    /// Returns the home below a directory, which need not exist, with its records in the state database.
    pub fn new(fs: Arc<dyn Fs>, root: PathBuf, state: Arc<SqliteState>) -> Self {
        Self { fs, root, state }
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
    pub(crate) fn current(&self, space: &IndexSpace) -> StoreResult<Option<Current>> {
        let space_dir = self.space_dir(space)?;
        let text = match self.fs.read(&space_dir.join(CURRENT)) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).trim().to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(StoreError::engine("reading `CURRENT` of the index", error)),
        };
        let there = self.generations(&space_dir)?;
        let named = text
            .as_deref()
            .and_then(|text| text.strip_prefix(PREFIX))
            .and_then(|number| number.parse().ok());
        if let Some(number) = named.filter(|number| there.contains(number)) {
            return Ok(Some(Current {
                generation: Generation { space_dir, number },
                lost: None,
            }));
        }
        let lost = match &text {
            None => "`CURRENT` is missing",
            Some(_) => "`CURRENT` names no generation",
        };
        let of = |number| Generation {
            space_dir: space_dir.clone(),
            number,
        };
        let space_name = of(0);
        let serving = self
            .state
            .read_blocking(|connection| indexed::serving(connection, space_name.place().space))?;
        match serving {
            Some(number) if there.contains(&number) => Ok(Some(Current {
                generation: of(number),
                lost: Some(lost.to_owned()),
            })),
            Some(number) if self.rows_of(&of(number))? > 0 => Err(damaged("its files are gone")),
            None if text.is_some() => Err(damaged(lost)),
            _ => Ok(None),
        }
    }

    fn rows_of(&self, generation: &Generation) -> StoreResult<u64> {
        Ok(self.watermark(generation)?.map_or(0, |holds| holds.rows))
    }

    /// Returns the generation that an interrupted rebuild left behind beside the one in use.
    pub(crate) fn staged(&self, space: &IndexSpace) -> StoreResult<Option<Generation>> {
        let space_dir = self.space_dir(space)?;
        let Ok(Some(current)) = self.current(space) else {
            return Ok(None);
        };
        let highest = self.generations(&space_dir)?.into_iter().max().unwrap_or(0);
        let staged = Generation {
            space_dir,
            number: highest,
        };
        let is_begun = highest > current.generation.number && self.watermark(&staged)?.is_some();
        Ok(is_begun.then_some(staged))
    }

    /// Makes the directory of a generation that is not used yet.
    pub(crate) fn make_next(&self, space: &IndexSpace) -> StoreResult<Generation> {
        let space_dir = self.space_dir(space)?;
        let mut highest = 0;
        for prefix in [PREFIX, DAMAGED] {
            highest = self
                .numbered(&space_dir, prefix)?
                .into_iter()
                .fold(highest, u64::max);
        }
        self.make(space, highest + 1)
    }

    fn make(&self, space: &IndexSpace, number: u64) -> StoreResult<Generation> {
        let generation = Generation {
            space_dir: self.space_dir(space)?,
            number,
        };
        // What is known of an earlier one of this number says nothing about it.
        self.forget(&generation)?;
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
        // What it should hold must be known for certain before it is followed.
        if let Some(holds) = self.watermark(generation)? {
            let unchanged = Changes::default();
            self.state.write_blocking(|transaction| {
                indexed::record(
                    transaction,
                    generation.place(),
                    holds,
                    &unchanged.added,
                    &unchanged.gone,
                )
            })?;
        }
        self.name_current(generation)?;
        self.state.write_blocking(|transaction| {
            indexed::serve(transaction, generation.place())?;
            indexed::forget_siblings(transaction, generation.place())
        })?;
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

    /// Writes which generation is in use.
    pub(crate) fn name_current(&self, generation: &Generation) -> StoreResult<()> {
        self.write(
            &generation.space_dir.join(CURRENT),
            format!("{PREFIX}{}\n", generation.number).as_bytes(),
        )
    }

    /// Moves what a space has out of the way, because it is damaged, until its replacement is complete.
    pub(crate) fn set_aside(&self, space: &IndexSpace) -> StoreResult<()> {
        let space_dir = self.space_dir(space)?;
        self.remove_set_aside(space)?;
        for number in self.generations(&space_dir)? {
            let generation = Generation {
                space_dir: space_dir.clone(),
                number,
            };
            self.forget(&generation)?;
            let to = space_dir.join(format!("{DAMAGED}{number}"));
            self.fs
                .rename(&generation.dir(), &to)
                .map_err(|error| StoreError::engine("setting a damaged index aside", error))?;
        }
        Ok(())
    }

    /// Removes what was set aside.
    pub(crate) fn remove_set_aside(&self, space: &IndexSpace) -> StoreResult<()> {
        let space_dir = self.space_dir(space)?;
        for number in self.numbered(&space_dir, DAMAGED)? {
            remove_tree(&space_dir.join(format!("{DAMAGED}{number}")));
        }
        Ok(())
    }

    /// Removes every space but this one.
    pub fn remove_others(&self, space: &IndexSpace) -> StoreResult<()> {
        let kept = self.space_dir(space)?;
        let others: Vec<PathBuf> = self
            .list(&self.root)?
            .into_iter()
            .map(|entry| self.root.join(entry))
            .filter(|path| *path != kept)
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        let kept = Generation {
            space_dir: kept,
            number: 0,
        };
        self.state.write_unflushed_blocking(|transaction| {
            indexed::forget_others(transaction, kept.place().space)
        })?;
        for path in others {
            remove_tree(&path);
        }
        Ok(())
    }

    /// Returns the folders of every index but the one in use of a space.
    pub(crate) fn others(&self, space: &IndexSpace) -> StoreResult<Vec<PathBuf>> {
        let kept = self.space_dir(space)?;
        // Of an index that is damaged nothing serves, and it is set aside by whoever opens it.
        let current = self.current(space).ok().flatten();
        let serving = current.map(|current| current.generation.dir());
        let below = |folder: &Path| -> StoreResult<Vec<PathBuf>> {
            let names = self.list(folder)?;
            Ok(names.into_iter().map(|name| folder.join(name)).collect())
        };
        let mut others = below(&self.root)?;
        others.extend(below(&kept)?);
        others.retain(|path| *path != kept && Some(path) != serving.as_ref());
        Ok(others)
    }

    /// Returns what a generation should hold; `None` when that is not known.
    pub(crate) fn watermark(&self, generation: &Generation) -> StoreResult<Option<Watermark>> {
        self.state
            .read_blocking(|connection| indexed::watermark(connection, generation.place()))
    }

    /// Returns what a generation should hold with its files, as of one moment; `None` when that is not known.
    pub(crate) fn recorded(
        &self,
        generation: &Generation,
    ) -> StoreResult<Option<(Watermark, Files)>> {
        self.state.read_blocking(|connection| {
            let Some(holds) = indexed::watermark(connection, generation.place())? else {
                return Ok(None);
            };
            let files = indexed::files(connection, generation.place())?;
            Ok(Some((holds, Files::recorded(files))))
        })
    }

    /// Records what a generation holds now. A record that announces a removal is flushed before that begins; any other
    /// may be lost, because what it says would then be made again.
    pub(crate) fn record(
        &self,
        generation: &Generation,
        holds: Watermark,
        changes: &Changes,
    ) -> StoreResult<()> {
        let record = |transaction: &rusqlite::Transaction<'_>| {
            indexed::record(
                transaction,
                generation.place(),
                holds,
                &changes.added,
                &changes.gone,
            )
        };
        if holds.pruning {
            self.state.write_blocking(record)
        } else {
            self.state.write_unflushed_blocking(record)
        }
    }

    /// Records that a generation serves, unless that is known.
    pub(crate) fn record_serving(&self, generation: &Generation) -> StoreResult<()> {
        let place = generation.place();
        let known = self
            .state
            .read_blocking(|connection| indexed::serving(connection, place.space))?;
        if known == Some(generation.number) {
            return Ok(());
        }
        self.state
            .write_unflushed_blocking(|transaction| indexed::serve(transaction, generation.place()))
    }

    fn forget(&self, generation: &Generation) -> StoreResult<()> {
        self.state
            .write_blocking(|transaction| indexed::forget(transaction, generation.place()))
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
        self.numbered(space_dir, PREFIX)
    }

    fn numbered(&self, space_dir: &Path, prefix: &str) -> StoreResult<Vec<u64>> {
        let entries = self.list(space_dir)?;
        Ok(entries
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
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
