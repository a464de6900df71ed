//! What a state store promises: messages, what was shown in them, logs, small values and how pages came in.

use std::ops::Deref;

use futures_util::future::join_all;

use super::{Breach, CALLERS, Report, Verdict, bad_request, equal, hold, one_winner, require};
use crate::predicates::Tier;
use crate::provenance::{Authority, Channel, Origin};
use crate::services::{KvScope, LogKind, LogRow, Resident, Role};
use crate::store::{PageOrigin, StateStore, TurnNode};
use crate::text::section::SectionId;
use crate::text::slug::Slug;
use crate::time::Timestamp;

pub use self::messages::{
    a_message_changes_until_it_is_final, a_message_comes_back_as_it_went_in,
    a_message_keeps_its_place, a_message_that_makes_no_sense_is_refused,
    attached_blocks_keep_their_order, attaching_is_all_or_nothing,
    the_newest_messages_come_oldest_first, the_same_message_again_changes_nothing,
};

mod messages;

/// Bytes of a value that is larger than any buffer on its way.
const LARGE: usize = 1 << 20;

/// Holds state stores to every rule. Each gets an empty one.
pub async fn suite<S>(make: impl AsyncFn() -> S) -> Report
where
    S: Deref<Target: StateStore + Sized>,
{
    hold!(
        make,
        [
            a_message_comes_back_as_it_went_in,
            the_same_message_again_changes_nothing,
            a_message_changes_until_it_is_final,
            a_message_keeps_its_place,
            a_message_that_makes_no_sense_is_refused,
            the_newest_messages_come_oldest_first,
            attached_blocks_keep_their_order,
            attaching_is_all_or_nothing,
            what_is_in_context_comes_in_order_and_once,
            logs_come_newest_first,
            values_are_set_replaced_and_removed,
            values_of_different_owners_do_not_meet,
            origins_of_pages_are_sorted_and_replaced,
            of_several_finals_one_wins,
            writers_of_different_things_do_not_meet,
        ]
    )
}

/// Holds a state store to what must survive its end. `reopen` ends it and opens it again.
pub async fn survives<S>(make: impl AsyncFn() -> S, reopen: impl AsyncFn(S) -> S) -> Report
where
    S: Deref<Target: StateStore + Sized>,
{
    let mut report = Report::default();
    let verdict = async {
        let store = make().await;
        let written = everything();
        store.put_turn_node(written.clone()).await?;
        store
            .record_resident("c", "m1", Tier::V3, vec![shown("kiwi", None)], at(3))
            .await?;
        let origins = vec![origin("kiwi", Origin::Import)];
        store.put_page_origins(origins.clone()).await?;
        let store = reopen(store).await;
        equal("the message", &store.turn_node("m1").await?, &Some(written))?;
        equal(
            "what is in context",
            &pages_of(&*store, "c").await?,
            &["kiwi"][..],
        )?;
        equal("how pages came in", &store.page_origins().await?, &origins)
    };
    report.note("what_was_acknowledged_survives", verdict.await);
    report
}

pub(super) const fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A message of conversation `c` with everything that it need not have left out.
pub(super) fn message(id: &str, parent: Option<&str>, turn: u64) -> TurnNode {
    TurnNode {
        id: id.to_owned(),
        conversation: "c".to_owned(),
        parent: parent.map(str::to_owned),
        branch: "main".to_owned(),
        turn,
        role: Role::User,
        text: format!("text of {id}"),
        finalised: false,
        speaker: None,
        principal: None,
        authority: Authority::Owner,
        agent: None,
        channel: Channel::Global,
        origin: Origin::UserDirect,
        event_time: at(1),
        ingestion_time: at(1),
        metadata: "{}".to_owned(),
        attached_blocks: Vec::new(),
    }
}

fn everything() -> TurnNode {
    TurnNode {
        role: Role::Assistant,
        text: "zero \0, lines\r\n\n, 日本語, e\u{301}, '\"`;--".to_owned(),
        finalised: true,
        speaker: Some("Ada 🦝".to_owned()),
        principal: Some("owner/1".to_owned()),
        authority: Authority::Paired,
        agent: Some(String::new()),
        channel: Channel::Project("atlas".to_owned()),
        origin: Origin::OtherAgent,
        event_time: at(-5),
        ingestion_time: at(i64::MAX),
        metadata: r#"{"a":[1,{"b":"é"}]}"#.to_owned(),
        attached_blocks: vec![
            ("b".to_owned(), "two".to_owned()),
            ("a".to_owned(), String::new()),
        ],
        ..message("m1", None, 1)
    }
}

pub(super) fn shown(page: &str, section: Option<&str>) -> Resident {
    let slug = Slug::from_path(page);
    Resident {
        section: section.map(|heading| SectionId {
            heading: heading.to_owned(),
            ..SectionId::lead(slug.clone())
        }),
        slug,
        bytes: 7,
    }
}

fn origin(page: &str, origin: Origin) -> PageOrigin {
    PageOrigin {
        slug: Slug::from_path(page),
        original_name: format!("Notes/{page}.md"),
        origin,
        authority: Authority::Owner,
        at: at(-1),
    }
}

pub(super) fn row(kind: LogKind, body: &str) -> LogRow {
    LogRow {
        kind,
        slug: Some(Slug::from_path("kiwi")),
        body: body.to_owned(),
    }
}

pub(super) fn ids(nodes: &[TurnNode]) -> Vec<&str> {
    nodes.iter().map(|node| node.id.as_str()).collect()
}

pub(super) async fn pages_of(
    store: &dyn StateStore,
    conversation: &str,
) -> Result<Vec<String>, Breach> {
    let entries = store.resident(conversation).await?;
    let name = |entry: &crate::services::ResidentEntry| entry.slug.as_str().to_owned();
    Ok(entries.iter().map(name).collect())
}

/// What was attached is listed in that order; the same report again changes nothing, and conversations are apart.
pub async fn what_is_in_context_comes_in_order_and_once(store: &dyn StateStore) -> Verdict {
    equal("nothing in context", &store.resident("c").await?.len(), &0)?;
    let first = vec![shown("plum", Some("stone")), shown("kiwi", None)];
    for now in [3, 4] {
        store
            .record_resident("c", "m1", Tier::V3, first.clone(), at(now))
            .await?;
    }
    let more = vec![shown("plum", None), shown("plum", Some("stone"))];
    store
        .record_resident("c", "m2", Tier::V2, more, at(5))
        .await?;
    store
        .record_resident("d", "m9", Tier::V1, vec![shown("apple", None)], at(6))
        .await?;
    let entries = store.resident("c").await?;
    let found: Vec<_> = entries
        .iter()
        .map(|entry| {
            let heading = entry
                .section
                .as_ref()
                .map(|section| section.heading.as_str());
            let times = (entry.bytes, entry.at.as_millis());
            (
                entry.slug.as_str(),
                heading,
                entry.message.as_str(),
                entry.tier,
                times,
            )
        })
        .collect();
    let expected = [
        ("plum", Some("stone"), "m1", Tier::V3, (7, 3)),
        ("kiwi", None, "m1", Tier::V3, (7, 3)),
        ("plum", None, "m2", Tier::V2, (7, 5)),
        ("plum", Some("stone"), "m2", Tier::V2, (7, 5)),
    ];
    equal("what is in context", &found, &expected[..])?;
    store.clear_resident("c").await?;
    store.clear_resident("nowhere").await?;
    equal("what was cleared", &store.resident("c").await?.len(), &0)?;
    equal(
        "another conversation",
        &pages_of(store, "d").await?,
        &["apple"][..],
    )
}

/// Log rows are read by kind and conversation, the newest first; rows of which one is refused are all refused.
pub async fn logs_come_newest_first(store: &dyn StateStore) -> Verdict {
    let (kept, other) = (LogKind::Selection, LogKind::PoolAudit);
    let rows = |bodies: &[&str]| bodies.iter().map(|body| row(kept, body)).collect();
    let log = |conversation: &'static str, rows: Vec<LogRow>| {
        store.append_log(conversation, 1, Tier::V3, rows, at(1))
    };
    log("c", rows(&["1", "2"])).await?;
    log("c", vec![row(other, "{}")]).await?;
    log("c", Vec::new()).await?;
    log("c", rows(&[r#"{"é":"\u0000"}"#])).await?;
    log("d", rows(&["9"])).await?;
    let refused = log("c", rows(&["4", "{"])).await;
    require(refused.is_err(), "a row that is no JSON should be refused")?;
    let cases: [(&str, LogKind, u32, &[&str]); 6] = [
        ("c", kept, 9, &[r#"{"é":"\u0000"}"#, "2", "1"]),
        ("c", kept, 2, &[r#"{"é":"\u0000"}"#, "2"]),
        ("c", kept, 0, &[]),
        ("c", other, 9, &["{}"]),
        ("c", LogKind::Activation, 9, &[]),
        ("d", kept, 9, &["9"]),
    ];
    for (conversation, kind, limit, expected) in cases {
        let found = store.newest_log(conversation, kind, limit).await?;
        let expected: Vec<LogRow> = expected.iter().map(|body| row(kind, body)).collect();
        equal("log rows", &found, &expected)?;
    }
    Ok(())
}

/// A value is what was last put, nothing before that and nothing after its removal.
pub async fn values_are_set_replaced_and_removed(store: &dyn StateStore) -> Verdict {
    let scope = KvScope::Assistant;
    let get = || store.kv_get("v3", scope, "", "schlüssel 🔑");
    let put = |value: Option<String>| store.kv_put("v3", scope, "", "schlüssel 🔑", value);
    equal("no value", &get().await?, &None)?;
    put(None).await?;
    for value in [String::new(), "zero \0 é".to_owned(), "x".repeat(LARGE)] {
        for _ in 0..2 {
            put(Some(value.clone())).await?;
            equal("the value", &get().await?, &Some(value.clone()))?;
        }
    }
    for _ in 0..2 {
        put(None).await?;
        equal("a removed value", &get().await?, &None)?;
    }
    for (namespace, key) in [("", "k"), ("v3", "")] {
        let value = Some("v".to_owned());
        let refused = store.kv_put(namespace, scope, "", key, value).await;
        require(refused.is_err(), "a value needs a namespace and a key")?;
    }
    Ok(())
}

/// Values of namespaces, conversations and the assistant are apart; a scope and an owner must agree.
pub async fn values_of_different_owners_do_not_meet(store: &dyn StateStore) -> Verdict {
    let places = [
        ("v2", KvScope::Assistant, "", "k"),
        ("v3", KvScope::Assistant, "", "k"),
        ("v3", KvScope::Assistant, "", "K"),
        ("v3", KvScope::Conversation, "c", "k"),
        ("v3", KvScope::Conversation, "d", "k"),
    ];
    for (number, (namespace, scope, owner, key)) in places.into_iter().enumerate() {
        let value = Some(number.to_string());
        store.kv_put(namespace, scope, owner, key, value).await?;
    }
    for (number, (namespace, scope, owner, key)) in places.into_iter().enumerate() {
        let found = store.kv_get(namespace, scope, owner, key).await?;
        equal("a value", &found, &Some(number.to_string()))?;
    }
    for (scope, owner) in [(KvScope::Assistant, "c"), (KvScope::Conversation, "")] {
        let answer = store.kv_get("v3", scope, owner, "k").await;
        bad_request("a scope and an owner that disagree", answer)?;
        let answer = store.kv_put("v3", scope, owner, "k", None).await;
        bad_request("a scope and an owner that disagree", answer)?;
    }
    Ok(())
}

/// How pages came in is listed by page; what comes later about a page replaces what was known.
pub async fn origins_of_pages_are_sorted_and_replaced(store: &dyn StateStore) -> Verdict {
    equal("origins of nothing", &store.page_origins().await?.len(), &0)?;
    let first = vec![
        origin("plum", Origin::Import),
        origin("日本", Origin::UserFile),
        origin("a/b", Origin::ExternalDoc),
        origin("a-b", Origin::ToolOutput),
    ];
    store.put_page_origins(first).await?;
    store.put_page_origins(Vec::new()).await?;
    store
        .put_page_origins(vec![origin("plum", Origin::UserDirect)])
        .await?;
    let expected = [
        origin("a-b", Origin::ToolOutput),
        origin("a/b", Origin::ExternalDoc),
        origin("plum", Origin::UserDirect),
        origin("日本", Origin::UserFile),
    ];
    equal("origins", &store.page_origins().await?, &expected[..])
}

/// Of callers that end one message differently, one succeeds and the others are told.
pub async fn of_several_finals_one_wins(store: &dyn StateStore) -> Verdict {
    let last = |caller: usize| TurnNode {
        text: format!("text of caller {caller}"),
        finalised: true,
        ..message("m1", None, 1)
    };
    let puts = (0..CALLERS).map(|caller| store.put_turn_node(last(caller)));
    let winner = one_winner("callers that end a message", join_all(puts).await)?;
    equal(
        "the message",
        &store.turn_node("m1").await?,
        &Some(last(winner)),
    )
}

/// What callers write beside each other is all there.
pub async fn writers_of_different_things_do_not_meet(store: &dyn StateStore) -> Verdict {
    let names: Vec<String> = (0..CALLERS).map(|caller| format!("n{caller}")).collect();
    let writes = names.iter().map(|name| async move {
        let node = TurnNode {
            conversation: name.clone(),
            ..message(name, None, 1)
        };
        store.put_turn_node(node).await?;
        let key = name.as_str();
        let value = Some(key.to_owned());
        store
            .kv_put("v3", KvScope::Assistant, "", key, value)
            .await?;
        let rows = vec![row(LogKind::Selection, "1")];
        store.append_log("shared", 1, Tier::V3, rows, at(1)).await?;
        let shown = vec![shown(name, None)];
        store
            .record_resident("shared", "m", Tier::V3, shown, at(1))
            .await
    });
    for written in join_all(writes).await {
        written?;
    }
    for name in &names {
        let node = store.turn_node(name).await?;
        require(node.is_some(), "a message is missing")?;
        let value = store.kv_get("v3", KvScope::Assistant, "", name).await?;
        equal("a value", &value.as_ref(), &Some(name))?;
    }
    let rows = store.newest_log("shared", LogKind::Selection, 99).await?;
    equal("log rows", &rows.len(), &CALLERS)?;
    let mut pages = pages_of(store, "shared").await?;
    pages.sort();
    equal("pages in context", &pages, &names)
}
