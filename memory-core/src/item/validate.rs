//! The rules that every item obeys, whoever made it.
//!
//! The tables of a store repeat them as constraints, so that neither a bug nor a stray statement can write what these
//! rules refuse.

use super::{Interval, ItemError, ItemRecord, Layer, Processing, Receipt, Status};
use crate::provenance::{Authority, Channel, Origin, Trust, trust_of};

/// Returns an error unless the record is a legal item.
pub(super) fn check(record: &ItemRecord) -> Result<(), ItemError> {
    let broken = layer(record)
        .or_else(|| processing(record))
        .or_else(|| status(record))
        .or_else(|| provenance(record))
        .or_else(|| links(record));
    broken.map_or(Ok(()), |reason| Err(ItemError::illegal(reason)))
}

fn layer(record: &ItemRecord) -> Option<&'static str> {
    match record.layer {
        Layer::ShortTerm { expires_at } => {
            (expires_at <= record.learnt).then_some("it would expire before it was learnt")
        }
        Layer::LongTerm | Layer::Archive { .. } => {
            let processed = matches!(record.processing, Processing::Processed { .. });
            (!processed).then_some("what is not processed stays in the short term")
        }
    }
}

fn processing(record: &ItemRecord) -> Option<&'static str> {
    match &record.processing {
        Processing::Pending => None,
        Processing::Processed { receipt } => self::receipt(record, receipt),
        Processing::Blocked { reason } => reason
            .trim()
            .is_empty()
            .then_some("what is blocked has a reason"),
    }
}

fn receipt(record: &ItemRecord, receipt: &Receipt) -> Option<&'static str> {
    if receipt.processor.trim().is_empty() || receipt.version.trim().is_empty() {
        Some("its receipt names no processor")
    } else if receipt.input_hash.is_empty() || receipt.output_hash != record.claim.text_hash() {
        Some("its receipt is for another text")
    } else if receipt.input_revision.checked_add(1) != Some(receipt.output_revision)
        || receipt.output_revision > record.revision
    {
        Some("its receipt is for another revision")
    } else if receipt.at < record.learnt {
        Some("its receipt is older than the item")
    } else {
        None
    }
}

fn status(record: &ItemRecord) -> Option<&'static str> {
    match &record.status {
        Status::Active => None,
        Status::Superseded { by, at, reopens } => {
            let Some(end) = record.valid.to() else {
                return Some("what was superseded has an end");
            };
            if *by == record.id {
                Some("it cannot supersede itself")
            } else if *at < record.learnt {
                Some("it was superseded before it was learnt")
            } else if reopens.is_some_and(|reopens| reopens < end) {
                Some("it would come back with an earlier end than it has")
            } else if matches!(record.layer, Layer::Archive { .. }) {
                Some("what is archived is not superseded")
            } else {
                None
            }
        }
        Status::Expired { at } => {
            let Layer::ShortTerm { expires_at } = record.layer else {
                return Some("only the short term expires");
            };
            if !matches!(record.processing, Processing::Processed { .. }) {
                Some("what waits for processing does not expire")
            } else if *at < expires_at {
                Some("it expired before its time")
            } else {
                None
            }
        }
    }
}

fn provenance(record: &ItemRecord) -> Option<&'static str> {
    if Channel::parse(&record.channel.to_string()) != record.channel {
        return Some("its channel has no written form");
    }
    let Some(verdict) = trust_of(record.origin, record.authority) else {
        return Some("such text cannot come from such a speaker");
    };
    if record.authority == Authority::None || !verdict.beyond_evidence {
        return Some("what nobody known said stays evidence");
    }
    if record.trust == Trust::Trusted && !record.endorsed {
        if verdict.trust == Trust::Untrusted {
            return Some("only the owner makes such text trusted");
        }
        let rests_on_trust = record
            .evidence
            .values()
            .any(|piece| piece.trust == Trust::Trusted);
        if !record.evidence.is_empty() && !rests_on_trust {
            return Some("what rests on untrusted evidence alone is not trusted");
        }
    }
    None
}

fn links(record: &ItemRecord) -> Option<&'static str> {
    let stated = matches!(record.origin, Origin::UserDirect | Origin::UserFile);
    if record.evidence.is_empty() && !stated {
        Some("what no person stated needs evidence")
    } else if record
        .evidence
        .values()
        .any(|piece| piece.source.trim().is_empty())
    {
        Some("a piece of its evidence has no source")
    } else if record.shadows.contains(&record.id) {
        Some("it cannot shadow itself")
    } else if !record.shadows.is_empty() && record.channel == Channel::Global {
        Some("nothing is broader than the global channel")
    } else {
        None
    }
}

/// Returns whether a channel is a part of what another one covers, so that the one may only hide what the other says.
pub(super) fn is_narrower(narrow: &Channel, broad: &Channel) -> bool {
    const fn depth(channel: &Channel) -> u8 {
        match channel {
            Channel::Global => 0,
            Channel::User(_) | Channel::Project(_) | Channel::SelfAgent(_) => 1,
            Channel::Conversation(_) => 2,
        }
    }
    depth(narrow) > depth(broad)
}

/// Returns an interval that ends where another one begins, or at an instant if that is not known.
pub(super) fn ended_by(old: Interval, new: Interval, at: crate::time::Timestamp) -> Interval {
    old.closed(new.from().unwrap_or(at))
}
