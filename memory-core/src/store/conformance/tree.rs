//! What the tree of messages promises: branches, forks, going back, deletion.

use std::ops::Deref;

use super::state::{at, ids, message, pages_of, row, shown};
use super::{Breach, Report, Verdict, conflict, equal, hold, not_found, require};
use crate::predicates::Tier;
use crate::services::{KvScope, LogKind};
use crate::store::{
    BranchHead, ConversationRows, ForkExtent, Forked, OrphanSweep, StateStore, TurnNode, TurnTree,
};

/// A store of messages and of the tree they make.
pub trait Tree: StateStore + TurnTree {}

impl<T: StateStore + TurnTree> Tree for T {}

/// How long rows without a conversation are left alone in these rules.
const GRACE_MS: i64 = 1_000;

/// Holds trees of messages to every rule. Each gets an empty one.
pub async fn suite<S>(make: impl AsyncFn() -> S) -> Report
where
    S: Deref<Target: Tree + Sized>,
{
    hold!(
        make,
        [
            a_conversation_stands_where_it_was_last_written_to,
            branches_begin_anywhere_and_never_move,
            going_back_hides_and_deletes_nothing,
            an_edited_message_is_a_second_reply,
            what_is_hidden_is_not_in_context,
            a_fork_is_a_copy_of_what_is_visible,
            a_fork_of_a_part_ends_where_it_was_cut,
            a_fork_is_made_once_and_takes_no_name_away,
            a_fork_survives_what_it_was_made_of,
            a_deletion_takes_everything_of_one_conversation,
            rows_without_a_conversation_go_when_they_were_seen_before,
        ]
    )
}

/// Holds a tree to what must survive its end. `reopen` ends it and opens it again.
pub async fn survives<S>(make: impl AsyncFn() -> S, reopen: impl AsyncFn(S) -> S) -> Report
where
    S: Deref<Target: Tree + Sized>,
{
    let mut report = Report::default();
    let verdict = async {
        let store = make().await;
        two_turns(&*store).await?;
        store.create_branch("c", "side", "m3").await?;
        store.rewind("c", "m2").await?;
        store
            .fork_conversation("c", "f", ForkExtent::Full, at(9))
            .await?;
        say(&*store, "gone", "g1", None, 1).await?;
        store.delete_conversation("gone").await?;
        let heads = store.branches("c").await?;
        let store = reopen(store).await;
        equal("branches", &store.branches("c").await?, &heads)?;
        equal("messages", &visible(&*store, "c").await?, &["m1", "m2"][..])?;
        equal(
            "messages of the fork",
            &visible(&*store, "f").await?.len(),
            &2,
        )?;
        equal("a deleted message", &store.turn_node("g1").await?, &None)
    };
    report.note("what_was_acknowledged_survives", verdict.await);
    report
}

async fn say(
    store: &dyn Tree,
    conversation: &str,
    id: &str,
    parent: Option<&str>,
    turn: u64,
) -> Verdict {
    let node = TurnNode {
        conversation: conversation.to_owned(),
        ..message(id, parent, turn)
    };
    Ok(store.put_turn_node(node).await?)
}

async fn show(store: &dyn Tree, conversation: &str, message: &str, page: &str) -> Verdict {
    let shown = vec![shown(page, None)];
    Ok(store
        .record_resident(conversation, message, Tier::V3, shown, at(1))
        .await?)
}

/// A conversation of two turns, with a page in context because of each.
async fn two_turns(store: &dyn Tree) -> Verdict {
    say(store, "c", "m1", None, 1).await?;
    say(store, "c", "m2", Some("m1"), 1).await?;
    say(store, "c", "m3", Some("m2"), 2).await?;
    say(store, "c", "m4", Some("m3"), 2).await?;
    show(store, "c", "m1", "kiwi").await?;
    show(store, "c", "m3", "plum").await
}

async fn visible(store: &dyn Tree, conversation: &str) -> Result<Vec<String>, Breach> {
    let nodes = store.recent_in_conversation(conversation, 99).await?;
    Ok(ids(&nodes).into_iter().map(str::to_owned).collect())
}

fn head(branch: &str, message: Option<&str>, turn: u64) -> BranchHead {
    BranchHead {
        branch: branch.to_owned(),
        message: message.map(str::to_owned),
        turn,
    }
}

/// The current branch is the one last written to, begun or switched to.
pub async fn a_conversation_stands_where_it_was_last_written_to(store: &dyn Tree) -> Verdict {
    equal("nothing", &store.conversation_head("c").await?, &None)?;
    equal("no branches", &store.branches("c").await?.len(), &0)?;
    equal("no messages", &visible(store, "c").await?.len(), &0)?;
    two_turns(store).await?;
    let expected = head("main", Some("m4"), 2);
    equal(
        "the head",
        &store.conversation_head("c").await?,
        &Some(expected),
    )?;
    store.create_branch("c", "a side", "m2").await?;
    let side = head("a side", Some("m2"), 1);
    equal(
        "the head",
        &store.conversation_head("c").await?,
        &Some(side.clone()),
    )?;
    store.switch_branch("c", "main").await?;
    equal(
        "messages",
        &visible(store, "c").await?,
        &["m1", "m2", "m3", "m4"][..],
    )?;
    let newest = store.recent_in_conversation("c", 1).await?;
    equal("the newest message", &ids(&newest), &["m4"][..])?;
    let both = [side, head("main", Some("m4"), 2)];
    equal("branches", &store.branches("c").await?, &both[..])?;
    let node = TurnNode {
        branch: "a side".to_owned(),
        ..message("s1", Some("m2"), 2)
    };
    store.put_turn_node(node).await?;
    equal(
        "messages",
        &visible(store, "c").await?,
        &["m1", "m2", "s1"][..],
    )?;
    not_found(
        "an unknown branch",
        store.switch_branch("c", "nowhere").await,
    )?;
    not_found(
        "an unknown conversation",
        store.switch_branch("d", "main").await,
    )?;
    equal(
        "messages",
        &visible(store, "c").await?,
        &["m1", "m2", "s1"][..],
    )
}

/// A branch begins after any message of its conversation; beginning it again elsewhere is a conflict.
pub async fn branches_begin_anywhere_and_never_move(store: &dyn Tree) -> Verdict {
    two_turns(store).await?;
    say(store, "d", "d1", None, 1).await?;
    for _ in 0..2 {
        store.create_branch("c", "side", "m2").await?;
    }
    let answer = store.create_branch("c", "side", "m1").await;
    conflict("a branch that ends elsewhere", answer, None)?;
    for (conversation, after) in [("c", "nowhere"), ("c", "d1"), ("nowhere", "m1")] {
        let answer = store.create_branch(conversation, "other", after).await;
        not_found("a message of no such conversation", answer)?;
    }
    let expected = [head("main", Some("m4"), 2), head("side", Some("m2"), 1)];
    equal("branches", &store.branches("c").await?, &expected[..])?;
    let nodes = store.recent_turn_nodes("c", "side", 9).await?;
    equal("messages of the branch", &ids(&nodes), &["m1", "m2"][..])
}

/// Going back moves the head, says how much it hid, and leaves everything for a branch to begin at.
pub async fn going_back_hides_and_deletes_nothing(store: &dyn Tree) -> Verdict {
    two_turns(store).await?;
    equal("hidden", &store.rewind("c", "m4").await?, &0)?;
    equal("hidden", &store.rewind("c", "m2").await?, &2)?;
    equal("messages", &visible(store, "c").await?, &["m1", "m2"][..])?;
    equal("the last turn", &store.last_turn("c", "main").await?, &1)?;
    not_found("a hidden message", store.rewind("c", "m3").await)?;
    not_found("an unknown message", store.rewind("c", "nowhere").await)?;
    not_found("an unknown conversation", store.rewind("d", "m1").await)?;
    require(
        store.turn_node("m4").await?.is_some(),
        "a hidden message should still be there",
    )?;
    store.create_branch("c", "again", "m4").await?;
    equal(
        "messages",
        &visible(store, "c").await?,
        &["m1", "m2", "m3", "m4"][..],
    )
}

/// After going back another message takes the place; both are replies, in the order in which they came.
pub async fn an_edited_message_is_a_second_reply(store: &dyn Tree) -> Verdict {
    two_turns(store).await?;
    store.rewind("c", "m2").await?;
    say(store, "c", "e3", Some("m2"), 2).await?;
    equal(
        "messages",
        &visible(store, "c").await?,
        &["m1", "m2", "e3"][..],
    )?;
    let replies = store.replies("m2").await?;
    equal("replies", &ids(&replies), &["m3", "e3"][..])?;
    equal(
        "replies to nothing",
        &store.replies("nowhere").await?.len(),
        &0,
    )?;
    // Reporting what was gone back from once more does not bring it back.
    say(store, "c", "m4", Some("m3"), 2).await?;
    equal(
        "messages",
        &visible(store, "c").await?,
        &["m1", "m2", "e3"][..],
    )
}

/// What hangs on a message counts while it is visible; what hangs on none of the conversation's always does.
pub async fn what_is_hidden_is_not_in_context(store: &dyn Tree) -> Verdict {
    two_turns(store).await?;
    show(store, "c", "not-in-the-tree", "apple").await?;
    equal(
        "in context",
        &pages_of(store, "c").await?,
        &["kiwi", "plum", "apple"][..],
    )?;
    store.rewind("c", "m2").await?;
    equal(
        "in context",
        &pages_of(store, "c").await?,
        &["kiwi", "apple"][..],
    )?;
    store.create_branch("c", "again", "m4").await?;
    equal(
        "in context",
        &pages_of(store, "c").await?,
        &["kiwi", "plum", "apple"][..],
    )?;
    store.switch_branch("c", "main").await?;
    equal(
        "in context",
        &pages_of(store, "c").await?,
        &["kiwi", "apple"][..],
    )
}

/// A fork has copies of the visible messages with their blocks, what is in context, and the small values.
pub async fn a_fork_is_a_copy_of_what_is_visible(store: &dyn Tree) -> Verdict {
    two_turns(store).await?;
    let scope = KvScope::Conversation;
    for (key, value) in [("free", "text"), ("seen", "m1"), ("hidden", "m3")] {
        let value = Some(value.to_owned());
        store.kv_put("v3", scope, "c", key, value).await?;
    }
    let block = vec![("memory".to_owned(), "block".to_owned())];
    store.attach_blocks("m1", block.clone()).await?;
    show(store, "c", "not-in-the-tree", "apple").await?;
    store.rewind("c", "m2").await?;
    let made = store
        .fork_conversation("c", "f", ForkExtent::Full, at(9))
        .await?;
    equal(
        "what was copied",
        &(made.blocks, made.resident, made.values),
        &(1, 2, 2),
    )?;
    let (from, to): (Vec<String>, Vec<String>) = made.messages.into_iter().unzip();
    equal("messages", &from, &["m1", "m2"][..])?;
    equal("copies", &visible(store, "f").await?, &to)?;
    for (id, copy) in from.iter().zip(&to) {
        let (known, copy) = (store.turn_node(id).await?, store.turn_node(copy).await?);
        let text =
            |node: Option<TurnNode>| node.map(|node| (node.text, node.turn, node.attached_blocks));
        equal("a copy", &text(copy), &text(known))?;
    }
    equal(
        "in context",
        &pages_of(store, "f").await?,
        &["kiwi", "apple"][..],
    )?;
    let expected = [
        ("free", Some("text")),
        ("seen", to.first().map(String::as_str)),
        ("hidden", None),
    ];
    for (key, value) in expected {
        let found = store.kv_get("v3", scope, "f", key).await?;
        equal(key, &found.as_deref(), &value)?;
    }
    // Both go on by themselves.
    say(store, "f", "f3", to.last().map(String::as_str), 2).await?;
    equal("messages", &visible(store, "c").await?, &["m1", "m2"][..])?;
    equal(
        "messages of the fork",
        &visible(store, "f").await?.len(),
        &3,
    )
}

/// A fork of a part has the messages up to the last one, and nothing that speaks of the whole.
pub async fn a_fork_of_a_part_ends_where_it_was_cut(store: &dyn Tree) -> Verdict {
    two_turns(store).await?;
    let value = Some("text".to_owned());
    store
        .kv_put("v3", KvScope::Conversation, "c", "free", value)
        .await?;
    let extent = ForkExtent::UpTo("m2".to_owned());
    let made = store.fork_conversation("c", "f", extent, at(9)).await?;
    equal(
        "what was copied",
        &(made.messages.len(), made.resident, made.values),
        &(2, 1, 0),
    )?;
    equal("in context", &pages_of(store, "f").await?, &["kiwi"][..])?;
    let entry = store.resident("f").await?.pop();
    equal(
        "when it was attached",
        &entry.map(|entry| entry.at),
        &Some(at(9)),
    )?;
    store.rewind("c", "m2").await?;
    let extent = ForkExtent::UpTo("m3".to_owned());
    let answer = store.fork_conversation("c", "g", extent, at(9)).await;
    not_found("a message that is not visible", answer)?;
    equal(
        "the fork that failed",
        &store.conversation_head("g").await?,
        &None,
    )
}

/// The same fork again changes nothing; a name with a history of its own is not taken.
pub async fn a_fork_is_made_once_and_takes_no_name_away(store: &dyn Tree) -> Verdict {
    two_turns(store).await?;
    say(store, "d", "d1", None, 1).await?;
    let fork = |from: &'static str, to: &'static str| {
        store.fork_conversation(from, to, ForkExtent::Full, at(9))
    };
    fork("c", "f").await?;
    let copies = visible(store, "f").await?;
    equal(
        "the second time",
        &fork("c", "f").await?,
        &Forked::default(),
    )?;
    equal("messages of the fork", &visible(store, "f").await?, &copies)?;
    conflict("another conversation", fork("c", "d").await, None)?;
    conflict("the fork of another", fork("d", "f").await, None)?;
    require(
        fork("c", "c").await.is_err(),
        "a conversation is not its own fork",
    )?;
    equal("messages", &visible(store, "d").await?, &["d1"][..])
}

/// Deleting a conversation leaves its forks whole.
pub async fn a_fork_survives_what_it_was_made_of(store: &dyn Tree) -> Verdict {
    two_turns(store).await?;
    store
        .fork_conversation("c", "f", ForkExtent::Full, at(9))
        .await?;
    let (copies, context) = (visible(store, "f").await?, pages_of(store, "f").await?);
    store.delete_conversation("c").await?;
    equal("messages of the fork", &visible(store, "f").await?, &copies)?;
    equal("its context", &pages_of(store, "f").await?, &context)?;
    equal("what it was made of", &visible(store, "c").await?.len(), &0)
}

/// A deletion says what it took, takes nothing of others, and may come again.
pub async fn a_deletion_takes_everything_of_one_conversation(store: &dyn Tree) -> Verdict {
    two_turns(store).await?;
    say(store, "d", "d1", None, 1).await?;
    show(store, "d", "d1", "apple").await?;
    store
        .attach_blocks("m1", vec![("memory".to_owned(), "block".to_owned())])
        .await?;
    store.create_branch("c", "side", "m2").await?;
    for (owner, scope) in [
        ("c", KvScope::Conversation),
        ("d", KvScope::Conversation),
        ("", KvScope::Assistant),
    ] {
        let value = Some("v".to_owned());
        store.kv_put("v3", scope, owner, "k", value).await?;
    }
    let log = vec![row(LogKind::Selection, "1"), row(LogKind::PoolAudit, "1")];
    store.append_log("c", 1, Tier::V3, log, at(1)).await?;
    let expected = ConversationRows {
        messages: 4,
        blocks: 1,
        resident: 2,
        log: 2,
        values: 1,
    };
    equal(
        "what it took",
        &store.delete_conversation("c").await?,
        &expected,
    )?;
    for id in ["m1", "m2", "m3", "m4"] {
        equal("a message", &store.turn_node(id).await?, &None)?;
    }
    equal("its head", &store.conversation_head("c").await?, &None)?;
    equal("its branches", &store.branches("c").await?.len(), &0)?;
    equal("its context", &store.resident("c").await?.len(), &0)?;
    let logged = store.newest_log("c", LogKind::Selection, 9).await?;
    equal("its log", &logged.len(), &0)?;
    for (owner, scope, value) in [
        ("c", KvScope::Conversation, None),
        ("d", KvScope::Conversation, Some("v")),
        ("", KvScope::Assistant, Some("v")),
    ] {
        let found = store.kv_get("v3", scope, owner, "k").await?;
        equal("a value", &found.as_deref(), &value)?;
    }
    equal(
        "another conversation",
        &visible(store, "d").await?,
        &["d1"][..],
    )?;
    equal("its context", &pages_of(store, "d").await?, &["apple"][..])?;
    let again = store.delete_conversation("c").await?;
    equal("the second time", &again, &ConversationRows::default())?;
    // The name is free again, for messages too.
    two_turns(store).await?;
    equal(
        "messages",
        &visible(store, "c").await?,
        &["m1", "m2", "m3", "m4"][..],
    )
}

/// Rows that come before a conversation, or after it, go only when an earlier look had seen them.
pub async fn rows_without_a_conversation_go_when_they_were_seen_before(
    store: &dyn Tree,
) -> Verdict {
    say(store, "d", "d1", None, 1).await?;
    for conversation in ["d", "gone"] {
        let log = vec![row(LogKind::Selection, "1")];
        store
            .append_log(conversation, 1, Tier::V3, log, at(1))
            .await?;
    }
    show(store, "gone", "m", "kiwi").await?;
    let sweep = |now, dry_run| store.sweep_orphans(at(now), GRACE_MS, dry_run);
    let waits = OrphanSweep {
        waiting: 1,
        ..OrphanSweep::default()
    };
    equal("a look", &sweep(0, true).await?, &waits)?;
    // A look notes nothing, so the time begins here.
    equal("the first sweep", &sweep(5, false).await?, &waits)?;
    equal("too early", &sweep(GRACE_MS + 4, false).await?, &waits)?;
    let due = OrphanSweep {
        conversations: vec!["gone".to_owned()],
        rows: ConversationRows {
            resident: 1,
            log: 1,
            ..ConversationRows::default()
        },
        waiting: 0,
    };
    for dry_run in [true, true, false] {
        equal("when it is due", &sweep(GRACE_MS + 5, dry_run).await?, &due)?;
    }
    let nothing = OrphanSweep::default();
    equal("afterwards", &sweep(GRACE_MS + 6, false).await?, &nothing)?;
    equal("its rows", &store.resident("gone").await?.len(), &0)?;
    // What comes again has its own time, and what begins a conversation after all stays.
    show(store, "gone", "m", "kiwi").await?;
    equal("again", &sweep(9 * GRACE_MS, false).await?, &waits)?;
    say(store, "gone", "m", None, 1).await?;
    equal("begun", &sweep(99 * GRACE_MS, false).await?, &nothing)?;
    equal("in context", &pages_of(store, "gone").await?, &["kiwi"][..])?;
    let logged = store.newest_log("d", LogKind::Selection, 9).await?;
    equal("the log of a conversation", &logged.len(), &1)
}
