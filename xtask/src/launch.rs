//! The verbs that prepare a checkout and then start one of its programs: `demo`, `test`, `bench`, `eval`, `conform`.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::checkout::{Checkout, run};
use crate::plugins;
use crate::setup::{self, Missing};

/// The variable by which hosts and tests find the built plugins.
const PLUGIN_DIR: &str = "STRATA_PLUGIN_DIR";

/// Plays the demonstration.
pub(crate) fn demo(checkout: &Checkout, args: &[String]) -> Result<()> {
    prepare(checkout, false)?;
    let mut command = checkout.cargo();
    command
        .args([
            "run", "-p", "strata", "--bin", "strata", "--", "demo", "--repo",
        ])
        .arg(checkout.root())
        .args(args);
    run(with_plugins(checkout, &mut command))
}

/// Runs the tests of the workspace.
pub(crate) fn test(checkout: &Checkout, args: &[String]) -> Result<()> {
    prepare(checkout, true)?;
    run_tests(checkout, args)
}

/// Kills writing processes again and again and checks what they leave, as the tests do a few times.
pub(crate) fn crash(checkout: &Checkout, rounds: u32) -> Result<()> {
    prepare(checkout, false)?;
    let mut command = checkout.cargo();
    command
        .args(["test", "-p", "tests", "--test", "it", "--"])
        .args([
            "crash::what_was_acknowledged_outlives_kills",
            "--exact",
            "--nocapture",
        ])
        .env("STRATA_CRASH_ROUNDS", rounds.to_string());
    run(with_plugins(checkout, &mut command))
}

/// Returns the number of rounds that `crash` was asked for.
pub(crate) fn crash_rounds(args: &[String]) -> Result<u32> {
    match args {
        [] => Ok(20),
        [option, rounds] if option == "--rounds" => rounds
            .parse()
            .with_context(|| format!("`{rounds}` is no number of rounds")),
        [other, ..] => bail!("`crash` does not know `{other}`"),
    }
}

/// Runs one of the measuring programs of the crate `tests`.
pub(crate) fn measure(checkout: &Checkout, program: &str, args: &[String]) -> Result<()> {
    prepare(checkout, false)?;
    let mut command = checkout.cargo();
    command
        .args(["run", "-p", "tests", "--bin", program, "--"])
        .args(args);
    run(with_plugins(checkout, &mut command))
}

/// Checks one built plugin against the contract of tiers. It is the caller's library, so nothing is built first but the
/// program itself.
pub(crate) fn conform(checkout: &Checkout, args: &[String]) -> Result<()> {
    let here = std::env::current_dir().context("the current folder is gone")?;
    let mut command = checkout.cargo();
    command.args(["run", "-q", "-p", "tests", "--bin", "conform", "--"]);
    // The program runs in the root of the checkout, the caller may stand elsewhere.
    command.args(args.iter().map(|argument| {
        let path = here.join(argument);
        if path.is_file() {
            path.into_os_string()
        } else {
            argument.into()
        }
    }));
    run(&mut command)
}

/// Runs the tests, the same way for `test` and for `ci`.
///
/// The members that make the product come first, then this crate by itself: in one run, its dependencies would turn on
/// features of shared crates, and the database would be compiled a second time.
pub(crate) fn run_tests(checkout: &Checkout, args: &[String]) -> Result<()> {
    run(&mut test_command(checkout, args))?;
    if selects_packages(args) {
        return Ok(());
    }
    let mut own = vec!["-p".to_owned(), env!("CARGO_PKG_NAME").to_owned()];
    own.extend_from_slice(args);
    run(&mut test_command(checkout, &own))?;
    // The template stands outside of the workspace, so that what a third party copies is what is tested.
    let manifest = checkout.root().join(plugins::TEMPLATE).join("Cargo.toml");
    let mut template = vec!["--manifest-path".to_owned(), manifest.display().to_string()];
    template.extend_from_slice(args);
    run(&mut test_command(checkout, &template))
}

fn test_command(checkout: &Checkout, args: &[String]) -> Command {
    let mut command = checkout.cargo();
    command.arg("test").args(args);
    with_plugins(checkout, &mut command);
    command
}

/// Returns whether the user chose packages, so that nothing else should be run.
fn selects_packages(args: &[String]) -> bool {
    args.iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| {
            argument == "-p"
                || argument == "--package"
                || argument.starts_with("--package=")
                || argument == "--manifest-path"
        })
}

fn prepare(checkout: &Checkout, test_plugins: bool) -> Result<()> {
    setup::run(checkout, &setup::Options::default(), Missing::Warn)?;
    plugins::build(checkout, test_plugins)
}

fn with_plugins<'a>(checkout: &Checkout, command: &'a mut Command) -> &'a mut Command {
    command.env(PLUGIN_DIR, checkout.plugins())
}

#[cfg(test)]
mod tests {
    use super::{crash_rounds, selects_packages};

    #[test]
    fn rounds_are_a_number_or_the_usual_ones() {
        let rounds = |args: &[&str]| {
            crash_rounds(&args.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(rounds(&[]).expect("the usual ones"), 20);
        assert_eq!(rounds(&["--rounds", "500"]).expect("a number"), 500);
        for wrong in [&["--rounds"][..], &["--rounds", "many"], &["500"]] {
            assert!(rounds(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn package_choice_is_seen_before_the_dashes_only() {
        let check = |args: &[&str]| {
            selects_packages(&args.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
        };
        assert!(check(&["-p", "tests"]));
        assert!(check(&["--package=tests"]));
        assert!(!check(&["--", "-p"]));
        assert!(!check(&["name_filter"]));
    }
}
