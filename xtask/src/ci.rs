//! `cargo xtask ci`: everything that must hold before a change lands, here and on the build machine alike.
//!
//! The table at the end says what each step came to and cost.

use std::process::Stdio;

use anyhow::Result;

use crate::checkout::{Checkout, run};
use crate::setup::{self, Missing};
use crate::steps::{Outcome, Steps};
use crate::{boundary, launch, plugins, removal, tidy, unused};

/// Runs every step and fails if one did.
pub(crate) fn run_all(checkout: &Checkout) -> Result<()> {
    let mut steps = Steps::default();
    steps.run("fmt", || cargo(checkout, &["fmt", "--all", "--check"]));
    let ready = steps.check("setup", || {
        setup::run(checkout, &setup::Options::default(), Missing::Refuse)
    }) && steps.check("build-plugins", || plugins::build(checkout, true));
    if ready {
        run_checks(checkout, &mut steps);
    }
    steps.finish("ci", ready)
}

fn run_checks(checkout: &Checkout, steps: &mut Steps) {
    // The members by default and this crate apart, as in `launch::run_tests` and for the same reason.
    for selection in [&[][..], &["-p", env!("CARGO_PKG_NAME")]] {
        steps.check("clippy", || {
            let mut command = checkout.cargo();
            command.arg("clippy").args(selection);
            run(command.args(["--all-targets", "--", "-D", "warnings"]))
        });
        steps.check("doc", || {
            let mut command = checkout.cargo();
            command.arg("doc").args(selection).arg("--no-deps");
            run(command.env("RUSTDOCFLAGS", "-D warnings"))
        });
    }
    steps.check("test", || launch::run_tests(checkout, &[]));
    steps.check("tidy", || tidy::run(checkout, false));
    steps.check("boundary-check", || boundary::run(checkout, true));
    steps.run("removal", || removal::run_all_edges(checkout));
    steps.check("unused", || unused::run(checkout));
    steps.run("deny", || deny(checkout));
}

/// Runs cargo-deny where it is installed: the root's rules over everything, each tier's over that tier.
fn deny(checkout: &Checkout) -> Result<Outcome> {
    let mut probe = checkout.cargo();
    probe
        .args(["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        return Ok(Outcome::Skipped("cargo-deny is not installed"));
    }
    cargo(checkout, &["deny", "check", "bans", "licenses", "sources"])?;
    for tier in plugins::tier_names(checkout)? {
        let manifest = format!("{tier}/Cargo.toml");
        let config = format!("{tier}/deny.toml");
        cargo(
            checkout,
            &[
                "deny",
                "--manifest-path",
                &manifest,
                "--config",
                &config,
                "check",
                "bans",
            ],
        )?;
    }
    advisories(checkout)
}

/// Checks advisories, unless their database cannot be fetched, which a closed network makes normal.
fn advisories(checkout: &Checkout) -> Result<Outcome> {
    let mut fetch = checkout.cargo();
    fetch
        .args(["deny", "fetch", "db"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if !fetch.status()?.success() {
        return Ok(Outcome::Skipped(
            "bans, licences and sources passed; the advisory database cannot be fetched",
        ));
    }
    cargo(checkout, &["deny", "--offline", "check", "advisories"])
}

fn cargo(checkout: &Checkout, arguments: &[&str]) -> Result<Outcome> {
    run(checkout.cargo().args(arguments))?;
    Ok(Outcome::Passed)
}
