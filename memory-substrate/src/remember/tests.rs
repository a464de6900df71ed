//! Tests of the intake.

use std::collections::{BTreeSet, HashSet};

use memory_core::env::{CountingIds, Fs as _, ManualClock};
use memory_core::item::{Consumer, Item, ItemId, ItemQuery, ItemState, Processing};
use memory_core::store::ItemStore as _;
use proptest::prelude::*;

use super::*;
use crate::fs::RealFs;
use crate::state::{SqliteState, ops};
use crate::workspace::AssistantId;
use crate::writer::{Writer, testing};

/// 2026-11-30 23:30 in UTC, already December in Tokyo.
const NOW: Timestamp = Timestamp::from_millis(1_796_081_400_000);

struct Place {
    _home: tempfile::TempDir,
    workspace: Workspace,
    writer: Writer,
    rememberer: Rememberer,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let id = AssistantId::new("kiwi").expect("a good name");
        let workspace = Workspace::create(home.path(), &id, "", Arc::new(RealFs)).expect("create");
        let writer = open(&workspace);
        Self {
            _home: home,
            workspace,
            rememberer: writer.rememberer(),
            writer,
        }
    }

    fn settle(&self) {
        self.writer.settle().expect("settled");
    }

    /// Returns how many changes are acknowledged and not noted as applied.
    fn unapplied(&self) -> usize {
        let unapplied = self.writer.state().read_blocking(ops::unapplied);
        unapplied
            .expect("read")
            .iter()
            .map(|operation| operation.parts.len())
            .sum()
    }

    async fn remember(&self, texts: &[&str]) -> RememberReceipt {
        self.rememberer
            .remember(input(texts), "Asia/Tokyo")
            .await
            .expect("remembered")
    }

    async fn forget(&self, id: &str) -> SubstrateResult<ForgetReceipt> {
        self.rememberer.forget(id, owner()).await
    }

    /// Returns every live item.
    async fn items(&self) -> Vec<Item> {
        let query = ItemQuery {
            channels: vec![
                Channel::User("ada".to_owned()),
                Channel::User("bo".to_owned()),
            ],
            ..ItemQuery::new(Authority::Owner, Consumer::Listing, NOW)
        };
        self.writer.state().items(query).await.expect("read")
    }

    async fn item(&self, entry: &str) -> Option<ItemState> {
        let id = ItemId::minted(entry).expect("an id");
        self.writer.state().item_state(&id).await.expect("read")
    }

    async fn check_ledger(&self) {
        let check = self.writer.state().verify_ledger().await.expect("read");
        assert_eq!(check.faults, []);
    }

    fn buffer(&self) -> String {
        read_text_or_empty(&RealFs, &self.workspace.buffer_path()).expect("read")
    }

    fn archive(&self) -> String {
        read_text_or_empty(&RealFs, &self.workspace.archive_dir().join("2026-12-01.md"))
            .expect("read")
    }
}

fn open(workspace: &Workspace) -> Writer {
    let lock = workspace.lock("test").expect("nobody else writes");
    let (clock, ids) = (ManualClock::at(NOW), CountingIds::new("i"));
    Writer::open(workspace, lock, Arc::new(clock), Arc::new(ids)).expect("open")
}

fn input(texts: &[&str]) -> RememberInput {
    RememberInput {
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    }
}

fn owner() -> WriteContext {
    WriteContext::new("test", Origin::UserDirect, Authority::Owner)
}

fn entry(id: &str, duplicate: bool) -> Remembered {
    Remembered {
        id: id.to_owned(),
        duplicate,
    }
}

const FIRST: &str = "- [2026-12-01 08:30] likes kiwis ^m-i000001\n";
const SECOND: &str =
    "- [2026-12-01 08:30] two lines ^m-i000002\n  - [2026-01-01 00:00] not an entry\n";

#[tokio::test]
async fn entries_stand_in_the_buffer_and_the_days_archive() {
    let place = Place::new();
    let receipt = place
        .remember(&[
            "  likes kiwis ",
            "",
            "two lines\n- [2026-01-01 00:00] not an entry",
        ])
        .await;
    assert_eq!(
        receipt.entries,
        [entry("i000001", false), entry("i000002", false)]
    );
    place.settle();
    assert_eq!(place.buffer(), format!("{FIRST}{SECOND}"));
    assert_eq!(place.archive(), format!("# 2026-12-01\n\n{FIRST}{SECOND}"));
    place.remember(&["more"]).await;
    place.settle();
    assert_eq!(place.archive().matches("# 2026-12-01").count(), 1);
    assert_eq!(place.unapplied(), 0);
}

#[tokio::test]
async fn the_same_again_is_the_same_entry() {
    let place = Place::new();
    for _ in 0..10 {
        place.remember(&["likes kiwis"]).await;
    }
    assert_eq!(
        place
            .remember(&["likes kiwis\n", "likes kiwis"])
            .await
            .entries,
        vec![entry("i000001", true); 2]
    );
    place.settle();
    assert_eq!(place.buffer(), FIRST);
    assert_eq!(place.archive(), format!("# 2026-12-01\n\n{FIRST}"));
    let elsewhere = RememberInput {
        channel: Channel::User("ada".to_owned()),
        ..input(&["likes kiwis"])
    };
    let receipt = place
        .rememberer
        .remember(elsewhere, "Asia/Tokyo")
        .await
        .expect("remembered");
    assert_eq!(receipt.entries, [entry("i000002", false)]);
}

#[tokio::test]
async fn what_left_the_buffer_may_be_said_anew() {
    let place = Place::new();
    place.remember(&["likes kiwis"]).await;
    place.settle();
    std::fs::write(place.workspace.buffer_path(), "").expect("consumed");
    assert_eq!(
        place.remember(&["likes kiwis"]).await.entries,
        [entry("i000002", false)]
    );
}

#[tokio::test]
async fn nothing_and_nobody_are_refused() {
    let place = Place::new();
    let nobody = RememberInput {
        authority: Authority::None,
        ..input(&["x"])
    };
    for bad in [input(&[]), input(&["", " \n\t"]), nobody] {
        let refused = place.rememberer.remember(bad, "UTC").await;
        assert!(
            matches!(refused, Err(SubstrateError::Refused { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(place.buffer(), "");
}

/// An assistant whose writer was killed right after the commit.
fn killed_after_commit() -> (tempfile::TempDir, Workspace) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let id = AssistantId::new("kiwi").expect("a good name");
    let workspace = Workspace::create(home.path(), &id, "", Arc::new(RealFs)).expect("create");
    let clock = ManualClock::at(NOW);
    let state = SqliteState::open(&workspace.state_path(), &clock).expect("open");
    let entries = Entries {
        source: source_of(&input(&[]), NOW).expect("permitted"),
        texts: vec!["likes kiwis".to_owned()],
        standing: HashSet::new(),
        day: "2026-12-01".to_owned(),
        stamp: "2026-12-01 08:30".to_owned(),
        buffer: "memory/buffer.md".to_owned(),
        archive: "memory/archive".to_owned(),
        keyed: false,
        actor: "test".to_owned(),
        session: None,
        ids: Arc::new(CountingIds::new("i")),
    };
    let request = Request {
        kind: OperationKind::Remember,
        context: WriteContext::host(),
        hash: "hash".to_owned(),
        at: NOW,
    };
    state
        .write_blocking(|transaction| {
            let plan = entries.plan(transaction)?;
            ops::add(transaction, &request, 1, plan, "[]").map(drop)
        })
        .expect("the commit that acknowledges");
    (home, workspace)
}

#[test]
fn a_committed_entry_is_applied_whatever_the_files_have() {
    for kept in [0, 3, 25, 40, FIRST.len() - 1, FIRST.len()] {
        let (_home, workspace) = killed_after_commit();
        if kept > 0 {
            RealFs
                .append(&workspace.buffer_path(), &FIRST.as_bytes()[..kept])
                .expect("a torn append");
        }
        drop(open(&workspace));
        let read = |path: &std::path::Path| read_text_or_empty(&RealFs, path).expect("read");
        let buffer = read(&workspace.buffer_path());
        assert_eq!(buffer.matches(FIRST).count(), 1, "{kept}");
        let archive = workspace.archive_dir().join("2026-12-01.md");
        assert_eq!(read(&archive), format!("# 2026-12-01\n\n{FIRST}"), "{kept}");
        let again = open(&workspace);
        assert_eq!(
            again.state().read_blocking(ops::unapplied).expect("read"),
            []
        );
        assert_eq!(read(&workspace.buffer_path()), buffer);
    }
}

#[test]
fn an_entry_that_was_taken_out_before_the_crash_stays_out() {
    let (_home, workspace) = killed_after_commit();
    let archive = workspace.archive_dir().join("2026-12-01.md");
    RealFs
        .append(&archive, format!("# 2026-12-01\n\n{FIRST}").as_bytes())
        .expect("the archive comes after the buffer");
    drop(open(&workspace));
    assert!(!workspace.buffer_path().exists());
}

#[tokio::test]
async fn text_is_safe_and_seen_when_its_files_cannot_be_written() {
    let place = Place::new();
    std::fs::remove_dir_all(place.workspace.archive_dir()).expect("remove");
    std::fs::write(place.workspace.archive_dir(), "in the way").expect("write");
    place.remember(&["likes kiwis"]).await;
    place.settle();
    assert_eq!((place.buffer().as_str(), place.unapplied()), (FIRST, 1));
    assert_eq!(
        place.remember(&["likes kiwis"]).await.entries,
        [entry("i000001", true)]
    );
    std::fs::remove_file(place.workspace.archive_dir()).expect("remove");
    place.settle();
    assert_eq!((place.buffer().as_str(), place.unapplied()), (FIRST, 0));
    assert_eq!(place.archive(), format!("# 2026-12-01\n\n{FIRST}"));
}

#[tokio::test]
async fn a_request_is_kept_once_under_its_key() {
    let place = Place::new();
    let keyed = || WriteContext::new("test", Origin::UserDirect, Authority::Owner).with_key("k1");
    let ask = |text: &str| place.rememberer.remember_as(input(&[text]), "UTC", keyed());
    let first = ask("likes kiwis").await.expect("remembered").entries;
    place.settle();
    std::fs::write(place.workspace.buffer_path(), "").expect("consumed");
    assert_eq!(ask("likes kiwis").await.expect("answered").entries, first);
    place.settle();
    assert_eq!(place.buffer(), "");
    let other = ask("something else").await;
    assert!(
        matches!(
            other,
            Err(SubstrateError::Store(StoreError::BadRequest { .. }))
        ),
        "{other:?}"
    );
}

#[test]
fn a_reader_sees_what_a_killed_writer_had_acknowledged() {
    let (_home, workspace) = killed_after_commit();
    let state = Arc::new(SqliteState::open_read_only(&workspace.state_path()).expect("open"));
    let overlay = crate::oplog::OverlayFs::stored(
        workspace.root().to_owned(),
        Arc::new(RealFs),
        Arc::clone(&state),
    );
    let read = |path: &std::path::Path| read_text_or_empty(&overlay, path).expect("read");
    let archive = workspace.archive_dir().join("2026-12-01.md");
    for _ in 0..2 {
        assert_eq!(read(&workspace.buffer_path()), FIRST);
        assert_eq!(read(&archive), format!("# 2026-12-01\n\n{FIRST}"));
        let names: Vec<String> = overlay
            .list(&workspace.archive_dir())
            .expect("list")
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert_eq!(names, ["2026-12-01.md"]);
        // The second time a writer has applied it.
        drop(open(&workspace));
    }
    assert!(
        state
            .read_blocking(ops::unapplied)
            .expect("read")
            .is_empty()
    );
}

#[tokio::test]
async fn many_at_once_lose_nothing() {
    let place = Place::new();
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let rememberer = place.rememberer.clone();
            tokio::spawn(async move {
                rememberer
                    .remember(input(&[&format!("fact {number}")]), "UTC")
                    .await
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic").expect("remembered");
    }
    place.settle();
    assert_eq!(ids_of(&place.buffer()).len(), 20);
    let archive = place.workspace.archive_dir().join("2026-11-30.md");
    let archive = read_text_or_empty(&RealFs, &archive).expect("read");
    assert_eq!(archive.matches(" ^m-").count(), 20);
}

#[tokio::test]
async fn ten_times_the_same_is_one_entry_and_one_item() {
    let place = Place::new();
    for round in 0..10 {
        let receipt = place.remember(&["likes kiwis"]).await;
        assert_eq!(receipt.entries, [entry("i000001", round > 0)]);
    }
    let [item] = &place.items().await[..] else {
        panic!("{:?}", place.items().await)
    };
    assert_eq!(
        (item.id.as_str(), item.claim.as_str()),
        ("mem_i000001", "likes kiwis")
    );
    assert_eq!(
        (item.origin, item.authority, item.trust),
        (Origin::UserDirect, Authority::Owner, Trust::Trusted)
    );
    assert_eq!(
        (&item.channel, &item.processing, item.learnt),
        (&Channel::Global, &Processing::Pending, NOW)
    );
    assert_eq!(
        item.evidence.len(),
        0,
        "a person's word rests on nothing else"
    );
    place.check_ledger().await;
}

#[tokio::test]
async fn what_no_person_said_rests_on_where_it_came_from() {
    let place = Place::new();
    for (origin, authority, trust) in [
        (Origin::UserFile, Authority::Owner, Trust::Trusted),
        (Origin::UserDirect, Authority::Paired, Trust::Trusted),
        (Origin::AssistantInferred, Authority::Owner, Trust::Trusted),
        (Origin::ToolOutput, Authority::Owner, Trust::Untrusted),
        (Origin::OtherAgent, Authority::Paired, Trust::Untrusted),
    ] {
        let input = RememberInput {
            origin,
            authority,
            channel: Channel::User("ada".to_owned()),
            ..input(&[&format!("{origin:?} {authority:?}")])
        };
        let context = WriteContext::new("bridge", origin, authority).in_session("s1");
        let receipt = place
            .rememberer
            .remember_as(input, "UTC", context)
            .await
            .expect("remembered");
        let state = place.item(&receipt.entries[0].id).await.expect("there");
        let item = state.live().expect("live");
        assert_eq!(
            (item.origin, item.authority, item.trust),
            (origin, authority, trust)
        );
        let sources: Vec<&str> = item
            .evidence
            .values()
            .map(|piece| piece.source.as_str())
            .collect();
        let expected: &[&str] = if item.is_stated() {
            &[]
        } else {
            &["session s1"]
        };
        assert_eq!(sources, expected);
    }
    place.check_ledger().await;
}

#[tokio::test]
async fn the_same_moment_is_stored_alike_whatever_the_zone_and_dated_in_it() {
    let mut stored = BTreeSet::new();
    let mut dated = Vec::new();
    for zone in ["UTC", "America/Los_Angeles", "Asia/Kolkata", "Pacific/Apia"] {
        let place = Place::new();
        place
            .rememberer
            .remember(input(&["likes kiwis"]), zone)
            .await
            .expect("remembered");
        place.settle();
        let item = place.items().await.remove(0);
        stored.insert((
            item.learnt.as_millis(),
            item.claim.as_str().to_owned(),
            item.id.to_string(),
        ));
        dated.push(place.buffer()[3..13].to_owned());
    }
    assert_eq!(stored.len(), 1, "{stored:?}");
    assert_eq!(
        dated,
        ["2026-11-30", "2026-11-30", "2026-12-01", "2026-12-01"]
    );
}

/// Returns every byte that is kept below a folder, the database's log included.
fn kept_bytes(folder: &std::path::Path) -> Vec<u8> {
    testing::tree(&RealFs, folder)
        .into_values()
        .flatten()
        .collect()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn a_secret_is_kept_nowhere_and_its_owner_is_told() {
    let place = Place::new();
    let token = ["AK", "IA", "Q7WZ2LMN4RTK9PXV"].concat();
    let texts = [
        format!("my production database password is `hunter2` and the key is {token}"),
        "no\u{200B}thing to see".to_owned(),
    ];
    let keyed = owner().with_key("k1");
    let request = RememberInput {
        texts: texts.to_vec(),
        ..input(&[])
    };
    let receipt = place
        .rememberer
        .remember_as(request.clone(), "UTC", keyed.clone())
        .await
        .expect("remembered");
    let told: Vec<String> = receipt.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "redacted: aws access key",
            "redacted: password",
            "removed: zero-width characters"
        ]
    );
    let again = place
        .rememberer
        .remember_as(request, "UTC", keyed)
        .await
        .expect("answered");
    assert_eq!(
        (again.entries, again.findings),
        (receipt.entries, receipt.findings)
    );
    place.settle();
    let buffer = place.buffer();
    assert!(
        buffer.contains(
            "password is `[redacted: password]` and the key is [redacted: aws access key] ^m-"
        ) && buffer.contains("] nothing to see ^m-"),
        "{buffer}"
    );
    let note = crate::spool::SpooledNote {
        input: RememberInput {
            texts: texts.to_vec(),
            ..input(&[])
        },
        zone: "UTC".to_owned(),
        actor: "hook".to_owned(),
        session: None,
        at: NOW,
        key: None,
    };
    crate::spool::leave(&place.workspace, "n1", &note).expect("left");
    let bytes = kept_bytes(place.workspace.root());
    assert!(
        contains(&bytes, "[redacted: aws access key]"),
        "the files were read"
    );
    for secret in ["hunter2", &token] {
        assert!(!contains(&bytes, secret), "`{secret}` was kept");
    }
    let nothing = place
        .rememberer
        .remember(input(&["\u{200B}\u{202E}"]), "UTC")
        .await;
    assert!(
        matches!(nothing, Err(SubstrateError::Refused { .. })),
        "{nothing:?}"
    );
}

#[tokio::test]
async fn a_note_may_be_long_but_not_without_end() {
    let place = Place::new();
    let long = "kiwi ".repeat(4_000);
    place.remember(&[&long]).await;
    assert_eq!(place.items().await[0].claim.as_str(), long.trim());
    let refused = place
        .rememberer
        .remember(input(&[&"x".repeat(MAX_CLAIM_CHARACTERS + 1)]), "UTC")
        .await;
    assert!(
        matches!(&refused, Err(SubstrateError::Refused { reason }) if reason.contains("ingest it")),
        "{refused:?}"
    );
    let misnamed = RememberInput {
        channel: Channel::User("_global".to_owned()),
        ..input(&["x"])
    };
    let refused = place.rememberer.remember(misnamed, "UTC").await;
    assert!(
        matches!(refused, Err(SubstrateError::Refused { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn forgetting_takes_one_entry_and_its_item_and_says_from_where() {
    let place = Place::new();
    place
        .remember(&["likes kiwis", "uniquetoken\nand more", "likes plums"])
        .await;
    place.settle();
    let before = place.buffer();
    let receipt = place.forget("^m-i000002").await.expect("forgotten");
    assert_eq!(
        receipt,
        ForgetReceipt {
            id: "i000002".to_owned(),
            operation: receipt.operation.clone(),
            entry_removed: true,
            item_forgotten: true,
            archive: Some("memory/archive/2026-12-01.md".to_owned()),
            cited_by: Vec::new(),
            edited_meanwhile: false,
        }
    );
    assert!(!receipt.operation.is_empty());
    let lines: Vec<&str> = before.split_inclusive('\n').skip(1).take(2).collect();
    let entry = lines.concat();
    assert_eq!(place.buffer(), before.replace(&entry, ""));
    assert!(
        place.archive().contains("uniquetoken"),
        "it is the record of what was said"
    );
    assert!(matches!(
        place.item("i000002").await,
        Some(ItemState::Forgotten(_))
    ));
    assert_eq!(place.items().await.len(), 2);
    place.check_ledger().await;

    // Nothing but the archive has it: no table, no log of the database, no old version.
    std::fs::remove_dir_all(place.workspace.archive_dir()).expect("set aside");
    let Place {
        workspace,
        writer,
        rememberer,
        _home: home,
    } = place;
    drop((writer, rememberer));
    // Whoever comes next waits for the last handle and leaves nothing in the log.
    drop(open(&workspace));
    assert!(!contains(&kept_bytes(workspace.root()), "uniquetoken"));
    drop(home);
}

#[tokio::test]
async fn forgetting_again_does_nothing_and_saying_it_again_is_new() {
    let place = Place::new();
    place.remember(&["likes kiwis"]).await;
    place.forget("i000001").await.expect("forgotten");
    let again = place.forget("mem_i000001").await.expect("known");
    assert!(again.was_forgotten(), "{again:?}");
    assert_eq!(
        again.archive.as_deref(),
        Some("memory/archive/2026-12-01.md")
    );
    let receipt = place.remember(&["likes kiwis"]).await;
    assert!(
        !receipt.entries[0].duplicate && receipt.entries[0].id != "i000001",
        "{receipt:?}"
    );
    place.settle();
    assert_eq!(ids_of(&place.buffer()).len(), 1);
    assert_eq!(place.items().await.len(), 1);
    place.check_ledger().await;
}

#[tokio::test]
async fn what_is_not_known_cannot_be_forgotten() {
    let place = Place::new();
    place.remember(&["likes kiwis"]).await;
    place.settle();
    let before = (place.buffer(), place.archive());
    let unknown = place.forget("i999999").await;
    assert!(
        matches!(
            unknown,
            Err(SubstrateError::Store(StoreError::NotFound { .. }))
        ),
        "{unknown:?}"
    );
    let long = "x".repeat(300);
    for hostile in [
        "",
        "../../etc/passwd",
        "a/../../b",
        "%2e%2e/",
        "C:\\x",
        "\\\\srv\\x",
        "i1\n- [x]",
        "a b",
        "é",
        "^m-",
        "mem_",
        &long,
    ] {
        let refused = place.forget(hostile).await;
        assert!(
            matches!(
                refused,
                Err(SubstrateError::Store(StoreError::BadRequest { .. }))
            ),
            "{hostile}: {refused:?}"
        );
    }
    let paired = WriteContext::new("test", Origin::UserDirect, Authority::Paired);
    let refused = place.rememberer.forget("i000001", paired).await;
    assert!(
        matches!(refused, Err(SubstrateError::Refused { .. })),
        "{refused:?}"
    );
    assert_eq!((place.buffer(), place.archive()), before);
    assert_eq!(place.items().await.len(), 1);
}

#[tokio::test]
async fn an_entry_that_its_owner_edited_is_left_alone_with_its_item() {
    let place = Place::new();
    place.remember(&["likes kiwis"]).await;
    place.settle();
    let edited = place.buffer().replace("kiwis", "green kiwis");
    std::fs::write(place.workspace.buffer_path(), &edited).expect("edited");
    let refused = place.forget("i000001").await;
    let Err(SubstrateError::Store(error @ StoreError::Conflict { .. })) = refused else {
        panic!("{refused:?}")
    };
    assert!(error.to_string().contains("edited"), "{error}");
    assert_eq!(place.buffer(), edited);
    assert_eq!(place.items().await.len(), 1);
    // What its owner deleted by hand is gone from there; the item can still be forgotten.
    std::fs::write(place.workspace.buffer_path(), "my own line\n").expect("edited");
    let receipt = place.forget("i000001").await.expect("forgotten");
    assert_eq!(
        (receipt.entry_removed, receipt.item_forgotten),
        (false, true)
    );
    assert_eq!(place.buffer(), "my own line\n");
}

#[tokio::test]
async fn one_persons_notes_go_and_anothers_stay() {
    let place = Place::new();
    let say = |name: &str, text: &str| {
        let input = RememberInput {
            channel: Channel::User(name.to_owned()),
            ..input(&[text])
        };
        place.rememberer.remember(input, "UTC")
    };
    let ada = say("ada", "likes pizza").await.expect("remembered").entries;
    say("bo", "likes pasta").await.expect("remembered");
    say("bo", "likes pizza").await.expect("remembered");
    for entry in ada {
        place.forget(&entry.id).await.expect("forgotten");
    }
    place.settle();
    let left: Vec<(String, String)> = place
        .items()
        .await
        .iter()
        .map(|item| (item.channel.to_string(), item.claim.as_str().to_owned()))
        .collect();
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|(channel, _)| channel == "bo"), "{left:?}");
    assert!(place.buffer().contains("likes pasta") && place.buffer().contains("likes pizza"));
}

#[tokio::test]
async fn entries_that_are_older_than_items_get_theirs_at_the_next_start() {
    let place = Place::new();
    place.remember(&["likes kiwis", "likes plums"]).await;
    place.forget("i000002").await.expect("forgotten");
    place.settle();
    let Place {
        _home: home,
        workspace,
        writer,
        rememberer,
    } = place;
    writer
        .state()
        .write_blocking(|transaction| {
            transaction
                .execute_batch(
                    "DELETE FROM item_outbox; DELETE FROM item_revisions; DELETE FROM item_operations;
                     UPDATE item_head SET sequence = 0, at = 0,
                         hash = '0000000000000000000000000000000000000000000000000000000000000000'",
                )
                .map_err(|error| StoreError::engine("make it old", error))
        })
        .expect("written");
    drop((writer, rememberer));
    let edited = read_text_or_empty(&RealFs, &workspace.buffer_path()).expect("read");
    std::fs::write(
        workspace.buffer_path(),
        format!("{edited}- [2026-11-30 10:00] a person's own ^m-Mine\n"),
    )
    .expect("edited");
    for _ in 0..2 {
        let writer = open(&workspace);
        let place = Place {
            _home: tempfile::tempdir().expect("unused"),
            workspace: workspace.clone(),
            rememberer: writer.rememberer(),
            writer,
        };
        let items = place.items().await;
        let claims: Vec<&str> = items.iter().map(|item| item.claim.as_str()).collect();
        assert_eq!(claims, ["likes kiwis"]);
        place.check_ledger().await;
    }
    drop(home);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is remembered and forgotten, the rest of the buffer is what it was.
    #[test]
    fn remembering_and_forgetting_restores_the_buffer(
        before in "(prose é\n|- \\[2026-11-30 10:00\\] x \\^m-mine\n(  more\n)?|\n|\r\n){0,4}",
        texts in prop::collection::vec("[a-z\n -]{0,30}[a-z]", 1..4),
        order in any::<prop::sample::Index>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let place = Place::new();
        std::fs::write(place.workspace.buffer_path(), &before).expect("written");
        runtime.block_on(async {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let receipt = place.remember(&texts).await;
            place.settle();
            let mut ids: Vec<String> = receipt.entries.into_iter().filter(|entry| !entry.duplicate).map(|entry| entry.id).collect();
            let first = order.index(ids.len());
            ids.rotate_left(first);
            for id in ids {
                assert!(place.forget(&id).await.expect("forgotten").entry_removed);
            }
            assert!(place.items().await.is_empty());
            place.check_ledger().await;
        });
        prop_assert_eq!(place.buffer(), before);
    }
}
