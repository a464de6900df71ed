//! The entries that a run takes on: which ones, verbatim, and what is known of each.
//!
//! They are chosen by where they stand, the oldest first, and never by what their times say: a backlog may have been
//! captured within one minute, or span a year that its times do not name. An entry is known by its id from here on, so
//! what is appended meanwhile has nothing to do with the run.

use std::collections::BTreeMap;

use memory_core::item::{Item, ItemId, ItemState, Processing};
use memory_core::provenance::{Authority, Channel, Origin, Trust};
use memory_core::store::StoreResult;
use memory_core::text::buffer;
use rusqlite::Connection;

use super::check::shortened;
use crate::entries::content_of;
use crate::state::{items, remembered};

/// One entry of the buffer.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its id, without a mark.
    pub(super) id: String,
    /// Its bytes, as they stand in the file.
    pub(super) bytes: Vec<u8>,
    /// What it says.
    pub(super) content: String,
    /// The day it was captured, as `YYYY-MM-DD`; empty when it does not say.
    pub(super) day: String,
    /// Where it belongs.
    pub(super) channel: Channel,
    /// How far it is trusted.
    pub(super) trust: Trust,
    /// How it got here.
    pub(super) origin: Origin,
    /// With whose authority.
    pub(super) authority: Authority,
    /// Its item, when it has one that still says something.
    pub(super) item: Option<Item>,
}

/// An entry that stays in the buffer, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: String,
    pub(super) why: &'static str,
}

/// What a run takes on.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    /// The entries, oldest first.
    pub(super) entries: Vec<Entry>,
    /// Entries that cannot be filed as they are.
    pub(super) held: Vec<Held>,
    /// How many more there are, for the next run.
    pub(super) deferred: usize,
}

impl Batch {
    /// Takes the first entries of a buffer, at most so many.
    pub(super) fn take(
        connection: &Connection,
        buffer: &[u8],
        most: Option<usize>,
    ) -> StoreResult<Self> {
        let mut places: BTreeMap<String, Vec<std::ops::Range<usize>>> = BTreeMap::new();
        let mut order = Vec::new();
        for (id, range) in buffer::entries_in(buffer) {
            let known = places.entry(id.clone()).or_default();
            if known.is_empty() {
                order.push(id);
            }
            known.push(range);
        }
        let mut batch = Self::default();
        for id in order {
            let ranges = &places[&id];
            let bytes = &buffer[ranges[0].clone()];
            let why = if ranges.iter().any(|range| buffer[range.clone()] != *bytes) {
                Some("two entries that differ have this id; give one of them none")
            } else if std::str::from_utf8(bytes).is_err() {
                Some("it is not valid UTF-8")
            } else if content_of(bytes).is_empty() {
                Some("it says nothing")
            } else {
                None
            };
            if let Some(why) = why {
                batch.held.push(Held { id, why });
                continue;
            }
            match entry(connection, id, bytes)? {
                Ok(_) if most.is_some_and(|most| batch.entries.len() >= most) => {
                    batch.deferred += 1;
                }
                Ok(entry) => batch.entries.push(entry),
                Err(held) => batch.held.push(held),
            }
        }
        let text = String::from_utf8_lossy(buffer);
        for group in buffer::split(&text) {
            let is_unmarked = group
                .opening
                .as_ref()
                .is_some_and(|opening| opening.id.is_none());
            if is_unmarked {
                batch.held.push(Held {
                    id: shortened(group.content().lines().next().unwrap_or_default()),
                    why: "it has no mark, so it cannot be followed; `strata remember` gives one",
                });
            }
        }
        Ok(batch)
    }
}

/// Returns what is known of an entry, or why it stays where it is.
fn entry(connection: &Connection, id: String, bytes: &[u8]) -> StoreResult<Result<Entry, Held>> {
    let record = remembered::of(connection, &id)?;
    let item = match ItemId::minted(&id) {
        Ok(item) => items::current(connection, &item)?,
        Err(_) => None,
    };
    let item = match item {
        Some(ItemState::Forgotten(_)) => {
            let why = "it was forgotten; delete it from the buffer or write it anew";
            return Ok(Err(Held { id, why }));
        }
        Some(ItemState::Live(item)) => Some(item),
        None => None,
    };
    if let Some(item) = &item
        && matches!(item.processing, Processing::Blocked { .. })
    {
        let why = "it cannot be processed";
        return Ok(Err(Held { id, why }));
    }
    let day = day_of(bytes).or_else(|| record.as_ref().map(|record| record.day.clone()));
    let source = record.map(|record| record.source);
    let (channel, trust, origin, authority) = match (&item, source) {
        (Some(item), _) => (
            item.channel.clone(),
            item.trust,
            item.origin,
            item.authority,
        ),
        (None, Some(source)) => (
            source.channel,
            source.trust,
            source.origin,
            source.authority,
        ),
        (None, None) if is_ours(&id) => {
            let why = "nothing is known of how it came in; delete its mark and write it anew";
            return Ok(Err(Held { id, why }));
        }
        // What nobody recorded is the owner's own writing in the owner's file.
        (None, None) => (
            Channel::Global,
            Trust::Trusted,
            Origin::UserFile,
            Authority::Owner,
        ),
    };
    Ok(Ok(Entry {
        content: content_of(bytes),
        bytes: bytes.to_vec(),
        day: day.unwrap_or_default(),
        id,
        channel,
        trust,
        origin,
        authority,
        item,
    }))
}

/// Returns whether an id has the form of those that we give.
fn is_ours(id: &str) -> bool {
    const DIGITS: usize = 32;
    let digits = id.chars().filter(char::is_ascii_hexdigit).count();
    digits == DIGITS && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

/// Returns the day of an entry's own time, when that names one.
fn day_of(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    match buffer::parse_opening(text.lines().next()?)?.stamp {
        buffer::Stamp::Civil(stamp) => stamp.get(..10).map(str::to_owned),
        buffer::Stamp::Yearless(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use memory_core::env::ManualClock;

    use super::*;
    use crate::state::SqliteState;

    fn take(buffer: &str, most: Option<usize>) -> Batch {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("state.db");
        let state = SqliteState::open(&path, &ManualClock::default()).expect("open");
        state
            .read_blocking(|connection| Batch::take(connection, buffer.as_bytes(), most))
            .expect("taken")
    }

    fn ids(batch: &Batch) -> Vec<&str> {
        batch
            .entries
            .iter()
            .map(|entry| entry.id.as_str())
            .collect()
    }

    #[test]
    fn entries_are_taken_by_where_they_stand() {
        // All within one minute, and the last one older than the first.
        let buffer = "mine\n- [2026-11-30 14:05] a ^m-1\n  more\n\nprose\n- [2026-11-30 14:05] b ^m-2\n- [Jan 3, 9:05 AM] no id\n- [2025-01-01 00:00] c ^m-3\n";
        let batch = take(buffer, Some(2));
        assert_eq!((ids(&batch), batch.deferred), (vec!["1", "2"], 1));
        let first = &batch.entries[0];
        assert_eq!(first.bytes, b"- [2026-11-30 14:05] a ^m-1\n  more\n");
        assert_eq!(
            (first.content.as_str(), first.day.as_str(), first.trust),
            ("a\nmore", "2026-11-30", Trust::Trusted)
        );
        assert_eq!(ids(&take(buffer, None)), ["1", "2", "3"]);
        assert!(take("", None).entries.is_empty());
    }

    #[test]
    fn what_we_gave_an_id_and_know_nothing_of_is_not_taken_for_the_owners() {
        let buffer = "- [2026-11-30 14:05] strange ^m-0199d3c0-7a1b-7c3d-8e4f-0123456789ab\n";
        let batch = take(buffer, None);
        assert!(batch.entries.is_empty());
        assert_eq!(batch.held.len(), 1);
    }

    #[test]
    fn what_stands_twice_is_one_entry_or_stays() {
        let same = "- [2026-11-30 14:05] a ^m-1\n- [2026-11-30 14:05] a ^m-1\n";
        assert_eq!(ids(&take(same, None)), ["1"]);
        let other = "- [2026-11-30 14:05] a ^m-1\n- [2026-11-30 14:05] b ^m-1\n";
        let batch = take(other, None);
        assert!(batch.entries.is_empty());
        assert_eq!(batch.held[0].id, "1");
    }
}
