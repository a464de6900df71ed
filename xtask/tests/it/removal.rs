//! `boundary-check --without` removes a tier and finds whatever still needs it.
//!
//! A planted tier is removed, so that these hold whichever tiers the workspace has.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use crate::workspace::{PLANTED, REGISTRY, Workspace};

/// A workspace with a tier that is older than all others, and so can be removed.
fn planted() -> Workspace {
    let workspace = Workspace::copy();
    workspace.plant_tier(PLANTED);
    workspace.plant_row(PLANTED);
    workspace
}

fn remove(workspace: &Workspace, tier: &str) -> Output {
    workspace.track();
    workspace.xtask(&["boundary-check", "--without", tier, "--edges"])
}

fn text(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr];
    streams
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}

fn copy(workspace: &Workspace, without: &str) -> PathBuf {
    workspace.root().join("target/without").join(without)
}

#[test]
fn folder_and_row_are_all_there_is_to_remove() {
    let workspace = planted();
    let output = remove(&workspace, PLANTED);
    assert!(output.status.success(), "{}", text(&output));
    let copy = copy(&workspace, PLANTED);
    assert!(!copy.join(PLANTED).exists() && copy.join("tier-v3").is_dir());
    let before = fs::read_to_string(workspace.root().join(REGISTRY)).expect("read");
    let after = fs::read_to_string(copy.join(REGISTRY)).expect("read");
    let gone: Vec<&str> = before
        .lines()
        .filter(|line| !after.contains(line))
        .collect();
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert!(gone[0].contains(PLANTED));

    // What was deleted since is deleted from the copy too.
    let stale = copy.join("strata/src/stale.rs");
    fs::write(&stale, "//! Gone.\n").expect("write");
    assert!(remove(&workspace, PLANTED).status.success());
    assert!(!stale.exists());
}

#[test]
fn whatever_still_names_a_removed_tier_is_found() {
    let workspace = planted();
    workspace.append(
        "strata/src/lib.rs",
        &format!("const LEFT: &str = \"{PLANTED}\";"),
    );
    let output = remove(&workspace, PLANTED);
    let report = text(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    let expected = format!("names `{PLANTED}`\n    reason: a tier is removed by deleting");
    assert!(report.contains(&expected), "{report}");
    // It is found before the day of the removal too.
    let output = workspace.xtask(&["boundary-check"]);
    assert!(text(&output).contains(&expected), "{}", text(&output));
}

#[test]
fn whatever_still_depends_on_a_removed_tier_is_found() {
    let workspace = planted();
    let tier = crate::workspace::path_dependency(&PathBuf::from("..").join(PLANTED));
    workspace.depend("tests", "dependencies", PLANTED, tier);
    let output = remove(&workspace, PLANTED);
    let report = text(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(report.contains(PLANTED), "{report}");
}

#[test]
fn all_that_can_be_removed_are_removed_together() {
    let workspace = planted();
    let output = remove(&workspace, "both");
    assert!(output.status.success(), "{}", text(&output));
    let copy = copy(&workspace, "both");
    let tiers = fs::read_dir(&copy).expect("list the copy").filter(|entry| {
        let name = entry.as_ref().expect("an entry").file_name();
        name.to_string_lossy().starts_with("tier-")
    });
    assert_eq!(tiers.count(), 1, "the newest stays");
}

#[test]
fn only_a_tier_that_is_not_the_newest_can_be_removed() {
    let workspace = planted();
    for tier in ["tier-v3", "tier-none"] {
        let output = remove(&workspace, tier);
        assert_eq!(output.status.code(), Some(1));
        let complaint = format!("`{tier}` cannot be removed; what can be: {PLANTED}");
        assert!(text(&output).contains(&complaint), "{}", text(&output));
    }
    let output = workspace.xtask(&["boundary-check", "--edges"]);
    assert_eq!(output.status.code(), Some(2));
}
