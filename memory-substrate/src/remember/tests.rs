//! Tests of the intake.

use memory_core::env::{CountingIds, Fs as _, ManualClock};

use super::*;
use crate::fs::RealFs;
use crate::workspace::AssistantId;

/// 2026-11-30 23:30 in UTC, already December in Tokyo.
const NOW: Timestamp = Timestamp::from_millis(1_796_081_400_000);

struct Place {
    _home: tempfile::TempDir,
    workspace: Workspace,
    state: Arc<SqliteState>,
    rememberer: Rememberer,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let id = AssistantId::new("kiwi").expect("a good name");
        let workspace = Workspace::create(home.path(), &id, "", Arc::new(RealFs)).expect("create");
        let clock = Arc::new(ManualClock::at(NOW));
        let state =
            Arc::new(SqliteState::open(&workspace.state_path(), clock.as_ref()).expect("open"));
        let ids = Arc::new(CountingIds::new("i"));
        let rememberer = Rememberer::new(workspace.clone(), Arc::clone(&state), clock, ids);
        Self {
            _home: home,
            workspace,
            state,
            rememberer,
        }
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
        receipt,
        RememberReceipt {
            entries: vec![entry("i000001", false), entry("i000002", false)],
            applied: true
        }
    );
    assert_eq!(place.buffer(), format!("{FIRST}{SECOND}"));
    assert_eq!(place.archive(), format!("# 2026-12-01\n\n{FIRST}{SECOND}"));
    place.remember(&["more"]).await;
    assert_eq!(place.archive().matches("# 2026-12-01").count(), 1);
    assert_eq!(
        place
            .state
            .read_blocking(remembered::pending)
            .expect("read"),
        []
    );
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
    std::fs::write(place.workspace.buffer_path(), "").expect("consumed");
    assert_eq!(
        place.remember(&["likes kiwis"]).await.entries,
        [entry("i000002", false)]
    );
    assert_eq!(place.rememberer.replay().await.expect("replay"), 0);
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

#[tokio::test]
async fn a_committed_entry_is_replayed_whatever_the_files_have() {
    let day = "2026-12-01".to_owned();
    for kept in [0, 3, 25, 40, FIRST.len() - 1, FIRST.len()] {
        let place = Place::new();
        let pending = PendingEntry {
            id: "i000001".to_owned(),
            day: day.clone(),
            entry: FIRST.to_owned(),
        };
        let source = source_of(&input(&[]), NOW).expect("permitted");
        place
            .state
            .write_blocking(|transaction| remembered::add(transaction, "hash", &pending, &source))
            .expect("the commit that acknowledges");
        if kept > 0 {
            RealFs
                .append(&place.workspace.buffer_path(), &FIRST.as_bytes()[..kept])
                .expect("a torn append");
        }
        assert_eq!(place.rememberer.replay().await.expect("replay"), 1);
        assert_eq!(place.buffer().matches(FIRST).count(), 1, "{kept}");
        assert_eq!(
            place.archive(),
            format!("# 2026-12-01\n\n{FIRST}"),
            "{kept}"
        );
        assert_eq!(place.rememberer.replay().await.expect("replay"), 0);
    }
}

#[tokio::test]
async fn text_is_safe_when_its_files_cannot_be_written() {
    let place = Place::new();
    std::fs::remove_dir_all(place.workspace.archive_dir()).expect("remove");
    std::fs::write(place.workspace.archive_dir(), "in the way").expect("write");
    let receipt = place.remember(&["likes kiwis"]).await;
    assert_eq!(
        receipt,
        RememberReceipt {
            entries: vec![entry("i000001", false)],
            applied: false
        }
    );
    assert_eq!(
        place.remember(&["likes kiwis"]).await.entries,
        [entry("i000001", true)]
    );
    std::fs::remove_file(place.workspace.archive_dir()).expect("remove");
    assert_eq!(place.rememberer.replay().await.expect("replay"), 1);
    assert_eq!(place.buffer(), FIRST);
    assert_eq!(place.archive(), format!("# 2026-12-01\n\n{FIRST}"));
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
    assert_eq!(ids_of(&place.buffer()).len(), 20);
}
