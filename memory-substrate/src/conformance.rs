//! The stores on this machine against the suites that every implementation is held to.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use memory_core::embed::SpaceId;
use memory_core::env::{Fs, ManualClock, SeededRng};
use memory_core::store::{IndexSpace, conformance};

use crate::evidence::EvidenceJournal;
use crate::fs::RealFs;
use crate::index::{IndexHome, LanceIndex, ROW_SCHEMA};
use crate::pages::FilePages;
use crate::state::SqliteState;
use crate::workspace::{AssistantId, Workspace};
use crate::writer::testing;

/// A store in a folder of its own.
struct Place<T> {
    store: T,
    folder: tempfile::TempDir,
}

impl<T> Deref for Place<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.store
    }
}

impl<T> Place<T> {
    async fn new(open: impl AsyncFn(&Path) -> T) -> Self {
        let folder = testing::fast_folder();
        let store = open(folder.path()).await;
        Self { store, folder }
    }

    async fn again(self, open: impl AsyncFn(&Path) -> T) -> Self {
        let Self { store, folder } = self;
        // The lock is held as long as the store lives.
        drop(store);
        let store = open(folder.path()).await;
        Self { store, folder }
    }
}

fn fs() -> Arc<dyn Fs> {
    Arc::new(RealFs)
}

async fn pages(folder: &Path) -> FilePages {
    let id = AssistantId::new("kiwi").unwrap();
    let writer = match Workspace::open(folder, &id, fs()) {
        Ok(workspace) => testing::open(&workspace),
        Err(_) => testing::create(folder, fs()),
    };
    FilePages::of_writer(&writer)
}

#[tokio::test]
async fn page_files_keep_every_rule() {
    conformance::pages::suite(async || Place::new(pages).await)
        .await
        .require_clean();
    let reopen = async |place: Place<FilePages>| place.again(pages).await;
    conformance::pages::survives(async || Place::new(pages).await, reopen)
        .await
        .require_clean();
}

async fn state(folder: &Path) -> SqliteState {
    SqliteState::open(&folder.join("state.db"), &ManualClock::default()).unwrap()
}

#[tokio::test]
async fn the_state_database_keeps_every_rule() {
    let make = async || Place::new(state).await;
    let reopen = async |place: Place<SqliteState>| place.again(state).await;
    conformance::state::suite(make).await.require_clean();
    conformance::state::survives(make, reopen)
        .await
        .require_clean();
    conformance::tree::suite(make).await.require_clean();
    conformance::tree::survives(make, reopen)
        .await
        .require_clean();
}

async fn index_of(folder: &Path, dims: u32) -> LanceIndex {
    let records = Arc::new(state(folder).await);
    let home = IndexHome::new(fs(), folder.join("index"), records);
    let space = IndexSpace {
        segmentation: "test".to_owned(),
        embedding: (dims > 0).then(|| SpaceId::new("test")),
        dims,
        schema: ROW_SCHEMA,
    };
    match LanceIndex::open(&home, &space, true).await.unwrap() {
        Some(opened) => opened.index,
        None => LanceIndex::create(&home, &space).await.unwrap(),
    }
}

async fn index(folder: &Path) -> LanceIndex {
    index_of(folder, 8).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_index_keeps_every_rule() {
    let make = async || Place::new(index).await;
    let reopen = async |place: Place<LanceIndex>| place.again(index).await;
    conformance::index::suite(make).await.require_clean();
    conformance::index::survives(make, reopen)
        .await
        .require_clean();
    let without = async |folder: &Path| index_of(folder, 0).await;
    conformance::index::suite_without_vectors(async || Place::new(without).await)
        .await
        .require_clean();
}

async fn evidence(folder: &Path) -> EvidenceJournal {
    let rng = Arc::new(SeededRng::new(1));
    EvidenceJournal::new(fs(), folder.join("evidence"), rng)
}

#[tokio::test]
async fn the_evidence_journal_keeps_every_rule() {
    let make = async || Place::new(evidence).await;
    let reopen = async |place: Place<EvidenceJournal>| place.again(evidence).await;
    conformance::evidence::suite(make).await.require_clean();
    conformance::evidence::survives(make, reopen)
        .await
        .require_clean();
}
