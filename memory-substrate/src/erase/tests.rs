//! Erasing: a text is planted wherever it can come to lie, and nothing of it is left in any byte of the folder.

use std::ops::ControlFlow;

use memory_core::item::ItemId;
use memory_core::predicates::Tier;
use memory_core::provenance::Channel;
use memory_core::services::{LexicalQuery, LogKind, LogRow, Role};
use memory_core::store::{PageStore as _, StateStore as _, TurnNode};
use memory_core::time::Timestamp;

use super::*;
use crate::assistant::testing::{Fixture, runtime};
use crate::fs::RealFs;
use crate::remember::RememberInput;
use crate::snapshot::testing::slug;
use crate::workspace::AssistantId;
use crate::writer::testing::tree;

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

fn note(text: &str) -> RememberInput {
    RememberInput {
        texts: vec![text.to_owned()],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
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
            let receipt = store.remember(note(text), "UTC").await.expect("remembered");
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
fn an_erasure_that_ends_anywhere_is_taken_up_again() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        write(&store, "secret", format!("# Secret\n\n{CANARY}\n")).await;
        write(&store, "other", "# Other\n\nSomething else.\n".to_owned()).await;
        sync(&store).await;
        let target = EraseTarget::Page(slug("secret"));
        let writer = store.writer().expect("a writer").clone();
        let trace = store.begin_erasure(&writer, &target).await.expect("begun");
        let mut report = EraseReport::default();
        let taken = store.take_out(&writer, &target, &mut report).await;
        taken.expect("taken out");
        drop((store, writer, trace));

        let store = fixture.open().await;
        assert!(!holding(&fixture).is_empty(), "old versions are there");
        let begun = interrupted(&fixture.workspace).expect("read");
        assert_eq!(begun.as_ref(), Some(&target));
        let other = EraseTarget::Page(slug("other"));
        let refused = store
            .erase(other, &mut |_| ControlFlow::Continue(()))
            .await
            .expect_err("one at a time");
        assert!(
            refused.to_string().contains("the page `secret`"),
            "{refused}"
        );

        let stopped = store
            .erase(target.clone(), &mut |_| ControlFlow::Break(()))
            .await
            .expect("stopped");
        assert!(!stopped.is_clean(), "{stopped:?}");
        assert_eq!(interrupted(&fixture.workspace).expect("read"), begun);
        let report = erase(&store, target).await;
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(holding(&fixture), [""; 0]);
        assert_eq!(interrupted(&fixture.workspace).expect("read"), None);
    });
}

#[test]
fn what_came_after_an_interrupted_erasure_is_left_alone() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        write(&store, "secret", format!("# Secret\n\n{CANARY}\n")).await;
        write(&store, "other", "# Other\n\nSomething else.\n".to_owned()).await;
        sync(&store).await;
        let target = EraseTarget::Page(slug("secret"));
        let stopped = store
            .erase(target.clone(), &mut |_| ControlFlow::Break(()))
            .await;
        assert!(!stopped.expect("stopped").is_clean());
        let later = "# Secret\n\nSomething that was written later.\n";
        write(&store, "secret", later.to_owned()).await;
        let report = erase(&store, target).await;
        assert_eq!(
            report.remains,
            ["the page `secret`, which was made anew since and is left alone"]
        );
        assert_eq!(holding(&fixture), [""; 0]);
        let page = std::fs::read_to_string(fixture.page("secret.md"));
        assert_eq!(page.expect("read"), later);
        assert_eq!(interrupted(&fixture.workspace).expect("read"), None);
    });
}

#[test]
fn erasing_an_entry_takes_nothing_that_a_person_put_behind_it() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let receipt = store
            .remember(note(CANARY), "UTC")
            .await
            .expect("remembered");
        store.writer().expect("a writer").settle().expect("settled");
        let path = fixture.workspace.buffer_path();
        let mut text = std::fs::read_to_string(&path).expect("read");
        text.push_str("My own prose stands here.\n");
        std::fs::write(&path, text).expect("written");
        let id = receipt.entries[0].id.clone();
        let report = erase(&store, EraseTarget::Entry(id)).await;
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(holding(&fixture), [""; 0]);
        let left = std::fs::read_to_string(&path).expect("read");
        assert_eq!(left, "My own prose stands here.\n");
    });
}

#[test]
fn notes_that_wait_for_a_writer_are_kept_and_not_erased_with_something() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        write(&store, "secret", format!("# Secret\n\n{CANARY}\n")).await;
        sync(&store).await;
        let mut input = note(CANARY);
        input.texts.push("The kettle is new.".to_owned());
        let note = crate::spool::SpooledNote {
            input,
            zone: "UTC".to_owned(),
            actor: "hook".to_owned(),
            session: None,
            at: Timestamp::default(),
            key: None,
        };
        crate::spool::leave(&fixture.workspace, "n1", &note).expect("left");
        let report = erase(&store, EraseTarget::Page(slug("secret"))).await;
        assert!(!report.is_clean(), "the note says it too: {report:?}");
        let buffer = std::fs::read_to_string(fixture.workspace.buffer_path()).expect("read");
        assert!(
            buffer.contains("The kettle is new.") && buffer.contains("Wilbur"),
            "{buffer}"
        );
    });
}

#[test]
fn no_other_index_is_left() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        write(&store, "secret", format!("# Secret\n\n{CANARY}\n")).await;
        write(&store, "other", "# Other\n\nSomething else.\n".to_owned()).await;
        sync(&store).await;
        let [serving] = &spaces(&fixture)[..] else {
            panic!("one space")
        };
        // What a rebuild left that was cut off, one that was damaged, and another model's.
        for place in ["gen-7", "damaged-3", "../0123456789abcdef/gen-1"] {
            let folder = serving.join(place);
            std::fs::create_dir_all(&folder).expect("made");
            std::fs::write(folder.join("data.lance"), CANARY).expect("written");
        }
        let report = erase(&store, EraseTarget::Page(slug("secret"))).await;
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(holding(&fixture), [""; 0]);
        assert_eq!(spaces(&fixture), std::slice::from_ref(serving));
        assert_eq!(
            store.other_indexes().await.expect("listed"),
            [""; 0].map(std::path::PathBuf::from)
        );
    });
}

fn spaces(fixture: &Fixture) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(fixture.workspace.root().join("index"))
        .expect("listed")
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

#[test]
fn old_versions_of_a_page_that_is_deleted_already_are_erased() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        write(&store, "secret", format!("# Secret\n\n{CANARY}\n")).await;
        sync(&store).await;
        let deleted = store.files().delete(&slug("secret"), Expected::Any).await;
        deleted.expect("deleted");
        sync(&store).await;
        let report = erase(&store, EraseTarget::Page(slug("secret"))).await;
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(holding(&fixture), [""; 0]);
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

fn note_of(person: &str, text: &str) -> RememberInput {
    RememberInput {
        channel: Channel::User(person.to_owned()),
        ..note(text)
    }
}

/// Everything there is of Bo, wherever it is kept.
async fn of_bo(fixture: &Fixture, store: &AssistantStore, entry: &str) -> String {
    let index = store.current_index().expect("an index");
    let mut rows = index.all_rows().await.expect("rows");
    rows.retain(|row| row.id.slug.as_str() == "bo");
    let call = crate::services::testing::call(Authority::Owner, &["bo"]);
    let services = store.every_service(Tier::V3);
    let (lexical, dense) = (
        services.lexical.expect("there"),
        services.dense.expect("there"),
    );
    let query = LexicalQuery {
        text: "pasta".to_owned(),
        head_weight: 2.5,
        body_weight: 1.0,
        k1: 1.5,
        b: 0.75,
        limit: 5,
        best_per_page: true,
    };
    let words = lexical.search(&call, query).await.expect("searched");
    let vector = dense
        .embed(&call, vec!["Bo likes pasta.".to_owned()])
        .await
        .expect("embedded");
    let mut near = dense.search(&call, vector, 5).await.expect("searched");
    near.retain(|hit| hit.id.slug.as_str() == "bo");
    let buffer = std::fs::read_to_string(fixture.workspace.buffer_path()).expect("read");
    let item = ItemId::minted(entry).expect("an item");
    let state = store.state();
    let item = state.item_state(&item).await.expect("read");
    format!(
        "{:?}\n{rows:?}\n{:?}\n{:?}\n{:?}\n{item:?}\n{:?}",
        std::fs::read(fixture.page("bo.md")).expect("read"),
        words.iter().map(|hit| hit.id.key()).collect::<Vec<_>>(),
        near.iter().map(|hit| hit.id.key()).collect::<Vec<_>>(),
        buffer
            .lines()
            .filter(|line| line.contains(entry))
            .collect::<Vec<_>>(),
        state.turn_node("b1").await.expect("read"),
    )
}

#[test]
fn erasing_all_that_is_of_one_person_leaves_anothers_byte_for_byte() {
    runtime(async {
        let fixture = Fixture::new();
        let other = AssistantId::new("other").expect("a name");
        let neighbour = Workspace::create(fixture.home(), &other, "", Arc::new(RealFs));
        let neighbour = neighbour.expect("made");
        std::fs::write(neighbour.concepts_dir().join("ada.md"), CANARY).expect("written");
        let beside = tree(&RealFs, neighbour.root());

        let store = fixture.open().await;
        for (page, likes) in [("ada", CANARY), ("bo", "Bo likes pasta.")] {
            let text = format!("---\nchannel: {page}\n---\n# {page}\n\n{likes}\n");
            write(&store, page, text).await;
        }
        let mut ids = Vec::new();
        for (person, text) in [
            ("ada", CANARY),
            ("bo", "I like pasta."),
            ("ada", "And pizza, Ada says."),
        ] {
            let kept = store.remember(note_of(person, text), "UTC").await;
            ids.push(kept.expect("remembered").entries[0].id.clone());
        }
        store.writer().expect("a writer").settle().expect("settled");
        let state = store.state().clone();
        for (id, conversation, text) in [
            ("a1", "ca", "I am Ada, and I like pizza."),
            ("b1", "cb", "I am Bo, and I like pasta."),
        ] {
            let node = user_node(id, conversation, text);
            state.put_turn_node(node).await.expect("put");
        }
        sync(&store).await;
        let before = of_bo(&fixture, &store, &ids[1]).await;
        assert!(before.contains("bo#"), "{before}");

        for target in [
            EraseTarget::Entry(ids[0].clone()),
            EraseTarget::Entry(ids[2].clone()),
            EraseTarget::Page(slug("ada")),
            EraseTarget::Conversation("ca".to_owned()),
        ] {
            erase(&store, target).await;
        }
        assert_eq!(of_bo(&fixture, &store, &ids[1]).await, before);
        assert_eq!(tree(&RealFs, neighbour.root()), beside);
        assert_eq!(holding(&fixture), [""; 0]);
        drop((store, state));
        let store = fixture.open().await;
        assert_eq!(of_bo(&fixture, &store, &ids[1]).await, before);
    });
}

#[test]
fn what_is_not_there_is_not_found_and_what_is_erased_is_listed_with_its_places() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        write(&store, "secret", format!("# Secret\n\n{CANARY}\n")).await;
        write(
            &store,
            "secret",
            "# Secret\n\nSomething else now.\n".to_owned(),
        )
        .await;
        let kept = store
            .remember(note_of("ada", "The kettle is descaled."), "UTC")
            .await;
        let entry = kept.expect("remembered").entries[0].id.clone();
        store.writer().expect("a writer").settle().expect("settled");
        let message = user_node("m1", "c1", "Tell me of the weather.");
        store.state().put_turn_node(message).await.expect("put");
        sync(&store).await;
        let before = tree(&RealFs, &fixture.workspace.memory_dir());
        let (page, note, talk) = (
            EraseTarget::Page(slug("secret")),
            EraseTarget::Entry(entry.clone()),
            EraseTarget::Conversation("c1".to_owned()),
        );
        let on = &mut |_| ControlFlow::Continue(());
        for unknown in [
            EraseTarget::Page(slug("secrets")),
            EraseTarget::Entry("m999999".to_owned()),
            EraseTarget::Conversation("c2".to_owned()),
        ] {
            let refused = store.erase(unknown, on).await;
            assert!(
                matches!(refused, Err(StoreError::NotFound { .. })),
                "{refused:?}"
            );
        }
        assert_eq!(tree(&RealFs, &fixture.workspace.memory_dir()), before);
        assert_eq!(interrupted(&fixture.workspace).expect("read"), None);
        let forgotten = store.undo("no-operation").await;
        assert!(
            matches!(forgotten, Err(StoreError::NotFound { .. })),
            "{forgotten:?}"
        );

        let named = format!("the entry `{entry}`");
        for (target, listed) in [
            (
                page,
                [
                    "the page `secret`",
                    "old versions and copies",
                    "the index it was in",
                ],
            ),
            (note, [named.as_str(), "the index it was in", ""]),
            (talk, ["the conversation `c1`", "1 rows of it", ""]),
        ] {
            let report = erase(&store, target.clone()).await;
            for line in listed {
                assert!(
                    report.removed.iter().any(|removed| removed.contains(line)),
                    "`{line}` of {:?}",
                    report.removed
                );
            }
            let again = store.erase(target, on).await;
            assert!(
                matches!(again, Err(StoreError::NotFound { .. })),
                "{again:?}"
            );
        }
    });
}
