//! What a tier is: the author's trait and the values that cross it.
//!
//! A tier chooses what a turn is shown. It runs as a plugin, so the trait takes and returns plain owned data, sees the
//! world only through [`crate::services::Services`], and never learns which other tiers exist.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;

use crate::predicates::Tier;
use crate::services::{Call, Capability, LogKind, LogRow, ServiceError, Services};
use crate::text::section::SectionId;
use crate::text::slug::Slug;

pub use self::commits::CommitBook;

mod commits;

/// What a plugin says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierManifest {
    /// Identifier of the plugin, such as `tier-v3`.
    pub id: String,
    /// The tier it serves.
    pub tier: Tier,
    /// The plugin's own version.
    pub version: String,
    /// Capabilities without which it cannot serve.
    pub requires: Vec<Capability>,
    /// Capabilities it uses when they are offered.
    pub uses: Vec<Capability>,
}

/// What the host asks of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnRequest {
    /// The user's message as the user wrote it, our own blocks stripped.
    pub user_message: String,
    /// The assistant's message before it; `None` on the first turn.
    pub previous_reply: Option<String>,
    /// The last visible messages, oldest first, one text each.
    pub recent: Vec<String>,
    /// One line on the situation: date and clock time.
    pub situation: String,
    /// Whether history was just stripped, so that nothing is in context any more.
    pub context_lost: bool,
}

/// Where a host puts a block on the newest user message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Before everything else.
    Prepend,
    /// Right after the blocks that count as memory.
    AfterMemoryPrefix,
    /// After the user's own text.
    Append,
}

/// Identifies what must be committed once a block was really attached.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitToken(pub String);

/// A section a block shows, and why it was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownSection {
    /// The section.
    pub section: SectionId,
    /// The lane that surfaced it first.
    pub lane: String,
    /// The lane's score; lanes are not comparable with one another.
    pub score: f32,
    /// Length of the rendered section in bytes.
    pub bytes: u64,
}

impl ShownSection {
    /// Returns the row of the log that says that it was shown.
    pub fn selection(&self) -> LogRow {
        let body = json!({ "section": self.section, "source": self.lane, "score": self.score });
        LogRow {
            kind: LogKind::Selection,
            slug: Some(self.section.slug.clone()),
            body: body.to_string(),
        }
    }
}

/// Text that a host puts into a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Identifier, unique in its turn.
    pub id: String,
    /// The wrapper's tag, such as `memory`.
    pub tag: String,
    /// Where it goes.
    pub placement: Placement,
    /// Position among blocks of one placement, ascending.
    pub order: i32,
    /// Importance when the budget is short, descending.
    pub priority: i32,
    /// Whether it must be kept even over the budget.
    pub mandatory: bool,
    /// Metadata key under which the host keeps it with the message; `None` for one that is never kept.
    pub persistence_key: Option<String>,
    /// The text inside the wrapper.
    pub text: String,
    /// Shorter forms of the text that still show every section of `shows`, largest first.
    pub variants: Vec<String>,
    /// Fewest tokens for which showing it makes sense.
    pub minimum_tokens: u32,
    /// What the block shows, in the order of the text.
    pub shows: Vec<ShownSection>,
    /// What to commit after attachment.
    pub commit: Option<CommitToken>,
}

/// What a tier answers to a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnPlan {
    /// The blocks, in any order.
    pub blocks: Vec<Block>,
    /// How many candidates were considered.
    pub pool_size: u32,
    /// Sections that were selected but are in context already.
    pub already_resident: Vec<SectionId>,
    /// What degraded this turn, as codes such as `dense_unavailable`.
    pub degraded: Vec<String>,
}

/// What happened to a conversation or an assistant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TierEvent {
    /// History was compacted: nothing that was injected is in context any more.
    Compaction,
    /// History was cleaned by the user.
    Clean,
    /// The conversation went back to a message.
    Rewind {
        /// The last message that is still visible.
        message: String,
    },
    /// The conversation was copied.
    Fork {
        /// The new conversation.
        conversation: String,
        /// Whether the whole history was taken along.
        full: bool,
    },
    /// The conversation was deleted.
    Delete,
    /// Every conversation was deleted.
    ClearAll,
    /// Memory was switched off.
    MemoryOff,
}

impl TierEvent {
    /// Returns whether nothing that was shown in the conversation is in context any more.
    pub const fn empties_context(&self) -> bool {
        matches!(self, Self::Compaction | Self::Clean)
    }
}

/// Why a page or section is in or out of a turn's answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Every candidate of the turn's pool, in rank order.
    pub candidates: Vec<ExplainedCandidate>,
    /// Anything else worth knowing, one sentence a line.
    pub notes: Vec<String>,
}

/// One candidate of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedCandidate {
    /// The page.
    pub slug: Slug,
    /// The section, when one matched.
    pub section: Option<SectionId>,
    /// Every lane that found it, with the lane's own score.
    pub lanes: Vec<(String, f32)>,
    /// Score after fusion.
    pub fused: f32,
    /// What became of it: `selected`, `resident`, `over_cap`, `not_selected`.
    pub outcome: String,
}

/// Counters of a tier instance since it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierStats {
    /// Turns begun.
    pub turns: u64,
    /// Sections that were committed as attached.
    pub committed_sections: u64,
    /// Turns that answered with something degraded.
    pub degraded_turns: u64,
}

/// Whether a tier can serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierHealth {
    /// Whether it can serve.
    pub ok: bool,
    /// Why not, or what is degraded.
    pub detail: String,
}

/// Why a tier call failed.
#[derive(Debug, Error)]
pub enum TierError {
    /// The configuration is wrong. Report it; retrying will not help.
    #[error("tier configuration: {reason}")]
    BadConfig {
        /// What is wrong.
        reason: String,
    },
    /// A host service failed. The host serves the turn without memory and may retry.
    #[error("host service failed")]
    Service(#[from] ServiceError),
    /// The caller gave up. Nothing to report.
    #[error("the call was cancelled")]
    Cancelled,
    /// Something inside the tier is broken. Report it.
    #[error("tier failed: {reason}")]
    Internal {
        /// What broke.
        reason: String,
    },
}

/// An engine that chooses what a turn is shown.
///
/// Calls may come on any host thread and in parallel. A method must not block for long: long loops call
/// [`Call::yield_now`], and everything slow is a host service.
#[async_trait]
pub trait MemoryTier: Send + Sync + Sized + fmt::Debug + 'static {
    /// Describes the plugin. Called before anything else, and must not fail.
    fn manifest() -> TierManifest;

    /// Makes an instance for one assistant. `config` is the tier's own resolved settings as JSON.
    fn create(services: Services, config: &str) -> Result<Self, TierError>;

    /// Selects and renders this turn's blocks. Records nothing as seen.
    async fn begin_turn(&self, call: &Call, request: TurnRequest) -> Result<TurnPlan, TierError>;

    /// Records that what a token stands for was really attached to a message.
    async fn commit(
        &self,
        call: &Call,
        token: CommitToken,
        message: String,
    ) -> Result<(), TierError>;

    /// Forgets what a token stands for.
    async fn discard(&self, call: &Call, token: CommitToken) -> Result<(), TierError>;

    /// Adjusts to something that happened.
    async fn on_event(&self, call: &Call, event: TierEvent) -> Result<(), TierError>;

    /// Explains what `begin_turn` would choose for a request and why. Records nothing.
    async fn explain(&self, call: &Call, request: TurnRequest) -> Result<Explanation, TierError>;

    /// Returns the instance's counters.
    async fn stats(&self, call: &Call) -> Result<TierStats, TierError>;

    /// Tells whether the instance can serve.
    async fn health(&self, call: &Call) -> Result<TierHealth, TierError>;
}
