//! `cargo xtask ci`: everything that must hold before a change lands, here and on the build machine alike.
//!
//! A failing step does not stop the others, so that one run shows everything; only steps without which the rest cannot
//! work do. The table at the end says what each step cost.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::checkout::{Checkout, run};
use crate::output::say;
use crate::setup::{self, Missing};
use crate::{boundary, launch, plugins, tidy, unused};

/// How a step ended.
enum Outcome {
    Passed,
    Skipped(&'static str),
    Failed(anyhow::Error),
}

/// A step that has been run.
struct Done {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

/// Runs every step and fails if one did.
pub(crate) fn run_all(checkout: &Checkout) -> Result<()> {
    let mut done = Vec::new();
    step(&mut done, "fmt", || {
        cargo(checkout, &["fmt", "--all", "--check"])
    });
    let ready = step(&mut done, "setup", || {
        setup::run(checkout, &setup::Options::default(), Missing::Refuse)?;
        Ok(Outcome::Passed)
    }) && step(&mut done, "build-plugins", || {
        plugins::build(checkout, true)?;
        Ok(Outcome::Passed)
    });
    if ready {
        run_checks(checkout, &mut done);
    }
    say(format_args!("\n{}", table(&done)));
    verdict(&done, ready)
}

fn run_checks(checkout: &Checkout, done: &mut Vec<Done>) {
    // The members by default and this crate apart, as in `launch::run_tests` and for the same reason.
    for selection in [&[][..], &["-p", env!("CARGO_PKG_NAME")]] {
        step(done, "clippy", || {
            let mut command = checkout.cargo();
            command.arg("clippy").args(selection);
            run(command.args(["--all-targets", "--", "-D", "warnings"]))?;
            Ok(Outcome::Passed)
        });
        step(done, "doc", || {
            let mut command = checkout.cargo();
            command.arg("doc").args(selection).arg("--no-deps");
            run(command.env("RUSTDOCFLAGS", "-D warnings"))?;
            Ok(Outcome::Passed)
        });
    }
    step(done, "test", || {
        launch::run_tests(checkout, &[])?;
        Ok(Outcome::Passed)
    });
    step(done, "tidy", || {
        tidy::run(checkout, false)?;
        Ok(Outcome::Passed)
    });
    step(done, "boundary-check", || {
        boundary::run(checkout, true)?;
        Ok(Outcome::Passed)
    });
    step(done, "unused", || {
        unused::run(checkout)?;
        Ok(Outcome::Passed)
    });
    step(done, "deny", || deny(checkout));
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
                "check",
                "--config",
                &config,
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
    cargo(
        checkout,
        &["deny", "check", "--disable-fetch", "advisories"],
    )
}

fn cargo(checkout: &Checkout, arguments: &[&str]) -> Result<Outcome> {
    run(checkout.cargo().args(arguments))?;
    Ok(Outcome::Passed)
}

/// Runs one step and returns whether it did not fail.
fn step(done: &mut Vec<Done>, name: &'static str, work: impl FnOnce() -> Result<Outcome>) -> bool {
    say(format_args!("\n=== {name}"));
    let start = Instant::now();
    let outcome = work().unwrap_or_else(Outcome::Failed);
    let took = start.elapsed();
    say(format_args!(
        "=== {name}: {} after {}",
        describe(&outcome),
        seconds(took)
    ));
    let passed = !matches!(outcome, Outcome::Failed(_));
    done.push(Done {
        name,
        outcome,
        took,
    });
    passed
}

/// Returns the table of what each step came to and cost.
fn table(done: &[Done]) -> String {
    let line = |name: &str, took: Duration, result: &str| {
        format!("{name:<14} {:>9}  {result}", seconds(took))
    };
    let mut lines = vec![format!("{:<14} {:>9}  result", "step", "time")];
    lines.extend(
        done.iter()
            .map(|step| line(step.name, step.took, &describe(&step.outcome))),
    );
    lines.push(line("total", done.iter().map(|step| step.took).sum(), ""));
    lines.join("\n")
}

/// Fails if a step did; `complete` says that none was left out for want of an earlier one.
fn verdict(done: &[Done], complete: bool) -> Result<()> {
    let failed: Vec<&str> = done
        .iter()
        .filter(|step| matches!(step.outcome, Outcome::Failed(_)))
        .map(|step| step.name)
        .collect();
    match (failed.is_empty(), complete) {
        (true, true) => Ok(()),
        (_, false) => bail!(
            "ci stopped early: {} failed and the other steps need it",
            failed.join(", ")
        ),
        (false, true) => bail!("ci failed: {}", failed.join(", ")),
    }
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Passed => "passed".to_owned(),
        Outcome::Skipped(reason) => format!("skipped: {reason}"),
        Outcome::Failed(error) => format!("FAILED: {error:#}"),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::anyhow;

    use super::{Done, Outcome, table, verdict};

    fn done() -> Vec<Done> {
        let step = |name, outcome, millis| Done {
            name,
            outcome,
            took: Duration::from_millis(millis),
        };
        vec![
            step("first", Outcome::Failed(anyhow!("broken")), 1500),
            step("second", Outcome::Skipped("no tool"), 0),
            step("third", Outcome::Passed, 250),
        ]
    }

    #[test]
    fn one_failure_fails_the_run() {
        let error = verdict(&done(), true).expect_err("a step failed");
        assert_eq!(error.to_string(), "ci failed: first");
        assert!(verdict(&done()[1..], true).is_ok());
        assert!(verdict(&done(), false).is_err());
    }

    #[test]
    fn table_shows_time_and_result() {
        let table = table(&done());
        let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "step                time  result",
                "first              1.5 s  FAILED: broken",
                "second             0.0 s  skipped: no tool",
                "third              0.2 s  passed",
                "total              1.8 s",
            ]
        );
    }
}
