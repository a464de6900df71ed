//! An assistant in a temporary folder, for tests, and processes that work on it beside the test.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memory_core::embed::Embedder;
use memory_core::env::{CountingIds, ManualClock};
use memory_core::predicates::Tier;
use memory_core::services::{Notice, Services};
use memory_core::time::Timestamp;

use super::{AssistantStore, OpenMode, OpenOptions};
use crate::embed::SeededEmbedder;
use crate::fs::RealFs;
use crate::services::every_service;
use crate::workspace::{AssistantId, Workspace};

/// Length of the test model's vectors.
pub(crate) const DIMS: usize = 32;

/// Runs a test on a runtime as the program has one.
pub(crate) fn runtime<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(test)
}

impl AssistantStore {
    /// Returns every service there is, whatever the row of a tier allows and whether this build has the tier.
    pub(crate) fn every_service(&self, tier: Tier) -> Services {
        every_service(&self.engine.shared, tier)
    }
}

/// An assistant's folder.
#[derive(Debug)]
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
    home: PathBuf,
    pub(crate) workspace: Workspace,
    pub(crate) clock: Arc<ManualClock>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::in_home("")
    }

    /// Makes an assistant in a home that lies so deep in a temporary folder.
    pub(crate) fn in_home(below: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = folder.path().join(below);
        let id = AssistantId::new("test").expect("a name");
        let workspace = Workspace::create(&home, &id, "", Arc::new(RealFs)).expect("a workspace");
        Self {
            folder,
            home,
            workspace,
            clock: clock(),
        }
    }

    /// Returns the temporary folder.
    pub(crate) fn around(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the home that the assistant is in.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Returns a process that runs an ignored test of this program on this home.
    pub(crate) fn process(&self, test: &str) -> Command {
        let mut command = process(test);
        command.env(HOME, self.home());
        command
    }

    pub(crate) fn page(&self, name: &str) -> PathBuf {
        self.workspace.concepts_dir().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        write(&self.page(name), text);
    }

    pub(crate) fn write_pkb(&self, name: &str, text: &str) {
        write(&self.workspace.pkb_dir().join(name), text);
    }

    pub(crate) async fn open(&self) -> AssistantStore {
        self.open_with(Some(Arc::new(SeededEmbedder::new(DIMS))))
            .await
            .0
    }

    pub(crate) async fn open_with(
        &self,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> (AssistantStore, Vec<Notice>) {
        let lock = self.workspace.lock("test").expect("nobody else writes");
        self.open_as(OpenMode::ReadWrite(lock), embedder).await
    }

    pub(crate) async fn open_read_only(&self) -> AssistantStore {
        self.open_as(
            OpenMode::ReadOnly,
            Some(Arc::new(SeededEmbedder::new(DIMS))),
        )
        .await
        .0
    }

    /// Closes a store and opens the assistant without a model.
    pub(crate) async fn reopen_lexical(&self, store: AssistantStore) -> AssistantStore {
        drop(store);
        self.open_with(None).await.0
    }

    async fn open_as(
        &self,
        mode: OpenMode,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> (AssistantStore, Vec<Notice>) {
        AssistantStore::open(OpenOptions {
            workspace: self.workspace.clone(),
            mode,
            clock: self.clock.clone(),
            ids: ids(),
            embedder,
        })
        .await
        .expect("an assistant can be opened")
    }
}

/// The variable that tells a process where its home is.
const HOME: &str = "STRATA_TEST_HOME";

/// Returns a process that runs an ignored test of this program and is listened to.
pub(crate) fn process(test: &str) -> Command {
    let program = std::env::current_exe().expect("a program knows where it is");
    let mut command = Command::new(program);
    command
        .args([test, "--exact", "--ignored", "--nocapture"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// Opens the assistant of the test that started this process.
pub(crate) async fn open_here() -> (Workspace, AssistantStore) {
    let home = std::env::var_os(HOME).expect("the test says where");
    let id = AssistantId::new("test").expect("a name");
    let workspace = Workspace::open(Path::new(&home), &id, Arc::new(RealFs)).expect("it is there");
    let lock = workspace.lock("test").expect("nobody else writes");
    let opened = AssistantStore::open(OpenOptions {
        workspace: workspace.clone(),
        mode: OpenMode::ReadWrite(lock),
        clock: clock(),
        ids: ids(),
        embedder: Some(Arc::new(SeededEmbedder::new(DIMS))),
    });
    let (store, _) = opened.await.expect("an assistant can be opened");
    (workspace, store)
}

/// Says a figure at once, so that it is heard even if this process ends with it.
pub(crate) fn say(name: &str, value: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{name}={value}")
        .and_then(|()| out.flush())
        .expect("somebody listens");
}

/// Returns the value that a line of a process says of a figure.
pub(crate) fn said<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (before, value) = line.split_once(&format!("{name}="))?;
    // The test harness may have begun the line.
    (before.is_empty() || before.ends_with(' ')).then_some(value)
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_millis(1_796_050_800_000)))
}

/// Operations keep their identifiers, so whoever opens an assistant next must make others.
fn ids() -> Arc<CountingIds> {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let (process, opened) = (std::process::id(), OPENED.fetch_add(1, Ordering::Relaxed));
    Arc::new(CountingIds::new(format!("p{process}o{opened}n")))
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder");
    std::fs::write(path, text).expect("a file");
}
