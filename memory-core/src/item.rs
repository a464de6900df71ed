//! Items: one self-contained claim each, with where it came from, when it held and how far it has come.
//!
//! An item cannot hold a state that must not exist: it is made by a validating constructor, read back through the same
//! one, and moved on by functions that return either its next revision or the reason against it. Nothing here stores
//! anything. Every store applies an [`Operation`] with the same pure function, so that two of them cannot disagree about
//! what a change means.

mod change;
mod claim;
mod evidence;
mod ledger;
mod name;
mod read;
mod standing;
mod transition;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Deref;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::provenance::{Authority, Channel, Origin, Trust};
use crate::time::Timestamp;

pub use self::change::{Actor, Change, Citation, Commit, NewItem, Operation, Processed};
pub use self::claim::{Claim, MAX_CLAIM_CHARACTERS, MAX_PROCESSED_CHARACTERS};
pub use self::evidence::{Evidence, corroborations};
pub use self::ledger::{
    Committed, Head, LedgerCheck, LedgerError, LedgerFault, LedgerResult, Link, apply, digest,
};
pub use self::name::{EvidenceId, ItemId, NameError, OperationKey};
pub use self::read::{Consumer, ItemQuery, Readable};
pub use self::standing::{
    ForgetReason, Interval, Layer, LayerName, Processing, Receipt, ServedLayer, Status,
};

/// How long a short-term item lives after it was learnt or last corroborated, in milliseconds: 30 days.
pub const SHORT_TERM_MS: i64 = 30 * 24 * 60 * 60 * 1000;

/// Number of an item's version, from 1.
pub type Revision = NonZeroU32;

/// Why an item cannot be, or cannot be changed so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ItemError {
    /// The state is one that must not exist. Fix the caller, or report damage if it was read from a store.
    #[error("an item cannot be so: {reason}")]
    Illegal {
        /// The rule that is broken.
        reason: String,
    },
    /// The item's state does not allow the change. Read it again and decide.
    #[error("cannot {change} an item that is {state}: {reason}")]
    NotAllowed {
        /// The change.
        change: &'static str,
        /// Layer, processing and status of the item.
        state: String,
        /// What would allow it.
        reason: &'static str,
    },
    /// The item already is what it would become. Treat it as done.
    #[error("cannot {change}: the item already has that")]
    NothingNew {
        /// The change.
        change: &'static str,
    },
}

impl ItemError {
    fn illegal(reason: impl Into<String>) -> Self {
        Self::Illegal {
            reason: reason.into(),
        }
    }
}

/// Everything an item is made of, before it was looked at. [`Item`] is the same, validated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemRecord {
    /// Its identifier; the same in every layer and revision.
    pub id: ItemId,
    /// Number of this version.
    pub revision: Revision,
    /// What it states.
    pub claim: Claim,
    /// Where it belongs.
    pub channel: Channel,
    /// How it got here.
    pub origin: Origin,
    /// With whose authority.
    pub authority: Authority,
    /// Whether it may be injected and built upon.
    pub trust: Trust,
    /// Whether the owner vouched for it in person.
    pub endorsed: bool,
    /// When it was so.
    pub valid: Interval,
    /// When it was learnt.
    pub learnt: Timestamp,
    /// How far it has come.
    pub layer: Layer,
    /// What processing made of it.
    pub processing: Processing,
    /// Whether it still counts.
    pub status: Status,
    /// What it rests on.
    pub evidence: BTreeMap<EvidenceId, Evidence>,
    /// Items of broader channels that it hides from whoever sees it.
    pub shadows: BTreeSet<ItemId>,
}

/// One revision of an item, in a state that may exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ItemRecord", into = "ItemRecord")]
pub struct Item(Box<ItemRecord>);

impl Item {
    /// Returns the validated item of a record.
    pub fn new(record: ItemRecord) -> Result<Self, ItemError> {
        validate::check(&record)?;
        Ok(Self(Box::new(record)))
    }

    /// Returns how many independent, trusted sources state the item.
    pub fn corroborations(&self) -> usize {
        corroborations(&self.evidence)
    }

    /// Returns whether a person stated it in their own words, so that nothing automatic may reword or drop it.
    pub fn is_stated(&self) -> bool {
        matches!(self.origin, Origin::UserDirect | Origin::UserFile)
    }

    /// Returns layer, processing and status in words, for messages.
    pub fn state(&self) -> String {
        format!(
            "{}, {} and {}",
            self.layer.name().as_str(),
            self.processing.as_str(),
            self.status.as_str()
        )
    }
}

impl TryFrom<ItemRecord> for Item {
    type Error = ItemError;

    fn try_from(record: ItemRecord) -> Result<Self, ItemError> {
        Self::new(record)
    }
}

impl From<Item> for ItemRecord {
    fn from(item: Item) -> Self {
        *item.0
    }
}

/// Reading only: a change goes through a transition.
impl Deref for Item {
    type Target = ItemRecord;

    fn deref(&self) -> &ItemRecord {
        &self.0
    }
}

/// What is left of a forgotten item: that it was there, and nothing of what it said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The item.
    pub id: ItemId,
    /// Number of the revision that took the content away.
    pub revision: Revision,
    /// Where it belonged.
    pub channel: Channel,
    /// The layer it was in.
    pub layer: LayerName,
    /// When it was learnt.
    pub learnt: Timestamp,
    /// When it was forgotten.
    pub forgotten_at: Timestamp,
    /// Why.
    pub reason: ForgetReason,
}

/// A stored item, or what is left of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ItemState {
    /// It is there.
    Live(Item),
    /// It was forgotten.
    Forgotten(Tombstone),
}

impl ItemState {
    /// Returns the identifier.
    pub fn id(&self) -> &ItemId {
        match self {
            Self::Live(item) => &item.id,
            Self::Forgotten(tombstone) => &tombstone.id,
        }
    }

    /// Returns the number of this version.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Live(item) => item.revision,
            Self::Forgotten(tombstone) => tombstone.revision,
        }
    }

    /// Returns the item, unless it was forgotten.
    pub fn live(&self) -> Option<&Item> {
        match self {
            Self::Live(item) => Some(item),
            Self::Forgotten(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
