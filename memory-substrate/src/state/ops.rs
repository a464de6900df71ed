//! The redo records of operations on files.

use memory_core::store::{StoreError, StoreResult};
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::sql::{Named, damaged, sql};
use crate::oplog::{
    Change, Halt, Operation, OriginChange, Outcome, Part, Plan, Request, WriteConflict,
    hash_of_bytes,
};

/// The key under which the database keeps how often it was opened by a writer.
const EPOCH: &str = "writer_epoch";
/// The key under which it keeps why a writer accepted no more writes.
const HALT: &str = "halt";

/// What a request with a known key was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Names the request's content.
    pub(crate) request: String,
    /// The answer, as JSON.
    pub(crate) outcome: String,
}

/// Returns what the request with this key was answered.
pub(crate) fn answered(connection: &Connection, key: &str) -> StoreResult<Option<Answered>> {
    connection
        .prepare_cached("SELECT request, outcome FROM op WHERE idem_key = ?1")
        .and_then(|mut statement| {
            statement
                .query_row([key], |row| {
                    Ok(Answered {
                        request: row.get(0)?,
                        outcome: row.get(1)?,
                    })
                })
                .optional()
        })
        .map_err(sql("look for a repeated request"))
}

/// Adds an operation and returns it as it is then to be applied.
pub(crate) fn add<T>(
    connection: &Connection,
    request: &Request,
    epoch: i64,
    plan: Plan<T>,
    outcome: &str,
) -> StoreResult<(T, Operation)> {
    let state = if plan.parts.is_empty() {
        "applied"
    } else {
        "intent"
    };
    let context = &request.context;
    connection
        .prepare_cached(
            "INSERT INTO op (id, kind, actor, origin, authority, session, epoch, idem_key, request, outcome, at, state) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                plan.id,
                Named(request.kind),
                context.actor,
                Named(context.origin),
                Named(context.authority),
                context.session,
                epoch,
                context.key,
                request.hash,
                outcome,
                request.at.as_millis(),
                state,
            ])
        })
        .map_err(sql("record an operation"))?;
    let seq = connection.last_insert_rowid();
    for (part, number) in plan.parts.iter().zip(0_u32..) {
        add_part(connection, seq, number, part)?;
    }
    let operation = Operation {
        seq,
        id: plan.id,
        at: request.at,
        parts: (0_u32..).zip(plan.parts).collect(),
    };
    Ok((plan.outcome, operation))
}

fn add_part(connection: &Connection, seq: i64, number: u32, part: &Part) -> StoreResult<()> {
    let origin = match &part.origin {
        Some(origin) => Some(
            serde_json::to_string(origin)
                .map_err(|error| StoreError::engine("record an operation", error))?,
        ),
        None => None,
    };
    let (name, target, header, base, content): (_, _, _, Option<&[u8]>, Option<&[u8]>) =
        match &part.change {
            Change::Write { base, content, .. } => {
                ("write", None, None, base.as_deref(), Some(content))
            }
            Change::Append { header, content } => {
                ("append", None, Some(header), None, Some(content.as_bytes()))
            }
            Change::Remove { entries } => ("remove", None, None, Some(entries), None),
            Change::Delete { base } => ("delete", None, None, Some(base), None),
            Change::Rename { to, content } => ("rename", Some(to), None, None, Some(content)),
        };
    let expected = match &part.change {
        Change::Rename { .. } => content.map(hash_of_bytes),
        // Not even a digest is kept of what is to be forgotten.
        Change::Remove { .. } => None,
        _ => base.map(hash_of_bytes),
    };
    let hash = match &part.change {
        Change::Write { .. } | Change::Rename { .. } => content.map(hash_of_bytes),
        Change::Append { .. } | Change::Remove { .. } | Change::Delete { .. } => None,
    };
    connection
        .prepare_cached(
            "INSERT INTO op_file (op, part, path, change, target, header, expected, hash, base, content, origin) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                seq, number, part.path, name, target, header, expected, hash, base, content, origin,
            ])
        })
        .map(drop)
        .map_err(sql("record an operation"))
}

/// Returns the operations that are not known to be in all their files, oldest first.
pub(crate) fn unapplied(connection: &Connection) -> StoreResult<Vec<Operation>> {
    let mut operations: Vec<Operation> = connection
        .prepare_cached("SELECT seq, id, at FROM op WHERE state = 'intent' ORDER BY seq")
        .and_then(|mut statement| {
            statement
                .query_map([], |row| {
                    Ok(Operation {
                        seq: row.get(0)?,
                        id: row.get(1)?,
                        at: Timestamp::from_millis(row.get(2)?),
                        parts: Vec::new(),
                    })
                })?
                .collect()
        })
        .map_err(sql("read unapplied operations"))?;
    for operation in &mut operations {
        operation.parts = parts_of(connection, operation.seq)?;
    }
    Ok(operations)
}

fn parts_of(connection: &Connection, seq: i64) -> StoreResult<Vec<(u32, Part)>> {
    connection
        .prepare_cached(
            "SELECT part, path, change, target, header, base, content, origin, merged FROM op_file \
             WHERE op = ?1 AND result IS NULL ORDER BY part",
        )
        .and_then(|mut statement| statement.query_map([seq], part_of)?.collect())
        .map_err(sql("read an unapplied operation"))
}

fn part_of(row: &Row<'_>) -> rusqlite::Result<(u32, Part)> {
    let origin: Option<String> = row.get(7)?;
    let origin: Option<OriginChange> = origin
        .map(|origin| serde_json::from_str(&origin))
        .transpose()
        .map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(7, rusqlite::types::Type::Text, error.into())
        })?;
    let name: String = row.get(2)?;
    let change = match name.as_str() {
        "write" => Change::Write {
            base: row.get(5)?,
            content: row.get(6)?,
            merged: row.get(8)?,
        },
        "append" => Change::Append {
            header: row.get(4)?,
            content: String::from_utf8_lossy(&row.get::<_, Vec<u8>>(6)?).into_owned(),
        },
        "remove" => Change::Remove {
            entries: row.get(5)?,
        },
        "delete" => Change::Delete { base: row.get(5)? },
        _ => Change::Rename {
            to: row.get(3)?,
            content: row.get(6)?,
        },
    };
    let part = Part {
        path: row.get(1)?,
        change,
        origin,
    };
    Ok((row.get(0)?, part))
}

/// Makes a write one of the merge of what was to be written with an edit, over that edit.
///
/// A merge that was cut off must be recognised and not be merged once more: merging is not the same twice.
pub(crate) fn rebase(
    connection: &Connection,
    (seq, part): (i64, u32),
    edited: &[u8],
    merged: &[u8],
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE op_file SET base = ?3, expected = ?4, content = ?5, hash = ?6, merged = 1 WHERE op = ?1 AND part = ?2",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                seq,
                part,
                edited,
                hash_of_bytes(edited),
                merged,
                hash_of_bytes(merged),
            ])
        })
        .map(drop)
        .map_err(sql("record a merge"))
}

/// What became of a part of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) seq: i64,
    pub(crate) part: u32,
    pub(crate) outcome: Outcome,
}

/// Notes what became of parts and lets their texts go. An operation without open parts is applied.
pub(crate) fn mark(connection: &Connection, marks: &[Mark]) -> StoreResult<()> {
    for mark in marks {
        let (result, copy) = match &mark.outcome {
            Outcome::Done => ("done", None),
            Outcome::Merged => ("merged", None),
            Outcome::Conflict { copy } => ("conflict", Some(copy)),
            Outcome::Kept => ("kept", None),
        };
        connection
            .prepare_cached(
                "UPDATE op_file SET result = ?3, copy = ?4, base = NULL, content = NULL WHERE op = ?1 AND part = ?2",
            )
            .and_then(|mut statement| statement.execute(params![mark.seq, mark.part, result, copy]))
            .map_err(sql("note that an operation is applied"))?;
    }
    let mut seqs: Vec<i64> = marks.iter().map(|mark| mark.seq).collect();
    seqs.dedup();
    for seq in seqs {
        connection
            .prepare_cached(
                "UPDATE op SET state = 'applied' WHERE seq = ?1 \
                 AND NOT EXISTS (SELECT 1 FROM op_file WHERE op = ?1 AND result IS NULL)",
            )
            .and_then(|mut statement| statement.execute([seq]))
            .map_err(sql("note that an operation is applied"))?;
    }
    Ok(())
}

/// Returns what an operation wrote that met an edit which could not be merged with it.
pub(crate) fn conflicts(connection: &Connection, id: &str) -> StoreResult<Vec<WriteConflict>> {
    connection
        .prepare_cached(
            "SELECT op.id, op_file.path, op_file.copy FROM op_file JOIN op ON op.seq = op_file.op \
             WHERE op.id = ?1 AND op_file.result IN ('conflict', 'kept') ORDER BY op_file.part",
        )
        .and_then(|mut statement| {
            statement
                .query_map([id], |row| {
                    Ok(WriteConflict {
                        operation: row.get(0)?,
                        path: row.get(1)?,
                        copy: row.get(2)?,
                    })
                })?
                .collect()
        })
        .map_err(sql("read which writes met an edit"))
}

/// Forgets applied operations from before an instant. Their keys may then be used anew.
pub(crate) fn prune(connection: &Connection, before: Timestamp) -> StoreResult<()> {
    connection
        .prepare_cached("DELETE FROM op WHERE state = 'applied' AND at < ?1")
        .and_then(|mut statement| statement.execute([before.as_millis()]))
        .map(drop)
        .map_err(sql("forget old operations"))
}

/// Returns a number that changes when another connection commits something.
pub(crate) fn data_version(connection: &Connection) -> StoreResult<i64> {
    connection
        .prepare_cached("PRAGMA data_version")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(sql("look for new commits"))
}

/// Returns why the last writer accepted no more writes; `None` when nothing was wrong.
pub(crate) fn halt(connection: &Connection) -> StoreResult<Option<Halt>> {
    super::kv::meta(connection, HALT)?
        .map(|text| {
            serde_json::from_str(&text).map_err(|error| {
                damaged(&format!("its record of a failed disk is not one ({error})"))
            })
        })
        .transpose()
}

/// Records why no more writes are accepted, or that they are again.
pub(crate) fn put_halt(connection: &Connection, halt: Option<&Halt>) -> StoreResult<()> {
    let text = halt
        .map(serde_json::to_string)
        .transpose()
        .map_err(|error| StoreError::engine("record a failed disk", error))?;
    super::kv::put_meta(connection, HALT, text.as_deref())
}

/// Begins the next writer's time and returns its number.
pub(crate) fn begin_epoch(connection: &Connection) -> StoreResult<i64> {
    let next = epoch(connection)? + 1;
    super::kv::put_meta(connection, EPOCH, Some(&next.to_string()))?;
    Ok(next)
}

/// Returns the number of the present writer's time.
pub(crate) fn epoch(connection: &Connection) -> StoreResult<i64> {
    let Some(text) = super::kv::meta(connection, EPOCH)? else {
        return Ok(0);
    };
    text.parse()
        .map_err(|_| damaged(&format!("its writer's number is `{text}`")))
}
