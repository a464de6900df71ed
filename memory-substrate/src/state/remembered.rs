//! What is known of each entry of the intake besides its text.
//!
//! A row is committed together with the operation that brings the entry into its files, so there is never an entry of
//! which nobody knows who said it.

use std::collections::HashSet;

use memory_core::provenance::{Authority, Channel, Origin, Trust};
use memory_core::store::StoreResult;
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::sql::{Named, sql};

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

/// An entry that an operation brings in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry<'a> {
    /// Its identifier.
    pub(crate) id: &'a str,
    /// Names its content and speaker.
    pub(crate) hash: &'a str,
    /// The day it belongs to, which names its archive file.
    pub(crate) day: &'a str,
    /// The operation.
    pub(crate) operation: &'a str,
}

/// Adds an entry.
pub(crate) fn add(
    connection: &Connection,
    entry: NewEntry<'_>,
    source: &EntrySource,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO remembered (id, hash, channel, origin, authority, trust, at, day, op) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                entry.id,
                entry.hash,
                source.channel.to_string(),
                Named(source.origin),
                Named(source.authority),
                Named(source.trust),
                source.at.as_millis(),
                entry.day,
                entry.operation,
            ])
        })
        .map(drop)
        .map_err(sql("record an entry"))
}

/// Returns whether anything is known of an entry.
pub(crate) fn is_known(connection: &Connection, id: &str) -> StoreResult<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM remembered WHERE id = ?1)")
        .and_then(|mut statement| statement.query_row([id], |row| row.get(0)))
        .map_err(sql("look for an entry"))
}

/// An entry that was found by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownEntry {
    /// Its identifier.
    pub(crate) id: String,
    /// Whether it is not known to be in its files.
    pub(crate) is_pending: bool,
}

/// Returns the newest entry of this hash.
pub(crate) fn newest_of(connection: &Connection, hash: &str) -> StoreResult<Option<KnownEntry>> {
    connection
        .prepare_cached(
            "SELECT id, EXISTS (SELECT 1 FROM op WHERE op.id = remembered.op AND op.state = 'intent') \
             FROM remembered WHERE hash = ?1 ORDER BY seq DESC LIMIT 1",
        )
        .and_then(|mut statement| {
            let known = |row: &Row<'_>| {
                Ok(KnownEntry {
                    id: row.get(0)?,
                    is_pending: row.get(1)?,
                })
            };
            statement.query_row([hash], known).optional()
        })
        .map_err(sql("look for an entry"))
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
