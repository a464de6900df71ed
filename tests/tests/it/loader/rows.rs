//! The rows of the loader table in `docs/abi.md` that no other test triggers, with their exact words.

use std::error::Error as _;
use std::sync::Arc;

use memory_core::services::Services;
use plugin_host::{LoadError, Outcome, Slot, Wanted};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::child;

use super::fixture::{Folder, make_unreadable, wanted};
use super::{check_refused, check_serves, services};

/// Asks for something that cannot be had, and returns what is said.
async fn refusal(slot: &Slot, wanted: &Wanted, services: &Services) -> Arc<LoadError> {
    let change = slot.ensure(wanted, services).await;
    assert_eq!(change.outcome, Outcome::Emptied);
    slot.status().problem.expect("it is told")
}

/// Puts the library of a changed test plugin in the place of `probe`, and returns what is said of it.
async fn refusal_of(name: &str) -> Arc<LoadError> {
    let folder = Folder::new();
    folder.add_test_plugin_as(name, "probe");
    let slot = folder.host().slot("ada");
    refusal(&slot, &wanted("probe", "bad"), &services::all()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_1_a_manifest_that_is_no_small_file_is_refused() {
    let folder = Folder::new();
    std::fs::create_dir(folder.manifest("odd")).expect("made");
    let problem = check_refused(&folder, "odd", &services::all()).await;
    assert_eq!(
        problem.to_string(),
        "plugin manifest `odd.plugin.toml`: it is a folder, not a file"
    );

    let folder = Folder::new();
    let file = std::fs::File::create(folder.manifest("odd")).expect("made");
    file.set_len(1 << 40).expect("made");
    let problem = check_refused(&folder, "odd", &services::all()).await;
    assert_eq!(
        problem.to_string(),
        "plugin manifest `odd.plugin.toml`: it has 1099511627776 bytes, more than the 65536 it may have"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_2_a_library_that_is_no_file_is_refused_without_waiting_for_it() {
    let folder = Folder::new();
    let library = folder.add_test_plugin_as("probe", "piped");
    std::fs::remove_file(&library).expect("removed");
    let made = std::process::Command::new("mkfifo").arg(&library).status();
    assert!(made.expect("mkfifo is there").success());
    let problem = check_refused(&folder, "piped", &services::all()).await;
    assert_eq!(
        problem.to_string(),
        "plugin `piped`: the library `piped.so` is a pipe, not a file"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_3_a_store_that_cannot_be_written_is_told() {
    let folder = Folder::with_probe();
    std::fs::write(folder.staging(), "a file where a folder belongs").expect("written");
    let slot = folder.host().slot("ada");
    let problem = refusal(&slot, &wanted("probe", "one"), &services::all()).await;
    let expected = format!(
        "plugin `probe`: cannot stage the library in `{}`",
        folder.staging().display()
    );
    assert_eq!(problem.to_string(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_4_a_process_loads_so_many_builds_and_no_more() {
    let folder = Folder::with_probe();
    let host = folder.host_with(|limits| limits.builds = 1);
    let (slot, services) = (host.slot("ada"), services::all());
    slot.ensure(&wanted("probe", "one"), &services).await;
    folder.rebuild_probe();
    let change = slot.reload(&wanted("probe", "one"), &services).await;
    assert_eq!(change.outcome, Outcome::KeptPrevious);
    assert_eq!(
        slot.status().problem.expect("it is told").to_string(),
        "plugin `probe`: 1 different builds are loaded already, and none is ever unloaded; restart the host"
    );
    check_serves(&slot, "one").await;

    // The build that is loaded costs nothing more.
    folder.add_test_plugin("probe");
    let change = slot.reload(&wanted("probe", "two"), &services).await;
    assert_eq!(change.outcome, Outcome::Switched);
    assert_eq!(host.builds().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_6_another_border_library_is_refused_by_its_version() {
    let folder = Folder::new();
    folder.add_test_plugin("probe");
    // The header begins with a text and the two numbers of the version; the last is the one to change.
    folder.change_library("probe", |bytes| {
        let magic = b"abi stable library for Rust";
        let found: Vec<_> = (0..bytes.len() - 40)
            .filter(|at| {
                bytes[*at..].starts_with(magic)
                    && bytes[at + 32..at + 40] == [0, 0, 0, 0, 11, 0, 0, 0]
            })
            .collect();
        assert_eq!(found.len(), 1, "the header is in the library once");
        bytes[found[0] + 36] = 10;
    });
    let slot = folder.host().slot("ada");
    let problem = refusal(&slot, &wanted("probe", "old"), &services::all()).await;
    assert_eq!(
        problem.to_string(),
        "plugin `probe`: built with `abi_stable` 0.10, the host uses 0.11"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_9_a_root_module_that_cannot_be_made_is_told() {
    let problem = refusal_of("failing-root").await;
    assert_eq!(
        problem.to_string(),
        "plugin `probe`: root module failed: its constructor panicked"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_10_a_library_whose_panics_abort_is_refused() {
    let problem = refusal_of("aborting").await;
    assert_eq!(
        problem.to_string(),
        "plugin `probe`: it was built with panic strategy `abort`; build it with `unwind`"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_11_a_library_that_cannot_prepare_itself_is_told() {
    let problem = refusal_of("failing-init").await;
    assert_eq!(
        problem.to_string(),
        "plugin `probe`: init failed (UNAVAILABLE): told to fail in init"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_1_a_folder_that_cannot_be_read_is_told() {
    let folder = Folder::new();
    std::fs::remove_dir(folder.plugins()).expect("it is empty");
    std::fs::write(folder.plugins(), "a file where a folder belongs").expect("written");
    let slot = folder.host().slot("ada");
    let problem = refusal(&slot, &wanted("probe", "one"), &services::all()).await;
    let expected = format!(
        "plugin folder `{}` cannot be read",
        folder.plugins().display()
    );
    assert_eq!(problem.to_string(), expected);
    assert!(problem.source().is_some(), "the system's word is its cause");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_1_a_manifest_that_cannot_be_read_is_told() {
    let folder = Folder::new();
    std::os::unix::fs::symlink("nowhere", folder.manifest("lost")).expect("linked");
    let problem = check_refused(&folder, "lost", &services::all()).await;
    assert_eq!(
        problem.to_string(),
        "plugin manifest `lost.plugin.toml` cannot be read"
    );
    assert!(problem.source().is_some(), "the system's word is its cause");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_2_a_library_that_cannot_be_read_is_told() {
    let folder = Folder::new();
    let library = folder.add_test_plugin_as("probe", "gone");
    std::fs::remove_file(&library).expect("removed");
    let problem = check_refused(&folder, "gone", &services::all()).await;
    assert_eq!(
        problem.to_string(),
        "plugin `gone`: cannot read the library `gone.so`"
    );
    assert!(problem.source().is_some(), "the system's word is its cause");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_2_an_allow_file_that_cannot_be_read_is_told() {
    let folder = Folder::with_probe();
    make_unreadable(&folder.allow_file());
    let slot = folder.host().slot("ada");
    let problem = refusal(&slot, &wanted("probe", "one"), &services::all()).await;
    assert!(
        matches!(&*problem, LoadError::ReadAllowList { .. }),
        "{problem}"
    );
    let expected = format!(
        "allow-list `{}` cannot be read",
        folder.allow_file().display()
    );
    assert_eq!(problem.to_string(), expected);
    assert!(problem.source().is_some(), "the system's word is its cause");
}

/// Makes a build good, takes its trust away, asks for it again, and returns what is logged of it.
///
/// On a runtime of one thread everything is logged on this one.
async fn logged_without(trust: impl FnOnce(&Folder)) -> String {
    let folder = Folder::with_probe();
    let (slot, services) = (folder.host().slot("ada"), services::all());
    slot.ensure(&wanted("probe", "one"), &services).await;
    slot.ensure(&Wanted::off(), &services).await;
    trust(&folder);
    let log = folder.staging().with_extension("log");
    let file = std::fs::File::create(&log).expect("made");
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(Arc::new(file));
    let logging = subscriber.set_default();
    refusal(&slot, &wanted("probe", "two"), &services).await;
    drop(logging);
    let log = std::fs::read_to_string(&log).expect("read");
    let told = log
        .lines()
        .find(|line| line.contains("a good build cannot stand in"));
    told.unwrap_or_else(|| panic!("nothing is told of the good build:\n{log}"))
        .to_owned()
}

#[tokio::test]
async fn a_good_build_that_is_not_trusted_any_more_is_told_from_a_list_that_cannot_be_read() {
    let told = logged_without(Folder::trust_nothing).await;
    assert!(
        told.contains("is loaded, but not trusted any more"),
        "{told}"
    );
    let told = logged_without(|folder| make_unreadable(&folder.allow_file())).await;
    assert!(
        told.contains("plugins.allow.toml` cannot be read"),
        "{told}"
    );
}

#[test]
fn a_host_whose_threads_cannot_be_started_says_so() {
    // No address space has room for a thread's stack then.
    let stack = (1_u64 << 47).to_string();
    child::run(
        "loader::rows::without_threads",
        &[("RUST_MIN_STACK", &stack)],
    );
}

#[tokio::test]
#[ignore = "in a process of its own, where no thread can be started"]
async fn without_threads() {
    let folder = Folder::with_probe();
    let slot = folder.host().slot("ada");
    let problem = refusal(&slot, &wanted("probe", "one"), &services::all()).await;
    assert!(matches!(&*problem, LoadError::Threads { .. }), "{problem}");
    assert_eq!(
        problem.to_string(),
        "plugin `probe`: its threads cannot be started"
    );
    assert!(problem.source().is_some(), "the system's word is its cause");
}
