//! The tree of a conversation's messages: branches, forks, going back, and what a deletion takes along.

use std::fmt;

use async_trait::async_trait;
use serde::Serialize;

use super::{StoreResult, TurnNode};
use crate::time::Timestamp;

/// Where a branch of a conversation ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchHead {
    /// The branch.
    pub branch: String,
    /// Its last visible message; `None` when there is none.
    pub message: Option<String>,
    /// Number of that message's turn, 0 when there is none.
    pub turn: u64,
}

/// Which part of a conversation a fork takes along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForkExtent {
    /// All that is visible on the current branch.
    Full,
    /// What is visible up to and including this message.
    UpTo(String),
}

/// What a fork took along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forked {
    /// Each message and its copy, oldest first.
    pub messages: Vec<(String, String)>,
    /// How many attached blocks were copied.
    pub blocks: u64,
    /// How many rows of what is in context were copied.
    pub resident: u64,
    /// How many small values were copied.
    pub values: u64,
}

/// How many rows of a conversation there are, or were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConversationRows {
    /// Messages.
    pub messages: u64,
    /// Attached blocks.
    pub blocks: u64,
    /// Rows of what is in context.
    pub resident: u64,
    /// Log rows, the audit of selections included.
    pub log: u64,
    /// Small values of tiers and of the host.
    pub values: u64,
}

impl ConversationRows {
    /// Returns the sum.
    pub const fn total(&self) -> u64 {
        self.messages + self.blocks + self.resident + self.log + self.values
    }
}

/// What a sweep for rows without a conversation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrphanSweep {
    /// Conversations whose rows were removed, or would be in a dry run, sorted.
    pub conversations: Vec<String>,
    /// Their rows.
    pub rows: ConversationRows,
    /// How many conversations without messages were seen for less than the grace period.
    pub waiting: u64,
}

/// The tree of messages of every conversation.
#[async_trait]
pub trait TurnTree: Send + Sync + fmt::Debug {
    /// Returns where a conversation stands: its current branch, which is the one last written to or switched to.
    async fn conversation_head(&self, conversation: &str) -> StoreResult<Option<BranchHead>>;

    /// Returns every branch of a conversation, sorted by name.
    async fn branches(&self, conversation: &str) -> StoreResult<Vec<BranchHead>>;

    /// Returns the newest messages of a conversation's current branch, oldest first.
    async fn recent_in_conversation(
        &self,
        conversation: &str,
        limit: u32,
    ) -> StoreResult<Vec<TurnNode>>;

    /// Returns the messages that were written after this one on any branch, in order of arrival.
    async fn replies(&self, message: &str) -> StoreResult<Vec<TurnNode>>;

    /// Begins a branch after a message, and makes it the current one. The same again changes nothing.
    async fn create_branch(&self, conversation: &str, branch: &str, after: &str)
    -> StoreResult<()>;

    /// Makes a branch the current one.
    async fn switch_branch(&self, conversation: &str, branch: &str) -> StoreResult<()>;

    /// Goes back on the current branch until a message is its last visible one, and returns how many were hidden.
    /// Nothing is deleted: a branch can begin at what was hidden.
    async fn rewind(&self, conversation: &str, to: &str) -> StoreResult<u64>;

    /// Copies a conversation under another name: messages, their blocks, what is in context, and small values. The same
    /// again changes nothing.
    async fn fork_conversation(
        &self,
        from: &str,
        to: &str,
        extent: ForkExtent,
        at: Timestamp,
    ) -> StoreResult<Forked>;

    /// Removes everything that belongs to a conversation, in one step, and returns what that was.
    async fn delete_conversation(&self, conversation: &str) -> StoreResult<ConversationRows>;

    /// Looks for rows of conversations that do not exist, and removes those that an earlier sweep saw at least `grace_ms`
    /// ago. A dry run only counts.
    async fn sweep_orphans(
        &self,
        now: Timestamp,
        grace_ms: i64,
        dry_run: bool,
    ) -> StoreResult<OrphanSweep>;
}
