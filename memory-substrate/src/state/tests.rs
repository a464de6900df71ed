//! Tests of the state database through its public face.

use std::path::PathBuf;

use memory_core::env::ManualClock;
use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::services::Role;
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;

use super::*;

struct Place {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("state.db");
        Self {
            _folder: folder,
            path,
        }
    }

    fn open(&self) -> SqliteState {
        SqliteState::open(&self.path, &ManualClock::default()).expect("the database opens")
    }
}

fn node(id: &str, parent: Option<&str>, branch: &str, turn: u64) -> TurnNode {
    TurnNode {
        id: id.to_owned(),
        conversation: "c".to_owned(),
        parent: parent.map(str::to_owned),
        branch: branch.to_owned(),
        turn,
        role: Role::User,
        text: format!("text of {id}"),
        finalised: false,
        speaker: Some("Ada".to_owned()),
        principal: None,
        authority: Authority::Owner,
        agent: None,
        channel: Channel::Project("atlas".to_owned()),
        origin: Origin::UserDirect,
        event_time: Timestamp::from_millis(-5),
        ingestion_time: Timestamp::from_millis(7),
        metadata: r#"{"a":1}"#.to_owned(),
        attached_blocks: Vec::new(),
    }
}

fn slug(text: &str) -> Slug {
    Slug::parse(text).expect("a slug")
}

fn ids(nodes: &[TurnNode]) -> Vec<&str> {
    nodes.iter().map(|node| node.id.as_str()).collect()
}

#[tokio::test]
async fn messages_survive_a_restart() {
    let place = Place::new();
    let mut written = node("m1", None, "main", 1);
    written.attached_blocks = vec![("memory".to_owned(), "b".to_owned())];
    {
        let state = place.open();
        state.put_turn_node(written.clone()).await.expect("put");
    }
    assert_eq!(
        place.open().turn_node("m1").await.expect("get"),
        Some(written)
    );
    assert_eq!(place.open().turn_node("m2").await.expect("get"), None);
}

#[tokio::test]
async fn a_message_may_change_until_it_is_finalised() {
    let state = Place::new();
    let state = state.open();
    let mut message = node("m1", None, "main", 1);
    state.put_turn_node(message.clone()).await.expect("put");
    message.text = "changed".to_owned();
    message.finalised = true;
    state.put_turn_node(message.clone()).await.expect("replace");
    let mut again = message.clone();
    again.ingestion_time = Timestamp::from_millis(99);
    state
        .put_turn_node(again)
        .await
        .expect("the same again, later");
    let mut other = message.clone();
    other.text = "rewritten".to_owned();
    let refused = state.put_turn_node(other).await;
    assert!(
        matches!(refused, Err(StoreError::Conflict { .. })),
        "{refused:?}"
    );
    assert_eq!(state.turn_node("m1").await.expect("get"), Some(message));
}

#[tokio::test]
async fn a_parent_must_exist_in_the_same_conversation() {
    let place = Place::new();
    let state = place.open();
    state
        .put_turn_node(node("m1", None, "main", 1))
        .await
        .expect("put");
    let orphan = state
        .put_turn_node(node("m2", Some("nobody"), "main", 1))
        .await;
    assert!(
        matches!(orphan, Err(StoreError::BadRequest { .. })),
        "{orphan:?}"
    );
    let elsewhere = TurnNode {
        conversation: "d".to_owned(),
        ..node("m3", Some("m1"), "main", 1)
    };
    assert!(matches!(
        state.put_turn_node(elsewhere).await,
        Err(StoreError::BadRequest { .. })
    ));
    let bad_metadata = TurnNode {
        metadata: "[1]".to_owned(),
        ..node("m4", None, "main", 1)
    };
    assert!(matches!(
        state.put_turn_node(bad_metadata).await,
        Err(StoreError::BadRequest { .. })
    ));
    assert_eq!(state.last_turn("c", "main").await.expect("last"), 1);
}

#[tokio::test]
async fn a_branch_shows_what_it_left() {
    let place = Place::new();
    let state = place.open();
    for (id, parent, branch, turn) in [
        ("m1", None, "main", 1),
        ("m2", Some("m1"), "main", 1),
        ("m3", Some("m2"), "main", 2),
        ("f3", Some("m2"), "fork", 2),
        ("m4", Some("m3"), "main", 2),
    ] {
        state
            .put_turn_node(node(id, parent, branch, turn))
            .await
            .expect("put");
    }
    let recent = |branch: &'static str, limit| state.recent_turn_nodes("c", branch, limit);
    assert_eq!(
        ids(&recent("main", 9).await.expect("main")),
        ["m1", "m2", "m3", "m4"]
    );
    assert_eq!(
        ids(&recent("fork", 9).await.expect("fork")),
        ["m1", "m2", "f3"]
    );
    assert_eq!(ids(&recent("fork", 2).await.expect("fork")), ["m2", "f3"]);
    assert!(recent("fork", 0).await.expect("none").is_empty());
    assert!(recent("nothing", 9).await.expect("none").is_empty());
    assert_eq!(state.last_turn("c", "fork").await.expect("last"), 2);
    assert_eq!(state.last_turn("c", "nothing").await.expect("last"), 0);
}

#[tokio::test]
async fn attached_blocks_replace_those_of_their_key() {
    let place = Place::new();
    let state = place.open();
    let block = |key: &str, text: &str| (key.to_owned(), text.to_owned());
    state
        .put_turn_node(node("m1", None, "main", 1))
        .await
        .expect("put");
    state
        .attach_blocks("m1", vec![block("b", "1"), block("a", "2")])
        .await
        .expect("attach");
    state
        .attach_blocks("m1", vec![block("b", "3")])
        .await
        .expect("attach");
    let blocks = state
        .turn_node("m1")
        .await
        .expect("get")
        .expect("there")
        .attached_blocks;
    assert_eq!(blocks, [block("b", "3"), block("a", "2")]);
    assert!(matches!(
        state.attach_blocks("m9", Vec::new()).await,
        Err(StoreError::NotFound { .. })
    ));
}

#[tokio::test]
async fn residency_is_recorded_once_and_survives_a_restart() {
    let place = Place::new();
    let section = SectionId {
        slug: slug("kiwi"),
        heading: "ripe?".to_owned(),
        occurrence: 2,
        chunk: 0,
    };
    let shown = vec![
        Resident {
            slug: slug("kiwi"),
            section: Some(section.clone()),
            bytes: 12,
        },
        Resident {
            slug: slug("大语言模型"),
            section: None,
            bytes: 3,
        },
    ];
    let at = Timestamp::from_millis(5);
    {
        let state = place.open();
        for _ in 0..2 {
            state
                .record_resident("c", "m1", Tier::V3, shown.clone(), at)
                .await
                .expect("record");
        }
        state
            .record_resident("d", "m1", Tier::V2, shown, at)
            .await
            .expect("record");
    }
    let state = place.open();
    let resident = state.resident("c").await.expect("read");
    let found: Vec<_> = resident
        .iter()
        .map(|entry| (entry.slug.as_str(), entry.section.as_ref(), entry.tier))
        .collect();
    assert_eq!(
        found,
        [
            ("kiwi", Some(&section), Tier::V3),
            ("大语言模型", None, Tier::V3)
        ]
    );
    state.clear_resident("c").await.expect("clear");
    assert!(state.resident("c").await.expect("read").is_empty());
    assert_eq!(state.resident("d").await.expect("read").len(), 2);

    let (conversation, assistant) = (KvScope::Conversation, KvScope::Assistant);
    for (scope, owner) in [(conversation, "d"), (assistant, "")] {
        let value = Some("kept".to_owned());
        state
            .kv_put("v3", scope, owner, "key", value)
            .await
            .expect("put");
    }
    state.clear_conversations().await.expect("clear");
    assert!(state.resident("d").await.expect("read").is_empty());
    assert_eq!(
        state
            .kv_get("v3", conversation, "d", "key")
            .await
            .expect("read"),
        None
    );
    let kept = state
        .kv_get("v3", assistant, "", "key")
        .await
        .expect("read");
    assert_eq!(kept.as_deref(), Some("kept"));
}

#[tokio::test]
async fn logs_come_back_newest_first_and_are_all_or_none() {
    let place = Place::new();
    let state = place.open();
    let row = |body: &str| LogRow {
        kind: LogKind::Selection,
        slug: Some(slug("kiwi")),
        body: body.to_owned(),
    };
    let at = Timestamp::from_millis(5);
    state
        .append_log("c", 1, Tier::V3, vec![row("1"), row("2")], at)
        .await
        .expect("append");
    state
        .append_log("c", 2, Tier::V3, vec![row("3")], at)
        .await
        .expect("append");
    let broken = state
        .append_log("c", 3, Tier::V3, vec![row("4"), row("not json")], at)
        .await;
    assert!(
        matches!(broken, Err(StoreError::BadRequest { .. })),
        "{broken:?}"
    );
    let newest = state
        .newest_log("c", LogKind::Selection, 2)
        .await
        .expect("read");
    assert_eq!(newest, [row("3"), row("2")]);
    assert!(
        state
            .newest_log("c", LogKind::Activation, 2)
            .await
            .expect("read")
            .is_empty()
    );
}

#[tokio::test]
async fn values_of_different_places_never_meet() {
    let place = Place::new();
    let state = place.open();
    let value = |text: &str| Some(text.to_owned());
    state
        .kv_put("tier-v3", KvScope::Assistant, "", "k", value("1"))
        .await
        .expect("put");
    state
        .kv_put("tier-v3", KvScope::Conversation, "c", "k", value("2"))
        .await
        .expect("put");
    state
        .kv_put("tier", KvScope::Assistant, "", "k", value("3"))
        .await
        .expect("put");
    assert_eq!(
        state
            .kv_get("tier-v3", KvScope::Assistant, "", "k")
            .await
            .expect("get"),
        value("1")
    );
    assert_eq!(
        state
            .kv_get("tier-v3", KvScope::Conversation, "c", "k")
            .await
            .expect("get"),
        value("2")
    );
    assert_eq!(
        state
            .kv_get("tier-v3", KvScope::Conversation, "d", "k")
            .await
            .expect("get"),
        None
    );
    state
        .kv_put("tier-v3", KvScope::Assistant, "", "k", None)
        .await
        .expect("remove");
    assert_eq!(
        state
            .kv_get("tier-v3", KvScope::Assistant, "", "k")
            .await
            .expect("get"),
        None
    );
    let contradiction = state
        .kv_put("tier-v3", KvScope::Assistant, "c", "k", value("1"))
        .await;
    assert!(
        matches!(contradiction, Err(StoreError::BadRequest { .. })),
        "{contradiction:?}"
    );
    state.put_meta("index", value("gen-1")).await.expect("put");
    assert_eq!(state.meta("index").await.expect("get"), value("gen-1"));
}

#[tokio::test]
async fn page_origins_are_replaced_by_slug() {
    let place = Place::new();
    let state = place.open();
    let origin = |name: &str, origin| PageOrigin {
        slug: slug("kiwi"),
        original_name: name.to_owned(),
        origin,
        authority: Authority::Owner,
        at: Timestamp::from_millis(1),
    };
    state
        .put_page_origins(vec![origin("Kiwi.md", Origin::Import)])
        .await
        .expect("put");
    state
        .put_page_origins(vec![origin("Kiwi 2.md", Origin::UserFile)])
        .await
        .expect("put");
    assert_eq!(
        state.page_origins().await.expect("read"),
        [origin("Kiwi 2.md", Origin::UserFile)]
    );
}

#[tokio::test]
async fn a_reader_sees_what_a_writer_of_another_process_committed_and_cannot_write() {
    let place = Place::new();
    let absent = SqliteState::open_read_only(&place.path);
    assert!(
        matches!(absent, Err(StoreError::NotFound { .. })),
        "{absent:?}"
    );
    let writer = place.open();
    let reader = SqliteState::open_read_only(&place.path).expect("opens beside the writer");
    writer
        .put_meta("k", Some("v".to_owned()))
        .await
        .expect("put");
    assert_eq!(reader.meta("k").await.expect("get").as_deref(), Some("v"));
    let refused = reader.put_meta("k", None).await;
    assert!(
        matches!(refused, Err(StoreError::BadRequest { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn many_tasks_and_handles_write_without_losing_anything() {
    let place = Place::new();
    let handles = [Arc::new(place.open()), Arc::new(place.open())];
    let tasks: Vec<_> = (0..40_u32)
        .map(|number| {
            let state = Arc::clone(&handles[(number % 2) as usize]);
            tokio::spawn(async move {
                state
                    .put_meta(&format!("k{number}"), Some(number.to_string()))
                    .await
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic").expect("no lock error");
    }
    for number in 0..40_u32 {
        assert_eq!(
            handles[0].meta(&format!("k{number}")).await.expect("get"),
            Some(number.to_string())
        );
    }
}

#[tokio::test]
async fn the_settings_that_durability_rests_on_are_on() {
    let place = Place::new();
    let state = place.open();
    let read = |name: &'static str| {
        state.write_blocking(|transaction| {
            transaction
                .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
                .map_err(sql("read a setting"))
        })
    };
    assert_eq!(read("synchronous").expect("setting"), 2);
    assert_eq!(read("foreign_keys").expect("setting"), 1);
    assert_eq!(read("busy_timeout").expect("setting"), 5000);
    state
        .write_unflushed_blocking(|_| Ok(()))
        .expect("a relaxed write");
    assert_eq!(read("synchronous").expect("setting"), 2);
    // Older ones can damage a file in WAL mode.
    assert!(
        rusqlite::version_number() >= 3_051_003,
        "{}",
        rusqlite::version()
    );
    state.check().await.expect("sound");
}

#[test]
fn all_statements_of_a_query_see_one_moment() {
    let state = Place::new();
    let state = state.open();
    let number = |connection: &Connection| {
        connection
            .query_row("SELECT count(*) FROM meta WHERE key = 'late'", [], |row| {
                row.get::<_, i64>(0)
            })
            .map_err(sql("count"))
    };
    let late = || {
        state.write_blocking(|transaction| {
            transaction
                .execute("INSERT INTO meta (key, value) VALUES ('late', '1')", [])
                .map(drop)
                .map_err(sql("add"))
        })
    };
    let seen = state.read_blocking(|connection| {
        let before = number(connection)?;
        late()?;
        Ok((before, number(connection)?))
    });
    assert_eq!(seen.expect("read"), (0, 0));
    assert_eq!(state.read_blocking(number).expect("read"), 1);
}

#[test]
fn opening_writes_nothing_to_an_existing_file() {
    let place = Place::new();
    drop(place.open());
    let before = std::fs::read(&place.path).expect("bytes");
    for _ in 0..3 {
        drop(place.open());
        drop(SqliteState::open_read_only(&place.path).expect("open"));
    }
    assert!(
        std::fs::read(&place.path).expect("bytes") == before,
        "the file was changed"
    );
}

#[test]
fn a_file_that_is_no_whole_database_is_reported_and_left_alone() {
    let whole = Place::new();
    drop(whole.open());
    let good = std::fs::read(&whole.path).expect("bytes");
    let foreign = tempfile::tempdir().expect("a temporary folder");
    let foreign_path = foreign.path().join("other.db");
    Connection::open(&foreign_path)
        .and_then(|connection| connection.execute_batch("CREATE TABLE notes (x)"))
        .expect("another program's database");
    let mut scrambled = good.clone();
    scrambled[100..1000].fill(0xa5);
    for (what, bytes) in [
        ("empty", Vec::new()),
        ("text", b"these are my notes, not a database\n".repeat(9)),
        ("short", good[..60].to_vec()),
        ("truncated", good[..good.len() / 2].to_vec()),
        ("scrambled", scrambled),
        ("foreign", std::fs::read(&foreign_path).expect("bytes")),
    ] {
        let place = Place::new();
        std::fs::write(&place.path, &bytes).expect("write");
        for opened in [
            SqliteState::open(&place.path, &ManualClock::default()),
            SqliteState::open_read_only(&place.path),
        ] {
            assert!(
                matches!(opened, Err(StoreError::Damaged { .. })),
                "{what}: {opened:?}"
            );
        }
        assert!(
            std::fs::read(&place.path).expect("bytes") == bytes,
            "{what} was changed"
        );
    }
}

#[test]
fn a_missing_file_with_a_log_is_damage_and_an_unfinished_creation_is_not() {
    let place = Place::new();
    std::fs::write(migrate::beside(&place.path, ".new"), "half of a database").expect("write");
    drop(place.open());
    std::fs::remove_file(&place.path).expect("remove");
    std::fs::write(migrate::beside(&place.path, "-wal"), "frames").expect("write");
    let opened = SqliteState::open(&place.path, &ManualClock::default());
    assert!(
        matches!(opened, Err(StoreError::Damaged { .. })),
        "{opened:?}"
    );
}

#[test]
fn a_flushed_write_is_flushed_whatever_became_of_the_one_before() {
    let place = Place::new();
    let state = place.open();
    let flushing = |transaction: &Transaction<'_>| {
        transaction
            .pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))
            .map_err(sql("read a setting"))
    };
    let (normal, full) = (1, 2);
    assert_eq!(state.write_blocking(flushing).expect("read"), full);
    assert_eq!(
        state.write_unflushed_blocking(flushing).expect("read"),
        normal
    );
    assert_eq!(state.write_blocking(flushing).expect("read"), full);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        state.write_unflushed_blocking(|_| -> StoreResult<()> { panic!("in the middle") })
    }));
    assert!(panicked.is_err());
    assert_eq!(state.write_blocking(flushing).expect("read"), full);
    let failed: StoreResult<()> = state.write_unflushed_blocking(|_| {
        Err(StoreError::NotFound {
            what: "x".to_owned(),
        })
    });
    assert!(failed.is_err());
    assert_eq!(state.write_blocking(flushing).expect("read"), full);
}
