//! A throw-away copy of this workspace's manifests and sources, and the program run over it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use toml_edit::{DocumentMut, InlineTable, Item, Value};

/// Where the rows of tiers stand.
pub(crate) const REGISTRY: &str = "memory-core/src/predicates/registry.rs";

/// A tier that the workspace will never have; put together, so that no text of these tests names it.
pub(crate) const PLANTED: &str = concat!("tier-", "planted");

/// A copy of the workspace in a temporary folder.
pub(crate) struct Workspace {
    folder: tempfile::TempDir,
}

impl Workspace {
    /// Copies what cargo and the checks read: manifests, the lock file and Rust sources.
    pub(crate) fn copy() -> Self {
        let original = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask lies in the workspace");
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let root = folder.path().join("workspace");
        fs::create_dir(&root).expect("create the root");
        for file in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
            fs::copy(original.join(file), root.join(file)).expect("copy a root file");
        }
        for entry in fs::read_dir(original).expect("list the workspace") {
            let path = entry.expect("list the workspace").path();
            if path.join("Cargo.toml").is_file() {
                copy_sources(
                    &path,
                    &root.join(path.file_name().expect("a folder has a name")),
                );
            }
        }
        Self { folder }
    }

    /// Returns the root of the copy.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// Makes a crate outside the workspace, to depend on by path, and returns its folder.
    pub(crate) fn outsider(&self, name: &str, dependencies: &str) -> PathBuf {
        let folder = self.folder.path().join(name);
        fs::create_dir_all(folder.join("src")).expect("create the outsider");
        fs::write(folder.join("src/lib.rs"), "//! Nothing.\n").expect("write the outsider");
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.4.2\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}\n"
        );
        fs::write(folder.join("Cargo.toml"), manifest).expect("write the outsider");
        folder
    }

    /// Adds a tier that nothing knows of.
    pub(crate) fn plant_tier(&self, name: &str) {
        let folder = self.root().join(name);
        fs::create_dir_all(folder.join("src")).expect("create the tier");
        fs::write(folder.join("src/lib.rs"), "//! Nothing.\n").expect("write the tier");
        let manifest = format!(
            "[package]\nname = \"{name}\"\nedition = \"2024\"\n\n[dependencies]\nmemory-core.workspace = true\n"
        );
        fs::write(folder.join("Cargo.toml"), manifest).expect("write the tier");
    }

    /// Adds the row of a tier to the registry.
    pub(crate) fn plant_row(&self, name: &str) {
        let path = self.root().join(REGISTRY);
        let text = fs::read_to_string(&path).expect("read");
        let row =
            format!("    TierRow {{ tier: Tier::V1, plugin: \"{name}\", reads_pages: false }},\n");
        let (before, after) = text.split_once("    TierRow {").expect("a row");
        let text = format!("{before}{row}    TierRow {{{after}");
        fs::write(path, text).expect("write");
    }

    /// Makes a repository of the copy, as it is now.
    pub(crate) fn track(&self) {
        for arguments in [&["init", "--quiet"][..], &["add", "--all"]] {
            let status = Command::new("git")
                .arg("-C")
                .arg(self.root())
                .args(arguments)
                .status();
            assert!(status.expect("git runs").success());
        }
    }

    /// Adds an entry to a dependency table of a crate's manifest.
    pub(crate) fn depend(&self, member: &str, table: &str, name: &str, value: impl Into<Value>) {
        self.edit_manifest(member, |manifest| {
            let table = manifest.entry(table).or_insert_with(toml_edit::table);
            table[name] = Item::Value(value.into());
        });
    }

    /// Changes a crate's manifest.
    pub(crate) fn edit_manifest(&self, member: &str, edit: impl FnOnce(&mut DocumentMut)) {
        let path = self.root().join(member).join("Cargo.toml");
        let mut manifest = fs::read_to_string(&path)
            .expect("read")
            .parse()
            .expect("a manifest");
        edit(&mut manifest);
        fs::write(path, manifest.to_string()).expect("write");
    }

    /// Appends text to a file.
    pub(crate) fn append(&self, file: &str, text: &str) {
        let path = self.root().join(file);
        let old = fs::read_to_string(&path).expect("read");
        fs::write(path, format!("{old}\n{text}\n")).expect("write");
    }

    /// Runs a verb over the copy, without network.
    pub(crate) fn xtask(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(args)
            .env("CARGO_MANIFEST_DIR", self.root().join("xtask"))
            .env("CARGO_NET_OFFLINE", "true")
            .output()
            .expect("run xtask")
    }
}

/// Returns `{ path = ... }`.
pub(crate) fn path_dependency(path: &Path) -> InlineTable {
    InlineTable::from_iter([("path", Value::from(path.to_string_lossy().into_owned()))])
}

/// Returns `{ workspace = true }`.
pub(crate) fn inherited() -> InlineTable {
    InlineTable::from_iter([("workspace", Value::from(true))])
}

fn copy_sources(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("create a folder");
    for entry in fs::read_dir(from).expect("list a folder") {
        let path = entry.expect("list a folder").path();
        let name = path.file_name().expect("an entry has a name");
        let hidden = name.to_string_lossy().starts_with('.');
        if path.is_dir() && name != "target" && !hidden {
            copy_sources(&path, &to.join(name));
        } else if path.extension().is_some_and(|extension| extension == "rs")
            || name == "Cargo.toml"
        {
            fs::copy(&path, to.join(name)).expect("copy a source file");
        }
    }
}
