//! `cargo xtask boundary-check`: the crate table of the architecture, proved from four sides.
//!
//! The tables below are the contract; the modules underneath are pure functions over data (what `cargo metadata` printed,
//! source text, the bytes of a library), so each rule is tested by planting what it must catch. Every finding names the
//! offending path and the reason of the rule, because a bare "forbidden" teaches nobody why.

use std::fmt;
use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::checkout::Checkout;
use crate::files;
use crate::output::{human_bytes, note, say};
use crate::plugins::{Sidecar, find_sidecars};

mod artifact;
mod graph;
mod source;
pub(crate) mod tiers;

pub(crate) use graph::Graph;

/// What one crate, or each crate of a pattern, may and must not do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// A crate's name, or a pattern that ends with `*`.
    pub(crate) name: &'static str,
    /// The workspace crates it may depend on, in any way (normal, build, dev).
    pub(crate) may_use: &'static [&'static str],
    /// Groups of external crates that its normal and build graph must not contain, however deep.
    pub(crate) must_not_reach: &'static [Bans],
    /// The only external crates it may name directly, where that is restricted.
    pub(crate) direct: Option<&'static [&'static str]>,
    /// Why.
    pub(crate) reason: &'static str,
}

/// A group of banned external crates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bans {
    /// Names; one that ends with `*` stands for all that begin so.
    pub(crate) names: &'static [&'static str],
    /// The first banned version as (major, minor), where older ones are tolerated.
    pub(crate) from: Option<(u64, u64)>,
    /// Why.
    pub(crate) reason: &'static str,
}

/// External crates that only one crate may name directly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Confined {
    pub(crate) external: &'static str,
    pub(crate) owner: &'static str,
    pub(crate) reason: &'static str,
}

/// A source file that may do what the source rule forbids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exemption {
    pub(crate) path: &'static str,
    pub(crate) reason: &'static str,
}

const RUNTIMES: Bans = Bans {
    names: &["tokio", "async-std", "smol"],
    from: None,
    reason: "a second runtime inside a plugin has no reactor; waiting, timers and spawning are host services",
};
const DATABASES: Bans = Bans {
    names: &[
        "lancedb",
        "lance",
        "lance-*",
        "arrow",
        "arrow-*",
        "datafusion",
        "datafusion-*",
        "rusqlite",
        "libsqlite3-sys",
    ],
    from: None,
    reason: "storage lives in memory-substrate and is reached through the service traits",
};
const MODELS: Bans = Bans {
    names: &["fastembed", "ort", "ort-sys", "tokenizers"],
    from: None,
    reason: "embedding lives in memory-substrate and is reached through the service traits",
};
const NETWORK: Bans = Bans {
    names: &["reqwest", "hyper", "hyper-util"],
    from: None,
    reason: "this side of the border never opens a connection; model calls are a host service",
};
const LOADERS: Bans = Bans {
    names: &["libloading"],
    from: Some((0, 8)),
    reason: "only plugin-host loads libraries; abi_stable's own 0.7 is the one exception",
};
const SEGMENTERS: Bans = Bans {
    names: &[
        "unicode-segmentation",
        "icu_segmenter",
        "jieba-rs",
        "lindera",
    ],
    from: None,
    reason: "words are cut once, in the host, so that index and query agree and plugins carry no tables",
};

/// The crate table.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "memory-core",
        may_use: &[],
        must_not_reach: &[RUNTIMES, DATABASES, MODELS, NETWORK, LOADERS, SEGMENTERS],
        direct: None,
        reason: "memory-core is the language all others share, so it knows none of them",
    },
    Row {
        name: "memory-substrate",
        may_use: &["memory-core"],
        must_not_reach: &[],
        direct: None,
        reason: "the substrate holds what is durable and must not know how plugins are loaded or which tiers exist",
    },
    Row {
        name: "plugin-host",
        may_use: &["memory-core"],
        must_not_reach: &[DATABASES, MODELS, NETWORK],
        direct: None,
        reason: "the loader hands services through and must not know who implements them or which tiers exist",
    },
    Row {
        name: "tier-*",
        may_use: &["memory-core"],
        must_not_reach: &[RUNTIMES, DATABASES, MODELS, NETWORK, LOADERS, SEGMENTERS],
        direct: Some(TIER_EXTERNALS),
        reason: "a tier sees the world through memory-core alone, so that it can be replaced or deleted on its own",
    },
    Row {
        name: "strata",
        may_use: &["memory-core", "memory-substrate", "plugin-host"],
        must_not_reach: &[],
        direct: None,
        reason: "the façade joins substrate and loader; tiers reach it as plugins only, dev-dependencies included",
    },
    Row {
        name: "tests",
        may_use: &["memory-core", "memory-substrate", "plugin-host", "strata"],
        must_not_reach: &[],
        direct: None,
        reason: "tests load tiers through the real loader; linking one would test something that never ships",
    },
    Row {
        name: "xtask",
        may_use: &[],
        must_not_reach: &[RUNTIMES, DATABASES, MODELS, NETWORK],
        direct: None,
        reason: "xtask must start in seconds and build what the others need before they exist",
    },
];

/// What a tier may name directly. It is a vocabulary and not a list of exemptions, so an unused word is no finding.
const TIER_EXTERNALS: &[&str] = &[
    "async-trait",
    "futures-util",
    "serde",
    "serde_json",
    "thiserror",
    "tracing",
];

/// The unmaintained border crates, which must stay replaceable in one place.
pub(crate) const CONFINED: &[Confined] = &[
    Confined {
        external: "abi_stable",
        owner: "memory-core",
        reason: "the border is one module, `memory_core::abi`; others reach it through memory-core's macro and host half",
    },
    Confined {
        external: "async-ffi",
        owner: "memory-core",
        reason: "the border is one module, `memory_core::abi`; others reach it through memory-core's macro and host half",
    },
];

/// Where the raw tier and tuning keys are read for everybody.
pub(crate) const KEY_OWNERS: &[&str] = &["memory-core/src/predicates", "memory-core/src/config"];

/// Files that name raw keys for another purpose than deciding by them. Frozen: a row nobody needs is a finding.
pub(crate) const KEY_EXEMPTIONS: &[Exemption] = &[
    Exemption {
        path: "strata/tests/it/contracts.rs",
        reason: "types keys at the command line, as a user does",
    },
    Exemption {
        path: "strata/tests/it/settings.rs",
        reason: "types keys at the command line, as a user does",
    },
];

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The offending path: crates from start to end, a source line, or a file.
    pub(crate) path: String,
    /// What it does.
    pub(crate) what: String,
    /// Why that is forbidden.
    pub(crate) reason: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}\n    {}\n    reason: {}",
            self.path, self.what, self.reason
        )
    }
}

/// What is asked of `boundary-check`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Built plugins must be there.
    pub(crate) artifacts: bool,
    /// A tier to remove from a copy first, or the word for all that can be.
    pub(crate) without: Option<String>,
    /// Of a removal, only what needs no compiling.
    pub(crate) edges: bool,
}

impl Options {
    /// Reads the arguments.
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(argument) = args.next() {
            match argument.as_str() {
                "--artifacts" => options.artifacts = true,
                "--edges" => options.edges = true,
                "--without" => {
                    let tier = args.next().context("`--without` needs a tier, or `both`")?;
                    options.without = Some(tier.clone());
                }
                other => bail!("`boundary-check` does not know `{other}`"),
            }
        }
        if options.edges && options.without.is_none() {
            bail!("`--edges` belongs to `--without`");
        }
        if options.artifacts && options.without.is_some() {
            bail!("`--artifacts` is part of `--without`");
        }
        Ok(options)
    }
}

/// Runs every check; built plugins must be there if `artifacts` is set, and are checked if they are there anyway.
pub(crate) fn run(checkout: &Checkout, artifacts: bool) -> Result<()> {
    let files = read_files(checkout)?;
    let rows = read_rows(&files)?;
    let (crates, mut violations) = check_text(checkout, &files, tiers::removable(&rows))?;
    let plugins = check_plugins(checkout, artifacts, &mut violations)?;
    report(
        &violations,
        format_args!("{crates} crates and {plugins} built plugins keep the table"),
    )
}

/// Runs every check that needs no compiling, after these tiers were removed.
pub(crate) fn run_without(checkout: &Checkout, removed: &[String]) -> Result<()> {
    let files = read_files(checkout)?;
    let (crates, violations) = check_text(checkout, &files, removed)?;
    report(
        &violations,
        format_args!(
            "{crates} crates keep the table without {}",
            removed.join(" and ")
        ),
    )
}

fn report(violations: &[Violation], success: fmt::Arguments<'_>) -> Result<()> {
    for violation in violations {
        say(format_args!("boundary: {violation}"));
    }
    if !violations.is_empty() {
        bail!("boundary-check found {} violation(s)", violations.len());
    }
    say(format_args!("boundary-check: {success}"));
    Ok(())
}

/// Checks the graph and every text; nothing outside their folders may name these tiers. Returns the number of crates too.
fn check_text(
    checkout: &Checkout,
    files: &[(String, String)],
    unnamed: &[String],
) -> Result<(usize, Vec<Violation>)> {
    let graph = Graph::load(checkout)?;
    let mut violations = graph::check(&graph, ROWS, CONFINED);
    let folders: Vec<String> = graph
        .members()
        .map(|member| files::relative(checkout.root(), &member.folder) + "/")
        .collect();
    let sources: Vec<(String, String)> = files
        .iter()
        .filter(|(path, _)| {
            files::is_rust(path) && folders.iter().any(|folder| path.starts_with(folder))
        })
        .cloned()
        .collect();
    violations.extend(source::check(&sources, KEY_OWNERS, KEY_EXEMPTIONS));
    let members = graph.members().map(|member| member.name.clone());
    let crates: Vec<String> = members.filter(|name| matches("tier-*", name)).collect();
    violations.extend(tiers::check_rows(&read_rows(files)?, &crates));
    violations.extend(tiers::check_names(unnamed, files));
    Ok((graph.members().count(), violations))
}

/// Returns the tiers of the registry.
fn read_rows(files: &[(String, String)]) -> Result<Vec<String>> {
    let registry = files.iter().find(|(path, _)| path == tiers::REGISTRY);
    let (_, text) = registry.with_context(|| format!("`{}` is missing", tiers::REGISTRY))?;
    Ok(tiers::rows(text))
}

/// Reads every Rust and TOML file of the checkout.
fn read_files(checkout: &Checkout) -> Result<Vec<(String, String)>> {
    let mut read = Vec::new();
    for path in files::walk_sources(checkout.root())? {
        let ruled = path
            .extension()
            .is_some_and(|extension| extension == "rs" || extension == "toml");
        if ruled {
            let name = files::relative(checkout.root(), &path);
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
            read.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    Ok(read)
}

/// Checks the libraries in the plugin folder and returns how many there are.
fn check_plugins(
    checkout: &Checkout,
    required: bool,
    violations: &mut Vec<Violation>,
) -> Result<usize> {
    let folder = checkout.plugins();
    let sidecars = find_sidecars(&folder)?;
    if sidecars.is_empty() {
        if required {
            bail!(
                "`{}` holds no plugins; run `cargo xtask build-plugins` first",
                folder.display()
            );
        }
        note(
            "boundary-check: no built plugins to look at (`cargo xtask build-plugins` makes them)",
        );
    }
    for path in &sidecars {
        let sidecar = Sidecar::read(path)?;
        let library = path.with_file_name(&sidecar.file);
        let name = files::relative(checkout.root(), &library);
        let bytes =
            fs::read(&library).with_context(|| format!("cannot read `{}`", library.display()))?;
        let facts =
            artifact::inspect(&bytes).with_context(|| format!("`{name}` is no dynamic library"))?;
        note(format_args!(
            "boundary-check: {name}, {}, needs {}",
            human_bytes(facts.bytes),
            facts.needed.join(" ")
        ));
        violations.extend(artifact::check(&name, &facts));
    }
    Ok(sidecars.len())
}

/// Returns whether a name is the pattern or, where that ends with `*`, begins like it.
fn matches(pattern: &str, name: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == name, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::{Options, ROWS, matches};

    #[test]
    fn patterns_match_by_prefix() {
        assert!(matches("tier-*", "tier-v3"));
        assert!(matches("lance-*", "lance-core"));
        assert!(!matches("lance", "lancedb"));
        assert!(!matches("tier-*", "tier"));
    }

    #[test]
    fn options_that_do_not_go_together_are_refused() {
        let parse = |text: &str| {
            let args: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            Options::parse(&args)
        };
        assert_eq!(parse("").expect("none"), Options::default());
        let options = parse("--without tier-x --edges").expect("a removal");
        assert_eq!(
            (options.without.as_deref(), options.edges),
            (Some("tier-x"), true)
        );
        for wrong in ["--without", "--edges", "--what", "--without x --artifacts"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nobody_may_use_a_tier() {
        for row in ROWS {
            assert!(
                row.may_use.iter().all(|name| !name.starts_with("tier-")),
                "{}",
                row.name
            );
            assert!(!row.reason.is_empty());
        }
    }
}
