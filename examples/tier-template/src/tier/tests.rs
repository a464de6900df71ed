//! The life of a turn, from the choice to the commit, against a host in memory.

use std::sync::Arc;

use memory_core::ledger::{Choice, Ledger};
use memory_core::provenance::Trust;
use memory_core::services::Services;
use memory_core::tier::{
    CommitToken, MemoryTier as _, TierEvent, TierStats, TurnPlan, TurnRequest,
};

use super::FreshNotes;
use crate::testing::{self, Host, call, locked, run};

const CONFIG: &str = r#"{"retrieval":{"maxInjectTokens":2000}}"#;

/// A message that is no follow-up.
const MESSAGE: &str = "when will the roastery in Leith open its doors";

fn host() -> Arc<Host> {
    Arc::new(Host {
        notes: vec![
            testing::text("old roastery", "The roastery was in Leith before."),
            testing::text("garden", "Roses want water."),
            testing::text("new roastery", "The roastery in Leith will open in May."),
        ],
        ..Host::default()
    })
}

fn tier(services: Services) -> FreshNotes {
    FreshNotes::create(services, CONFIG).expect("everything it requires is there")
}

fn begin(tier: &FreshNotes, message: &str) -> TurnPlan {
    run(tier.begin_turn(&call(), request(message))).expect("every service answers")
}

fn request(message: &str) -> TurnRequest {
    TurnRequest {
        user_message: message.to_owned(),
        ..TurnRequest::default()
    }
}

fn shown(plan: &TurnPlan) -> Vec<&str> {
    let shown = plan.blocks.iter().flat_map(|block| &block.shows);
    shown.map(|shown| shown.section.slug.as_str()).collect()
}

fn token(plan: &TurnPlan) -> CommitToken {
    plan.blocks[0]
        .commit
        .clone()
        .expect("a block that shows notes can be committed")
}

fn commit(tier: &FreshNotes, plan: &TurnPlan) {
    run(tier.commit(&call(), token(plan), "m1".to_owned())).expect("recorded");
}

fn stats(tier: &FreshNotes) -> TierStats {
    run(tier.stats(&call())).expect("counters need nobody")
}

#[test]
fn the_notes_that_share_words_are_shown_with_the_freshest_of_equals_first() {
    let tier = tier(host().services());
    let plan = begin(&tier, MESSAGE);
    assert_eq!(shown(&plan), ["new-roastery", "old-roastery"]);
    let text = &plan.blocks[0].text;
    assert!(text.contains("will open in May"), "{text}");
    assert!(!text.contains("Roses"), "{text}");
    assert!(
        begin(&tier, "entirely unrelated question, this one")
            .blocks
            .is_empty()
    );
    assert!(begin(&tier, "  ").blocks.is_empty());
}

#[test]
fn nothing_is_recorded_before_the_block_was_attached_and_nothing_is_shown_twice() {
    let host = host();
    let tier = tier(host.services());
    let plan = begin(&tier, MESSAGE);
    assert!(host.in_context().is_empty() && locked(&host.kept).is_empty());
    assert_eq!(
        shown(&begin(&tier, MESSAGE)),
        shown(&plan),
        "asking again changes nothing"
    );

    commit(&tier, &plan);
    assert_eq!(host.in_context().len(), 2);
    let again = begin(&tier, MESSAGE);
    assert!(again.blocks.is_empty());
    assert_eq!(again.already_resident.len(), 2);

    commit(&tier, &plan);
    assert_eq!(host.in_context().len(), 2, "a token is good for one commit");
    assert_eq!(stats(&tier).committed_sections, 2);

    // After a lost history all of it may be shown again.
    let lost = TurnRequest {
        context_lost: true,
        ..request(MESSAGE)
    };
    let plan = run(tier.begin_turn(&call(), lost)).expect("every service answers");
    assert_eq!(shown(&plan).len(), 2);
}

#[test]
fn what_was_discarded_is_forgotten_and_a_failed_commit_can_be_repeated() {
    let host = host();
    let tier = tier(host.services());
    let plan = begin(&tier, MESSAGE);
    run(tier.discard(&call(), token(&plan))).expect("forgotten");
    commit(&tier, &plan);
    assert!(host.in_context().is_empty());

    let plan = begin(&tier, MESSAGE);
    *locked(&host.record_fails) = true;
    run(tier.commit(&call(), token(&plan), "m1".to_owned())).expect_err("it was not recorded");
    assert_eq!(stats(&tier).committed_sections, 0);
    *locked(&host.record_fails) = false;
    commit(&tier, &plan);
    assert_eq!(
        (host.in_context().len(), stats(&tier).committed_sections),
        (2, 2)
    );
}

#[test]
fn a_follow_up_remembers_the_topic_until_the_conversation_is_deleted() {
    let host = host();
    let tier = tier(host.services());
    let follow_up = "and when is that?";
    assert!(begin(&tier, follow_up).blocks.is_empty());
    commit(&tier, &begin(&tier, MESSAGE));
    locked(&host.resident).clear();
    assert_eq!(shown(&begin(&tier, follow_up)).len(), 2);
    run(tier.on_event(&call(), TierEvent::Delete)).expect("its own state is gone");
    assert!(begin(&tier, follow_up).blocks.is_empty());
}

#[test]
fn what_is_only_used_may_be_missing_or_broken() {
    let without = Services {
        kv: None,
        ..host().services()
    };
    let tier_without = tier(without);
    assert!(begin(&tier_without, "roastery?").degraded.is_empty());
    let broken = Arc::new(Host {
        kv_fails: true,
        notes: host().notes.clone(),
        ..Host::default()
    });
    let tier = tier(broken.services());
    let plan = begin(&tier, "the roastery");
    assert_eq!(shown(&plan).len(), 2, "the rest still works");
    assert!(
        plan.degraded[0].starts_with("kv_unavailable"),
        "{:?}",
        plan.degraded
    );
    assert_eq!(stats(&tier).degraded_turns, 1);
}

#[test]
fn untrusted_text_is_never_shown() {
    let mut notes = host().notes.clone();
    notes[2].entry.trust = Trust::Untrusted;
    let host = Arc::new(Host {
        notes,
        ..Host::default()
    });
    let plan = begin(&tier(host.services()), MESSAGE);
    assert_eq!(shown(&plan), ["old-roastery"]);
}

#[test]
fn an_explanation_says_what_the_turn_does() {
    let tier = tier(host().services());
    let explanation = run(tier.explain(&call(), request(MESSAGE))).expect("every service answers");
    let selected = explanation
        .candidates
        .iter()
        .filter(|candidate| candidate.outcome == "selected");
    let selected: Vec<&str> = selected.map(|candidate| candidate.slug.as_str()).collect();
    assert_eq!(selected, shown(&begin(&tier, MESSAGE)));
    assert_eq!(stats(&tier).turns, 1, "explaining is no turn");
}

#[test]
fn the_ledger_takes_the_shorter_form_when_the_budget_is_short() {
    let host = Arc::new(Host {
        notes: vec![testing::text("long", &"The roastery in Leith. ".repeat(60))],
        ..Host::default()
    });
    let plan = begin(&tier(host.services()), MESSAGE);
    let full = Ledger::new(2_000).fit(&plan.blocks);
    assert_eq!(full.kept[0].choice, Choice::Full);
    let tight = Ledger::new(200).fit(&plan.blocks);
    assert_eq!(tight.kept[0].choice, Choice::Shorter(0));
    assert!(plan.blocks[0].variants[0].contains("# memory/concepts/long.md"));
}
