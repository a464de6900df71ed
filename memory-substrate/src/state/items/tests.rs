//! Tests of what only the database can get wrong: its constraints, its transactions, its chain.

use std::path::PathBuf;
use std::sync::Arc;

use memory_core::env::ManualClock;
use memory_core::item::{
    Actor, Change, Claim, Commit, Consumer, ForgetReason, Interval, ItemQuery, LedgerError,
    Operation, OperationKey, Revision,
};
use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::store::{ItemStore, StoreError};
use memory_core::text::slug::Slug;
use proptest::prelude::*;
use rusqlite::Connection;

use super::conformance::{at, evidence, id, learn, new_item, operation, owner, process};
use super::model::MemoryItems;
use super::{SqliteState, ledger};

struct Place {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        Self {
            _folder: folder,
            path,
        }
    }

    fn open(&self) -> SqliteState {
        SqliteState::open(&self.path, &ManualClock::default()).unwrap()
    }

    fn raw(&self) -> Connection {
        let connection = Connection::open(&self.path).unwrap();
        connection
            .execute_batch("PRAGMA foreign_keys = ON")
            .unwrap();
        connection
    }
}

const TABLES: [&str; 7] = [
    "item_operations",
    "item_revisions",
    "item_evidence",
    "item_shadows",
    "item_citation",
    "item_outbox",
    "item_head",
];

/// Returns every row of every table of items, as text.
fn dump(connection: &Connection) -> Vec<String> {
    let mut rows = Vec::new();
    for table in TABLES {
        let mut statement = connection
            .prepare(&format!("SELECT * FROM {table}"))
            .unwrap();
        let columns = statement.column_count();
        let mut found = statement.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let values: Vec<_> = (0..columns)
                .map(|column| row.get::<_, rusqlite::types::Value>(column).unwrap())
                .collect();
            rows.push(format!("{table} {values:?}"));
        }
    }
    rows
}

/// A commit that writes to every table.
fn everything(now: i64) -> Commit {
    let cite = memory_core::item::Citation {
        page: Slug::parse("fruit").unwrap(),
        section: None,
        evidence: None,
    };
    let correct = Change::Correct {
        claim: Claim::new("two wide").unwrap(),
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        evidence: evidence(&["turn2"]),
        valid: None,
    };
    let shadow = Operation {
        citations: Some(vec![cite]),
        ..operation("4", "narrow", 2, Change::Shadow { over: id("broad") })
    };
    let forget = Change::Forget {
        reason: ForgetReason::Owner,
    };
    owner(
        now,
        vec![
            operation(
                "1",
                "narrow",
                0,
                Change::Add(new_item("two", "_project_atlas")),
            ),
            operation("2", "narrow", 1, correct),
            shadow,
            operation("5", "old", 2, forget),
        ],
    )
}

#[tokio::test]
async fn items_survive_a_restart() {
    let place = Place::new();
    {
        let state = place.open();
        learn(&state, "broad", "four wide", "_global", 1).await;
        learn(&state, "old", "x", "_global", 1).await;
        state.commit_items(everything(5)).await.unwrap();
    }
    let state = place.open();
    let item = state.item_state(&id("narrow")).await.unwrap().unwrap();
    let item = item.live().unwrap();
    assert_eq!(
        (item.revision.get(), item.evidence.len(), item.shadows.len()),
        (3, 2, 1)
    );
    let check = state.verify_ledger().await.unwrap();
    assert_eq!((check.operations, check.faults), (8, Vec::new()));
}

#[tokio::test]
async fn a_failure_at_any_statement_leaves_nothing() {
    let place = Place::new();
    let state = place.open();
    learn(&state, "broad", "four wide", "_global", 1).await;
    learn(&state, "old", "x", "_global", 1).await;
    let raw = place.raw();
    let before = dump(&raw);
    // The transaction is dropped at its end as well, as if the process had died before it committed.
    let run = || {
        let mut reached_the_end = false;
        let dropped: Result<(), _> = state.write_blocking(|transaction| {
            ledger::commit(transaction, &everything(5))?;
            reached_the_end = true;
            Err(StoreError::BadRequest {
                reason: "the end".to_owned(),
            })
        });
        dropped.unwrap_err();
        reached_the_end
    };
    assert!(run());
    let mut failed = Vec::new();
    for table in TABLES {
        for event in ["INSERT", "UPDATE", "DELETE"] {
            raw.execute_batch(&format!(
                "CREATE TRIGGER failpoint BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT, 'failpoint'); END"
            ))
            .unwrap();
            if !run() {
                failed.push(format!("{event} {table}"));
            }
            raw.execute_batch("DROP TRIGGER failpoint").unwrap();
            assert!(dump(&raw) == before, "{event} of {table} left something");
        }
    }
    assert_eq!(
        failed,
        [
            "INSERT item_operations",
            "UPDATE item_operations",
            "INSERT item_revisions",
            "UPDATE item_revisions",
            "DELETE item_revisions",
            "INSERT item_evidence",
            "DELETE item_evidence",
            "INSERT item_shadows",
            "INSERT item_citation",
            "INSERT item_outbox",
            "UPDATE item_head",
        ]
    );
    state.commit_items(everything(5)).await.unwrap();
}

#[tokio::test]
async fn nothing_of_a_forgotten_item_is_left_in_any_row() {
    let place = Place::new();
    let state = place.open();
    learn(&state, "old", "Ada likes kiwis", "_global", 1).await;
    let raw = place.raw();
    let said = |rows: &[String]| {
        rows.iter()
            .any(|row| row.contains("kiwis") || row.contains("turn1"))
    };
    assert!(said(&dump(&raw)));
    let salts = "SELECT count(salt) FROM item_operations WHERE revision < 3";
    let forget = Change::Forget {
        reason: ForgetReason::Owner,
    };
    let commit = owner(5, vec![operation("f", "old", 2, forget)]);
    state.commit_items(commit).await.unwrap();
    assert!(!said(&dump(&raw)));
    let left: i64 = raw.query_row(salts, [], |row| row.get(0)).unwrap();
    assert_eq!(
        left, 0,
        "with a salt a short text could be guessed from its digest"
    );
    assert!(state.verify_ledger().await.unwrap().faults.is_empty());
}

#[tokio::test]
async fn rows_that_must_not_exist_are_refused_whoever_writes_them() {
    let place = Place::new();
    let state = place.open();
    learn(&state, "broad", "four wide", "_global", 1).await;
    learn(&state, "old", "x", "_global", 1).await;
    state.commit_items(everything(5)).await.unwrap();
    learn(&state, "late", "later", "_project_atlas", 6).await;
    let raw = place.raw();
    let processed = "WHERE item = 'mem_late' AND revision = 2";
    let refused = [
        "layer = 'forever'",
        "layer = 'long_term'",
        "layer = 'long_term', expires_at = NULL, processing = 'pending', receipt = NULL",
        "layer = 'archive', expires_at = NULL",
        "layer = 'archive', expires_at = NULL, archived_from = 'archive'",
        "expires_at = NULL",
        "expires_at = learnt",
        "processing = 'pending'",
        "processing = 'blocked', receipt = NULL",
        "processing = 'blocked', receipt = NULL, blocked_reason = ' '",
        "receipt = NULL",
        "receipt = '{}'",
        "receipt = json_set(receipt, '$.output_hash', 'other')",
        "receipt = json_set(receipt, '$.output_revision', 7)",
        "text_hash = replace(text_hash, substr(text_hash, 1, 1), 'x')",
        "claim = NULL",
        "claim = ' '",
        "origin = 'hearsay'",
        "authority = 'none'",
        "origin = 'user_file', authority = 'paired'",
        "origin = 'import'",
        "trust = 'half'",
        "trust = NULL",
        "endorsed = NULL",
        "valid_from = 2, valid_to = 1",
        "status = 'superseded'",
        "status = 'superseded', status_at = 9, superseded_by = 'mem_broad'",
        "status = 'superseded', status_at = 9, superseded_by = 'mem_late', valid_to = 9",
        "status = 'superseded', status_at = 9, superseded_by = 'mem_broad', valid_to = 9, reopens = 8",
        "reopens = 9, valid_to = 9",
        "status_at = 9",
        "status = 'expired', status_at = 9",
        "status = 'forgotten', status_at = 9, forget_reason = 'owner'",
        "forget_reason = 'owner'",
        "known_to = known_from - 1",
        "learnt = known_from + 1",
        "item = 'late'",
        "revision = 0",
        "revision = 1",
        "operation = 99",
        "channel = ''",
    ];
    for change in refused {
        let result = raw.execute(
            &format!("UPDATE item_revisions SET {change} {processed}"),
            [],
        );
        assert!(result.is_err(), "`{change}` was accepted");
    }
    for (what, statement) in [
        (
            "a second newest revision",
            "UPDATE item_revisions SET known_to = NULL WHERE item = 'mem_late'",
        ),
        (
            "a tombstone that still speaks",
            "UPDATE item_revisions SET claim = 'x' WHERE status = 'forgotten'",
        ),
        (
            "a forgotten item that has a time",
            "UPDATE item_revisions SET valid_to = 9 WHERE status = 'forgotten'",
        ),
        (
            "an unknown change",
            "UPDATE item_operations SET change = 'rewrite' WHERE sequence = 2",
        ),
        (
            "an addition of a later revision",
            "UPDATE item_operations SET change = 'add' WHERE revision = 2",
        ),
        ("a key twice", "UPDATE item_operations SET key = '1'"),
        (
            "two operations after one",
            "UPDATE item_operations SET previous = hash",
        ),
        (
            "a second head",
            "INSERT INTO item_head SELECT 2, sequence, hash, at FROM item_head",
        ),
        (
            "evidence without a source",
            "UPDATE item_evidence SET source = ' '",
        ),
        (
            "an item that shadows itself",
            "UPDATE item_shadows SET shadowed = item",
        ),
        (
            "a citation of unknown evidence",
            "UPDATE item_citation SET evidence = 'turn99'",
        ),
        (
            "word of no operation",
            "INSERT INTO item_outbox (item, revision, operation, available_at) VALUES ('mem_a', 1, 99, 0)",
        ),
        (
            "a number where a text must be",
            "UPDATE item_revisions SET learnt = 'yesterday'",
        ),
        (
            "removing what happened",
            "DELETE FROM item_operations WHERE item = 'mem_late'",
        ),
    ] {
        assert!(raw.execute(statement, []).is_err(), "{what} was accepted");
    }
    assert!(state.verify_ledger().await.unwrap().faults.is_empty());
}

#[tokio::test]
async fn tampering_is_found_and_named() {
    for (statement, sequence, reason) in [
        ("UPDATE item_revisions SET claim = 'forged', claim_hash = claim_hash WHERE operation = 3", 3, "was changed"),
        ("UPDATE item_revisions SET channel = 'ada' WHERE operation = 4", 4, "was changed"),
        ("UPDATE item_revisions SET known_from = known_from + 1 WHERE operation = 4", 4, "not where its operation put it"),
        ("UPDATE item_revisions SET trust = 'untrusted' WHERE operation = 4", 4, "was changed"),
        ("DELETE FROM item_revisions WHERE operation = 3", 3, "is missing"),
        ("UPDATE item_evidence SET source = 'elsewhere' WHERE item = 'mem_b'", 3, "was changed"),
        ("UPDATE item_operations SET actor = 'system' WHERE sequence = 2", 2, "its row was changed"),
        ("UPDATE item_operations SET at = at + 1 WHERE sequence = 4", 4, "its row was changed"),
        ("UPDATE item_operations SET salt = NULL WHERE sequence = 3", 3, "its salt is missing"),
        ("UPDATE item_operations SET hash = upper(hash) WHERE sequence = 2", 2, "its row was changed"),
        ("UPDATE item_head SET sequence = 5", 5, "should end with operation 5"),
        (
            "DELETE FROM item_revisions WHERE item = 'mem_b'; DELETE FROM item_outbox WHERE item = 'mem_b';
             DELETE FROM item_operations WHERE item = 'mem_b'",
            4,
            "should end with operation 4 and ends with 2",
        ),
        (
            "DELETE FROM item_revisions WHERE item = 'mem_a'; DELETE FROM item_outbox WHERE item = 'mem_a';
             DELETE FROM item_operations WHERE item = 'mem_a'",
            1,
            "operations 1 to 2 are missing",
        ),
    ] {
        let place = Place::new();
        let state = place.open();
        learn(&state, "a", "one", "_global", 5).await;
        learn(&state, "b", "two", "_global", 6).await;
        assert!(state.verify_ledger().await.unwrap().faults.is_empty());
        place.raw().execute_batch(statement).unwrap();
        let faults = state.verify_ledger().await.unwrap().faults;
        assert!(
            faults.iter().any(|fault| fault.sequence == sequence && fault.reason.contains(reason)),
            "{statement}: {faults:?}"
        );
    }
}

#[tokio::test]
async fn of_writers_that_saw_the_same_one_wins() {
    let place = Place::new();
    let handles = [Arc::new(place.open()), Arc::new(place.open())];
    learn(&*handles[0], "a", "one", "_global", 5).await;
    let run = |key: fn(usize) -> String| {
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let state = Arc::clone(&handles[number % 2]);
                let head = Change::Distrust;
                let commit = owner(9, vec![operation(&key(number), "a", 2, head)]);
                tokio::spawn(async move { state.commit_items(commit).await })
            })
            .collect();
        async move {
            let mut results = Vec::new();
            for task in tasks {
                results.push(task.await.unwrap());
            }
            results
        }
    };
    let results = run(|number| format!("key{number}")).await;
    let won = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(won, 1);
    for result in results {
        assert!(
            matches!(result, Ok(_) | Err(LedgerError::StaleRevision { .. })),
            "{result:?}"
        );
    }
    let again = results_of_one_key(&handles).await;
    assert_eq!(again.iter().filter(|replayed| !**replayed).count(), 1);
    let check = handles[0].verify_ledger().await.unwrap();
    assert_eq!((check.operations, check.faults.len()), (4, 0));
}

/// Commits one operation from many tasks at once and says for each whether it had been there already.
async fn results_of_one_key(handles: &[Arc<SqliteState>; 2]) -> Vec<bool> {
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let state = Arc::clone(&handles[number % 2]);
            let commit = owner(9, vec![operation("shared", "a", 3, Change::Endorse)]);
            tokio::spawn(async move { state.commit_items(commit).await })
        })
        .collect();
    let mut replayed = Vec::new();
    for task in tasks {
        replayed.push(task.await.unwrap().unwrap()[0].replayed);
    }
    replayed
}

/// One step of a random history, as numbers that are made sense of when it is taken.
#[derive(Clone, Debug)]
struct Step {
    change: usize,
    item: usize,
    other: usize,
    actor: usize,
    passed: i64,
    /// Off the true revision, if not 0.
    stale: u32,
    /// Which earlier commit is repeated, if any.
    again: Option<usize>,
    /// Whether the operation takes another one's key.
    steals_key: bool,
    stale_head: u8,
    cites: bool,
    outbox: u8,
}

fn step() -> impl Strategy<Value = Step> {
    let numbers = (
        0_usize..22,
        0_usize..4,
        0_usize..4,
        0_usize..8,
        -10_i64..2_000_000_000,
    );
    let faults = (
        prop_oneof![9 => Just(0_u32), 1 => 1_u32..3],
        prop::option::weighted(0.1, 0_usize..40),
        prop::bool::weighted(0.05),
        0_u8..12,
        prop::bool::weighted(0.2),
        0_u8..6,
    );
    (numbers, faults).prop_map(|(numbers, faults)| {
        let (change, item, other, actor, passed) = numbers;
        let (stale, again, steals_key, stale_head, cites, outbox) = faults;
        Step {
            change,
            item,
            other,
            actor,
            passed,
            stale,
            again,
            steals_key,
            stale_head,
            cites,
            outbox,
        }
    })
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const CHANNELS: [&str; 4] = [
    "_global",
    "_project_atlas",
    "_project_atlas",
    "_conversation_c1",
];

fn change_of(step: &Step) -> Change {
    let other = id(NAMES[step.other]);
    let text = format!("claim {} {}", step.item, step.passed % 3);
    match step.change {
        0..=2 => {
            let mut new = new_item(&text, CHANNELS[step.other]);
            new.origin = [
                Origin::UserDirect,
                Origin::AssistantInferred,
                Origin::Import,
            ][step.change];
            new.authority = [Authority::Owner, Authority::Paired][usize::from(step.actor == 7)];
            let from = at(step.passed % 1000);
            new.valid = Interval::new((step.passed % 2 == 0).then_some(from), None).unwrap();
            Change::Add(new)
        }
        3..=6 => process(&text),
        7 => Change::Block {
            reason: "no".to_owned(),
        },
        8..=9 => Change::Promote,
        10 => Change::Corroborate {
            evidence: evidence(&["turn1", &format!("turn{}", step.other)]),
        },
        11..=12 => Change::Supersede { by: other },
        13..=14 => Change::Shadow { over: other },
        15 => Change::Archive,
        16 => Change::Restore,
        17 => Change::Expire,
        18 if step.passed % 3 == 0 => Change::Forget {
            reason: ForgetReason::Owner,
        },
        18 => Change::Cite,
        19 => Change::Correct {
            claim: Claim::new(&text).unwrap(),
            origin: [Origin::UserDirect, Origin::AssistantInferred][step.other % 2],
            authority: Authority::Owner,
            evidence: evidence(&["turn9"]),
            valid: None,
        },
        20 => Change::Endorse,
        _ => Change::Distrust,
    }
}

/// Returns an error's kind and what it says of items, without what differs between two ledgers.
fn kind(error: &LedgerError) -> String {
    match error {
        LedgerError::StaleHead { expected, found } => {
            format!("stale head {} {}", expected.sequence, found.sequence)
        }
        error => format!("{error:?}"),
    }
}

async fn take(
    step: Step,
    number: usize,
    now: i64,
    model: &MemoryItems,
    state: &SqliteState,
    past: &mut Vec<Commit>,
) {
    let commit = |head| Commit {
        expected_head: head,
        ..plan(&step, number, now, past)
    };
    let mut plans = Vec::new();
    for store in [model as &dyn ItemStore, state] {
        let item = store.item_state(&id(NAMES[step.item])).await.unwrap();
        let head = store.ledger_head().await.unwrap();
        let head = match step.stale_head {
            0 => Some(memory_core::item::Head::genesis()),
            1 => Some(head),
            _ => None,
        };
        let mut commit = commit(head);
        if step.again.is_none_or(|again| again >= past.len()) {
            let revision = item.map_or(0, |item| item.revision().get());
            commit.operations[0].expected = Revision::new(revision + step.stale);
        }
        plans.push(commit);
    }
    let outcome =
        |result: memory_core::item::LedgerResult<Vec<memory_core::item::Committed>>| match result {
            Ok(done) => done
                .iter()
                .map(|done| {
                    format!(
                        "{} {} {} {} {}",
                        done.item, done.revision, done.head.sequence, done.at, done.replayed
                    )
                })
                .collect::<Vec<_>>()
                .join(),
            Err(error) => kind(&error),
        };
    past.push(plans[0].clone());
    let in_database = outcome(state.commit_items(plans.remove(1)).await);
    let in_memory = outcome(model.commit_items(plans.remove(0)).await);
    assert_eq!(in_database, in_memory, "{step:?}");

    if step.outbox < 3 {
        let now = at(now);
        let leased = state.lease_outbox(now, 1_000, 2).await.unwrap();
        assert_eq!(leased, model.lease_outbox(now, 1_000, 2).await.unwrap());
        for event in leased {
            let token = event.token - u64::from(step.outbox == 2 && event.token > 1);
            if step.outbox == 0 {
                let results = (
                    state
                        .release_outbox(event.event, token, now)
                        .await
                        .map_err(|error| kind(&error)),
                    model
                        .release_outbox(event.event, token, now)
                        .await
                        .map_err(|error| kind(&error)),
                );
                assert_eq!(results.0, results.1);
            } else {
                let results = (
                    state
                        .ack_outbox(event.event, token)
                        .await
                        .map_err(|error| kind(&error)),
                    model
                        .ack_outbox(event.event, token)
                        .await
                        .map_err(|error| kind(&error)),
                );
                assert_eq!(results.0, results.1);
            }
        }
    }
}

trait Join {
    fn join(self) -> String;
}

impl Join for Vec<String> {
    fn join(self) -> String {
        self.as_slice().join("; ")
    }
}

fn plan(step: &Step, number: usize, now: i64, past: &[Commit]) -> Commit {
    if let Some(again) = step.again.filter(|again| *again < past.len()) {
        return Commit {
            at: at(now),
            ..past[again].clone()
        };
    }
    let key = match past.first().filter(|_| step.steals_key) {
        Some(first) => first.operations[0].key.to_string(),
        None => format!("key{number}"),
    };
    let citation = memory_core::item::Citation {
        page: Slug::parse(NAMES[step.other]).unwrap(),
        section: None,
        evidence: None,
    };
    Commit {
        actor: match step.actor {
            7 => Actor::Paired("bob".to_owned()),
            6 => Actor::System("pass".to_owned()),
            _ => Actor::Owner("cli".to_owned()),
        },
        at: at(now),
        expected_head: None,
        operations: vec![Operation {
            key: OperationKey::parse(&key).unwrap(),
            item: id(NAMES[step.item]),
            expected: None,
            change: change_of(step),
            citations: step.cites.then(|| vec![citation]),
        }],
    }
}

async fn compare(model: &MemoryItems, state: &SqliteState, now: i64) {
    for name in NAMES {
        let name = id(name);
        let item = state.item_state(&name).await.unwrap();
        assert_eq!(item, model.item_state(&name).await.unwrap());
        let cited = state.citations(&name).await.unwrap();
        assert_eq!(cited, model.citations(&name).await.unwrap());
        let page = Slug::parse(name.as_str().trim_start_matches("mem_")).unwrap();
        let cited = state.cited_on(&page).await.unwrap();
        assert_eq!(cited, model.cited_on(&page).await.unwrap());
    }
    assert_eq!(
        state.outbox_backlog().await.unwrap(),
        model.outbox_backlog().await.unwrap()
    );
    let channels = CHANNELS.map(Channel::parse);
    for consumer in [
        Consumer::Listing,
        Consumer::Buffer,
        Consumer::Agent,
        Consumer::Index,
    ] {
        for requester in [Authority::Owner, Authority::Paired, Authority::None] {
            for (as_of, known_at) in [
                (None, None),
                (Some(500), None),
                (None, Some(now / 2)),
                (Some(now), Some(now / 3)),
            ] {
                for named in [0, 2, 4] {
                    let query = ItemQuery {
                        channels: channels[..named].to_vec(),
                        as_of: as_of.map(at),
                        known_at: known_at.map(at),
                        archived: named == 4,
                        only: if named == 2 {
                            vec![id("a"), id("b")]
                        } else {
                            Vec::new()
                        },
                        limit: 3,
                        ..ItemQuery::new(requester, consumer, at(now))
                    };
                    let found = state.items(query.clone()).await.unwrap();
                    assert_eq!(
                        found,
                        model.items(query.clone()).await.unwrap(),
                        "{query:?}"
                    );
                }
            }
        }
    }
    let check = state.verify_ledger().await.unwrap();
    assert!(check.faults.is_empty(), "{:?}", check.faults);
    assert_eq!(
        check.operations,
        model.verify_ledger().await.unwrap().operations
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn the_database_does_what_the_model_does(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let place = Place::new();
            let mut state = place.open();
            let model = MemoryItems::default();
            let (mut past, mut now) = (Vec::new(), 0);
            for (number, step) in steps.into_iter().enumerate() {
                now += step.passed;
                take(step, number, now, &model, &state, &mut past).await;
                if number % 25 == 24 {
                    drop(state);
                    state = place.open();
                    compare(&model, &state, now).await;
                }
            }
            compare(&model, &state, now).await;
        });
    }
}
