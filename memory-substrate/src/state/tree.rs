//! Branches, forks and going back: which messages of a conversation are visible.
//!
//! Messages are only ever added. What a reader sees is the way from a branch's head up to the root, so going back moves
//! the head and deletes nothing, and an edited message is a second child of the same parent. What is in context follows
//! the same way: a row counts while its message is visible.

use async_trait::async_trait;
use memory_core::store::{
    BranchHead, ConversationRows, ForkExtent, Forked, OrphanSweep, StoreError, StoreResult,
    TurnNode, TurnTree,
};
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::sql::{Count, sql};
use super::{SqliteState, purge, turns};

mod fork;

/// The branch that a conversation begins on.
pub(super) const MAIN_BRANCH: &str = "main";

/// The messages visible on a branch, newest first: `?1` is the conversation, `?2` the branch.
pub(super) const WAY: &str = "WITH RECURSIVE way (id, depth) AS (
         SELECT head, 1 FROM branches WHERE conversation = ?1 AND branch = ?2 AND head IS NOT NULL
         UNION ALL
         SELECT node.parent, way.depth + 1 FROM way JOIN turn_nodes AS node ON node.id = way.id
         WHERE node.parent IS NOT NULL
     )";

/// Makes room for a new message: its branch ends with it from now on, and is the current one.
pub(super) fn arrived(connection: &Connection, node: &TurnNode) -> StoreResult<()> {
    let known = head_of(connection, &node.conversation, &node.branch)?;
    let beside = match (&known, current(connection, &node.conversation)?) {
        (Some(head), Some(current)) => head.message != node.parent || current != node.branch,
        (None, Some(_)) => true,
        (_, None) => node.parent.is_some(),
    };
    stand_on(connection, &node.conversation, &node.branch, beside)?;
    set_head(connection, &node.conversation, &node.branch, Some(&node.id))
}

/// Returns where a branch ends.
pub(super) fn head_of(
    connection: &Connection,
    conversation: &str,
    branch: &str,
) -> StoreResult<Option<BranchHead>> {
    let query = format!("{HEADS} WHERE branches.conversation = ?1 AND branches.branch = ?2");
    connection
        .prepare_cached(&query)
        .and_then(|mut statement| {
            statement
                .query_row([conversation, branch], read_head)
                .optional()
        })
        .map_err(sql("read a branch"))
}

/// Returns the branch that a conversation is on.
pub(super) fn current(connection: &Connection, conversation: &str) -> StoreResult<Option<String>> {
    connection
        .prepare_cached("SELECT branch FROM conversations WHERE id = ?1")
        .and_then(|mut statement| {
            statement
                .query_row([conversation], |row| row.get(0))
                .optional()
        })
        .map_err(sql("read a conversation"))
}

/// Returns the messages visible on a branch, oldest first.
fn way(connection: &Connection, conversation: &str, branch: &str) -> StoreResult<Vec<String>> {
    let query = format!("{WAY} SELECT id FROM way ORDER BY depth DESC");
    connection
        .prepare_cached(&query)
        .and_then(|mut statement| {
            statement
                .query_map([conversation, branch], |row| row.get(0))?
                .collect()
        })
        .map_err(sql("read a conversation"))
}

const HEADS: &str = "SELECT branches.branch, branches.head, ifnull(node.turn, 0) FROM branches \
                     LEFT JOIN turn_nodes AS node ON node.id = branches.head";

fn read_head(row: &rusqlite::Row<'_>) -> rusqlite::Result<BranchHead> {
    Ok(BranchHead {
        branch: row.get(0)?,
        message: row.get(1)?,
        turn: row.get::<_, Count>(2)?.0,
    })
}

fn all(connection: &Connection, conversation: &str) -> StoreResult<Vec<BranchHead>> {
    let query = format!("{HEADS} WHERE branches.conversation = ?1 ORDER BY branches.branch");
    connection
        .prepare_cached(&query)
        .and_then(|mut statement| statement.query_map([conversation], read_head)?.collect())
        .map_err(sql("read branches"))
}

/// Makes a branch the current one. `beside` says that there is now something which is not visible from it.
fn stand_on(
    connection: &Connection,
    conversation: &str,
    branch: &str,
    beside: bool,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO conversations (id, branch, branched) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE \
             SET branch = excluded.branch, branched = max(branched, excluded.branched)",
        )
        .and_then(|mut statement| statement.execute(params![conversation, branch, beside]))
        .map(drop)
        .map_err(sql("store where a conversation stands"))
}

fn set_head(
    connection: &Connection,
    conversation: &str,
    branch: &str,
    head: Option<&str>,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO branches (conversation, branch, head) VALUES (?1, ?2, ?3) \
             ON CONFLICT (conversation, branch) DO UPDATE SET head = excluded.head",
        )
        .and_then(|mut statement| statement.execute(params![conversation, branch, head]))
        .map(drop)
        .map_err(sql("store a branch"))
}

fn create(
    connection: &Connection,
    conversation: &str,
    branch: &str,
    after: &str,
) -> StoreResult<()> {
    let node = turns::get(connection, after)?.filter(|node| node.conversation == conversation);
    if node.is_none() {
        return Err(unknown("message", after));
    }
    match head_of(connection, conversation, branch)? {
        Some(head) if head.message.as_deref() != Some(after) => {
            return Err(StoreError::Conflict {
                what: format!("branch {branch} of conversation {conversation}"),
                expected: "no such branch".to_owned(),
                found: "one that ends with another message".to_owned(),
            });
        }
        Some(_) => {}
        None => set_head(connection, conversation, branch, Some(after))?,
    }
    stand_on(connection, conversation, branch, true)
}

fn switch(connection: &Connection, conversation: &str, branch: &str) -> StoreResult<()> {
    if head_of(connection, conversation, branch)?.is_none() {
        return Err(unknown("branch", branch));
    }
    stand_on(connection, conversation, branch, true)
}

fn rewind(connection: &Connection, conversation: &str, to: &str) -> StoreResult<u64> {
    let Some(branch) = current(connection, conversation)? else {
        return Err(unknown("conversation", conversation));
    };
    let query = format!("{WAY} SELECT depth - 1 FROM way WHERE id = ?3");
    let hidden: Option<Count> = connection
        .prepare_cached(&query)
        .and_then(|mut statement| {
            statement
                .query_row([conversation, &branch, to], |row| row.get(0))
                .optional()
        })
        .map_err(sql("look for a message"))?;
    let Some(Count(hidden)) = hidden else {
        return Err(unknown("visible message", to));
    };
    if hidden > 0 {
        set_head(connection, conversation, &branch, Some(to))?;
        stand_on(connection, conversation, &branch, true)?;
    }
    Ok(hidden)
}

fn unknown(what: &str, name: &str) -> StoreError {
    StoreError::NotFound {
        what: format!("{what} {name}"),
    }
}

#[async_trait]
impl TurnTree for SqliteState {
    async fn conversation_head(&self, conversation: &str) -> StoreResult<Option<BranchHead>> {
        let conversation = conversation.to_owned();
        self.read(
            move |connection| match current(connection, &conversation)? {
                Some(branch) => head_of(connection, &conversation, &branch),
                None => Ok(None),
            },
        )
        .await
    }

    async fn branches(&self, conversation: &str) -> StoreResult<Vec<BranchHead>> {
        let conversation = conversation.to_owned();
        self.read(move |connection| all(connection, &conversation))
            .await
    }

    async fn recent_in_conversation(
        &self,
        conversation: &str,
        limit: u32,
    ) -> StoreResult<Vec<TurnNode>> {
        let conversation = conversation.to_owned();
        self.read(
            move |connection| match current(connection, &conversation)? {
                Some(branch) => turns::recent(connection, &conversation, &branch, limit),
                None => Ok(Vec::new()),
            },
        )
        .await
    }

    async fn replies(&self, message: &str) -> StoreResult<Vec<TurnNode>> {
        let message = message.to_owned();
        self.read(move |connection| turns::children(connection, &message))
            .await
    }

    async fn create_branch(
        &self,
        conversation: &str,
        branch: &str,
        after: &str,
    ) -> StoreResult<()> {
        let (conversation, branch) = (conversation.to_owned(), branch.to_owned());
        let after = after.to_owned();
        self.write(move |transaction| create(transaction, &conversation, &branch, &after))
            .await
    }

    async fn switch_branch(&self, conversation: &str, branch: &str) -> StoreResult<()> {
        let (conversation, branch) = (conversation.to_owned(), branch.to_owned());
        // The next message says it again, so it is worth no flush of its own.
        self.write_unflushed(move |transaction| switch(transaction, &conversation, &branch))
            .await
    }

    async fn rewind(&self, conversation: &str, to: &str) -> StoreResult<u64> {
        let (conversation, to) = (conversation.to_owned(), to.to_owned());
        self.write(move |transaction| rewind(transaction, &conversation, &to))
            .await
    }

    async fn fork_conversation(
        &self,
        from: &str,
        to: &str,
        extent: ForkExtent,
        at: Timestamp,
    ) -> StoreResult<Forked> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.write(move |transaction| fork::fork(transaction, &from, &to, &extent, at))
            .await
    }

    async fn delete_conversation(&self, conversation: &str) -> StoreResult<ConversationRows> {
        let conversation = conversation.to_owned();
        self.write(move |transaction| purge::delete(transaction, &conversation))
            .await
    }

    async fn sweep_orphans(
        &self,
        now: Timestamp,
        grace_ms: i64,
        dry_run: bool,
    ) -> StoreResult<OrphanSweep> {
        if dry_run {
            return self
                .read(move |connection| purge::look(connection, now, grace_ms))
                .await;
        }
        self.write(move |transaction| purge::sweep(transaction, now, grace_ms))
            .await
    }
}

#[cfg(test)]
mod tests;
