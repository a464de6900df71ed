//! The intake's redo records.
//!
//! A row is committed before any file is touched, and its text stays in it until the files have it. That one commit is
//! what makes an acknowledged write survive anything.

use std::collections::HashSet;

use memory_core::provenance::{Authority, Channel, Origin, Trust};
use memory_core::store::StoreResult;
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::sql::{Named, sql};

/// An entry about to be written to its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingEntry {
    /// Its identifier.
    pub(crate) id: String,
    /// The day it belongs to, which names its archive file.
    pub(crate) day: String,
    /// Its text as it will stand in the files.
    pub(crate) entry: String,
}

/// What is kept of where an entry came from.
#[derive(Clone, Debug)]
pub(crate) struct EntrySource {
    /// Where it belongs.
    pub(crate) channel: Channel,
    /// How it got here.
    pub(crate) origin: Origin,
    /// With whose authority.
    pub(crate) authority: Authority,
    /// What that makes of it.
    pub(crate) trust: Trust,
    /// When it was said.
    pub(crate) at: Timestamp,
}

/// Adds an entry that is not yet in its files.
pub(crate) fn add(
    connection: &Connection,
    hash: &str,
    entry: &PendingEntry,
    source: &EntrySource,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO remembered (id, hash, channel, origin, authority, trust, at, day, state, entry) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'pending', ?9)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                entry.id,
                hash,
                source.channel.to_string(),
                Named(source.origin),
                Named(source.authority),
                Named(source.trust),
                source.at.as_millis(),
                entry.day,
                entry.entry,
            ])
        })
        .map(drop)
        .map_err(sql("record an entry"))
}

/// An entry that was found by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownEntry {
    /// Its identifier.
    pub(crate) id: String,
    /// Whether it is not yet in its files.
    pub(crate) is_pending: bool,
}

/// Returns the newest entry of this hash.
pub(crate) fn newest_of(connection: &Connection, hash: &str) -> StoreResult<Option<KnownEntry>> {
    connection
        .prepare_cached("SELECT id, state = 'pending' FROM remembered WHERE hash = ?1 ORDER BY seq DESC LIMIT 1")
        .and_then(|mut statement| {
            statement.query_row([hash], |row| Ok(KnownEntry { id: row.get(0)?, is_pending: row.get(1)? })).optional()
        })
        .map_err(sql("look for an entry"))
}

/// Returns the entries that are not known to be in their files, oldest first.
pub(crate) fn pending(connection: &Connection) -> StoreResult<Vec<PendingEntry>> {
    connection
        .prepare_cached(
            "SELECT id, day, entry FROM remembered WHERE state = 'pending' ORDER BY seq",
        )
        .and_then(|mut statement| {
            statement
                .query_map([], |row| {
                    Ok(PendingEntry {
                        id: row.get(0)?,
                        day: row.get(1)?,
                        entry: row.get(2)?,
                    })
                })?
                .collect()
        })
        .map_err(sql("read unapplied entries"))
}

/// Notes that entries are in their files and lets their redo text go.
pub(crate) fn mark_applied(connection: &Connection, entries: &[PendingEntry]) -> StoreResult<()> {
    for entry in entries {
        connection
            .prepare_cached("UPDATE remembered SET state = 'applied', entry = NULL WHERE id = ?1")
            .and_then(|mut statement| statement.execute([&entry.id]))
            .map_err(sql("note that an entry is applied"))?;
    }
    Ok(())
}

/// Returns the entries that must not be shown to somebody who may read these channels: untrusted ones, and those of
/// other channels. The global channel can always be read.
pub(crate) fn withheld(
    connection: &Connection,
    channels: &[Channel],
) -> StoreResult<HashSet<String>> {
    let rows: Vec<(String, Channel, Trust)> = connection
        .prepare_cached(
            "SELECT id, channel, trust FROM remembered WHERE trust = 'untrusted' OR channel <> '_global'",
        )
        .and_then(|mut statement| {
            statement
                .query_map([], |row| {
                    Ok((row.get(0)?, row.get::<_, Named<Channel>>(1)?.0, row.get::<_, Named<Trust>>(2)?.0))
                })?
                .collect()
        })
        .map_err(sql("read which entries are withheld"))?;
    let readable = |channel: &Channel| *channel == Channel::Global || channels.contains(channel);
    Ok(rows
        .into_iter()
        .filter(|(_, channel, trust)| *trust == Trust::Untrusted || !readable(channel))
        .map(|(id, ..)| id)
        .collect())
}
