//! What parsing the page files gave, kept so that a cold start need not parse unchanged files again.

use memory_core::store::StoreResult;
use rusqlite::{Connection, Transaction, params};

use super::sql::{Count, sql};

/// A parsed file as it is kept. The meaning of `meta` belongs to the page index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CachedPage {
    /// Path below the folder of pages.
    pub(crate) path: String,
    /// The slug the file had.
    pub(crate) slug: String,
    /// Length in bytes.
    pub(crate) bytes: u64,
    /// Modification time.
    pub(crate) modified_ms: i64,
    /// When the file was read.
    pub(crate) checked_ms: i64,
    /// Hash of its bytes.
    pub(crate) hash: String,
    /// The rest, in the page index's own encoding.
    pub(crate) meta: String,
}

/// Returns every row.
pub(crate) fn all(connection: &Connection) -> StoreResult<Vec<CachedPage>> {
    connection
        .prepare_cached(
            "SELECT path, slug, bytes, modified_ms, checked_ms, hash, meta FROM page_cache",
        )
        .and_then(|mut statement| {
            statement
                .query_map([], |row| {
                    Ok(CachedPage {
                        path: row.get(0)?,
                        slug: row.get(1)?,
                        bytes: row.get::<_, Count>(2)?.0,
                        modified_ms: row.get(3)?,
                        checked_ms: row.get(4)?,
                        hash: row.get(5)?,
                        meta: row.get(6)?,
                    })
                })?
                .collect()
        })
        .map_err(sql("read the page cache"))
}

/// Replaces rows and removes those of paths that are gone.
pub(crate) fn update(
    connection: &Connection,
    rows: &[CachedPage],
    gone: &[String],
) -> StoreResult<()> {
    for path in gone {
        connection
            .prepare_cached("DELETE FROM page_cache WHERE path = ?1")
            .and_then(|mut statement| statement.execute([path]))
            .map_err(sql("update the page cache"))?;
    }
    for row in rows {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO page_cache (path, slug, bytes, modified_ms, checked_ms, hash, meta) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )
            .and_then(|mut statement| {
                statement.execute(params![
                    row.path,
                    row.slug,
                    Count(row.bytes),
                    row.modified_ms,
                    row.checked_ms,
                    row.hash,
                    row.meta,
                ])
            })
            .map_err(sql("update the page cache"))?;
    }
    Ok(())
}

/// Removes every row.
pub(crate) fn clear(connection: &Transaction<'_>) -> StoreResult<()> {
    connection
        .execute("DELETE FROM page_cache", [])
        .map(drop)
        .map_err(sql("empty the page cache"))
}
