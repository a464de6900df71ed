//! Taking away everything that belongs to a conversation.
//!
//! A deletion is one transaction, so no half of a conversation is ever left. Rows can also come without one: a tier logs
//! before the first message is stored, and a late report follows a deletion. A sweep finds them, and removes only what an
//! earlier sweep had seen as well, because a conversation may be about to begin.

use memory_core::store::{ConversationRows, OrphanSweep, StoreResult};
use memory_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::sql::sql;

/// Every table with rows of conversations, how they are found, and what they count as. A test compares this list with the
/// schema. Children come before what they refer to.
const ROWS: [(&str, &str, Kind); 8] = [
    ("conversations", "id = ?1", Kind::Uncounted),
    ("branches", "conversation = ?1", Kind::Uncounted),
    (
        "turn_blocks",
        "message IN (SELECT id FROM turn_nodes WHERE conversation = ?1)",
        Kind::Blocks,
    ),
    ("resident", "conversation = ?1", Kind::Resident),
    ("tier_log", "conversation = ?1", Kind::Log),
    (
        "tier_kv",
        "scope = 'conversation' AND owner = ?1",
        Kind::Values,
    ),
    ("turn_nodes", "conversation = ?1", Kind::Messages),
    ("orphans_seen", "conversation = ?1", Kind::Uncounted),
];

/// Conversations of which there are rows, but which do not exist.
const ORPHANS: &str = "SELECT conversation FROM (
         SELECT conversation FROM resident UNION SELECT conversation FROM tier_log
         UNION SELECT owner FROM tier_kv WHERE scope = 'conversation'
     ) WHERE conversation NOT IN (SELECT id FROM conversations)";

#[derive(Clone, Copy)]
enum Kind {
    Messages,
    Blocks,
    Resident,
    Log,
    Values,
    Uncounted,
}

impl Kind {
    fn add(self, rows: &mut ConversationRows, count: u64) {
        match self {
            Self::Messages => rows.messages += count,
            Self::Blocks => rows.blocks += count,
            Self::Resident => rows.resident += count,
            Self::Log => rows.log += count,
            Self::Values => rows.values += count,
            Self::Uncounted => {}
        }
    }
}

/// Removes everything of a conversation and returns what that was.
pub(super) fn delete(connection: &Connection, conversation: &str) -> StoreResult<ConversationRows> {
    let mut removed = ConversationRows::default();
    for (table, condition, kind) in ROWS {
        let count = connection
            .prepare_cached(&format!("DELETE FROM {table} WHERE {condition}"))
            .and_then(|mut statement| statement.execute([conversation]))
            .map_err(sql("delete a conversation"))?;
        kind.add(&mut removed, count as u64);
    }
    Ok(removed)
}

/// Returns what a sweep would find and remove.
pub(super) fn look(
    connection: &Connection,
    now: Timestamp,
    grace_ms: i64,
) -> StoreResult<OrphanSweep> {
    let query = format!(
        "SELECT conversation, ifnull(since <= ?1, 0) FROM ({ORPHANS}) LEFT JOIN orphans_seen USING (conversation)
         ORDER BY conversation"
    );
    let until = now.plus_millis(grace_ms.saturating_neg()).as_millis();
    let orphans: Vec<(String, bool)> = connection
        .prepare(&query)
        .and_then(|mut statement| {
            statement
                .query_map([until], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
        .map_err(sql("look for rows without a conversation"))?;
    let mut found = OrphanSweep::default();
    for (conversation, is_due) in orphans {
        if is_due {
            count(connection, &conversation, &mut found.rows)?;
            found.conversations.push(conversation);
        } else {
            found.waiting += 1;
        }
    }
    Ok(found)
}

/// Removes the rows that were seen before the grace period began, and notes which others there are.
pub(super) fn sweep(
    connection: &Connection,
    now: Timestamp,
    grace_ms: i64,
) -> StoreResult<OrphanSweep> {
    let found = look(connection, now, grace_ms)?;
    for conversation in &found.conversations {
        delete(connection, conversation)?;
    }
    let (forget, note) = (
        format!("DELETE FROM orphans_seen WHERE conversation NOT IN ({ORPHANS})"),
        format!(
            "INSERT INTO orphans_seen (conversation, since) SELECT conversation, ?1 FROM ({ORPHANS}) \
             WHERE true ON CONFLICT (conversation) DO NOTHING"
        ),
    );
    connection
        .execute(&forget, [])
        .and_then(|_| connection.execute(&note, params![now.as_millis()]))
        .map_err(sql("note rows without a conversation"))?;
    Ok(found)
}

fn count(
    connection: &Connection,
    conversation: &str,
    rows: &mut ConversationRows,
) -> StoreResult<()> {
    for (table, condition, kind) in ROWS {
        let query = format!("SELECT count(*) FROM {table} WHERE {condition}");
        let count: i64 = connection
            .prepare_cached(&query)
            .and_then(|mut statement| statement.query_row([conversation], |row| row.get(0)))
            .map_err(sql("count a conversation's rows"))?;
        kind.add(rows, count.unsigned_abs());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use memory_core::env::ManualClock;
    use memory_core::predicates::Tier;
    use memory_core::services::{KvScope, LogKind, LogRow};
    use memory_core::store::{StateStore as _, TurnTree as _};

    use super::*;
    use crate::state::SqliteState;

    const DAY: i64 = 86_400_000;

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn open() -> (tempfile::TempDir, SqliteState) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let state = SqliteState::open(&path, &ManualClock::default()).unwrap();
        (folder, state)
    }

    async fn log(state: &SqliteState, conversation: &str) {
        let row = LogRow {
            kind: LogKind::Selection,
            slug: None,
            body: "{}".to_owned(),
        };
        state
            .append_log(conversation, 1, Tier::V3, vec![row], at(1))
            .await
            .unwrap();
    }

    #[test]
    fn no_table_of_conversations_is_forgotten() {
        let (_folder, state) = open();
        let tables: BTreeSet<String> = state
            .read_blocking(|connection| {
                connection
                    .prepare(
                        "SELECT DISTINCT made.name FROM sqlite_schema AS made, pragma_table_info(made.name) AS of
                         WHERE made.type = 'table' AND (of.name IN ('conversation', 'message') OR made.name IN
                             ('conversations', 'turn_nodes', 'tier_kv'))",
                    )
                    .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
                    .map_err(sql("read the schema"))
            })
            .unwrap();
        let listed = ROWS.map(|(table, ..)| table.to_owned());
        assert_eq!(tables, BTreeSet::from(listed));
    }

    #[tokio::test]
    async fn orphans_are_removed_only_when_they_were_seen_before() {
        let (_folder, state) = open();
        log(&state, "gone").await;
        let value = Some("v".to_owned());
        state
            .kv_put("host", KvScope::Conversation, "gone", "k", value.clone())
            .await
            .unwrap();
        state
            .kv_put("host", KvScope::Assistant, "", "k", value.clone())
            .await
            .unwrap();
        let waits = OrphanSweep {
            waiting: 1,
            ..OrphanSweep::default()
        };
        let sweep = |now, dry_run| state.sweep_orphans(at(now), DAY, dry_run);
        assert_eq!(sweep(0, true).await.unwrap(), waits);
        // A dry run notes nothing, so the time begins here.
        assert_eq!(sweep(5, false).await.unwrap(), waits);
        assert_eq!(sweep(DAY, false).await.unwrap(), waits);
        let expected = OrphanSweep {
            conversations: vec!["gone".to_owned()],
            rows: ConversationRows {
                log: 1,
                values: 1,
                ..ConversationRows::default()
            },
            waiting: 0,
        };
        assert_eq!(sweep(DAY + 5, true).await.unwrap(), expected);
        assert_eq!(
            sweep(DAY + 5, true).await.unwrap(),
            expected,
            "a dry run removes nothing"
        );
        assert_eq!(sweep(DAY + 5, false).await.unwrap(), expected);
        assert_eq!(sweep(9 * DAY, false).await.unwrap(), OrphanSweep::default());
        let kept = state
            .kv_get("host", KvScope::Assistant, "", "k")
            .await
            .unwrap();
        assert_eq!(
            kept, value,
            "the assistant's own values belong to no conversation"
        );
        // What comes back later has its own time.
        log(&state, "gone").await;
        assert_eq!(sweep(9 * DAY, false).await.unwrap(), waits);
    }
}
