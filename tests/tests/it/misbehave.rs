//! Plugins that misbehave, seen from the host: every turn is answered, nothing else stands in, and `doctor` says why.
//!
//! The plugin is the probe in the place of tier v3. Its fault is a message for one turn, or a setting for an instance.

use std::sync::atomic::{AtomicU64, Ordering};

use strata::{ConversationEvent, ErrorKind, Finding, Tier, TurnEnd, TurnInput};

use self::stage::{Stage, assert_served, assert_static_only, build_of, codes, found};
use crate::child;

mod stage;

/// Checks that the next turn is served again once the fault is gone, by the same build.
async fn assert_recovers(stage: &Stage) {
    stage.reload(1);
    assert_served(&stage.say("hello").await);
}

/// Checks that another process learns of exactly one incident, and what of it.
async fn assert_told(stage: &Stage, words: &[&str]) {
    let report = stage.doctor_elsewhere().await;
    let incidents = found(&report, "plugins.incidents");
    let words: Vec<&str> = words
        .iter()
        .copied()
        .chain(["`probe`", "tier v3"])
        .collect();
    let told: Vec<_> = incidents
        .iter()
        .filter(|check| words.iter().all(|word| check.evidence.contains(word)))
        .collect();
    assert_eq!(told.len(), 1, "{words:?} in {incidents:#?}");
    assert_eq!(told[0].severity, Finding::Warning);
    assert!(told[0].fix.is_some());
}

/// Checks that the examination tells of something that went on beside the turns, and so may be told a little later.
async fn assert_told_in_time(stage: &Stage, words: &[&str]) {
    for _ in 0..200 {
        stage.say("hello").await;
        let report = stage.doctor_elsewhere().await;
        let incidents = found(&report, "plugins.incidents");
        if incidents
            .iter()
            .any(|check| words.iter().all(|word| check.evidence.contains(word)))
        {
            return;
        }
    }
    assert_told(stage, words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_in_begin_turn_costs_that_turn() {
    for (fault, code, said) in [
        (
            "panic_in_begin_turn",
            "tier_failed",
            "panicked in `begin_turn`",
        ),
        (
            "panic_later_in_begin_turn",
            "tier_failed",
            "panicked in `begin_turn`",
        ),
        (
            "hang_in_begin_turn",
            "tier_timed_out",
            "did not answer in time in `begin_turn`",
        ),
    ] {
        let stage = Stage::with_fault(fault).await;
        assert_static_only(&stage.say("hello").await, code);
        assert_told(&stage, &[said, build_of(&stage.say("again").await)]).await;
        assert_recovers(&stage).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_message_provokes_costs_that_turn() {
    for (message, code, said) in [
        (
            "panic when cancelled",
            "tier_timed_out",
            "did not answer in time",
        ),
        ("fail", "tier_failed", "told to fail"),
        ("wrong blocks", "tier_failed", "none of ours"),
        ("same id twice", "tier_failed", "two blocks have the id"),
        (
            "huge",
            "tier_malformed",
            "gave a malformed answer in `begin_turn`",
        ),
        ("no number", "tier_malformed", "no number"),
    ] {
        let stage = Stage::new().await;
        let injection = stage.say(message).await;
        assert_static_only(&injection, code);
        stage
            .assistant
            .attached(&injection)
            .await
            .expect("what there is can be attached");
        let end = TurnEnd::reply("Well.");
        stage
            .assistant
            .end_turn(&injection, end)
            .await
            .expect("the turn ends");
        assert_told(&stage, &[said]).await;
        assert_served(&stage.say("hello").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_is_blocked_is_given_up_and_the_host_goes_on() {
    let stage = Stage::new().await;
    assert_static_only(&stage.say("spin").await, "tier_timed_out");
    // Until the thread is given up, and for as long as this build may not serve, turns are answered without the tier.
    for _ in 0..10 {
        let injection = stage.say("hello").await;
        let served = injection.blocks.iter().any(|block| block.id == "probe");
        assert!(served || !codes(&injection).is_empty(), "{injection:?}");
        if served {
            break;
        }
    }
    let rebuilt = stage.rebuild();
    stage.reload(3);
    let mut by = String::new();
    for _ in 0..50 {
        let injection = stage.say("hello").await;
        if injection.blocks.iter().any(|block| block.id == "probe") {
            build_of(&injection).clone_into(&mut by);
            break;
        }
    }
    assert_eq!(by, rebuilt, "another build serves as if nothing had been");
    let report = stage.doctor_elsewhere().await;
    assert_eq!(
        found(&report, "plugins.incidents")[0].severity,
        Finding::Warning
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_after_the_turn_was_begun_is_an_error_of_that_call() {
    for how in ["panic", "panic_later", "hang"] {
        let stage = Stage::with_fault(&format!("{how}_in_commit")).await;
        let injection = stage.say("hello").await;
        assert_served(&injection);
        let error = stage
            .assistant
            .attached(&injection)
            .await
            .expect_err("not committed");
        assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
        let ended = stage
            .assistant
            .end_turn(&injection, TurnEnd::reply("Hello."))
            .await;
        assert!(ended.expect("the turn is kept all the same").is_some());
        assert_told(&stage, &["in `commit`"]).await;
        assert_recovers(&stage).await;

        let stage = Stage::with_fault(&format!("{how}_in_discard")).await;
        let injection = stage.say("hello").await;
        let ended = stage
            .assistant
            .end_turn(&injection, TurnEnd::default())
            .await;
        ended.expect("giving a block up fails no turn");
        assert_told(&stage, &["in `discard`"]).await;
        assert_recovers(&stage).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_beside_turns_fails_no_turn() {
    for how in ["panic", "panic_later", "hang"] {
        let stage = Stage::with_fault(&format!("{how}_in_on_event")).await;
        assert_served(&stage.say("hello").await);
        let event = stage
            .assistant
            .on_event("talk", ConversationEvent::Compaction)
            .await;
        assert_eq!(event.expect_err("not told").kind(), ErrorKind::Failed);
        assert_told(&stage, &["in `on_event`"]).await;
        assert_served(&stage.say("hello").await);

        let stage = Stage::with_fault(&format!("{how}_in_explain")).await;
        let asked = stage
            .assistant
            .explain(TurnInput::owner("talk", "hello"))
            .await;
        assert_eq!(asked.expect_err("not explained").kind(), ErrorKind::Failed);
        assert_told(&stage, &["in `explain`"]).await;
        assert_served(&stage.say("hello").await);

        let stage = Stage::with_fault(&format!("{how}_in_stats")).await;
        let stats = stage
            .assistant
            .stats()
            .await
            .expect("the host's own figures are there");
        assert!(stats.tier_stats.is_none() && stats.tier.serving.is_some());
        assert_told(&stage, &["in `stats`"]).await;
        assert_served(&stage.say("hello").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_come_up_does_not_serve() {
    for (fault, said) in [
        ("panic_in_create", "create failed"),
        ("unhealthy", "health check failed"),
        ("panic_in_health", "health check failed"),
        ("hang_in_health", "health check timed out"),
    ] {
        let stage = Stage::with_fault(fault).await;
        let injection = stage.say("hello").await;
        assert_static_only(&injection, "tier_not_serving");
        assert!(injection.trace.serving.is_none());
        // It is told once, however often it is asked for.
        assert_static_only(&stage.say("hello again").await, "tier_not_serving");
        assert_told(&stage, &["was refused", said]).await;
        for report in [stage.doctor_here().await, stage.doctor_elsewhere().await] {
            let tier = found(&report, "tier")[0];
            assert_eq!(tier.severity, Finding::Problem);
            assert!(
                tier.evidence
                    .contains("tier v3 is configured and none serves")
            );
            assert!(tier.evidence.contains(said), "{}", tier.evidence);
        }
        assert_recovers(&stage).await;
        let report = stage.doctor_here().await;
        assert_eq!(found(&report, "tier")[0].severity, Finding::Ok);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_panics_when_it_goes_takes_nobody_along() {
    let stage = Stage::with_fault("panic_in_drop").await;
    assert_served(&stage.say("hello").await);
    assert_recovers(&stage).await;
    stage.switch_off();
    let injection = stage.say("hello").await;
    assert!(injection.blocks.is_empty() && codes(&injection).is_empty());
    assert_recovers(&stage).await;
    assert_told_in_time(&stage, &["panicked", "`shutdown`"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_instance_before_serves_when_the_next_cannot_come_up() {
    for fault in ["panic_in_create", "unhealthy", "hang_in_health"] {
        let stage = Stage::new().await;
        let before = stage.say("hello").await;
        assert_served(&before);
        let rebuilt = stage.rebuild();
        stage.fault(fault);
        let after = stage.say("hello").await;
        assert_served(&after);
        assert_eq!(codes(&after), ["tier_is_older"], "{:?}", after.notices);
        assert_eq!(build_of(&after), build_of(&before));
        assert_ne!(build_of(&after), rebuilt);
        let report = stage.doctor_here().await;
        let tier = found(&report, "tier")[0];
        assert_eq!(tier.severity, Finding::Warning);
        assert!(
            tier.evidence.contains(build_of(&before)),
            "{}",
            tier.evidence
        );
        assert_told_in_time(&stage, &["was refused"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_build_before_serves_when_the_next_panics_too_often() {
    let stage = Stage::new().await;
    let before = stage.say("hello").await;
    assert_served(&before);
    let rebuilt = stage.rebuild();
    stage.reload(2);
    let first = stage.say("hello").await;
    assert_eq!(build_of(&first), rebuilt);
    for _ in 0..3 {
        let injection = stage.say("panic").await;
        assert_eq!(build_of(&injection), rebuilt);
        assert_static_only(&injection, "tier_failed");
    }
    let after = stage.say("hello").await;
    assert_served(&after);
    assert_eq!(codes(&after), ["tier_is_older"], "{:?}", after.notices);
    assert_eq!(build_of(&after), build_of(&before));

    let report = stage.doctor_elsewhere().await;
    let incidents = found(&report, "plugins.incidents");
    let evidence: Vec<&str> = incidents
        .iter()
        .map(|check| check.evidence.as_str())
        .collect();
    assert_eq!(evidence.len(), 2, "{evidence:#?}");
    assert!(
        evidence[0].contains("panicked in `begin_turn`"),
        "{evidence:?}"
    );
    assert!(
        evidence[1].contains("was put into quarantine"),
        "{evidence:?}"
    );
    assert!(
        evidence.iter().all(|one| one.contains(&rebuilt)),
        "{evidence:?}"
    );
    let report = stage.doctor_here().await;
    let tier = found(&report, "tier")[0];
    assert_eq!(tier.severity, Finding::Warning);
    assert!(tier.evidence.contains("quarantine"), "{}", tier.evidence);
}

/// Makes the build that serves do what it was given as its fault, once.
async fn provoke(stage: &Stage, method: &str, time: u32) {
    match method {
        "commit" => {
            let injection = stage.say("hello").await;
            let attached = stage.assistant.attached(&injection).await;
            attached.expect_err("not committed");
        }
        "on_event" => {
            let event = ConversationEvent::Compaction;
            let told = stage.assistant.on_event("talk", event).await;
            told.expect_err("not told");
        }
        "drop" => {
            // Another instance of the same settings takes its place.
            stage.fault_again("panic_in_drop", time);
            assert_served(&stage.say("hello").await);
        }
        other => panic!("nobody provokes `{other}`"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_build_before_serves_whichever_method_of_the_next_panics() {
    for method in ["commit", "on_event", "drop"] {
        let stage = Stage::new().await;
        let before = stage.say("hello").await;
        assert_served(&before);
        let rebuilt = stage.rebuild();
        stage.fault(&format!("panic_in_{method}"));
        assert_eq!(build_of(&stage.say("hello").await), rebuilt);
        for time in 0..3 {
            provoke(&stage, method, time).await;
        }
        // What is dropped is dropped beside the turns.
        let mut after = stage.say("hello").await;
        for _ in 0..200 {
            if build_of(&after) != rebuilt {
                break;
            }
            after = stage.say("hello").await;
        }
        assert_served(&after);
        assert_eq!(codes(&after), ["tier_is_older"], "{:?}", after.notices);
        assert_eq!(build_of(&after), build_of(&before), "{method}");
        assert_told(&stage, &["was put into quarantine"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_holds_its_thread_costs_its_own_call_and_no_turn() {
    let each = ["commit", "discard", "on_event", "explain", "stats"].map(holds_its_thread_in);
    for stage in each.map(tokio::spawn) {
        stage.await.expect("it holds");
    }
}

async fn holds_its_thread_in(method: &'static str) {
    let stage = Stage::with_fault(&format!("spin_in_{method}")).await;
    let injection = stage.say("hello").await;
    assert_served(&injection);
    let assistant = &stage.assistant;
    let failed = match method {
        "commit" => assistant.attached(&injection).await.is_err(),
        // Giving a block up, and the figures of the tier, fail nothing.
        "discard" => {
            let ended = assistant.end_turn(&injection, TurnEnd::default()).await;
            ended.is_ok()
        }
        "stats" => {
            let stats = assistant.stats().await.expect("the host's own are there");
            stats.tier_stats.is_none()
        }
        "on_event" => {
            let event = ConversationEvent::Compaction;
            assistant.on_event("talk", event).await.is_err()
        }
        _ => {
            let input = TurnInput::owner("talk", "hello");
            assistant.explain(input).await.is_err()
        }
    };
    assert!(failed, "{method}");
    // While the thread is away its build is not used, and nothing else of this tier is there.
    for _ in 0..5 {
        let injection = stage.say("hello").await;
        let served = injection.blocks.iter().any(|block| block.id == "probe");
        assert!(
            served || codes(&injection) == ["tier_not_serving"],
            "{injection:?}"
        );
    }
    assert_told_in_time(&stage, &[&format!("in `{method}`")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_serves_when_the_only_build_panics_too_often() {
    let stage = Stage::new().await;
    for _ in 0..3 {
        assert_static_only(&stage.say("panic after await").await, "tier_failed");
    }
    let injection = stage.say("hello").await;
    assert_static_only(&injection, "tier_not_serving");
    assert!(injection.trace.serving.is_none());
    let counted = stage.assistant.stats().await.expect("counted");
    assert!(
        counted
            .tier
            .reason
            .expect("a reason")
            .contains("quarantine")
    );
    assert_eq!(counted.turns.unserved, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_instance_that_served_is_told_that_memory_is_off() {
    for fault in ["none", "hang_in_on_event"] {
        let stage = Stage::with_fault(fault).await;
        assert_served(&stage.say("hello").await);
        stage.switch_off();
        let injection = stage.say("hello").await;
        assert!(injection.blocks.is_empty() && codes(&injection).is_empty());
        let shown = stage.assistant.tier_status().await.expect("shown");
        assert_eq!((shown.configured, shown.serving), (Tier::Off, None));
        // It is told beside the turn, which does not wait for it.
        let mut told = stage.told().await;
        while fault == "none" && told.is_none() {
            tokio::task::yield_now().await;
            told = stage.told().await;
        }
        let expected = (fault == "none").then(|| "MemoryOff".to_owned());
        assert_eq!(told, expected);
        assert_recovers(&stage).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_instance_that_serves_is_told_that_all_conversations_were_cleared() {
    let stage = Stage::new().await;
    let first = stage.say("hello").await;
    stage.assistant.attached(&first).await.expect("attached");
    let ended = stage.assistant.end_turn(&first, TurnEnd::default()).await;
    ended.expect("ended");
    let second = stage.say("hello").await;
    assert!(second.blocks.iter().all(|block| block.tag != "info"));
    stage
        .assistant
        .clear_conversations()
        .await
        .expect("cleared");
    assert_eq!(stage.told().await.as_deref(), Some("ClearAll"));
    let third = stage.say("hello").await;
    assert!(
        third.blocks.iter().any(|block| block.tag == "info"),
        "{third:?}"
    );
}

#[test]
fn a_plugin_that_panics_in_its_manifest_is_refused() {
    child::run(
        "misbehave::a_panic_in_the_manifest",
        &[("STRATA_PROBE_PANICS_IN_MANIFEST", "yes")],
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by `a_plugin_that_panics_in_its_manifest_is_refused`"]
async fn a_panic_in_the_manifest() {
    let stage = Stage::new().await;
    assert_static_only(&stage.say("hello").await, "tier_not_serving");
    assert_static_only(&stage.say("hello").await, "tier_not_serving");
    assert_told(&stage, &["was refused", "told to panic in manifest"]).await;
}

#[test]
fn a_flood_of_events_costs_the_host_no_turn() {
    let said = child::run("misbehave::a_flood_of_events", &[]);
    println!(
        "events that came through: {}",
        child::figure(&said, "events")
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by `a_flood_of_events_costs_the_host_no_turn`"]
async fn a_flood_of_events() {
    static EVENTS: AtomicU64 = AtomicU64::new(0);

    struct Counter;
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            EVENTS.fetch_add(1, Ordering::Relaxed);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .with_writer(|| Counter)
        .init();
    let stage = Stage::new().await;
    let injection = stage.say("100 000 events").await;
    // On a slow machine the deadline comes first, which is an answer as well.
    let answered = injection.blocks.iter().any(|block| block.id == "probe");
    assert!(
        answered || codes(&injection) == ["tier_timed_out"],
        "{injection:?}"
    );
    let mut served = false;
    for _ in 0..50 {
        served = stage
            .say("hello")
            .await
            .blocks
            .iter()
            .any(|block| block.id == "probe");
        if served {
            break;
        }
    }
    assert!(served, "the host goes on");
    assert_told_in_time(&stage, &["logged too much"]).await;
    println!("events={}", EVENTS.load(Ordering::Relaxed));
}
