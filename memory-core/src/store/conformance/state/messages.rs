//! What a state store promises of messages and of what was attached to them.

use super::super::{Verdict, conflict, equal, not_found, require};
use super::{LARGE, at, everything, ids, message};
use crate::services::Role;
use crate::store::{StateStore, TurnNode};

/// Every field of a message comes back, with its blocks in their order.
pub async fn a_message_comes_back_as_it_went_in(store: &dyn StateStore) -> Verdict {
    equal(
        "a message that is not there",
        &store.turn_node("m1").await?,
        &None,
    )?;
    let written = everything();
    store.put_turn_node(written.clone()).await?;
    equal("the message", &store.turn_node("m1").await?, &Some(written))?;
    let large = TurnNode {
        text: "x".repeat(LARGE),
        ..message("m2", Some("m1"), 2)
    };
    store.put_turn_node(large.clone()).await?;
    equal(
        "a large message",
        &store.turn_node("m2").await?,
        &Some(large),
    )
}

/// A message that is reported twice is there once, as it was first stored, final or not.
pub async fn the_same_message_again_changes_nothing(store: &dyn StateStore) -> Verdict {
    for finalised in [false, true] {
        let first = TurnNode {
            finalised,
            ..message(&format!("m-{finalised}"), None, 1)
        };
        store.put_turn_node(first.clone()).await?;
        let again = TurnNode {
            ingestion_time: at(99),
            ..first.clone()
        };
        store.put_turn_node(again).await?;
        let found = store.turn_node(&first.id).await?;
        equal("the message", &found, &Some(first))?;
    }
    Ok(())
}

/// Until it is final a message can be replaced; then other content is a conflict and changes nothing.
pub async fn a_message_changes_until_it_is_final(store: &dyn StateStore) -> Verdict {
    store.put_turn_node(message("m1", None, 1)).await?;
    let last = TurnNode {
        text: "as sent".to_owned(),
        finalised: true,
        ..message("m1", None, 1)
    };
    store.put_turn_node(last.clone()).await?;
    for other in [
        TurnNode {
            text: "edited".to_owned(),
            ..last.clone()
        },
        TurnNode {
            finalised: false,
            ..last.clone()
        },
    ] {
        conflict("a final message", store.put_turn_node(other).await, None)?;
    }
    equal("the message", &store.turn_node("m1").await?, &Some(last))
}

/// A message stays where it is in the tree, or the tree could become a circle.
pub async fn a_message_keeps_its_place(store: &dyn StateStore) -> Verdict {
    store.put_turn_node(message("m1", None, 1)).await?;
    let known = message("m2", Some("m1"), 1);
    store.put_turn_node(known.clone()).await?;
    let others = [
        TurnNode {
            parent: None,
            ..known.clone()
        },
        TurnNode {
            branch: "side".to_owned(),
            ..known.clone()
        },
        TurnNode {
            turn: 2,
            ..known.clone()
        },
        TurnNode {
            role: Role::Tool,
            ..known.clone()
        },
        TurnNode {
            conversation: "d".to_owned(),
            parent: None,
            ..known.clone()
        },
    ];
    for other in others {
        conflict("another place", store.put_turn_node(other).await, None)?;
    }
    equal("the message", &store.turn_node("m2").await?, &Some(known))
}

/// A message without a name, a conversation, a turn, an object beside it, or a parent that is there, is not stored.
pub async fn a_message_that_makes_no_sense_is_refused(store: &dyn StateStore) -> Verdict {
    store.put_turn_node(message("there", None, 1)).await?;
    let good = message("m1", None, 1);
    let bad = [
        message("", None, 1),
        message("m1", Some("nowhere"), 1),
        message("m1", Some("m1"), 1),
        message("m1", None, 0),
        TurnNode {
            conversation: String::new(),
            ..good.clone()
        },
        TurnNode {
            conversation: "other".to_owned(),
            parent: Some("there".to_owned()),
            ..good.clone()
        },
        TurnNode {
            metadata: "[]".to_owned(),
            ..good.clone()
        },
        TurnNode {
            metadata: "{".to_owned(),
            ..good.clone()
        },
        TurnNode {
            attached_blocks: vec![(String::new(), "text".to_owned())],
            ..good
        },
    ];
    for bad in bad {
        let refused = store.put_turn_node(bad.clone()).await.is_err();
        require(refused, &format!("it should refuse {bad:?}"))?;
        equal("the message", &store.turn_node(&bad.id).await?, &None)?;
    }
    let left = store.recent_turn_nodes("c", "main", 9).await?;
    equal("messages", &ids(&left), &["there"][..])
}

/// Of a branch the newest are read, oldest first, as many as were asked for.
pub async fn the_newest_messages_come_oldest_first(store: &dyn StateStore) -> Verdict {
    equal(
        "the last turn of nothing",
        &store.last_turn("c", "main").await?,
        &0,
    )?;
    let mut parent: Option<String> = None;
    for turn in 1..=5 {
        let id = format!("m{turn}");
        store
            .put_turn_node(message(&id, parent.as_deref(), turn))
            .await?;
        parent = Some(id);
    }
    let cases: [(&str, &str, u32, &[&str]); 6] = [
        ("c", "main", 2, &["m4", "m5"]),
        ("c", "main", 1, &["m5"]),
        ("c", "main", 0, &[]),
        ("c", "main", u32::MAX, &["m1", "m2", "m3", "m4", "m5"]),
        ("c", "side", 9, &[]),
        ("d", "main", 9, &[]),
    ];
    for (conversation, branch, limit, expected) in cases {
        let found = store.recent_turn_nodes(conversation, branch, limit).await?;
        equal("messages", &ids(&found), expected)?;
    }
    equal("the last turn", &store.last_turn("c", "main").await?, &5)
}

/// A block that is attached again keeps its place and gets the new text.
pub async fn attached_blocks_keep_their_order(store: &dyn StateStore) -> Verdict {
    let pair = |key: &str, text: &str| (key.to_owned(), text.to_owned());
    let answer = store.attach_blocks("m1", vec![pair("a", "x")]).await;
    not_found("a message that is not there", answer)?;
    store.put_turn_node(message("m1", None, 1)).await?;
    store
        .attach_blocks("m1", vec![pair("memory", "one"), pair("info", "two")])
        .await?;
    store
        .attach_blocks("m1", vec![pair("memory", "three"), pair("a", "four")])
        .await?;
    let expected = vec![
        pair("memory", "three"),
        pair("info", "two"),
        pair("a", "four"),
    ];
    let blocks = |node: Option<TurnNode>| node.map(|node| node.attached_blocks);
    let found = blocks(store.turn_node("m1").await?);
    equal("its blocks", &found, &Some(expected.clone()))?;
    // Replacing the message, and making it final, takes none away.
    for finalised in [false, true] {
        let next = TurnNode {
            text: "as sent".to_owned(),
            finalised,
            ..message("m1", None, 1)
        };
        store.put_turn_node(next).await?;
        let found = blocks(store.turn_node("m1").await?);
        equal("its blocks", &found, &Some(expected.clone()))?;
    }
    store.attach_blocks("m1", expected.clone()).await?;
    let answer = store
        .attach_blocks("m1", vec![pair("info", "changed")])
        .await;
    conflict("a block of a final message", answer, None)?;
    let found = blocks(store.turn_node("m1").await?);
    equal("its blocks", &found, &Some(expected))
}

/// Blocks of which one is refused are all refused.
pub async fn attaching_is_all_or_nothing(store: &dyn StateStore) -> Verdict {
    let pair = |key: &str| (key.to_owned(), "text".to_owned());
    store.put_turn_node(message("m1", None, 1)).await?;
    let refused = store.attach_blocks("m1", vec![pair("a"), pair("")]).await;
    require(refused.is_err(), "a block without a key should be refused")?;
    equal(
        "the message",
        &store.turn_node("m1").await?,
        &Some(message("m1", None, 1)),
    )
}
