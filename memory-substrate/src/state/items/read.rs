//! The query behind everything that is shown of items.
//!
//! It says in SQL what `ItemQuery::shows` says in code, so that the newest few of many items can be found without reading
//! the rest. A test holds the two against each other.

use memory_core::item::{Consumer, Item, ItemQuery, ItemState, Readable};
use memory_core::store::StoreResult;
use memory_core::time::Timestamp;
use rusqlite::{Connection, Statement, ToSql};

use super::super::sql::sql;
use super::revision::{self, COLUMNS};

/// Returns the items that a query may see, the last learnt first.
pub(crate) fn items(connection: &Connection, query: &ItemQuery) -> StoreResult<Vec<Item>> {
    let rows = rows(connection, query, "", |statement, parameters| {
        statement.query_map(parameters, revision::read)?.collect()
    })?;
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        if let ItemState::Live(item) = revision::hydrate(connection, row)? {
            items.push(item);
        }
    }
    Ok(items)
}

/// Runs the query behind an [`ItemQuery`], or what `prefix` makes of it.
fn rows<T>(
    connection: &Connection,
    query: &ItemQuery,
    prefix: &str,
    read: impl FnOnce(&mut Statement<'_>, &[(&str, &dyn ToSql)]) -> rusqlite::Result<Vec<T>>,
) -> StoreResult<Vec<T>> {
    let channels = match query.readable() {
        Readable::Nothing => return Ok(Vec::new()),
        Readable::Everything => None,
        Readable::Channels(channels) => Some(json(channels.iter().map(ToString::to_string))),
    };
    let only = (!query.only.is_empty()).then(|| json(query.only.iter().map(ToString::to_string)));
    let event_time = query.event_time().map(Timestamp::as_millis);
    let known_at = query.known_at.map(Timestamp::as_millis);
    let (untrusted, archive) = (query.shows_untrusted(), query.shows_archive());
    let mut parameters: Vec<(&str, &dyn ToSql)> = vec![
        (":channels", &channels),
        (":at", &event_time),
        (":untrusted", &untrusted),
        (":archive", &archive),
        (":limit", &query.limit),
    ];
    if known_at.is_some() {
        parameters.push((":known", &known_at));
    }
    let mut conditions = shown("item", query);
    // Only what is asked for becomes a condition: beside "or nothing was asked for" no index could be used.
    if only.is_some() {
        parameters.push((":only", &only));
        conditions.push_str(" AND item.item IN (SELECT value FROM json_each(:only))");
    }
    if query.claim_hash.is_some() {
        parameters.push((":claim", &query.claim_hash));
        conditions.push_str(" AND item.claim_hash = :claim");
    }
    if query.hides_shadowed() {
        conditions = format!(
            "{conditions} AND NOT EXISTS (
                 SELECT 1 FROM item_shadows AS shadow JOIN item_revisions AS narrow ON narrow.item = shadow.item
                 WHERE shadow.shadowed = item.item AND shadow.since <= narrow.revision AND {})",
            shown("narrow", query)
        );
    }
    let text = format!(
        "{prefix} SELECT {COLUMNS} FROM item_revisions AS item WHERE {conditions}
         ORDER BY item.learnt DESC, item.item LIMIT :limit"
    );
    connection
        .prepare_cached(&text)
        .and_then(|mut statement| read(&mut statement, &parameters))
        .map_err(sql("look for items"))
}

/// Returns the conditions under which a revision of this alias is shown, shadows and what was asked for by name aside.
fn shown(alias: &str, query: &ItemQuery) -> String {
    let processed = match query.consumer {
        Consumer::Listing => "item.processing IN ('processed', 'pending')",
        Consumer::Buffer => {
            "(item.processing = 'processed' OR (item.processing = 'pending' AND item.origin = 'user_direct'
                 AND item.authority = 'owner'))"
        }
        Consumer::Agent | Consumer::Index => "item.processing = 'processed'",
    };
    let (known, trusted) = if query.known_at.is_none() {
        ("item.known_to IS NULL", "item.trust = 'trusted'")
    } else {
        (
            "item.known_from <= :known AND (item.known_to IS NULL OR item.known_to > :known)",
            "item.trust = 'trusted' AND EXISTS (
                 SELECT 1 FROM item_revisions AS newest
                 WHERE newest.item = item.item AND newest.known_to IS NULL AND newest.trust = 'trusted')",
        )
    };
    let conditions = format!(
        "{known} AND {processed}
         AND (:channels IS NULL OR item.channel IN (SELECT value FROM json_each(:channels)))
         AND CASE WHEN :at IS NULL THEN item.status = 'active'
             ELSE item.status IN ('active', 'superseded') AND (item.valid_from IS NULL OR item.valid_from <= :at)
                 AND (item.valid_to IS NULL OR :at < item.valid_to) END
         AND (:untrusted OR ({trusted}))
         AND (:archive OR item.layer <> 'archive')"
    );
    conditions.replace("item.", &format!("{alias}."))
}

fn json(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<serde_json::Value>().to_string()
}

#[cfg(test)]
mod tests {
    use memory_core::env::ManualClock;
    use memory_core::item::ItemId;
    use memory_core::provenance::Authority;

    use super::*;
    use crate::state::SqliteState;

    /// Returns how SQLite would look for the items of a query.
    fn plan(query: &ItemQuery) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let state = SqliteState::open(&path, &ManualClock::default()).unwrap();
        let steps: Vec<String> = state
            .read_blocking(|connection| {
                rows(
                    connection,
                    query,
                    "EXPLAIN QUERY PLAN",
                    |statement, parameters| {
                        statement.query_map(parameters, |row| row.get(3))?.collect()
                    },
                )
            })
            .unwrap();
        steps.join("; ")
    }

    #[test]
    fn a_claim_and_a_name_are_looked_up_in_an_index() {
        for consumer in [Consumer::Listing, Consumer::Buffer, Consumer::Agent] {
            let query = ItemQuery::new(Authority::Owner, consumer, Timestamp::from_millis(0));
            let by_claim = plan(&ItemQuery {
                claim_hash: Some("x".to_owned()),
                ..query.clone()
            });
            assert!(
                by_claim.contains("INDEX item_current_by_claim (claim_hash=?)"),
                "{by_claim}"
            );
            let by_name = plan(&ItemQuery {
                only: vec![ItemId::minted("a").unwrap()],
                ..query
            });
            assert!(
                by_name.contains("(item=?") && !by_name.contains("SCAN item"),
                "{by_name}"
            );
        }
    }
}
