//! Newcomers that come late, too often or never: turns are answered meanwhile, and what they cost is bounded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use memory_core::abi::ErrorCode;
use memory_core::predicates::Tier;
use memory_core::services::{CallScope, Services};
use plugin_host::{
    Limits, LoadError, Outcome, PluginHost, Slot, SlotError, Step, Wanted, new_call,
};

use super::fixture::{Folder, wanted, wanted_other, wanted_v3, wanted_with};
use super::incidents::until;
use super::{LONG, check_serves, say, services};
use crate::child;

/// Shorter than anything that comes late, and so never waited out by what comes in time.
const IMPATIENT: Duration = Duration::from_millis(1);

/// Something that plugins wait for.
struct Event(PathBuf);

impl Event {
    fn new(folder: &Folder, name: &str) -> Self {
        Self(folder.staging().with_file_name(name))
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn happens(&self) {
        std::fs::write(&self.0, "now").expect("written");
    }
}

/// Returns the wish for an instance that comes up when something happens.
fn wanted_after(event: &Event, label: &str) -> Wanted {
    let file = event.path().display();
    wanted_with(&format!(r#"{{"label":"{label}","create_until":"{file}"}}"#))
}

async fn check_outcome(slot: &Slot, wanted: &Wanted, expected: Outcome) {
    let change = slot.ensure(wanted, &services::all()).await;
    assert_eq!(change.outcome, expected, "{:?}", slot.status());
}

/// Returns how many calls of a method the only build has answered.
fn answered(host: &PluginHost, method: &str) -> u64 {
    let builds = host.metrics().builds;
    let counted = builds[0].methods.get(method);
    counted.map_or(0, |counted| counted.answered)
}

async fn arrived(slot: &Slot, wanted: &Wanted, services: &Services) {
    while slot.ensure(wanted, services).await.outcome == Outcome::Coming {}
}

fn patient(change: impl FnOnce(&mut Limits)) -> impl FnOnce(&mut Limits) {
    |limits| {
        limits.create = LONG;
        change(limits);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_go_on_with_what_serves_while_the_next_comes_up() {
    let folder = Folder::with_probe();
    let host = folder.host_with(patient(|limits| limits.patience = IMPATIENT));
    let slot = host.slot("ada");
    check_outcome(&slot, &wanted("probe", "one"), Outcome::Switched).await;

    let event = Event::new(&folder, "event");
    let late = wanted_after(&event, "two");
    for _ in 0..20 {
        check_outcome(&slot, &late, Outcome::Coming).await;
        check_serves(&slot, "one").await;
    }
    let status = slot.status();
    assert_eq!(
        (status.problem, status.coming.as_deref()),
        (None, Some("probe"))
    );
    assert_eq!(
        host.metrics().builds[0].methods["create"].calls,
        2,
        "one of each"
    );

    event.happens();
    arrived(&slot, &late, &services::all()).await;
    check_serves(&slot, "two").await;
    assert_eq!(slot.status().coming, None);
    assert_eq!(slot.metrics().switches, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_anything_that_serves_a_turn_waits_no_longer_than_it_may() {
    let folder = Folder::with_probe();
    folder.add_other();
    let host = folder.host_with(patient(|limits| limits.arrival = IMPATIENT));
    let slot = host.slot("ada");
    let event = Event::new(&folder, "event");
    let late = wanted_after(&event, "one");
    check_outcome(&slot, &late, Outcome::Coming).await;
    assert!(matches!(slot.pin(), Err(SlotError::Empty)));

    event.happens();
    arrived(&slot, &late, &services::all()).await;
    check_serves(&slot, "one").await;

    // What serves another tier is nothing that could stand in.
    let event = Event::new(&folder, "another event");
    arrived(&slot, &wanted_other(), &services::all()).await;
    let late = wanted_after(&event, "two");
    check_outcome(&slot, &late, Outcome::Coming).await;
    let status = slot.status();
    assert_ne!(status.serving.map(|serving| serving.tier), Some(Tier::V3));
    event.happens();
    arrived(&slot, &late, &services::all()).await;
    check_serves(&slot, "two").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_wanted_any_more_never_serves() {
    let folder = Folder::with_probe();
    let host = folder.host_with(patient(|limits| limits.arrival = IMPATIENT));
    let slot = Arc::new(host.slot("ada"));
    let event = Event::new(&folder, "event");
    let late = wanted_after(&event, "late");
    check_outcome(&slot, &late, Outcome::Coming).await;
    let reload = tokio::spawn({
        let slot = Arc::clone(&slot);
        async move {
            slot.reload(&wanted("probe", "next"), &services::all())
                .await
                .outcome
        }
    });
    assert_eq!(reload.await.expect("it ends"), Outcome::Switched);
    check_serves(&slot, "next").await;

    event.happens();
    // It is made, found unwanted, and shut down.
    until(host, |host| {
        answered(host, "create") == 2 && answered(host, "shutdown") == 1
    })
    .await;
    check_serves(&slot, "next").await;
    check_outcome(&slot, &wanted("probe", "next"), Outcome::Unchanged).await;

    // Nor when the settings say that nothing shall serve.
    let event = Event::new(&folder, "another event");
    check_outcome(&slot, &Wanted::off(), Outcome::Emptied).await;
    check_outcome(&slot, &wanted_after(&event, "late"), Outcome::Coming).await;
    check_outcome(&slot, &Wanted::off(), Outcome::Emptied).await;
    event.happens();
    until(host, |host| answered(host, "shutdown") == 3).await;
    assert_eq!(slot.status().serving, None);
    assert_eq!(slot.status().coming, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_go_back_and_forth_are_refused_without_being_tried_each_time() {
    let folder = Folder::with_probe();
    let host = folder.host_with(|limits| {
        limits.dwell_changes = 3;
        limits.dwell_window = LONG;
    });
    let slot = host.slot("ada");
    let creates = || host.metrics().builds[0].methods["create"].calls;
    let bad = |number: u32| wanted_with(&format!(r#"{{"unheard_of":{number}}}"#));
    check_outcome(&slot, &wanted("probe", "good"), Outcome::Switched).await;
    check_outcome(&slot, &bad(1), Outcome::KeptPrevious).await;
    let before = creates();
    for _ in 0..5 {
        check_outcome(&slot, &wanted("probe", "good"), Outcome::Unchanged).await;
        assert_eq!(slot.status().problem, None);
        check_outcome(&slot, &bad(1), Outcome::Unchanged).await;
        assert!(slot.status().problem.is_some(), "it is told each time");
    }
    assert_eq!(creates(), before);

    // Others count too, though they come to nothing.
    check_outcome(&slot, &bad(2), Outcome::KeptPrevious).await;
    check_outcome(&slot, &bad(3), Outcome::KeptPrevious).await;
    check_outcome(&slot, &bad(4), Outcome::Postponed).await;
    assert_eq!(creates(), before + 2);
    check_serves(&slot, "good").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_that_do_not_end_take_a_few_threads_and_no_more() {
    let folder = Folder::with_probe();
    let host = folder.host_with(|limits| limits.create = Duration::from_secs(2));
    let services = services::all();
    let known = host.slot("known");
    known.ensure(&wanted("probe", "known"), &services).await;
    let event = Event::new(&folder, "event");
    let late = wanted_after(&event, "late");
    let slots: Vec<_> = (0..12)
        .map(|number| Arc::new(host.slot(number.to_string())))
        .collect();
    let asked: Vec<_> = slots
        .iter()
        .map(|slot| {
            let (slot, late, services) = (Arc::clone(slot), late.clone(), services.clone());
            tokio::spawn(async move { slot.ensure(&late, &services).await.outcome })
        })
        .collect();
    for asked in asked {
        assert_eq!(asked.await.expect("it ends"), Outcome::Emptied);
    }
    for slot in &slots {
        let problem = slot.status().problem.expect("it is told");
        assert!(
            matches!(
                &*problem,
                LoadError::Late {
                    step: Step::Create,
                    ..
                }
            ),
            "{problem}"
        );
    }
    assert_eq!(host.metrics().builds[0].methods["create"].calls, 1 + 4);
    check_serves(&known, "known").await;
    event.happens();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_whose_thread_came_back_serves_again() {
    let folder = Folder::with_probe();
    let host = folder.host_with(|limits| limits.retry = Duration::from_millis(1));
    let slot = host.slot("ada");
    let services = services::all();
    let event = Event::new(&folder, "event");
    let file = event.path().display();
    let wanted = wanted_with(&format!(r#"{{"label":"one","block_until":"{file}"}}"#));
    check_outcome(&slot, &wanted, Outcome::Switched).await;
    let turn = slot.pin().expect("it serves");
    say(&turn, "block", Duration::from_millis(100))
        .await
        .expect_err("it blocks");
    until(host, |host| host.metrics().builds[0].quarantined.is_some()).await;
    // The turn goes on where it was begun; a new one finds nothing to serve it.
    assert_eq!(say(&turn, "hello", LONG).await, Ok("label: one".to_owned()));
    check_outcome(&slot, &wanted, Outcome::Emptied).await;

    event.happens();
    until(host, |host| host.metrics().builds[0].quarantined.is_none()).await;
    while slot.ensure(&wanted, &services).await.outcome != Outcome::Switched {}
    check_serves(&slot, "one").await;
    let counted = host.metrics();
    assert_eq!(
        (counted.builds.len(), counted.builds[0].blocked_threads),
        (1, 0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_yields_for_ever_is_cancelled_and_lets_its_instance_go() {
    let folder = Folder::with_probe();
    let host = folder.host();
    let slot = host.slot("ada");
    let services = services::all();
    slot.ensure(&wanted("probe", "one"), &services).await;
    let turn = slot.pin().expect("it serves");
    let late = say(&turn, "yield for ever", Duration::from_millis(100)).await;
    assert_eq!(
        late.expect_err("it never answers").code(),
        Some(ErrorCode::DEADLINE)
    );
    drop(turn);
    let change = slot.ensure(&wanted("probe", "two"), &services).await;
    let drained = change.drain.expect("there was one").await.expect("it ends");
    assert_eq!(drained.abandoned, 0, "the call does not hold it any more");
    until(host, |host| answered(host, "shutdown") == 1).await;
    assert_eq!(
        host.metrics().builds[0].quarantined,
        None,
        "it harms nobody"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_plugins_of_one_tier_serve_side_by_side() {
    let folder = Folder::with_probe();
    folder.add_v3();
    let host = folder.host();
    let services = services::all();
    let (ada, bob) = (host.slot("ada"), host.slot("bob"));
    check_outcome(&ada, &wanted("probe", "one"), Outcome::Switched).await;
    let change = bob.ensure(&wanted_v3(), &services).await;
    assert_eq!(
        change.outcome,
        Outcome::Switched,
        "{:?}",
        bob.status().problem
    );
    let of = |slot: &Slot| {
        let serving = slot.status().serving.expect("it serves");
        (serving.tier, serving.plugin)
    };
    assert_eq!(of(&ada), (Tier::V3, "probe".to_owned()));
    assert_eq!(of(&bob), (Tier::V3, "tier-v3".to_owned()));

    // What one does wrong is not held against the other, and neither stands in for the other.
    let turn = ada.pin().expect("it serves");
    for _ in 0..3 {
        say(&turn, "panic", LONG).await.expect_err("it panics");
    }
    drop(turn);
    check_outcome(&ada, &wanted("probe", "one"), Outcome::Emptied).await;
    let change = bob.ensure(&wanted_v3(), &services).await;
    assert_eq!(change.outcome, Outcome::Unchanged);
    let (call, _control) = new_call(CallScope::default(), LONG);
    bob.pin()
        .expect("it serves")
        .stats(&call)
        .await
        .expect("answered");
}

#[test]
fn a_library_that_hangs_before_it_has_an_instance_is_said_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let event = folder.path().join("event");
    child::run(
        "loader::newcomer::a_manifest_that_hangs",
        &[("STRATA_PROBE_MANIFEST_UNTIL", &event.to_string_lossy())],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by `a_library_that_hangs_before_it_has_an_instance_is_said_to`"]
async fn a_manifest_that_hangs() {
    let folder = Folder::with_probe();
    let host = folder.host_with(|limits| limits.create = Duration::from_millis(300));
    let (slot, other) = (host.slot("ada"), host.slot("bob"));
    let problem = |slot: &Slot| slot.status().problem.expect("it is told").to_string();
    check_outcome(&slot, &wanted("probe", "one"), Outcome::Emptied).await;
    assert_eq!(
        problem(&slot),
        "plugin `probe`: manifest did not finish within 300 ms"
    );
    check_outcome(&other, &wanted("probe", "one"), Outcome::Emptied).await;
    assert_eq!(
        problem(&other),
        "plugin `probe`: opening the library did not finish within 300 ms"
    );
    let event = std::env::var_os("STRATA_PROBE_MANIFEST_UNTIL").expect("given");
    std::fs::write(event, "now").expect("written");
    let (wanted, services) = (wanted("probe", "one"), services::all());
    while slot.reload(&wanted, &services).await.outcome != Outcome::Switched {}
    check_serves(&slot, "one").await;
}
