//! The manifest that stands beside every plugin, and the list of trusted hashes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

use crate::files;

const SUFFIX: &str = ".plugin.toml";

/// What a tier's `Cargo.toml` says under `[package.metadata.strata]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    tier: String,
    requires: Vec<String>,
    #[serde(default)]
    uses: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct PackageMetadata {
    strata: Declared,
}

/// One plugin's manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sidecar {
    /// The package's name.
    pub(crate) id: String,
    /// The tier it serves.
    pub(crate) tier: String,
    /// The library's file name.
    pub(crate) file: String,
    /// The library's hash.
    pub(crate) sha256: String,
    /// The library's size.
    pub(crate) bytes: u64,
    /// The version of `memory-core` it was built with, which is the version of the border.
    pub(crate) abi: String,
    /// The capabilities without which it does not load.
    pub(crate) requires: Vec<String>,
    /// The capabilities it takes when they are there.
    pub(crate) uses: Vec<String>,
}

impl Sidecar {
    /// Returns the manifest of a built library.
    pub(crate) fn new(
        id: &str,
        metadata: &serde_json::Value,
        file: String,
        library: &[u8],
        abi: &str,
    ) -> Result<Self> {
        let declared: PackageMetadata = serde_json::from_value(metadata.clone()).with_context(|| {
            format!("`{id}` needs a table `[package.metadata.strata]` with `tier`, `requires` and `uses` in its Cargo.toml")
        })?;
        let Declared {
            tier,
            requires,
            uses,
        } = declared.strata;
        if let Some(twice) = requires.iter().find(|name| uses.contains(name)) {
            bail!("`{id}` names `{twice}` under both `requires` and `uses`; keep one");
        }
        Ok(Self {
            id: id.to_owned(),
            tier,
            file,
            sha256: files::sha256(library),
            bytes: library.len() as u64,
            abi: abi.to_owned(),
            requires,
            uses,
        })
    }

    /// Returns the manifest's own file name.
    pub(crate) fn file_name(&self) -> String {
        file_name(&self.id)
    }

    /// Returns the manifest as TOML.
    pub(crate) fn render(&self) -> String {
        let mut document = DocumentMut::new();
        document["id"] = value(self.id.as_str());
        document["tier"] = value(self.tier.as_str());
        document["file"] = value(self.file.as_str());
        document["sha256"] = value(self.sha256.as_str());
        document["bytes"] = value(i64::try_from(self.bytes).unwrap_or(i64::MAX));
        document["abi"] = value(self.abi.as_str());
        document["requires"] = value(self.requires.iter().collect::<Array>());
        document["uses"] = value(self.uses.iter().collect::<Array>());
        document.to_string()
    }

    /// Reads a manifest from disk.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        let document: DocumentMut = text
            .parse()
            .with_context(|| format!("`{}` is not TOML", path.display()))?;
        Self::from_document(&document)
            .with_context(|| format!("`{}` is no plugin manifest", path.display()))
    }

    fn from_document(document: &DocumentMut) -> Result<Self> {
        let item = |key: &str| {
            document
                .get(key)
                .with_context(|| format!("missing key `{key}`"))
        };
        let text = |key: &str| {
            Ok::<_, anyhow::Error>(
                item(key)?
                    .as_str()
                    .with_context(|| format!("`{key}` is no string"))?
                    .to_owned(),
            )
        };
        let list = |key: &str| {
            let array = item(key)?
                .as_array()
                .with_context(|| format!("`{key}` is no array"))?;
            Ok::<_, anyhow::Error>(
                array
                    .iter()
                    .filter_map(|entry| entry.as_str().map(str::to_owned))
                    .collect(),
            )
        };
        let bytes = item("bytes")?
            .as_integer()
            .and_then(|bytes| u64::try_from(bytes).ok());
        Ok(Self {
            id: text("id")?,
            tier: text("tier")?,
            file: text("file")?,
            sha256: text("sha256")?,
            bytes: bytes.context("`bytes` is no size")?,
            abi: text("abi")?,
            requires: list("requires")?,
            uses: list("uses")?,
        })
    }
}

/// Returns the name of the manifest of a plugin.
pub(crate) fn file_name(id: &str) -> String {
    format!("{id}{SUFFIX}")
}

/// Returns where the signature of a manifest stands, if it has one.
pub(crate) fn signature(manifest: &Path) -> PathBuf {
    let mut name = manifest.as_os_str().to_owned();
    name.push(".sig");
    PathBuf::from(name)
}

/// Returns the manifests in a folder, sorted; a missing folder has none.
pub(crate) fn find(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = files::walk(folder)?;
    found.retain(|path| path.to_string_lossy().ends_with(SUFFIX));
    Ok(found)
}

/// Returns the list of trusted hashes as TOML.
pub(crate) fn render_allow_file(sidecars: &[Sidecar]) -> String {
    let mut entries = ArrayOfTables::new();
    for sidecar in sidecars {
        let mut entry = Table::new();
        entry["id"] = value(sidecar.id.as_str());
        entry["sha256"] = value(sidecar.sha256.as_str());
        entry["note"] = value("built by `cargo xtask build-plugins` in this checkout");
        entries.push(entry);
    }
    let mut document = DocumentMut::new();
    document["allow"] = Item::ArrayOfTables(entries);
    document.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Sidecar, render_allow_file};

    fn sidecar() -> Sidecar {
        let metadata = json!({ "strata": { "tier": "v3", "requires": ["sections"], "uses": ["llm", "rerank"] } });
        Sidecar::new(
            "tier-v3",
            &metadata,
            "libtier_v3.so".into(),
            b"abc",
            "1.0.0",
        )
        .expect("valid metadata")
    }

    #[test]
    fn manifest_round_trips() {
        let text = sidecar().render();
        assert_eq!(
            text,
            "id = \"tier-v3\"\ntier = \"v3\"\nfile = \"libtier_v3.so\"\n\
             sha256 = \"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"\nbytes = 3\nabi = \"1.0.0\"\n\
             requires = [\"sections\"]\nuses = [\"llm\", \"rerank\"]\n"
        );
        let document = text.parse().expect("TOML");
        assert_eq!(
            Sidecar::from_document(&document).expect("a manifest"),
            sidecar()
        );
    }

    #[test]
    fn allow_file_lists_every_hash() {
        assert_eq!(
            render_allow_file(&[sidecar()]),
            "[[allow]]\nid = \"tier-v3\"\n\
             sha256 = \"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"\n\
             note = \"built by `cargo xtask build-plugins` in this checkout\"\n"
        );
    }

    #[test]
    fn metadata_is_required_and_checked() {
        let error = Sidecar::new("tier-x", &json!(null), String::new(), b"", "1.0.0")
            .expect_err("no metadata");
        assert!(
            error.to_string().contains("`[package.metadata.strata]`"),
            "{error}"
        );
        let twice = json!({ "strata": { "tier": "v3", "requires": ["llm"], "uses": ["llm"] } });
        assert!(Sidecar::new("tier-x", &twice, String::new(), b"", "1.0.0").is_err());
        let typo = json!({ "strata": { "tier": "v3", "requires": [], "use": [] } });
        assert!(Sidecar::new("tier-x", &typo, String::new(), b"", "1.0.0").is_err());
    }
}
