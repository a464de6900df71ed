//! The typed logs of the tiers.

use memory_core::predicates::Tier;
use memory_core::services::{LogKind, LogRow};
use memory_core::store::StoreResult;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::sql::{Count, Named, sql};

/// Appends rows of one turn.
pub(super) fn append(
    connection: &Connection,
    conversation: &str,
    turn: u64,
    tier: Tier,
    rows: &[LogRow],
    at: Timestamp,
) -> StoreResult<()> {
    for row in rows {
        connection
            .prepare_cached(
                "INSERT INTO tier_log (conversation, turn, tier, kind, slug, body, at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )
            .and_then(|mut statement| {
                statement.execute(params![
                    conversation,
                    Count(turn),
                    Named(tier),
                    row.kind.name(),
                    row.slug.as_ref().map(Slug::as_str),
                    row.body,
                    at.as_millis(),
                ])
            })
            .map_err(sql("append to a log"))?;
    }
    Ok(())
}

/// Returns the newest rows of a kind in a conversation, newest first.
pub(super) fn newest(
    connection: &Connection,
    conversation: &str,
    kind: LogKind,
    limit: u32,
) -> StoreResult<Vec<LogRow>> {
    connection
        .prepare_cached(
            "SELECT slug, body FROM tier_log WHERE conversation = ?1 AND kind = ?2 ORDER BY seq DESC LIMIT ?3",
        )
        .and_then(|mut statement| {
            statement
                .query_map(params![conversation, kind.name(), limit], |row| {
                    let slug = row.get::<_, Option<Named<Slug>>>(0)?.map(|Named(slug)| slug);
                    Ok(LogRow { kind, slug, body: row.get(1)? })
                })?
                .collect()
        })
        .map_err(sql("read a log"))
}
