//! Erasing: a text is planted wherever it can come to lie, and nothing of it is left in any byte of the folder.

use std::ops::ControlFlow;

use memory_core::predicates::Tier;
use memory_core::provenance::Channel;
use memory_core::services::{LogKind, LogRow, Role};
use memory_core::store::{PageStore as _, StateStore as _, TurnNode};
use memory_core::time::Timestamp;

use super::*;
use crate::assistant::testing::{Fixture, runtime};
use crate::remember::RememberInput;
use crate::snapshot::testing::slug;

const CANARY: &str = "The quokka \"Wilbur\" hides behind the boiler.";

fn user_node(id: &str, conversation: &str, text: &str) -> TurnNode {
    TurnNode {
        id: id.to_owned(),
        conversation: conversation.to_owned(),
        parent: None,
        branch: "main".to_owned(),
        turn: 1,
        role: Role::User,
        text: text.to_owned(),
        finalised: false,
        speaker: None,
        principal: None,
        authority: Authority::Owner,
        agent: None,
        channel: Channel::Global,
        origin: Origin::UserDirect,
        event_time: Timestamp::default(),
        ingestion_time: Timestamp::default(),
        metadata: "{}".to_owned(),
        attached_blocks: Vec::new(),
    }
}

/// Returns the files whose bytes hold the canary, as it is or quoted.
fn holding(fixture: &Fixture) -> Vec<String> {
    let root = fixture.workspace.root();
    let part = b"hides behind the boiler";
    let mut found = Vec::new();
    for path in files_below(root).expect("listed") {
        let bytes = std::fs::read(&path).expect("read");
        if bytes.windows(part.len()).any(|window| window == part) {
            let below = path.strip_prefix(root).expect("below");
            found.push(below.to_string_lossy().into_owned());
        }
    }
    found
}

async fn erase(store: &AssistantStore, target: EraseTarget) -> EraseReport {
    let erased = store
        .erase(target, &mut |_| ControlFlow::Continue(()))
        .await;
    erased.expect("erased")
}

async fn write(store: &AssistantStore, name: &str, text: String) {
    let written = store
        .files()
        .write(&slug(name), text.into_bytes(), Expected::Any)
        .await;
    written.expect("written");
}

async fn sync(store: &AssistantStore) {
    store.look(true).await.expect("looked");
    let synced = store.sync(&mut |_| ControlFlow::Continue(())).await;
    synced.expect("synchronised");
}

#[test]
fn nothing_of_an_erased_page_is_left_in_any_file() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        write(&store, "secret", format!("# Secret\n\n{CANARY}\n")).await;
        write(
            &store,
            "other",
            "# Other\n\nSomething else is kept.\n".to_owned(),
        )
        .await;
        sync(&store).await;
        write(
            &store,
            "secret",
            format!("# Secret\n\n{CANARY}\n\nAnd more of the same.\n"),
        )
        .await;
        write(
            &store,
            "secret",
            "# Secret\n\nNothing to see here at all.\n".to_owned(),
        )
        .await;
        sync(&store).await;
        // What a turn leaves: the block that was shown, and the log of what was chosen.
        let state = store.state().clone();
        state
            .put_turn_node(user_node("m1", "c1", "Tell me."))
            .await
            .expect("put");
        let block = ("memory".to_owned(), format!("shown: {CANARY}"));
        state
            .attach_blocks("m1", vec![block])
            .await
            .expect("attached");
        let row = LogRow {
            kind: LogKind::Selection,
            slug: Some(slug("secret")),
            body: serde_json::to_string(&serde_json::json!({ "text": CANARY })).expect("text"),
        };
        state
            .append_log("c1", 1, Tier::V3, vec![row], store.now())
            .await
            .expect("logged");
        std::fs::write(
            fixture.workspace.root().join("state.db.schema-1.backup"),
            CANARY,
        )
        .expect("written");
        let before = holding(&fixture);
        assert!(
            before.iter().any(|path| path.starts_with("blobs/")),
            "{before:?}"
        );
        assert!(
            before.iter().any(|path| path.starts_with("state.db")),
            "{before:?}"
        );

        let report = erase(&store, EraseTarget::Page(slug("secret"))).await;
        assert!(report.is_clean(), "{report:?}");
        assert!(report.files > 5, "{report:?}");
        assert_eq!(holding(&fixture), [""; 0]);
        let index = store.current_index().expect("an index");
        let rows = index.all_rows().await.expect("rows");
        assert!(!rows.is_empty() && rows.iter().all(|row| row.id.slug.as_str() == "other"));
        assert!(store.integrity().await.expect("compared").is_clean());
        assert_eq!(state.page_origins().await.expect("read"), []);
        drop((store, index));
        assert_eq!(holding(&fixture), [""; 0], "not after closing either");
        let store = fixture.open().await;
        let again = store
            .erase(EraseTarget::Page(slug("secret")), &mut |_| {
                ControlFlow::Continue(())
            })
            .await;
        assert!(
            matches!(again, Err(StoreError::NotFound { .. })),
            "{again:?}"
        );
    });
}

#[test]
fn an_erased_entry_is_gone_and_its_neighbours_are_not() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let mut ids = Vec::new();
        for text in [
            "The first of three notes.",
            CANARY,
            "The last of three notes.",
        ] {
            let input = RememberInput {
                texts: vec![text.to_owned()],
                origin: Origin::UserDirect,
                authority: Authority::Owner,
                channel: Channel::Global,
            };
            let receipt = store.remember(input, "UTC").await.expect("remembered");
            ids.push(receipt.entries[0].id.clone());
        }
        store.writer().expect("a writer").settle().expect("settled");
        assert!(holding(&fixture).len() >= 2);
        let report = erase(&store, EraseTarget::Entry(ids[1].clone())).await;
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(holding(&fixture), [""; 0]);
        for (path, _) in entry_files(&fixture.workspace, &ids[2]).expect("read") {
            let text = std::fs::read_to_string(fixture.workspace.root().join(path)).expect("read");
            assert!(text.contains(&ids[0]) && !text.contains(&ids[1]), "{text}");
        }
    });
}

#[test]
fn what_the_owner_also_wrote_elsewhere_stays_and_is_named() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        write(&store, "secret", format!("# Secret\n\n{CANARY}\n")).await;
        write(&store, "diary", format!("# Diary\n\n{CANARY}\n")).await;
        let state = store.state();
        state
            .put_turn_node(user_node(
                "m1",
                "c1",
                "A sentence that is only in the page.",
            ))
            .await
            .expect("put");
        write(
            &store,
            "secret",
            format!("# Secret\n\n{CANARY}\n\nA sentence that is only in the page.\n"),
        )
        .await;
        sync(&store).await;
        let report = erase(&store, EraseTarget::Page(slug("secret"))).await;
        assert_eq!(
            report.remains,
            [
                "the same words in `memory/concepts/diary.md`",
                "conversation `c1`"
            ]
        );
        let diary = std::fs::read_to_string(fixture.page("diary.md")).expect("read");
        assert!(diary.contains(CANARY));

        let report = erase(&store, EraseTarget::Conversation("c1".to_owned())).await;
        assert!(report.is_clean(), "{report:?}");
        assert!(state.turn_node("m1").await.expect("read").is_none());
    });
}

#[test]
fn what_was_not_searched_for_is_named() {
    let said = not_looked_for(&["pin: 4711\n\nkey: 12\n".to_owned()]);
    assert_eq!(
        said.as_deref(),
        Some("its words were not searched for: no line has 12 bytes")
    );
    for text in ["", "# Pin\n\nA line that is long enough.\n"] {
        assert_eq!(not_looked_for(&[text.to_owned()]), None);
    }

    let home = tempfile::tempdir().expect("a temporary folder");
    let root = home.path().join("ada");
    for name in [
        "ada",
        "ada.replaced-12",
        ".restoring-ada",
        "adam.replaced-1",
    ] {
        std::fs::create_dir(home.path().join(name)).expect("made");
    }
    let named = replaced_copies(&root);
    assert_eq!(named.len(), 2, "{named:?}");
}
