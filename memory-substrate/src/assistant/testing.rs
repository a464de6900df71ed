//! An assistant in a temporary folder, for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    _folder: tempfile::TempDir,
    pub(crate) workspace: Workspace,
    pub(crate) clock: Arc<ManualClock>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let id = AssistantId::new("test").expect("a name");
        let workspace =
            Workspace::create(folder.path(), &id, "", Arc::new(RealFs)).expect("a workspace");
        Self {
            _folder: folder,
            workspace,
            clock: Arc::new(ManualClock::at(Timestamp::from_millis(1_796_050_800_000))),
        }
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
            ids: Arc::new(CountingIds::new("m")),
            embedder,
        })
        .await
        .expect("an assistant can be opened")
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder");
    std::fs::write(path, text).expect("a file");
}
