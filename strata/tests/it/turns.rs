//! Turns through the library: what is shown, what counts as seen, what survives a restart and a change of tier.

use memory_core::predicates::registry::BUILT;
use strata::{
    Access, Authority, Channel, ConversationEvent, ErrorKind, Injection, Origin, RememberInput,
    Tier, TurnEnd, TurnInput,
};

use crate::fixture::Fixture;

const QUESTION: &str = "When is the archive copied to the tape robot?";

fn keys(injection: &Injection) -> Vec<String> {
    injection
        .trace
        .sections
        .iter()
        .map(|shown| shown.section.key())
        .collect()
}

/// Returns a tier that is not v3, and that serves if this build has one that does.
fn another_tier() -> Tier {
    let mut others = BUILT.rows().iter().filter(|row| row.tier != Tier::V3);
    others.next_back().map_or(Tier::Off, |row| row.tier)
}

fn question() -> TurnInput {
    TurnInput::owner("c", QUESTION)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_question_brings_only_what_is_new_across_a_restart_too() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    let first = assistant.begin_turn(question()).await;
    let shown = keys(&first);
    assert!(!shown.is_empty());
    assert!(first.notices.is_empty(), "{:?}", first.notices);
    assistant.attached(&first).await.unwrap();
    assistant.attached(&first).await.unwrap();
    let stored = assistant
        .end_turn(&first, TurnEnd::reply("Every Sunday."))
        .await
        .unwrap()
        .unwrap();
    assert!(stored.reply.is_some());

    let second = assistant.begin_turn(question()).await;
    assert_eq!((second.trace.turn, keys(&second).len()), (2, 0));
    drop((first, second));
    drop(assistant);

    let assistant = fixture.reopen(Access::ReadWrite).await;
    let third = assistant.begin_turn(question()).await;
    assert_eq!(
        (third.trace.turn, keys(&third).len()),
        (2, 0),
        "nothing was attached since"
    );

    assistant
        .on_event("c", ConversationEvent::Compaction)
        .await
        .unwrap();
    let fourth = assistant.begin_turn(question()).await;
    assert_eq!(
        keys(&fourth),
        shown,
        "what was compacted away may be shown again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_attached_is_shown_again() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    let first = assistant.begin_turn(question()).await;
    let shown = keys(&first);
    assistant
        .end_turn(&first, TurnEnd::reply("I do not know."))
        .await
        .unwrap();
    let second = assistant.begin_turn(question()).await;
    assert_eq!((second.trace.turn, keys(&second)), (2, shown.clone()));

    // A block that the host took out counts as never attached.
    let mut trimmed = second;
    trimmed.blocks.clear();
    assistant.attached(&trimmed).await.unwrap();
    assistant
        .end_turn(&trimmed, TurnEnd::default())
        .await
        .unwrap();
    assert_eq!(keys(&assistant.begin_turn(question()).await), shown);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_ends_with_the_tier_that_began_it() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    let begun = assistant.begin_turn(question()).await;
    let shown = keys(&begun);
    let another = another_tier();
    assistant.set_tier(another).await.unwrap();
    let other = assistant
        .begin_turn(TurnInput::owner("other", QUESTION))
        .await;
    assert_eq!(
        other.trace.serving.as_ref().map(|serving| serving.tier),
        Some(another).filter(|tier| *tier != Tier::Off)
    );
    assistant.attached(&begun).await.unwrap();
    assistant
        .end_turn(&begun, TurnEnd::reply("Every Sunday."))
        .await
        .unwrap();

    assistant.set_tier(Tier::V3).await.unwrap();
    let again = assistant.begin_turn(question()).await;
    assert!(
        keys(&again).iter().all(|key| !shown.contains(key)),
        "{:?} after {shown:?}",
        keys(&again)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn switching_off_and_on_loses_no_turn() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    let knowledge_base = BUILT.rows().iter().find(|row| !row.reads_pages);
    let third = knowledge_base.map_or(Tier::Off, |row| row.tier);
    for (tier, turn) in [(Tier::V3, 1), (Tier::Off, 2), (third, 3), (Tier::V3, 4)] {
        assistant.set_tier(tier).await.unwrap();
        let injection = assistant
            .begin_turn(TurnInput::owner(
                "c",
                format!("question {turn} about the tape robot"),
            ))
            .await;
        assert_eq!(injection.trace.configured, tier);
        // There is nothing in the knowledge base, and the last turn finds everything in context.
        assert_eq!(
            injection.blocks.is_empty(),
            turn > 1,
            "{tier}: {:?}",
            injection.blocks
        );
        assistant.attached(&injection).await.unwrap();
        assistant
            .end_turn(&injection, TurnEnd::reply("fine"))
            .await
            .unwrap()
            .unwrap();
    }
    let next = assistant.begin_turn(TurnInput::owner("c", "hello")).await;
    assert_eq!(next.trace.turn, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_known_gets_nothing_and_is_not_recorded() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    let injection = assistant
        .begin_turn(TurnInput::new("c", QUESTION, Authority::None))
        .await;
    assert!(injection.blocks.is_empty() && injection.text().is_empty());
    assistant.attached(&injection).await.unwrap();
    assert_eq!(
        assistant
            .end_turn(&injection, TurnEnd::reply("hm"))
            .await
            .unwrap(),
        None
    );
    assert_eq!(assistant.begin_turn(question()).await.trace.turn, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_records_nothing() {
    let fixture = Fixture::ingested();
    let assistant = fixture.reopen(Access::ReadOnly).await;
    let injection = assistant.begin_turn(question()).await;
    assert!(!injection.blocks.is_empty());
    assert!(injection.notices.is_empty(), "{:?}", injection.notices);
    assert!(assistant.attached(&injection).await.is_err());
    assert!(
        assistant
            .end_turn(&injection, TurnEnd::default())
            .await
            .is_err()
    );
    assert_eq!(assistant.begin_turn(question()).await.trace.turn, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_a_page_is_seen_by_the_next_turn() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    let page = fixture.workspace("memory/concepts/lighthouse.md");
    std::fs::write(
        page,
        "# Lighthouse\n\nThe lighthouse lamp turns every nine seconds.\n",
    )
    .unwrap();
    let injection = assistant
        .begin_turn(TurnInput::owner(
            "c",
            "How often does the lighthouse lamp turn?",
        ))
        .await;
    assert!(
        injection.text().contains("nine seconds"),
        "{}",
        injection.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_of_the_settings_holds() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    let setting = (
        "memory.retrieval.maxInjectTokens".to_owned(),
        "10".to_owned(),
    );
    assistant.config_set(vec![setting]).await.unwrap();
    let injection = assistant.begin_turn(question()).await;
    assert!(injection.blocks.is_empty());
    assert_eq!(injection.trace.dropped.len(), 1, "{:?}", injection.trace);
    let dropped = &injection.trace.dropped[0];
    let notice = injection
        .notices
        .iter()
        .find(|notice| notice.code == "block_dropped")
        .unwrap();
    assert!(
        notice.message.contains(&dropped.id) && notice.message.contains(&dropped.reason),
        "{notice:?}"
    );
    assert!(injection.trace.used_tokens <= 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identifier_of_another_conversation_is_refused_and_nothing_is_mixed() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    let said_in = |conversation: &str| TurnInput {
        message_id: Some("host1".to_owned()),
        ..TurnInput::owner(conversation, QUESTION)
    };
    let one = assistant.begin_turn(said_in("one")).await;
    // Begun before the identifier was taken.
    let late = assistant.begin_turn(said_in("late")).await;
    assistant.attached(&one).await.unwrap();
    assistant
        .end_turn(&one, TurnEnd::reply("Every Sunday."))
        .await
        .unwrap();
    let error = assistant.attached(&late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");

    let other = assistant.begin_turn(said_in("other")).await;
    assert!(other.blocks.is_empty());
    assert!(
        other.notices.iter().any(|notice| {
            notice.message.contains("host1") && notice.message.contains("another conversation")
        }),
        "{:?}",
        other.notices
    );
    for refused in [&late, &other] {
        let error = assistant
            .end_turn(refused, TurnEnd::reply("Every Monday."))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
    for (conversation, turn) in [("one", 2), ("late", 1), ("other", 1)] {
        let next = assistant
            .begin_turn(TurnInput::owner(conversation, QUESTION))
            .await;
        assert_eq!(next.trace.turn, turn, "{conversation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_ended_twice_is_stored_once() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    let first = assistant.begin_turn(question()).await;
    let stored = assistant
        .end_turn(&first, TurnEnd::reply("Every Sunday."))
        .await
        .unwrap();
    let again = assistant
        .end_turn(&first, TurnEnd::reply("Every Sunday."))
        .await
        .unwrap();
    assert_eq!(stored, again);
    assert_eq!(
        assistant.attached(&first).await.unwrap_err().kind(),
        ErrorKind::Usage,
        "what it would record was given up"
    );
    assert_eq!(assistant.begin_turn(question()).await.trace.turn, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_and_a_turn_at_once_do_not_disturb_each_other() {
    const ROUNDS: usize = 4;
    let fixture = Fixture::ingested();
    let note = |name: &str, round: usize| RememberInput {
        texts: vec![format!("note {name} of round {round}.")],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    };
    for round in 0..ROUNDS {
        let assistant = fixture.reopen(Access::ReadWrite).await;
        let (one, two, turn) = tokio::join!(
            assistant.remember(note("one", round)),
            assistant.remember(note("two", round)),
            assistant.begin_turn(question()),
        );
        assert_ne!(one.unwrap().entries, two.unwrap().entries);
        assert!(turn.notices.is_empty(), "{:?}", turn.notices);
    }
    // Whoever writes next finds everything applied.
    drop(fixture.reopen(Access::ReadWrite).await);
    let buffer = std::fs::read_to_string(fixture.workspace("memory/buffer.md")).unwrap();
    for round in 0..ROUNDS {
        for name in ["one", "two"] {
            let text = format!("note {name} of round {round}.");
            assert_eq!(buffer.matches(&text).count(), 1, "{text} in {buffer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_assistant_knows_in_every_conversation_is_for_the_owner() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    let secret = RememberInput {
        texts: vec!["The spare key hangs behind the clock.".to_owned()],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    };
    assistant.remember(secret).await.unwrap();
    for (authority, sees) in [(Authority::Paired, false), (Authority::Owner, true)] {
        let injection = assistant
            .begin_turn(TurnInput::new("c", "hello", authority))
            .await;
        assert_eq!(
            injection.text().contains("behind the clock"),
            sees,
            "{authority:?}: {}",
            injection.text()
        );
    }
}
