//! The legal moves of an item, each from one revision to the next.
//!
//! A move never edits an item in place: it makes the record of the next revision and has it validated like any other,
//! so a move cannot reach a state that a constructor would refuse.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{NewItem, Processed};
use super::standing::{ForgetReason, Layer, Processing, Receipt, ServedLayer, Status};
use super::validate::{ended_by, is_narrower};
use super::{
    Claim, Evidence, EvidenceId, Interval, Item, ItemError, ItemId, ItemRecord,
    MAX_PROCESSED_CHARACTERS, Revision, SHORT_TERM_MS, Tombstone,
};
use crate::provenance::{Authority, Origin, Trust, trust_of};
use crate::time::Timestamp;

/// The words that replace an item's own, and who said them.
pub(super) struct Correction<'a> {
    pub(super) claim: &'a Claim,
    pub(super) origin: Origin,
    pub(super) authority: Authority,
    pub(super) evidence: &'a BTreeMap<EvidenceId, Evidence>,
    pub(super) valid: Option<Interval>,
    /// Whether the owner made it in person.
    pub(super) by_owner: bool,
}

impl Item {
    /// Returns a new short-term item that waits for processing.
    pub fn learnt(id: ItemId, new: &NewItem, at: Timestamp) -> Result<Self, ItemError> {
        Self::new(ItemRecord {
            id,
            revision: Revision::MIN,
            claim: new.claim.clone(),
            channel: new.channel.clone(),
            origin: new.origin,
            authority: new.authority,
            trust: initial_trust(new.origin, new.authority, &new.evidence),
            endorsed: false,
            valid: new.valid,
            learnt: at,
            layer: fresh(at),
            processing: Processing::Pending,
            status: Status::Active,
            evidence: new.evidence.clone(),
            shadows: BTreeSet::new(),
        })
    }

    /// Returns the item as a processor worded it, with the receipt for it.
    pub fn processed(&self, by: &Processed, at: Timestamp) -> Result<Self, ItemError> {
        self.require_active("process")?;
        if self.processing != Processing::Pending {
            return Err(self.not_allowed("process", "only what is pending is processed"));
        }
        if by.claim.as_str().chars().count() > MAX_PROCESSED_CHARACTERS {
            return Err(ItemError::illegal(format!(
                "a processed claim has at most {MAX_PROCESSED_CHARACTERS} characters"
            )));
        }
        let mut next = self.next()?;
        let receipt = Receipt {
            processor: by.processor.clone(),
            version: by.version.clone(),
            at,
            input_hash: self.claim.text_hash(),
            output_hash: by.claim.text_hash(),
            input_revision: self.revision,
            output_revision: next.revision,
        };
        next.claim = by.claim.clone();
        next.processing = Processing::Processed { receipt };
        Self::new(next)
    }

    /// Returns the item, set aside because it cannot be processed.
    pub fn blocked(&self, reason: &str) -> Result<Self, ItemError> {
        self.require_active("block")?;
        if self.processing != Processing::Pending {
            return Err(self.not_allowed("block", "only what is pending is blocked"));
        }
        let mut next = self.next()?;
        next.processing = Processing::Blocked {
            reason: reason.trim().to_owned(),
        };
        Self::new(next)
    }

    /// Returns the item in the long term.
    pub fn promoted(&self) -> Result<Self, ItemError> {
        self.require_active("promote")?;
        let Layer::ShortTerm { .. } = self.layer else {
            return Err(self.not_allowed("promote", "only the short term is promoted"));
        };
        self.require_processed("promote")?;
        let mut next = self.next()?;
        next.layer = Layer::LongTerm;
        Self::new(next)
    }

    /// Returns the item with evidence that it did not have. A short-term item lives on from here.
    pub fn corroborated(
        &self,
        evidence: &BTreeMap<EvidenceId, Evidence>,
        at: Timestamp,
    ) -> Result<Self, ItemError> {
        self.require_active("corroborate")?;
        let mut next = self.next()?;
        for (id, piece) in evidence {
            next.evidence
                .entry(id.clone())
                .or_insert_with(|| piece.clone());
        }
        if next.evidence.len() == self.evidence.len() {
            return Err(ItemError::NothingNew {
                change: "corroborate",
            });
        }
        if let Layer::ShortTerm { expires_at } = &mut next.layer {
            *expires_at = (*expires_at).max(at.plus_millis(SHORT_TERM_MS));
        }
        Self::new(next)
    }

    /// Returns the item after another one took its place: its interval ends where the other one's begins.
    pub fn superseded(&self, by: &Self, at: Timestamp) -> Result<Self, ItemError> {
        self.require_active("supersede")?;
        let reason = if matches!(self.layer, Layer::Archive { .. }) {
            "restore it first, what is archived is not superseded"
        } else if by.id == self.id {
            "it cannot supersede itself"
        } else if by.status != Status::Active || matches!(by.layer, Layer::Archive { .. }) {
            "only an active item takes its place"
        } else if !matches!(by.processing, Processing::Processed { .. }) {
            "only a processed item takes its place"
        } else if is_narrower(&by.channel, &self.channel) {
            "a narrower channel may only shadow it"
        } else if by.channel != self.channel && !is_narrower(&self.channel, &by.channel) {
            "the other one belongs to another channel"
        } else if by.trust < self.trust || weaker(by.authority, self.authority) {
            "the other one has less authority or trust"
        } else {
            let mut next = self.next()?;
            next.valid = ended_by(self.valid, by.valid, at);
            next.status = Status::Superseded {
                by: by.id.clone(),
                at,
                reopens: self.valid.to(),
            };
            return Self::new(next);
        };
        Err(self.not_allowed("supersede", reason))
    }

    /// Returns the item, hiding another one of a broader channel from whoever sees both.
    pub fn shadowing(&self, broad: &Self) -> Result<Self, ItemError> {
        self.require_active("shadow with")?;
        if !is_narrower(&self.channel, &broad.channel) {
            return Err(self.not_allowed("shadow with", "its channel is not the narrower one"));
        }
        let mut next = self.next()?;
        if !next.shadows.insert(broad.id.clone()) {
            return Err(ItemError::NothingNew { change: "shadow" });
        }
        Self::new(next)
    }

    /// Returns the item, put away.
    pub fn archived(&self) -> Result<Self, ItemError> {
        self.require_active("archive")?;
        let from = match self.layer {
            Layer::ShortTerm { .. } => ServedLayer::ShortTerm,
            Layer::LongTerm => ServedLayer::LongTerm,
            Layer::Archive { .. } => {
                return Err(ItemError::NothingNew { change: "archive" });
            }
        };
        self.require_processed("archive")?;
        let mut next = self.next()?;
        next.layer = Layer::Archive { from };
        Self::new(next)
    }

    /// Returns the item as it was before it was archived, superseded or expired.
    pub fn restored(&self, at: Timestamp) -> Result<Self, ItemError> {
        let mut next = self.next()?;
        match (&self.status, self.layer) {
            (Status::Active, Layer::Archive { from }) => {
                next.layer = match from {
                    ServedLayer::ShortTerm => fresh(at),
                    ServedLayer::LongTerm => Layer::LongTerm,
                };
            }
            (Status::Active, _) => return Err(ItemError::NothingNew { change: "restore" }),
            (Status::Superseded { reopens, .. }, _) => {
                next.valid = self.valid.ending(*reopens)?;
                next.status = Status::Active;
            }
            (Status::Expired { .. }, _) => {
                next.layer = fresh(at);
                next.status = Status::Active;
            }
        }
        Self::new(next)
    }

    /// Returns the item, let go because its time ran out.
    pub fn expired(&self, at: Timestamp) -> Result<Self, ItemError> {
        self.require_active("expire")?;
        let Layer::ShortTerm { expires_at } = self.layer else {
            return Err(self.not_allowed("expire", "only the short term expires"));
        };
        self.require_processed("expire")?;
        if at < expires_at {
            return Err(self.not_allowed("expire", "its time has not come"));
        }
        let mut next = self.next()?;
        next.status = Status::Expired { at };
        Self::new(next)
    }

    /// Returns what is left of the item when it is forgotten.
    pub fn forgotten(&self, reason: ForgetReason, at: Timestamp) -> Result<Tombstone, ItemError> {
        Ok(Tombstone {
            id: self.id.clone(),
            revision: self.next()?.revision,
            channel: self.channel.clone(),
            layer: self.layer.name(),
            learnt: self.learnt,
            forgotten_at: at,
            reason,
        })
    }

    /// Returns the item with other words. They wait for processing like any others.
    ///
    /// Trust falls to what the new words deserve and rises only if the owner spoke them.
    pub(super) fn corrected(
        &self,
        correction: &Correction<'_>,
        at: Timestamp,
    ) -> Result<Self, ItemError> {
        self.require_active("correct")?;
        if *correction.claim == self.claim
            && correction.valid.is_none_or(|valid| valid == self.valid)
        {
            return Err(ItemError::NothingNew { change: "correct" });
        }
        let mut next = self.next()?;
        next.claim = correction.claim.clone();
        next.origin = correction.origin;
        next.authority = correction.authority;
        next.valid = correction.valid.unwrap_or(self.valid);
        next.layer = fresh(at);
        next.processing = Processing::Pending;
        for (id, piece) in correction.evidence {
            next.evidence
                .entry(id.clone())
                .or_insert_with(|| piece.clone());
        }
        let deserved = initial_trust(correction.origin, correction.authority, correction.evidence);
        let spoken = correction.by_owner
            && correction.authority == Authority::Owner
            && matches!(correction.origin, Origin::UserDirect | Origin::UserFile);
        next.endorsed = spoken || (self.endorsed && deserved == Trust::Trusted);
        next.trust = if spoken {
            Trust::Trusted
        } else {
            deserved.lowest(self.trust)
        };
        Self::new(next)
    }

    /// Returns the item, trusted because the owner vouches for it.
    pub(super) fn endorsed(&self) -> Result<Self, ItemError> {
        if self.trust == Trust::Trusted {
            return Err(ItemError::NothingNew { change: "endorse" });
        }
        let mut next = self.next()?;
        next.trust = Trust::Trusted;
        next.endorsed = true;
        Self::new(next)
    }

    /// Returns the item, no longer trusted.
    pub fn distrusted(&self) -> Result<Self, ItemError> {
        if self.trust == Trust::Untrusted {
            return Err(ItemError::NothingNew { change: "distrust" });
        }
        let mut next = self.next()?;
        next.trust = Trust::Untrusted;
        next.endorsed = false;
        Self::new(next)
    }

    /// Returns the item unchanged, as its next revision: only its citations change.
    pub(super) fn cited(&self) -> Result<Self, ItemError> {
        Self::new(self.next()?)
    }

    fn next(&self) -> Result<ItemRecord, ItemError> {
        let mut record = ItemRecord::clone(self);
        record.revision = record
            .revision
            .checked_add(1)
            .ok_or_else(|| ItemError::illegal("it has no revision left"))?;
        Ok(record)
    }

    fn require_active(&self, change: &'static str) -> Result<(), ItemError> {
        if self.status == Status::Active {
            Ok(())
        } else {
            Err(self.not_allowed(change, "it must be active, restore it first"))
        }
    }

    fn require_processed(&self, change: &'static str) -> Result<(), ItemError> {
        match self.processing {
            Processing::Processed { .. } => Ok(()),
            Processing::Pending | Processing::Blocked { .. } => {
                Err(self.not_allowed(change, "it must be processed first"))
            }
        }
    }

    fn not_allowed(&self, change: &'static str, reason: &'static str) -> ItemError {
        ItemError::NotAllowed {
            change,
            state: self.state(),
            reason,
        }
    }
}

const fn fresh(at: Timestamp) -> Layer {
    Layer::ShortTerm {
        expires_at: at.plus_millis(SHORT_TERM_MS),
    }
}

/// Returns the trust of a claim: the lowest of what its speaker and its evidence deserve.
fn initial_trust(
    origin: Origin,
    authority: Authority,
    evidence: &BTreeMap<EvidenceId, Evidence>,
) -> Trust {
    let spoken = trust_of(origin, authority).map_or(Trust::Untrusted, |verdict| verdict.trust);
    evidence
        .values()
        .fold(spoken, |trust, piece| trust.lowest(piece.trust))
}

/// Returns whether the first speaker may not contradict the second.
fn weaker(speaker: Authority, contradicted: Authority) -> bool {
    const fn rank(authority: Authority) -> u8 {
        match authority {
            Authority::Owner => 2,
            Authority::Paired => 1,
            Authority::None => 0,
        }
    }
    rank(speaker) < rank(contradicted)
}
