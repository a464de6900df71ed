//! Prints how well memory is found: `eval --data DIR [--set NAME]... [--json]`.
//!
//! The data is public and never part of this repository; a folder holds `locomo`, `xquad`, `longmemeval-lite`,
//! `cranfield` and `vaswani`. A set that is not there is named and left out.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tests::eval::report::{self, Row};
use tests::eval::set::EvalSet;
use tests::eval::{cranfield, locomo, longmemeval, run, vaswani, xquad};

/// The sets that are run when none is named.
const DEFAULT_SETS: [&str; 4] = ["locomo", "longmemeval-lite", "cranfield", "xquad"];

/// The languages of `XQuAD` that are run.
const LANGUAGES: [&str; 6] = ["en", "de", "es", "ru", "zh", "hi"];

struct Arguments {
    data: PathBuf,
    sets: Vec<String>,
    json: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = parse(std::env::args().skip(1))?;
    let mut rows: Vec<Row> = Vec::new();
    let mut missing = Vec::new();
    for name in &arguments.sets {
        let folder = arguments.data.join(name);
        if !folder.is_dir() {
            missing.push(name.as_str());
            continue;
        }
        for set in read(name, &folder)? {
            if set.dropped > 0 {
                writeln!(
                    io::stderr(),
                    "{}: {} judgements could not be read",
                    set.name,
                    set.dropped
                )?;
            }
            let mut said = Ok(());
            rows.extend(run::run(&set, &mut |text| said = writeln!(io::stderr(), "{text}")).await?);
            said?;
        }
    }
    if rows.is_empty() {
        bail!(
            "`{}` holds none of: {}",
            arguments.data.display(),
            arguments.sets.join(", ")
        );
    }
    if !missing.is_empty() {
        writeln!(io::stderr(), "not there, left out: {}", missing.join(", "))?;
    }
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &rows)?;
        writeln!(out)?;
    } else {
        report::table(&rows, &mut out)?;
    }
    Ok(())
}

fn parse(words: impl Iterator<Item = String>) -> Result<Arguments> {
    let (mut data, mut sets, mut json) = (None, Vec::new(), false);
    let mut words = words;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--data" => data = words.next().map(PathBuf::from),
            "--set" => sets.push(words.next().context("`--set` needs a name")?),
            "--json" => json = true,
            _ => bail!(
                "unknown argument `{word}`: usage is `eval --data DIR [--set NAME]... [--json]`"
            ),
        }
    }
    if sets.is_empty() {
        sets = DEFAULT_SETS.map(str::to_owned).to_vec();
    }
    Ok(Arguments {
        data: data.context("`--data DIR` is missing")?,
        sets,
        json,
    })
}

fn read(name: &str, folder: &Path) -> Result<Vec<EvalSet>> {
    Ok(match name {
        "locomo" => locomo::read(folder)?.into(),
        "longmemeval-lite" => vec![longmemeval::read(folder)?],
        "cranfield" => vec![cranfield::read(folder)?],
        "vaswani" => vec![vaswani::read(folder)?],
        "xquad" => LANGUAGES
            .into_iter()
            .map(|language| xquad::read(folder, language))
            .collect::<Result<_>>()?,
        _ => bail!("unknown set `{name}`"),
    })
}
