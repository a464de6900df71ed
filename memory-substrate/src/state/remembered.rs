//! What is known of each entry of the intake besides its text.
//!
//! A row is committed together with the operation that brings the entry into its files, so there is never an entry of
//! which nobody knows who said it. It outlives the entry: should its text turn up again, it is still known whose it is.

use std::collections::HashSet;

use memory_core::item::{Consumer, ItemId, ItemQuery, Readable};
use memory_core::provenance::{Authority, Channel, Origin, Trust};
use memory_core::store::StoreResult;
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::items;
use super::runs;
use super::sql::{Named, sql};

/// What is kept of where an entry came from.
#[derive(Clone, Debug)]
pub(crate) struct EntrySource {
    /// Where it belongs.
    pub(crate) channel: Channel,
    /// How it got here.
    pub(crate) origin: Origin,
    /// With whose authority.
    pub(crate) authority: Authority,
    /// What that makes of it.
    pub(crate) trust: Trust,
    /// When it was said.
    pub(crate) at: Timestamp,
}

/// An entry that an operation brings in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry<'a> {
    /// Its identifier.
    pub(crate) id: &'a str,
    /// Names its content and speaker.
    pub(crate) hash: &'a str,
    /// The day it belongs to, which names its archive file.
    pub(crate) day: &'a str,
    /// The operation.
    pub(crate) operation: &'a str,
}

/// Adds an entry.
pub(crate) fn add(
    connection: &Connection,
    entry: NewEntry<'_>,
    source: &EntrySource,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO remembered (id, hash, channel, origin, authority, trust, at, day, op) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                entry.id,
                entry.hash,
                source.channel.to_string(),
                Named(source.origin),
                Named(source.authority),
                Named(source.trust),
                source.at.as_millis(),
                entry.day,
                entry.operation,
            ])
        })
        .map(drop)
        .map_err(sql("record an entry"))
}

/// Returns whether anything is known of an entry.
pub(crate) fn is_known(connection: &Connection, id: &str) -> StoreResult<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM remembered WHERE id = ?1)")
        .and_then(|mut statement| statement.query_row([id], |row| row.get(0)))
        .map_err(sql("look for an entry"))
}

/// An entry that was found by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownEntry {
    /// Its identifier.
    pub(crate) id: String,
    /// Whether it is not known to be in its files.
    pub(crate) is_pending: bool,
}

/// Returns the newest entry of this hash.
pub(crate) fn newest_of(connection: &Connection, hash: &str) -> StoreResult<Option<KnownEntry>> {
    connection
        .prepare_cached(
            "SELECT id, EXISTS (SELECT 1 FROM op WHERE op.id = remembered.op AND op.state = 'intent') \
             FROM remembered WHERE hash = ?1 ORDER BY seq DESC LIMIT 1",
        )
        .and_then(|mut statement| {
            let known = |row: &Row<'_>| {
                Ok(KnownEntry {
                    id: row.get(0)?,
                    is_pending: row.get(1)?,
                })
            };
            statement.query_row([hash], known).optional()
        })
        .map_err(sql("look for an entry"))
}

/// What is known of one entry.
#[derive(Clone, Debug)]
pub(crate) struct EntryRecord {
    /// Names its content and speaker; empty when nobody knows it any more.
    pub(crate) hash: String,
    /// The day it belongs to.
    pub(crate) day: String,
    /// Where it came from.
    pub(crate) source: EntrySource,
}

/// Returns what is known of an entry.
pub(crate) fn of(connection: &Connection, id: &str) -> StoreResult<Option<EntryRecord>> {
    connection
        .prepare_cached(
            "SELECT hash, day, channel, origin, authority, trust, at FROM remembered WHERE id = ?1",
        )
        .and_then(|mut statement| {
            let record = |row: &Row<'_>| {
                Ok(EntryRecord {
                    hash: row.get(0)?,
                    day: row.get(1)?,
                    source: EntrySource {
                        channel: row.get::<_, Named<Channel>>(2)?.0,
                        origin: row.get::<_, Named<Origin>>(3)?.0,
                        authority: row.get::<_, Named<Authority>>(4)?.0,
                        trust: row.get::<_, Named<Trust>>(5)?.0,
                        at: Timestamp::from_millis(row.get(6)?),
                    },
                })
            };
            statement.query_row([id], record).optional()
        })
        .map_err(sql("look for an entry"))
}

/// Forgets what an entry said, so that saying it again is a new entry. No digest of it stays either, by which a guess
/// could be checked: neither its own nor that of the request it came with.
pub(crate) fn forget(connection: &Connection, id: &str) -> StoreResult<()> {
    for statement in [
        "UPDATE op SET request = '' WHERE id = (SELECT op FROM remembered WHERE id = ?1)",
        "UPDATE remembered SET hash = '' WHERE id = ?1",
    ] {
        connection
            .prepare_cached(statement)
            .and_then(|mut statement| statement.execute([id]))
            .map_err(sql("forget an entry"))?;
    }
    runs::forget_entry(connection, id)
}

/// Who looks at the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferReader {
    /// With whose authority.
    pub requester: Authority,
    /// Channels that may be read. The owner reads the global one too, a paired person only these.
    pub channels: Vec<Channel>,
    /// The present.
    pub now: Timestamp,
}

/// Returns those of some entries that must not be shown to a reader.
///
/// An entry is shown as its item is: the owner's own words at once, anything else when it is processed and trusted, in
/// channels that may be read. Of what has no item the record decides by the same rules, and what has neither is a
/// person's own writing in the owner's file.
pub(crate) fn withheld(
    connection: &Connection,
    reader: &BufferReader,
    ids: &HashSet<String>,
) -> StoreResult<HashSet<String>> {
    let query = ItemQuery {
        channels: reader.channels.clone(),
        only: ids
            .iter()
            .filter_map(|id| ItemId::minted(id).ok())
            .collect(),
        ..ItemQuery::new(reader.requester, Consumer::Buffer, reader.now)
    };
    let shown: HashSet<ItemId> = if query.only.is_empty() {
        HashSet::new()
    } else {
        let items = items::matching(connection, &query)?;
        items.into_iter().map(|item| item.id.clone()).collect()
    };
    let mut withheld = HashSet::new();
    for id in ids {
        let item = ItemId::minted(id).ok();
        if item.as_ref().is_some_and(|item| shown.contains(item)) {
            continue;
        }
        let has_item = match &item {
            Some(item) => items::current(connection, item)?.is_some(),
            None => false,
        };
        let is_shown = !has_item
            && match of(connection, id)? {
                Some(record) => is_shown(&record.source, &query.readable()),
                None => reader.requester == Authority::Owner,
            };
        if !is_shown {
            withheld.insert(id.clone());
        }
    }
    Ok(withheld)
}

/// Returns whether an entry without an item is shown: what was never processed shows only if the owner said it.
fn is_shown(source: &EntrySource, readable: &Readable) -> bool {
    readable.includes(&source.channel)
        && source.trust == Trust::Trusted
        && source.origin == Origin::UserDirect
        && source.authority == Authority::Owner
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use memory_core::env::ManualClock;
    use memory_core::item::{
        Actor, Change, Claim, Commit, Evidence, EvidenceId, Interval, NewItem, Operation,
        OperationKey, Processed, Revision,
    };
    use memory_core::provenance::trust_of;
    use memory_core::store::StoreError;

    use super::*;
    use crate::state::SqliteState;

    const NOW: Timestamp = Timestamp::from_millis(5);

    struct Place {
        _folder: tempfile::TempDir,
        state: SqliteState,
    }

    fn place() -> Place {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("state.db");
        let state = SqliteState::open(&path, &ManualClock::default()).expect("open");
        Place {
            _folder: folder,
            state,
        }
    }

    fn source(origin: Origin, authority: Authority, channel: &str) -> EntrySource {
        EntrySource {
            channel: Channel::parse(channel),
            origin,
            authority,
            trust: trust_of(origin, authority).expect("it can be").trust,
            at: NOW,
        }
    }

    impl Place {
        fn record(&self, id: &str, source: &EntrySource) {
            let entry = NewEntry {
                id,
                hash: id,
                day: "2026-11-30",
                operation: id,
            };
            let added = self
                .state
                .write_blocking(|transaction| add(transaction, entry, source));
            added.expect("added");
        }

        fn learn(&self, id: &str, source: &EntrySource, processed: bool) {
            let evidence = EvidenceId::parse("turn1").expect("an id");
            let piece = Evidence {
                source: "turn 1".to_owned(),
                trust: source.trust,
            };
            let claim = Claim::new(id).expect("a claim");
            let operation = |key: &str, expected, change| Operation {
                key: OperationKey::parse(&format!("{key}:{id}")).expect("a key"),
                item: ItemId::minted(id).expect("an id"),
                expected,
                change,
                citations: None,
            };
            let add = Change::Add(NewItem {
                claim: claim.clone(),
                channel: source.channel.clone(),
                origin: source.origin,
                authority: source.authority,
                valid: Interval::default(),
                evidence: BTreeMap::from([(evidence, piece)]),
            });
            let process = Change::Process(Processed {
                claim,
                processor: "rules".to_owned(),
                version: "1".to_owned(),
            });
            let mut operations = vec![operation("add", None, add)];
            if processed {
                operations.push(operation("process", Revision::new(1), process));
            }
            let commit = Commit {
                actor: Actor::System("test".to_owned()),
                at: NOW,
                expected_head: None,
                operations,
            };
            let learnt = self.state.write_blocking(|transaction| {
                items::ledger::commit(transaction, &commit).map_err(StoreError::from)
            });
            learnt.expect("learnt");
        }

        fn shows(&self, id: &str, requester: Authority, channels: &[&str]) -> bool {
            let reader = BufferReader {
                requester,
                channels: channels.iter().map(|name| Channel::parse(name)).collect(),
                now: NOW,
            };
            let ids = HashSet::from([id.to_owned()]);
            let withheld = self.state.withheld_entries(&reader, &ids).expect("read");
            withheld.is_empty()
        }
    }

    /// Origin, authority, channel, whether it was processed; then who sees it: the owner, the owner in ada's channel, a
    /// paired person in ada's channel, a paired person without a channel, nobody known.
    #[test]
    fn who_sees_which_entry() {
        use Authority::{None as Nobody, Owner, Paired};
        use Origin::{AssistantInferred, Import, ToolOutput, UserDirect, UserFile};
        let rows: &[(Origin, Authority, &str, bool, [bool; 5])] = &[
            (
                UserDirect,
                Owner,
                "_global",
                false,
                [true, true, false, false, false],
            ),
            (
                UserDirect,
                Owner,
                "_global",
                true,
                [true, true, false, false, false],
            ),
            (
                UserDirect,
                Owner,
                "ada",
                false,
                [false, true, true, false, false],
            ),
            (
                UserDirect,
                Owner,
                "bo",
                true,
                [false, false, false, false, false],
            ),
            (
                UserDirect,
                Owner,
                "_project_atlas",
                true,
                [false, false, false, false, false],
            ),
            (
                UserDirect,
                Paired,
                "ada",
                false,
                [false, false, false, false, false],
            ),
            (
                UserDirect,
                Paired,
                "ada",
                true,
                [false, true, true, false, false],
            ),
            (
                UserFile,
                Owner,
                "_global",
                false,
                [false, false, false, false, false],
            ),
            (
                UserFile,
                Owner,
                "_global",
                true,
                [true, true, false, false, false],
            ),
            (
                AssistantInferred,
                Owner,
                "_global",
                false,
                [false, false, false, false, false],
            ),
            (
                AssistantInferred,
                Owner,
                "_global",
                true,
                [true, true, false, false, false],
            ),
            (
                ToolOutput,
                Owner,
                "_global",
                false,
                [false, false, false, false, false],
            ),
            (
                ToolOutput,
                Owner,
                "_global",
                true,
                [false, false, false, false, false],
            ),
            (
                Import,
                Owner,
                "ada",
                true,
                [false, false, false, false, false],
            ),
        ];
        let place = place();
        for (number, (origin, authority, channel, processed, expected)) in rows.iter().enumerate() {
            let source = source(*origin, *authority, channel);
            let (with_item, without) = (format!("i{number}"), format!("r{number}"));
            place.record(&with_item, &source);
            place.learn(&with_item, &source, *processed);
            place.record(&without, &source);
            let readers: [(Authority, &[&str]); 5] = [
                (Owner, &[]),
                (Owner, &["ada"]),
                (Paired, &["ada"]),
                (Paired, &[]),
                (Nobody, &["ada", "bo"]),
            ];
            for ((requester, channels), expected) in readers.into_iter().zip(expected) {
                let row = format!(
                    "{origin:?} {authority:?} {channel} {processed}: {requester:?} {channels:?}"
                );
                assert_eq!(
                    place.shows(&with_item, requester, channels),
                    *expected,
                    "{row}"
                );
                // What was never processed and has no item shows no more than what waits for it.
                if !processed {
                    assert_eq!(
                        place.shows(&without, requester, channels),
                        *expected,
                        "without an item: {row}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_nobody_knows_anything_of_is_the_owners_own_writing() {
        let place = place();
        for id in ["unknown", "Typed-By-Hand"] {
            assert!(place.shows(id, Authority::Owner, &[]));
            assert!(!place.shows(id, Authority::Paired, &["ada"]));
            assert!(!place.shows(id, Authority::None, &[]));
        }
    }

    #[test]
    fn a_forgotten_entry_that_turns_up_again_shows_to_nobody() {
        let place = place();
        let source = source(Origin::UserDirect, Authority::Owner, "_global");
        place.record("i1", &source);
        place.learn("i1", &source, false);
        assert!(place.shows("i1", Authority::Owner, &[]));
        let forget = Commit {
            actor: Actor::Owner("test".to_owned()),
            at: NOW,
            expected_head: None,
            operations: vec![Operation {
                key: OperationKey::parse("forget").expect("a key"),
                item: ItemId::minted("i1").expect("an id"),
                expected: Revision::new(1),
                change: Change::Forget {
                    reason: memory_core::item::ForgetReason::Owner,
                },
                citations: None,
            }],
        };
        place
            .state
            .write_blocking(|transaction| {
                items::ledger::commit(transaction, &forget).map_err(StoreError::from)?;
                super::forget(transaction, "i1")
            })
            .expect("forgotten");
        assert!(!place.shows("i1", Authority::Owner, &[]));
    }
}
