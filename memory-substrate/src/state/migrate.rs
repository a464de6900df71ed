//! Forward-only upgrades of the state database.
//!
//! Each step is one transaction that also records the step's checksum and raises `user_version`, so an upgrade that is
//! cut off leaves the last complete step. Before an existing database is touched, a checked copy of it is put beside it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use memory_core::store::{StoreError, StoreResult};
use memory_core::time::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior};

use super::sql::{damaged, sql};
use crate::error::store_io;
use crate::pages::hash_bytes;

/// One step of the schema's history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Migration {
    /// Position, from 1 without gaps.
    pub(super) id: u32,
    /// What it does, in a few words.
    pub(super) name: &'static str,
    /// The statements.
    pub(super) sql: &'static str,
}

impl Migration {
    fn checksum(&self) -> String {
        hash_bytes(self.sql.as_bytes())
    }
}

/// Returns how many of the known steps a database has, after comparing the checksums of those.
pub(super) fn applied(connection: &Connection, migrations: &[Migration]) -> StoreResult<u32> {
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(sql("read the schema version"))?;
    let version = u32::try_from(version)
        .map_err(|_| damaged(&format!("its schema version is `{version}`")))?;
    let known = migrations.last().map_or(0, |last| last.id);
    if version > known {
        return Err(StoreError::Newer {
            what: "the state database".to_owned(),
            found: version.into(),
            known: known.into(),
        });
    }
    for migration in migrations
        .iter()
        .take_while(|migration| migration.id <= version)
    {
        let stored: Option<String> = connection
            .query_row(
                "SELECT sha256 FROM migrations WHERE id = ?1",
                [migration.id],
                |row| row.get(0),
            )
            .optional()
            .map_err(sql("read the schema's history"))?;
        if stored.as_deref() != Some(migration.checksum().as_str()) {
            let Migration { id, name, .. } = migration;
            return Err(damaged(&format!(
                "step {id} (`{name}`) of its schema is not the one this program knows"
            )));
        }
    }
    Ok(version)
}

/// Applies the missing steps, each in one transaction.
pub(super) fn upgrade(
    connection: &mut Connection,
    migrations: &[Migration],
    now: Timestamp,
) -> StoreResult<()> {
    let version = applied(connection, migrations)?;
    for migration in migrations.iter().filter(|migration| migration.id > version) {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(sql("begin a schema upgrade"))?;
        transaction
            .execute_batch(
                "CREATE TABLE IF NOT EXISTS migrations (
                     id INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, at INTEGER NOT NULL
                 ) STRICT",
            )
            .map_err(sql("upgrade the schema"))?;
        transaction
            .execute_batch(migration.sql)
            .map_err(sql("upgrade the schema"))?;
        transaction
            .execute(
                "INSERT INTO migrations (id, name, sha256, at) VALUES (?1, ?2, ?3, ?4)",
                (
                    migration.id,
                    migration.name,
                    migration.checksum(),
                    now.as_millis(),
                ),
            )
            .map_err(sql("record a schema upgrade"))?;
        transaction
            .pragma_update(None, "user_version", migration.id)
            .map_err(sql("record a schema upgrade"))?;
        transaction
            .commit()
            .map_err(sql("commit a schema upgrade"))?;
        tracing::info!(
            step = migration.id,
            name = migration.name,
            "state database upgraded"
        );
    }
    Ok(())
}

/// Puts a checked copy of the database beside it and returns where.
pub(super) fn back_up(connection: &Connection, path: &Path, version: u32) -> StoreResult<PathBuf> {
    let to = beside(path, &format!(".schema-{version}.backup"));
    copy(connection, &to)?;
    Ok(to)
}

/// Writes a checked copy of the database, replacing what was there.
pub(super) fn copy(connection: &Connection, to: &Path) -> StoreResult<()> {
    let unfinished = beside(to, ".tmp");
    remove_if_there(&unfinished)?;
    let name = unfinished.to_str().ok_or_else(|| StoreError::BadRequest {
        reason: format!("`{}` is not Unicode", unfinished.display()),
    })?;
    connection
        .execute("VACUUM INTO ?1", [name])
        .map_err(sql("copy the state database"))?;
    let opened = Connection::open_with_flags(&unfinished, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(sql("open the copy of the state database"))?;
    super::open::check(&opened)?;
    drop(opened);
    File::open(&unfinished)
        .and_then(|file| file.sync_all())
        .map_err(store_io("flush", &unfinished))?;
    fs::rename(&unfinished, to).map_err(store_io("rename", &unfinished))
}

/// Returns the path with something added to its file name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Removes a file if it exists.
pub(super) fn remove_if_there(path: &Path) -> StoreResult<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(store_io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::open;
    use super::*;

    const FIRST: Migration = Migration {
        id: 1,
        name: "first",
        sql: "CREATE TABLE a (x INTEGER) STRICT",
    };
    const SECOND: Migration = Migration {
        id: 2,
        name: "second",
        sql: "CREATE TABLE b (y INTEGER) STRICT",
    };
    const NOW: Timestamp = Timestamp::from_millis(5);

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("state.db");
        (folder, path)
    }

    #[test]
    fn an_older_file_is_upgraded_after_a_backup() {
        let (_folder, path) = place();
        let connection = open::for_writing(&path, &[FIRST], NOW).expect("create");
        connection
            .execute("INSERT INTO a (x) VALUES (7)", [])
            .expect("insert");
        drop(connection);
        let connection = open::for_writing(&path, &[FIRST, SECOND], NOW).expect("upgrade");
        assert_eq!(applied(&connection, &[FIRST, SECOND]).expect("version"), 2);
        connection
            .execute("INSERT INTO b (y) VALUES (8)", [])
            .expect("the new table is there");
        let backup = Connection::open(beside(&path, ".schema-1.backup")).expect("the backup opens");
        let kept: i64 = backup
            .query_row("SELECT x FROM a", [], |row| row.get(0))
            .expect("the row is in the backup");
        assert_eq!(kept, 7);
    }

    #[test]
    fn operations_on_files_go_through_the_upgrade_that_makes_their_tables_anew() {
        use crate::state::schema::MIGRATIONS;

        let (_folder, path) = place();
        let older = &MIGRATIONS[..4];
        let connection = open::for_writing(&path, older, NOW).expect("create");
        connection
            .execute_batch(
                "INSERT INTO op (seq, id, kind, actor, origin, authority, session, epoch, idem_key, request, outcome, at, state) VALUES
                     (3, 'a', 'write', 'me', 'user_direct', 'owner', 's', 2, 'k', 'r', '[]', 5, 'applied'),
                     (7, 'b', 'remember', 'me', 'user_direct', 'owner', NULL, 2, NULL, 'q', '[1]', 6, 'intent');
                 INSERT INTO op_file (op, part, path, change, header, expected, hash, content, merged, result, copy) VALUES
                     (3, 0, 'p', 'write', NULL, 'e', 'h', NULL, 1, 'conflict', 'c'),
                     (7, 0, 'q', 'append', '', NULL, NULL, x'61', 0, NULL, NULL);",
            )
            .expect("rows");
        let rows = |connection: &Connection, table: &str| -> Vec<Vec<rusqlite::types::Value>> {
            let mut statement = connection
                .prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2"))
                .expect("prepared");
            let columns = statement.column_count();
            let rows = statement.query_map([], |row| (0..columns).map(|at| row.get(at)).collect());
            rows.expect("read").map(|row| row.expect("a row")).collect()
        };
        let before = (rows(&connection, "op"), rows(&connection, "op_file"));
        drop(connection);

        let connection = open::for_writing(&path, MIGRATIONS, NOW).expect("upgrade");
        let after = (rows(&connection, "op"), rows(&connection, "op_file"));
        assert_eq!(before, after);
        connection
            .execute_batch(
                "INSERT INTO op (id, kind, actor, origin, authority, epoch, request, outcome, at, state)
                     VALUES ('c', 'forget', 'me', 'user_direct', 'owner', 2, '', '[]', 7, 'intent');
                 INSERT INTO op_file (op, part, path, change, base) VALUES (8, 0, 'p', 'remove', x'61');",
            )
            .expect("the number after the last one, and the new words");
        let orphan = connection.execute(
            "INSERT INTO op_file (op, part, path, change, base) VALUES (99, 0, 'p', 'remove', x'61')",
            [],
        );
        assert!(orphan.is_err(), "parts belong to an operation");
        connection
            .execute("DELETE FROM op WHERE seq = 8", [])
            .expect("deleted");
        assert_eq!(rows(&connection, "op_file").len(), 2, "with its parts");
    }

    #[test]
    fn a_newer_file_is_refused_untouched() {
        let (_folder, path) = place();
        drop(open::for_writing(&path, &[FIRST, SECOND], NOW).expect("create"));
        let before = fs::read(&path).expect("bytes");
        let refused = open::for_writing(&path, &[FIRST], NOW);
        assert!(
            matches!(
                refused,
                Err(StoreError::Newer {
                    found: 2,
                    known: 1,
                    ..
                })
            ),
            "{refused:?}"
        );
        assert!(
            fs::read(&path).expect("bytes") == before,
            "the file was changed"
        );
    }

    #[test]
    fn an_edited_step_is_refused() {
        let (_folder, path) = place();
        drop(open::for_writing(&path, &[FIRST], NOW).expect("create"));
        let edited = Migration {
            sql: "CREATE TABLE a (x TEXT) STRICT",
            ..FIRST
        };
        let refused = open::for_writing(&path, &[edited, SECOND], NOW);
        assert!(
            matches!(refused, Err(StoreError::Damaged { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn a_step_that_fails_leaves_the_version_before_it() {
        let (_folder, path) = place();
        drop(open::for_writing(&path, &[FIRST], NOW).expect("create"));
        let broken = Migration {
            id: 2,
            name: "broken",
            sql: "CREATE TABLE b (y INTEGER) STRICT; SELECT nothing",
        };
        assert!(open::for_writing(&path, &[FIRST, broken], NOW).is_err());
        let connection =
            open::for_writing(&path, &[FIRST, SECOND], NOW).expect("the good step applies");
        assert_eq!(applied(&connection, &[FIRST, SECOND]).expect("version"), 2);
    }
}
