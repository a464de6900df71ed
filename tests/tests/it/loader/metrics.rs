//! What the machinery counts agrees with what was done.

use std::time::Duration;

use memory_core::services::CallScope;
use memory_core::tier::CommitToken;
use plugin_host::{ChangeMetrics, Outcome, Wanted, new_call};

use super::fixture::{Folder, wanted};
use super::incidents::until;
use super::{LONG, say, services};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_changes_are_counted() {
    let folder = Folder::with_probe();
    let host = folder.host();
    let (slot, services) = (host.slot("ada"), services::all());
    slot.ensure(&wanted("probe", "one"), &services).await;
    let turn = slot.pin().expect("it serves");
    for _ in 0..5 {
        say(&turn, "hello", LONG).await.expect("answered");
    }
    say(&turn, "panic", LONG).await.expect_err("panics");
    say(&turn, "fail", LONG).await.expect_err("fails");
    say(&turn, "never", Duration::from_millis(20))
        .await
        .expect_err("late");
    let (call, _control) = new_call(CallScope::default(), LONG);
    turn.commit(&call, CommitToken("one/1".to_owned()), "m1".to_owned())
        .await
        .expect("known");
    // A caller that goes away.
    let given_up = say(&turn, "never", LONG);
    assert!(
        tokio::time::timeout(Duration::from_millis(20), given_up)
            .await
            .is_err()
    );

    let change = slot.ensure(&wanted("probe", "two"), &services).await;
    let drained = change.drain.expect("a drain").await.expect("it ends");
    assert_eq!(drained.abandoned, 1, "the turn is still held");
    drop(turn);
    assert_eq!(
        slot.ensure(&wanted("lost", "x"), &services).await.outcome,
        Outcome::KeptPrevious
    );
    let change = slot.ensure(&Wanted::off(), &services).await;
    change.drain.expect("a drain").await.expect("it ends");

    let metrics = host.metrics();
    let expected = ChangeMetrics {
        loads: 2,
        refusals: 1,
        switches: 2,
        fallbacks: 0,
        kept: 1,
        emptied: 1,
        postponed: 0,
        drains: 2,
        abandoned_turns: 1,
    };
    assert_eq!(slot.metrics(), expected);
    assert_eq!(metrics.changes, expected);
    let [of_slot] = metrics.slots.as_slice() else {
        panic!("one slot: {:?}", metrics.slots)
    };
    assert_eq!(
        (of_slot.assistant.as_str(), of_slot.changes),
        ("ada", expected)
    );

    let [build] = metrics.builds.as_slice() else {
        panic!("one build: {:?}", metrics.builds)
    };
    assert_eq!(
        (build.plugin.as_str(), build.quarantined.clone()),
        ("probe", None)
    );
    let begun = &build.methods["begin_turn"];
    assert_eq!(
        (begun.calls, begun.answered, begun.given_up, begun.panics),
        (9, 5, 1, 1)
    );
    let failures: Vec<_> = begun
        .failures
        .iter()
        .map(|(code, count)| (*code, *count))
        .collect();
    assert_eq!(
        failures,
        [("DEADLINE", 1), ("INTERNAL", 1), ("PANICKED", 1)]
    );
    assert!(
        begun.max_us >= 20_000 && begun.total_us >= begun.max_us,
        "{begun:?}"
    );
    assert_eq!(
        begun
            .histogram
            .iter()
            .map(|bucket| bucket.calls)
            .sum::<u64>(),
        9
    );
    assert_eq!(build.methods["commit"].answered, 1);
    assert_eq!(
        (
            build.methods["create"].calls,
            build.methods["health"].answered
        ),
        (2, 2)
    );

    let json = serde_json::to_value(&metrics).expect("plain data");
    assert_eq!(json["builds"][0]["methods"]["begin_turn"]["calls"], 9);
    assert_eq!(json["slots"][0]["switches"], 2);

    // The counts of a slot that is gone remain in the sum.
    drop(slot);
    // What brought its last instance up may hold it for a moment longer.
    until(host, |host| host.metrics().slots.is_empty()).await;
    assert_eq!(host.metrics().changes, expected);
}
