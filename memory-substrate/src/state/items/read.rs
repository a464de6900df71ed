//! The query behind everything that is shown of items.
//!
//! It says in SQL what `ItemQuery::shows` says in code, so that the newest few of many items can be found without reading
//! the rest. A test holds the two against each other.

use memory_core::item::{Consumer, Item, ItemQuery, ItemState, Readable};
use memory_core::store::StoreResult;
use memory_core::time::Timestamp;
use rusqlite::{Connection, ToSql};

use super::super::sql::sql;
use super::revision::{self, COLUMNS};

/// Returns the items that a query may see, the last learnt first.
pub(super) fn items(connection: &Connection, query: &ItemQuery) -> StoreResult<Vec<Item>> {
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
        (":only", &only),
        (":claim", &query.claim_hash),
        (":at", &event_time),
        (":untrusted", &untrusted),
        (":archive", &archive),
        (":limit", &query.limit),
    ];
    if known_at.is_some() {
        parameters.push((":known", &known_at));
    }
    let mut conditions = shown("item", query);
    if query.hides_shadowed() {
        conditions = format!(
            "{conditions} AND NOT EXISTS (
                 SELECT 1 FROM item_shadows AS shadow JOIN item_revisions AS narrow ON narrow.item = shadow.item
                 WHERE shadow.shadowed = item.item AND shadow.since <= narrow.revision AND {})",
            shown("narrow", query)
        );
    }
    let text = format!(
        "SELECT {COLUMNS} FROM item_revisions AS item
         WHERE {conditions}
             AND (:only IS NULL OR item.item IN (SELECT value FROM json_each(:only)))
             AND (:claim IS NULL OR item.claim_hash = :claim)
         ORDER BY item.learnt DESC, item.item LIMIT :limit"
    );
    let rows: Vec<revision::Bare> = connection
        .prepare_cached(&text)
        .and_then(|mut statement| {
            statement
                .query_map(parameters.as_slice(), revision::read)?
                .collect()
        })
        .map_err(sql("look for items"))?;
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        if let ItemState::Live(item) = revision::hydrate(connection, row)? {
            items.push(item);
        }
    }
    Ok(items)
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
