//! The stores a host keeps memory in, in domain terms.
//!
//! A page store compares and swaps whole pages, a state store records turns and what was shown, an evidence store keeps
//! what was said for good, an index store holds rows that can be made again. None of them speaks of files, SQL or tables,
//! so that each can move to another engine without its callers noticing. What an engine has to keep to is in
//! [`conformance`], and stores that need no engine at all are in [`in_memory`].

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::embed::SpaceId;
use crate::predicates::Tier;
use crate::provenance::{Authority, Channel, Origin, Trust};
use crate::services::{KvScope, LogKind, LogRow, Resident, ResidentEntry, Role};
use crate::text::digest;
use crate::text::section::SectionId;
use crate::text::slug::Slug;
use crate::time::Timestamp;

pub use self::evidence::{
    Appended, Erasure, EvidenceCheck, EvidenceContent, EvidenceFault, EvidenceKind, EvidenceRecord,
    EvidenceStore, EvidenceStream, ExpectedHead, MAX_EVIDENCE_BYTES, NewEvidence, Requester,
    StreamHead, evidence_id, evidence_key_reused, evidence_salt,
};
pub use self::items::{
    ItemStore, OUTBOX_ATTEMPTS, OUTBOX_BACKOFF_MS, OutboxBacklog, OutboxEvent, Released,
    outbox_retry,
};
pub use self::turns::{BranchHead, ConversationRows, ForkExtent, Forked, OrphanSweep, TurnTree};

pub mod conformance;
mod evidence;
pub mod in_memory;
mod items;
mod turns;

/// Why a store refused or failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is no such thing. Do not retry.
    #[error("`{what}` does not exist")]
    NotFound {
        /// What was asked for.
        what: String,
    },
    /// Somebody else changed it first. Read again and decide.
    #[error("`{what}` was changed meanwhile: expected {expected}, found {found}")]
    Conflict {
        /// What was to be changed.
        what: String,
        /// The hash that the caller had seen, or `nothing`.
        expected: String,
        /// The hash that is there, or `nothing`.
        found: String,
    },
    /// Another process holds the store. Retry later.
    #[error("the store is in use: {holder}")]
    Locked {
        /// Who holds it.
        holder: String,
    },
    /// What is stored is not what it should be. Report it, and rebuild what is derived.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// Which store or file.
        what: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The data was written by a newer version. Upgrade the program.
    #[error("{what} was written by a newer version ({found}, this program knows {known})")]
    Newer {
        /// Which store.
        what: String,
        /// The version found.
        found: u64,
        /// The newest version known.
        known: u64,
    },
    /// The disk failed or is full, so no write is accepted until the store is opened again. Reading goes on. Show the
    /// cause and the remedy; retrying is useless.
    #[error("the store is read-only since it could not {action} `{place}` ({cause}): {remedy}")]
    ReadOnly {
        /// What failed.
        action: String,
        /// The file it was done to.
        place: String,
        /// What the system said.
        cause: String,
        /// What to do about it.
        remedy: String,
    },
    /// The request makes no sense. Fix the caller.
    #[error("bad request: {reason}")]
    BadRequest {
        /// What is wrong.
        reason: String,
    },
    /// The engine below failed. May be retried.
    #[error("{action} failed")]
    Engine {
        /// What was being done.
        action: String,
        /// What the engine said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Returns an engine failure while doing something.
    pub fn engine(
        action: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Engine {
            action: action.into(),
            source: source.into(),
        }
    }
}

/// A result of a store.
pub type StoreResult<T> = Result<T, StoreError>;

/// Returns the hash by which a page's bytes are known: hexadecimal SHA-256.
pub fn content_hash(bytes: &[u8]) -> String {
    digest::hex_of_bytes(bytes)
}

/// A page's bytes as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPage {
    /// The page.
    pub slug: Slug,
    /// Its bytes, untouched.
    pub bytes: Vec<u8>,
    /// Hash of the bytes, hexadecimal SHA-256.
    pub hash: String,
    /// When it last changed.
    pub modified_at: Timestamp,
}

/// A page in a listing, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageStamp {
    /// The page.
    pub slug: Slug,
    /// Length in bytes.
    pub bytes: u64,
    /// When it last changed.
    pub modified_at: Timestamp,
}

/// What a write expects to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing there yet.
    Absent,
    /// Bytes of this hash.
    Hash(String),
    /// Anything or nothing.
    Any,
}

/// Pages, compared and swapped whole.
#[async_trait]
pub trait PageStore: Send + Sync + fmt::Debug {
    /// Returns every page, sorted by slug.
    async fn list(&self) -> StoreResult<Vec<PageStamp>>;

    /// Returns a page, or `None` when it does not exist.
    async fn read(&self, slug: &Slug) -> StoreResult<Option<StoredPage>>;

    /// Writes a page if what is there is what was expected, and returns the new hash.
    async fn write(&self, slug: &Slug, bytes: Vec<u8>, expected: Expected) -> StoreResult<String>;

    /// Deletes a page if what is there is what was expected.
    async fn delete(&self, slug: &Slug, expected: Expected) -> StoreResult<()>;

    /// Gives a page another slug, which no page may have, if what is there is what was expected.
    async fn rename(&self, from: &Slug, to: &Slug, expected: Expected) -> StoreResult<()>;
}

/// A message of a conversation's tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnNode {
    /// Its identifier.
    pub id: String,
    /// The conversation.
    pub conversation: String,
    /// The message before it; `None` for the first.
    pub parent: Option<String>,
    /// The branch it is on.
    pub branch: String,
    /// Number of its turn on the branch, from 1.
    pub turn: u64,
    /// Who wrote it.
    pub role: Role,
    /// Its text, our own blocks stripped.
    pub text: String,
    /// Whether it will not change any more.
    pub finalised: bool,
    /// The speaker's name, when known.
    pub speaker: Option<String>,
    /// The person, when known.
    pub principal: Option<String>,
    /// With what authority it was said.
    pub authority: Authority,
    /// The agent that wrote or received it, when there are several.
    pub agent: Option<String>,
    /// Where it belongs.
    pub channel: Channel,
    /// How it got here.
    pub origin: Origin,
    /// When it happened.
    pub event_time: Timestamp,
    /// When it was stored.
    pub ingestion_time: Timestamp,
    /// Anything else the host keeps with it, as a JSON object.
    pub metadata: String,
    /// Blocks that were attached to it, by persistence key, unwrapped.
    pub attached_blocks: Vec<(String, String)>,
}

/// How a page came in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageOrigin {
    /// The page.
    pub slug: Slug,
    /// The name it had, a path relative to what was ingested; it stays an alias for links.
    pub original_name: String,
    /// How it got here.
    pub origin: Origin,
    /// With whose authority.
    pub authority: Authority,
    /// When it came in.
    pub at: Timestamp,
}

/// Turns, what was shown in them, and a tier's small state.
#[async_trait]
pub trait StateStore: Send + Sync + fmt::Debug {
    /// Adds a message, or replaces the same one while it is not finalised.
    async fn put_turn_node(&self, node: TurnNode) -> StoreResult<()>;

    /// Returns a message.
    async fn turn_node(&self, id: &str) -> StoreResult<Option<TurnNode>>;

    /// Returns the newest messages of a conversation's branch, oldest first.
    async fn recent_turn_nodes(
        &self,
        conversation: &str,
        branch: &str,
        limit: u32,
    ) -> StoreResult<Vec<TurnNode>>;

    /// Returns the number of the last turn on a branch, 0 when there is none.
    async fn last_turn(&self, conversation: &str, branch: &str) -> StoreResult<u64>;

    /// Adds blocks that were attached to a message, replacing those of the same persistence key.
    async fn attach_blocks(&self, message: &str, blocks: Vec<(String, String)>) -> StoreResult<()>;

    /// Returns what is in a conversation's context, in order of attachment.
    async fn resident(&self, conversation: &str) -> StoreResult<Vec<ResidentEntry>>;

    /// Records what was attached to a message by a tier.
    async fn record_resident(
        &self,
        conversation: &str,
        message: &str,
        tier: Tier,
        shown: Vec<Resident>,
        at: Timestamp,
    ) -> StoreResult<()>;

    /// Forgets what is in a conversation's context.
    async fn clear_resident(&self, conversation: &str) -> StoreResult<()>;

    /// Appends log rows of one turn, all or none. They are durable with the next write that is.
    async fn append_log(
        &self,
        conversation: &str,
        turn: u64,
        tier: Tier,
        rows: Vec<LogRow>,
        at: Timestamp,
    ) -> StoreResult<()>;

    /// Returns the newest log rows of a kind in a conversation, newest first.
    async fn newest_log(
        &self,
        conversation: &str,
        kind: LogKind,
        limit: u32,
    ) -> StoreResult<Vec<LogRow>>;

    /// Returns a value of a namespace. `owner` is the conversation for that scope and empty for the assistant's.
    async fn kv_get(
        &self,
        namespace: &str,
        scope: KvScope,
        owner: &str,
        key: &str,
    ) -> StoreResult<Option<String>>;

    /// Sets a value of a namespace, or removes it with `None`. It is durable with the next write that is.
    async fn kv_put(
        &self,
        namespace: &str,
        scope: KvScope,
        owner: &str,
        key: &str,
        value: Option<String>,
    ) -> StoreResult<()>;

    /// Returns how each page that was ingested came in, sorted by slug. A page without one is the owner's own file.
    async fn page_origins(&self) -> StoreResult<Vec<PageOrigin>>;

    /// Records how pages came in, all or none.
    async fn put_page_origins(&self, origins: Vec<PageOrigin>) -> StoreResult<()>;
}

/// One row of the section index. Everything in it can be made again from the page.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexRow {
    /// The section.
    pub id: SectionId,
    /// Its heading as written; empty for the lead.
    pub heading: String,
    /// Its position on the page, from 0.
    pub ordinal: u32,
    /// Hash of the page's bytes this row was made from.
    pub page_hash: String,
    /// How many rows that page has.
    pub page_rows: u32,
    /// The page's title.
    pub title: String,
    /// When the page last changed.
    pub modified_at: Timestamp,
    /// The declared date of the content, when there is one.
    pub dated: Option<Timestamp>,
    /// Hash of the section's text.
    pub text_hash: String,
    /// The section's text: what the vector was made from.
    pub text: String,
    /// The head field's terms, segmented, joined by one blank.
    pub head_terms: String,
    /// The body field's terms, segmented, joined by one blank.
    pub body_terms: String,
    /// Where the section belongs.
    pub channel: Channel,
    /// Lowest trust of its parts.
    pub trust: Trust,
    /// The vector, of the index's space; `None` in an index without one.
    pub vector: Option<Vec<f32>>,
}

/// What an index was made with. Any difference means another index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexSpace {
    /// Version of the segmentation.
    pub segmentation: String,
    /// The embedding space; `None` for an index without vectors.
    pub embedding: Option<SpaceId>,
    /// Length of a vector, 0 without vectors.
    pub dims: u32,
    /// Version of the row's shape.
    pub schema: u32,
}

/// Counters of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexStats {
    /// Rows.
    pub rows: u64,
    /// Files on disk.
    pub files: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Rows that the text index does not cover yet; they are still found, by a scan.
    pub unindexed_rows: u64,
}

/// The section index.
#[async_trait]
pub trait IndexStore: Send + Sync + fmt::Debug {
    /// Returns what the index was made with.
    fn space(&self) -> &IndexSpace;

    /// Replaces every row of the given pages by these rows, in one batch. A page without rows is removed.
    async fn replace_pages(&self, pages: Vec<Slug>, rows: Vec<IndexRow>) -> StoreResult<()>;

    /// Returns every row, sorted by section.
    async fn all_rows(&self) -> StoreResult<Vec<IndexRow>>;

    /// Returns the sections nearest to a vector by cosine similarity, best first.
    async fn search_vector(&self, vector: &[f32], limit: u32)
    -> StoreResult<Vec<(SectionId, f32)>>;

    /// Returns the sections that share segmented terms with a text, best first.
    async fn search_terms(&self, terms: &str, limit: u32) -> StoreResult<Vec<(SectionId, f32)>>;

    /// Folds small files together and extends the text index, within the limits on files.
    async fn maintain(&self) -> StoreResult<()>;

    /// Returns the counters.
    async fn stats(&self) -> StoreResult<IndexStats>;
}
