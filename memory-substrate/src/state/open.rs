//! Opening the state database without ever making a bad file worse.
//!
//! A new database is built under another name and renamed when it is complete, so an empty or half-written file under the
//! real name is always damage and never "new". What is there is looked at before SQLite may touch it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use memory_core::store::{StoreError, StoreResult};
use memory_core::time::Timestamp;
use rusqlite::{Connection, OpenFlags};

use super::migrate::{self, Migration, beside, remove_if_there};
use super::schema::APPLICATION_ID;
use super::sql::{damaged, sql};
use crate::error::store_io;
use crate::fs::sync_directory;

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const HEADER_BYTES: usize = 100;
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Opens for writing, creating or upgrading as needed.
pub(super) fn for_writing(
    path: &Path,
    migrations: &[Migration],
    now: Timestamp,
) -> StoreResult<Connection> {
    if !look_at(path)? {
        create(path, migrations, now)?;
    }
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Whose file it is and how new must be known before any setting may change it.
    identify(&connection)?;
    let version = migrate::applied(&connection, migrations)?;
    durable(&connection)?;
    if migrations.iter().any(|migration| migration.id > version) {
        migrate::back_up(&connection, path, version)?;
        migrate::upgrade(&mut connection, migrations, now)?;
    }
    Ok(connection)
}

/// Opens an existing database for reading only.
pub(super) fn for_reading(path: &Path, migrations: &[Migration]) -> StoreResult<Connection> {
    if !look_at(path)? {
        return Err(StoreError::NotFound {
            what: path.display().to_string(),
        });
    }
    let connection = reader(path)?;
    identify(&connection)?;
    let version = migrate::applied(&connection, migrations)?;
    match migrations.last() {
        Some(last) if last.id > version => Err(StoreError::BadRequest {
            reason: format!(
                "`{}` has schema {version} and must be upgraded to {} first; run a command that writes",
                path.display(),
                last.id
            ),
        }),
        _ => Ok(connection),
    }
}

/// Opens the reading connection of a database that was looked at already.
pub(super) fn reader(path: &Path) -> StoreResult<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(sql("open the state database"))?;
    Ok(connection)
}

/// Reads every page of a database and reports the first damage.
pub(super) fn check(connection: &Connection) -> StoreResult<()> {
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(sql("check the state database"))?;
    if verdict == "ok" {
        Ok(())
    } else {
        Err(damaged(&verdict))
    }
}

fn connect(path: &Path, mode: OpenFlags) -> StoreResult<Connection> {
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(sql("open the state database"))?;
    let configured = connection.busy_timeout(BUSY_TIMEOUT).and_then(|()| {
        connection.execute_batch(
            "PRAGMA foreign_keys = ON;
             PRAGMA trusted_schema = OFF;
             PRAGMA cell_size_check = ON;
             PRAGMA temp_store = MEMORY;
             PRAGMA mmap_size = 0;",
        )
    });
    configured.map_err(sql("open the state database"))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

fn durable(connection: &Connection) -> StoreResult<()> {
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(sql("open the state database"))?;
    if mode != "wal" {
        return Err(StoreError::BadRequest {
            reason: format!(
                "the file system does not support write-ahead logging (SQLite chose `{mode}`)"
            ),
        });
    }
    connection
        .execute_batch(
            "PRAGMA synchronous = FULL;
             PRAGMA secure_delete = ON;
             PRAGMA wal_autocheckpoint = 1000;
             PRAGMA journal_size_limit = 67108864;",
        )
        .map_err(sql("open the state database"))
}

fn create(path: &Path, migrations: &[Migration], now: Timestamp) -> StoreResult<()> {
    let unfinished = beside(path, ".new");
    for suffix in ["", "-wal", "-shm", "-journal"] {
        remove_if_there(&beside(&unfinished, suffix))?;
    }
    let mut connection = connect(
        &unfinished,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    )?;
    durable(&connection)?;
    connection
        .pragma_update(None, "application_id", APPLICATION_ID)
        .map_err(sql("create the state database"))?;
    migrate::upgrade(&mut connection, migrations, now)?;
    // Closing folds the log into the file, so one file is all there is to rename.
    connection
        .close()
        .map_err(|(_, error)| sql("create the state database")(error))?;
    File::open(&unfinished)
        .and_then(|file| file.sync_all())
        .map_err(store_io("flush", &unfinished))?;
    fs::rename(&unfinished, path).map_err(store_io("rename", &unfinished))?;
    if let Some(directory) = path.parent() {
        sync_directory(directory).map_err(store_io("flush", directory))?;
    }
    Ok(())
}

/// Returns whether the file is there, and refuses one that cannot be a whole database.
fn look_at(path: &Path) -> StoreResult<bool> {
    let log_bytes = fs::metadata(beside(path, "-wal")).map_or(0, |metadata| metadata.len());
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return if log_bytes == 0 {
                Ok(false)
            } else {
                Err(damaged("its log is there but the file itself is missing"))
            };
        }
        Err(error) => return Err(store_io("open", path)(error)),
    };
    let metadata = file.metadata().map_err(store_io("look at", path))?;
    if !metadata.is_file() {
        return Err(damaged("it is not a regular file"));
    }
    let mut header = [0_u8; HEADER_BYTES];
    match file.read_exact(&mut header) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(damaged("the file is shorter than a database's header"));
        }
        Err(error) => return Err(store_io("read", path)(error)),
    }
    if !header.starts_with(MAGIC) {
        return Err(damaged("the file is not an SQLite database"));
    }
    // With a log the header may be ahead of the file's length, which is normal after a crash.
    if log_bytes == 0 && promised_bytes(&header).is_some_and(|promised| metadata.len() < promised) {
        return Err(damaged("the file is shorter than its header says"));
    }
    Ok(true)
}

/// Returns the length that a header promises, when it is valid.
fn promised_bytes(header: &[u8; HEADER_BYTES]) -> Option<u64> {
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536_u64,
        bytes => u64::from(bytes),
    };
    (word(24) == word(92)).then(|| page_bytes * u64::from(word(28)))
}

fn identify(connection: &Connection) -> StoreResult<()> {
    let id: i32 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(sql("read the state database"))?;
    if id == APPLICATION_ID {
        Ok(())
    } else {
        Err(damaged("it is the database of another program"))
    }
}
