//! Tests of branches, forks, going back and deletion, one by one and in random histories.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::env::ManualClock;
use memory_core::predicates::Tier;
use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::services::{KvScope, LogKind, LogRow, Resident, Role};
use memory_core::store::StateStore as _;
use memory_core::text::slug::Slug;
use proptest::prelude::*;

use super::*;

fn open() -> (tempfile::TempDir, SqliteState) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    let state = SqliteState::open(&path, &ManualClock::default()).unwrap();
    (folder, state)
}

const fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn message(
    conversation: &str,
    branch: &str,
    id: &str,
    parent: Option<&str>,
    turn: u64,
) -> TurnNode {
    TurnNode {
        id: id.to_owned(),
        conversation: conversation.to_owned(),
        parent: parent.map(str::to_owned),
        branch: branch.to_owned(),
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

async fn say(state: &SqliteState, branch: &str, id: &str, parent: Option<&str>, turn: u64) {
    let node = message("c", branch, id, parent, turn);
    state.put_turn_node(node).await.unwrap();
}

async fn show(state: &SqliteState, conversation: &str, message: &str, page: &str) {
    let shown = vec![Resident {
        slug: Slug::parse(page).unwrap(),
        section: None,
        bytes: 1,
    }];
    state
        .record_resident(conversation, message, Tier::V3, shown, at(1))
        .await
        .unwrap();
}

async fn visible(state: &SqliteState, conversation: &str) -> Vec<String> {
    let nodes = state
        .recent_in_conversation(conversation, 99)
        .await
        .unwrap();
    nodes.into_iter().map(|node| node.id).collect()
}

async fn in_context(state: &SqliteState, conversation: &str) -> Vec<String> {
    let entries = state.resident(conversation).await.unwrap();
    entries
        .iter()
        .map(|entry| entry.slug.as_str().to_owned())
        .collect()
}

/// A conversation of two turns on one branch, with a page shown in each.
async fn two_turns(state: &SqliteState) {
    for (id, parent, turn) in [
        ("m1", None, 1),
        ("m2", Some("m1"), 1),
        ("m3", Some("m2"), 2),
        ("m4", Some("m3"), 2),
    ] {
        say(state, "main", id, parent, turn).await;
    }
    show(state, "c", "m1", "kiwi").await;
    show(state, "c", "m3", "plum").await;
}

#[tokio::test]
async fn an_edited_message_is_a_second_child_and_the_first_stays() {
    let (_folder, state) = open();
    two_turns(&state).await;
    assert_eq!(state.rewind("c", "m2").await.unwrap(), 2);
    assert_eq!(visible(&state, "c").await, ["m1", "m2"]);
    assert_eq!(state.last_turn("c", "main").await.unwrap(), 1);
    assert_eq!(in_context(&state, "c").await, ["kiwi"]);

    say(&state, "main", "e3", Some("m2"), 2).await;
    assert_eq!(visible(&state, "c").await, ["m1", "m2", "e3"]);
    let children = state.replies("m2").await.unwrap();
    let children: Vec<&str> = children.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(children, ["m3", "e3"]);
    // A retry of what was gone back from does not bring it back.
    say(&state, "main", "m4", Some("m3"), 2).await;
    assert_eq!(visible(&state, "c").await, ["m1", "m2", "e3"]);

    state.create_branch("c", "first try", "m4").await.unwrap();
    assert_eq!(visible(&state, "c").await, ["m1", "m2", "m3", "m4"]);
    assert_eq!(in_context(&state, "c").await, ["kiwi", "plum"]);
    let hidden = state.rewind("c", "e3").await;
    assert!(
        matches!(hidden, Err(StoreError::NotFound { .. })),
        "{hidden:?}"
    );
}

#[tokio::test]
async fn the_current_branch_is_the_one_last_written_to_or_switched_to() {
    let (_folder, state) = open();
    two_turns(&state).await;
    state.create_branch("c", "b", "m2").await.unwrap();
    state.create_branch("c", "b", "m2").await.unwrap();
    let moved = state.create_branch("c", "b", "m1").await;
    assert!(
        matches!(moved, Err(StoreError::Conflict { .. })),
        "{moved:?}"
    );
    let elsewhere = state.create_branch("d", "b", "m2").await;
    assert!(
        matches!(elsewhere, Err(StoreError::NotFound { .. })),
        "{elsewhere:?}"
    );
    let head = state.conversation_head("c").await.unwrap().unwrap();
    assert_eq!(
        (head.branch.as_str(), head.message.as_deref(), head.turn),
        ("b", Some("m2"), 1)
    );

    say(&state, "b", "b3", Some("m2"), 2).await;
    show(&state, "c", "b3", "lime").await;
    assert_eq!(in_context(&state, "c").await, ["kiwi", "lime"]);
    state.switch_branch("c", "main").await.unwrap();
    assert_eq!(visible(&state, "c").await, ["m1", "m2", "m3", "m4"]);
    assert_eq!(in_context(&state, "c").await, ["kiwi", "plum"]);
    let unknown = state.switch_branch("c", "no such").await;
    assert!(
        matches!(unknown, Err(StoreError::NotFound { .. })),
        "{unknown:?}"
    );
    let names: Vec<String> = state
        .branches("c")
        .await
        .unwrap()
        .into_iter()
        .map(|head| head.branch)
        .collect();
    assert_eq!(names, ["b", "main"]);
}

#[tokio::test]
async fn a_message_keeps_its_place_and_a_final_one_its_blocks() {
    let (_folder, state) = open();
    say(&state, "main", "m1", None, 1).await;
    say(&state, "main", "m2", Some("m1"), 1).await;
    let moved = message("c", "main", "m1", Some("m2"), 1);
    let refused = state.put_turn_node(moved).await;
    assert!(
        matches!(refused, Err(StoreError::Conflict { .. })),
        "{refused:?}"
    );

    let block = |text: &str| vec![("memory".to_owned(), text.to_owned())];
    state.attach_blocks("m1", block("one")).await.unwrap();
    let mut end = message("c", "main", "m1", None, 1);
    end.finalised = true;
    end.attached_blocks = block("one");
    state.put_turn_node(end.clone()).await.unwrap();
    state.attach_blocks("m1", block("one")).await.unwrap();
    let other = state.attach_blocks("m1", block("two")).await;
    assert!(
        matches!(other, Err(StoreError::Conflict { .. })),
        "{other:?}"
    );
    end.attached_blocks = block("two");
    let other = state.put_turn_node(end).await;
    assert!(
        matches!(other, Err(StoreError::Conflict { .. })),
        "{other:?}"
    );
    let stored = state.turn_node("m1").await.unwrap().unwrap();
    assert_eq!(stored.attached_blocks, block("one"));
}

#[tokio::test]
async fn a_fork_takes_along_what_is_visible_and_what_hangs_on_it() {
    let (_folder, state) = open();
    two_turns(&state).await;
    let block = vec![("memoryV2StaticBlock".to_owned(), "facts".to_owned())];
    state.attach_blocks("m1", block.clone()).await.unwrap();
    let put = |key: &'static str, value: &str| {
        state.kv_put(
            "host",
            KvScope::Conversation,
            "c",
            key,
            Some(value.to_owned()),
        )
    };
    put("static_info_message", "m1").await.unwrap();
    put("last", "m3").await.unwrap();
    put("mood", "fine").await.unwrap();
    // A row of before the tree was kept.
    show(&state, "c", "unknown", "fig").await;

    let full = state
        .fork_conversation("c", "full", ForkExtent::Full, at(9))
        .await
        .unwrap();
    let copies: BTreeMap<&str, &str> = full
        .messages
        .iter()
        .map(|(id, copy)| (id.as_str(), copy.as_str()))
        .collect();
    assert_eq!(
        copies.keys().copied().collect::<Vec<_>>(),
        ["m1", "m2", "m3", "m4"]
    );
    assert_eq!((full.blocks, full.resident, full.values), (1, 3, 3));
    assert_eq!(in_context(&state, "full").await, ["kiwi", "plum", "fig"]);
    let value = |conversation: &'static str, key: &'static str| {
        state.kv_get("host", KvScope::Conversation, conversation, key)
    };
    assert_eq!(
        value("full", "static_info_message")
            .await
            .unwrap()
            .as_deref(),
        Some(copies["m1"])
    );
    assert_eq!(
        value("full", "mood").await.unwrap().as_deref(),
        Some("fine")
    );
    let copy = state.turn_node(copies["m1"]).await.unwrap().unwrap();
    assert_eq!(
        (copy.text.as_str(), &copy.attached_blocks, copy.turn),
        ("text of m1", &block, 1)
    );
    assert_eq!(copy.metadata, r#"{"forkSourceMessageId":"m1"}"#);

    let part = state
        .fork_conversation("c", "part", ForkExtent::UpTo("m2".to_owned()), at(9))
        .await
        .unwrap();
    assert_eq!(
        (part.messages.len(), part.blocks, part.resident, part.values),
        (2, 1, 1, 1)
    );
    assert_eq!(
        in_context(&state, "part").await,
        ["kiwi"],
        "what came later may be shown again"
    );
    assert_eq!(
        value("part", "static_info_message")
            .await
            .unwrap()
            .as_deref(),
        Some(part.messages[0].1.as_str())
    );
    assert_eq!(state.last_turn("part", "main").await.unwrap(), 1);

    let again = state
        .fork_conversation("c", "full", ForkExtent::Full, at(10))
        .await
        .unwrap();
    assert_eq!(again, Forked::default());
    for (from, to) in [("part", "c"), ("part", "full")] {
        let taken = state
            .fork_conversation(from, to, ForkExtent::Full, at(9))
            .await;
        assert!(
            matches!(taken, Err(StoreError::Conflict { .. })),
            "{taken:?}"
        );
    }
    let nowhere = state
        .fork_conversation("c", "x", ForkExtent::UpTo("m9".to_owned()), at(9))
        .await;
    assert!(
        matches!(nowhere, Err(StoreError::NotFound { .. })),
        "{nowhere:?}"
    );

    state.delete_conversation("c").await.unwrap();
    assert_eq!(visible(&state, "full").await.len(), 4);
    assert_eq!(in_context(&state, "part").await, ["kiwi"]);
}

#[tokio::test]
async fn a_deletion_takes_everything_of_one_conversation_and_says_what() {
    let (_folder, state) = open();
    for conversation in ["c", "d"] {
        let id = |name: &str| format!("{conversation}{name}");
        state
            .put_turn_node(message(conversation, "main", &id("1"), None, 1))
            .await
            .unwrap();
        let second = message(conversation, "main", &id("2"), Some(&id("1")), 1);
        state.put_turn_node(second).await.unwrap();
        state
            .create_branch(conversation, "b", &id("1"))
            .await
            .unwrap();
        state
            .attach_blocks(&id("1"), vec![("memory".to_owned(), "b".to_owned())])
            .await
            .unwrap();
        show(&state, conversation, &id("1"), "kiwi").await;
        let row = LogRow {
            kind: LogKind::PoolAudit,
            slug: None,
            body: "{}".to_owned(),
        };
        state
            .append_log(conversation, 1, Tier::V3, vec![row.clone(), row], at(1))
            .await
            .unwrap();
        let value = Some("v".to_owned());
        state
            .kv_put("v3", KvScope::Conversation, conversation, "k", value)
            .await
            .unwrap();
    }
    let expected = ConversationRows {
        messages: 2,
        blocks: 1,
        resident: 1,
        log: 2,
        values: 1,
    };
    assert_eq!(state.delete_conversation("c").await.unwrap(), expected);
    assert_eq!(expected.total(), 7);
    assert_eq!(
        state.delete_conversation("c").await.unwrap(),
        ConversationRows::default()
    );
    assert_eq!(state.conversation_head("c").await.unwrap(), None);
    assert!(state.branches("c").await.unwrap().is_empty());
    assert_eq!(state.turn_node("c1").await.unwrap(), None);
    // The other one is whole, and the name can be used again.
    assert_eq!(visible(&state, "d").await, ["d1"]);
    assert_eq!(
        state
            .newest_log("d", LogKind::PoolAudit, 9)
            .await
            .unwrap()
            .len(),
        2
    );
    state
        .put_turn_node(message("c", "main", "c1", None, 1))
        .await
        .unwrap();
    assert_eq!(visible(&state, "c").await, ["c1"]);
    assert_eq!(state.delete_conversation("d").await.unwrap(), expected);
}

#[test]
fn a_database_from_before_branches_had_heads_keeps_its_conversations() {
    let migration = include_str!("../schema/0003.sql");
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(include_str!("../schema/0001.sql"))
        .unwrap();
    for (id, conversation, parent, branch) in [
        ("m1", "c", None, "main"),
        ("m2", "c", Some("m1"), "main"),
        ("f2", "c", Some("m1"), "side"),
        ("d1", "d", None, "main"),
        ("d2", "d", Some("d1"), "main"),
    ] {
        connection
            .execute(
                "INSERT INTO turn_nodes (id, conversation, parent, branch, turn, role, text, finalised, authority, \
                 channel, origin, event_time, ingestion_time, metadata) VALUES (?1, ?2, ?3, ?4, 1, 'user', 'x', 1, \
                 'owner', '_global', 'user_direct', 0, 0, '{}')",
                params![id, conversation, parent, branch],
            )
            .unwrap();
    }
    connection
        .execute_batch(&format!("BEGIN; {migration}; COMMIT"))
        .unwrap();
    let branch = |conversation: &str| current(&connection, conversation).unwrap().unwrap();
    assert_eq!(
        (branch("c").as_str(), branch("d").as_str()),
        ("side", "main")
    );
    assert_eq!(way(&connection, "c", "main").unwrap(), ["m1", "m2"]);
    assert_eq!(way(&connection, "c", "side").unwrap(), ["m1", "f2"]);
    assert_eq!(way(&connection, "d", "main").unwrap(), ["d1", "d2"]);
    let branched: Vec<bool> = connection
        .prepare("SELECT branched FROM conversations ORDER BY id")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .unwrap();
    assert_eq!(branched, [true, false]);
}

/// The tree as simple as it can be kept: every message, where each branch ends, and what was shown.
#[derive(Debug, Default)]
struct Model {
    nodes: BTreeMap<String, TurnNode>,
    heads: BTreeMap<(String, String), Option<String>>,
    current: BTreeMap<String, String>,
    forked_from: BTreeMap<String, String>,
    shown: Vec<(String, String)>,
}

impl Model {
    fn way(&self, conversation: &str) -> Vec<String> {
        let branch = self.current.get(conversation).cloned().unwrap_or_default();
        let head = self.heads.get(&(conversation.to_owned(), branch));
        let mut next = head.cloned().flatten();
        let mut way = Vec::new();
        while let Some(id) = next {
            assert!(!way.contains(&id), "a circle through {id}");
            next = self.nodes[&id].parent.clone();
            way.push(id);
        }
        way.reverse();
        way
    }

    fn of(&self, conversation: &str) -> Vec<String> {
        let all = self
            .nodes
            .values()
            .filter(|node| node.conversation == conversation);
        all.map(|node| node.id.clone()).collect()
    }

    fn stand(&mut self, conversation: &str, branch: &str, head: Option<String>) {
        self.heads
            .insert((conversation.to_owned(), branch.to_owned()), head);
        self.current
            .insert(conversation.to_owned(), branch.to_owned());
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Adds a message after the visible end, or after any message.
    Say {
        conversation: usize,
        branch: usize,
        after: Option<prop::sample::Index>,
    },
    Finalise(prop::sample::Index),
    Show(prop::sample::Index),
    Branch {
        conversation: usize,
        branch: usize,
        after: prop::sample::Index,
    },
    Switch {
        conversation: usize,
        branch: usize,
    },
    Rewind {
        conversation: usize,
        to: prop::sample::Index,
    },
    Fork {
        from: usize,
        to: usize,
        until: Option<prop::sample::Index>,
    },
    Delete {
        conversation: usize,
    },
}

const CONVERSATIONS: [&str; 3] = ["a", "b", "c"];
const BRANCHES: [&str; 3] = ["main", "side", "edit"];

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        8 => (0_usize..3, 0_usize..3, prop::option::weighted(0.3, index()))
            .prop_map(|(conversation, branch, after)| Step::Say { conversation, branch, after }),
        1 => index().prop_map(Step::Finalise),
        4 => index().prop_map(Step::Show),
        2 => (0_usize..3, 0_usize..3, index())
            .prop_map(|(conversation, branch, after)| Step::Branch { conversation, branch, after }),
        2 => (0_usize..3, 0_usize..3).prop_map(|(conversation, branch)| Step::Switch { conversation, branch }),
        3 => (0_usize..3, index()).prop_map(|(conversation, to)| Step::Rewind { conversation, to }),
        2 => (0_usize..3, 0_usize..3, prop::option::of(index()))
            .prop_map(|(from, to, until)| Step::Fork { from, to, until }),
        1 => (0_usize..3).prop_map(|conversation| Step::Delete { conversation }),
    ]
}

fn pick(from: &[String], index: prop::sample::Index) -> Option<&String> {
    (!from.is_empty()).then(|| index.get(from))
}

async fn take(state: &SqliteState, model: &mut Model, step: Step, number: usize) {
    let any: Vec<String> = model.nodes.keys().cloned().collect();
    match step {
        Step::Say {
            conversation,
            branch,
            after,
        } => {
            let (conversation, branch) = (CONVERSATIONS[conversation], BRANCHES[branch]);
            let place = (conversation.to_owned(), branch.to_owned());
            let parent = match &after {
                Some(index) => pick(&model.of(conversation), *index).cloned(),
                None => model.heads.get(&place).cloned().flatten(),
            };
            let turn = parent
                .as_ref()
                .map_or(1, |parent| model.nodes[parent].turn + 1);
            let node = message(
                conversation,
                branch,
                &format!("n{number}"),
                parent.as_deref(),
                turn,
            );
            state.put_turn_node(node.clone()).await.unwrap();
            model.stand(conversation, branch, Some(node.id.clone()));
            model.nodes.insert(node.id.clone(), node);
        }
        Step::Finalise(index) => {
            let Some(id) = pick(&any, index) else { return };
            let mut node = model.nodes[id].clone();
            node.finalised = true;
            state.put_turn_node(node.clone()).await.unwrap();
            let rewritten = TurnNode {
                text: "other".to_owned(),
                ..node.clone()
            };
            state.put_turn_node(rewritten).await.unwrap_err();
            model.nodes.insert(id.clone(), node);
        }
        Step::Show(index) => {
            let Some(id) = pick(&any, index) else { return };
            let conversation = model.nodes[id].conversation.clone();
            show(state, &conversation, id, "kiwi").await;
            let row = (conversation, id.clone());
            if !model.shown.contains(&row) {
                model.shown.push(row);
            }
        }
        Step::Branch {
            conversation,
            branch,
            after,
        } => {
            let (conversation, branch) = (CONVERSATIONS[conversation], BRANCHES[branch]);
            let Some(after) = pick(&any, after) else {
                return;
            };
            let result = state.create_branch(conversation, branch, after).await;
            let taken = model
                .heads
                .get(&(conversation.to_owned(), branch.to_owned()));
            let fits = model.nodes[after].conversation == conversation
                && taken.is_none_or(|head| head.as_ref() == Some(after));
            assert_eq!(result.is_ok(), fits, "{result:?}");
            if fits {
                model.stand(conversation, branch, Some(after.clone()));
            }
        }
        Step::Switch {
            conversation,
            branch,
        } => {
            let (conversation, branch) = (CONVERSATIONS[conversation], BRANCHES[branch]);
            let result = state.switch_branch(conversation, branch).await;
            let head = model
                .heads
                .get(&(conversation.to_owned(), branch.to_owned()))
                .cloned();
            assert_eq!(result.is_ok(), head.is_some(), "{result:?}");
            if let Some(head) = head {
                model.stand(conversation, branch, head);
            }
        }
        Step::Rewind { conversation, to } => {
            let conversation = CONVERSATIONS[conversation];
            let Some(to) = pick(&any, to) else { return };
            let way = model.way(conversation);
            let result = state.rewind(conversation, to).await;
            let place = way.iter().position(|id| id == to);
            assert_eq!(
                result.as_ref().ok(),
                place.map(|place| (way.len() - 1 - place) as u64).as_ref()
            );
            if place.is_some() {
                let branch = model.current[conversation].clone();
                model.stand(conversation, &branch, Some(to.clone()));
            }
        }
        Step::Fork { from, to, until } => {
            fork(state, model, CONVERSATIONS[from], CONVERSATIONS[to], until).await;
        }
        Step::Delete { conversation } => {
            let conversation = CONVERSATIONS[conversation];
            let removed = state.delete_conversation(conversation).await.unwrap();
            assert_eq!(removed.messages, model.of(conversation).len() as u64);
            let shown = model
                .shown
                .iter()
                .filter(|(of, _)| of == conversation)
                .count();
            assert_eq!(removed.resident, shown as u64);
            model
                .nodes
                .retain(|_, node| node.conversation != conversation);
            model.heads.retain(|(of, _), _| of != conversation);
            model.shown.retain(|(of, _)| of != conversation);
            model.current.remove(conversation);
            model.forked_from.remove(conversation);
        }
    }
}

async fn fork(
    state: &SqliteState,
    model: &mut Model,
    from: &str,
    to: &str,
    until: Option<prop::sample::Index>,
) {
    let mut way = model.way(from);
    let until = until.and_then(|index| pick(&way, index).cloned());
    if let Some(last) = &until {
        let kept = way.iter().position(|id| id == last).unwrap();
        way.truncate(kept + 1);
    }
    let extent = until.map_or(ForkExtent::Full, ForkExtent::UpTo);
    let result = state.fork_conversation(from, to, extent, at(5)).await;
    if model.current.contains_key(to) || from == to {
        let repeated = model
            .forked_from
            .get(to)
            .is_some_and(|origin| origin == from);
        assert_eq!(result.ok(), repeated.then(Forked::default));
        return;
    }
    let forked = result.unwrap();
    let sources: Vec<&String> = forked.messages.iter().map(|(id, _)| id).collect();
    assert_eq!(sources, way.iter().collect::<Vec<_>>());
    let mut parent = None;
    for (id, copy) in &forked.messages {
        let node = TurnNode {
            id: copy.clone(),
            conversation: to.to_owned(),
            parent: parent.replace(copy.clone()),
            branch: MAIN_BRANCH.to_owned(),
            ..state.turn_node(copy).await.unwrap().unwrap()
        };
        assert_eq!((&node.text, node.turn, node.finalised), {
            let source = &model.nodes[id];
            (&source.text, source.turn, source.finalised)
        });
        model.nodes.insert(copy.clone(), node);
        if model.shown.contains(&(from.to_owned(), id.clone())) {
            model.shown.push((to.to_owned(), copy.clone()));
        }
    }
    model.stand(to, MAIN_BRANCH, parent);
    model.forked_from.insert(to.to_owned(), from.to_owned());
}

/// Holds everything that can be read against the model, which proves on the way that there is no circle.
async fn compare(state: &SqliteState, model: &Model) {
    for conversation in CONVERSATIONS {
        let way = model.way(conversation);
        assert_eq!(visible(state, conversation).await, way);
        let heads: BTreeSet<(String, Option<String>)> = state
            .branches(conversation)
            .await
            .unwrap()
            .into_iter()
            .map(|head| (head.branch, head.message))
            .collect();
        let expected: BTreeSet<_> = model
            .heads
            .iter()
            .filter(|((of, _), _)| of == conversation)
            .map(|((_, branch), head)| (branch.clone(), head.clone()))
            .collect();
        assert_eq!(heads, expected);
        let head = state.conversation_head(conversation).await.unwrap();
        assert_eq!(
            head.as_ref().map(|head| &head.branch),
            model.current.get(conversation)
        );
        assert_eq!(head.and_then(|head| head.message), way.last().cloned());
        let shown: BTreeSet<String> = state
            .resident(conversation)
            .await
            .unwrap()
            .into_iter()
            .map(|entry| entry.message)
            .collect();
        let expected: BTreeSet<String> = model
            .shown
            .iter()
            .filter(|(of, message)| of == conversation && way.contains(message))
            .map(|(_, message)| message.clone())
            .collect();
        assert_eq!(shown, expected);
        for id in model.of(conversation) {
            let mut node = state.turn_node(&id).await.unwrap().unwrap();
            node.metadata.clone_from(&model.nodes[&id].metadata);
            assert_eq!(node, model.nodes[&id]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_tree_is_the_models(steps in prop::collection::vec(step(), 1..50)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (_folder, state) = open();
            let mut model = Model::default();
            for (number, step) in steps.into_iter().enumerate() {
                take(&state, &mut model, step, number).await;
                compare(&state, &model).await;
            }
        });
    }
}
