//! How pages came in, which decides how far they are trusted.

use memory_core::provenance::{Authority, Origin, Trust, trust_of};
use memory_core::store::{PageOrigin, StoreResult};
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::sql::{Named, sql};

/// Returns how each ingested page came in, sorted by slug.
pub(crate) fn all(connection: &Connection) -> StoreResult<Vec<PageOrigin>> {
    connection
        .prepare_cached(
            "SELECT slug, original_name, origin, authority, at FROM page_origins ORDER BY slug",
        )
        .and_then(|mut statement| statement.query_map([], read)?.collect())
        .map_err(sql("read how pages came in"))
}

/// Returns how a page came in; `None` for the owner's own.
pub(crate) fn of(connection: &Connection, slug: &Slug) -> StoreResult<Option<PageOrigin>> {
    connection
        .prepare_cached(
            "SELECT slug, original_name, origin, authority, at FROM page_origins WHERE slug = ?1",
        )
        .and_then(|mut statement| statement.query_row([slug.as_str()], read).optional())
        .map_err(sql("read how a page came in"))
}

fn read(row: &Row<'_>) -> rusqlite::Result<PageOrigin> {
    Ok(PageOrigin {
        slug: row.get::<_, Named<Slug>>(0)?.0,
        original_name: row.get(1)?,
        origin: row.get::<_, Named<Origin>>(2)?.0,
        authority: row.get::<_, Named<Authority>>(3)?.0,
        at: Timestamp::from_millis(row.get(4)?),
    })
}

/// Returns how far a page that came in like this is trusted.
pub(crate) fn trust(origin: &PageOrigin) -> Trust {
    trust_of(origin.origin, origin.authority).map_or(Trust::Untrusted, |verdict| verdict.trust)
}

/// Forgets how a page came in, which makes it the owner's own.
pub(crate) fn remove(connection: &Connection, slug: &Slug) -> StoreResult<()> {
    connection
        .prepare_cached("DELETE FROM page_origins WHERE slug = ?1")
        .and_then(|mut statement| statement.execute([slug.as_str()]))
        .map_err(sql("forget how a page came in"))?;
    Ok(())
}

/// Records how pages came in.
pub(crate) fn put(connection: &Connection, origins: &[PageOrigin]) -> StoreResult<()> {
    for origin in origins {
        connection
            .prepare_cached(
                "INSERT INTO page_origins (slug, original_name, origin, authority, at) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (slug) DO UPDATE SET original_name = excluded.original_name, origin = excluded.origin, \
                 authority = excluded.authority, at = excluded.at",
            )
            .and_then(|mut statement| {
                statement.execute(params![
                    origin.slug.as_str(),
                    origin.original_name,
                    Named(origin.origin),
                    Named(origin.authority),
                    origin.at.as_millis(),
                ])
            })
            .map_err(sql("record how a page came in"))?;
    }
    Ok(())
}
