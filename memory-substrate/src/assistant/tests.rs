//! Tests of an assistant as a whole: opening, keeping up with edits, interruption, damage and change of model.

use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::Poll;

use memory_core::embed::{EmbedError, SpaceId, Vectors};
use memory_core::store::IndexStore as _;
use memory_core::text::section::SectionId;

use super::testing::{DIMS, Fixture, runtime};
use super::*;
use crate::embed::SeededEmbedder;
use crate::fs::faulty::{Fault, FaultyFs, Reached};
use crate::ingest::{IngestOptions, IngestSource};
use crate::segment;
use crate::snapshot::{TermSearch, Visibility};
use crate::sync::SyncProgress;

mod damage;
mod faults;
mod following;
mod hostile;
mod killed;
mod large;
mod many;
mod models;
mod reconcile;
mod secrets;
mod upkeep;
mod zones;

fn go_on(_: SyncProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn found(store: &AssistantStore, text: &str) -> Vec<SectionId> {
    let terms = segment::analyze(text);
    let search = TermSearch {
        terms: &terms,
        head_weight: 2.5,
        body_weight: 1.0,
        k1: 1.5,
        b: 0.75,
        limit: 5,
        best_per_page: true,
    };
    let hits = store
        .snapshot()
        .lexical_search(&search, &Visibility::channels([]));
    hits.into_iter().map(|hit| hit.id).collect()
}

async fn near(store: &AssistantStore, text: &str) -> Vec<SectionId> {
    let embedder = store.embedder().expect("opened with a model");
    let vector = embedder
        .embed(vec![text.to_owned()])
        .await
        .expect("embedded");
    let hits = store
        .snapshot()
        .dense_search(vector.row(0), 5, &Visibility::channels([]));
    hits.into_iter().map(|hit| hit.id).collect()
}

/// What an index holds, as far as two builds must agree on it.
async fn row_set(store: &AssistantStore) -> BTreeSet<(String, String, bool)> {
    let index = store.engine.index.load_full().expect("an index");
    let rows = index.all_rows().await.expect("rows");
    let count = rows.len();
    let set: BTreeSet<_> = rows
        .into_iter()
        .map(|row| (row.id.key(), row.text_hash, row.vector.is_some()))
        .collect();
    assert_eq!(set.len(), count, "no row is there twice");
    set
}

fn write_pages(fixture: &Fixture, count: usize) {
    for number in 0..count {
        let text = format!(
            "# Page {number}\n\nLead of page {number} about harbour{}.\n\n## Plan\n\nStep {number} of the plan.\n\n## Empty\n\n## Notes\n\n今天玩成语接龙游戏 number{number}\n",
            number % 10
        );
        fixture.write(&format!("area-{}/page-{number}.md", number % 20), &text);
    }
}

/// Works like the seeded model under another name.
#[derive(Debug)]
struct Renamed(SpaceId, SeededEmbedder);

#[async_trait::async_trait]
impl Embedder for Renamed {
    fn space(&self) -> &SpaceId {
        &self.0
    }

    fn dims(&self) -> usize {
        self.1.dims()
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vectors, EmbedError> {
        self.1.embed(texts).await
    }
}

fn another_model() -> Arc<dyn Embedder> {
    Arc::new(Renamed(SpaceId::new("another"), SeededEmbedder::new(DIMS)))
}

/// Refuses one text and fails while it is told to.
#[derive(Debug)]
struct Moody {
    inner: SeededEmbedder,
    fails: std::sync::atomic::AtomicBool,
}

#[async_trait::async_trait]
impl Embedder for Moody {
    fn space(&self) -> &SpaceId {
        self.inner.space()
    }

    fn dims(&self) -> usize {
        self.inner.dims()
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vectors, EmbedError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(EmbedError::Failed {
                reason: "out of breath".to_owned(),
            });
        }
        if texts.iter().any(|text| text.contains("poison")) {
            return Err(EmbedError::BadInput {
                reason: "not this".to_owned(),
            });
        }
        self.inner.embed(texts).await
    }
}

#[test]
fn a_thousand_pages_are_indexed_completely_and_an_interruption_changes_nothing() {
    runtime(async {
        let fixture = Fixture::new();
        write_pages(&fixture, 1_000);
        let (store, notices) = fixture
            .open_with(Some(Arc::new(SeededEmbedder::new(DIMS))))
            .await;
        assert!(
            notices.iter().any(|notice| notice.code == "index_behind"),
            "{notices:?}"
        );
        assert!(
            !found(&store, "harbour3").is_empty(),
            "found by keyword before anything is indexed"
        );

        let mut seen = Vec::new();
        let report = store
            .sync(&mut |step| {
                seen.push(step);
                if seen.len() == 3 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .await
            .expect("synchronised");
        assert!(report.stopped && report.pages < 1_000, "{report:?}");
        drop(store);

        let (store, _) = fixture
            .open_with(Some(Arc::new(SeededEmbedder::new(DIMS))))
            .await;
        let waiting = store.stats().await.expect("counted").waiting;
        assert_eq!(waiting, 1_000 - report.pages, "what was done stays done");
        let mut steps = Vec::new();
        let report = store
            .sync(&mut |step| {
                steps.push(step);
                go_on(step)
            })
            .await
            .expect("synchronised");
        assert!(!report.stopped);
        assert_eq!(report.pages, waiting);
        assert!(
            steps.is_sorted_by(|left, right| left.done <= right.done),
            "progress never goes down"
        );
        assert_eq!(steps.last().map(|step| step.done), Some(waiting));
        let interrupted = row_set(&store).await;

        let stats = store.stats().await.expect("counted");
        let index = stats.index.expect("an index");
        assert_eq!(
            (index.rows, stats.sections, stats.waiting),
            (4_000, 4_000, 0)
        );
        assert_eq!(stats.vectors, 3_000, "empty sections have no vector");
        assert!(index.files <= 200, "{index:?}");
        assert!(store.integrity().await.expect("compared").is_clean());
        drop(store);

        std::fs::remove_dir_all(fixture.workspace.index_dir()).expect("removed");
        let store = fixture.open().await;
        store.sync(&mut go_on).await.expect("synchronised");
        assert_eq!(
            row_set(&store).await,
            interrupted,
            "a clean build has the same rows"
        );
        assert!(
            store
                .stats()
                .await
                .expect("counted")
                .index
                .is_some_and(|index| index.files <= 200)
        );
    });
}

#[test]
fn an_edit_is_found_at_once_by_word_and_by_meaning() {
    runtime(async {
        let fixture = Fixture::new();
        write_pages(&fixture, 30);
        let store = fixture.open().await;
        store.sync(&mut go_on).await.expect("synchronised");
        assert_eq!(
            store.refresh().await.expect("refreshed"),
            RefreshReport::default()
        );

        fixture.write(
            "new/fresh.md",
            "# Fresh\n\nThe zeppelin lands on the roof.\n",
        );
        fixture.write(
            "area-1/page-1.md",
            "# Page 1\n\nNow about marmalade jars.\n\n## Plan\n\nStep 1 of the plan.\n",
        );
        std::fs::remove_file(fixture.page("area-2/page-2.md")).expect("removed");
        let report = store.refresh().await.expect("refreshed");
        assert_eq!(
            report,
            RefreshReport {
                changed: 2,
                removed: 1,
                waiting: 0
            }
        );
        assert_eq!(found(&store, "zeppelin")[0].slug.as_str(), "new/fresh");
        assert_eq!(
            near(&store, "The zeppelin lands on the roof.").await[0]
                .slug
                .as_str(),
            "new/fresh"
        );
        assert_eq!(found(&store, "marmalade")[0].slug.as_str(), "area-1/page-1");
        assert!(found(&store, "number2").is_empty());
        assert!(store.integrity().await.expect("compared").is_clean());
        let index = store.engine.index.load_full().expect("an index");
        let in_index = index.search_terms("zeppelin", 3).await.expect("searched");
        assert_eq!(in_index.len(), 1);
        drop((index, store));

        // Another process sees the same.
        let reader = fixture.open_read_only().await;
        assert_eq!(found(&reader, "zeppelin")[0].slug.as_str(), "new/fresh");
        fixture.write("new/later.md", "# Later\n\nA submarine surfaces.\n");
        reader.refresh().await.expect("refreshed");
        assert_eq!(found(&reader, "submarine")[0].slug.as_str(), "new/later");
        assert_eq!(
            near(&reader, "A submarine surfaces.").await[0]
                .slug
                .as_str(),
            "new/later"
        );
        let refused = reader.reindex(&mut go_on).await;
        assert!(matches!(refused, Err(StoreError::BadRequest { .. })));
    });
}

#[test]
fn unchanged_sections_keep_their_vectors() {
    runtime(async {
        let fixture = Fixture::new();
        fixture.write(
            "page.md",
            "# Page\n\nOne.\n\n## Two\n\nSecond.\n\n## Three\n\nThird.\n",
        );
        let store = fixture.open().await;
        let report = store.sync(&mut go_on).await.expect("synchronised");
        assert_eq!((report.embedded, report.reused), (3, 0));
        fixture.write(
            "page.md",
            "# Page\n\nOne.\n\n## New\n\nInserted.\n\n## Two\n\nSecond!\n\n## Three\n\nThird.\n",
        );
        store.look(true).await.expect("looked");
        let report = store.sync(&mut go_on).await.expect("synchronised");
        assert_eq!((report.embedded, report.reused), (2, 2));
        assert!(store.integrity().await.expect("compared").is_clean());
    });
}

#[test]
fn vectors_of_two_models_are_never_mixed() {
    runtime(async {
        let fixture = Fixture::new();
        write_pages(&fixture, 25);
        let store = fixture.open().await;
        store.sync(&mut go_on).await.expect("synchronised");
        drop(store);

        let (store, notices) = fixture.open_with(Some(another_model())).await;
        assert!(
            notices
                .iter()
                .any(|notice| notice.code == "index_of_another_space"),
            "{notices:?}"
        );
        assert_eq!(store.snapshot().dims(), 0);
        assert!(!found(&store, "harbour3").is_empty());
        let dense = store
            .services(Tier::V3, &Capability::ALL)
            .dense
            .expect("offered");
        let call = crate::services::testing::owner();
        assert!(dense.space(&call).await.is_err());
        // Until then the owner may go back to the first model, whose index is still there.
        store.sync(&mut go_on).await.expect("synchronised");
        drop((store, dense));
        let (store, notices) = fixture
            .open_with(Some(Arc::new(SeededEmbedder::new(DIMS))))
            .await;
        assert!(notices.is_empty(), "{notices:?}");
        assert_eq!(store.stats().await.expect("counted").vectors, 75);
        drop(store);

        let (store, _) = fixture.open_with(Some(another_model())).await;
        let report = store.reindex(&mut go_on).await.expect("made anew");
        assert_eq!((report.pages, report.embedded), (25, 75));
        assert!(!near(&store, "Step 3 of the plan.").await.is_empty());
        assert_eq!(
            store.stats().await.expect("counted").space,
            Some(SpaceId::new("another"))
        );
        assert_eq!(store.engine.home.spaces().expect("listed").len(), 1);
        drop(store);
        let (store, notices) = fixture.open_with(Some(another_model())).await;
        assert!(notices.is_empty(), "{notices:?}");
        assert_eq!(store.stats().await.expect("counted").waiting, 0);
        // Without any model the index with vectors is kept for when it comes back.
        let lexical = fixture.reopen_lexical(store).await;
        lexical.sync(&mut go_on).await.expect("synchronised");
        assert!(!found(&lexical, "harbour3").is_empty());
        assert_eq!(lexical.engine.home.spaces().expect("listed").len(), 2);
    });
}

#[test]
fn making_the_index_anew_can_be_interrupted() {
    runtime(async {
        let fixture = Fixture::new();
        write_pages(&fixture, 450);
        let store = fixture.open().await;
        store.sync(&mut go_on).await.expect("synchronised");
        let before = row_set(&store).await;
        let report = store
            .reindex(&mut |_| ControlFlow::Break(()))
            .await
            .expect("stopped");
        assert!(report.stopped);
        assert_eq!(row_set(&store).await, before, "the old one serves on");
        let mut calls = 0;
        let report = store
            .reindex(&mut |step| {
                calls += 1;
                if step.done >= 200 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .await
            .expect("stopped");
        assert!(report.stopped && calls > 0);
        let done = report.pages;
        let report = store.reindex(&mut go_on).await.expect("made anew");
        assert_eq!(report.pages, 450 - done, "it goes on where it was");
        assert_eq!(row_set(&store).await, before);
    });
}

#[test]
fn one_refused_text_costs_one_vector_and_a_failing_model_no_page() {
    runtime(async {
        let fixture = Fixture::new();
        write_pages(&fixture, 5);
        fixture.write(
            "bad.md",
            "# Bad\n\nThis is poison.\n\n## Good\n\nThis is fine.\n",
        );
        let moody = Arc::new(Moody {
            inner: SeededEmbedder::new(DIMS),
            fails: true.into(),
        });
        let (store, _) = fixture.open_with(Some(moody.clone())).await;
        assert!(store.sync(&mut go_on).await.is_err());
        assert_eq!(store.stats().await.expect("counted").waiting, 6);
        let report = store
            .refresh()
            .await
            .expect("a turn is served all the same");
        assert_eq!(report.waiting, 6);
        assert!(
            store
                .take_notices()
                .iter()
                .any(|notice| notice.code == "index_behind")
        );
        assert!(!found(&store, "poison").is_empty());
        moody.fails.store(false, Ordering::SeqCst);
        let report = store.sync(&mut go_on).await.expect("synchronised");
        assert_eq!((report.pages, report.without_vector.len()), (6, 1));
        assert_eq!(near(&store, "This is fine.").await[0].slug.as_str(), "bad");
        assert_eq!(store.stats().await.expect("counted").waiting, 0);
    });
}

#[test]
fn ingesting_indexes_and_tells_how_far_it_is() {
    runtime(async {
        let fixture = Fixture::new();
        let notes = tempfile::tempdir().expect("a temporary folder");
        for number in 0..7 {
            std::fs::write(
                notes.path().join(format!("Note {number}.md")),
                format!("# Note {number}\n\nAbout quince {number}.\n"),
            )
            .expect("written");
        }
        let store = fixture.open().await;
        let (mut read, mut indexed) = (0, 0);
        let (ingested, synced) = store
            .ingest_and_index(
                IngestSource::Folder(notes.path().to_owned()),
                IngestOptions::default(),
                &mut |step| {
                    match step {
                        EngineProgress::Reading { done, .. } => read = done,
                        EngineProgress::Indexing(step) => indexed = step.done,
                        EngineProgress::Repairing(_) => panic!("nothing is repaired"),
                    }
                    ControlFlow::Continue(())
                },
            )
            .await
            .expect("ingested");
        let synced = synced.expect("indexed");
        assert_eq!(
            (ingested.written, synced.pages, read, indexed),
            (7, 7, 7, 7)
        );
        assert_eq!(found(&store, "quince").len(), 5);
        assert!(!near(&store, "About quince 3.").await.is_empty());
        assert!(store.integrity().await.expect("compared").is_clean());
    });
}

/// Counts how often it is asked, and lets others run before it answers.
#[derive(Debug)]
struct Counted {
    inner: SeededEmbedder,
    calls: AtomicUsize,
}

impl Counted {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: SeededEmbedder::new(DIMS),
            calls: AtomicUsize::new(0),
        })
    }
}

#[async_trait::async_trait]
impl Embedder for Counted {
    fn space(&self) -> &SpaceId {
        self.inner.space()
    }

    fn dims(&self) -> usize {
        self.inner.dims()
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vectors, EmbedError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.inner.embed(texts).await
    }
}

/// Drops work in the middle: once the model was asked that often, after that many more steps. Returns what came out if
/// it was done before.
async fn cut_off<T>(
    work: impl Future<Output = T>,
    model: &Counted,
    asked: usize,
    mut steps: usize,
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if model.calls.load(Ordering::SeqCst) < asked => Poll::Pending,
        Poll::Pending if steps == 0 => Poll::Ready(None),
        Poll::Pending => {
            steps -= 1;
            Poll::Pending
        }
    })
    .await
}

/// A batch has two hundred pages here, for which the model is asked five times. Each case runs on a runtime of its own,
/// with which everything that was under way ends.
#[test]
fn work_that_is_dropped_in_the_middle_of_a_batch_is_completed_by_the_next_run() {
    let fixture = Fixture::new();
    let notes = tempfile::tempdir().expect("a temporary folder");
    for number in 0..1_000 {
        let text = format!(
            "# Note {number}\n\nAbout quince {number}.\n\n## Plan\n\nStep {number}.\n\n## Rest\n\nOf {number}.\n"
        );
        std::fs::write(notes.path().join(format!("note-{number}.md")), text).expect("written");
    }
    let ingest = async |store: &AssistantStore| {
        let source = IngestSource::Folder(notes.path().to_owned());
        store
            .ingest_and_index(source, IngestOptions::default(), &mut |_| {
                ControlFlow::Continue(())
            })
            .await
            .expect("ingested")
    };
    let mut left_behind = Vec::new();
    let mut dropped = 0;
    for (asked, steps) in [(1, 0), (3, 0), (5, 1), (5, 2), (5, 4), (5, 8), (5, 16)] {
        runtime(async {
            let model = Counted::new();
            let (store, _) = fixture.open_with(Some(model.clone())).await;
            left_behind.push(row_set(&store).await);
            let done = cut_off(ingest(&store), &model, asked, steps).await;
            dropped += usize::from(done.is_none());
        });
    }
    assert!(dropped >= 5, "only {dropped} runs were interrupted");

    runtime(async {
        let model = Counted::new();
        let (store, _) = fixture.open_with(Some(model.clone())).await;
        left_behind.push(row_set(&store).await);
        // Whoever drops a call and keeps the assistant open loses nothing either.
        let waiting = store.stats().await.expect("counted").waiting;
        if cut_off(store.sync(&mut go_on), &model, 1, 0)
            .await
            .is_none()
        {
            assert_eq!(store.stats().await.expect("counted").waiting, waiting);
        }
        let (ingested, _) = ingest(&store).await;
        assert_eq!((ingested.written, ingested.unchanged), (0, 1_000));
        let completed = row_set(&store).await;
        assert_eq!(completed.len(), 3_000);
        for rows in &left_behind {
            assert!(
                rows.is_subset(&completed),
                "no interruption leaves other rows"
            );
        }
        let stats = store.stats().await.expect("counted");
        assert_eq!((stats.waiting, stats.vectors), (0, 3_000));
        assert!(stats.index.is_some_and(|index| index.files <= 200));
        assert!(store.integrity().await.expect("compared").is_clean());
        drop(store);

        std::fs::remove_dir_all(fixture.workspace.index_dir()).expect("removed");
        let store = fixture.open().await;
        store.sync(&mut go_on).await.expect("synchronised");
        assert_eq!(row_set(&store).await, completed, "as a clean run makes it");
    });
}

#[test]
fn a_page_that_changes_while_a_rebuild_is_put_into_use_still_waits() {
    runtime(async {
        let fixture = Fixture::new();
        write_pages(&fixture, 5);
        let store = fixture.open().await;
        store.sync(&mut go_on).await.expect("synchronised");
        let (finished, is_finished) = mpsc::channel();
        let (locked, is_locked) = mpsc::channel();
        let changed = fixture.page("area-1/page-1.md");
        let turn = store.clone();
        // Does what a turn does that takes a change in, as late as it can come.
        let turn = std::thread::spawn(move || {
            let shared = &turn.engine.shared;
            let before = shared.serving.load_full();
            is_finished.recv().expect("the rebuild gets that far");
            let mut waiting = turn.waiting();
            locked.send(()).expect("the rebuild waits for it");
            while Arc::ptr_eq(&shared.serving.load().snapshot, &before.snapshot) {
                std::thread::yield_now();
            }
            for _ in 0..100_000 {
                std::thread::yield_now();
            }
            std::fs::write(changed, "# Page 1\n\nNow about marmalade.\n").expect("written");
            let pages = shared.serving.load().pages.clone();
            let refreshed = turn
                .engine
                .indexer
                .refresh_blocking(&pages)
                .expect("looked");
            shared
                .serving
                .rcu(|current| Serving::new(refreshed.index.clone(), current.snapshot.clone()));
            waiting.extend(refreshed.changed);
        });
        store
            .reindex(&mut move |step| {
                if step.done == step.total {
                    finished.send(()).expect("the turn listens");
                    is_locked.recv().expect("the turn goes on");
                }
                ControlFlow::Continue(())
            })
            .await
            .expect("made anew");
        turn.join().expect("the turn ends");
        let waiting: Vec<String> = store.waiting().iter().map(ToString::to_string).collect();
        assert_eq!(waiting, ["area-1/page-1"]);
    });
}

#[test]
fn what_was_taken_in_before_a_failure_is_indexed() {
    let notes = tempfile::tempdir().expect("a temporary folder");
    for number in 0..450 {
        let text = format!("# Note {number}\n\nAbout quince {number}.\n");
        std::fs::write(notes.path().join(format!("note-{number:03}.md")), text).expect("written");
    }
    let source = IngestSource::Folder(notes.path().to_owned());
    runtime(async {
        let mut fixture = Fixture::new();
        let disk = FaultyFs::default();
        fixture.workspace = fixture.workspace.with_fs(Arc::new(disk.clone()));
        let store = fixture.open().await;
        // The first operation of two hundred pages is through, and the second meets the end of the disk.
        let full = Fault::Fails(io::ErrorKind::StorageFull, Reached::Nothing);
        disk.0.arm(Some((250, full)));
        let listener = &mut |_: EngineProgress| ControlFlow::Continue(());
        let ingesting = store.ingest_and_index(source, IngestOptions::default(), listener);
        let error = ingesting.await.expect_err("the disk is full");
        assert!(error.to_string().contains("read-only"), "{error}");
        let rows = row_set(&store).await;
        let first = rows
            .iter()
            .any(|(section, ..)| section.starts_with("note-000#"));
        assert!(first && rows.len() >= 200, "{}", rows.len());
    });
}
