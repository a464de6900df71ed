//! Runs of background work: what each did to files, and what it took out of the buffer.

use memory_core::store::{StoreError, StoreResult};
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::sql::sql;

/// A run that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunRow {
    pub(crate) id: String,
    /// What started it.
    pub(crate) cause: String,
    /// What decided where entries go.
    pub(crate) filer: String,
    pub(crate) started: Timestamp,
    pub(crate) ended: Timestamp,
    /// `installed`, `nothing` or `failed`.
    pub(crate) outcome: String,
    /// The operation that installed it.
    pub(crate) operation: Option<String>,
    /// What it did, as JSON.
    pub(crate) report: String,
}

/// An entry that a run took out of the buffer: its id, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunEntry {
    pub(crate) entry: String,
    pub(crate) text: String,
    /// What was put on a page for it; nothing when only its mark was.
    pub(crate) block: Option<String>,
}

const COLUMNS: &str = "id, cause, filer, started, ended, outcome, operation, report";

/// Records a consolidation and what it took out of the buffer.
pub(crate) fn add(connection: &Connection, run: &RunRow, entries: &[RunEntry]) -> StoreResult<()> {
    let failed = sql("record a run");
    connection
        .prepare_cached(
            "INSERT INTO run (id, kind, cause, filer, started, ended, outcome, operation, report) \
             VALUES (?1, 'consolidation', ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                run.id,
                run.cause,
                run.filer,
                run.started.as_millis(),
                run.ended.as_millis(),
                run.outcome,
                run.operation,
                run.report,
            ])
        })
        .map_err(&failed)?;
    let number = connection.last_insert_rowid();
    for (position, taken) in entries.iter().enumerate() {
        let position = i64::try_from(position)
            .map_err(|error| StoreError::engine("number the entries of a run", error))?;
        connection
            .prepare_cached(
                "INSERT INTO run_entry (run, position, entry, text, block) VALUES (?1, ?2, ?3, ?4, ?5)",
            )
            .and_then(|mut statement| {
                statement.execute(params![number, position, taken.entry, taken.text, taken.block])
            })
            .map_err(&failed)?;
    }
    Ok(())
}

/// Returns the newest runs, newest first.
pub(crate) fn newest(connection: &Connection, limit: u32) -> StoreResult<Vec<RunRow>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM run ORDER BY seq DESC LIMIT ?1"
        ))
        .and_then(|mut statement| statement.query_map([limit], read)?.collect())
        .map_err(sql("read runs"))
}

/// Returns a run.
pub(crate) fn get(connection: &Connection, id: &str) -> StoreResult<Option<RunRow>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM run WHERE id = ?1"))
        .and_then(|mut statement| statement.query_row([id], read).optional())
        .map_err(sql("read a run"))
}

/// Returns what the run that an operation installed took out of the buffer; `None` when no run did.
pub(crate) fn taken_by(
    connection: &Connection,
    operation: &str,
) -> StoreResult<Option<Vec<RunEntry>>> {
    let failed = sql("read what a run took");
    let number: Option<i64> = connection
        .prepare_cached("SELECT seq FROM run WHERE operation = ?1")
        .and_then(|mut statement| {
            statement
                .query_row([operation], |row| row.get(0))
                .optional()
        })
        .map_err(&failed)?;
    let Some(number) = number else {
        return Ok(None);
    };
    let entry = |row: &Row<'_>| {
        Ok(RunEntry {
            entry: row.get(0)?,
            text: row.get(1)?,
            block: row.get(2)?,
        })
    };
    connection
        .prepare_cached("SELECT entry, text, block FROM run_entry WHERE run = ?1 ORDER BY position")
        .and_then(|mut statement| statement.query_map([number], entry)?.collect())
        .map(Some)
        .map_err(&failed)
}

/// Returns what runs took of an entry, the newest first.
pub(crate) fn taken_of(connection: &Connection, entry: &str) -> StoreResult<Vec<RunEntry>> {
    connection
        .prepare_cached(
            "SELECT entry, text, block FROM run_entry WHERE entry = ?1 ORDER BY run DESC",
        )
        .and_then(|mut statement| {
            let rows = statement.query_map([entry], |row| {
                Ok(RunEntry {
                    entry: row.get(0)?,
                    text: row.get(1)?,
                    block: row.get(2)?,
                })
            })?;
            rows.collect()
        })
        .map_err(sql("read what runs took"))
}

/// Forgets what an entry said that runs took, and what the records of those runs show of pages.
pub(crate) fn forget_entry(connection: &Connection, entry: &str) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE run SET report = json_set(report, '$.pages', json('[]'), '$.doubts', json('[]')) \
             WHERE seq IN (SELECT run FROM run_entry WHERE entry = ?1)",
        )
        .and_then(|mut statement| statement.execute([entry]))
        .map_err(sql("forget an entry"))?;
    connection
        .prepare_cached("DELETE FROM run_entry WHERE entry = ?1")
        .and_then(|mut statement| statement.execute([entry]))
        .map(drop)
        .map_err(sql("forget an entry"))
}

/// Forgets what runs took before an instant, and what they changed. They stay in the list.
pub(crate) fn prune(connection: &Connection, before: Timestamp) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE run SET report = json_set(report, '$.pages', json('[]')) \
             WHERE ended < ?1 AND json_array_length(report, '$.pages') > 0",
        )
        .and_then(|mut statement| statement.execute([before.as_millis()]))
        .map_err(sql("forget what runs changed"))?;
    connection
        .prepare_cached("DELETE FROM run_entry WHERE run IN (SELECT seq FROM run WHERE ended < ?1)")
        .and_then(|mut statement| statement.execute([before.as_millis()]))
        .map(drop)
        .map_err(sql("forget what runs took"))
}

fn read(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        id: row.get(0)?,
        cause: row.get(1)?,
        filer: row.get(2)?,
        started: Timestamp::from_millis(row.get(3)?),
        ended: Timestamp::from_millis(row.get(4)?),
        outcome: row.get(5)?,
        operation: row.get(6)?,
        report: row.get(7)?,
    })
}
