//! A home whose tier v3 is the probe, with the real tiers beside it, which must never stand in.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory_core::predicates::registry::BUILT;
use memory_core::services::KvScope;
use memory_core::store::StateStore as _;
use memory_substrate::embed::SeededEmbedder;
use plugin_host::{AllowEntry, AllowList, Registry, sha256_hex};
use strata::{
    Access, Assistant, Check, DoctorOptions, DoctorReport, EmbedderChoice, InitOptions, Injection,
    PluginSource, Severity, Strata, StrataOptions, Tier, TurnInput,
};
use tempfile::TempDir;
use tests::host::plugin_folder;

/// The assistant's name.
const ASSISTANT: &str = "host";

/// How long a tier may take. Long enough for a busy machine, and short enough to be waited for.
const DEADLINE: Duration = Duration::from_secs(1);

/// An open assistant whose tier v3 is the probe.
pub(crate) struct Stage {
    folder: TempDir,
    pub(crate) assistant: Assistant,
}

impl Stage {
    /// Returns an assistant that knows one thing by heart and has not been asked anything yet.
    pub(crate) async fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        std::fs::create_dir_all(folder.path().join("plugins")).expect("made");
        for row in BUILT.rows() {
            put(&folder, &plugin_folder(), row.plugin, b"");
        }
        put(&folder, &plugin_folder().join("test"), "probe", b"");
        let strata = open(&folder);
        let init = InitOptions::default();
        let root = strata.init(ASSISTANT, init).await.expect("made");
        let essentials = root.join("memory/essentials.md");
        std::fs::write(essentials, "Nora is allergic to hazelnuts.\n").expect("written");
        let assistant = strata.assistant(ASSISTANT, Access::ReadWrite).await;
        let stage = Self {
            assistant: assistant.expect("opened"),
            folder,
        };
        stage.configure("UTC", 0);
        stage
    }

    /// Returns an assistant whose probe has this fault from the beginning.
    pub(crate) async fn with_fault(fault: &str) -> Self {
        let stage = Self::new().await;
        stage.fault(fault);
        stage
    }

    /// Gives the probe a fault; its next instance has it.
    pub(crate) fn fault(&self, fault: &str) {
        self.configure(&format!("Probe/{fault}"), 1);
    }

    /// Gives the probe the same fault once more, in settings that differ, so that a new instance is made.
    pub(crate) fn fault_again(&self, fault: &str, number: u32) {
        self.configure(&format!("Probe/{fault}"), number + 20);
    }

    /// Changes the settings in a way that matters to nobody, so that a new instance is made.
    pub(crate) fn reload(&self, number: u32) {
        self.configure("UTC", number + 10);
    }

    fn configure(&self, zone: &str, number: u32) {
        let text = format!(
            "time_zone = \"{zone}\"\n[plugins]\nv3 = \"probe\"\n[memory.v3]\nlive = true\ndenseK = {}\n",
            40 + number
        );
        self.assistant
            .workspace()
            .write_config(&text)
            .expect("written");
    }

    pub(crate) fn switch_off(&self) {
        let text =
            "[plugins]\nv3 = \"probe\"\n[memory]\nenabled = false\n[memory.v3]\nlive = true\n";
        self.assistant
            .workspace()
            .write_config(text)
            .expect("written");
    }

    /// Puts another build in the probe's place and returns its hash: the same code with bytes behind it that no loader
    /// reads.
    pub(crate) fn rebuild(&self) -> String {
        put(
            &self.folder,
            &plugin_folder().join("test"),
            "probe",
            b"another build",
        )
    }

    pub(crate) async fn say(&self, text: &str) -> Injection {
        self.assistant
            .begin_turn(TurnInput::owner("talk", text))
            .await
    }

    /// Returns what the examination says in a process that has not seen anything, as `strata doctor` does.
    pub(crate) async fn doctor_elsewhere(&self) -> DoctorReport {
        open(&self.folder)
            .doctor(ASSISTANT, DoctorOptions::default())
            .await
            .expect("examined")
    }

    /// Returns what the examination says in this process.
    pub(crate) async fn doctor_here(&self) -> DoctorReport {
        let examined = self.assistant.doctor(DoctorOptions::default()).await;
        examined.expect("examined")
    }

    /// Returns what the probe kept of the last event it was told.
    pub(crate) async fn told(&self) -> Option<String> {
        let store = self.assistant.store().await.expect("open");
        let told = store.state().kv_get("v3", KvScope::Assistant, "", "told");
        told.await.expect("read")
    }
}

fn open(folder: &TempDir) -> Strata {
    let home = folder.path().join("home");
    let options = StrataOptions {
        plugins: PluginSource {
            directory: Some(folder.path().join("plugins")),
            allow_files: vec![allow_file(folder)],
            staging: folder.path().join("staging"),
            found_by: "made by a test".to_owned(),
        },
        embedder: EmbedderChoice::Given(Arc::new(SeededEmbedder::default())),
        tier_deadline: DEADLINE,
        ..StrataOptions::new(home)
    };
    Strata::open(options).expect("opened")
}

fn allow_file(folder: &TempDir) -> PathBuf {
    folder.path().join("plugins.allow.toml")
}

/// Copies a built plugin with more bytes behind it, trusts it, and returns its hash.
fn put(folder: &TempDir, from: &std::path::Path, id: &str, more: &[u8]) -> String {
    let built = Registry::new(Some(from.to_owned()))
        .find(id)
        .unwrap_or_else(|error| panic!("{error}: run `cargo xtask build-plugins --test-plugins`"));
    let mut bytes = std::fs::read(&built.library).expect("read");
    bytes.extend(more);
    let sha256 = sha256_hex(&bytes);
    let plugins = folder.path().join("plugins");
    std::fs::write(plugins.join(&built.sidecar.file), &bytes).expect("written");
    let manifest = std::fs::read_to_string(&built.manifest).expect("read");
    let manifest: String = manifest
        .lines()
        .map(|line| match line.split(' ').next() {
            Some("sha256") => format!("sha256 = \"{sha256}\"\n"),
            Some("bytes") => format!("bytes = {}\n", bytes.len()),
            _ => format!("{line}\n"),
        })
        .collect();
    let name = built.manifest.file_name().expect("a manifest has a name");
    std::fs::write(plugins.join(name), manifest).expect("written");
    let mut list = AllowList::read(&allow_file(folder)).expect("a good list");
    list.trust(AllowEntry {
        id: id.to_owned(),
        sha256: sha256.clone(),
        note: "made by a test".to_owned(),
    });
    std::fs::write(allow_file(folder), list.render()).expect("written");
    sha256
}

/// Returns the codes of the notices that matter. That the probe's faults are no time zones does not.
pub(crate) fn codes(injection: &Injection) -> Vec<&str> {
    let matters = |code: &str| code != "time_zone_unknown";
    injection
        .notices
        .iter()
        .filter(|notice| notice.severity != Severity::Info && matters(&notice.code))
        .map(|notice| notice.code.as_str())
        .collect()
}

/// Checks that a turn got what the host knows by itself and nothing else, with one notice.
#[track_caller]
pub(crate) fn assert_static_only(injection: &Injection, code: &str) {
    let blocks: Vec<&str> = injection
        .blocks
        .iter()
        .map(|block| block.tag.as_str())
        .collect();
    assert_eq!(blocks, ["info"], "{injection:?}");
    assert_eq!(codes(injection), [code], "{:?}", injection.notices);
    assert_never_another(injection);
}

/// Checks that the probe served a turn as it should.
#[track_caller]
pub(crate) fn assert_served(injection: &Injection) {
    assert!(
        injection.blocks.iter().any(|block| block.id == "probe"),
        "{:?}",
        injection.notices
    );
    assert_never_another(injection);
}

#[track_caller]
fn assert_never_another(injection: &Injection) {
    let trace = &injection.trace;
    assert_eq!(trace.configured, Tier::V3);
    if let Some(serving) = &trace.serving {
        assert_eq!((serving.tier, serving.plugin.as_str()), (Tier::V3, "probe"));
    }
}

/// Returns the hash of the build that served a turn.
pub(crate) fn build_of(injection: &Injection) -> &str {
    let serving = injection.trace.serving.as_ref();
    serving.map_or("none", |serving| serving.sha256.as_str())
}

/// Returns the findings of one kind.
pub(crate) fn found<'a>(report: &'a DoctorReport, id: &str) -> Vec<&'a Check> {
    report
        .checks
        .iter()
        .filter(|check| check.id == id)
        .collect()
}
