//! Taking texts out of the state database, and looking whether any are left.

use memory_core::item::ItemId;
use memory_core::store::StoreResult;
use memory_core::text::slug::Slug;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use super::sql::{Named, sql};
use crate::erase::Needles;

/// Columns whose rows are derived or only serve to show things, and may go for a text in them.
const LOOSE: [(&str, &str); 10] = [
    ("turn_blocks", "text"),
    ("tier_log", "body"),
    ("tier_kv", "value"),
    ("page_cache", "meta"),
    ("meta", "value"),
    ("run_entry", "text"),
    ("run", "report"),
    ("memory_jobs", "payload"),
    ("memory_jobs", "last_error"),
    ("memory_checkpoints", "value"),
];

/// Deletes what is known of a page besides its file: how it came in, what was parsed of it, where it was shown.
pub(crate) fn page(connection: &Connection, slug: &Slug, paths: &[String]) -> StoreResult<usize> {
    let failed = sql("erase a page");
    let mut removed = 0;
    for statement in [
        "DELETE FROM page_origins WHERE slug = ?1",
        "DELETE FROM resident WHERE slug = ?1",
        "DELETE FROM tier_log WHERE slug = ?1 OR instr(body, '\"' || ?1 || '\"') > 0 OR instr(body, '\"' || ?1 || '#') > 0",
        "DELETE FROM tier_kv WHERE instr(value, '\"' || ?1 || '\"') > 0 OR instr(value, '\"' || ?1 || '#') > 0",
        "DELETE FROM page_cache WHERE slug = ?1",
        "DELETE FROM item_citation WHERE page = ?1",
    ] {
        removed += connection
            .execute(statement, [slug.as_str()])
            .map_err(&failed)?;
    }
    let mut operations: Vec<i64> = Vec::new();
    for path in paths {
        let concerned: Vec<i64> = connection
            .prepare_cached(
                "DELETE FROM op_file WHERE result IS NOT NULL AND (path = ?1 OR target = ?1 OR copy = ?1) RETURNING op",
            )
            .and_then(|mut statement| statement.query_map([path], |row| row.get(0))?.collect())
            .map_err(&failed)?;
        removed += concerned.len();
        operations.extend(concerned);
    }
    operations.sort_unstable();
    operations.dedup();
    for operation in operations {
        removed += connection
            .prepare_cached(
                "DELETE FROM op WHERE seq = ?1 AND state = 'applied' AND kind <> 'remember' \
                 AND NOT EXISTS (SELECT 1 FROM op_file WHERE op_file.op = op.seq)",
            )
            .and_then(|mut statement| statement.execute([operation]))
            .map_err(&failed)?;
    }
    Ok(removed)
}

/// Returns every path that the operations of a page's file name.
pub(crate) fn paths_of(connection: &Connection, path: &str) -> StoreResult<Vec<String>> {
    connection
        .prepare(
            "WITH RECURSIVE named (path) AS (
                 SELECT ?1 UNION
                 SELECT other.name FROM named JOIN (
                     SELECT path AS one, target AS name FROM op_file WHERE target IS NOT NULL
                     UNION ALL SELECT target, path FROM op_file WHERE target IS NOT NULL
                     UNION ALL SELECT path, copy FROM op_file WHERE copy IS NOT NULL
                 ) AS other ON other.one = named.path
             ) SELECT path FROM named",
        )
        .and_then(|mut statement| statement.query_map([path], |row| row.get(0))?.collect())
        .map_err(sql("read what was done to a page"))
}

/// Deletes the rows of logs and caches that hold one of the texts. Returns how many.
pub(crate) fn loose_rows(connection: &Connection, needles: &Needles) -> StoreResult<usize> {
    let failed = sql("erase texts");
    let mut removed = 0;
    for (table, column) in LOOSE {
        // Tables without a row number have their key instead, so rows are found by their value.
        let values: Vec<String> = connection
            .prepare(&format!(
                "SELECT {column} FROM {table} WHERE {column} IS NOT NULL"
            ))
            .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
            .map_err(&failed)?;
        for value in values
            .iter()
            .filter(|value| needles.are_in(value.as_bytes()))
        {
            removed += connection
                .execute(
                    &format!("DELETE FROM {table} WHERE {column} = ?1"),
                    params![value],
                )
                .map_err(&failed)?;
        }
    }
    Ok(removed)
}

/// Returns the items that state one of the texts, in any revision.
pub(crate) fn items_with(connection: &Connection, needles: &Needles) -> StoreResult<Vec<ItemId>> {
    let rows: Vec<(ItemId, String)> = connection
        .prepare("SELECT item, claim FROM item_revisions WHERE claim IS NOT NULL")
        .and_then(|mut statement| {
            statement
                .query_map([], |row| {
                    Ok((row.get::<_, Named<ItemId>>(0)?.0, row.get(1)?))
                })?
                .collect()
        })
        .map_err(sql("look for texts in items"))?;
    let mut found: Vec<ItemId> = rows
        .into_iter()
        .filter(|(_, claim)| needles.are_in(claim.as_bytes()))
        .map(|(item, _)| item)
        .collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// Returns the texts of a conversation's messages.
pub(crate) fn messages(connection: &Connection, conversation: &str) -> StoreResult<Vec<String>> {
    connection
        .prepare("SELECT text FROM turn_nodes WHERE conversation = ?1")
        .and_then(|mut statement| {
            statement
                .query_map([conversation], |row| row.get(0))?
                .collect()
        })
        .map_err(sql("read a conversation"))
}

/// Returns where one of the texts still stands: tables with the number of rows, messages by conversation.
pub(crate) fn places(connection: &Connection, needles: &Needles) -> StoreResult<Vec<String>> {
    let failed = sql("look for erased texts");
    let tables: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .map_err(&failed)?;
    let mut places = Vec::new();
    for table in tables {
        let mut found = 0;
        let mut statement = connection
            .prepare(&format!("SELECT * FROM \"{table}\""))
            .map_err(&failed)?;
        let conversation = statement.column_index("conversation").ok();
        let columns = statement.column_count();
        let mut rows = statement.query([]).map_err(&failed)?;
        let mut conversations = Vec::new();
        while let Some(row) = rows.next().map_err(&failed)? {
            let mut holds = false;
            for column in 0..columns {
                if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) =
                    row.get_ref(column).map_err(&failed)?
                {
                    holds |= needles.are_in(bytes);
                }
            }
            if !holds {
                continue;
            }
            found += 1;
            if let Some(column) = conversation
                && let Ok(name) = row.get::<_, String>(column)
                && !conversations.contains(&name)
            {
                conversations.push(name);
            }
        }
        for name in &conversations {
            places.push(format!("conversation `{name}`"));
        }
        if found > 0 && conversations.is_empty() {
            places.push(format!(
                "table `{table}` of the state database, {found} rows"
            ));
        }
    }
    Ok(places)
}
