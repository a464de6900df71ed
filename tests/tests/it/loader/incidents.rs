//! What is remembered of a build that misbehaves, and what becomes of those beside it.

use std::time::{Duration, Instant};

use memory_core::abi::ErrorCode;
use memory_core::predicates::Tier;
use memory_core::services::CallScope;
use memory_core::tier::{CommitToken, TierEvent, TurnRequest};
use plugin_host::{IncidentKind, Outcome, PluginHost, Quarantine, Slot, SlotError, new_call};

use super::fixture::{Folder, wanted, wanted_other, wanted_with};
use super::{LONG, check_serves, say, services};

const SHORT: Duration = Duration::from_millis(250);

/// Waits until something is true of the host.
pub(super) async fn until(host: &PluginHost, condition: impl Fn(&PluginHost) -> bool) {
    let start = Instant::now();
    while !condition(host) {
        assert!(
            start.elapsed() < LONG,
            "it does not come true: {:?}",
            host.incidents()
        );
        tokio::task::yield_now().await;
    }
}

/// Returns why the only build with incidents is quarantined, if it is.
fn quarantine(host: &PluginHost) -> Option<Quarantine> {
    host.incidents().first().and_then(|build| build.quarantine)
}

fn kinds(host: &PluginHost) -> Vec<(IncidentKind, &'static str, u64)> {
    let builds = host.incidents();
    let of = |incident: &plugin_host::Incident| (incident.kind, incident.method, incident.count);
    builds
        .iter()
        .flat_map(|build| build.incidents.iter().map(of))
        .collect()
}

async fn check_method_panics(slot: &Slot, method: &str) {
    let turn = slot.pin().expect("it serves");
    let (call, _control) = new_call(CallScope::default(), LONG);
    let token = CommitToken("t".to_owned());
    let result = match method {
        "begin_turn" => say(&turn, "panic", LONG).await.map(drop),
        "commit" => turn.commit(&call, token, "m1".to_owned()).await,
        "discard" => turn.discard(&call, token).await,
        "on_event" => {
            let event = TierEvent::Rewind {
                message: "m1".to_owned(),
            };
            turn.on_event(&call, event).await
        }
        "explain" => turn.explain(&call, TurnRequest::default()).await.map(drop),
        "stats" => turn.stats(&call).await.map(drop),
        other => panic!("`{other}` is not called by a turn"),
    };
    let error = result.expect_err("it panics");
    assert_eq!(error.code(), Some(ErrorCode::PANICKED), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_each_method_of_a_turn_counts() {
    for method in [
        "begin_turn",
        "commit",
        "discard",
        "on_event",
        "explain",
        "stats",
    ] {
        let folder = Folder::with_probe();
        let host = folder.host();
        let slot = host.slot("ada");
        let wanted = wanted_with(&format!(
            "{{\"label\":\"one\",\"fault\":\"panic_in_{method}\"}}"
        ));
        slot.ensure(&wanted, &services::all()).await;
        for time in 1..=3 {
            assert_eq!(quarantine(host), None, "{method}");
            check_method_panics(&slot, method).await;
            let noted = kinds(host);
            assert_eq!(noted, [(IncidentKind::Panic, noted[0].1, time)]);
            assert_eq!(noted[0].1, method);
        }
        assert!(matches!(
            quarantine(host),
            Some(Quarantine::Panicked { times: 3, .. })
        ));
        let change = slot.ensure(&wanted, &services::all()).await;
        assert_eq!(change.outcome, Outcome::Emptied, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_while_coming_up_or_going_away_counts() {
    for (config, method) in [
        (r#"{"panic_in_create":true}"#, "create"),
        (r#"{"fault":"panic_in_health"}"#, "health"),
        (r#"{"panic_in_drop":true}"#, "shutdown"),
    ] {
        let folder = Folder::with_probe();
        let host = folder.host();
        for time in 1..=3 {
            assert_eq!(quarantine(host), None, "{config}");
            let slot = host.slot("ada");
            slot.ensure(&wanted_with(config), &services::all()).await;
            drop(slot);
            until(host, |host| {
                kinds(host).iter().map(|(_, _, count)| count).sum::<u64>() == time
            })
            .await;
        }
        let noted = kinds(host);
        assert!(
            noted
                .iter()
                .all(|(kind, in_method, _)| (*kind, *in_method) == (IncidentKind::Panic, method)),
            "{noted:?}"
        );
        let slot = host.slot("bob");
        let change = slot
            .ensure(&wanted("probe", "good"), &services::all())
            .await;
        assert_eq!(change.outcome, Outcome::Emptied);
        assert_eq!(
            slot.status().problem.expect("it is told").to_string(),
            "plugin `probe`: this build panicked 3 times and is quarantined; install another build"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_while_a_call_is_dropped_counts() {
    let folder = Folder::with_probe();
    let host = folder.host();
    let slot = host.slot("ada");
    slot.ensure(&wanted("probe", "one"), &services::all()).await;
    let turn = slot.pin().expect("it serves");
    for _ in 0..3 {
        say(&turn, "panic when cancelled", SHORT)
            .await
            .expect_err("it hangs");
    }
    until(host, |host| quarantine(host).is_some()).await;
    let noted = kinds(host);
    assert!(
        noted.contains(&(IncidentKind::Panic, "begin_turn", 3)),
        "{noted:?}"
    );
    assert!(
        noted.contains(&(IncidentKind::Deadline, "begin_turn", 3)),
        "{noted:?}"
    );
    let all = host.incidents();
    let messages: Vec<_> = all[0]
        .incidents
        .iter()
        .map(|incident| incident.message.as_str())
        .collect();
    assert!(
        messages
            .iter()
            .any(|message| message.ends_with("told to panic when cancelled")),
        "{messages:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_never_returns_quarantines_its_build_and_nobody_else() {
    let folder = Folder::with_probe();
    folder.add_other();
    let host = folder.host();
    let services = services::all();
    let (slot, neighbour, other_tier) = (host.slot("ada"), host.slot("bob"), host.slot("eve"));
    slot.ensure(&wanted("probe", "one"), &services).await;
    let good = slot.status().serving.expect("it serves").sha256;
    folder.rebuild_probe();
    slot.reload(&wanted("probe", "one"), &services).await;
    neighbour.ensure(&wanted("probe", "two"), &services).await;
    other_tier.ensure(&wanted_other(), &services).await;

    let turn = slot.pin().expect("it serves");
    let error = say(&turn, "spin", SHORT).await.expect_err("it blocks");
    assert_eq!(error.code(), Some(ErrorCode::DEADLINE));
    // While it still spins, turns of the same build and of another are answered.
    check_serves(&neighbour, "two").await;
    let (call, _control) = new_call(CallScope::default(), LONG);
    match other_tier.pin() {
        Ok(turn) => drop(turn.stats(&call).await.expect("its threads are its own")),
        // A build may have no other tier.
        Err(error) => assert_eq!((error, wanted_other().tier), (SlotError::Empty, Tier::Off)),
    }

    until(host, |host| quarantine(host).is_some()).await;
    assert_eq!(
        quarantine(host),
        Some(Quarantine::Blocked {
            method: "begin_turn"
        })
    );
    assert_eq!(
        host.metrics()
            .builds
            .iter()
            .map(|build| build.blocked_threads)
            .sum::<usize>(),
        1
    );
    let change = slot.ensure(&wanted("probe", "one"), &services).await;
    assert_eq!(
        change.outcome,
        Outcome::FellBack,
        "the good build before it"
    );
    let status = slot.status();
    assert_eq!(status.serving.expect("it serves").sha256, good);
    assert_eq!(
        status.problem.expect("it is told").to_string(),
        "plugin `probe`: this build blocked its thread in `begin_turn` and is quarantined; install another build"
    );
    check_serves(&slot, "one").await;
    // The neighbour's turn still ends where it began; its next one finds the same as everybody.
    check_serves(&neighbour, "two").await;
    let change = neighbour.ensure(&wanted("probe", "two"), &services).await;
    assert_eq!(
        change.outcome,
        Outcome::Emptied,
        "this assistant has no build from before"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_all_threads_are_blocked_turns_are_answered_at_once() {
    let folder = Folder::with_probe();
    let host = folder.host();
    let slot = host.slot("ada");
    let event = folder.staging().with_file_name("event");
    let file = event.display();
    let wanted = wanted_with(&format!(r#"{{"label":"one","block_until":"{file}"}}"#));
    slot.ensure(&wanted, &services::all()).await;
    let turn = slot.pin().expect("it serves");
    // Two threads, and twice two more when those are lost.
    for blocked in 1..=6 {
        assert_eq!(say(&turn, "hello", LONG).await, Ok("label: one".to_owned()));
        say(&turn, "block", SHORT).await.expect_err("it blocks");
        until(host, |host| {
            host.metrics().builds[0].blocked_threads == blocked
        })
        .await;
    }
    let error = say(&turn, "hello", LONG)
        .await
        .expect_err("no thread is left");
    assert_eq!(
        error.to_string(),
        "plugin `probe`: `begin_turn` failed (UNAVAILABLE): no thread is left for it: this build blocked its thread in `begin_turn`"
    );
    // When they come back, so do the turns that were begun here.
    std::fs::write(event, "now").expect("written");
    until(host, |host| host.metrics().builds[0].blocked_threads == 0).await;
    assert_eq!(say(&turn, "hello", LONG).await, Ok("label: one".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_in_the_health_check_or_in_the_end_is_found_too() {
    for (config, method) in [
        (r#"{"block_health_ms":3000}"#, "health"),
        (r#"{"block_drop_ms":3000}"#, "shutdown"),
    ] {
        let folder = Folder::with_probe();
        let host = folder.host_with(|limits| limits.create = Duration::from_millis(500));
        let slot = host.slot("ada");
        slot.ensure(&wanted_with(config), &services::all()).await;
        drop(slot);
        until(host, |host| quarantine(host).is_some()).await;
        assert_eq!(quarantine(host), Some(Quarantine::Blocked { method }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_does_not_end_is_not_begun_again_and_again() {
    let folder = Folder::with_probe();
    let host = folder.host_with(|limits| {
        limits.create = Duration::from_millis(100);
        limits.retry = Duration::from_millis(200);
    });
    let slot = host.slot("ada");
    let services = services::all();
    let late = wanted_with(r#"{"create_ms":3000}"#);
    // The first attempt may be late for the loading itself, on a machine that has other things to do.
    slot.ensure(&wanted("probe", "good"), &services).await;
    slot.ensure(&late, &services).await;
    assert_eq!(
        slot.status().problem.expect("it is told").to_string(),
        "plugin `probe`: create did not finish within 100 ms"
    );
    until(host, |host| quarantine(host).is_some()).await;
    assert_eq!(
        quarantine(host),
        Some(Quarantine::Blocked { method: "create" })
    );
    let calls = || host.metrics().builds[0].methods["create"].calls;
    let before = calls();
    while slot.ensure(&late, &services).await.outcome == Outcome::Unchanged {}
    assert_eq!(
        slot.status().problem.expect("it is told").to_string(),
        "plugin `probe`: this build blocked its thread in `create` and is quarantined; install another build"
    );
    assert_eq!(calls(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_never_returns_is_noticed_even_if_nobody_waits_for_it() {
    let folder = Folder::with_probe();
    let host = folder.host_with(|limits| limits.retry = Duration::from_millis(100));
    let slot = host.slot("ada");
    let services = services::all();
    slot.ensure(&wanted("probe", "good"), &services).await;
    let late = wanted_with(r#"{"create_ms":3000}"#);
    // The turn that asked is given up, as when a client goes away.
    let given_up = tokio::time::timeout(SHORT, slot.ensure(&late, &services)).await;
    assert!(given_up.is_err(), "it is late");
    until(host, |host| quarantine(host).is_some()).await;
    assert_eq!(
        quarantine(host),
        Some(Quarantine::Blocked { method: "create" })
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_and_floods_are_remembered_and_the_turn_is_answered() {
    let folder = Folder::with_probe();
    let host = folder.host();
    let slot = host.slot("ada");
    slot.ensure(&wanted("probe", "one"), &services::all()).await;
    let turn = slot.pin().expect("it serves");
    say(&turn, "wrong blocks", LONG)
        .await
        .expect_err("nonsense");
    assert_eq!(kinds(host), [(IncidentKind::Nonsense, "begin_turn", 1)]);
    let ignoring = say(&turn, "never", SHORT).await.expect_err("late");
    assert!(matches!(ignoring, SlotError::Call { code, .. } if code == ErrorCode::DEADLINE));
    assert_eq!(kinds(host)[1], (IncidentKind::Deadline, "begin_turn", 1));
    assert_eq!(quarantine(host), None, "neither harms anybody");
    check_serves(&slot, "one").await;
}
