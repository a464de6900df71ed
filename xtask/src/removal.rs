//! `cargo xtask boundary-check --without TIER`: removes a tier from a copy of the workspace and proves that the rest stands.
//!
//! The copy is made of the tracked files, without the tier's folder and its row in the registry; nothing else is edited,
//! because that is the promise. The dependency-only form looks at the edges and at who still names the tier, costs
//! seconds and runs in CI; the full form builds what remains, plugins included, and runs every test of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::boundary::tiers::{REGISTRY, removable, rows, without_rows};
use crate::checkout::{Checkout, run as run_command};
use crate::output::say;
use crate::steps::{Outcome, Steps};
use crate::{boundary, files, git, launch, plugins};

/// The word for every tier that can be removed.
const ALL: &str = "both";

/// Removes tiers from a copy and runs the checks; with `edges` only those that compile nothing.
pub(crate) fn run(checkout: &Checkout, without: &str, edges: bool) -> Result<()> {
    let tiers = chosen(checkout, without)?;
    let copy = copy_folder(checkout, without);
    let mut steps = Steps::default();
    let stands = steps.check("copy", || lay_out(checkout, &tiers, &copy))
        && steps.check("edges", || {
            boundary::run_without(&Checkout::at(&copy)?, &tiers)
        });
    let complete = edges || (stands && build_and_test(checkout, &copy, without, &mut steps)?);
    steps.finish(&format!("removing {}", tiers.join(" and ")), complete)
}

/// Removes each tier alone and all together, dependency-only.
pub(crate) fn run_all_edges(checkout: &Checkout) -> Result<Outcome> {
    let all = all_removable(checkout)?;
    if all.is_empty() {
        return Ok(Outcome::Skipped(
            "there is one tier left, and that one stays",
        ));
    }
    if git::tracked_files(checkout.root()).is_none() {
        return Ok(Outcome::Skipped("git cannot list the tracked files"));
    }
    let each = all.iter().map(String::as_str).chain([ALL]);
    for without in each {
        let tiers = chosen(checkout, without)?;
        let copy = copy_folder(checkout, without);
        lay_out(checkout, &tiers, &copy)?;
        boundary::run_without(&Checkout::at(&copy)?, &tiers)?;
        say(format_args!(
            "removal: the rest stands without {}",
            tiers.join(" and ")
        ));
    }
    Ok(Outcome::Passed)
}

/// Units in which the members of the first copy are compiled; the default is more, so no checkout has this.
const UNITS: usize = 100;

/// Builds the copy and runs its tests; returns whether no step was left out.
fn build_and_test(
    checkout: &Checkout,
    copy: &Path,
    without: &str,
    steps: &mut Steps,
) -> Result<bool> {
    let all = all_removable(checkout)?;
    let which = all.iter().position(|tier| tier == without);
    let copy = Checkout::at(copy)?;
    let members = plugins::members(&copy)?;
    let copy = copy.sharing_target_of(checkout, &members, UNITS + which.unwrap_or(all.len()));
    let checked = steps.check("check", || {
        // The members by default and this crate apart, as in `launch::run_tests` and for the same reason.
        run_command(copy.cargo().args(["check", "--all-targets"]))?;
        let package = ["check", "--all-targets", "-p", env!("CARGO_PKG_NAME")];
        run_command(copy.cargo().args(package))
    });
    let built = checked && steps.check("build-plugins", || plugins::build(&copy, true));
    if built {
        steps.check("boundary-check", || boundary::run(&copy, true));
        steps.check("test", || launch::run_tests(&copy, &[]));
    }
    Ok(built)
}

/// Returns the tiers that can be removed.
fn all_removable(checkout: &Checkout) -> Result<Vec<String>> {
    let path = checkout.root().join(REGISTRY);
    let registry =
        fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(removable(&rows(&registry)).to_vec())
}

/// Returns the tiers that a word of the command line means.
fn chosen(checkout: &Checkout, without: &str) -> Result<Vec<String>> {
    let removable = all_removable(checkout)?;
    let chosen: Vec<String> = removable
        .iter()
        .filter(|tier| without == ALL || without == *tier)
        .cloned()
        .collect();
    if chosen.is_empty() {
        bail!(
            "`{without}` cannot be removed; what can be: {}",
            removable.join(", ")
        );
    }
    Ok(chosen)
}

fn copy_folder(checkout: &Checkout, without: &str) -> PathBuf {
    checkout.root().join("target").join("without").join(without)
}

/// Brings the copy up to date. Files that are equal already are left alone, so that cargo sees nothing to do.
fn lay_out(checkout: &Checkout, tiers: &[String], copy: &Path) -> Result<()> {
    let tracked = git::tracked_files(checkout.root())
        .context("git cannot list the tracked files, of which the copy is made")?;
    let mut wanted = BTreeSet::new();
    for file in tracked {
        let removed = tiers.iter().any(|tier| file.starts_with(tier));
        let path = checkout.root().join(&file);
        // A tracked file may have been deleted and not committed yet.
        if removed || !path.is_file() {
            continue;
        }
        let mut bytes =
            fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        if file == Path::new(REGISTRY) {
            let text = String::from_utf8(bytes).context("the registry is not text")?;
            let text = without_rows(&text, tiers).map_err(|tier| {
                anyhow::anyhow!("`{REGISTRY}` has no row of one line for `{tier}`")
            })?;
            bytes = text.into_bytes();
        }
        // The lock file loses the tiers as soon as cargo reads it, and is not to be put back each time.
        let target = copy.join(&file);
        let is_lock = file == Path::new("Cargo.lock");
        if !is_lock || is_older(&target, &path) {
            files::write_atomic(&target, &bytes)?;
        }
        wanted.insert(target);
    }
    for path in files::walk_checkout(copy)? {
        if !wanted.contains(&path) {
            fs::remove_file(&path)
                .with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
    }
    Ok(())
}

/// Returns whether a file is older than another, or not there.
fn is_older(path: &Path, other: &Path) -> bool {
    let modified = |path: &Path| {
        fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    modified(path) < modified(other)
}
