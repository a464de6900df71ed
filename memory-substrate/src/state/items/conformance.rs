//! What every item store must do, checked through the trait alone.
//!
//! Each check takes an empty store. The module at the end runs all of them against the database and against the model in
//! memory, so that what one of them does by accident is noticed.

use std::collections::BTreeMap;

use memory_core::item::{
    Actor, Change, Citation, Claim, Commit, Committed, Consumer, Evidence, EvidenceId,
    ForgetReason, Head, Interval, Item, ItemError, ItemId, ItemQuery, ItemState, LedgerError,
    LedgerResult, NewItem, Operation, OperationKey, Processed, Revision, SHORT_TERM_MS,
};
use memory_core::provenance::{Authority, Channel, Origin, Trust};
use memory_core::store::{ItemStore, OUTBOX_ATTEMPTS, OutboxBacklog, Released};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

pub(super) const fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(super) fn id(name: &str) -> ItemId {
    ItemId::minted(name).unwrap()
}

pub(super) fn evidence(names: &[&str]) -> BTreeMap<EvidenceId, Evidence> {
    let piece = |name: &str| Evidence {
        source: format!("source of {name}"),
        trust: Trust::Trusted,
    };
    names
        .iter()
        .map(|name| (EvidenceId::parse(name).unwrap(), piece(name)))
        .collect()
}

pub(super) fn new_item(text: &str, channel: &str) -> NewItem {
    NewItem {
        claim: Claim::new(text).unwrap(),
        channel: Channel::parse(channel),
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        valid: Interval::default(),
        evidence: evidence(&["turn1"]),
    }
}

pub(super) fn process(text: &str) -> Change {
    Change::Process(Processed {
        claim: Claim::new(text).unwrap(),
        processor: "rules".to_owned(),
        version: "1".to_owned(),
    })
}

pub(super) fn operation(key: &str, item: &str, expected: u32, change: Change) -> Operation {
    Operation {
        key: OperationKey::parse(key).unwrap(),
        item: id(item),
        expected: Revision::new(expected),
        change,
        citations: None,
    }
}

pub(super) fn owner(now: i64, operations: Vec<Operation>) -> Commit {
    Commit {
        actor: Actor::Owner("cli".to_owned()),
        at: at(now),
        expected_head: None,
        operations,
    }
}

/// Adds an item that is processed at once.
pub(super) async fn learn(store: &dyn ItemStore, name: &str, text: &str, channel: &str, now: i64) {
    let add = Change::Add(new_item(text, channel));
    let operations = vec![
        operation(&format!("add-{name}"), name, 0, add),
        operation(&format!("process-{name}"), name, 1, process(text)),
    ];
    store.commit_items(owner(now, operations)).await.unwrap();
}

async fn one(store: &dyn ItemStore, now: i64, one: Operation) -> LedgerResult<Committed> {
    let mut done = store.commit_items(owner(now, vec![one])).await?;
    assert_eq!(done.len(), 1);
    Ok(done.remove(0))
}

async fn live(store: &dyn ItemStore, name: &str) -> Item {
    let state = store.item_state(&id(name)).await.unwrap();
    state.unwrap().live().unwrap().clone()
}

fn asked(consumer: Consumer, now: i64, channels: &[&str]) -> ItemQuery {
    ItemQuery {
        channels: channels.iter().map(|name| Channel::parse(name)).collect(),
        ..ItemQuery::new(Authority::Owner, consumer, at(now))
    }
}

async fn found(store: &dyn ItemStore, query: ItemQuery) -> Vec<String> {
    let items = store.items(query).await.unwrap();
    let name = |item: &Item| item.id.as_str().trim_start_matches("mem_").to_owned();
    items.iter().map(name).collect()
}

pub(super) async fn the_same_key_gives_the_first_result(store: &dyn ItemStore) {
    let add = operation(
        "k1",
        "a",
        0,
        Change::Add(new_item("Ada likes kiwis", "_global")),
    );
    let first = one(store, 5, add.clone()).await.unwrap();
    let processed = operation("k2", "a", 1, process("Ada likes kiwis"));
    one(store, 6, processed).await.unwrap();
    let head = store.ledger_head().await.unwrap();

    let again = one(store, 99, add.clone()).await.unwrap();
    assert_eq!(
        again,
        Committed {
            replayed: true,
            ..first
        }
    );
    // However far the ledger has gone on.
    let stale = Commit {
        expected_head: Some(Head::genesis()),
        ..owner(99, vec![add])
    };
    assert!(store.commit_items(stale).await.unwrap()[0].replayed);

    for other in [
        operation(
            "k1",
            "a",
            0,
            Change::Add(new_item("Ada likes plums", "_global")),
        ),
        operation(
            "k1",
            "b",
            0,
            Change::Add(new_item("Ada likes kiwis", "_global")),
        ),
        operation("k1", "a", 2, Change::Promote),
    ] {
        let refused = one(store, 99, other).await;
        assert!(
            matches!(refused, Err(LedgerError::KeyReused { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(store.ledger_head().await.unwrap(), head);
    assert_eq!(live(store, "a").await.revision.get(), 2);
}

pub(super) async fn what_is_stale_changes_nothing(store: &dyn ItemStore) {
    learn(store, "a", "Ada likes kiwis", "_global", 5).await;
    let before = (live(store, "a").await, store.ledger_head().await.unwrap());
    for expected in [0, 1, 3] {
        let refused = one(store, 9, operation("k", "a", expected, Change::Promote)).await;
        let Err(LedgerError::StaleRevision { found, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(found, Revision::new(2));
    }
    let promote = || vec![operation("k", "a", 2, Change::Promote)];
    let stale = Commit {
        expected_head: Some(Head::genesis()),
        ..owner(9, promote())
    };
    let refused = store.commit_items(stale).await;
    assert!(
        matches!(refused, Err(LedgerError::StaleHead { .. })),
        "{refused:?}"
    );
    assert_eq!(
        (live(store, "a").await, store.ledger_head().await.unwrap()),
        before
    );
    let fresh = Commit {
        expected_head: Some(before.1),
        ..owner(9, promote())
    };
    store.commit_items(fresh).await.unwrap();
    assert_eq!(store.outbox_backlog().await.unwrap().waiting, 3);
}

pub(super) async fn a_commit_is_all_or_nothing(store: &dyn ItemStore) {
    learn(store, "old", "Ada likes kiwis", "_global", 5).await;
    let head = store.ledger_head().await.unwrap();
    let supersede = |by: &str| Change::Supersede { by: id(by) };
    let add = || {
        operation(
            "k1",
            "new",
            0,
            Change::Add(new_item("Ada likes plums", "_global")),
        )
    };
    // The new one is not processed, so it cannot take the other one's place yet.
    let commit = owner(6, vec![add(), operation("k2", "old", 2, supersede("new"))]);
    let refused = store.commit_items(commit).await;
    assert!(
        matches!(refused, Err(LedgerError::Refused { .. })),
        "{refused:?}"
    );
    assert_eq!(store.item_state(&id("new")).await.unwrap(), None);
    assert_eq!(store.ledger_head().await.unwrap(), head);

    let unknown = one(store, 6, operation("k2", "old", 2, supersede("nobody"))).await;
    assert!(
        matches!(unknown, Err(LedgerError::Unknown { .. })),
        "{unknown:?}"
    );
    let commit = owner(
        6,
        vec![
            add(),
            operation("k3", "new", 1, process("Ada likes plums")),
            operation("k2", "old", 2, supersede("new")),
        ],
    );
    let done = store.commit_items(commit.clone()).await.unwrap();
    assert_eq!(done.last().unwrap().head.sequence, head.sequence + 3);
    let again = store.commit_items(commit).await.unwrap();
    assert!(again.iter().all(|done| done.replayed));
}

pub(super) async fn both_times_are_answered_for(store: &dyn ItemStore) {
    let mut old = new_item("Ada lives in Bern", "_global");
    old.valid = Interval::new(Some(at(100)), None).unwrap();
    let mut new = new_item("Ada lives in Rome", "_global");
    new.valid = Interval::new(Some(at(500)), None).unwrap();
    let commit = owner(
        200,
        vec![
            operation("1", "bern", 0, Change::Add(old)),
            operation("2", "bern", 1, process("Ada lives in Bern")),
        ],
    );
    store.commit_items(commit).await.unwrap();
    let commit = owner(
        1000,
        vec![
            operation("3", "rome", 0, Change::Add(new)),
            operation("4", "rome", 1, process("Ada lives in Rome")),
            operation("5", "bern", 2, Change::Supersede { by: id("rome") }),
        ],
    );
    store.commit_items(commit).await.unwrap();
    for (as_of, known_at, expected) in [
        (None, None, vec!["rome"]),
        (Some(300), None, vec!["bern"]),
        (Some(499), None, vec!["bern"]),
        (Some(500), None, vec!["rome"]),
        (Some(50), None, vec![]),
        // What was believed then about that time.
        (Some(700), Some(900), vec!["bern"]),
        (None, Some(999), vec!["bern"]),
        (None, Some(1000), vec!["rome"]),
        (None, Some(199), vec![]),
    ] {
        let query = ItemQuery {
            as_of: as_of.map(at),
            known_at: known_at.map(at),
            ..asked(Consumer::Agent, 2000, &[])
        };
        assert_eq!(
            found(store, query).await,
            expected,
            "{as_of:?} {known_at:?}"
        );
    }
    let correct = Change::Correct {
        claim: Claim::new("Ada lives in Roma").unwrap(),
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        evidence: BTreeMap::new(),
        valid: None,
    };
    let commit = owner(
        3000,
        vec![
            operation("6", "rome", 2, correct),
            operation("7", "rome", 3, process("Ada lives in Roma")),
            operation("8", "rome", 4, Change::Distrust),
        ],
    );
    store.commit_items(commit).await.unwrap();
    let before = ItemQuery {
        known_at: Some(at(1500)),
        ..asked(Consumer::Listing, 4000, &[])
    };
    let items = store.items(before.clone()).await.unwrap();
    assert_eq!(
        items[0].claim.as_str(),
        "Ada lives in Rome",
        "as it was known then"
    );
    let to_an_agent = ItemQuery {
        consumer: Consumer::Agent,
        ..before
    };
    assert_eq!(
        found(store, to_an_agent).await,
        Vec::<String>::new(),
        "trust was lost since"
    );
}

pub(super) async fn a_narrower_channel_hides_a_broader_one_from_its_readers(store: &dyn ItemStore) {
    learn(store, "broad", "tabs are four wide", "_global", 5).await;
    learn(store, "narrow", "tabs are two wide", "_project_atlas", 6).await;
    let shadow = Change::Shadow { over: id("broad") };
    one(store, 7, operation("k", "narrow", 2, shadow))
        .await
        .unwrap();
    let agent = |channels: &'static [&'static str]| asked(Consumer::Agent, 9, channels);
    assert_eq!(found(store, agent(&["_project_atlas"])).await, ["narrow"]);
    assert_eq!(found(store, agent(&[])).await, ["broad"]);
    let named = ItemQuery {
        only: vec![id("broad")],
        ..agent(&["_project_atlas"])
    };
    assert_eq!(
        found(store, named).await,
        Vec::<String>::new(),
        "by name as well"
    );
    let earlier = ItemQuery {
        known_at: Some(at(6)),
        ..agent(&["_project_atlas"])
    };
    assert_eq!(found(store, earlier).await, ["narrow", "broad"]);
    let list = asked(Consumer::Listing, 9, &["_project_atlas"]);
    assert_eq!(found(store, list).await, ["narrow", "broad"]);
    one(store, 8, operation("k2", "narrow", 3, Change::Archive))
        .await
        .unwrap();
    assert_eq!(found(store, agent(&["_project_atlas"])).await, ["broad"]);
}

pub(super) async fn reads_are_filtered_ordered_and_cut(store: &dyn ItemStore) {
    learn(store, "b", "two", "_global", 5).await;
    learn(store, "a", "one", "_global", 5).await;
    learn(store, "c", "three", "_project_atlas", 7).await;
    learn(store, "d", "four", "ada", 8).await;
    let add = Change::Add(new_item("five", "_global"));
    one(store, 9, operation("k", "e", 0, add)).await.unwrap();
    for (consumer, expected) in [
        (Consumer::Listing, vec!["e", "c", "a", "b"]),
        (Consumer::Buffer, vec!["e", "c", "a", "b"]),
        (Consumer::Agent, vec!["c", "a", "b"]),
        (Consumer::Index, vec!["d", "c", "a", "b"]),
    ] {
        let query = asked(consumer, 20, &["_project_atlas"]);
        assert_eq!(found(store, query.clone()).await, expected, "{consumer:?}");
        let first = ItemQuery {
            limit: 2,
            ..query.clone()
        };
        assert_eq!(found(store, first).await, expected[..2], "{consumer:?}");
        let nobody = ItemQuery {
            requester: Authority::None,
            ..query.clone()
        };
        assert_eq!(found(store, nobody).await, Vec::<String>::new());
        let paired = ItemQuery {
            requester: Authority::Paired,
            ..query
        };
        let shared = if consumer == Consumer::Index {
            vec![]
        } else {
            vec!["c"]
        };
        assert_eq!(found(store, paired).await, shared, "{consumer:?}");
    }
    let hash = Claim::new(" ONE ").unwrap().claim_hash();
    let same = ItemQuery {
        claim_hash: Some(hash),
        ..asked(Consumer::Agent, 20, &[])
    };
    assert_eq!(found(store, same).await, ["a"]);
    let named = ItemQuery {
        only: vec![id("b"), id("d"), id("x")],
        ..asked(Consumer::Agent, 20, &[])
    };
    assert_eq!(found(store, named).await, ["b"]);
}

pub(super) async fn forgetting_takes_everything_but_the_fact(store: &dyn ItemStore) {
    learn(store, "a", "Ada likes kiwis", "_global", 5).await;
    let page = Slug::parse("fruit").unwrap();
    let cite = Operation {
        citations: Some(vec![Citation {
            page: page.clone(),
            section: None,
            evidence: None,
        }]),
        ..operation("cite", "a", 2, Change::Cite)
    };
    one(store, 6, cite).await.unwrap();
    let forget = || Change::Forget {
        reason: ForgetReason::Owner,
    };
    let system = Commit {
        actor: Actor::System("sweep".to_owned()),
        ..owner(
            7,
            vec![operation(
                "f",
                "a",
                3,
                Change::Forget {
                    reason: ForgetReason::SourceDeleted,
                },
            )],
        )
    };
    let denied = store.commit_items(system).await;
    assert!(
        matches!(denied, Err(LedgerError::Denied { .. })),
        "{denied:?}"
    );
    let first = one(store, 7, operation("f", "a", 3, forget()))
        .await
        .unwrap();
    assert_eq!(
        one(store, 9, operation("f", "a", 3, forget()))
            .await
            .unwrap(),
        Committed {
            replayed: true,
            ..first
        }
    );

    let Some(ItemState::Forgotten(tombstone)) = store.item_state(&id("a")).await.unwrap() else {
        panic!("a tombstone should be left")
    };
    assert_eq!(
        (tombstone.revision.get(), tombstone.forgotten_at),
        (4, at(7))
    );
    assert!(store.citations(&id("a")).await.unwrap().is_empty());
    assert!(store.cited_on(&page).await.unwrap().is_empty());
    for known_at in [None, Some(at(5)), Some(at(6))] {
        let query = ItemQuery {
            known_at,
            ..asked(Consumer::Listing, 9, &[])
        };
        assert_eq!(
            found(store, query).await,
            Vec::<String>::new(),
            "{known_at:?}"
        );
    }
    let add = Change::Add(new_item("Ada likes kiwis", "_global"));
    let replayed = one(store, 9, operation("add-a", "a", 0, add.clone()))
        .await
        .unwrap();
    assert!(
        replayed.replayed,
        "the operation that learnt it does not bring it back"
    );
    let anew = one(store, 9, operation("other", "a", 0, add)).await;
    assert!(
        matches!(anew, Err(LedgerError::StaleRevision { .. })),
        "{anew:?}"
    );
    let restored = one(store, 9, operation("other", "a", 4, Change::Restore)).await;
    assert!(
        matches!(restored, Err(LedgerError::Forgotten { .. })),
        "{restored:?}"
    );
    assert!(store.verify_ledger().await.unwrap().faults.is_empty());
}

pub(super) async fn citations_follow_their_item(store: &dyn ItemStore) {
    learn(store, "a", "Ada likes kiwis", "_global", 5).await;
    learn(store, "b", "Ada likes plums", "_global", 5).await;
    let fruit = Slug::parse("fruit").unwrap();
    let citation = |evidence: Option<&str>| Citation {
        page: fruit.clone(),
        section: Some(SectionId::lead(fruit.clone())),
        evidence: evidence.map(|name| EvidenceId::parse(name).unwrap()),
    };
    let cite = |key: &str, item: &str, revision, citations: Vec<Citation>| Operation {
        citations: Some(citations),
        ..operation(key, item, revision, Change::Cite)
    };
    let both = vec![citation(None), citation(Some("turn1")), citation(None)];
    one(store, 6, cite("1", "a", 2, both)).await.unwrap();
    one(store, 6, cite("2", "b", 2, vec![citation(Some("turn1"))]))
        .await
        .unwrap();
    let expected = [citation(None), citation(Some("turn1"))];
    assert_eq!(store.citations(&id("a")).await.unwrap(), expected);
    let on_page = store.cited_on(&fruit).await.unwrap();
    let names: Vec<&str> = on_page.iter().map(|(item, _)| item.as_str()).collect();
    assert_eq!(names, ["mem_a", "mem_a", "mem_b"]);
    // A change that says nothing of citations leaves them.
    one(store, 7, operation("3", "a", 3, Change::Promote))
        .await
        .unwrap();
    assert_eq!(store.citations(&id("a")).await.unwrap(), expected);
    let unknown = one(store, 8, cite("4", "a", 4, vec![citation(Some("turn9"))])).await;
    assert!(
        matches!(unknown, Err(LedgerError::Refused { .. })),
        "{unknown:?}"
    );
    one(store, 8, cite("5", "a", 4, Vec::new())).await.unwrap();
    assert!(store.citations(&id("a")).await.unwrap().is_empty());
}

pub(super) async fn evidence_counts_once(store: &dyn ItemStore) {
    learn(store, "a", "Ada likes kiwis", "_global", 5).await;
    let corroborate = |names: &[&str]| Change::Corroborate {
        evidence: evidence(names),
    };
    let same = one(store, 6, operation("1", "a", 2, corroborate(&["turn1"]))).await;
    let Err(LedgerError::Refused { source, .. }) = same else {
        panic!("{same:?}")
    };
    assert_eq!(
        source,
        ItemError::NothingNew {
            change: "corroborate"
        }
    );
    one(
        store,
        7,
        operation("2", "a", 2, corroborate(&["turn1", "turn2"])),
    )
    .await
    .unwrap();
    let item = live(store, "a").await;
    assert_eq!((item.corroborations(), item.evidence.len()), (2, 2));
    assert_eq!(item.layer.expires_at(), Some(at(7 + SHORT_TERM_MS)));
}

pub(super) async fn events_come_in_order_until_they_are_dealt_with(store: &dyn ItemStore) {
    learn(store, "a", "one", "_global", 5).await;
    learn(store, "b", "two", "_global", 6).await;
    let take = |now| store.lease_outbox(at(now), 100, 10);
    let first = take(10).await.unwrap();
    let seen: Vec<_> = first
        .iter()
        .map(|event| (event.item.as_str(), event.revision.get(), event.token))
        .collect();
    assert_eq!(
        seen,
        [("mem_a", 1, 1), ("mem_b", 1, 1)],
        "the oldest of each item"
    );
    assert!(take(11).await.unwrap().is_empty(), "they are held");

    store
        .ack_outbox(first[0].event, first[0].token)
        .await
        .unwrap();
    let second = take(12).await.unwrap();
    let seen: Vec<_> = second
        .iter()
        .map(|event| (event.item.as_str(), event.revision.get()))
        .collect();
    assert_eq!(seen, [("mem_a", 2)]);
    let twice = store.ack_outbox(first[0].event, first[0].token).await;
    assert!(
        matches!(twice, Err(LedgerError::LeaseLost { .. })),
        "{twice:?}"
    );

    // The taker of the other one does not come back in time.
    let retaken = take(111).await.unwrap();
    let seen: Vec<_> = retaken
        .iter()
        .map(|event| (event.event, event.token))
        .collect();
    assert_eq!(seen, [(first[1].event, 2)]);
    let late = store.ack_outbox(first[1].event, 1).await;
    assert!(
        matches!(late, Err(LedgerError::LeaseLost { .. })),
        "{late:?}"
    );
    let late = store.release_outbox(first[1].event, 1, at(112)).await;
    assert!(
        matches!(late, Err(LedgerError::LeaseLost { .. })),
        "{late:?}"
    );

    let mut now = 112;
    let mut token = 2;
    while token < OUTBOX_ATTEMPTS {
        let released = store
            .release_outbox(first[1].event, token, at(now))
            .await
            .unwrap();
        let Released::Retry(again) = released else {
            panic!("{released:?}")
        };
        store
            .ack_outbox(second[0].event, second[0].token)
            .await
            .ok();
        let early = again.plus_millis(-1);
        assert!(
            store
                .lease_outbox(early, 1_000_000_000, 10)
                .await
                .unwrap()
                .is_empty()
        );
        now = again.as_millis();
        token += 1;
        let anew = store.lease_outbox(again, 1_000_000_000, 10).await.unwrap();
        assert_eq!(anew.len(), 1);
        assert_eq!((anew[0].event, anew[0].token), (first[1].event, token));
    }
    let released = store
        .release_outbox(first[1].event, token, at(now))
        .await
        .unwrap();
    assert_eq!(released, Released::Dead);
    assert_eq!(
        store.outbox_backlog().await.unwrap(),
        OutboxBacklog {
            waiting: 1,
            dead: 1
        }
    );
    // What was given up does not hold up what came after it.
    let after = store.lease_outbox(at(now), 1, 10).await.unwrap();
    assert_eq!(
        (after[0].item.as_str(), after[0].revision.get()),
        ("mem_b", 2)
    );
    // Neither does one whose takers never come back.
    for _ in 1..OUTBOX_ATTEMPTS {
        now += 1;
        assert_eq!(store.lease_outbox(at(now), 1, 10).await.unwrap().len(), 1);
    }
    assert!(
        store
            .lease_outbox(at(now + 1), 1, 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        store.outbox_backlog().await.unwrap(),
        OutboxBacklog {
            waiting: 0,
            dead: 2
        }
    );
}

pub(super) async fn a_clock_that_is_set_back_does_not_turn_the_ledger_round(store: &dyn ItemStore) {
    learn(store, "a", "one", "_global", 100).await;
    let done = one(store, 50, operation("k", "a", 2, Change::Promote))
        .await
        .unwrap();
    assert_eq!(done.at, at(100));
    learn(store, "b", "two", "_global", 20).await;
    assert_eq!(live(store, "b").await.learnt, at(100));
    let check = store.verify_ledger().await.unwrap();
    assert_eq!((check.operations, check.faults.len()), (5, 0));
}

macro_rules! conforms {
    ($($check:ident),* $(,)?) => {
        mod in_the_database {
            use memory_core::env::ManualClock;

            use crate::state::SqliteState;

            $(#[tokio::test]
            async fn $check() {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("state.db");
                let state = SqliteState::open(&path, &ManualClock::default()).unwrap();
                super::$check(&state).await;
            })*
        }

        mod in_memory {
            use super::super::model::MemoryItems;

            $(#[tokio::test]
            async fn $check() {
                super::$check(&MemoryItems::default()).await;
            })*
        }
    };
}

conforms!(
    the_same_key_gives_the_first_result,
    what_is_stale_changes_nothing,
    a_commit_is_all_or_nothing,
    both_times_are_answered_for,
    a_narrower_channel_hides_a_broader_one_from_its_readers,
    reads_are_filtered_ordered_and_cut,
    forgetting_takes_everything_but_the_fact,
    citations_follow_their_item,
    evidence_counts_once,
    events_come_in_order_until_they_are_dealt_with,
    a_clock_that_is_set_back_does_not_turn_the_ledger_round,
);
