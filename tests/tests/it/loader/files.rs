//! What happens to the files of a plugin while it is loaded is of no matter to what runs.

use std::path::Path;
use std::sync::Arc;

use plugin_host::{Outcome, PinnedTurn};
use tokio::task::JoinHandle;

use super::fixture::{Folder, wanted};
use super::{LONG, check_serves, say, services};

/// Starts turns that are waiting inside of the plugin when this returns.
async fn in_flight(turn: &Arc<PinnedTurn>) -> Vec<JoinHandle<String>> {
    let turns = (0..8)
        .map(|_| {
            let turn = Arc::clone(turn);
            tokio::spawn(async move { say(&turn, "slow", LONG).await.expect("it is answered") })
        })
        .collect();
    let (call, _control) = plugin_host::new_call(memory_core::services::CallScope::default(), LONG);
    while turn.stats(&call).await.expect("counters").turns < 8 {}
    turns
}

/// Does something to the library while turns run, and checks that they and later ones are answered all the same.
async fn check_unharmed(harm: impl FnOnce(&Path)) {
    let folder = Folder::with_probe();
    let (slot, services) = (folder.host().slot("ada"), services::all());
    slot.ensure(&wanted("probe", "one"), &services).await;
    let turn = Arc::new(slot.pin().expect("it serves"));
    let running = in_flight(&turn).await;
    harm(&folder.library("probe"));
    for turn in running {
        assert_eq!(turn.await.expect("it ends"), "label: one");
    }
    // Code that has not run yet is read from the library now.
    let text = say(&turn, "echo", LONG).await.expect("it is answered");
    assert!(text.contains("pages.count"), "{text}");
    say(&turn, "panic", LONG)
        .await
        .expect_err("unwinding works too");
    check_serves(&slot, "one").await;

    // A wish that needs the file is refused, and what serves goes on.
    let change = slot.ensure(&wanted("probe", "two"), &services).await;
    assert_eq!(change.outcome, Outcome::KeptPrevious);
    assert!(slot.status().problem.is_some());
    check_serves(&slot, "one").await;

    // With the file back, the wish is fulfilled by the build that is loaded.
    folder.add_test_plugin("probe");
    let change = slot.reload(&wanted("probe", "two"), &services).await;
    assert_eq!(
        change.outcome,
        Outcome::Switched,
        "{:?}",
        slot.status().problem
    );
    assert_eq!(folder.host().builds().len(), 1);
    check_serves(&slot, "two").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_that_is_replaced_by_another_file_harms_nothing() {
    check_unharmed(|library| {
        let other = library.with_extension("other");
        std::fs::write(&other, "something else").expect("written");
        std::fs::rename(&other, library).expect("renamed");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_that_is_cut_short_in_place_harms_nothing() {
    check_unharmed(|library| {
        let file = std::fs::File::options()
            .write(true)
            .open(library)
            .expect("opened");
        file.set_len(0).expect("cut");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_that_is_overwritten_in_place_harms_nothing() {
    check_unharmed(|library| {
        let length = std::fs::metadata(library).expect("there").len();
        let nothing = vec![0; usize::try_from(length).expect("it is small")];
        let mut file = std::fs::File::options()
            .write(true)
            .open(library)
            .expect("opened");
        std::io::Write::write_all(&mut file, &nothing).expect("written");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_that_is_deleted_harms_nothing() {
    check_unharmed(|library| std::fs::remove_file(library).expect("removed")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_copy_that_is_deleted_is_made_again() {
    let folder = Folder::with_probe();
    let (slot, services) = (folder.host().slot("ada"), services::all());
    slot.ensure(&wanted("probe", "one"), &services).await;
    std::fs::remove_dir_all(folder.staging()).expect("removed");
    check_serves(&slot, "one").await;
    let change = slot.ensure(&wanted("probe", "two"), &services).await;
    assert_eq!(change.outcome, Outcome::Switched);
    check_serves(&slot, "two").await;
    // Another build needs the store.
    let sha256 = folder.rebuild_probe();
    let change = slot.reload(&wanted("probe", "three"), &services).await;
    assert_eq!(change.outcome, Outcome::Switched);
    assert!(folder.staging().join(format!("{sha256}.so")).is_file());
    check_serves(&slot, "three").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_build_that_is_installed_over_the_old_one_serves_after_a_reload() {
    let folder = Folder::with_probe();
    let (slot, services) = (folder.host().slot("ada"), services::all());
    slot.ensure(&wanted("probe", "one"), &services).await;
    let old = Arc::new(slot.pin().expect("it serves"));
    let running = in_flight(&old).await;
    let newer = folder.rebuild_probe();
    let change = slot.ensure(&wanted("probe", "one"), &services).await;
    assert_eq!(
        change.outcome,
        Outcome::Unchanged,
        "nobody has asked for it"
    );
    let change = slot.reload(&wanted("probe", "one"), &services).await;
    assert_eq!(change.outcome, Outcome::Switched);
    assert_eq!(
        slot.status().serving.map(|serving| serving.sha256),
        Some(newer)
    );
    for turn in running {
        assert_eq!(turn.await.expect("it ends"), "label: one");
    }
    check_serves(&slot, "one").await;
    drop(old);
    assert_eq!(
        change
            .drain
            .expect("a drain")
            .await
            .expect("it ends")
            .abandoned,
        0
    );
}
