//! `boundary-check` fails on each planted breach, with the offending path and the reason.

use std::fs;
use std::process::Output;

use crate::workspace::{PLANTED, Workspace, inherited, path_dependency};

/// Asserts that the check failed and that one finding holds each of `parts`, and returns the whole report.
#[track_caller]
fn check_finding(output: &Output, parts: &[&str]) -> String {
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        output.status.code(),
        Some(1),
        "{report}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let found = report
        .split("boundary: ")
        .any(|finding| parts.iter().all(|part| finding.contains(part)));
    assert!(found, "no finding holds all of {parts:?} in\n{report}");
    report
}

#[test]
fn tier_that_uses_a_tier() {
    let workspace = Workspace::copy();
    let tier = workspace.root().join("tier-v3");
    workspace.plant_tier(PLANTED);
    workspace.depend(PLANTED, "dependencies", "tier-v3", path_dependency(&tier));
    check_finding(
        &workspace.xtask(&["boundary-check"]),
        &[
            &format!("{PLANTED} -> tier-v3\n"),
            &format!("{PLANTED}/Cargo.toml has this dependency"),
            "reason: a tier sees the world through memory-core alone",
        ],
    );
}

#[test]
fn tier_that_uses_the_substrate() {
    let workspace = Workspace::copy();
    workspace.depend("tier-v3", "dependencies", "memory-substrate", inherited());
    let output = workspace.xtask(&["boundary-check"]);
    check_finding(
        &output,
        &[
            "tier-v3 -> memory-substrate\n",
            "reason: a tier sees the world through memory-core alone",
        ],
    );
    // What the edge drags in is named too, with the way it comes.
    check_finding(
        &output,
        &[
            "tier-v3 -> memory-substrate -> lancedb ",
            "reason: storage lives in memory-substrate",
        ],
    );
}

#[test]
fn test_crate_that_links_a_tier() {
    let workspace = Workspace::copy();
    let tier = workspace.root().join("tier-v3");
    workspace.depend(
        "tests",
        "dev-dependencies",
        "tier-v3",
        path_dependency(&tier),
    );
    check_finding(
        &workspace.xtask(&["boundary-check"]),
        &[
            "tests -> tier-v3\n",
            "dev-dependency",
            "reason: tests load tiers through the real loader",
        ],
    );
}

#[test]
fn runtime_deep_in_a_tiers_graph() {
    let workspace = Workspace::copy();
    let inner = workspace.outsider("inner-helper", "tokio = \"1\"");
    let outer = workspace.outsider(
        "outer-helper",
        &format!("inner-helper = {{ path = {inner:?} }}"),
    );
    workspace.depend(
        "memory-core",
        "dependencies",
        "outer-helper",
        path_dependency(&outer),
    );
    check_finding(
        &workspace.xtask(&["boundary-check"]),
        &[
            "tier-v3 -> memory-core -> outer-helper 0.4.2 -> inner-helper 0.4.2 -> tokio 1.",
            "tier-v3 must not reach `tokio`",
            "reason: a second runtime inside a plugin has no reactor",
        ],
    );
}

#[test]
fn border_crate_named_by_the_loader() {
    let workspace = Workspace::copy();
    workspace.depend("plugin-host", "dependencies", "abi_stable", inherited());
    check_finding(
        &workspace.xtask(&["boundary-check"]),
        &[
            "plugin-host -> abi_stable\n",
            "only `memory-core` may have",
            "reason: the border is one module, `memory_core::abi`",
        ],
    );
}

#[test]
fn raw_key_read_in_the_facade() {
    let workspace = Workspace::copy();
    // Put together here, so that this file does not contain what the check looks for.
    let text = "fn raw(config: &Config) -> bool {\n    config.memory.SECTION.live == Some(true)\n}"
        .replace("SECTION", "v3");
    workspace.append("strata/src/lib.rs", &text);
    let source = fs::read_to_string(workspace.root().join("strata/src/lib.rs")).expect("read");
    let line = source
        .lines()
        .position(|line| line.contains("== Some(true)"))
        .expect("the planted line")
        + 1;
    check_finding(
        &workspace.xtask(&["boundary-check"]),
        &[
            &format!("strata/src/lib.rs:{line}\n"),
            &"reads the raw key `memory.SECTION.live`".replace("SECTION", "v3"),
            "reason: tier and tuning keys are read by memory_core::predicates",
        ],
    );
}

#[test]
fn allowed_edge_that_nothing_needs() {
    let workspace = Workspace::copy();
    workspace.edit_manifest("plugin-host", |manifest| {
        manifest["dependencies"]
            .as_table_mut()
            .expect("dependencies")
            .remove("memory-core");
    });
    check_finding(
        &workspace.xtask(&["boundary-check"]),
        &[
            "plugin-host -> memory-core\n",
            "is an allowed edge that no manifest has",
            "reason: the table is frozen",
        ],
    );
}

#[test]
fn exemption_that_nothing_needs() {
    let workspace = Workspace::copy();
    let exempt = "strata/tests/it/settings.rs";
    fs::write(workspace.root().join(exempt), "//! Nothing.\n").expect("write");
    check_finding(
        &workspace.xtask(&["boundary-check"]),
        &[
            &format!("{exempt}\n"),
            "but has nothing to exempt",
            "reason: exemptions are frozen",
        ],
    );
}

#[test]
fn crate_without_a_row() {
    let workspace = Workspace::copy();
    let manifest = "[package]\nname = \"tier\"\nedition = \"2024\"\n";
    fs::create_dir_all(workspace.root().join("tier-new/src")).expect("create");
    fs::write(workspace.root().join("tier-new/Cargo.toml"), manifest).expect("write");
    fs::write(
        workspace.root().join("tier-new/src/lib.rs"),
        "//! Nothing.\n",
    )
    .expect("write");
    check_finding(
        &workspace.xtask(&["boundary-check"]),
        &["`tier`", "without a row in the crate table"],
    );
}

#[test]
fn tier_without_a_row() {
    let workspace = Workspace::copy();
    workspace.plant_tier(PLANTED);
    check_finding(
        &workspace.xtask(&["boundary-check"]),
        &[
            &format!("`{PLANTED}`\n"),
            "is a tier without a row in `memory-core/src/predicates/registry.rs`",
            "reason: a tier is removed by deleting its folder and its row",
        ],
    );
}

/// The compiler stands in for a tier whose author exported a function by hand.
#[cfg(target_os = "linux")]
#[test]
fn plugin_that_exports_two_symbols() {
    let workspace = Workspace::copy();
    let plugins = workspace.root().join("target/plugins");
    fs::create_dir_all(&plugins).expect("create");
    let source = plugins.join("two.c");
    fs::write(
        &source,
        "int root(void) { return 1; }\nint extra(void) { return 2; }\n",
    )
    .expect("write");
    let library = plugins.join("libtwo.so");
    let status = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    assert!(status.expect("a C compiler").success());
    let manifest = "id = \"two\"\ntier = \"v3\"\nfile = \"libtwo.so\"\nsha256 = \"00\"\nbytes = 1\nabi = \"1.0.0\"\n\
                    requires = []\nuses = []\n";
    fs::write(plugins.join("two.plugin.toml"), manifest).expect("write");
    check_finding(
        &workspace.xtask(&["boundary-check", "--artifacts"]),
        &[
            "target/plugins/libtwo.so\n",
            "exports 2 symbols instead of one: extra, root",
            "reason: the root module is the whole border",
        ],
    );
}

#[test]
fn artifacts_are_demanded_where_asked_for() {
    let output = Workspace::copy().xtask(&["boundary-check", "--artifacts"]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        complaint.contains("holds no plugins; run `cargo xtask build-plugins` first"),
        "{complaint}"
    );
}

/// Without this the planted faults would prove nothing: the check could be failing all along.
#[test]
fn untouched_copy_passes() {
    let output = Workspace::copy().xtask(&["boundary-check"]);
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
