//! Which items somebody is shown, at which of the two times.
//!
//! The rules are a pure function, so that they can be read, and tested against every store's own query. Whatever is
//! missing or doubtful hides an item: no authority sees nothing, and an item that lost its trust later is not shown for
//! the time when it still had it.

use std::collections::BTreeSet;

use super::{Item, ItemId, Layer, Processing, Status};
use crate::provenance::{Authority, Channel, Origin, Trust};
use crate::time::Timestamp;

/// What will read the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumer {
    /// The list that a person looks at. It shows what waits for processing, and the owner what is not trusted.
    Listing,
    /// The newest notes of the static block: the owner's own words at once, everything else when it is processed.
    Buffer,
    /// An agent, a prompt or an answer.
    Agent,
    /// What builds indexes and graphs. It takes every channel and keeps trust and times beside each row.
    Index,
}

/// What is asked of the items, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemQuery {
    /// With whose authority. None gets nothing.
    pub requester: Authority,
    /// Channels that may be read. The owner reads the global one too; a paired person only these without it.
    pub channels: Vec<Channel>,
    /// What will read the answer.
    pub consumer: Consumer,
    /// Event time to answer for; `None` means now.
    pub as_of: Option<Timestamp>,
    /// Ingestion time to answer for; `None` means now.
    pub known_at: Option<Timestamp>,
    /// The present.
    pub now: Timestamp,
    /// Whether the archive is asked for. Only the owner gets it.
    pub archived: bool,
    /// Only these items; empty for all.
    pub only: Vec<ItemId>,
    /// Only items of this claim hash.
    pub claim_hash: Option<String>,
    /// At most so many, the last learnt first.
    pub limit: u32,
}

/// Which channels a requester may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readable {
    /// None.
    Nothing,
    /// These.
    Channels(BTreeSet<Channel>),
    /// All of them.
    Everything,
}

impl Readable {
    /// Returns whether a channel is among them.
    #[must_use]
    pub fn includes(&self, channel: &Channel) -> bool {
        match self {
            Self::Nothing => false,
            Self::Channels(channels) => channels.contains(channel),
            Self::Everything => true,
        }
    }
}

impl ItemQuery {
    /// Returns the query of somebody who wants to read what is so now.
    pub fn new(requester: Authority, consumer: Consumer, now: Timestamp) -> Self {
        Self {
            requester,
            channels: Vec::new(),
            consumer,
            as_of: None,
            known_at: None,
            now,
            archived: false,
            only: Vec::new(),
            claim_hash: None,
            limit: u32::MAX,
        }
    }

    /// Returns which channels may be read.
    pub fn readable(&self) -> Readable {
        let named = self.channels.iter().cloned();
        match (self.requester, self.consumer) {
            (Authority::None, _) | (Authority::Paired, Consumer::Index) => Readable::Nothing,
            (Authority::Owner, Consumer::Index) => Readable::Everything,
            (Authority::Owner, _) => Readable::Channels(named.chain([Channel::Global]).collect()),
            (Authority::Paired, _) => {
                let shared: BTreeSet<Channel> = named
                    .filter(|channel| *channel != Channel::Global)
                    .collect();
                if shared.is_empty() {
                    Readable::Nothing
                } else {
                    Readable::Channels(shared)
                }
            }
        }
    }

    /// Returns the event time that items must hold at; `None` when a reader takes the future too.
    pub fn event_time(&self) -> Option<Timestamp> {
        match self.consumer {
            Consumer::Index => None,
            Consumer::Listing => self.as_of,
            Consumer::Buffer | Consumer::Agent => Some(self.as_of.unwrap_or(self.now)),
        }
    }

    /// Returns whether items that are not trusted are shown.
    pub fn shows_untrusted(&self) -> bool {
        match self.consumer {
            Consumer::Index => true,
            Consumer::Listing => self.requester == Authority::Owner,
            Consumer::Buffer | Consumer::Agent => false,
        }
    }

    /// Returns whether the archive is shown.
    pub fn shows_archive(&self) -> bool {
        self.archived && self.requester == Authority::Owner && self.consumer != Consumer::Index
    }

    /// Returns whether a shadowed item is left out.
    pub fn hides_shadowed(&self) -> bool {
        matches!(self.consumer, Consumer::Buffer | Consumer::Agent)
    }

    /// Returns whether a revision is shown, shadows aside. `trust_now` is the trust of the item's newest revision.
    pub fn shows(&self, item: &Item, trust_now: Trust) -> bool {
        let readable = self.readable().includes(&item.channel);
        let processed = match item.processing {
            Processing::Processed { .. } => true,
            Processing::Blocked { .. } => false,
            Processing::Pending => match self.consumer {
                Consumer::Listing => true,
                Consumer::Buffer => {
                    item.origin == Origin::UserDirect && item.authority == Authority::Owner
                }
                Consumer::Agent | Consumer::Index => false,
            },
        };
        let counts = match (&item.status, self.event_time()) {
            (Status::Expired { .. }, _) | (Status::Superseded { .. }, None) => false,
            (Status::Active, None) => true,
            (Status::Active | Status::Superseded { .. }, Some(at)) => item.valid.contains(at),
        };
        let named = self.only.is_empty() || self.only.contains(&item.id);
        let same_claim = self
            .claim_hash
            .as_ref()
            .is_none_or(|hash| *hash == item.claim.claim_hash());
        readable
            && processed
            && counts
            && named
            && same_claim
            && (self.shows_untrusted() || item.trust.lowest(trust_now) == Trust::Trusted)
            && (self.shows_archive() || !matches!(item.layer, Layer::Archive { .. }))
    }
}
