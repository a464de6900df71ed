//! Minimum dwell: settings that go back and forth do not make an instance at every turn.

use std::time::Duration;

use memory_core::predicates::Tier;
use plugin_host::{Outcome, Slot, Wanted};

use super::fixture::{Folder, wanted, wanted_other};
use super::{check_serves, services};

async fn check_outcome(slot: &Slot, wanted: &Wanted, expected: Outcome) {
    let change = slot.ensure(wanted, &services::all()).await;
    assert_eq!(change.outcome, expected, "{:?}", slot.status());
}

/// Makes a first instance and as many changes as are allowed, which are two.
async fn used_up(slot: &Slot) {
    for label in ["0", "1", "2"] {
        check_outcome(slot, &wanted("probe", label), Outcome::Switched).await;
    }
}

fn folder(window: Duration) -> Folder {
    let folder = Folder::with_probe();
    folder.host_with(|limits| {
        limits.dwell_changes = 2;
        limits.dwell_window = window;
    });
    folder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_too_many_waits_and_the_status_says_so() {
    let folder = folder(Duration::from_hours(1));
    let slot = folder.host().slot("ada");
    used_up(&slot).await;
    for _ in 0..2 {
        check_outcome(&slot, &wanted("probe", "3"), Outcome::Postponed).await;
    }
    check_serves(&slot, "2").await;
    let status = slot.status();
    assert_eq!(status.problem, None, "nothing is wrong with it");
    let pending = status.pending.expect("it waits");
    assert_eq!(
        (pending.plugin.as_str(), pending.digest.as_str()),
        ("probe", "digest of 3")
    );
    assert_eq!(
        pending.to_string(),
        "settings or plugin of this tier changed 2 times within 3600 s; the latest change follows when that time has passed"
    );

    // What serves is what is wanted again: nothing waits any more.
    check_outcome(&slot, &wanted("probe", "2"), Outcome::Unchanged).await;
    assert_eq!(slot.status().pending, None);
    assert_eq!(slot.metrics().postponed, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tier_and_off_never_wait() {
    let folder = folder(Duration::from_hours(1));
    folder.add_other();
    let slot = folder.host().slot("ada");
    used_up(&slot).await;
    check_outcome(&slot, &wanted("probe", "3"), Outcome::Postponed).await;
    let other = wanted_other();
    // A build may have no other tier.
    let expected = match other.tier {
        Tier::Off => Outcome::Emptied,
        _ => Outcome::Switched,
    };
    check_outcome(&slot, &other, expected).await;
    assert_eq!(slot.status().pending, None);
    check_outcome(&slot, &wanted("probe", "4"), Outcome::Switched).await;
    check_serves(&slot, "4").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn off_is_followed_while_a_change_waits() {
    let folder = folder(Duration::from_hours(1));
    let slot = folder.host().slot("ada");
    used_up(&slot).await;
    check_outcome(&slot, &wanted("probe", "3"), Outcome::Postponed).await;
    check_outcome(&slot, &Wanted::off(), Outcome::Emptied).await;
    let status = slot.status();
    assert_eq!((status.serving, status.pending), (None, None));
    check_outcome(&slot, &wanted("probe", "3"), Outcome::Switched).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_neither_waits_nor_counts() {
    let folder = folder(Duration::from_hours(1));
    let slot = folder.host().slot("ada");
    used_up(&slot).await;
    check_outcome(&slot, &wanted("probe", "3"), Outcome::Postponed).await;
    for _ in 0..3 {
        let change = slot.reload(&wanted("probe", "3"), &services::all()).await;
        assert_eq!(change.outcome, Outcome::Switched);
    }
    assert_eq!(slot.status().pending, None);
    check_serves(&slot, "3").await;

    let fresh = folder.host().slot("bob");
    fresh.ensure(&wanted("probe", "0"), &services::all()).await;
    for _ in 0..3 {
        fresh.reload(&wanted("probe", "0"), &services::all()).await;
    }
    check_outcome(&fresh, &wanted("probe", "1"), Outcome::Switched).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_went_bad_is_replaced_at_once() {
    let folder = folder(Duration::from_hours(1));
    let slot = folder.host().slot("ada");
    used_up(&slot).await;
    let turn = slot.pin().expect("it serves");
    for _ in 0..3 {
        super::say(&turn, "panic", super::LONG)
            .await
            .expect_err("it panics");
    }
    drop(turn);
    let newer = folder.rebuild_probe();
    check_outcome(&slot, &wanted("probe", "3"), Outcome::Switched).await;
    assert_eq!(
        slot.status().serving.map(|serving| serving.sha256),
        Some(newer)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_change_follows_when_the_window_has_passed() {
    let folder = folder(Duration::from_millis(300));
    let slot = folder.host().slot("ada");
    let services = services::all();
    let mut postponed = false;
    // However slow the machine is, more changes than are allowed come at some point, and each of them is made in the end.
    for label in 0..50 {
        let wanted = wanted("probe", &label.to_string());
        while slot.ensure(&wanted, &services).await.outcome == Outcome::Postponed {
            postponed = true;
            tokio::task::yield_now().await;
        }
        check_serves(&slot, &label.to_string()).await;
        if postponed {
            return;
        }
    }
    panic!("fifty changes and none of them waited");
}
