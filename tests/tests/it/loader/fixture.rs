//! A plugin folder of a test's own, filled from the built test plugins.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use memory_core::config::Config;
use memory_core::predicates::Tier;
use memory_core::predicates::registry::{BUILT, TierRow};
use plugin_host::{
    AllowEntry, AllowList, Candidate, HostOptions, Limits, PluginHost, PublicKey, Registry,
    SigningKey, TrustedKey, Wanted, sha256_hex, signature_path,
};
use tempfile::TempDir;
use tokio::runtime::Handle;

/// The real plugin of tier v3, which every build has.
const V3: &str = "tier-v3";

/// Returns a built test plugin, or fails with what to do.
fn built(name: &str) -> Candidate {
    built_in(&plugin_folder().join("test"), name)
}

fn built_in(folder: &Path, name: &str) -> Candidate {
    Registry::new(Some(folder.to_owned()))
        .find(name)
        .unwrap_or_else(|error| {
            panic!("{error}: run `cargo xtask build-plugins --test-plugins` first")
        })
}

fn plugin_folder() -> PathBuf {
    std::env::var_os("STRATA_PLUGIN_DIR").map_or_else(
        || {
            let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
            workspace
                .expect("a crate is in a workspace")
                .join("target/plugins")
        },
        PathBuf::from,
    )
}

/// Returns the wish for a plugin of tier v3 whose blocks show a label.
pub(super) fn wanted(plugin: &str, label: &str) -> Wanted {
    Wanted {
        tier: Tier::V3,
        plugin: plugin.to_owned(),
        config: format!("{{\"label\":\"{label}\"}}"),
        digest: format!("digest of {label}"),
    }
}

/// Returns the wish for the probe with settings of its own; their text is the digest too.
pub(super) fn wanted_with(config: &str) -> Wanted {
    Wanted {
        config: config.to_owned(),
        digest: config.to_owned(),
        ..wanted("probe", "")
    }
}

/// Returns the wish for the real plugin of another tier than v3, with its usual settings; for none if there is no other.
pub(super) fn wanted_other() -> Wanted {
    let Some(TierRow { tier, plugin, .. }) = other() else {
        return Wanted::off();
    };
    let config = Config::default();
    Wanted {
        tier: *tier,
        plugin: (*plugin).to_owned(),
        config: config.tier_config_json(*tier).to_string(),
        digest: config.digest(*tier),
    }
}

/// Returns the wish for the real plugin of tier v3, with its usual settings.
pub(super) fn wanted_v3() -> Wanted {
    let config = Config::default();
    Wanted {
        tier: Tier::V3,
        plugin: V3.to_owned(),
        config: config.tier_config_json(Tier::V3).to_string(),
        digest: config.digest(Tier::V3),
    }
}

fn other() -> Option<&'static TierRow> {
    let mut rows = BUILT.rows().iter();
    rows.rfind(|row| row.tier != Tier::V3)
}

/// Returns a library that has nothing to do with us: one that this very process has loaded.
pub(super) fn foreign_library() -> Vec<u8> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux tells what is mapped");
    let path = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .find(|path| path.contains("/libgcc_s"))
        .expect("a Rust program has libgcc_s mapped");
    std::fs::read(path).expect("it is readable")
}

/// Makes a file one that nobody can read, root included: a link to itself.
pub(super) fn make_unreadable(path: &Path) {
    std::fs::remove_file(path).ok();
    std::os::unix::fs::symlink(path, path).expect("linked");
}

/// A plugin folder, an allow file, a staging folder and a host over them.
pub(super) struct Folder {
    folder: TempDir,
    host: OnceLock<Arc<PluginHost>>,
}

impl Folder {
    pub(super) fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        std::fs::create_dir(folder.path().join("plugins")).expect("made");
        Self {
            folder,
            host: OnceLock::new(),
        }
    }

    pub(super) fn with_probe() -> Self {
        let folder = Self::new();
        folder.add_test_plugin("probe");
        folder
    }

    /// Returns the host, which must be asked for inside a runtime.
    pub(super) fn host(&self) -> &Arc<PluginHost> {
        self.host_with(|_| ())
    }

    /// Returns the host. The first who asks for it may change its limits.
    pub(super) fn host_with(&self, change: impl FnOnce(&mut Limits)) -> &Arc<PluginHost> {
        self.host.get_or_init(|| {
            let mut limits = Limits {
                create: Duration::from_secs(1),
                health: Duration::from_millis(250),
                drain: Duration::from_millis(200),
                grace: Duration::from_millis(100),
                call: Duration::from_mins(1),
                // What comes up late is a matter of tests of its own.
                patience: Duration::from_mins(1),
                arrival: Duration::from_mins(1),
                // Tests change settings more often than people do.
                dwell_window: Duration::ZERO,
                ..Limits::default()
            };
            change(&mut limits);
            let options = HostOptions {
                folder: Some(self.plugins()),
                allow_files: vec![self.allow_file(), self.other_allow_file()],
                staging: self.staging(),
                limits,
            };
            PluginHost::start(options, Handle::current()).expect("the machinery starts")
        })
    }

    /// Copies a test plugin and trusts it.
    pub(super) fn add_test_plugin(&self, name: &str) {
        self.add_test_plugin_as(name, name);
    }

    /// Copies a test plugin under another identifier, trusts it, and returns the path of its library.
    pub(super) fn add_test_plugin_as(&self, name: &str, id: &str) -> PathBuf {
        self.add_plugin(&built(name), id)
    }

    /// Copies the real plugin of another tier than v3 and trusts it.
    pub(super) fn add_other(&self) {
        if let Some(TierRow { plugin, .. }) = other() {
            self.add_plugin(&built_in(&plugin_folder(), plugin), plugin);
        }
    }

    /// Copies the real plugin of tier v3 and trusts it.
    pub(super) fn add_v3(&self) {
        self.add_plugin(&built_in(&plugin_folder(), V3), V3);
    }

    /// Puts another build in the place of `probe`, trusts it, and returns its hash: the same code with bytes behind it that
    /// no loader reads.
    pub(super) fn rebuild_probe(&self) -> String {
        self.add_test_plugin_as("probe", "probe");
        self.change_library("probe", |bytes| bytes.extend(b"another build"))
    }

    /// Changes a plugin's library and makes manifest and allow file fit it. Returns its hash.
    ///
    /// The file is replaced by another of its name, as whoever installs a build does.
    pub(super) fn change_library(&self, id: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
        let library = self.library(id);
        let mut bytes = std::fs::read(&library).expect("read");
        change(&mut bytes);
        let sha256 = sha256_hex(&bytes);
        let temporary = library.with_extension("new");
        std::fs::write(&temporary, &bytes).expect("written");
        std::fs::rename(&temporary, &library).expect("renamed");
        self.edit_manifest(id, |text| {
            let line = |line: &str| match line.split(' ').next() {
                Some("sha256") => format!("sha256 = \"{sha256}\"\n"),
                Some("bytes") => format!("bytes = {}\n", bytes.len()),
                _ => format!("{line}\n"),
            };
            text.lines().map(line).collect()
        });
        self.trust(id, &sha256);
        sha256
    }

    fn add_plugin(&self, built: &Candidate, id: &str) -> PathBuf {
        let name = &built.sidecar.id;
        let library = self.plugins().join(format!("{id}.so"));
        std::fs::copy(&built.library, &library).expect("copied");
        let text = std::fs::read_to_string(&built.manifest).expect("read");
        let text = text
            .replace(&format!("id = \"{name}\""), &format!("id = \"{id}\""))
            .replace(
                &format!("file = \"{}\"", built.sidecar.file),
                &format!("file = \"{id}.so\""),
            );
        std::fs::write(self.manifest(id), text).expect("written");
        self.trust(id, &built.sidecar.sha256);
        library
    }

    /// Adds bytes as the library of a plugin, with a manifest that fits them.
    pub(super) fn add_library_untrusted(&self, id: &str, bytes: &[u8]) -> String {
        std::fs::write(self.plugins().join(format!("{id}.so")), bytes).expect("written");
        let sha256 = sha256_hex(bytes);
        let text = format!(
            "id = \"{id}\"\ntier = \"v3\"\nfile = \"{id}.so\"\nsha256 = \"{sha256}\"\nbytes = {}\nabi = \"1.0.0\"\n\
             requires = []\nuses = []\n",
            bytes.len()
        );
        std::fs::write(self.manifest(id), text).expect("written");
        sha256
    }

    /// Adds bytes as the library of a plugin and trusts them.
    pub(super) fn add_library(&self, id: &str, bytes: &[u8]) {
        let sha256 = self.add_library_untrusted(id, bytes);
        self.trust(id, &sha256);
    }

    /// Changes a manifest's text.
    pub(super) fn edit_manifest(&self, id: &str, edit: impl FnOnce(&str) -> String) {
        let text = std::fs::read_to_string(self.manifest(id)).expect("read");
        std::fs::write(self.manifest(id), edit(&text)).expect("written");
    }

    /// Removes every entry from the allow file.
    pub(super) fn trust_nothing(&self) {
        std::fs::write(self.allow_file(), "").expect("written");
    }

    /// Lists a key.
    pub(super) fn trust_key(&self, id: &str, key: PublicKey, plugins: Option<Vec<String>>) {
        let mut list = AllowList::read(&self.allow_file()).expect("a good list");
        list.trust_key(TrustedKey {
            id: id.to_owned(),
            ed25519: key,
            note: "made by a test".to_owned(),
            plugins,
        });
        std::fs::write(self.allow_file(), list.render()).expect("written");
    }

    /// Signs a plugin's manifest.
    pub(super) fn sign(&self, id: &str, key: &SigningKey) {
        let manifest = std::fs::read(self.manifest(id)).expect("read");
        std::fs::write(self.signature(id), key.sign(&manifest)).expect("written");
    }

    pub(super) fn signature(&self, id: &str) -> PathBuf {
        signature_path(&self.manifest(id))
    }

    fn trust(&self, id: &str, sha256: &str) {
        let mut list = AllowList::read(&self.allow_file()).expect("a good list");
        list.trust(AllowEntry {
            id: id.to_owned(),
            sha256: sha256.to_owned(),
            note: "made by a test".to_owned(),
        });
        std::fs::write(self.allow_file(), list.render()).expect("written");
    }

    pub(super) fn plugins(&self) -> PathBuf {
        self.folder.path().join("plugins")
    }

    pub(super) fn staging(&self) -> PathBuf {
        self.folder.path().join("staging")
    }

    pub(super) fn library(&self, id: &str) -> PathBuf {
        self.plugins().join(format!("{id}.so"))
    }

    pub(super) fn manifest(&self, id: &str) -> PathBuf {
        self.plugins().join(format!("{id}.plugin.toml"))
    }

    pub(super) fn allow_file(&self) -> PathBuf {
        self.folder.path().join("plugins.allow.toml")
    }

    /// Returns a second allow file, which no test has until it writes one.
    pub(super) fn other_allow_file(&self) -> PathBuf {
        self.folder.path().join("other.allow.toml")
    }
}
