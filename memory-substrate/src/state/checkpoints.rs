//! Points that recurring work has reached, by name.

use memory_core::store::StoreResult;
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::sql::sql;

/// Returns a checkpoint.
pub(crate) fn get(connection: &Connection, key: &str) -> StoreResult<Option<String>> {
    connection
        .prepare_cached("SELECT value FROM memory_checkpoints WHERE key = ?1")
        .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
        .map_err(sql("read a checkpoint"))
}

/// Returns a checkpoint that is an instant; one that cannot be read counts as none.
pub(crate) fn instant(connection: &Connection, key: &str) -> StoreResult<Option<Timestamp>> {
    let text = get(connection, key)?;
    Ok(text
        .and_then(|text| text.parse().ok())
        .map(Timestamp::from_millis))
}

/// Sets a checkpoint, or removes it.
pub(crate) fn put(
    connection: &Connection,
    key: &str,
    value: Option<&str>,
    now: Timestamp,
) -> StoreResult<()> {
    let done = match value {
        Some(value) => connection
            .prepare_cached(
                "INSERT INTO memory_checkpoints (key, value, updated_at) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
            )
            .and_then(|mut statement| statement.execute(params![key, value, now.as_millis()])),
        None => connection
            .prepare_cached("DELETE FROM memory_checkpoints WHERE key = ?1")
            .and_then(|mut statement| statement.execute([key])),
    };
    done.map(drop).map_err(sql("set a checkpoint"))
}
