//! The tree of messages and the blocks that were attached to them.

use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::services::Role;
use memory_core::store::{StoreError, StoreResult, TurnNode};
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::sql::{Count, Named, sql};
use super::tree;

const COLUMNS: &str = "id, conversation, parent, branch, turn, role, text, finalised, speaker, principal, authority, \
                       agent, channel, origin, event_time, ingestion_time, metadata";

/// Adds a message, or replaces the same one while it is not finalised. The same message again changes nothing.
///
/// A message keeps its place for good: if a parent could change, the tree could become a circle.
pub(super) fn put(connection: &Connection, node: &TurnNode) -> StoreResult<()> {
    let mut frozen = false;
    match get(connection, &node.id)? {
        None => {
            insert(connection, node)?;
            tree::arrived(connection, node)?;
        }
        Some(known) if same(&known, node) => frozen = known.finalised,
        Some(known) if known.finalised || !same_place(&known, node) => {
            let found = if known.finalised {
                "finalised, with other content"
            } else {
                "in another place"
            };
            return Err(StoreError::Conflict {
                what: format!("message {}", node.id),
                expected: "a message that may still change".to_owned(),
                found: found.to_owned(),
            });
        }
        Some(_) => replace(connection, node)?,
    }
    upsert_blocks(connection, &node.id, &node.attached_blocks, frozen)
}

/// Returns a message with its blocks.
pub(super) fn get(connection: &Connection, id: &str) -> StoreResult<Option<TurnNode>> {
    let found = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM turn_nodes WHERE id = ?1"))
        .and_then(|mut statement| statement.query_row([id], read).optional())
        .map_err(sql("read a message"))?;
    found.map(|node| with_blocks(connection, node)).transpose()
}

/// Returns the newest messages on the way from a branch's head to its root, oldest first.
///
/// The way follows parents across the place where the branch left another one, because that is what the branch's reader
/// has seen.
pub(super) fn recent(
    connection: &Connection,
    conversation: &str,
    branch: &str,
    limit: u32,
) -> StoreResult<Vec<TurnNode>> {
    let query = format!(
        "WITH RECURSIVE way (id, depth) AS (
             SELECT head, 1 FROM branches
             WHERE conversation = ?1 AND branch = ?2 AND head IS NOT NULL AND ?3 > 0
             UNION ALL
             SELECT node.parent, way.depth + 1 FROM way JOIN turn_nodes AS node ON node.id = way.id
             WHERE node.parent IS NOT NULL AND way.depth < ?3
         )
         SELECT {COLUMNS} FROM way JOIN turn_nodes USING (id) ORDER BY way.depth DESC"
    );
    let nodes: Vec<TurnNode> = connection
        .prepare_cached(&query)
        .and_then(|mut statement| {
            statement
                .query_map(params![conversation, branch, limit], read)?
                .collect()
        })
        .map_err(sql("read a conversation"))?;
    nodes
        .into_iter()
        .map(|node| with_blocks(connection, node))
        .collect()
}

/// Returns the messages whose parent this one is, in order of arrival.
pub(super) fn children(connection: &Connection, message: &str) -> StoreResult<Vec<TurnNode>> {
    let query = format!(
        "SELECT {COLUMNS} FROM turn_nodes WHERE parent = ?1
             AND conversation = (SELECT conversation FROM turn_nodes WHERE id = ?1) ORDER BY seq"
    );
    let nodes: Vec<TurnNode> = connection
        .prepare_cached(&query)
        .and_then(|mut statement| statement.query_map([message], read)?.collect())
        .map_err(sql("read replies"))?;
    nodes
        .into_iter()
        .map(|node| with_blocks(connection, node))
        .collect()
}

/// Returns the number of the last visible turn on a branch, 0 when there is none.
pub(super) fn last_turn(
    connection: &Connection,
    conversation: &str,
    branch: &str,
) -> StoreResult<u64> {
    let head = tree::head_of(connection, conversation, branch)?;
    Ok(head.map_or(0, |head| head.turn))
}

/// Adds blocks to a message, replacing those of the same key. Those of a final message do not change any more.
pub(super) fn attach(
    connection: &Connection,
    message: &str,
    blocks: &[(String, String)],
) -> StoreResult<()> {
    let finalised: Option<bool> = connection
        .prepare_cached("SELECT finalised FROM turn_nodes WHERE id = ?1")
        .and_then(|mut statement| statement.query_row([message], |row| row.get(0)).optional())
        .map_err(sql("read a message"))?;
    let Some(finalised) = finalised else {
        return Err(StoreError::NotFound {
            what: format!("message {message}"),
        });
    };
    upsert_blocks(connection, message, blocks, finalised)
}

/// Compares where two messages stand in the tree.
fn same_place(known: &TurnNode, node: &TurnNode) -> bool {
    known.conversation == node.conversation
        && known.parent == node.parent
        && known.branch == node.branch
        && known.turn == node.turn
        && known.role == node.role
}

/// Compares what a message says; when it was stored and what was attached later do not count.
fn same(known: &TurnNode, node: &TurnNode) -> bool {
    let mut node = node.clone();
    node.ingestion_time = known.ingestion_time;
    node.attached_blocks.clone_from(&known.attached_blocks);
    *known == node
}

fn insert(connection: &Connection, node: &TurnNode) -> StoreResult<()> {
    write(
        connection,
        node,
        "INSERT INTO turn_nodes (id, conversation, parent, branch, turn, role, text, finalised, speaker, principal, \
         authority, agent, channel, origin, event_time, ingestion_time, metadata) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
    )
}

fn replace(connection: &Connection, node: &TurnNode) -> StoreResult<()> {
    write(
        connection,
        node,
        "UPDATE turn_nodes SET conversation = ?2, parent = ?3, branch = ?4, turn = ?5, role = ?6, text = ?7, \
         finalised = ?8, speaker = ?9, principal = ?10, authority = ?11, agent = ?12, channel = ?13, origin = ?14, \
         event_time = ?15, ingestion_time = ?16, metadata = ?17 WHERE id = ?1",
    )
}

fn write(connection: &Connection, node: &TurnNode, statement: &str) -> StoreResult<()> {
    connection
        .prepare_cached(statement)
        .and_then(|mut statement| {
            statement.execute(params![
                node.id,
                node.conversation,
                node.parent,
                node.branch,
                Count(node.turn),
                Named(node.role),
                node.text,
                node.finalised,
                node.speaker,
                node.principal,
                Named(node.authority),
                node.agent,
                node.channel.to_string(),
                Named(node.origin),
                node.event_time.as_millis(),
                node.ingestion_time.as_millis(),
                node.metadata,
            ])
        })
        .map(drop)
        .map_err(sql("store a message"))
}

fn upsert_blocks(
    connection: &Connection,
    message: &str,
    blocks: &[(String, String)],
    frozen: bool,
) -> StoreResult<()> {
    for (key, text) in blocks {
        let known: Option<String> = connection
            .prepare_cached("SELECT text FROM turn_blocks WHERE message = ?1 AND key = ?2")
            .and_then(|mut statement| {
                statement
                    .query_row([message, key], |row| row.get(0))
                    .optional()
            })
            .map_err(sql("read a message's blocks"))?;
        if known.as_ref() == Some(text) {
            continue;
        }
        if frozen {
            return Err(StoreError::Conflict {
                what: format!("block `{key}` of message {message}"),
                expected: "a message that may still change".to_owned(),
                found: "a final one, whose blocks stay as they are".to_owned(),
            });
        }
        connection
            .prepare_cached(
                "INSERT INTO turn_blocks (message, key, text) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (message, key) DO UPDATE SET text = excluded.text",
            )
            .and_then(|mut statement| statement.execute([message, key, text]))
            .map_err(sql("attach a block"))?;
    }
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<TurnNode> {
    Ok(TurnNode {
        id: row.get("id")?,
        conversation: row.get("conversation")?,
        parent: row.get("parent")?,
        branch: row.get("branch")?,
        turn: row.get::<_, Count>("turn")?.0,
        role: row.get::<_, Named<Role>>("role")?.0,
        text: row.get("text")?,
        finalised: row.get("finalised")?,
        speaker: row.get("speaker")?,
        principal: row.get("principal")?,
        authority: row.get::<_, Named<Authority>>("authority")?.0,
        agent: row.get("agent")?,
        channel: row.get::<_, Named<Channel>>("channel")?.0,
        origin: row.get::<_, Named<Origin>>("origin")?.0,
        event_time: Timestamp::from_millis(row.get("event_time")?),
        ingestion_time: Timestamp::from_millis(row.get("ingestion_time")?),
        metadata: row.get("metadata")?,
        attached_blocks: Vec::new(),
    })
}

fn with_blocks(connection: &Connection, mut node: TurnNode) -> StoreResult<TurnNode> {
    node.attached_blocks = connection
        .prepare_cached("SELECT key, text FROM turn_blocks WHERE message = ?1 ORDER BY seq")
        .and_then(|mut statement| {
            statement
                .query_map([&node.id], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
        .map_err(sql("read a message's blocks"))?;
    Ok(node)
}
