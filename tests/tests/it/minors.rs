//! Minor versions of the border, in both directions and really built: the side that is older answers with a default.
//!
//! The newer border is a changed copy (`tests/plugins/variants.toml`): a method more on the host's side, which the plugin
//! calls, and one more on the tier's side, which the host calls. The present host runs in this process; the newer one is a
//! program of its own, because one process has one border.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::abi::VERSION;
use memory_core::env::ManualClock;
use memory_core::predicates::Tier;
use memory_core::services::{Call, CallScope, Message, Messages, ServiceResult, Services};
use memory_core::tier::TurnRequest;
use plugin_host::{AllowEntry, AllowList, HostOptions, PluginHost, Registry, Wanted, new_call};
use tempfile::TempDir;
use tests::host::plugin_folder;
use tokio::runtime::Handle;

/// Version of the changed copy.
const NEWER: &str = "1.1.0";

/// The built test plugin `name` in a folder of its own, trusted, under the name that its library gives itself.
struct Installed {
    folder: TempDir,
}

const PLUGIN: &str = "probe";

impl Installed {
    fn new(name: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let plugins = folder.path().join("plugins");
        std::fs::create_dir(&plugins).expect("made");
        let built = Registry::new(Some(plugin_folder().join("test")))
            .find(name)
            .unwrap_or_else(|error| {
                panic!("{error}: run `cargo xtask build-plugins --test-plugins` first")
            });
        let library = plugins.join(&built.sidecar.file);
        std::fs::copy(&built.library, library).expect("copied");
        let manifest = std::fs::read_to_string(&built.manifest).expect("read");
        let manifest = manifest.replace(&format!("id = \"{name}\""), &format!("id = \"{PLUGIN}\""));
        std::fs::write(plugins.join(format!("{PLUGIN}.plugin.toml")), manifest).expect("written");
        let mut list = AllowList::default();
        list.trust(AllowEntry {
            id: PLUGIN.to_owned(),
            sha256: built.sidecar.sha256,
            note: "made by a test".to_owned(),
        });
        let installed = Self { folder };
        std::fs::write(installed.path("allow.toml"), list.render()).expect("written");
        installed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Returns what the newer host prints about a plugin.
fn ask_newer_host(plugin: &Installed) -> Vec<String> {
    let program = plugin_folder().join("test/hosts/newer-minor");
    assert!(
        Path::new(&program).is_file(),
        "`{}` is missing: run `cargo xtask build-plugins --test-plugins` first",
        program.display()
    );
    let output = Command::new(program)
        .args([
            plugin.path("plugins"),
            plugin.path("allow.toml"),
            plugin.path("staging"),
        ])
        .arg(PLUGIN)
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

/// Messages of a host that knows nothing of a number.
struct NoMessages;

#[async_trait]
impl Messages for NoMessages {
    async fn recent(&self, _call: &Call, _limit: u32) -> ServiceResult<Vec<Message>> {
        Ok(Vec::new())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_plugin_gets_the_default_of_a_method_this_host_does_not_have() {
    let plugin = Installed::new("newer-minor");
    let options = HostOptions {
        folder: Some(plugin.path("plugins")),
        allow_files: vec![plugin.path("allow.toml")],
        staging: plugin.path("staging"),
        ..HostOptions::default()
    };
    let host = PluginHost::start(options, Handle::current()).expect("the machinery starts");
    let slot = host.slot("ada");
    let services = Services {
        messages: Some(Arc::new(NoMessages)),
        clock: Some(Arc::new(ManualClock::default())),
        ..Services::default()
    };
    let wanted = Wanted {
        tier: Tier::V3,
        plugin: PLUGIN.to_owned(),
        config: "{\"label\":\"present\"}".to_owned(),
        digest: String::new(),
    };
    slot.ensure(&wanted, &services).await;
    assert_eq!(slot.status().problem, None);
    let abi: Vec<String> = host
        .builds()
        .iter()
        .map(|build| build.manifest().abi.clone())
        .collect();
    assert_eq!(abi, [NEWER]);
    assert_ne!(VERSION, NEWER, "one of the two must be older");

    let turn = slot.pin().expect("it serves");
    let (call, _control) = new_call(CallScope::default(), Duration::from_mins(1));
    let request = TurnRequest {
        user_message: "newer".to_owned(),
        ..TurnRequest::default()
    };
    let plan = turn.begin_turn(&call, request).await.expect("it answers");
    assert_eq!(
        plan.blocks[0].text, "label: present\nmessages.total: 0",
        "the default of the border"
    );
    assert!(turn.health(&call).await.expect("it answers").ok);
}

#[test]
fn an_older_plugin_answers_a_newer_host_with_the_default() {
    assert_eq!(
        ask_newer_host(&Installed::new(PLUGIN)),
        [
            "host: 1.1.0",
            &format!("plugin: {VERSION}"),
            "label: minor",
            "messages.total: not in this border",
            "prepare: nothing to prepare",
        ]
    );
}

#[test]
fn both_sides_of_a_newer_border_use_what_was_added() {
    assert_eq!(
        ask_newer_host(&Installed::new("newer-minor")),
        [
            "host: 1.1.0",
            "plugin: 1.1.0",
            "label: minor",
            "messages.total: 42",
            "prepare: prepared talk",
        ]
    );
}
