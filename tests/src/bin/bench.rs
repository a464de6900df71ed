//! Prints figures, a line each: `bench [NAME...] [--json]`.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Result, bail};
use tests::bench::{ingest, plugins, remember, turn, upkeep, work};
use tests::measure::Figure;

const NAMES: [&str; 7] = [
    "plugins",
    "remember",
    "remember-10k",
    "ingest",
    "turn-1k",
    "turn-10k",
    "work",
];

/// What takes so long that it is measured only when it is named.
const LONG: [&str; 2] = ["remember-100k", "upkeep"];

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, folder, label] = words.as_slice()
        && first == turn::PROBE
    {
        let figures = Box::pin(turn::probe(Path::new(folder), label)).await?;
        return Ok(serde_json::to_writer(io::stdout().lock(), &figures)?);
    }
    let (options, mut names): (Vec<String>, Vec<String>) =
        words.into_iter().partition(|word| word.starts_with("--"));
    let json = options.iter().any(|option| option == "--json");
    if let Some(unknown) = options.iter().find(|option| *option != "--json") {
        bail!("unknown option `{unknown}`: the only one is `--json`");
    }
    if names.is_empty() {
        names = NAMES.map(str::to_owned).to_vec();
    }
    let mut figures: Vec<Figure> = Vec::new();
    let mut out = io::stdout().lock();
    for name in &names {
        writeln!(io::stderr(), "measuring {name}")?;
        let measured = match name.as_str() {
            "plugins" => plugins::run().await?,
            "remember" => Box::pin(remember::run(100)).await?,
            "remember-10k" => Box::pin(remember::run(10_000)).await?,
            "remember-100k" => Box::pin(remember::run(100_000)).await?,
            "ingest" => ingest::run().await?,
            "turn-1k" => Box::pin(turn::run(1_000)).await?,
            "turn-10k" => Box::pin(turn::run(10_000)).await?,
            "work" => Box::pin(work::run()).await?,
            "upkeep" => Box::pin(upkeep::run()).await?,
            _ => bail!(
                "unknown benchmark `{name}`: there are {}",
                [&NAMES[..], &LONG].concat().join(", ")
            ),
        };
        if !json {
            for figure in &measured {
                writeln!(out, "{} {:.3} {}", figure.name, figure.value, figure.unit)?;
            }
        }
        figures.extend(measured);
    }
    if json {
        serde_json::to_writer_pretty(&mut out, &figures)?;
        writeln!(out)?;
    }
    Ok(())
}
