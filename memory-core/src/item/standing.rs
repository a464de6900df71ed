//! How far an item has come: its layer, what processing made of it, whether it still counts, and when it held.
//!
//! Each value carries what it requires and nothing else, so a short-term item without an expiry or a processed one
//! without a receipt cannot be written down.

use serde::{Deserialize, Serialize};

use super::{ItemError, ItemId, Revision};
use crate::time::Timestamp;

/// How far an item has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Layer {
    /// Just learnt. A decision about it is due when it expires.
    ShortTerm {
        /// When the decision is due.
        expires_at: Timestamp,
    },
    /// Kept for good.
    LongTerm,
    /// Kept, but shown only to whoever asks for the archive.
    Archive {
        /// Where it came from, and would go back to.
        from: ServedLayer,
    },
}

/// The name of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerName {
    /// Just learnt.
    ShortTerm,
    /// Kept for good.
    LongTerm,
    /// Put away.
    Archive,
}

/// A layer that is read without asking for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServedLayer {
    /// Just learnt.
    ShortTerm,
    /// Kept for good.
    LongTerm,
}

impl Layer {
    /// Returns its name.
    pub const fn name(self) -> LayerName {
        match self {
            Self::ShortTerm { .. } => LayerName::ShortTerm,
            Self::LongTerm => LayerName::LongTerm,
            Self::Archive { .. } => LayerName::Archive,
        }
    }

    /// Returns when a decision is due, for a short-term item.
    pub const fn expires_at(self) -> Option<Timestamp> {
        match self {
            Self::ShortTerm { expires_at } => Some(expires_at),
            Self::LongTerm | Self::Archive { .. } => None,
        }
    }
}

impl LayerName {
    /// Returns the name as it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ShortTerm => "short_term",
            Self::LongTerm => "long_term",
            Self::Archive => "archive",
        }
    }
}

/// What processing made of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Processing {
    /// It waits. No agent, index or graph sees it.
    Pending,
    /// It became one self-contained claim.
    Processed {
        /// The proof.
        receipt: Receipt,
    },
    /// It cannot be processed until somebody corrects it.
    Blocked {
        /// Why.
        reason: String,
    },
}

impl Processing {
    /// Returns the name as it is stored.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processed { .. } => "processed",
            Self::Blocked { .. } => "blocked",
        }
    }
}

/// The proof that a processor turned one text into another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// Which processor.
    pub processor: String,
    /// Which version of it.
    pub version: String,
    /// When.
    pub at: Timestamp,
    /// Digest of the text that went in.
    pub input_hash: String,
    /// Digest of the text that came out.
    pub output_hash: String,
    /// The revision that went in.
    pub input_revision: Revision,
    /// The revision that came out.
    pub output_revision: Revision,
}

/// Whether an item still counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Status {
    /// It counts.
    Active,
    /// Another one took its place.
    Superseded {
        /// Which one.
        by: ItemId,
        /// When that was learnt.
        at: Timestamp,
        /// The end that its interval had before, for the case that it comes back.
        reopens: Option<Timestamp>,
    },
    /// Its time ran out and somebody decided to let it go.
    Expired {
        /// When that was decided.
        at: Timestamp,
    },
}

impl Status {
    /// Returns the name as it is stored.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Superseded { .. } => "superseded",
            Self::Expired { .. } => "expired",
        }
    }
}

/// Why an item was forgotten. A code and no text, because text could repeat what must be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForgetReason {
    /// The owner asked for it.
    Owner,
    /// What it rested on is gone.
    SourceDeleted,
    /// Everything is being erased.
    Erased,
}

/// When a claim was so: half open, and open on a side that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Bounds", into = "Bounds")]
pub struct Interval(Bounds);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Bounds {
    from: Option<Timestamp>,
    to: Option<Timestamp>,
}

impl Interval {
    /// Returns the interval between two instants. An empty one means "never".
    pub fn new(from: Option<Timestamp>, to: Option<Timestamp>) -> Result<Self, ItemError> {
        match (from, to) {
            (Some(from), Some(to)) if from > to => Err(ItemError::illegal(format!(
                "it would end at {to}, before it begins at {from}"
            ))),
            _ => Ok(Self(Bounds { from, to })),
        }
    }

    /// Returns its beginning; `None` when unknown.
    pub const fn from(self) -> Option<Timestamp> {
        self.0.from
    }

    /// Returns its end; `None` while it holds.
    pub const fn to(self) -> Option<Timestamp> {
        self.0.to
    }

    /// Returns whether it held at an instant.
    pub fn contains(self, at: Timestamp) -> bool {
        self.0.from.is_none_or(|from| from <= at) && self.0.to.is_none_or(|to| at < to)
    }

    /// Returns the same interval, ended at an instant if it did not end earlier.
    #[must_use]
    pub fn closed(self, at: Timestamp) -> Self {
        let end = self.0.to.map_or(at, |to| to.min(at));
        let end = self.0.from.map_or(end, |from| from.max(end));
        Self(Bounds {
            from: self.0.from,
            to: Some(end),
        })
    }

    /// Returns the same beginning with another end.
    pub(super) fn ending(self, to: Option<Timestamp>) -> Result<Self, ItemError> {
        Self::new(self.0.from, to)
    }
}

impl TryFrom<Bounds> for Interval {
    type Error = ItemError;

    fn try_from(bounds: Bounds) -> Result<Self, ItemError> {
        Self::new(bounds.from, bounds.to)
    }
}

impl From<Interval> for Bounds {
    fn from(interval: Interval) -> Self {
        interval.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn an_interval_is_half_open_and_closes_only_earlier() {
        let open = Interval::new(Some(at(10)), None).unwrap();
        assert!(!open.contains(at(9)) && open.contains(at(10)) && open.contains(at(i64::MAX)));
        let closed = open.closed(at(20));
        assert!(closed.contains(at(19)) && !closed.contains(at(20)));
        assert_eq!(closed.closed(at(30)), closed);
        let never = open.closed(at(5));
        assert_eq!((never.from(), never.to()), (Some(at(10)), Some(at(10))));
        assert!(!never.contains(at(10)));
        Interval::new(Some(at(2)), Some(at(1))).unwrap_err();
        serde_json::from_str::<Interval>(r#"{"from":2,"to":1}"#).unwrap_err();
    }
}
