//! Tests of the intake.

use memory_core::env::{CountingIds, Fs as _, ManualClock};

use super::*;
use crate::fs::RealFs;
use crate::state::{SqliteState, ops};
use crate::workspace::AssistantId;
use crate::writer::Writer;

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
