//! What was done to files, for showing it and for undoing it.

use memory_core::store::StoreResult;
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::Serialize;

use super::sql::{Named, sql};
use crate::oplog::{OperationKind, OriginChange};

/// An operation that was written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PastOperation {
    /// Its identifier.
    pub id: String,
    /// What was asked for: `remember`, `write`, `delete`, `rename`, `ingest` or `forget`.
    pub kind: String,
    /// Who asked.
    pub actor: String,
    /// When.
    pub at: Timestamp,
    /// The files it concerned, relative to the assistant's folder.
    pub files: Vec<String>,
    /// Whether all of them have what it did.
    pub applied: bool,
}

/// A part of an operation, as far as it is kept once it is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PastPart {
    pub(crate) path: String,
    pub(crate) change: String,
    /// Where a renamed file went.
    pub(crate) target: Option<String>,
    /// Hash of the bytes before.
    pub(crate) before: Option<String>,
    /// Hash of the bytes after.
    pub(crate) after: Option<String>,
    /// How the record of the page's origin followed it.
    pub(crate) origin: Option<OriginChange>,
    /// What became of it; `None` while it is not applied.
    pub(crate) result: Option<String>,
}

impl PastPart {
    /// Returns whether it met an edit, so that the file itself was not changed.
    pub(crate) fn met_an_edit(&self) -> bool {
        matches!(self.result.as_deref(), Some("conflict" | "kept"))
    }
}

/// Returns the newest operations, newest first.
pub(crate) fn newest(connection: &Connection, limit: u32) -> StoreResult<Vec<PastOperation>> {
    let failed = sql("read what was done");
    let mut found: Vec<(i64, PastOperation)> = connection
        .prepare_cached(
            "SELECT seq, id, kind, actor, at, state = 'applied' FROM op ORDER BY seq DESC LIMIT ?1",
        )
        .and_then(|mut statement| statement.query_map([limit], operation)?.collect())
        .map_err(&failed)?;
    for (seq, operation) in &mut found {
        operation.files = connection
            .prepare_cached("SELECT ifnull(target, path) FROM op_file WHERE op = ?1 ORDER BY part")
            .and_then(|mut statement| statement.query_map([*seq], |row| row.get(0))?.collect())
            .map_err(&failed)?;
    }
    Ok(found.into_iter().map(|(_, operation)| operation).collect())
}

fn operation(row: &Row<'_>) -> rusqlite::Result<(i64, PastOperation)> {
    let operation = PastOperation {
        id: row.get(1)?,
        kind: row.get(2)?,
        actor: row.get(3)?,
        at: Timestamp::from_millis(row.get(4)?),
        files: Vec::new(),
        applied: row.get(5)?,
    };
    Ok((row.get(0)?, operation))
}

/// Returns what an operation did; `None` when there is no such operation any more.
pub(crate) fn parts(
    connection: &Connection,
    id: &str,
) -> StoreResult<Option<(OperationKind, Vec<PastPart>)>> {
    let failed = sql("read an operation");
    let found: Option<(i64, OperationKind)> = connection
        .prepare_cached("SELECT seq, kind FROM op WHERE id = ?1")
        .and_then(|mut statement| {
            let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, Named<OperationKind>>(1)?.0));
            statement.query_row([id], read).optional()
        })
        .map_err(&failed)?;
    let Some((seq, kind)) = found else {
        return Ok(None);
    };
    let parts = connection
        .prepare_cached(
            "SELECT path, change, target, expected, hash, origin, result FROM op_file WHERE op = ?1 ORDER BY part",
        )
        .and_then(|mut statement| {
            let read = |row: &Row<'_>| {
                Ok(PastPart {
                    path: row.get(0)?,
                    change: row.get(1)?,
                    target: row.get(2)?,
                    before: row.get(3)?,
                    after: row.get(4)?,
                    origin: origin_of(row.get(5)?)?,
                    result: row.get(6)?,
                })
            };
            statement.query_map(params![seq], read)?.collect()
        })
        .map_err(&failed)?;
    Ok(Some((kind, parts)))
}

fn origin_of(text: Option<String>) -> rusqlite::Result<Option<OriginChange>> {
    text.map(|text| serde_json::from_str(&text))
        .transpose()
        .map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(5, rusqlite::types::Type::Text, error.into())
        })
}

/// Returns the entries that an operation brought into the intake.
pub(crate) fn entries_of(connection: &Connection, id: &str) -> StoreResult<Vec<String>> {
    connection
        .prepare_cached("SELECT id FROM remembered WHERE op = ?1 ORDER BY seq")
        .and_then(|mut statement| statement.query_map([id], |row| row.get(0))?.collect())
        .map_err(sql("read which entries an operation brought in"))
}

/// How the key begins under which an operation takes another one back.
const UNDO: &str = "undo:";

/// Returns the key under which an operation is taken back. It is another one each time the operation is in effect again
/// because taking it back was itself taken back; otherwise it is that of the operation which took it back.
pub(crate) fn undo_key(connection: &Connection, id: &str) -> StoreResult<String> {
    let mut key = format!("{UNDO}{id}");
    let mut round = 1;
    while let Some(taking_back) = of_key(connection, &key)? {
        // Whatever takes an operation back is newer than it, so this ends.
        let above = undo_key(connection, &taking_back)?;
        if of_key(connection, &above)?.is_none() {
            break;
        }
        round += 1;
        key = format!("{UNDO}{id}#{round}");
    }
    Ok(key)
}

/// Returns the operation that was asked for under a key.
pub(crate) fn of_key(connection: &Connection, key: &str) -> StoreResult<Option<String>> {
    connection
        .prepare_cached("SELECT id FROM op WHERE idem_key = ?1")
        .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
        .map_err(sql("read an operation by its key"))
}

/// Returns what kind of operation another one took back, if it did.
pub(crate) fn undone_kind(connection: &Connection, id: &str) -> StoreResult<Option<OperationKind>> {
    let failed = sql("read what an operation took back");
    let key: Option<String> = connection
        .prepare_cached("SELECT idem_key FROM op WHERE id = ?1 AND idem_key IS NOT NULL")
        .and_then(|mut statement| statement.query_row([id], |row| row.get(0)).optional())
        .map_err(&failed)?;
    let Some(undone) = key.as_deref().and_then(|key| key.strip_prefix(UNDO)) else {
        return Ok(None);
    };
    let undone = undone.split_once('#').map_or(undone, |(undone, _)| undone);
    connection
        .prepare_cached("SELECT kind FROM op WHERE id = ?1")
        .and_then(|mut statement| {
            let read = |row: &Row<'_>| Ok(row.get::<_, Named<OperationKind>>(0)?.0);
            statement.query_row([undone], read).optional()
        })
        .map_err(&failed)
}

/// Forgets that there was an entry.
pub(crate) fn forget_entry(connection: &Connection, id: &str) -> StoreResult<()> {
    connection
        .prepare_cached("DELETE FROM remembered WHERE id = ?1")
        .and_then(|mut statement| statement.execute([id]))
        .map(drop)
        .map_err(sql("forget an entry"))
}

/// Returns the hashes of every version of a file that an operation names.
pub(crate) fn hashes_of(connection: &Connection, path: &str) -> StoreResult<Vec<String>> {
    connection
        .prepare_cached(
            "SELECT expected FROM op_file WHERE ?1 IN (path, target, copy) AND expected IS NOT NULL \
             UNION SELECT hash FROM op_file WHERE ?1 IN (path, target, copy) AND hash IS NOT NULL",
        )
        .and_then(|mut statement| statement.query_map([path], |row| row.get(0))?.collect())
        .map_err(sql("read the versions of a file"))
}
