//! The project's one script language: set-up, builds, checks and CI, as `cargo xtask <verb>`.
//!
//! It depends on no workspace crate, so it compiles in seconds and works before anything heavy has been built.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::checkout::Checkout;
use crate::output::note;

mod boundary;
mod checkout;
mod ci;
mod files;
mod git;
mod launch;
mod lexer;
mod output;
mod plugins;
mod removal;
mod setup;
mod steps;
mod tidy;
mod unused;

const USAGE: &str = "\
usage: cargo xtask <verb> [options]

  setup [--lexical-only] [--from-dir DIR]   fetch the protobuf compiler, the model and its runtime
  demo [ARGS]                               play the demonstration
  test [ARGS]                               run the tests (arguments as for `cargo test`)
  build-plugins [--test-plugins]            build the tiers into target/plugins
  build-plugins --path DIR                  build one tier from another folder, such as examples/tier-template
  conform LIBRARY [--config JSON] [--json]  check a built tier against the contract
  boundary-check [--artifacts]              check who uses whom, and the built plugins
                 --without TIER|both        remove tiers from a copy, and build and test what remains
                           [--edges]        only the checks that compile nothing, as in `ci`
  tidy [--bless]                            check the house rules; `--bless` renews the border's hash
  unused                                    find dependencies that no code names
  crash [--rounds N]                        kill writing processes and check what they leave
  ci                                        everything that must hold before a change lands
  bench [NAME...] [--json]                  measure
  eval --data DIR [--json]                  measure the quality of retrieval";

/// The result of asking for something that does not exist; told apart because it has an exit code of its own.
struct Usage(String);

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let verb = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    if matches!(verb.as_str(), "help" | "--help" | "-h") {
        output::say(USAGE);
        return ExitCode::SUCCESS;
    }
    match Checkout::locate().and_then(|checkout| dispatch(&checkout, &verb, &rest)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(Usage(complaint))) => {
            note(format_args!("error: {complaint}\n\n{USAGE}"));
            ExitCode::from(2)
        }
        Err(error) => {
            note(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(
    checkout: &Checkout,
    verb: &str,
    args: &[String],
) -> Result<std::result::Result<(), Usage>> {
    match verb {
        "setup" => match setup::Options::parse(args) {
            Ok(options) => setup::run(checkout, &options, setup::Missing::Refuse)?,
            Err(error) => return Ok(Err(Usage(error.to_string()))),
        },
        "demo" => launch::demo(checkout, args)?,
        "test" => launch::test(checkout, args)?,
        "bench" | "eval" => launch::measure(checkout, verb, args)?,
        "boundary-check" => match boundary::Options::parse(args) {
            Ok(options) => match &options.without {
                Some(without) => removal::run(checkout, without, options.edges)?,
                None => boundary::run(checkout, options.artifacts)?,
            },
            Err(error) => return Ok(Err(Usage(error.to_string()))),
        },
        "crash" => match launch::crash_rounds(args) {
            Ok(rounds) => launch::crash(checkout, rounds)?,
            Err(error) => return Ok(Err(Usage(error.to_string()))),
        },
        "conform" => launch::conform(checkout, args)?,
        "build-plugins" => match plugins::Options::parse(args) {
            Ok(options) => plugins::run(checkout, &options)?,
            Err(error) => return Ok(Err(Usage(error.to_string()))),
        },
        "tidy" | "unused" | "ci" => {
            return flagged(checkout, verb, args);
        }
        "" => return Ok(Err(Usage("a verb is missing".to_owned()))),
        other => return Ok(Err(Usage(format!("`{other}` is no verb")))),
    }
    Ok(Ok(()))
}

/// Runs a verb that takes at most one flag.
fn flagged(
    checkout: &Checkout,
    verb: &str,
    args: &[String],
) -> Result<std::result::Result<(), Usage>> {
    let known = match verb {
        "tidy" => "--bless",
        _ => "",
    };
    if let Some(other) = args.iter().find(|argument| argument.as_str() != known) {
        return Ok(Err(Usage(format!("`{verb}` does not know `{other}`"))));
    }
    let flag = !args.is_empty();
    match verb {
        "tidy" => tidy::run(checkout, flag)?,
        "unused" => unused::run(checkout)?,
        "ci" => ci::run_all(checkout)?,
        _ => bail!("`{verb}` is listed as a verb with a flag but is none"),
    }
    Ok(Ok(()))
}
