//! Copying the state database while it is in use.

use std::path::Path;

use memory_core::store::StoreResult;
use rusqlite::{Connection, OpenFlags};

use super::schema::MIGRATIONS;
use super::{SqliteState, migrate};

impl SqliteState {
    /// Returns the newest form of the database that this program knows.
    pub(crate) fn newest_schema() -> u32 {
        MIGRATIONS.last().map_or(0, |last| last.id)
    }

    /// Writes a checked copy into a new file. Commits wait meanwhile.
    pub(crate) fn copy_to(&self, to: &Path) -> StoreResult<()> {
        let mut writer = self.connections.writer()?;
        migrate::copy(writer.flushing()?, to)
    }

    /// Leaves nothing of what was deleted in the database's files.
    pub(crate) fn compact(&self) -> StoreResult<()> {
        let mut writer = self.connections.writer()?;
        writer
            .flushing()?
            .execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
            .map_err(super::sql::sql("compact the state database"))
    }
}

/// Makes a copied database forget the index, which is no part of a copy.
pub(crate) fn forget_index(copy: &Path) -> StoreResult<()> {
    let failed = super::sql::sql("prepare a restored state database");
    let connection =
        Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(&failed)?;
    let has_records: bool = connection
        .query_row(
            "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'index_generations')",
            [],
            |row| row.get(0),
        )
        .map_err(&failed)?;
    if has_records {
        connection
            .execute_batch("DELETE FROM index_files; DELETE FROM index_generations")
            .map_err(&failed)?;
    }
    Ok(())
}
