//! What goes into a turn and what comes out of it.
//!
//! A host hands in a message with everything it knows about who said it, and gets blocks back together with the whole
//! story of how they were chosen. The result is a value and never an error: a host that loses its memory for a turn
//! should still answer.

use std::time::Duration;

use memory_core::predicates::Tier;
use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::services::Notice;
use memory_core::text::block::{self, Tag};
use memory_core::text::section::SectionId;
use memory_core::tier::{Placement, ShownSection};
use memory_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::assistant::PendingTurn;
use crate::plugins::Serving;

/// Name of the branch that a conversation starts on.
pub const MAIN_BRANCH: &str = "main";

/// One message of a user, and what the host knows about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnInput {
    /// The conversation it belongs to.
    pub conversation: String,
    /// The branch of that conversation.
    pub branch: String,
    /// The host's own identifier for the message; `None` lets Strata make one.
    pub message_id: Option<String>,
    /// What the user wrote. Blocks of ours that a host left in it are taken out.
    pub text: String,
    /// The assistant's message before it; `None` takes it from the conversation's tree.
    pub previous_reply: Option<String>,
    /// The last visible messages, oldest first; empty takes them from the conversation's tree.
    pub recent: Vec<String>,
    /// Whether the host just stripped its history, so that nothing is in context any more.
    pub context_lost: bool,
    /// The speaker's name, when known.
    pub speaker: Option<String>,
    /// The person, when known.
    pub principal: Option<String>,
    /// With what authority they speak. Without any, nothing is injected and nothing is recorded.
    pub authority: Authority,
    /// How the text got here.
    pub origin: Origin,
    /// The agent that receives it, when there are several.
    pub agent: Option<String>,
    /// Where the message belongs.
    pub channel: Channel,
    /// Channels that may be read. The owner reads the global one too; a paired speaker reads only these and `channel`.
    pub channels: Vec<Channel>,
    /// When it was said; `None` means now.
    pub event_time: Option<Timestamp>,
    /// Event time to answer for; `None` means now.
    pub as_of: Option<Timestamp>,
    /// Ingestion time to answer for; `None` means now.
    pub known_at: Option<Timestamp>,
    /// W3C trace parent, when the host traces.
    pub trace_parent: Option<String>,
}

impl TurnInput {
    /// Returns a message that a person typed under this authority.
    pub fn new(
        conversation: impl Into<String>,
        text: impl Into<String>,
        authority: Authority,
    ) -> Self {
        Self {
            conversation: conversation.into(),
            branch: MAIN_BRANCH.to_owned(),
            message_id: None,
            text: text.into(),
            previous_reply: None,
            recent: Vec::new(),
            context_lost: false,
            speaker: None,
            principal: None,
            authority,
            origin: Origin::UserDirect,
            agent: None,
            channel: Channel::Global,
            channels: Vec::new(),
            event_time: None,
            as_of: None,
            known_at: None,
            trace_parent: None,
        }
    }

    /// Returns what is wrong with it. A blank identifier would make one thing of what has nothing to do with one another.
    pub(crate) fn check(&self) -> Result<(), String> {
        let named = [
            ("the conversation", Some(&self.conversation)),
            ("the branch", Some(&self.branch)),
            ("the message", self.message_id.as_ref()),
        ];
        for (what, id) in named {
            if id.is_some_and(|id| id.trim().is_empty()) {
                return Err(format!("{what} has a blank identifier: name it"));
            }
        }
        Ok(())
    }

    /// Returns a message that the owner of the memory typed.
    pub fn owner(conversation: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(conversation, text, Authority::Owner)
    }
}

/// The assistant's side of a turn.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TurnEnd {
    /// What the assistant answered; `None` when it did not.
    pub reply: Option<String>,
    /// The host's own identifier for the reply; `None` lets Strata make one.
    pub reply_id: Option<String>,
    /// When it answered; `None` means now.
    pub event_time: Option<Timestamp>,
}

impl TurnEnd {
    /// Returns the end of a turn with this answer.
    pub fn reply(text: impl Into<String>) -> Self {
        Self {
            reply: Some(text.into()),
            ..Self::default()
        }
    }
}

/// The messages under which a turn was stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnIds {
    /// The user's message.
    pub message: String,
    /// The assistant's, when there was one.
    pub reply: Option<String>,
}

/// What to put into the prompt, and how it was chosen.
#[derive(Debug)]
pub struct Injection {
    /// The blocks in prompt order. A host may remove some before it calls `attached`.
    pub blocks: Vec<InjectedBlock>,
    /// How they were chosen.
    pub trace: TurnTrace,
    /// What the user or operator should know.
    pub notices: Vec<Notice>,
    pub(crate) pending: PendingTurn,
}

impl Injection {
    /// Returns all blocks wrapped, in prompt order, one after the other.
    pub fn text(&self) -> String {
        let wrapped: Vec<String> = self.blocks.iter().map(InjectedBlock::wrapped).collect();
        wrapped.join("\n")
    }

    /// Returns the message as a model should see it: blocks before it, the message, blocks after it.
    pub fn prompt(&self, message: &str) -> String {
        let (after, before): (Vec<_>, Vec<_>) = self
            .blocks
            .iter()
            .partition(|block| block.placement == Placement::Append);
        let before = before.into_iter().map(InjectedBlock::wrapped);
        let after = after.into_iter().map(InjectedBlock::wrapped);
        let parts: Vec<String> = before.chain([message.to_owned()]).chain(after).collect();
        parts.join("\n")
    }
}

/// A block that fits the budget.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InjectedBlock {
    /// Identifier, unique in its turn.
    pub id: String,
    /// The wrapper's tag.
    pub tag: String,
    /// Where it goes.
    pub placement: Placement,
    /// Position among blocks of one placement, ascending.
    pub order: i32,
    /// Metadata key under which the host keeps it with the message; `None` for one that is never kept.
    pub persistence_key: Option<String>,
    /// The text inside the wrapper.
    pub text: String,
    /// What it costs, wrapper included.
    pub tokens: usize,
    /// Whether a shorter form of the text was taken.
    pub shortened: bool,
    /// What the block shows, in the order of the text.
    pub shows: Vec<ShownSection>,
}

impl InjectedBlock {
    /// Returns the text inside its wrapper, as it goes into the prompt.
    pub fn wrapped(&self) -> String {
        wrap(&self.tag, &self.text)
    }
}

/// Wraps a text in a tag. A tag of no known grammar came from a newer tier and is wrapped plainly.
pub(crate) fn wrap(tag: &str, text: &str) -> String {
    match Tag::parse(tag) {
        Some(tag) => block::wrap(tag, text),
        None if tag.is_empty() => text.to_owned(),
        None => format!("<{tag}>\n{text}\n</{tag}>"),
    }
}

/// How a turn's blocks were chosen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnTrace {
    /// The conversation.
    pub conversation: String,
    /// Number of the turn on its branch, from 1; 0 when it could not be told.
    pub turn: u64,
    /// The message the blocks belong to.
    pub message: String,
    /// The tier the settings configure.
    pub configured: Tier,
    /// The plugin that really chose; `None` when none did.
    pub serving: Option<Serving>,
    /// Every section that is shown, in prompt order.
    pub sections: Vec<InjectedSection>,
    /// Sections that were chosen but are in context already.
    pub already_resident: Vec<SectionId>,
    /// How many candidates were considered.
    pub pool_size: u32,
    /// Blocks that did not fit.
    pub dropped: Vec<DroppedBlock>,
    /// Tokens that the settings allow.
    pub budget_tokens: usize,
    /// Tokens that the blocks cost.
    pub used_tokens: usize,
    /// What degraded, as codes of the tier.
    pub degraded: Vec<String>,
    /// Where the time went.
    pub timings: Timings,
}

/// A section that is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InjectedSection {
    /// The section.
    pub section: SectionId,
    /// The lane that surfaced it first.
    pub lane: String,
    /// The lane's score; lanes are not comparable with one another.
    pub score: f32,
    /// Length of the rendered section in bytes.
    pub bytes: u64,
    /// The block it is in.
    pub block: String,
}

/// A block that did not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedBlock {
    /// The block.
    pub id: String,
    /// Why it was left out.
    pub reason: String,
}

/// Where the time of a turn went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Microseconds", into = "Microseconds")]
pub struct Timings {
    /// Turning the message into vectors; `None` when that did not happen. Part of the tier's time.
    pub embedding: Option<Duration>,
    /// The tier's answer, embedding included.
    pub tier: Duration,
    /// The whole of `begin_turn`.
    pub total: Duration,
}

/// Timings as they are written, in microseconds.
#[derive(Serialize, Deserialize)]
struct Microseconds {
    #[serde(rename = "embedding_us")]
    embedding: Option<u64>,
    #[serde(rename = "tier_us")]
    tier: u64,
    #[serde(rename = "total_us")]
    total: u64,
}

impl From<Timings> for Microseconds {
    fn from(timings: Timings) -> Self {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            embedding: timings.embedding.map(micros),
            tier: micros(timings.tier),
            total: micros(timings.total),
        }
    }
}

impl From<Microseconds> for Timings {
    fn from(written: Microseconds) -> Self {
        Self {
            embedding: written.embedding.map(Duration::from_micros),
            tier: Duration::from_micros(written.tier),
            total: Duration::from_micros(written.total),
        }
    }
}
