//! A home folder, a folder of notes, and the program to run on them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use memory_core::predicates::registry::BUILT;
use memory_substrate::embed::SeededEmbedder;
use serde_json::Value;
use strata::{
    Access, Assistant, EmbedderChoice, IngestOptions, IngestSource, InitOptions, PluginSearch,
    PluginSource, Strata, StrataOptions,
};

/// Three small pages that link to each other, one of them in German.
const NOTES: [(&str, &str); 3] = [
    (
        "Backups.md",
        "---\ntitle: Backups\norigin_date: 2026-05-04\n---\nHow the archive is saved.\n\n## Schedule\n\nThe archive is copied to \
         the tape robot every Sunday. See [[Tape robot]].\n\n## Restore\n\nA restore from the tape robot was rehearsed in May.\n",
    ),
    (
        "Tape robot.md",
        "---\ntitle: Tape robot\n---\nThe tape robot stands in the cellar.\n\n## Spare parts\n\nA belt is in drawer C.\n",
    ),
    (
        "Röster.md",
        "---\ntitle: Röster\n---\nDer Röster heißt Frieda.\n\n## Reinigung\n\nDer Zyklon wird nach jeder vierten Charge geleert.\n",
    ),
];

/// A home folder and notes, gone with the value.
#[derive(Debug)]
pub(crate) struct Fixture {
    root: tempfile::TempDir,
}

/// What a run of the program came to.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// Returns the one JSON object that was printed.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails unless the program ended with this code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

/// Returns the folder of built plugins.
pub(crate) fn built_plugins() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in the checkout")
        .join("target/plugins");
    for row in BUILT.rows() {
        let manifest = folder.join(format!("{}.plugin.toml", row.plugin));
        assert!(
            manifest.is_file(),
            "`{}` is missing: run `cargo xtask build-plugins`",
            manifest.display()
        );
    }
    folder
}

impl Fixture {
    /// Returns a home folder without an assistant, and notes beside it.
    pub(crate) fn new() -> Self {
        let fixture = Self {
            root: tempfile::tempdir().unwrap(),
        };
        fixture.copy_plugins();
        for (name, text) in NOTES {
            fixture.note(name, text);
        }
        fixture
    }

    /// Returns a home folder with an assistant that has read the notes.
    pub(crate) fn ingested() -> Self {
        let fixture = Self::new();
        fixture
            .run(&["init", "--time-zone", "Europe/Berlin"])
            .expect(0);
        let notes = fixture.path("notes");
        fixture.run(&["ingest", notes.to_str().unwrap()]).expect(0);
        fixture
    }

    /// Copies the built plugins, and the list that trusts them, so that a build meanwhile does no harm.
    fn copy_plugins(&self) {
        std::fs::create_dir_all(self.plugins()).unwrap();
        std::fs::create_dir_all(self.path("home")).unwrap();
        let built = built_plugins();
        for entry in std::fs::read_dir(&built).unwrap() {
            let name = entry.unwrap().file_name();
            if name.to_string_lossy().contains("tier") {
                std::fs::copy(built.join(&name), self.plugins().join(&name)).unwrap();
            }
        }
        let list = built.parent().unwrap().join("plugins.allow.toml");
        std::fs::copy(list, self.path("home/plugins.allow.toml")).unwrap();
    }

    /// Returns this fixture's plugin folder.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.path("plugins")
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    /// Writes a note.
    pub(crate) fn note(&self, name: &str, text: &str) {
        let path = self.path("notes").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Returns the path of a file of the assistant.
    pub(crate) fn workspace(&self, relative: &str) -> PathBuf {
        self.path("home/assistants/default").join(relative)
    }

    /// Changes one bit of a data file of the index.
    pub(crate) fn flip_a_bit_of_the_index(&self) {
        let mut folders = vec![self.workspace("index")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let in_data = path.parent().unwrap().ends_with("data");
                if path.is_dir() {
                    folders.push(path);
                } else if in_data {
                    let mut bytes = std::fs::read(&path).unwrap();
                    let third = bytes.len() / 3;
                    bytes[third] ^= 1;
                    return std::fs::write(path, bytes).unwrap();
                }
            }
        }
        panic!("the index has no data file");
    }

    /// Returns the program, ready to run with built plugins and hashed vectors.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strata"));
        command
            .env_clear()
            .env("STRATA_HOME", self.path("home"))
            .env("STRATA_CACHE_DIR", cache())
            .env("STRATA_PLUGIN_DIR", self.plugins())
            .args(["--embedder", "seeded"])
            .args(arguments)
            .current_dir(self.root.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program.
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        let Output {
            status,
            stdout,
            stderr,
        } = self.command(arguments).output().unwrap();
        Run {
            code: status.code(),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }

    /// Runs the program and returns the data it printed as JSON.
    pub(crate) fn data(&self, arguments: &[&str]) -> Value {
        let all: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let run = self.run(&all);
        let mut printed = run.json();
        assert_eq!(printed["ok"], true, "{run:?}");
        printed["data"].take()
    }

    /// Returns options for the library on the same home folder.
    pub(crate) fn options(&self) -> StrataOptions {
        let home = self.path("home");
        let plugins = PluginSource::search(&PluginSearch {
            given: Some(self.plugins()),
            home: home.clone(),
            cache_dir: Some(cache()),
            ..PluginSearch::default()
        });
        let embedder = EmbedderChoice::Given(Arc::new(SeededEmbedder::default()));
        StrataOptions {
            plugins,
            embedder,
            ..StrataOptions::new(home)
        }
    }

    /// Returns an assistant of the library that has read the notes.
    pub(crate) async fn assistant(&self) -> Assistant {
        let strata = Strata::open(self.options()).unwrap();
        strata
            .init("default", InitOptions::default())
            .await
            .unwrap();
        let assistant = strata
            .assistant("default", Access::ReadWrite)
            .await
            .unwrap();
        let source = IngestSource::Folder(self.path("notes"));
        let go_on = &mut |_| std::ops::ControlFlow::Continue(());
        assistant
            .ingest(source, IngestOptions::default(), go_on)
            .await
            .unwrap();
        assistant
    }

    /// Opens the assistant again, as after a restart.
    pub(crate) async fn reopen(&self, access: Access) -> Assistant {
        Strata::open(self.options())
            .unwrap()
            .assistant("default", access)
            .await
            .unwrap()
    }
}

/// Returns the cache folder of all tests: staged plugins are the same for each of them.
fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("strata-cache")
}

#[test]
fn no_file_of_these_tests_is_forgotten() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = std::fs::read_to_string(folder.join("main.rs")).unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.strip_suffix(".rs").unwrap();
        assert!(
            module == "main" || main.contains(&format!("\nmod {module};")),
            "`{name}` is not compiled"
        );
    }
}
