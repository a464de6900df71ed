//! Turns through the library: what is shown, what counts as seen, what survives a restart and a change of tier.

use strata::{Access, Authority, ConversationEvent, Injection, Tier, TurnEnd, TurnInput};

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
        .end_turn(first, TurnEnd::reply("Every Sunday."))
        .await
        .unwrap()
        .unwrap();
    assert!(stored.reply.is_some());

    let second = assistant.begin_turn(question()).await;
    assert_eq!((second.trace.turn, keys(&second).len()), (2, 0));
    drop(second);
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
        .end_turn(first, TurnEnd::reply("I do not know."))
        .await
        .unwrap();
    let second = assistant.begin_turn(question()).await;
    assert_eq!((second.trace.turn, keys(&second)), (2, shown.clone()));

    // A block that the host took out counts as never attached.
    let mut trimmed = second;
    trimmed.blocks.clear();
    assistant.attached(&trimmed).await.unwrap();
    assistant
        .end_turn(trimmed, TurnEnd::default())
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
    assistant.set_tier(Tier::V2).await.unwrap();
    let other = assistant
        .begin_turn(TurnInput::owner("other", QUESTION))
        .await;
    assert_eq!(
        other.trace.serving.as_ref().map(|serving| serving.tier),
        Some(Tier::V2)
    );
    assistant.attached(&begun).await.unwrap();
    assistant
        .end_turn(begun, TurnEnd::reply("Every Sunday."))
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
    for (tier, turn) in [(Tier::V3, 1), (Tier::Off, 2), (Tier::V1, 3), (Tier::V3, 4)] {
        assistant.set_tier(tier).await.unwrap();
        let injection = assistant
            .begin_turn(TurnInput::owner(
                "c",
                format!("question {turn} about the tape robot"),
            ))
            .await;
        assert_eq!(injection.trace.configured, tier);
        // There is no knowledge base for v1, and the last turn finds everything in context.
        assert_eq!(
            injection.blocks.is_empty(),
            turn > 1,
            "{tier}: {:?}",
            injection.blocks
        );
        assistant.attached(&injection).await.unwrap();
        assistant
            .end_turn(injection, TurnEnd::reply("fine"))
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
            .end_turn(injection, TurnEnd::reply("hm"))
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
            .end_turn(injection, TurnEnd::default())
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
    assert!(injection.trace.used_tokens <= 10);
}
