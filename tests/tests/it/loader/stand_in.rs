//! What serves when the configured plugin cannot: an earlier good build of the same tier, and never anything else.

use memory_core::predicates::Tier;
use memory_core::services::Services;
use plugin_host::{LoadError, Outcome, Slot, Wanted};

use super::fixture::{Folder, wanted, wanted_other};
use super::{LONG, check_serves, say, services};

/// Makes a wish, and checks what became of it.
async fn check_outcome(slot: &Slot, wanted: &Wanted, services: &Services, expected: Outcome) {
    let change = slot.ensure(wanted, services).await;
    let problem = slot.status().problem;
    assert_eq!(change.outcome, expected, "{problem:?}");
}

/// Leaves tier v3 for another one, or for none in a build that has no other.
async fn check_away(slot: &Slot, services: &Services) {
    let other = wanted_other();
    let expected = match other.tier {
        Tier::Off => Outcome::Emptied,
        _ => Outcome::Switched,
    };
    check_outcome(slot, &other, services, expected).await;
    assert_eq!(
        slot.status().serving.map(|serving| serving.tier),
        Some(other.tier).filter(|tier| *tier != Tier::Off)
    );
}

fn check_build(slot: &Slot, sha256: &str) {
    let serving = slot.status().serving.expect("something serves");
    assert_eq!(
        (serving.tier, serving.sha256.as_str()),
        (Tier::V3, sha256),
        "{:?}",
        slot.status().problem
    );
}

fn serving_hash(slot: &Slot) -> String {
    slot.status().serving.expect("something serves").sha256
}

async fn quarantine(slot: &Slot) {
    let turn = slot.pin().expect("something serves");
    for _ in 0..3 {
        say(&turn, "panic", LONG).await.expect_err("it panics");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_build_comes_back_after_another_tier_has_served() {
    let folder = Folder::new();
    let library = folder.add_test_plugin_as("probe", "probe");
    folder.add_other();
    let slot = folder.host().slot("ada");
    let services = services::all();
    check_outcome(&slot, &wanted("probe", "one"), &services, Outcome::Switched).await;
    let good = serving_hash(&slot);
    check_away(&slot, &services).await;

    let bytes = std::fs::read(&library).expect("there");
    std::fs::write(&library, &bytes[..bytes.len() / 2]).expect("written");
    check_outcome(&slot, &wanted("probe", "two"), &services, Outcome::FellBack).await;
    check_build(&slot, &good);
    check_serves(&slot, "two").await;
    let status = slot.status();
    assert_eq!(status.configured, Tier::V3);
    let problem = status.problem.expect("the library is broken");
    assert!(matches!(&*problem, LoadError::Length { .. }), "{problem}");

    // The other way round, nothing of tier v3 stands in for the other.
    let other = wanted_other();
    if other.tier != Tier::Off {
        let lost = Wanted {
            plugin: "lost".to_owned(),
            ..wanted_other()
        };
        check_outcome(&slot, &lost, &services, Outcome::FellBack).await;
        assert_eq!(
            slot.status().serving.map(|serving| serving.plugin),
            Some(other.plugin)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_that_is_quarantined_gives_way_to_the_one_before() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    let services = services::all();
    check_outcome(&slot, &wanted("probe", "one"), &services, Outcome::Switched).await;
    let first = serving_hash(&slot);
    folder.add_test_plugin_as("newer-minor", "probe");
    // Its name is `probe`, as that of the first.
    let change = slot.reload(&wanted("probe", "one"), &services).await;
    assert_eq!(
        change.outcome,
        Outcome::Switched,
        "{:?}",
        slot.status().problem
    );
    let second = serving_hash(&slot);
    let third = folder.rebuild_probe();
    slot.reload(&wanted("probe", "one"), &services).await;
    check_build(&slot, &third);
    assert_ne!(first, second);

    quarantine(&slot).await;
    check_outcome(&slot, &wanted("probe", "one"), &services, Outcome::FellBack).await;
    check_build(&slot, &second);
    check_serves(&slot, "one").await;
    let problem =
        "plugin `probe`: this build panicked 3 times and is quarantined; install another build";
    assert_eq!(
        slot.status().problem.map(|problem| problem.to_string()),
        Some(problem.to_owned())
    );
    check_outcome(
        &slot,
        &wanted("probe", "one"),
        &services,
        Outcome::Unchanged,
    )
    .await;

    // What stands in is replaced at once too, though the wish itself was refused a moment ago.
    quarantine(&slot).await;
    check_outcome(&slot, &wanted("probe", "one"), &services, Outcome::FellBack).await;
    check_build(&slot, &first);
    quarantine(&slot).await;
    check_outcome(&slot, &wanted("probe", "one"), &services, Outcome::Emptied).await;
    let status = slot.status();
    assert_eq!((status.configured, status.serving), (Tier::V3, None));
    assert!(status.problem.is_some(), "it is still told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_build_comes_back_with_the_settings_it_knows() {
    let folder = Folder::with_probe();
    folder.add_other();
    let slot = folder.host().slot("ada");
    let services = services::all();
    check_outcome(&slot, &wanted("probe", "one"), &services, Outcome::Switched).await;
    check_away(&slot, &services).await;
    let mistyped = Wanted {
        config: r#"{"windw":1}"#.to_owned(),
        ..wanted("probe", "mistyped")
    };
    check_outcome(&slot, &mistyped, &services, Outcome::FellBack).await;
    check_serves(&slot, "one").await;
    let status = slot.status();
    assert_eq!(
        status.serving.map(|serving| serving.digest),
        Some("digest of one".to_owned())
    );
    let problem = status.problem.expect("the settings are wrong").to_string();
    assert!(problem.contains("(BAD_CONFIG)"), "{problem}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_problem_ends_when_the_wish_is_taken_back() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    let services = services::all();
    check_outcome(&slot, &wanted("probe", "one"), &services, Outcome::Switched).await;
    let lost = wanted("lost", "two");
    check_outcome(&slot, &lost, &services, Outcome::KeptPrevious).await;
    assert!(slot.status().problem.is_some());
    check_outcome(
        &slot,
        &wanted("probe", "one"),
        &services,
        Outcome::Unchanged,
    )
    .await;
    assert_eq!(slot.status().problem, None);

    // A refused reload is a problem of the very wish that goes on being served.
    folder.add_library_untrusted("probe", b"anything");
    let change = slot.reload(&wanted("probe", "one"), &services).await;
    assert_eq!(change.outcome, Outcome::KeptPrevious);
    check_outcome(
        &slot,
        &wanted("probe", "one"),
        &services,
        Outcome::Unchanged,
    )
    .await;
    assert!(slot.status().problem.is_some());
    check_serves(&slot, "one").await;
}
