//! The loading sequence of a library, from its manifest to its prepared module.
//!
//! Every step that can be done without running code of the plugin comes before the one step that does. A build that was
//! loaded once is found again by its hash, because loading it a second time would only cost memory.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memory_core::abi::host::PluginManifest;
use memory_core::services::Capability;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use crate::build::{Build, Parts};
use crate::error::LoadError;
use crate::files::{self, FileFault};
use crate::incident::Incidents;
use crate::library;
use crate::limits::Limits;
use crate::log::PluginLog;
use crate::record::Record;
use crate::registry::Candidate;
use crate::sidecar::Sidecar;
use crate::staging;
use crate::step::{Progress, Step};
use crate::threads::Threads;
use crate::trust::{Trust, Trusted};

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

/// The loaded builds of this process.
#[derive(Debug)]
pub(crate) struct Loader {
    staging: PathBuf,
    limits: Arc<Limits>,
    host: Handle,
    libraries: Mutex<HashMap<String, Library>>,
    changed: Condvar,
}

/// What became of a library that was opened, by its hash.
#[derive(Debug)]
enum Library {
    /// It has been opened since then, and code of it may run.
    Opening(Instant),
    /// It was opened and refused. A part of it may have run, and it stays loaded.
    Refused,
    /// It serves.
    Loaded(Arc<Build>),
}

impl Loader {
    pub(crate) fn new(staging: PathBuf, limits: Arc<Limits>, host: Handle) -> Self {
        Self {
            staging,
            limits,
            host,
            libraries: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn libraries(&self) -> MutexGuard<'_, HashMap<String, Library>> {
        self.libraries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns every build that is loaded.
    pub(crate) fn builds(&self) -> Vec<Arc<Build>> {
        let loaded = |library: &Library| match library {
            Library::Loaded(build) => Some(Arc::clone(build)),
            Library::Opening(_) | Library::Refused => None,
        };
        self.libraries().values().filter_map(loaded).collect()
    }

    /// Loads a plugin's library. Blocks, so it belongs on a thread of its own.
    pub(crate) fn load(
        &self,
        candidate: &Candidate,
        trusted: &Trusted,
        progress: &Progress,
        timings: &mut LoadTimings,
    ) -> Result<Arc<Build>, LoadError> {
        let sidecar = &candidate.sidecar;
        let start = Instant::now();
        let library = verified(candidate)?;
        let trust = trusted.decide(candidate)?;
        timings.read = start.elapsed();

        progress.begin(Step::Open);
        let mut opening = match self.claim(candidate, &trust)? {
            Claim::Loaded(build) => return Ok(build),
            Claim::Opening(opening) => opening,
        };
        let build =
            Arc::new(self.open(&mut opening, candidate, &library, trust, progress, timings)?);
        tracing::info!(plugin = %sidecar.id, version = %build.manifest().version, sha256 = %sidecar.sha256, "plugin loaded");
        opening.ended = Some(Library::Loaded(Arc::clone(&build)));
        Ok(build)
    }

    /// Claims a library for opening, unless it is loaded. Waits while another thread opens it, and not longer than that may
    /// take: code of the plugin may run there, and may never end.
    fn claim<'a>(
        &'a self,
        candidate: &'a Candidate,
        trust: &Trust,
    ) -> Result<Claim<'a>, LoadError> {
        let sidecar = &candidate.sidecar;
        let libraries = self.libraries();
        let left = match libraries.get(&sidecar.sha256) {
            Some(Library::Opening(since)) => self.limits.create.saturating_sub(since.elapsed()),
            _ => Duration::ZERO,
        };
        let (mut libraries, _) = self
            .changed
            .wait_timeout_while(libraries, left, |libraries| {
                matches!(libraries.get(&sidecar.sha256), Some(Library::Opening(_)))
            })
            .unwrap_or_else(PoisonError::into_inner);
        match libraries.get(&sidecar.sha256) {
            Some(Library::Loaded(build)) => {
                check_manifest(sidecar, build.manifest())?;
                build.set_trust(trust.clone());
                return Ok(Claim::Loaded(Arc::clone(build)));
            }
            Some(Library::Opening(_)) => {
                return Err(LoadError::Late {
                    plugin: sidecar.id.clone(),
                    step: Step::Open,
                    limit_ms: u64::try_from(self.limits.create.as_millis()).unwrap_or(u64::MAX),
                });
            }
            None if libraries.len() >= self.limits.builds => {
                return Err(LoadError::TooManyBuilds {
                    plugin: sidecar.id.clone(),
                    limit: self.limits.builds,
                });
            }
            // To open a refused one once more takes no more memory.
            Some(Library::Refused) | None => {}
        }
        let opening = Library::Opening(Instant::now());
        let before = libraries.insert(sidecar.sha256.clone(), opening);
        Ok(Claim::Opening(Opening {
            loader: self,
            sha256: &sidecar.sha256,
            // One that was refused stays loaded, and counted, whatever becomes of this attempt.
            ended: before.filter(|before| matches!(before, Library::Refused)),
        }))
    }

    /// Stages, opens and prepares a library that was claimed.
    fn open(
        &self,
        opening: &mut Opening<'_>,
        candidate: &Candidate,
        library: &[u8],
        trust: Trust,
        progress: &Progress,
        timings: &mut LoadTimings,
    ) -> Result<Build, LoadError> {
        let sidecar = &candidate.sidecar;
        let start = Instant::now();
        let staged = staging::stage(&self.staging, &sidecar.sha256, library).map_err(|source| {
            LoadError::Stage {
                plugin: sidecar.id.clone(),
                folder: self.staging.display().to_string(),
                source,
            }
        })?;
        timings.stage = start.elapsed();

        opening.ended = Some(Library::Refused);
        let opened = library::open(&sidecar.id, staged.path())?;
        timings.open = opened.open;
        timings.header = opened.header;
        timings.layout = opened.layout;
        timings.root = opened.root;

        let start = Instant::now();
        progress.begin(Step::Manifest);
        let manifest = opened
            .module
            .manifest()
            .map_err(|error| LoadError::init(&sidecar.id, error))?;
        check_manifest(sidecar, &manifest)?;
        let incidents = Incidents::new(self.limits.panics, self.limits.panic_window);
        let record = Arc::new(Record::new(&sidecar.id, incidents));
        let threads = Threads::start(Arc::clone(&record), self.host.clone(), self.limits.grace);
        let threads = threads.map_err(|source| LoadError::Threads {
            plugin: sidecar.id.clone(),
            source,
        })?;
        progress.begin(Step::Init);
        let sink = Arc::new(PluginLog::new(Arc::clone(&record)));
        opened
            .module
            .init(sink)
            .map_err(|error| LoadError::init(&sidecar.id, error))?;
        timings.init = start.elapsed();
        // Once for each build: one that is refused after all may be tried again and again.
        staged.keep();
        Ok(Build::new(Parts {
            manifest,
            sha256: sidecar.sha256.clone(),
            module: opened.module,
            trust,
            record,
            threads,
            host: self.host.clone(),
            shutdown_limit: self.limits.create,
        }))
    }
}

/// What came of claiming a library.
enum Claim<'a> {
    Loaded(Arc<Build>),
    Opening(Opening<'a>),
}

/// A claim on a library while it is opened. When it ends, so does the waiting of other threads.
struct Opening<'a> {
    loader: &'a Loader,
    sha256: &'a str,
    /// What became of the library; nothing before it is opened.
    ended: Option<Library>,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut libraries = self.loader.libraries();
        match self.ended.take() {
            Some(ended) => drop(libraries.insert(self.sha256.to_owned(), ended)),
            None => drop(libraries.remove(self.sha256)),
        }
        drop(libraries);
        self.loader.changed.notify_all();
    }
}

/// Reads a library once and returns its bytes if they are the ones its manifest speaks of.
pub(crate) fn verified(candidate: &Candidate) -> Result<Vec<u8>, LoadError> {
    let sidecar = &candidate.sidecar;
    let plugin = &sidecar.id;
    let unreadable = |source| LoadError::Read {
        plugin: plugin.clone(),
        file: sidecar.file.clone(),
        source,
    };
    let length = |found| LoadError::Length {
        plugin: plugin.clone(),
        expected: sidecar.bytes,
        found,
    };
    let (file, found) = files::open(&candidate.library).map_err(|fault| match fault {
        FileFault::NotAFile(what) => LoadError::NotAFile {
            plugin: plugin.clone(),
            file: sidecar.file.clone(),
            what,
        },
        FileFault::TooLong(found) => length(found),
        FileFault::Io(source) => unreadable(source),
    })?;
    // Compared before anything is read: a file that is far too long is not read into memory only to be refused.
    if found != sidecar.bytes {
        return Err(length(found));
    }
    let bytes = files::read_at_most(file, found).map_err(unreadable)?;
    let found = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if found != sidecar.bytes {
        return Err(length(found));
    }
    let found = sha256_hex(&bytes);
    if found != sidecar.sha256 {
        return Err(LoadError::Hash {
            plugin: plugin.clone(),
            expected: sidecar.sha256.clone(),
            found,
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
            id: "tier-v3".to_owned(),
            tier: Tier::V3,
            file: "libtier_v3.so".to_owned(),
            sha256: "0a".repeat(32),
            bytes: 3,
            abi: "1.0.0".to_owned(),
            requires: vec!["pages".to_owned()],
            uses: vec!["clock".to_owned()],
        };
        let manifest = PluginManifest {
            id: "tier-v3".to_owned(),
            tier: Tier::V3,
            version: "0.1.0".to_owned(),
            abi: "1.0.0".to_owned(),
            rust_version: "1.95".to_owned(),
            panic_strategy: "unwind".to_owned(),
            requires: vec!["pages".to_owned()],
            uses: vec!["clock".to_owned()],
        };
        (sidecar, manifest)
    }

    fn check_refused(change: impl FnOnce(&mut Sidecar, &mut PluginManifest), expected: &str) {
        let (mut sidecar, mut manifest) = pair();
        change(&mut sidecar, &mut manifest);
        let error = check_manifest(&sidecar, &manifest).expect_err("must be refused");
        assert_eq!(error.to_string(), format!("plugin `tier-v3`: {expected}"));
    }

    #[test]
    fn a_manifest_and_its_library_must_agree() {
        let (sidecar, manifest) = pair();
        assert_eq!(check_manifest(&sidecar, &manifest), Ok(()));
        check_refused(
            |_, manifest| manifest.id = "other".to_owned(),
            "its manifest says `id` is `tier-v3`, the library says `other`",
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
                sidecar.requires = vec!["pkb".to_owned()];
                manifest.requires = vec!["pkb".to_owned()];
            },
            "requires `pkb`, which tier `v3` may not have",
        );
    }

    fn candidate(folder: &std::path::Path) -> Candidate {
        let (sidecar, _) = pair();
        Candidate {
            library: folder.join(&sidecar.file),
            manifest: folder.join("tier-v3.plugin.toml"),
            text: Vec::new(),
            sidecar,
        }
    }

    fn refusal(candidate: &Candidate) -> String {
        let decided = verified(candidate).and_then(|_| Trusted::default().decide(candidate));
        decided.expect_err("must be refused").to_string()
    }

    #[test]
    fn a_library_must_be_the_one_that_is_trusted() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut candidate = candidate(folder.path());
        std::fs::write(&candidate.library, b"abc").expect("written");
        assert!(refusal(&candidate).contains("is not the one in its manifest"));
        candidate.sidecar.bytes = 9;
        assert!(refusal(&candidate).contains("the library has 3 bytes, its manifest says 9"));
        candidate.sidecar.bytes = 3;
        candidate.sidecar.sha256 = sha256_hex(b"abc");
        assert!(refusal(&candidate).contains("is not on the allow-list"));
        assert_eq!(
            candidate.sidecar.sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn only_a_file_of_the_right_length_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let candidate = candidate(folder.path());
        let library = &candidate.library;
        assert_eq!(
            refusal(&candidate),
            "plugin `tier-v3`: cannot read the library `libtier_v3.so`"
        );
        std::fs::create_dir(library).expect("made");
        assert_eq!(
            refusal(&candidate),
            "plugin `tier-v3`: the library `libtier_v3.so` is a folder, not a file"
        );
        std::fs::remove_dir(library).expect("removed");
        std::os::unix::fs::symlink("/dev/zero", library).expect("linked");
        assert!(refusal(&candidate).ends_with("is a device, not a file"));
        std::fs::remove_file(library).expect("removed");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(library)
                .status()
                .expect("there")
                .success()
        );
        assert!(refusal(&candidate).ends_with("is a pipe, not a file"));
        std::fs::remove_file(library).expect("removed");
        std::fs::File::create(library)
            .and_then(|file| file.set_len(1 << 40))
            .expect("made");
        assert!(refusal(&candidate).contains("the library has 1099511627776 bytes"));
    }
}
