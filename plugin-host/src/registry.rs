//! The plugins of a folder, by name.
//!
//! The folder is read each time it is asked, because loading is rare and an operator may have just copied a file.

use std::path::{Path, PathBuf};

use memory_core::predicates::Tier;

use crate::error::LoadError;
use crate::sidecar::{SIDECAR_SUFFIX, Sidecar};

/// A plugin that could be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its manifest.
    pub sidecar: Sidecar,
    /// Path of the manifest.
    pub manifest: PathBuf,
    /// Path of the library.
    pub library: PathBuf,
    /// The bytes the manifest was made from, which are the ones a signature is for.
    pub(crate) text: Vec<u8>,
}

/// A plugin folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registry {
    folder: Option<PathBuf>,
}

impl Registry {
    /// Returns the registry of a folder, or of none at all.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// Returns the folder.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns every manifest's plugin or what is wrong with it, in the order of file names. A missing folder has none.
    pub fn scan(&self) -> Result<Vec<Result<Candidate, LoadError>>, LoadError> {
        let Some(folder) = &self.folder else {
            return Ok(Vec::new());
        };
        let unreadable = |source| LoadError::Folder {
            folder: folder.display().to_string(),
            source,
        };
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(error)),
        };
        let mut manifests = Vec::new();
        for entry in entries {
            let path = entry.map_err(unreadable)?.path();
            if path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().ends_with(SIDECAR_SUFFIX))
            {
                manifests.push(path);
            }
        }
        manifests.sort();
        let mut seen = std::collections::BTreeSet::new();
        let read = |manifest: PathBuf| {
            let (sidecar, text) = Sidecar::read_with_text(&manifest)?;
            if !seen.insert(sidecar.id.clone()) {
                let file = manifest
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                let reason = format!(
                    "another manifest in the folder has the id `{}` already",
                    sidecar.id
                );
                return Err(LoadError::Manifest { file, reason });
            }
            Ok(Candidate {
                library: folder.join(&sidecar.file),
                sidecar,
                manifest,
                text,
            })
        };
        Ok(manifests.into_iter().map(read).collect())
    }

    /// Returns the plugin of an identifier.
    ///
    /// A broken manifest of another plugin is of no matter. One that bears this plugin's name is the likely reason why it
    /// is not found, and is reported.
    pub fn find(&self, plugin: &str) -> Result<Candidate, LoadError> {
        let Some(folder) = &self.folder else {
            return Err(LoadError::NoFolder {
                plugin: plugin.to_owned(),
            });
        };
        let own = format!("{plugin}{SIDECAR_SUFFIX}");
        let mut broken = None;
        for candidate in self.scan()? {
            match candidate {
                Ok(candidate) if candidate.sidecar.id == plugin => return Ok(candidate),
                Ok(_) => {}
                Err(error) => {
                    if let LoadError::Manifest { file, .. } | LoadError::ReadManifest { file, .. } =
                        &error
                        && *file == own
                    {
                        broken = Some(error);
                    }
                }
            }
        }
        Err(broken.unwrap_or_else(|| LoadError::Unknown {
            plugin: plugin.to_owned(),
            folder: folder.display().to_string(),
        }))
    }

    /// Returns the plugin of an identifier, which must serve a tier.
    pub fn find_for(&self, tier: Tier, plugin: &str) -> Result<Candidate, LoadError> {
        let candidate = self.find(plugin)?;
        if candidate.sidecar.tier == tier {
            Ok(candidate)
        } else {
            let found = candidate.sidecar.tier;
            Err(LoadError::WrongTier {
                plugin: plugin.to_owned(),
                wanted: tier,
                found,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, id: &str, tier: &str) {
        let text = format!(
            "id = \"{id}\"\ntier = \"{tier}\"\nfile = \"lib{id}.so\"\nsha256 = \"{}\"\nbytes = 1\nabi = \"1.0.0\"\n\
             requires = []\nuses = []\n",
            "0a".repeat(32)
        );
        std::fs::write(folder.join(format!("{name}{SIDECAR_SUFFIX}")), text).expect("written");
    }

    #[test]
    fn plugins_are_found_by_name_and_faults_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = Registry::new(Some(folder.path().to_owned()));
        write(folder.path(), "a", "tier-v1", "v1");
        write(folder.path(), "b", "tier-v1", "v1");
        std::fs::write(folder.path().join("tier-v2.plugin.toml"), "id = 1").expect("written");
        std::fs::write(folder.path().join("notes.txt"), "no plugin").expect("written");

        assert_eq!(registry.scan().expect("listed").len(), 3);
        assert_eq!(
            registry
                .find_for(Tier::V1, "tier-v1")
                .expect("there")
                .library,
            folder.path().join("libtier-v1.so")
        );
        let text =
            |result: Result<Candidate, LoadError>| result.expect_err("must be refused").to_string();
        assert_eq!(
            text(registry.find_for(Tier::V2, "tier-v1")),
            "plugin `tier-v1`: it serves tier `v1`, not `v2`; correct `[plugins]`"
        );
        assert_eq!(
            text(registry.find("tier-v2")),
            "plugin manifest `tier-v2.plugin.toml`: key `id` must be a text"
        );
        assert!(
            text(registry.find("tier-v3"))
                .starts_with("plugin `tier-v3`: there is no such plugin in")
        );
        assert!(
            text(Registry::default().find("tier-v3"))
                .starts_with("plugin `tier-v3`: no plugin folder")
        );
    }

    #[test]
    fn a_missing_folder_has_no_plugins() {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = Registry::new(Some(folder.path().join("missing")));
        assert_eq!(registry.scan().expect("empty"), Vec::new());
    }
}
