//! The loading sequence of a library, from its manifest to its prepared module.
//!
//! Every step that can be done without running code of the plugin comes before the one step that does. A build that was
//! loaded once is found again by its hash, because loading it a second time would only cost memory.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use memory_core::abi::host::{PluginManifest, PluginModule};
use memory_core::services::Capability;
use sha2::{Digest as _, Sha256};

use crate::allow::AllowList;
use crate::error::LoadError;
use crate::library;
use crate::log::PluginLog;
use crate::registry::Candidate;
use crate::sidecar::Sidecar;
use crate::staging;

/// How long each step of loading took. Steps that a known build skips are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadTimings {
    /// Reading and hashing the library.
    pub read: Duration,
    /// Writing or finding the private copy.
    pub stage: Duration,
    /// The system's loader.
    pub open: Duration,
    /// Reading the header and comparing versions.
    pub header: Duration,
    /// Comparing layouts.
    pub layout: Duration,
    /// Making the root module.
    pub root: Duration,
    /// Asking for the manifest and preparing the library.
    pub init: Duration,
    /// Making the instance.
    pub create: Duration,
    /// Asking the instance for its health.
    pub health: Duration,
}

impl LoadTimings {
    /// Returns the sum of the steps.
    pub fn total(&self) -> Duration {
        let before = self.read + self.stage + self.open + self.header;
        before + self.layout + self.root + self.init + self.create + self.health
    }
}

/// One build of a plugin, loaded for the life of the process.
#[derive(Debug)]
pub struct Build {
    manifest: PluginManifest,
    sha256: String,
    module: PluginModule,
    panics: Mutex<Vec<Instant>>,
}

impl Build {
    /// Returns what the library says of itself.
    pub fn manifest(&self) -> &PluginManifest {
        &self.manifest
    }

    /// Returns the library's hash.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    pub(crate) const fn module(&self) -> PluginModule {
        self.module
    }

    /// Returns the capabilities the library asks for, those of a newer host left out.
    pub(crate) fn asked(&self) -> Vec<Capability> {
        let names = self.manifest.requires.iter().chain(&self.manifest.uses);
        names
            .filter_map(|name| Capability::from_name(name))
            .collect()
    }

    /// Notes a panic and returns how many there were within a window.
    pub(crate) fn note_panic(&self, window: Duration) -> usize {
        let now = Instant::now();
        let mut panics = self.panics.lock().unwrap_or_else(PoisonError::into_inner);
        panics.retain(|at| now.duration_since(*at) < window);
        panics.push(now);
        panics.len()
    }

    /// Returns how many of the noted panics are within a window.
    pub(crate) fn recent_panics(&self, window: Duration) -> usize {
        let now = Instant::now();
        let panics = self.panics.lock().unwrap_or_else(PoisonError::into_inner);
        panics
            .iter()
            .filter(|at| now.duration_since(**at) < window)
            .count()
    }
}

/// The loaded builds of this process.
#[derive(Debug)]
pub(crate) struct Loader {
    staging: PathBuf,
    max_builds: usize,
    builds: Mutex<HashMap<String, Arc<Build>>>,
}

impl Loader {
    pub(crate) fn new(staging: PathBuf, max_builds: usize) -> Self {
        Self {
            staging,
            max_builds,
            builds: Mutex::new(HashMap::new()),
        }
    }

    /// Returns every build that is loaded.
    pub(crate) fn builds(&self) -> Vec<Arc<Build>> {
        self.builds
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    /// Loads a plugin's library. Blocks, so it belongs on a thread of its own.
    pub(crate) fn load(
        &self,
        candidate: &Candidate,
        allow: &AllowList,
        timings: &mut LoadTimings,
    ) -> Result<Arc<Build>, LoadError> {
        let sidecar = &candidate.sidecar;
        let start = Instant::now();
        let library = verified(&candidate.library, sidecar, allow)?;
        timings.read = start.elapsed();

        // Held to the end: the same build must not be opened twice at once.
        let mut builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(build) = builds.get(&sidecar.sha256) {
            check_manifest(sidecar, &build.manifest)?;
            return Ok(Arc::clone(build));
        }
        if builds.len() >= self.max_builds {
            return Err(LoadError::TooManyBuilds {
                plugin: sidecar.id.clone(),
                limit: self.max_builds,
            });
        }

        let start = Instant::now();
        let staged =
            staging::stage(&self.staging, &sidecar.sha256, &library).map_err(|source| {
                LoadError::Stage {
                    plugin: sidecar.id.clone(),
                    folder: self.staging.display().to_string(),
                    source,
                }
            })?;
        timings.stage = start.elapsed();

        let opened = library::open(&sidecar.id, &staged)?;
        timings.open = opened.open;
        timings.header = opened.header;
        timings.layout = opened.layout;
        timings.root = opened.root;

        let start = Instant::now();
        let manifest = opened
            .module
            .manifest()
            .map_err(|error| LoadError::init(&sidecar.id, error))?;
        check_manifest(sidecar, &manifest)?;
        let sink = Arc::new(PluginLog::new(&sidecar.id));
        opened
            .module
            .init(sink)
            .map_err(|error| LoadError::init(&sidecar.id, error))?;
        timings.init = start.elapsed();

        let build = Build {
            manifest,
            sha256: sidecar.sha256.clone(),
            module: opened.module,
            panics: Mutex::new(Vec::new()),
        };
        let build = Arc::new(build);
        builds.insert(sidecar.sha256.clone(), Arc::clone(&build));
        tracing::info!(plugin = %sidecar.id, version = %build.manifest.version, sha256 = %sidecar.sha256, "plugin loaded");
        Ok(build)
    }
}

/// Reads a library once and returns its bytes if they are the ones its manifest and the operator's list speak of.
pub(crate) fn verified(
    library: &Path,
    sidecar: &Sidecar,
    allow: &AllowList,
) -> Result<Vec<u8>, LoadError> {
    let plugin = &sidecar.id;
    let bytes = std::fs::read(library).map_err(|source| LoadError::Read {
        plugin: plugin.clone(),
        file: sidecar.file.clone(),
        source,
    })?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if length != sidecar.bytes {
        return Err(LoadError::Length {
            plugin: plugin.clone(),
            expected: sidecar.bytes,
            found: length,
        });
    }
    let found = sha256_hex(&bytes);
    if found != sidecar.sha256 {
        return Err(LoadError::Hash {
            plugin: plugin.clone(),
            expected: sidecar.sha256.clone(),
            found,
        });
    }
    if !allow.allows(plugin, &found) {
        return Err(LoadError::NotAllowed {
            plugin: plugin.clone(),
            sha256: found,
        });
    }
    Ok(bytes)
}

/// Returns the SHA-256 of a library as manifests and allow-lists write it.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Compares what a library says of itself with its manifest, and both with what a plugin may be.
fn check_manifest(sidecar: &Sidecar, manifest: &PluginManifest) -> Result<(), LoadError> {
    let plugin = &sidecar.id;
    let list = |names: &[String]| names.join(", ");
    let pairs = [
        ("id", sidecar.id.clone(), manifest.id.clone()),
        ("tier", sidecar.tier.to_string(), manifest.tier.to_string()),
        ("abi", sidecar.abi.clone(), manifest.abi.clone()),
        (
            "requires",
            list(&sidecar.requires),
            list(&manifest.requires),
        ),
        ("uses", list(&sidecar.uses), list(&manifest.uses)),
    ];
    for (key, sidecar, library) in pairs {
        if sidecar != library {
            return Err(LoadError::ManifestDiffers {
                plugin: plugin.clone(),
                key,
                sidecar,
                library,
            });
        }
    }
    if manifest.panic_strategy != "unwind" {
        return Err(LoadError::PanicStrategy {
            plugin: plugin.clone(),
            strategy: manifest.panic_strategy.clone(),
        });
    }
    let refused = manifest.requires.iter().find(|name| {
        !Capability::from_name(name).is_some_and(|capability| capability.allowed_for(manifest.tier))
    });
    match refused {
        Some(name) => Err(LoadError::NotForTier {
            plugin: plugin.clone(),
            capability: name.clone(),
            tier: manifest.tier,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use memory_core::predicates::Tier;

    use super::*;

    fn pair() -> (Sidecar, PluginManifest) {
        let sidecar = Sidecar {
            id: "tier-v1".to_owned(),
            tier: Tier::V1,
            file: "libtier_v1.so".to_owned(),
            sha256: "0a".repeat(32),
            bytes: 3,
            abi: "1.0.0".to_owned(),
            requires: vec!["pkb".to_owned()],
            uses: vec!["clock".to_owned()],
        };
        let manifest = PluginManifest {
            id: "tier-v1".to_owned(),
            tier: Tier::V1,
            version: "0.1.0".to_owned(),
            abi: "1.0.0".to_owned(),
            rust_version: "1.95".to_owned(),
            panic_strategy: "unwind".to_owned(),
            requires: vec!["pkb".to_owned()],
            uses: vec!["clock".to_owned()],
        };
        (sidecar, manifest)
    }

    fn check_refused(change: impl FnOnce(&mut Sidecar, &mut PluginManifest), expected: &str) {
        let (mut sidecar, mut manifest) = pair();
        change(&mut sidecar, &mut manifest);
        let error = check_manifest(&sidecar, &manifest).expect_err("must be refused");
        assert_eq!(error.to_string(), format!("plugin `tier-v1`: {expected}"));
    }

    #[test]
    fn a_manifest_and_its_library_must_agree() {
        let (sidecar, manifest) = pair();
        assert_eq!(check_manifest(&sidecar, &manifest), Ok(()));
        check_refused(
            |_, manifest| manifest.id = "other".to_owned(),
            "its manifest says `id` is `tier-v1`, the library says `other`",
        );
        check_refused(
            |_, manifest| manifest.uses.clear(),
            "its manifest says `uses` is `clock`, the library says ``",
        );
        check_refused(
            |_, manifest| manifest.panic_strategy = "abort".to_owned(),
            "it was built with panic strategy `abort`; build it with `unwind`",
        );
        check_refused(
            |sidecar, manifest| {
                sidecar.requires = vec!["dense".to_owned()];
                manifest.requires = vec!["dense".to_owned()];
            },
            "requires `dense`, which tier `v1` may not have",
        );
    }

    #[test]
    fn a_library_must_be_the_one_that_is_trusted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("libtier_v1.so");
        std::fs::write(&path, b"abc").expect("written");
        let (mut sidecar, _) = pair();
        let allow = AllowList::default();
        let text = |sidecar: &Sidecar| {
            verified(&path, sidecar, &allow)
                .expect_err("must be refused")
                .to_string()
        };
        assert!(text(&sidecar).contains("is not the one in its manifest"));
        sidecar.bytes = 9;
        assert!(text(&sidecar).contains("the library has 3 bytes, its manifest says 9"));
        sidecar.bytes = 3;
        sidecar.sha256 = sha256_hex(b"abc");
        assert!(text(&sidecar).contains("is not on the allow-list"));
        assert_eq!(
            sidecar.sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
