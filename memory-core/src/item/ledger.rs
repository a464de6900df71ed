//! The ledger of operations: what is checked before one is written, and how each is chained to the one before it.
//!
//! The chain holds digests and never content. Each operation's digests are salted, so that forgetting an item, which
//! throws its salts away, leaves a chain that still verifies and from which nothing can be guessed.

use serde::Serialize;
use thiserror::Error;

use super::change::{Actor, Change, Operation};
use super::transition::Correction;
use super::{Citation, ForgetReason, Item, ItemError, ItemId, ItemState, OperationKey, Revision};
use crate::provenance::Authority;
use crate::store::StoreError;
use crate::text::digest as sha;
use crate::time::Timestamp;

/// Why an operation was not written. Nothing was.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// The item changed since the author saw it. Read it again and decide.
    #[error("`{item}` is at revision {found}, not at {expected}: read it again", found = number(*.found), expected = number(*.expected))]
    StaleRevision {
        /// The item.
        item: ItemId,
        /// The revision that was seen; `None` when it should not exist.
        expected: Option<Revision>,
        /// The revision there is; `None` when it does not exist.
        found: Option<Revision>,
    },
    /// Something was written since the author saw the ledger. Read again and decide.
    #[error("the ledger is at operation {found}, not at {expected}: read it again", found = .found.sequence, expected = .expected.sequence)]
    StaleHead {
        /// The head that was seen.
        expected: Box<Head>,
        /// The head there is.
        found: Box<Head>,
    },
    /// The key belongs to another operation. Make a key of your own.
    #[error("the key `{key}` belongs to another operation")]
    KeyReused {
        /// The key.
        key: OperationKey,
    },
    /// The change depends on an item that does not exist. Leave it out.
    #[error("`{item}` does not exist")]
    Unknown {
        /// The item.
        item: ItemId,
    },
    /// The item was forgotten. Leave it so.
    #[error("`{item}` was forgotten and stays so")]
    Forgotten {
        /// The item.
        item: ItemId,
    },
    /// The actor may not do this. Ask the owner.
    #[error("{actor} may not {change} `{item}`: {reason}")]
    Denied {
        /// Who tried.
        actor: &'static str,
        /// What.
        change: &'static str,
        /// The item.
        item: ItemId,
        /// Why not.
        reason: &'static str,
    },
    /// The item's state does not allow the change, or already is its outcome.
    #[error("`{item}` was left as it is")]
    Refused {
        /// The item.
        item: ItemId,
        /// The rule.
        #[source]
        source: ItemError,
    },
    /// The event is no longer held under that lease: somebody else has it, or it is done. Leave it to them.
    #[error("event {event} is not held under lease {token}")]
    LeaseLost {
        /// The event.
        event: u64,
        /// The lease that was shown.
        token: u64,
    },
    /// The store below failed. See there.
    #[error("the item store failed")]
    Store(#[source] StoreError),
}

/// A result of the ledger.
pub type LedgerResult<T> = Result<T, LedgerError>;

fn number(revision: Option<Revision>) -> u32 {
    revision.map_or(0, Revision::get)
}

impl From<StoreError> for LedgerError {
    /// Takes a ledger's error out of the store's again that carried it through a transaction.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Engine { action, source } => match source.downcast::<Self>() {
                Ok(inner) => *inner,
                Err(source) => Self::Store(StoreError::Engine { action, source }),
            },
            error => Self::Store(error),
        }
    }
}

impl From<LedgerError> for StoreError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Store(error) => error,
            error => Self::engine("change items", error),
        }
    }
}

/// Where the ledger ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the last operation, 0 when there is none.
    pub sequence: u64,
    /// Its hash.
    pub hash: String,
}

impl Head {
    /// Returns the head of an empty ledger.
    pub fn genesis() -> Self {
        Self {
            sequence: 0,
            hash: "0".repeat(64),
        }
    }
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its key.
    pub key: OperationKey,
    /// The item.
    pub item: ItemId,
    /// The revision it made.
    pub revision: Revision,
    /// Its place in the ledger.
    pub head: Head,
    /// When it was written. Never earlier than the one before it.
    pub at: Timestamp,
    /// Whether it had been written before, so that nothing changed now.
    pub replayed: bool,
}

/// One operation as the next one is chained to it.
#[derive(Clone, Debug, Serialize)]
pub struct Link<'a> {
    /// Its number, from 1 without gaps.
    pub sequence: u64,
    /// Hash of the operation before it.
    pub previous: &'a str,
    /// Its key.
    pub key: &'a str,
    /// Name of the change.
    pub change: &'a str,
    /// The item.
    pub item: &'a str,
    /// The revision it made.
    pub revision: u32,
    /// Kind of the actor.
    pub actor: &'a str,
    /// Name of the actor.
    pub actor_name: &'a str,
    /// When it was written.
    pub at: Timestamp,
    /// Salted digest of what was asked for.
    pub request: &'a str,
    /// Salted digest of the revision it made.
    pub result: &'a str,
}

impl Link<'_> {
    /// Returns the hash that the next operation is chained to.
    pub fn hash(&self) -> String {
        digest("", self)
    }
}

/// Returns the salted digest of a value.
///
/// # Panics
///
/// If the value has no JSON form, such as a map whose keys are no text. None of an operation's or item's parts is one.
pub fn digest(salt: &str, value: &impl Serialize) -> String {
    let json = serde_json::to_string(value)
        .expect("plain structures with text keys always have a JSON form");
    sha::hex(&[salt, &json], 32)
}

/// One thing that is wrong with a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerFault {
    /// Number of the operation where it shows.
    pub sequence: u64,
    /// What is wrong.
    pub reason: String,
}

/// What checking a whole ledger found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerCheck {
    /// How many operations were read.
    pub operations: u64,
    /// What is wrong, in order; empty for a sound ledger.
    pub faults: Vec<LedgerFault>,
}

/// Returns the state that an operation makes of an item, or why it must not be written.
///
/// `current` is the item as it is and `other` the second item that the change names. Every store calls this inside its
/// transaction, after it found that the key is new.
pub fn apply(
    operation: &Operation,
    actor: &Actor,
    at: Timestamp,
    current: Option<&ItemState>,
    other: Option<&ItemState>,
) -> LedgerResult<ItemState> {
    let found = current.map(ItemState::revision);
    let adds = matches!(operation.change, Change::Add(_));
    if operation.expected != found || adds != found.is_none() {
        return Err(LedgerError::StaleRevision {
            item: operation.item.clone(),
            expected: operation.expected,
            found,
        });
    }
    let current = match current {
        Some(ItemState::Forgotten(_)) => {
            return Err(LedgerError::Forgotten {
                item: operation.item.clone(),
            });
        }
        Some(ItemState::Live(item)) => Some(item),
        None => None,
    };
    permit(operation, actor, current)?;
    let next = change(operation, actor, at, current, other)?;
    check_citations(operation, &next)?;
    Ok(next)
}

fn change(
    operation: &Operation,
    actor: &Actor,
    at: Timestamp,
    current: Option<&Item>,
    other: Option<&ItemState>,
) -> LedgerResult<ItemState> {
    let refused = |source| LedgerError::Refused {
        item: operation.item.clone(),
        source,
    };
    let Some(item) = current else {
        let Change::Add(new) = &operation.change else {
            return Err(LedgerError::Unknown {
                item: operation.item.clone(),
            });
        };
        let item = Item::learnt(operation.item.clone(), new, at).map_err(refused)?;
        return Ok(ItemState::Live(item));
    };
    let second = || match other {
        Some(ItemState::Live(other)) => Ok(other),
        Some(ItemState::Forgotten(tombstone)) => Err(LedgerError::Forgotten {
            item: tombstone.id.clone(),
        }),
        None => Err(LedgerError::Unknown {
            item: operation.change.other().unwrap_or(&operation.item).clone(),
        }),
    };
    let next = match &operation.change {
        Change::Add(_) => Err(ItemError::NothingNew { change: "add" }),
        Change::Process(by) => item.processed(by, at),
        Change::Block { reason } => item.blocked(reason),
        Change::Promote => item.promoted(),
        Change::Corroborate { evidence } => item.corroborated(evidence, at),
        Change::Supersede { .. } => item.superseded(second()?, at),
        Change::Shadow { .. } => item.shadowing(second()?),
        Change::Archive => item.archived(),
        Change::Restore => item.restored(at),
        Change::Expire => item.expired(at),
        Change::Forget { reason } => {
            return item
                .forgotten(*reason, at)
                .map(ItemState::Forgotten)
                .map_err(refused);
        }
        Change::Correct {
            claim,
            origin,
            authority,
            evidence,
            valid,
        } => item.corrected(
            &Correction {
                claim,
                origin: *origin,
                authority: *authority,
                evidence,
                valid: *valid,
                by_owner: matches!(actor, Actor::Owner(_)),
            },
            at,
        ),
        Change::Endorse => item.endorsed(),
        Change::Distrust => item.distrusted(),
        Change::Cite => item.cited(),
    };
    next.map(ItemState::Live).map_err(refused)
}

/// Returns an error unless the actor may make the change.
fn permit(operation: &Operation, actor: &Actor, current: Option<&Item>) -> LedgerResult<()> {
    let reason = match (actor, &operation.change) {
        (Actor::Owner(_), _) | (Actor::Paired(_), Change::Corroborate { .. }) => None,
        (Actor::Paired(_), Change::Add(new)) if new.authority == Authority::Paired => None,
        (Actor::Paired(_), Change::Add(_)) => {
            Some("a paired person speaks with their own authority")
        }
        (Actor::Paired(_), _) => Some("a paired person may only add and corroborate"),
        (Actor::System(_), Change::Endorse) => Some("only the owner raises trust"),
        (Actor::System(_), Change::Correct { .. } | Change::Forget { .. })
            if current.is_some_and(Item::is_stated) =>
        {
            Some("nothing automatic rewrites or drops what a person said")
        }
        (
            Actor::System(_),
            Change::Forget {
                reason: ForgetReason::Owner,
            },
        ) => Some("the owner did not ask for it"),
        (Actor::System(_), _) => None,
    };
    match reason {
        None => Ok(()),
        Some(reason) => Err(LedgerError::Denied {
            actor: actor.kind(),
            change: operation.change.name(),
            item: operation.item.clone(),
            reason,
        }),
    }
}

fn check_citations(operation: &Operation, next: &ItemState) -> LedgerResult<()> {
    let fits = |citation: &Citation, item: &Item| {
        let on_page = citation
            .section
            .as_ref()
            .is_none_or(|section| section.slug == citation.page);
        let known = citation
            .evidence
            .as_ref()
            .is_none_or(|evidence| item.evidence.contains_key(evidence));
        on_page && known
    };
    let Some(citations) = &operation.citations else {
        return Ok(());
    };
    let fits = match next {
        ItemState::Live(item) => citations.iter().all(|citation| fits(citation, item)),
        ItemState::Forgotten(_) => citations.is_empty(),
    };
    if fits {
        Ok(())
    } else {
        Err(LedgerError::Refused {
            item: operation.item.clone(),
            source: ItemError::illegal(
                "a citation names a section of its page and evidence of its item, or none",
            ),
        })
    }
}
