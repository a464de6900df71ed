//! Reading what is left of a damaged database.

use std::path::Path;

use memory_core::store::StoreResult;
use rusqlite::{Connection, OpenFlags};

use super::schema::{APPLICATION_ID, MIGRATIONS};
use super::sql::sql;
use super::{SqliteState, kv, open};

/// Everything that only the state database holds, parents first. Tables of one group are taken over together or not at
/// all: half a ledger proves nothing, and a conversation does not stand on a branch that is lost.
const GROUPS: [&[&str]; 14] = [
    &["op"],
    &["op_file"],
    &["remembered"],
    &[
        "item_operations",
        "item_head",
        "item_revisions",
        "item_evidence",
        "item_shadows",
        "item_citation",
        "item_outbox",
    ],
    &["page_origins"],
    &["turn_nodes"],
    &["turn_blocks", "conversations", "branches"],
    &["resident"],
    &["tier_log"],
    &["tier_kv"],
    &["evidence_redo"],
    &["run", "run_entry"],
    &["memory_jobs"],
    &["memory_checkpoints"],
];

/// What is in the database and need not be taken over: it is made again, or says what this file itself went through.
#[cfg(test)]
const LEFT: [&str; 6] = [
    "migrations",
    "meta",
    "orphans_seen",
    "page_cache",
    "index_generations",
    "index_files",
];

/// Returns whether a file is a whole database of ours. One that is refused all the same must not be set aside: its
/// data is good, and another version of the program reads it.
pub(crate) fn is_intact(path: &Path) -> bool {
    let Ok(connection) = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY) else {
        return false;
    };
    let id: rusqlite::Result<i32> =
        connection.pragma_query_value(None, "application_id", |row| row.get(0));
    id.is_ok_and(|id| id == APPLICATION_ID) && open::check(&connection).is_ok()
}

/// Returns whether every record of how a page came in can be read from a damaged database of the same schema.
pub(crate) fn knows_origins(path: &Path) -> bool {
    let read = || -> rusqlite::Result<bool> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        // A file that lost its end is only read at all with this setting; nothing is written here.
        connection.pragma_update(None, "writable_schema", true)?;
        let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let mut statement = connection.prepare("SELECT * FROM page_origins")?;
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
        Ok(MIGRATIONS.last().is_some_and(|last| last.id == version))
    };
    read().unwrap_or(false)
}

/// Records what was lost.
pub(crate) fn put_loss(connection: &Connection, key: &str, text: &str) -> StoreResult<()> {
    kv::put_meta(connection, key, Some(text))
}

/// Returns the statement that takes a table over.
fn copy_of(table: &str) -> String {
    match table {
        // A new database has its one row already.
        "item_head" => {
            format!("INSERT OR REPLACE INTO main.{table} SELECT * FROM damaged.{table};")
        }
        _ => format!("INSERT OR IGNORE INTO main.{table} SELECT * FROM damaged.{table};"),
    }
}

impl SqliteState {
    /// Takes over every table that can be read whole from a damaged database of the same schema, and returns their names.
    pub(crate) fn take_over(&self, damaged: &Path) -> StoreResult<Vec<String>> {
        let Some(name) = damaged.to_str() else {
            return Ok(Vec::new());
        };
        let mut writer = self.connections.writer()?;
        let connection = writer.flushing()?;
        // A file that lost its end is only read at all with this setting; nothing of a schema is written here.
        let allow = |allowed: bool, connection: &Connection| {
            connection
                .pragma_update(None, "writable_schema", allowed)
                .map_err(sql("read a damaged database"))
        };
        allow(true, connection)?;
        if let Err(error) = connection.execute("ATTACH ?1 AS damaged", [name]) {
            tracing::warn!(%error, "nothing of the damaged database can be read");
            allow(false, connection)?;
            return Ok(Vec::new());
        }
        let version: rusqlite::Result<u32> =
            connection.query_row("PRAGMA damaged.user_version", [], |row| row.get(0));
        let is_same =
            version.is_ok_and(|version| MIGRATIONS.last().is_some_and(|last| last.id == version));
        let mut rescued = Vec::new();
        for tables in GROUPS.into_iter().filter(|_| is_same) {
            let copies: String = tables.iter().map(|table| copy_of(table)).collect();
            match connection.execute_batch(&format!("BEGIN IMMEDIATE; {copies} COMMIT")) {
                Ok(()) => rescued.extend(tables.iter().map(|table| (*table).to_owned())),
                Err(error) => {
                    tracing::warn!(%error, ?tables, "tables of the damaged database cannot be read");
                    if !connection.is_autocommit() {
                        connection
                            .execute_batch("ROLLBACK")
                            .map_err(sql("give a damaged table up"))?;
                    }
                }
            }
        }
        allow(false, connection)?;
        connection
            .execute_batch("DETACH damaged")
            .map_err(sql("let go of the damaged database"))?;
        Ok(rescued)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use memory_core::env::ManualClock;

    use super::*;

    #[test]
    fn every_table_is_taken_over_or_left_on_purpose() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let state = SqliteState::open(&path, &ManualClock::default()).unwrap();
        let there: BTreeSet<String> = state
            .read_blocking(|connection| {
                connection
                    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
                    .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
                    .map_err(sql("read the schema"))
            })
            .unwrap();
        let listed = GROUPS.iter().copied().flatten().chain(&LEFT);
        assert_eq!(there, listed.map(|table| (*table).to_owned()).collect());
    }
}
