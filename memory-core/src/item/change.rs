//! What can be done to an item, as values.
//!
//! An operation names everything it depends on: the key by which a repetition is recognised and the revision its author
//! had seen. It never names identifiers of its own making, positions in the ledger or times, so that a retry is equal to
//! the first try.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    Claim, Evidence, EvidenceId, ForgetReason, Head, Interval, ItemId, OperationKey, Revision,
};
use crate::provenance::{Authority, Channel, Origin};
use crate::text::section::SectionId;
use crate::text::slug::Slug;
use crate::time::Timestamp;

/// A claim that was just captured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewItem {
    /// What it states.
    pub claim: Claim,
    /// Where it belongs.
    pub channel: Channel,
    /// How it got here.
    pub origin: Origin,
    /// With whose authority.
    pub authority: Authority,
    /// When it was so.
    pub valid: Interval,
    /// What it rests on. Only what a person stated may go without.
    pub evidence: BTreeMap<EvidenceId, Evidence>,
}

/// What a processor made of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Processed {
    /// The self-contained claim.
    pub claim: Claim,
    /// Which processor.
    pub processor: String,
    /// Which version of it.
    pub version: String,
}

/// One change of one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is learnt.
    Add(NewItem),
    /// It is processed.
    Process(Processed),
    /// It cannot be processed.
    Block {
        /// Why.
        reason: String,
    },
    /// It moves to the long term.
    Promote,
    /// It is stated by evidence that it did not have.
    Corroborate {
        /// The evidence.
        evidence: BTreeMap<EvidenceId, Evidence>,
    },
    /// Another item takes its place.
    Supersede {
        /// Which one.
        by: ItemId,
    },
    /// It hides an item of a broader channel.
    Shadow {
        /// Which one.
        over: ItemId,
    },
    /// It is put away.
    Archive,
    /// It comes back from the archive, from being superseded or from having expired.
    Restore,
    /// Its time ran out.
    Expire,
    /// Its content is taken away for good.
    Forget {
        /// Why.
        reason: ForgetReason,
    },
    /// It is put in other words.
    Correct {
        /// The words.
        claim: Claim,
        /// How they got here.
        origin: Origin,
        /// With whose authority.
        authority: Authority,
        /// What they rest on, beside what the item rests on already.
        evidence: BTreeMap<EvidenceId, Evidence>,
        /// When it was so; `None` leaves that as it is.
        valid: Option<Interval>,
    },
    /// The owner vouches for it.
    Endorse,
    /// It is no longer trusted.
    Distrust,
    /// Other pages cite it.
    Cite,
}

impl Change {
    /// Returns the name as it is stored.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Add(_) => "add",
            Self::Process(_) => "process",
            Self::Block { .. } => "block",
            Self::Promote => "promote",
            Self::Corroborate { .. } => "corroborate",
            Self::Supersede { .. } => "supersede",
            Self::Shadow { .. } => "shadow",
            Self::Archive => "archive",
            Self::Restore => "restore",
            Self::Expire => "expire",
            Self::Forget { .. } => "forget",
            Self::Correct { .. } => "correct",
            Self::Endorse => "endorse",
            Self::Distrust => "distrust",
            Self::Cite => "cite",
        }
    }

    /// Returns the second item that the change depends on.
    pub const fn other(&self) -> Option<&ItemId> {
        match self {
            Self::Supersede { by } => Some(by),
            Self::Shadow { over } => Some(over),
            _ => None,
        }
    }
}

/// One place that states an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Citation {
    /// The page.
    pub page: Slug,
    /// The section; `None` for the page as a whole.
    pub section: Option<SectionId>,
    /// The evidence it names for it.
    pub evidence: Option<EvidenceId>,
}

/// One change of one item, with what it depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// The same key again is the same operation.
    pub key: OperationKey,
    /// The item.
    pub item: ItemId,
    /// The revision that the author saw; `None` for an item that must not exist yet.
    pub expected: Option<Revision>,
    /// The change.
    pub change: Change,
    /// Where the item is cited from now on; `None` leaves that as it is.
    pub citations: Option<Vec<Citation>>,
}

/// Who changes items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Actor {
    /// The owner in person, through a surface of this name.
    Owner(String),
    /// A paired person.
    Paired(String),
    /// A pass of our own.
    System(String),
}

impl Actor {
    /// Returns the kind as it is stored.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Owner(_) => "owner",
            Self::Paired(_) => "paired",
            Self::System(_) => "system",
        }
    }

    /// Returns the name of the surface, person or pass.
    pub fn name(&self) -> &str {
        match self {
            Self::Owner(name) | Self::Paired(name) | Self::System(name) => name,
        }
    }
}

/// Operations that happen together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Who makes them.
    pub actor: Actor,
    /// When.
    pub at: Timestamp,
    /// The head of the ledger that the author saw; `None` to depend on the items' revisions alone.
    pub expected_head: Option<Head>,
    /// The operations, in order. A later one sees what an earlier one did.
    pub operations: Vec<Operation>,
}
