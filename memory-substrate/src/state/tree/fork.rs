//! Copying a conversation: what is visible in it, with everything that hangs on that.
//!
//! The copies are final parts of another conversation and survive the first one's deletion. Their identifiers follow from
//! what was copied where, so a fork that is repeated makes no second copy.

use std::collections::BTreeMap;

use memory_core::store::{ForkExtent, Forked, StoreError, StoreResult};
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{MAIN_BRANCH, current, set_head, unknown, way};
use crate::pages::hash_bytes;
use crate::state::sql::sql;

/// Digits of a copy's identifier.
const ID_DIGITS: usize = 32;

/// Copies a conversation under another name.
pub(super) fn fork(
    connection: &Connection,
    from: &str,
    to: &str,
    extent: &ForkExtent,
    at: Timestamp,
) -> StoreResult<Forked> {
    if exists_as_fork(connection, from, to)? {
        return Ok(Forked::default());
    }
    let mut visible = match current(connection, from)? {
        Some(branch) => way(connection, from, &branch)?,
        None => Vec::new(),
    };
    if let ForkExtent::UpTo(last) = extent {
        let kept = visible.iter().position(|id| id == last);
        visible.truncate(kept.ok_or_else(|| unknown("visible message", last))? + 1);
    }
    let copies: Vec<(String, String)> = visible
        .into_iter()
        .map(|id| {
            let copy = hash_bytes(format!("{to}\0{id}").as_bytes());
            (id, copy[..ID_DIGITS].to_owned())
        })
        .collect();
    let names: BTreeMap<&str, &str> = copies
        .iter()
        .map(|(id, copy)| (id.as_str(), copy.as_str()))
        .collect();
    connection
        .execute(
            "INSERT INTO conversations (id, branch, branched, forked_from) VALUES (?1, ?2, 0, ?3)",
            [to, MAIN_BRANCH, from],
        )
        .map_err(sql("fork a conversation"))?;
    let mut parent: Option<&str> = None;
    let mut blocks = 0;
    for (id, copy) in &copies {
        copy_message(connection, id, copy, to, parent)?;
        blocks += copy_blocks(connection, id, copy)?;
        parent = Some(copy);
    }
    set_head(connection, to, MAIN_BRANCH, parent)?;
    let full = *extent == ForkExtent::Full;
    Ok(Forked {
        blocks,
        resident: copy_resident(connection, from, to, &names, full, at)?,
        values: copy_values(connection, from, to, &names, full)?,
        messages: copies,
    })
}

/// Returns whether the fork was made before, and refuses a name that belongs to another conversation.
fn exists_as_fork(connection: &Connection, from: &str, to: &str) -> StoreResult<bool> {
    let origin: Option<Option<String>> = connection
        .query_row(
            "SELECT forked_from FROM conversations WHERE id = ?1",
            [to],
            |row| row.get(0),
        )
        .optional()
        .map_err(sql("read a conversation"))?;
    match origin {
        None if from == to => Err(StoreError::BadRequest {
            reason: format!("conversation `{from}` cannot be its own fork"),
        }),
        None => Ok(false),
        Some(Some(origin)) if origin == from => Ok(true),
        Some(_) => Err(StoreError::Conflict {
            what: format!("conversation {to}"),
            expected: "no such conversation".to_owned(),
            found: "one with a history of its own".to_owned(),
        }),
    }
}

fn copy_message(
    connection: &Connection,
    id: &str,
    copy: &str,
    to: &str,
    parent: Option<&str>,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO turn_nodes (id, conversation, parent, branch, turn, role, text, finalised, speaker, principal, \
             authority, agent, channel, origin, event_time, ingestion_time, metadata) \
             SELECT ?2, ?3, ?4, ?5, turn, role, text, finalised, speaker, principal, authority, agent, channel, origin, \
             event_time, ingestion_time, json_set(metadata, '$.forkSourceMessageId', ?1) FROM turn_nodes WHERE id = ?1",
        )
        .and_then(|mut statement| statement.execute(params![id, copy, to, parent, MAIN_BRANCH]))
        .map(drop)
        .map_err(sql("copy a message"))
}

fn copy_blocks(connection: &Connection, id: &str, copy: &str) -> StoreResult<u64> {
    let copied = connection
        .prepare_cached(
            "INSERT INTO turn_blocks (message, key, text) \
             SELECT ?2, key, text FROM turn_blocks WHERE message = ?1 ORDER BY seq",
        )
        .and_then(|mut statement| statement.execute([id, copy]))
        .map_err(sql("copy a message's blocks"))?;
    Ok(copied as u64)
}

/// Copies what is in context because of the copied messages and, if all were, because of messages that are not in the
/// tree.
fn copy_resident(
    connection: &Connection,
    from: &str,
    to: &str,
    names: &BTreeMap<&str, &str>,
    full: bool,
    at: Timestamp,
) -> StoreResult<u64> {
    let rows: Vec<(i64, String, bool)> = connection
        .prepare(
            "SELECT seq, message, EXISTS (SELECT 1 FROM turn_nodes AS node WHERE node.id = resident.message \
             AND node.conversation = resident.conversation) FROM resident WHERE conversation = ?1 ORDER BY seq",
        )
        .and_then(|mut statement| {
            statement
                .query_map([from], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect()
        })
        .map_err(sql("read what is in context"))?;
    let mut copied = 0;
    for (seq, message, in_tree) in rows {
        let target = match names.get(message.as_str()) {
            Some(copy) => copy,
            None if full && !in_tree => message.as_str(),
            None => continue,
        };
        copied += connection
            .prepare_cached(
                "INSERT INTO resident (conversation, slug, section, message, tier, bytes, at) \
                 SELECT ?2, slug, section, ?3, tier, bytes, ?4 FROM resident WHERE seq = ?1 \
                 ON CONFLICT (conversation, message, slug, section) DO NOTHING",
            )
            .and_then(|mut statement| statement.execute(params![seq, to, target, at.as_millis()]))
            .map_err(sql("copy what is in context"))?;
    }
    Ok(copied as u64)
}

/// Copies small values. One that names a message, such as the one that carries the static block, follows that message;
/// the others speak of the whole conversation, so a part of it does not get them.
fn copy_values(
    connection: &Connection,
    from: &str,
    to: &str,
    names: &BTreeMap<&str, &str>,
    full: bool,
) -> StoreResult<u64> {
    let rows: Vec<(String, String, String, bool)> = connection
        .prepare(
            "SELECT namespace, key, value, EXISTS (SELECT 1 FROM turn_nodes AS node WHERE node.id = tier_kv.value \
             AND node.conversation = ?1) FROM tier_kv WHERE scope = 'conversation' AND owner = ?1",
        )
        .and_then(|mut statement| {
            statement
                .query_map([from], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })?
                .collect()
        })
        .map_err(sql("read a conversation's values"))?;
    let mut copied = 0;
    for (namespace, key, value, names_message) in rows {
        let value = match names.get(value.as_str()) {
            Some(copy) => copy,
            None if full && !names_message => value.as_str(),
            None => continue,
        };
        copied += connection
            .prepare_cached(
                "INSERT INTO tier_kv (namespace, scope, owner, key, value) VALUES (?1, 'conversation', ?2, ?3, ?4) \
                 ON CONFLICT (namespace, scope, owner, key) DO NOTHING",
            )
            .and_then(|mut statement| {
                statement.execute([namespace.as_str(), to, key.as_str(), value])
            })
            .map_err(sql("copy a conversation's values"))?;
    }
    Ok(copied as u64)
}
