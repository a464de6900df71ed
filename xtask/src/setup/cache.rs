//! Where provisioned files live: the user's cache folder, shared by all checkouts and by the installed program.
//!
//! The layout is a contract with the embedder that reads it: `models/<space>/` and `runtime/onnxruntime-<version>/`.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::files;

/// The cache folder.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Returns the cache of the current user.
    pub(crate) fn locate() -> Result<Self> {
        let root = root_from(std::env::consts::OS, |name| std::env::var_os(name))
            .context("cannot tell where the cache folder is; set `STRATA_CACHE_DIR`")?;
        Ok(Self { root })
    }

    /// Returns the folder itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of one model.
    pub(crate) fn model(&self, folder: &str) -> PathBuf {
        self.root.join("models").join(folder)
    }

    /// Returns the folder of one runtime.
    pub(crate) fn runtime(&self, folder: &str) -> PathBuf {
        self.root.join("runtime").join(folder)
    }

    /// Returns the folder of verified downloads.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.root.join("downloads")
    }

    /// Waits until this is the only set-up at work in the cache; dropping the file ends that.
    pub(crate) fn lock(&self) -> Result<File> {
        files::lock(&self.root.join("setup.lock"))
    }
}

/// Applies the rule: the override as it stands, else the platform's cache folder with the product's name.
fn root_from(os: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(root) = set("STRATA_CACHE_DIR") {
        return Some(root);
    }
    let base = match os {
        "windows" => set("LOCALAPPDATA"),
        "macos" => Some(set("HOME")?.join("Library").join("Caches")),
        // A relative path in the variable is to be ignored, says the base directory specification.
        _ => set("XDG_CACHE_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| Some(set("HOME")?.join(".cache"))),
    };
    Some(base?.join("strata"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::PathBuf;

    use super::root_from;

    fn check(os: &str, variables: &[(&str, &str)], expected: Option<&str>) {
        let lookup = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        };
        assert_eq!(
            root_from(os, lookup),
            expected.map(PathBuf::from),
            "{os} {variables:?}"
        );
    }

    #[test]
    fn root_follows_the_platform() {
        check("linux", &[("HOME", "/h")], Some("/h/.cache/strata"));
        check(
            "linux",
            &[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")],
            Some("/c/strata"),
        );
        check(
            "linux",
            &[("HOME", "/h"), ("XDG_CACHE_HOME", "")],
            Some("/h/.cache/strata"),
        );
        check(
            "linux",
            &[("HOME", "/h"), ("STRATA_CACHE_DIR", "/own")],
            Some("/own"),
        );
        check(
            "linux",
            &[("HOME", "/h"), ("XDG_CACHE_HOME", "c")],
            Some("/h/.cache/strata"),
        );
        check(
            "macos",
            &[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")],
            Some("/h/Library/Caches/strata"),
        );
        check("windows", &[("LOCALAPPDATA", "/l")], Some("/l/strata"));
        check("windows", &[], None);
    }
}
