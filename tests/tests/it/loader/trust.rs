//! Trust: what is listed, what is signed, and what is not any more.

use plugin_host::{LoadError, Outcome, SigningKey, Slot, Trust};

use super::fixture::{Folder, wanted, wanted_other};
use super::{check_serves, services};

/// Returns a folder with a probe that only a signature can make trusted.
fn signed_with(key: &SigningKey) -> Folder {
    let folder = Folder::with_probe();
    folder.trust_nothing();
    folder.sign("probe", key);
    folder
}

fn key() -> SigningKey {
    SigningKey::generate().expect("random numbers")
}

async fn refusal(folder: &Folder) -> String {
    let slot = folder.host().slot("ada");
    let change = slot.ensure(&wanted("probe", "one"), &services::all()).await;
    assert_eq!(change.outcome, Outcome::Emptied);
    let problem = slot.status().problem.expect("it is told");
    assert_eq!(problem.to_string().lines().count(), 1, "{problem}");
    problem.to_string()
}

async fn check_trusted(folder: &Folder) -> Slot {
    let slot = folder.host().slot("ada");
    let change = slot.ensure(&wanted("probe", "one"), &services::all()).await;
    assert_eq!(
        change.outcome,
        Outcome::Switched,
        "{:?}",
        slot.status().problem
    );
    check_serves(&slot, "one").await;
    slot
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_that_a_listed_key_signed_is_trusted() {
    let key = key();
    let folder = signed_with(&key);
    folder.trust_key("release", key.public(), None);
    check_trusted(&folder).await;
    let by = Trust::Key {
        id: "release".to_owned(),
        key: key.public().to_string(),
    };
    assert_eq!(folder.host().builds()[0].trust(), by);
    let verified = folder.host().verify().expect("readable");
    assert_eq!(
        verified[0].as_ref().expect("a good manifest").trust,
        Some(by)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signature_counts_for_nothing_while_no_key_is_listed() {
    let folder = signed_with(&key());
    let text = refusal(&folder).await;
    assert!(text.contains("is not on the allow-list"), "{text}");

    let folder = Folder::with_probe();
    std::fs::write(folder.signature("probe"), "nonsense").expect("written");
    check_trusted(&folder).await;
    assert_eq!(folder.host().builds()[0].trust(), Trust::Hash);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_key_is_told_from_a_changed_manifest() {
    let (listed, other) = (key(), key());
    let folder = signed_with(&other);
    folder.trust_key("release", listed.public(), None);
    let expected = format!(
        "plugin `probe`: it is signed with key {}, which is not listed; if you trust its owner, run `strata plugins trust --key`",
        other.public()
    );
    assert_eq!(refusal(&folder).await, expected);

    let folder = signed_with(&listed);
    folder.trust_key("release", listed.public(), None);
    folder.edit_manifest("probe", |text| format!("{text}\n"));
    assert_eq!(
        refusal(&folder).await,
        "plugin `probe`: its manifest was changed after it was signed; install it again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_signature_refuses_a_plugin_whose_hash_is_listed() {
    let key = key();
    let folder = Folder::with_probe();
    folder.sign("probe", &key);
    folder.trust_key("release", key.public(), None);
    let text = std::fs::read_to_string(folder.signature("probe")).expect("read");
    std::fs::write(folder.signature("probe"), &text[..100]).expect("written");
    assert_eq!(
        refusal(&folder).await,
        "plugin `probe`: its signature has 100 characters where 128 hexadecimal digits belong; sign it again"
    );
    // Without any signature the hash is enough.
    std::fs::remove_file(folder.signature("probe")).expect("removed");
    check_trusted(&folder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_that_a_signed_manifest_does_not_speak_of_is_refused() {
    let key = key();
    let folder = signed_with(&key);
    folder.trust_key("release", key.public(), None);
    let mut bytes = std::fs::read(folder.library("probe")).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(folder.library("probe"), bytes).expect("written");
    let text = refusal(&folder).await;
    assert!(text.contains("is not the one in its manifest"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_trusted_for_its_plugins_only() {
    let key = key();
    let folder = signed_with(&key);
    folder.trust_key("their-team", key.public(), Some(vec!["another".to_owned()]));
    assert_eq!(
        refusal(&folder).await,
        "plugin `probe`: key `their-team`, which signed it, is not trusted for this plugin"
    );
    folder.trust_key("their-team", key.public(), Some(vec!["probe".to_owned()]));
    check_trusted(&folder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_that_is_not_trusted_any_more_does_not_come_back() {
    let folder = Folder::with_probe();
    folder.add_other();
    let slot = folder.host().slot("ada");
    let services = services::all();
    slot.ensure(&wanted("probe", "one"), &services).await;
    slot.ensure(&wanted_other(), &services).await;
    folder.trust_nothing();
    let change = slot.ensure(&wanted("probe", "two"), &services).await;
    assert_eq!(change.outcome, Outcome::Emptied);
    let status = slot.status();
    assert_eq!(status.serving, None);
    let problem = status.problem.expect("it is told");
    assert!(
        matches!(&*problem, LoadError::NotAllowed { .. }),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_that_is_not_trusted_any_more_does_not_stay_after_a_reload() {
    let key = key();
    let folder = signed_with(&key);
    folder.trust_key("release", key.public(), None);
    let slot = check_trusted(&folder).await;
    folder.trust_nothing();
    let services = services::all();
    assert_eq!(
        slot.ensure(&wanted("probe", "one"), &services)
            .await
            .outcome,
        Outcome::Unchanged,
        "what serves is not looked at again at every turn"
    );
    let change = slot.reload(&wanted("probe", "one"), &services).await;
    assert_eq!(change.outcome, Outcome::Emptied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_allow_file_takes_nothing_from_another() {
    let folder = Folder::with_probe();
    std::fs::write(folder.other_allow_file(), "allow = nothing").expect("written");
    let slot = check_trusted(&folder).await;
    let [warning] = slot.status().warnings.try_into().expect("one warning");
    let warning: String = warning;
    assert!(
        warning.starts_with("allow-list `") && warning.contains("not TOML"),
        "{warning}"
    );
    assert!(folder.host().allow_list().is_ok());

    // What only the broken one could trust is refused for that reason, and what serves stays.
    folder.trust_nothing();
    let change = slot.reload(&wanted("probe", "one"), &services::all()).await;
    assert_eq!(change.outcome, Outcome::KeptPrevious);
    let problem = slot.status().problem.expect("it is told");
    assert!(
        matches!(&*problem, LoadError::AllowList { .. }),
        "{problem}"
    );
    check_serves(&slot, "one").await;

    std::fs::write(folder.allow_file(), "allow = nothing").expect("written");
    assert!(folder.host().allow_list().is_err(), "none can be read");
    std::fs::remove_file(folder.other_allow_file()).expect("removed");
    folder.trust_nothing();
    folder.host().trusted();
    assert_eq!(folder.host().warnings(), Vec::<String>::new());
}
