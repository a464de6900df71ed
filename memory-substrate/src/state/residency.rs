//! What is in a conversation's context.
//!
//! The host owns this, not a tier, so that no swap, restart or repeated report shows or records a thing twice.

use memory_core::predicates::Tier;
use memory_core::services::{Resident, ResidentEntry};
use memory_core::store::StoreResult;
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::sql::{Count, Named, sql};
use super::tree::WAY;

/// Returns what is in a conversation's context, in order of attachment.
///
/// What hangs on a message that is not visible from the conversation's head is not in context: it is on another branch,
/// or was gone back from. As long as nothing ever was, the way need not be walked.
pub(super) fn of(connection: &Connection, conversation: &str) -> StoreResult<Vec<ResidentEntry>> {
    const ENTRIES: &str = "SELECT slug, nullif(section, '') AS section, message, tier, bytes, at FROM resident \
                           WHERE conversation = ?1";
    let branch: Option<String> = connection
        .prepare_cached("SELECT branch FROM conversations WHERE id = ?1 AND branched = 1")
        .and_then(|mut statement| {
            statement
                .query_row([conversation], |row| row.get(0))
                .optional()
        })
        .map_err(sql("read a conversation"))?;
    let found = match branch {
        None => connection
            .prepare_cached(&format!("{ENTRIES} ORDER BY seq"))
            .and_then(|mut statement| statement.query_map([conversation], read)?.collect()),
        Some(branch) => connection
            .prepare_cached(&format!(
                "{WAY} {ENTRIES} AND (message IN (SELECT id FROM way) OR NOT EXISTS (
                     SELECT 1 FROM turn_nodes AS node WHERE node.id = resident.message AND node.conversation = ?1
                 )) ORDER BY seq"
            ))
            .and_then(|mut statement| {
                statement
                    .query_map([conversation, branch.as_str()], read)?
                    .collect()
            }),
    };
    found.map_err(sql("read what is in context"))
}

/// Records what was attached to a message. The same report again changes nothing.
pub(super) fn record(
    connection: &Connection,
    conversation: &str,
    message: &str,
    tier: Tier,
    shown: &[Resident],
    at: Timestamp,
) -> StoreResult<()> {
    for resident in shown {
        let section = resident
            .section
            .as_ref()
            .map(SectionId::key)
            .unwrap_or_default();
        connection
            .prepare_cached(
                "INSERT INTO resident (conversation, slug, section, message, tier, bytes, at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (conversation, message, slug, section) DO NOTHING",
            )
            .and_then(|mut statement| {
                statement.execute(params![
                    conversation,
                    resident.slug.as_str(),
                    section,
                    message,
                    Named(tier),
                    Count(resident.bytes),
                    at.as_millis(),
                ])
            })
            .map_err(sql("record what is in context"))?;
    }
    Ok(())
}

/// Forgets what is in a conversation's context.
pub(super) fn clear(connection: &Connection, conversation: &str) -> StoreResult<()> {
    connection
        .execute(
            "DELETE FROM resident WHERE conversation = ?1",
            [conversation],
        )
        .map(drop)
        .map_err(sql("clear what is in context"))
}

/// Forgets what is in the context of every conversation.
pub(super) fn clear_all(connection: &Connection) -> StoreResult<()> {
    connection
        .execute("DELETE FROM resident", [])
        .map(drop)
        .map_err(sql("clear what is in context"))
}

fn read(row: &Row<'_>) -> rusqlite::Result<ResidentEntry> {
    Ok(ResidentEntry {
        slug: row.get::<_, Named<Slug>>("slug")?.0,
        section: row
            .get::<_, Option<Named<SectionId>>>("section")?
            .map(|Named(section)| section),
        message: row.get("message")?,
        tier: row.get::<_, Named<Tier>>("tier")?.0,
        bytes: row.get::<_, Count>("bytes")?.0,
        at: Timestamp::from_millis(row.get("at")?),
    })
}
