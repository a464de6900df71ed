//! What the section index should hold: counts and checksums, kept apart from it.
//!
//! The index cannot vouch for itself: a table whose newest part was lost opens without an error and is simply smaller.
//! A batch is recorded here after its files were flushed, so whatever is there and not recorded was never finished, and
//! whatever is recorded and not there was lost.

use memory_core::store::StoreResult;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::sql::{Count, sql};

/// A generation of one space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// Name of the space's folder.
    pub(crate) space: &'a str,
    /// Number of the generation.
    pub(crate) number: u64,
}

/// What a generation should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watermark {
    /// Version of its table.
    pub(crate) version: u64,
    /// Rows of its table.
    pub(crate) rows: u64,
    /// Whether files may be missing because they were being removed.
    pub(crate) pruning: bool,
}

/// A file that was flushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRecord {
    /// Its path below the generation's folder, with forward slashes.
    pub(crate) path: String,
    /// Its length.
    pub(crate) bytes: u64,
    /// Its checksum.
    pub(crate) checksum: u32,
}

/// Returns what a generation should hold; `None` when it was never recorded.
pub(crate) fn watermark(
    connection: &Connection,
    place: Place<'_>,
) -> StoreResult<Option<Watermark>> {
    connection
        .prepare_cached(
            "SELECT version, rows, pruning FROM index_generations WHERE space = ?1 AND number = ?2",
        )
        .and_then(|mut statement| {
            statement
                .query_row(params![place.space, Count(place.number)], |row| {
                    Ok(Watermark {
                        version: row.get::<_, Count>(0)?.0,
                        rows: row.get::<_, Count>(1)?.0,
                        pruning: row.get(2)?,
                    })
                })
                .optional()
        })
        .map_err(sql("read what the index should hold"))
}

/// Returns the files a generation should have.
pub(crate) fn files(connection: &Connection, place: Place<'_>) -> StoreResult<Vec<FileRecord>> {
    connection
        .prepare_cached(
            "SELECT path, bytes, checksum FROM index_files WHERE space = ?1 AND number = ?2",
        )
        .and_then(|mut statement| {
            statement
                .query_map(params![place.space, Count(place.number)], |row| {
                    Ok(FileRecord {
                        path: row.get(0)?,
                        bytes: row.get::<_, Count>(1)?.0,
                        checksum: row.get(2)?,
                    })
                })?
                .collect()
        })
        .map_err(sql("read which files the index should have"))
}

/// Records what a generation holds now, and how its files changed.
pub(crate) fn record(
    connection: &Connection,
    place: Place<'_>,
    holds: Watermark,
    added: &[FileRecord],
    gone: &[String],
) -> StoreResult<()> {
    let failed = sql("record what the index holds");
    let (space, number) = (place.space, Count(place.number));
    let recorded = || -> rusqlite::Result<()> {
        connection
            .prepare_cached(
                "INSERT INTO index_generations (space, number, version, rows, pruning) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (space, number) DO UPDATE SET version = excluded.version, rows = excluded.rows, \
                 pruning = excluded.pruning",
            )?
            .execute(params![
                space,
                number,
                Count(holds.version),
                Count(holds.rows),
                holds.pruning
            ])?;
        for path in gone {
            connection
                .prepare_cached(
                    "DELETE FROM index_files WHERE space = ?1 AND number = ?2 AND path = ?3",
                )?
                .execute(params![space, number, path])?;
        }
        for file in added {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO index_files (space, number, path, bytes, checksum) \
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![
                    space,
                    number,
                    file.path,
                    Count(file.bytes),
                    file.checksum
                ])?;
        }
        Ok(())
    };
    recorded().map_err(failed)
}

/// Returns the generation of a space that serves.
pub(crate) fn serving(connection: &Connection, space: &str) -> StoreResult<Option<u64>> {
    connection
        .prepare_cached("SELECT number FROM index_generations WHERE space = ?1 AND serving = 1")
        .and_then(|mut statement| {
            statement
                .query_row([space], |row| Ok(row.get::<_, Count>(0)?.0))
                .optional()
        })
        .map_err(sql("read which index serves"))
}

/// Records that a generation serves.
pub(crate) fn serve(connection: &Connection, place: Place<'_>) -> StoreResult<()> {
    let at = params![place.space, Count(place.number)];
    let served = || -> rusqlite::Result<()> {
        connection.execute(
            "UPDATE index_generations SET serving = 0 WHERE space = ?1 AND number <> ?2",
            at,
        )?;
        connection.execute(
            "UPDATE index_generations SET serving = 1 WHERE space = ?1 AND number = ?2",
            at,
        )?;
        Ok(())
    };
    served().map_err(sql("record which index serves"))
}

/// Forgets the other generations of a space.
pub(crate) fn forget_siblings(connection: &Connection, place: Place<'_>) -> StoreResult<()> {
    connection
        .execute(
            "DELETE FROM index_generations WHERE space = ?1 AND number <> ?2",
            params![place.space, Count(place.number)],
        )
        .map(drop)
        .map_err(sql("forget an index"))
}

/// Forgets a generation, because its files are not used any more.
pub(crate) fn forget(connection: &Connection, place: Place<'_>) -> StoreResult<()> {
    connection
        .execute(
            "DELETE FROM index_generations WHERE space = ?1 AND number = ?2",
            params![place.space, Count(place.number)],
        )
        .map(drop)
        .map_err(sql("forget an index"))
}

/// Forgets every space but one.
pub(crate) fn forget_others(connection: &Connection, space: &str) -> StoreResult<()> {
    connection
        .execute("DELETE FROM index_generations WHERE space <> ?1", [space])
        .map(drop)
        .map_err(sql("forget an index"))
}
