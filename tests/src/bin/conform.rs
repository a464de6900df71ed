//! Checks a built tier against the contract: `conform LIBRARY [--rule NAME] [--config JSON] [--patience MS] [--json]`.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tests::conform::{self, Options, RULES, Target};

/// What the program was asked for.
#[derive(Debug, Default)]
struct Arguments {
    library: PathBuf,
    options: Options,
    json: bool,
}

fn parse(words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut arguments = Arguments::default();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("`{word}` needs a value"))
        };
        match word.as_str() {
            "--json" => arguments.json = true,
            "--config" => arguments.options.config = Some(value()?),
            "--rule" => {
                let name = value()?;
                if RULES.iter().all(|rule| rule.name != name) {
                    bail!("there is no rule `{name}`; `docs/conformance.md` lists them");
                }
                arguments.options.rule = Some(name);
            }
            "--patience" => {
                let millis = value()?
                    .parse()
                    .context("`--patience` is a number of milliseconds")?;
                arguments.options.patience = Duration::from_millis(millis);
            }
            option if option.starts_with("--") => bail!("unknown option `{option}`"),
            _ if arguments.library == PathBuf::new() => arguments.library = PathBuf::from(word),
            _ => bail!("one library at a time, and `{word}` is a second one"),
        }
    }
    if arguments.library == PathBuf::new() {
        bail!("name the library to check, such as `target/plugins/libtier_v3.so`");
    }
    Ok(arguments)
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nobody reads standard error any more if this fails.
            writeln!(io::stderr(), "error: {error:#}").ok();
            ExitCode::from(2)
        }
    }
}

/// Checks and prints, and returns whether every rule holds.
async fn run() -> Result<bool> {
    let arguments = parse(std::env::args().skip(1))?;
    conform::silence_planned_panics();
    let target = Target::find(&arguments.library)?;
    let report = conform::run(&target, &arguments.options).await;
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{report}")?;
    }
    out.flush()?;
    Ok(report.conforms())
}
