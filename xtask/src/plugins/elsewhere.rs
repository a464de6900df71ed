//! Plugins whose crates lie outside of the workspace: `cargo xtask build-plugins --path DIR`.
//!
//! Their libraries stand among those of the tiers, so a list remembers where they came from: a later build keeps them,
//! and lets them go once their folder is gone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::{build_standalone, package_name, shallow_metadata, tiers, write_allow_file};
use crate::checkout::Checkout;
use crate::files;
use crate::output::say;

/// Builds one crate from anywhere into the plugin folder. It stays there until its folder is gone.
pub(super) fn build(checkout: &Checkout, folder: &Path) -> Result<()> {
    let _lock = files::lock(&checkout.root().join("target").join("plugins.lock"))?;
    let manifest = folder.join("Cargo.toml");
    let manifest = fs::canonicalize(&manifest)
        .with_context(|| format!("there is no crate at `{}`", folder.display()))?;
    let name = package_name(&manifest)?;
    let metadata = shallow_metadata(checkout, &checkout.root().join("Cargo.toml"))?;
    if tiers(&metadata).any(|tier| tier.name.as_str() == name) {
        bail!("`{name}` is the name of a tier of this checkout; give the crate another one");
    }
    let installed = build_standalone(checkout, &manifest, &[], &checkout.plugins())?;
    let list = list_file(checkout);
    let mut known = known(checkout)?;
    known.insert(manifest);
    let lines: Vec<String> = known
        .iter()
        .map(|manifest| manifest.display().to_string())
        .collect();
    files::write_atomic(&list, lines.join("\n").as_bytes())?;
    write_allow_file(checkout)?;
    say(format_args!("{}", installed.display()));
    Ok(())
}

fn list_file(checkout: &Checkout) -> PathBuf {
    checkout.root().join("target").join("plugins.elsewhere")
}

/// Returns the manifests of crates that were built by `--path` and are still there.
pub(super) fn known(checkout: &Checkout) -> Result<BTreeSet<PathBuf>> {
    let list = list_file(checkout);
    let text = match fs::read_to_string(&list) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read `{}`", list.display()));
        }
    };
    let manifests = text.lines().map(PathBuf::from);
    Ok(manifests.filter(|manifest| manifest.is_file()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_from_elsewhere_is_known_while_it_is_there() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        fs::write(folder.path().join("Cargo.toml"), "").expect("write");
        let checkout = Checkout::at(folder.path()).expect("a checkout");
        assert!(known(&checkout).expect("no list").is_empty());
        let mine = folder.path().join("mine.toml");
        fs::create_dir_all(folder.path().join("target")).expect("write");
        let text = format!("{}\n/nowhere/Cargo.toml\n", mine.display());
        fs::write(list_file(&checkout), text).expect("write");
        assert!(known(&checkout).expect("a list").is_empty());
        fs::write(&mine, "").expect("write");
        assert_eq!(known(&checkout).expect("a list"), BTreeSet::from([mine]));
    }
}
