//! Where a message stands in its conversation, and how a turn becomes part of the tree.
//!
//! The tree is written in two steps, because a turn is: the user's message when blocks were attached to it, and both
//! messages, final, when the turn ends. What a message says is kept as it was said, except for secrets in it. Every
//! step can be repeated: a message that is there already keeps its place. An identifier belongs to one message of one
//! conversation, so a host that gives it to another one is told.

use memory_core::env::{Clock, Ids};
use memory_core::provenance::Origin;
use memory_core::services::Role;
use memory_core::store::{StateStore as _, StoreError, StoreResult, TurnNode, TurnTree as _};
use memory_core::text::block;
use memory_core::wire::{metadata, tag};
use memory_substrate::screen::redact;
use memory_substrate::state::SqliteState;

use crate::turn::{TurnEnd, TurnIds, TurnInput, wrap};

/// How many messages back a tier is told of.
const RECENT_MESSAGES: u32 = 6;

/// How much of the assistant's last message a tier is told, in characters from its end.
const REPLY_CHARACTERS: usize = 2_500;

/// Where a message stands, and what was said before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) message: String,
    pub(crate) turn: u64,
    parent: Option<String>,
    pub(crate) previous_reply: Option<String>,
    pub(crate) recent: Vec<String>,
    /// The user's text without what we attached to messages before.
    pub(crate) text: String,
}

/// Finds the place of a message. One that is in the tree already keeps its own.
pub(crate) async fn locate(
    state: &SqliteState,
    ids: &dyn Ids,
    input: &TurnInput,
) -> StoreResult<Place> {
    let mut history = state
        .recent_turn_nodes(&input.conversation, &input.branch, RECENT_MESSAGES)
        .await?;
    let known = match &input.message_id {
        Some(id) => state.turn_node(id).await?,
        None => None,
    };
    let (turn, parent) = if let Some(node) = &known {
        history.retain(|earlier| earlier.turn < node.turn);
        (node.turn, node.parent.clone())
    } else {
        let last = state.last_turn(&input.conversation, &input.branch).await?;
        (last + 1, history.last().map(|node| node.id.clone()))
    };
    let attached: Vec<String> = history
        .iter()
        .chain(&known)
        .flat_map(attached_texts)
        .collect();
    let attached: Vec<&str> = attached.iter().map(String::as_str).collect();
    let text = bare(&block::strip_attached(&input.text, &attached));
    if let Some(known) = &known {
        same_message(known, &input.conversation, &text)?;
    }
    let last_reply = history
        .iter()
        .rev()
        .find(|node| node.role == Role::Assistant)
        .map(|node| node.text.clone());
    let recent = history.into_iter().map(|node| node.text).collect();
    Ok(Place {
        message: input.message_id.clone().unwrap_or_else(|| ids.next_id()),
        turn,
        parent,
        previous_reply: input
            .previous_reply
            .clone()
            .map(|reply| bare(&reply))
            .or(last_reply)
            .map(|reply| tail(&reply, REPLY_CHARACTERS)),
        recent: if input.recent.is_empty() {
            recent
        } else {
            input.recent.iter().map(|text| bare(text)).collect()
        },
        text,
    })
}

/// Makes the branch of a message the conversation's current one, which is what a tier is shown of it. A branch that does
/// not exist yet becomes the current one with its first message.
pub(crate) async fn stand_on_branch(state: &SqliteState, input: &TurnInput) -> StoreResult<()> {
    let conversation = &input.conversation;
    match state.conversation_head(conversation).await? {
        Some(head) if head.branch != input.branch => {
            allow_unknown(state.switch_branch(conversation, &input.branch).await)
        }
        _ => Ok(()),
    }
}

/// Goes back to a message. One that is not in the tree, because its turn was not recorded, changes nothing.
pub(crate) async fn go_back(
    state: &SqliteState,
    conversation: &str,
    message: &str,
) -> StoreResult<()> {
    allow_unknown(state.rewind(conversation, message).await.map(drop))
}

fn allow_unknown(result: StoreResult<()>) -> StoreResult<()> {
    match result {
        Err(StoreError::NotFound { .. }) => Ok(()),
        result => result,
    }
}

/// Puts the user's message into the tree, not final yet.
pub(crate) async fn open_message(
    state: &SqliteState,
    clock: &dyn Clock,
    input: &TurnInput,
    place: &Place,
    metadata: &str,
) -> StoreResult<()> {
    let Some(mut known) = state.turn_node(&place.message).await? else {
        let node = user_node(clock, input, place, metadata);
        return state.put_turn_node(node).await;
    };
    same_message(&known, &input.conversation, &place.text)?;
    if known.finalised || known.metadata == metadata {
        return Ok(());
    }
    // The turn was begun again, and perhaps another tier has served it this time.
    metadata.clone_into(&mut known.metadata);
    state.put_turn_node(known).await
}

/// Returns both messages of a turn as final parts of the tree, in their order, with their names. `user` is the user's, as
/// it is stored if it is not there yet.
pub(crate) async fn closing_messages(
    state: &SqliteState,
    clock: &dyn Clock,
    ids: &dyn Ids,
    user: TurnNode,
    end: TurnEnd,
) -> StoreResult<(TurnIds, Vec<TurnNode>)> {
    let mut message = match state.turn_node(&user.id).await? {
        Some(known) => {
            same_message(&known, &user.conversation, &user.text)?;
            known
        }
        None => user,
    };
    message.finalised = true;
    let Some(reply) = end.reply else {
        let ids = TurnIds {
            message: message.id.clone(),
            reply: None,
        };
        return Ok((ids, vec![message]));
    };
    let attached = attached_texts(&message);
    let attached: Vec<&str> = attached.iter().map(String::as_str).collect();
    let now = clock.now();
    let node = TurnNode {
        id: end.reply_id.unwrap_or_else(|| ids.next_id()),
        parent: Some(message.id.clone()),
        role: Role::Assistant,
        text: bare(&block::strip_attached(&reply, &attached)),
        speaker: None,
        principal: None,
        origin: Origin::AssistantInferred,
        event_time: end.event_time.unwrap_or(now),
        ingestion_time: now,
        metadata: "{}".to_owned(),
        attached_blocks: Vec::new(),
        ..message.clone()
    };
    let ids = TurnIds {
        message: message.id.clone(),
        reply: Some(node.id.clone()),
    };
    let node = match state.turn_node(&node.id).await? {
        // Stored by an earlier try, at another time.
        Some(known)
            if known.finalised
                && known.role == node.role
                && known.conversation == node.conversation
                && known.parent == node.parent
                && known.text == node.text =>
        {
            known
        }
        _ => node,
    };
    Ok((ids, vec![message, node]))
}

/// Returns an error unless the message that is known under an identifier is the one that comes under it now.
fn same_message(known: &TurnNode, conversation: &str, text: &str) -> StoreResult<()> {
    let (expected, found) = if known.conversation != conversation {
        (
            format!("a message of conversation `{conversation}`"),
            "one of another conversation, which keeps its identifier",
        )
    } else if known.role != Role::User {
        ("a user's message".to_owned(), "a reply")
    } else if known.finalised && known.text != text {
        (
            "the text it was finalised with".to_owned(),
            "another text, which needs an identifier of its own",
        )
    } else {
        return Ok(());
    };
    Err(StoreError::Conflict {
        what: format!("message {}", known.id),
        expected,
        found: found.to_owned(),
    })
}

/// Returns the user's message, not final yet.
pub(crate) fn user_node(
    clock: &dyn Clock,
    input: &TurnInput,
    place: &Place,
    metadata: &str,
) -> TurnNode {
    let now = clock.now();
    TurnNode {
        id: place.message.clone(),
        conversation: input.conversation.clone(),
        parent: place.parent.clone(),
        branch: input.branch.clone(),
        turn: place.turn,
        role: Role::User,
        text: place.text.clone(),
        finalised: false,
        speaker: input.speaker.clone(),
        principal: input.principal.clone(),
        authority: input.authority,
        agent: input.agent.clone(),
        channel: input.channel.clone(),
        origin: input.origin,
        event_time: input.event_time.unwrap_or(now),
        ingestion_time: now,
        metadata: metadata.to_owned(),
        attached_blocks: Vec::new(),
    }
}

/// Returns the blocks of a message as they stood in the prompt.
fn attached_texts(node: &TurnNode) -> Vec<String> {
    let wrapper = |key: &str| match key {
        metadata::INJECTED_BLOCK | metadata::V3_INJECTED_BLOCK => tag::MEMORY,
        metadata::STATIC_BLOCK => tag::INFO,
        metadata::PKB_CONTEXT_BLOCK => tag::KNOWLEDGE_BASE,
        metadata::PKB_REMINDER_BLOCK => tag::SYSTEM_REMINDER,
        _ => "",
    };
    node.attached_blocks
        .iter()
        .map(|(key, text)| wrap(wrapper(key), text))
        .collect()
}

/// Returns a text without secrets: a message is kept for good, and a tier may log what it is asked.
fn bare(text: &str) -> String {
    redact(text).text
}

fn tail(text: &str, characters: usize) -> String {
    let skipped = text.chars().count().saturating_sub(characters);
    text.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memory_core::env::{CountingIds, ManualClock};
    use memory_core::time::Timestamp;

    use super::*;

    fn state(root: &tempfile::TempDir) -> (SqliteState, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_000)));
        let state = SqliteState::open(&root.path().join("state.db"), &*clock).unwrap();
        (state, clock)
    }

    async fn close(
        state: &SqliteState,
        clock: &ManualClock,
        ids: &dyn Ids,
        input: &TurnInput,
        place: &Place,
        end: TurnEnd,
    ) -> StoreResult<TurnIds> {
        let user = user_node(clock, input, place, "{}");
        let (stored, messages) = closing_messages(state, clock, ids, user, end).await?;
        for message in messages {
            state.put_turn_node(message).await?;
        }
        Ok(stored)
    }

    #[tokio::test]
    async fn a_second_turn_knows_the_first() {
        let root = tempfile::tempdir().unwrap();
        let (state, clock) = state(&root);
        let ids = CountingIds::new("m");
        let first = TurnInput::owner("c", "hello");
        let place = locate(&state, &ids, &first).await.unwrap();
        assert_eq!((place.turn, place.previous_reply.as_deref()), (1, None));
        close(
            &state,
            &clock,
            &ids,
            &first,
            &place,
            TurnEnd::reply("hi there"),
        )
        .await
        .unwrap();

        let second = locate(&state, &ids, &TurnInput::owner("c", "again"))
            .await
            .unwrap();
        assert_eq!(second.turn, 2);
        assert_eq!(second.parent.as_deref(), Some("m000002"));
        assert_eq!(second.previous_reply.as_deref(), Some("hi there"));
        assert_eq!(second.recent, ["hello", "hi there"]);
    }

    #[tokio::test]
    async fn a_message_that_comes_again_keeps_its_place() {
        let root = tempfile::tempdir().unwrap();
        let (state, clock) = state(&root);
        let ids = CountingIds::new("m");
        let input = TurnInput {
            message_id: Some("host1".to_owned()),
            ..TurnInput::owner("c", "hello")
        };
        for _ in 0..2 {
            let place = locate(&state, &ids, &input).await.unwrap();
            assert_eq!((place.turn, place.parent.as_deref()), (1, None));
            open_message(&state, &*clock, &input, &place, "{}")
                .await
                .unwrap();
            let end = TurnEnd {
                reply_id: Some("host2".to_owned()),
                ..TurnEnd::reply("hi")
            };
            let stored = close(&state, &clock, &ids, &input, &place, end)
                .await
                .unwrap();
            assert_eq!(
                stored,
                TurnIds {
                    message: "host1".to_owned(),
                    reply: Some("host2".to_owned())
                }
            );
        }
        assert_eq!(
            state
                .recent_turn_nodes("c", "main", 10)
                .await
                .unwrap()
                .len(),
            2
        );
    }

    #[tokio::test]
    async fn what_was_attached_is_not_taken_for_the_users_words() {
        let root = tempfile::tempdir().unwrap();
        let (state, clock) = state(&root);
        let ids = CountingIds::new("m");
        let input = TurnInput {
            message_id: Some("host1".to_owned()),
            ..TurnInput::owner("c", "hello")
        };
        let place = locate(&state, &ids, &input).await.unwrap();
        open_message(&state, &*clock, &input, &place, "{}")
            .await
            .unwrap();
        let blocks = vec![(metadata::STATIC_BLOCK.to_owned(), "facts".to_owned())];
        state.attach_blocks("host1", blocks).await.unwrap();

        let again = TurnInput {
            text: "<info>\nfacts\n</info>\nhello".to_owned(),
            ..input.clone()
        };
        assert_eq!(locate(&state, &ids, &again).await.unwrap().text, "hello");
        let foreign = TurnInput {
            text: "<info>\nother\n</info>\nhello".to_owned(),
            ..input
        };
        assert_eq!(
            locate(&state, &ids, &foreign).await.unwrap().text,
            foreign.text,
            "a person may write our tags"
        );
    }

    #[tokio::test]
    async fn a_turn_that_is_begun_again_is_kept_with_what_served_it_last() {
        let root = tempfile::tempdir().unwrap();
        let (state, clock) = state(&root);
        let ids = CountingIds::new("m");
        let input = TurnInput {
            message_id: Some("host1".to_owned()),
            ..TurnInput::owner("c", "hello")
        };
        let place = locate(&state, &ids, &input).await.unwrap();
        for metadata in [r#"{"tier":"v2"}"#, r#"{"tier":"v3"}"#] {
            open_message(&state, &*clock, &input, &place, metadata)
                .await
                .unwrap();
            let known = state.turn_node("host1").await.unwrap().unwrap();
            assert_eq!(known.metadata, metadata);
        }
        close(&state, &clock, &ids, &input, &place, TurnEnd::default())
            .await
            .unwrap();
        open_message(&state, &*clock, &input, &place, "{}")
            .await
            .unwrap();
        let known = state.turn_node("host1").await.unwrap().unwrap();
        assert_eq!(known.metadata, r#"{"tier":"v3"}"#, "it is final");
    }

    #[tokio::test]
    async fn an_identifier_belongs_to_one_conversation() {
        let root = tempfile::tempdir().unwrap();
        let (state, clock) = state(&root);
        let ids = CountingIds::new("m");
        let said_in = |conversation: &str| TurnInput {
            message_id: Some("host1".to_owned()),
            ..TurnInput::owner(conversation, "hello")
        };
        let (one, other) = (said_in("one"), said_in("other"));
        // Both were located before either was stored.
        let place = locate(&state, &ids, &one).await.unwrap();
        let late = locate(&state, &ids, &other).await.unwrap();
        open_message(&state, &*clock, &one, &place, "{}")
            .await
            .unwrap();
        let end = TurnEnd::reply("hi");
        let errors = [
            locate(&state, &ids, &other).await.err(),
            open_message(&state, &*clock, &other, &late, "{}")
                .await
                .err(),
            close(&state, &clock, &ids, &other, &late, end).await.err(),
        ];
        for error in errors {
            let error = error.unwrap();
            assert!(matches!(error, StoreError::Conflict { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("host1") && text.contains("`other`"), "{text}");
        }
        let stored = state.turn_node("host1").await.unwrap().unwrap();
        assert_eq!(
            (stored.conversation.as_str(), stored.finalised),
            ("one", false)
        );
        assert_eq!(state.last_turn("other", "main").await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_final_message_does_not_come_again_with_another_text() {
        let root = tempfile::tempdir().unwrap();
        let (state, clock) = state(&root);
        let ids = CountingIds::new("m");
        let first = TurnInput {
            message_id: Some("host1".to_owned()),
            ..TurnInput::owner("c", "hello")
        };
        let place = locate(&state, &ids, &first).await.unwrap();
        let end = TurnEnd::default();
        close(&state, &clock, &ids, &first, &place, end)
            .await
            .unwrap();
        let edited = TurnInput {
            text: "goodbye".to_owned(),
            ..first
        };
        let error = locate(&state, &ids, &edited).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_reply_that_comes_again_later_is_the_same_reply() {
        let root = tempfile::tempdir().unwrap();
        let (state, clock) = state(&root);
        let ids = CountingIds::new("m");
        let input = TurnInput::owner("c", "hello");
        let place = locate(&state, &ids, &input).await.unwrap();
        let reply = |text: &str| TurnEnd {
            reply_id: Some("host2".to_owned()),
            ..TurnEnd::reply(text)
        };
        let first = close(&state, &clock, &ids, &input, &place, reply("hi"))
            .await
            .unwrap();
        clock.advance_millis(5);
        let again = close(&state, &clock, &ids, &input, &place, reply("hi"))
            .await
            .unwrap();
        assert_eq!(first, again);
        close(&state, &clock, &ids, &input, &place, reply("another"))
            .await
            .unwrap_err();
    }

    #[tokio::test]
    async fn after_going_back_an_edited_message_takes_the_place_of_the_first() {
        let root = tempfile::tempdir().unwrap();
        let (state, clock) = state(&root);
        let ids = CountingIds::new("m");
        for text in ["one", "two"] {
            let input = TurnInput::owner("c", text);
            let place = locate(&state, &ids, &input).await.unwrap();
            let end = TurnEnd::reply(format!("reply to {text}"));
            close(&state, &clock, &ids, &input, &place, end)
                .await
                .unwrap();
        }
        let first_reply = state.recent_turn_nodes("c", "main", 9).await.unwrap()[1].clone();
        go_back(&state, "c", "never told of").await.unwrap();
        go_back(&state, "c", &first_reply.id).await.unwrap();
        let edited = TurnInput::owner("c", "two, edited");
        let place = locate(&state, &ids, &edited).await.unwrap();
        assert_eq!((place.turn, place.parent), (2, Some(first_reply.id)));
        assert_eq!(place.recent, ["one", "reply to one"]);
    }

    #[tokio::test]
    async fn a_turn_on_another_branch_makes_it_the_current_one() {
        let root = tempfile::tempdir().unwrap();
        let (state, clock) = state(&root);
        let ids = CountingIds::new("m");
        let input = TurnInput::owner("c", "one");
        stand_on_branch(&state, &input).await.unwrap();
        let place = locate(&state, &ids, &input).await.unwrap();
        open_message(&state, &*clock, &input, &place, "{}")
            .await
            .unwrap();
        state
            .create_branch("c", "side", &place.message)
            .await
            .unwrap();
        let current = || async { state.conversation_head("c").await.unwrap().unwrap().branch };
        assert_eq!(current().await, "side");
        stand_on_branch(&state, &input).await.unwrap();
        assert_eq!(current().await, "main");
        let unknown = TurnInput {
            branch: "no such".to_owned(),
            ..input
        };
        stand_on_branch(&state, &unknown).await.unwrap();
        assert_eq!(current().await, "main");
    }
}
