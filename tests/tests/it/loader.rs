//! Plugins through the real loader: each way in which one can be wrong is one clear line, and the host serves on.
//!
//! The libraries are those that `cargo xtask build-plugins --test-plugins` made. What is damaged is damaged here, in a
//! copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use memory_core::abi::ErrorCode;
use memory_core::predicates::Tier;
use memory_core::services::{CallScope, Capability, Services};
use memory_core::tier::{CommitToken, TierEvent, TurnRequest};
use plugin_host::{LoadError, Outcome, PinnedTurn, Slot, SlotError, Wanted, new_call};
use tests::world::Fault;

use self::fixture::{Folder, wanted};

mod dwell;
mod files;
mod fixture;
mod incidents;
mod metrics;
mod newcomer;
mod rows;
mod services;
mod stand_in;
mod trust;

const LONG: Duration = Duration::from_mins(1);

/// Makes the probe ask every service; the words are in the world's story.
const ECHO: &str = "echo the roastery in Leith";

async fn say(turn: &PinnedTurn, message: &str, limit: Duration) -> Result<String, SlotError> {
    let (call, _control) = new_call(services::scope(), limit);
    let request = TurnRequest {
        user_message: message.to_owned(),
        ..TurnRequest::default()
    };
    let plan = turn.begin_turn(&call, request).await?;
    Ok(plan
        .blocks
        .iter()
        .map(|block| block.text.as_str())
        .collect::<Vec<_>>()
        .join("\n"))
}

async fn check_serves(slot: &Slot, label: &str) {
    let turn = slot.pin().expect("something serves");
    assert_eq!(
        say(&turn, "hello", LONG).await,
        Ok(format!("label: {label}"))
    );
}

/// Brings up a good probe, asks for another plugin of the same tier, and checks what is said and that the probe serves on.
async fn check_refused(folder: &Folder, plugin: &str, services: &Services) -> Arc<LoadError> {
    folder.add_test_plugin("probe");
    let slot = folder.host().slot("ada");
    let good = slot
        .ensure(&wanted("probe", "good"), &services::all())
        .await;
    assert_eq!(
        good.outcome,
        Outcome::Switched,
        "{:?}",
        slot.status().problem
    );

    let change = slot.ensure(&wanted(plugin, "bad"), services).await;
    assert_eq!(change.outcome, Outcome::KeptPrevious);
    let status = slot.status();
    assert_eq!(
        status.serving.map(|serving| serving.plugin),
        Some("probe".to_owned())
    );
    check_serves(&slot, "good").await;
    // Asked again at once, it is not loaded again.
    assert_eq!(
        slot.ensure(&wanted(plugin, "bad"), services).await.outcome,
        Outcome::Unchanged
    );
    let problem = status.problem.expect("a refused plugin is a problem");
    assert_eq!(problem.to_string().lines().count(), 1, "{problem}");
    problem
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_cut_short_is_refused_before_it_is_opened() {
    let folder = Folder::new();
    let library = folder.add_test_plugin_as("probe", "cut");
    let bytes = std::fs::read(&library).expect("there");
    std::fs::write(&library, &bytes[..bytes.len() / 2]).expect("written");
    let problem = check_refused(&folder, "cut", &services::all()).await;
    let expected = format!(
        "plugin `cut`: the library has {} bytes, its manifest says {}; it was cut short or replaced",
        bytes.len() / 2,
        bytes.len()
    );
    assert_eq!(problem.to_string(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_file_has_the_wrong_hash() {
    let folder = Folder::new();
    let library = folder.add_test_plugin_as("probe", "changed");
    let mut bytes = std::fs::read(&library).expect("there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&library, bytes).expect("written");
    let problem = check_refused(&folder, "changed", &services::all()).await;
    assert!(
        matches!(&*problem, LoadError::Hash { plugin, .. } if plugin == "changed"),
        "{problem}"
    );
    assert!(
        problem
            .to_string()
            .contains("is not the one in its manifest"),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_that_nobody_trusts_is_refused_with_what_to_do() {
    let folder = Folder::new();
    folder.add_library_untrusted("stranger", b"\x7fELF");
    let problem = check_refused(&folder, "stranger", &services::all()).await;
    let text = problem.to_string();
    assert!(text.starts_with("plugin `stranger`: sha256 "), "{text}");
    assert!(
        text.ends_with(
            "is not on the allow-list; if you trust it, run `strata plugins trust stranger`"
        ),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_file_is_refused_by_the_system() {
    let folder = Folder::new();
    folder.add_library(
        "text",
        "This is not a library, though it is long enough to be one.\n"
            .repeat(64)
            .as_bytes(),
    );
    let problem = check_refused(&folder, "text", &services::all()).await;
    let text = problem.to_string();
    assert!(
        text.starts_with("plugin `text`: the dynamic loader refused it: "),
        "{text}"
    );
    assert!(
        !text.contains(".so:"),
        "the private copy's path says nothing to anybody: {text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_library_is_not_a_plugin() {
    let folder = Folder::new();
    folder.add_library("foreign", &fixture::foreign_library());
    let problem = check_refused(&folder, "foreign", &services::all()).await;
    assert_eq!(problem.to_string(), "plugin `foreign`: not a tier plugin");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_major_version_is_refused_by_its_number() {
    let folder = Folder::new();
    folder.add_test_plugin("future-major");
    let problem = check_refused(&folder, "future-major", &services::all()).await;
    assert_eq!(
        problem.to_string(),
        "plugin `future-major`: built for memory-core ABI 2.0, this host speaks 1.0"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_layout_is_refused_at_the_field() {
    let folder = Folder::new();
    folder.add_test_plugin("mismatched-layout");
    let problem = check_refused(&folder, "mismatched-layout", &services::all()).await;
    assert_eq!(
        problem.to_string(),
        "plugin `mismatched-layout`: interface differs at `Dense.search -> SectionHit.score`: host f32, plugin f64"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_capability_that_the_tier_may_not_have_is_refused() {
    let folder = Folder::new();
    folder.add_test_plugin("greedy");
    let problem = check_refused(&folder, "greedy", &services::all()).await;
    assert_eq!(
        problem.to_string(),
        "plugin `greedy`: requires `pkb`, which tier `v3` may not have"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_capability_that_the_assistant_lacks_is_refused() {
    let folder = Folder::new();
    let services = Services {
        clock: None,
        ..services::all()
    };
    let problem = check_refused(&folder, "probe", &services).await;
    assert_eq!(
        problem.to_string(),
        "plugin `probe`: requires `clock`, which assistant `ada` does not have"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_that_the_library_contradicts_is_refused() {
    let folder = Folder::new();
    folder.add_test_plugin_as("probe", "renamed");
    let problem = check_refused(&folder, "renamed", &services::all()).await;
    assert_eq!(
        problem.to_string(),
        "plugin `renamed`: its manifest says `id` is `renamed`, the library says `probe`"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_manifest_and_a_missing_plugin_are_told_apart() {
    let folder = Folder::new();
    folder.add_test_plugin_as("probe", "short");
    folder.edit_manifest("short", |text| {
        text.lines()
            .filter(|line| !line.starts_with("sha256"))
            .collect::<Vec<_>>()
            .join("\n")
    });
    let problem = check_refused(&folder, "short", &services::all()).await;
    assert_eq!(
        problem.to_string(),
        "plugin manifest `short.plugin.toml`: missing key `sha256`"
    );

    let folder = Folder::new();
    let problem = check_refused(&folder, "nobody", &services::all()).await;
    assert!(
        matches!(&*problem, LoadError::Unknown { plugin, .. } if plugin == "nobody"),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_of_a_newer_minor_version_serves() {
    let folder = Folder::new();
    folder.add_test_plugin("newer-minor");
    let slot = folder.host().slot("ada");
    let change = slot
        .ensure(&wanted("newer-minor", "new"), &services::all())
        .await;
    // Its library calls itself `probe`: everything before that comparison has passed, the version and the layout.
    assert_eq!(change.outcome, Outcome::Emptied);
    assert_eq!(
        slot.status().problem.expect("the names differ").to_string(),
        "plugin `newer-minor`: its manifest says `id` is `newer-minor`, the library says `probe`"
    );

    let folder = Folder::new();
    folder.add_test_plugin_as("newer-minor", "probe");
    let slot = folder.host().slot("ada");
    slot.ensure(&wanted("probe", "new"), &services::all()).await;
    check_serves(&slot, "new").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_service_answers_across_the_border() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    let world = services::world();
    services::plant(&world);
    let change = slot
        .ensure(&wanted("probe", "one"), &world.services())
        .await;
    assert!(
        change
            .timings
            .is_some_and(|timings| timings.total() > Duration::ZERO)
    );
    let turn = slot.pin().expect("it serves");
    assert!(turn.is_ready());
    assert_eq!(
        (turn.tier(), turn.plugin(), turn.generation()),
        (Tier::V3, "probe", 1)
    );
    // A slow service needs the runtime of the host, which the thread that polls the plugin does not have.
    world.set_fault(Fault::Slow(Duration::from_millis(1)));
    let text = say(&turn, ECHO, LONG).await.expect("it answers");

    let offered: Vec<_> = Capability::ALL
        .into_iter()
        .filter(|capability| *capability != Capability::Pkb)
        .collect();
    assert!(
        text.contains(&format!("offered: {offered:?}")),
        "the tier's row has no `pkb`:\n{text}"
    );
    let asked = world.take_journal();
    assert!(!asked.is_empty());
    for asked in asked {
        assert_eq!(
            asked.scope,
            services::scope(),
            "the host's own scope comes back"
        );
    }
    let (call, _control) = new_call(services::scope(), LONG);
    for line in services::expected(&world, &call, ECHO).await {
        let (name, answer) = line.split_once(": ").expect("a name and an answer");
        assert!(
            !matches!(answer, "" | "[]" | "None" | "0"),
            "{name} says nothing"
        );
        assert!(text.contains(&line), "`{line}` is missing in:\n{text}");
    }

    let (call, _control) = new_call(CallScope::default(), LONG);
    turn.on_event(
        &call,
        TierEvent::Rewind {
            message: "m1".to_owned(),
        },
    )
    .await
    .expect("an event");
    let request = TurnRequest {
        user_message: "why?".to_owned(),
        ..TurnRequest::default()
    };
    assert_eq!(
        turn.explain(&call, request)
            .await
            .expect("an explanation")
            .notes,
        ["why?"]
    );
    assert!(turn.health(&call).await.expect("a health").ok);
    assert_eq!(turn.stats(&call).await.expect("counters").turns, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_service_is_an_error_for_the_tier_and_no_more() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    slot.ensure(&wanted("probe", "one"), &services::broken())
        .await;
    let turn = slot.pin().expect("it serves");
    let text = say(&turn, "echo", LONG).await.expect("it answers");
    assert!(
        text.contains("pages.count: error: service failed: the host's `pages` panicked"),
        "{text}"
    );
    assert!(
        text.contains("dense.space: error: unavailable: `dense.space` was told to be away"),
        "{text}"
    );
    assert!(
        !text.contains("lexical"),
        "what was not handed out is not there:\n{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_contained_wherever_it_happens() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    slot.ensure(&wanted("probe", "one"), &services::all()).await;
    let turn = slot.pin().expect("it serves");
    for (message, told) in [
        ("panic", "told to panic in begin_turn"),
        ("panic after await", "told to panic after an await"),
    ] {
        let error = say(&turn, message, LONG).await.expect_err("it panics");
        assert_eq!(error.code(), Some(ErrorCode::PANICKED));
        let text = error.to_string();
        assert!(
            text.starts_with("plugin `probe`: `begin_turn` failed (PANICKED): panicked at "),
            "{text}"
        );
        assert!(text.ends_with(told), "{text}");
        assert_eq!(text.lines().count(), 1);
        check_serves(&slot, "one").await;
    }
    let error = say(&turn, "panic when cancelled", Duration::from_millis(50))
        .await
        .expect_err("it hangs");
    assert_eq!(error.code(), Some(ErrorCode::DEADLINE));
    check_serves(&slot, "one").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_panics_too_often_is_quarantined() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    let services = services::all();
    slot.ensure(&wanted("probe", "one"), &services).await;
    let turn = slot.pin().expect("it serves");
    for _ in 0..3 {
        say(&turn, "panic", LONG).await.expect_err("it panics");
    }
    drop(turn);
    let change = slot.ensure(&wanted("probe", "one"), &services).await;
    assert_eq!(change.outcome, Outcome::Emptied);
    let status = slot.status();
    assert_eq!((status.configured, status.serving), (Tier::V3, None));
    assert_eq!(
        status.problem.expect("it is told").to_string(),
        "plugin `probe`: this build panicked 3 times and is quarantined; install another build"
    );
    assert_eq!(slot.pin().expect_err("nothing serves"), SlotError::Empty);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_hangs_costs_its_own_turn_only() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    slot.ensure(&wanted("probe", "one"), &services::all()).await;
    let turn = slot.pin().expect("it serves");
    let short = Duration::from_millis(50);
    for message in ["never", "spin"] {
        let error = say(&turn, message, short).await.expect_err("it hangs");
        assert_eq!(
            error
                .to_string()
                .split_once(" within")
                .map(|(head, _)| head),
            Some("plugin `probe`: `begin_turn` failed (DEADLINE): no answer")
        );
    }
    // `spin` holds one of its two threads, and others are answered meanwhile.
    check_serves(&slot, "one").await;
    assert_eq!(say(&turn, "slow", LONG).await, Ok("label: one".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_nobody_waits_for_is_not_begun() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    slot.ensure(&wanted("probe", "one"), &services::all()).await;
    let turn = slot.pin().expect("it serves");
    let error = say(&turn, "panic", Duration::ZERO).await;
    assert_eq!(
        error.expect_err("nobody waits").to_string(),
        "plugin `probe`: `begin_turn` failed (CANCELLED): the caller gave up before it began"
    );
    let incidents = slot.incidents();
    let incidents = incidents.iter().flat_map(|build| &build.incidents);
    assert_eq!(incidents.count(), 0, "it was not asked");
    check_serves(&slot, "one").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_in_a_plan_is_an_error() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    slot.ensure(&wanted("probe", "one"), &services::all()).await;
    let turn = slot.pin().expect("it serves");
    let error = say(&turn, "wrong blocks", LONG)
        .await
        .expect_err("it is nonsense");
    assert_eq!(
        error.to_string(),
        "plugin `probe`: `begin_turn` failed (INTERNAL): block `probe` has tag `</memory>`, which is none of ours"
    );
    let error = say(&turn, "fail", LONG).await.expect_err("told to fail");
    assert_eq!(
        error.to_string(),
        "plugin `probe`: `begin_turn` failed (INTERNAL): told to fail"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newcomer_that_does_not_come_up_changes_nothing() {
    let folder = Folder::with_probe();
    let host = folder.host();
    let cases = [
        (
            r#"{"windw":1}"#,
            "plugin `probe`: create failed (BAD_CONFIG): unknown field `windw`",
        ),
        (
            r#"{"panic_in_create":true}"#,
            "plugin `probe`: create failed (PANICKED): panicked at ",
        ),
        (
            r#"{"create_ms":2000}"#,
            "plugin `probe`: create did not finish within 1000 ms",
        ),
        (
            r#"{"unhealthy":true,"label":"ill"}"#,
            "plugin `probe`: health check failed: ill",
        ),
        (
            r#"{"health_hangs":true}"#,
            "plugin `probe`: health check timed out after 250 ms",
        ),
    ];
    for (config, expected) in cases {
        let slot = host.slot("ada");
        slot.ensure(&wanted("probe", "good"), &services::all())
            .await;
        let bad = Wanted {
            config: config.to_owned(),
            digest: config.to_owned(),
            ..wanted("probe", "")
        };
        let change = slot.ensure(&bad, &services::all()).await;
        assert_eq!(change.outcome, Outcome::KeptPrevious, "{config}");
        let problem = slot.status().problem.expect("it is told").to_string();
        assert!(problem.starts_with(expected), "{problem}");
        assert_eq!(problem.lines().count(), 1, "{problem}");
        check_serves(&slot, "good").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tier_never_stands_in() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    let services = services::all();
    slot.ensure(&wanted("probe", "one"), &services).await;
    let other = Wanted {
        tier: Tier::V2,
        plugin: "probe".to_owned(),
        ..wanted("probe", "two")
    };
    let change = slot.ensure(&other, &services).await;
    assert_eq!(change.outcome, Outcome::Emptied);
    let status = slot.status();
    assert_eq!((status.configured, status.serving), (Tier::V2, None));
    assert_eq!(
        status.problem.expect("it is told").to_string(),
        "plugin `probe`: it serves tier `v3`, not `v2`; correct `[plugins]`"
    );

    assert_eq!(
        slot.ensure(&wanted("probe", "one"), &services)
            .await
            .outcome,
        Outcome::Switched
    );
    assert_eq!(
        slot.ensure(&Wanted::off(), &services).await.outcome,
        Outcome::Emptied
    );
    let status = slot.status();
    assert_eq!(
        (status.configured, status.serving, status.problem),
        (Tier::Off, None, None)
    );
    assert_eq!(
        slot.ensure(&Wanted::off(), &services).await.outcome,
        Outcome::Unchanged
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_committed_where_it_was_begun() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    let services = services::all();
    slot.ensure(&wanted("probe", "old"), &services).await;
    let old = slot.pin().expect("it serves");
    let change = slot.ensure(&wanted("probe", "new"), &services).await;
    assert_eq!(change.outcome, Outcome::Switched);
    check_serves(&slot, "new").await;

    let (call, _control) = new_call(CallScope::default(), LONG);
    let token = CommitToken("old/1".to_owned());
    old.commit(&call, token.clone(), "m1".to_owned())
        .await
        .expect("the old instance knows its token");
    let new = slot.pin().expect("it serves");
    let refused = new
        .commit(&call, token.clone(), "m1".to_owned())
        .await
        .expect_err("the new one does not");
    assert_eq!(refused.code(), Some(ErrorCode::INTERNAL));

    // The turn outlives the drain: the waiting ends, the instance does not.
    let drained = change
        .drain
        .expect("the old one is drained")
        .await
        .expect("the drain ends");
    assert_eq!(drained.abandoned, 1);
    old.discard(&call, token)
        .await
        .expect("the old instance is still there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_still_run_are_told_to_stop_when_the_drain_ends() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    let services = services::all();
    slot.ensure(&wanted("probe", "old"), &services).await;
    let turn = slot.pin().expect("it serves");
    let running = tokio::spawn(async move { say(&turn, "until cancelled", LONG).await });
    // Once the instance has begun it, the swap must wait for it.
    let counter = slot.pin().expect("it serves");
    let (call, _control) = new_call(CallScope::default(), LONG);
    while counter.stats(&call).await.expect("counters").turns == 0 {}
    drop(counter);
    let change = slot.ensure(&wanted("probe", "new"), &services).await;
    let drained = change
        .drain
        .expect("the old one is drained")
        .await
        .expect("the drain ends");
    assert_eq!(drained.abandoned, 0);
    assert_eq!(
        running
            .await
            .expect("it ends")
            .expect_err("it was told to")
            .code(),
        Some(ErrorCode::CANCELLED)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_an_instance_may_panic_too() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    let services = services::all();
    let config = r#"{"label":"bomb","panic_in_drop":true}"#;
    let bomb = Wanted {
        config: config.to_owned(),
        digest: config.to_owned(),
        ..wanted("probe", "")
    };
    slot.ensure(&bomb, &services).await;
    check_serves(&slot, "bomb").await;
    let change = slot.ensure(&wanted("probe", "next"), &services).await;
    change
        .drain
        .expect("the old one is drained")
        .await
        .expect("the drain ends");
    check_serves(&slot, "next").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_instances_are_swapped() {
    let folder = Folder::with_probe();
    let slot = Arc::new(folder.host().slot("ada"));
    let services = services::all();
    slot.ensure(&wanted("probe", "0"), &services).await;
    let (stop, served) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let callers: Vec<_> = (0..16)
        .map(|_| {
            let (slot, stop, served) = (Arc::clone(&slot), Arc::clone(&stop), Arc::clone(&served));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let turn = slot.pin().expect("something always serves");
                    let text = say(&turn, "hello", LONG).await.expect("no call fails");
                    let label = text.trim_start_matches("label: ").to_owned();
                    let (call, _control) = new_call(CallScope::default(), LONG);
                    turn.commit(&call, CommitToken(format!("{label}/1")), "m".to_owned())
                        .await
                        .expect("no commit fails");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 1..=10 {
        let before = served.load(Ordering::Relaxed);
        let change = slot
            .ensure(&wanted("probe", &round.to_string()), &services)
            .await;
        assert_eq!(change.outcome, Outcome::Switched);
        let drained = change
            .drain
            .expect("the old one is drained")
            .await
            .expect("the drain ends");
        assert_eq!(drained.abandoned, 0, "round {round}");
        while served.load(Ordering::Relaxed) < before + 16 {
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.expect("no call failed");
    }
    assert_eq!(
        slot.status().serving.map(|serving| serving.generation),
        Some(11)
    );
    assert_eq!(
        folder.host().builds().len(),
        1,
        "eleven instances, one library"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugins_are_verified_without_running_them() {
    let folder = Folder::with_probe();
    folder.add_library_untrusted("stranger", b"anything");
    let found = folder.host().verify().expect("the folder is readable");
    let told: Vec<_> = found
        .into_iter()
        .map(|plugin| plugin.expect("a good manifest"))
        .map(|plugin| (plugin.candidate.sidecar.id, plugin.result.is_ok()))
        .collect();
    assert_eq!(
        told,
        [("probe".to_owned(), true), ("stranger".to_owned(), false)]
    );
    assert_eq!(folder.host().builds().len(), 0);
}
