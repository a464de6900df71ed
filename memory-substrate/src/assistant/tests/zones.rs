//! Time zones: what is stored is the instant, in whatever zone a process runs, and around changes of the clock too.

use memory_core::item::{Consumer, ItemQuery};
use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::services::Role;
use memory_core::store::{ItemStore as _, StateStore as _, TurnNode};
use memory_core::time::Timestamp;

use super::*;
use crate::assistant::testing::{process, said, say};
use crate::fs::RealFs;
use crate::pages::hash_bytes;
use crate::writer::testing::tree;

const LOS_ANGELES: &str = "America/Los_Angeles";

fn note(text: &str) -> RememberInput {
    RememberInput {
        texts: vec![text.to_owned()],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    }
}

async fn learnt(store: &AssistantStore) -> Vec<(Timestamp, String)> {
    let query = ItemQuery::new(Authority::Owner, Consumer::Listing, store.now());
    let items = store.state().items(query).await.expect("read");
    let mut items: Vec<_> = items
        .into_iter()
        .map(|item| (item.learnt, item.claim.as_str().to_owned()))
        .collect();
    items.sort();
    items
}

#[test]
fn the_same_script_leaves_the_same_store_in_every_zone_a_process_may_run_in() {
    let mut stores = BTreeSet::new();
    for zone in ["UTC", LOS_ANGELES, "Asia/Kolkata", "Pacific/Apia"] {
        let output = process("assistant::tests::zones::does_a_little_of_everything")
            .env("TZ", zone)
            .output()
            .expect("it starts");
        let heard = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = heard.lines().find_map(|line| said(line, "stored"));
        stores.insert(told.unwrap_or_else(|| panic!("{zone}: {heard}")).to_owned());
    }
    assert_eq!(stores.len(), 1, "{stores:#?}");
}

#[test]
#[ignore = "it is the process that another test runs in several zones"]
fn does_a_little_of_everything() {
    runtime(async {
        let fixture = Fixture::new();
        let lock = fixture.workspace.lock("test").expect("nobody else writes");
        let opened = AssistantStore::open(OpenOptions {
            workspace: fixture.workspace.clone(),
            mode: OpenMode::ReadWrite(lock),
            clock: fixture.clock.clone(),
            ids: Arc::new(memory_core::env::CountingIds::new("m")),
            embedder: Some(Arc::new(SeededEmbedder::new(DIMS))),
        });
        let (store, _) = opened.await.expect("opened");
        for text in ["It is late.", "It is later."] {
            store
                .remember(note(text), "Europe/Berlin")
                .await
                .expect("remembered");
            fixture.clock.advance_millis(10 * 60 * 60 * 1000);
        }
        for (name, date) in [
            ("a", "2026-11-30"),
            ("b", "2026-12-01T00:30:00+13:00"),
            ("c", "2026"),
        ] {
            let source = IngestSource::Text {
                name: name.to_owned(),
                text: format!("---\norigin_date: {date}\n---\n# {name}\n\nOf that day.\n"),
            };
            let listener = &mut |_: EngineProgress| ControlFlow::Continue(());
            let ingested = store.ingest_and_index(source, IngestOptions::default(), listener);
            ingested.await.expect("taken in").1.expect("indexed");
        }
        let message = TurnNode {
            id: "m1".to_owned(),
            conversation: "c".to_owned(),
            parent: None,
            branch: "main".to_owned(),
            turn: 1,
            role: Role::User,
            text: "What time is it?".to_owned(),
            finalised: true,
            speaker: None,
            principal: None,
            authority: Authority::Owner,
            agent: None,
            channel: Channel::Global,
            origin: Origin::UserDirect,
            event_time: store.now(),
            ingestion_time: store.now(),
            metadata: "{}".to_owned(),
            attached_blocks: Vec::new(),
        };
        store.state().put_turn_node(message).await.expect("put");
        store.writer().expect("a writer").settle().expect("settled");

        let index = store.engine.index.load_full().expect("an index");
        let mut rows = index.all_rows().await.expect("rows");
        for row in &mut rows {
            // When the file was written is the disk's own time.
            row.modified_at = Timestamp::default();
        }
        let files = tree(&RealFs, &fixture.workspace.memory_dir());
        let archives = files
            .keys()
            .filter(|name| name.starts_with("archive/"))
            .count();
        assert_eq!((files.len(), archives, rows.len()), (6, 2, 3));
        let stored = format!(
            "{files:?}\n{rows:?}\n{:?}\n{:?}\n{:?}",
            learnt(&store).await,
            store.state().turn_node("m1").await.expect("read"),
            store.state().page_origins().await.expect("read"),
        );
        say("stored", hash_bytes(stored.as_bytes()));
    });
}

/// An hour that does not exist, one that comes twice, and a day that an island left out.
#[test]
fn notes_around_a_change_of_the_clock_keep_their_instant_and_show_what_the_clock_showed() {
    runtime(async {
        let at = Timestamp::from_millis;
        for (zone, said) in [
            (
                LOS_ANGELES,
                [
                    (at(1_772_963_940_000), "2026-03-08 01:59"),
                    (at(1_772_964_060_000), "2026-03-08 03:01"),
                ],
            ),
            (
                LOS_ANGELES,
                [
                    (at(1_793_521_800_000), "2026-11-01 01:30"),
                    (at(1_793_525_400_000), "2026-11-01 01:30"),
                ],
            ),
            (
                "Pacific/Apia",
                [
                    (at(1_325_239_140_000), "2011-12-29 23:59"),
                    (at(1_325_239_260_000), "2011-12-31 00:01"),
                ],
            ),
        ] {
            let fixture = Fixture::new();
            let store = fixture.open().await;
            let mut expected = Vec::new();
            for (number, (instant, _)) in said.iter().enumerate() {
                let distance = instant.as_millis() - store.now().as_millis();
                fixture.clock.advance_millis(distance);
                let text = format!("Note {number}.");
                store.remember(note(&text), zone).await.expect("remembered");
                expected.push((*instant, text));
            }
            store.writer().expect("a writer").settle().expect("settled");
            assert_eq!(learnt(&store).await, expected, "{zone}");
            let buffer = std::fs::read_to_string(fixture.workspace.buffer_path()).expect("read");
            for (number, (_, shown)) in said.iter().enumerate() {
                let entry = format!("- [{shown}] Note {number}.");
                assert!(buffer.contains(&entry), "{zone}: {buffer}");
                let day = fixture
                    .workspace
                    .archive_dir()
                    .join(format!("{}.md", &shown[..10]));
                let archived = std::fs::read_to_string(day).expect("the day's archive");
                assert!(archived.contains(&entry), "{zone}: {archived}");
            }
            drop(store);
            let store = fixture.open().await;
            assert_eq!(learnt(&store).await, expected, "{zone}, after a restart");
        }
    });
}
