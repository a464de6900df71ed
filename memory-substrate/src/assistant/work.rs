//! The work on the index: embedding and writing what waits, ingesting, making it anew.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memory_core::embed::Embedder;
use memory_core::services::Severity;
use memory_core::store::{IndexSpace, IndexStore, StoreResult};
use memory_core::text::slug::Slug;
use serde::{Deserialize, Serialize};

use super::open::{notice, space_of};
use super::{AssistantStore, ReconcileProgress};
use crate::blocking;
use crate::error::SubstrateResult;
use crate::index::LanceIndex;
use crate::ingest::{IngestOptions, IngestReport, IngestSource, Ingester};
use crate::services::Serving;
use crate::snapshot::Snapshot;
use crate::sync::{Indexing, OnSync, SyncProgress, SyncReport, describe, differences};

/// How far a longer piece of work is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineProgress {
    /// Files are read and pages written.
    Reading {
        /// Files that are done.
        done: usize,
        /// Files there are to do.
        total: usize,
        /// The file that was just done.
        name: String,
    },
    /// Pages are embedded and written to the index.
    Indexing(SyncProgress),
    /// Everything derived is compared and repaired.
    Repairing(ReconcileProgress),
}

/// Told how far a longer piece of work is; may stop its indexing part.
pub type OnProgress<'a> = dyn FnMut(EngineProgress) -> ControlFlow<()> + Send + 'a;

/// Pages taken out of those that wait; they go back unless their work was finished.
struct Taken<'a> {
    waiting: &'a Mutex<BTreeSet<Slug>>,
    /// How many are taken out and not done, which wait all the same.
    in_work: &'a AtomicUsize,
    count: usize,
    slugs: Vec<Slug>,
    finished: bool,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Under one lock, so that nobody finds them in neither or in both.
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.finished {
            waiting.extend(self.slugs.drain(..));
        }
        self.in_work.fetch_sub(self.count, Ordering::Relaxed);
    }
}

impl AssistantStore {
    /// Embeds and writes everything that waits. May be stopped or killed anywhere; the next call goes on from there.
    pub async fn sync(&self, progress: &mut OnSync<'_>) -> StoreResult<SyncReport> {
        let indexing = self.engine.indexing.lock().await;
        let report = self.drain(progress).await;
        drop(indexing);
        self.tell_what_waits();
        let report = report?;
        if !report.stopped {
            self.embed_knowledge_base().await?;
        }
        Ok(report)
    }

    /// Ingests and indexes in one go. Stopping only stops the indexing; what was ingested is found by keyword. So it is
    /// when the indexing fails, which therefore does not cost the report on what was ingested.
    pub async fn ingest_and_index(
        &self,
        source: IngestSource,
        options: IngestOptions,
        progress: &mut OnProgress<'_>,
    ) -> SubstrateResult<(IngestReport, StoreResult<SyncReport>)> {
        let shared = &self.engine.shared;
        let intake = Ingester::new(self.writer()?, shared.files.clone());
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let reading = blocking::run(move || {
            intake.run(&source, options, &mut |step| {
                // The listener only goes away together with this call.
                drop(tell.send((step.done, step.total, step.name.to_owned())));
            })
        });
        let mut reading = std::pin::pin!(reading);
        let taken_in = loop {
            tokio::select! {
                biased;
                Some((done, total, name)) = told.recv() => {
                    let _: ControlFlow<()> = progress(EngineProgress::Reading { done, total, name });
                }
                result = &mut reading => break result,
            }
        };
        while let Ok((done, total, name)) = told.try_recv() {
            let _: ControlFlow<()> = progress(EngineProgress::Reading { done, total, name });
        }
        let synced = async {
            self.look(true).await?;
            self.sync(&mut |step| progress(EngineProgress::Indexing(step)))
                .await
        };
        let synced = synced.await;
        match taken_in {
            Ok(report) => Ok((report, synced)),
            Err(error) => {
                // Operations before the one that failed are whole, and their pages are to be found.
                if let Err(error) = &synced {
                    tracing::warn!(%error, "what was ingested before the failure could not be indexed");
                }
                Err(error)
            }
        }
    }

    /// Makes the index anew from the files, for the model that is there now, while the old one serves on; then switches
    /// and removes the old one.
    pub async fn reindex(&self, progress: &mut OnSync<'_>) -> StoreResult<SyncReport> {
        self.reindex_from(None, progress).await
    }

    /// Does the same, but takes the vectors of sections that have not changed from the index that serves, and leaves no
    /// file of any other index behind: none of another model, and none that was begun and not finished.
    pub(crate) async fn reindex_alone(&self, progress: &mut OnSync<'_>) -> StoreResult<SyncReport> {
        let known = self.snapshot();
        let report = self.reindex_from(Some(known), progress).await?;
        if !report.stopped {
            let (home, space) = (self.engine.home.clone(), self.space());
            blocking::run(move || home.remove_others(&space)).await?;
        }
        Ok(report)
    }

    /// Returns the folders of every index but the one that serves.
    pub(crate) async fn other_indexes(&self) -> StoreResult<Vec<PathBuf>> {
        let (home, space) = (self.engine.home.clone(), self.space());
        blocking::run(move || home.others(&space)).await
    }

    fn space(&self) -> IndexSpace {
        space_of(self.engine.shared.embedder.as_deref())
    }

    async fn reindex_from(
        &self,
        known: Option<Arc<Snapshot>>,
        progress: &mut OnSync<'_>,
    ) -> StoreResult<SyncReport> {
        self.require_writable()?;
        let engine = &self.engine;
        let indexing = engine.indexing.lock().await;
        self.look(true).await?;
        let embedder = engine.shared.embedder.as_deref();
        let space = self.space();
        let (home, of) = (engine.home.clone(), space.clone());
        let current = blocking::run(move || home.current(&of)).await;
        let (index, segments) = match current {
            Ok(Some(_)) if known.is_none() => LanceIndex::stage(&engine.home, &space).await?,
            // What was begun may have taken its vectors, and its texts, from somewhere else.
            Ok(Some(_)) => {
                let index = LanceIndex::create_generation(&engine.home, &space).await?;
                (index, Vec::new())
            }
            // Nothing of this space serves, so the new one may take its place at once.
            _ => (LanceIndex::create(&engine.home, &space).await?, Vec::new()),
        };
        let mut snapshot = Snapshot::of(usize::try_from(space.dims).unwrap_or(0), segments);
        // Those of another model are of no use.
        let known = known.filter(|known| {
            known.dims() == snapshot.dims()
                && engine
                    .index
                    .load()
                    .as_ref()
                    .is_some_and(|serving| *serving.space() == space)
        });
        let report = self
            .fill(&index, embedder, known.as_deref(), &mut snapshot, progress)
            .await?;
        if report.stopped {
            return Ok(report);
        }
        index.promote().await?;
        engine.index.store(Some(Arc::new(index)));
        self.tell_upkeep(&report).await;
        let snapshot = Arc::new(snapshot);
        engine
            .shared
            .serving
            .rcu(|current| Arc::new(current.with_snapshot(snapshot.clone())));
        // Locked before the pages are looked at: a turn that takes in a change publishes it first and then lets it
        // wait, so the change is either among these differences or added behind them.
        {
            let mut waiting = self.waiting();
            *waiting = differences(&engine.shared.serving.load().pages, &snapshot)
                .into_iter()
                .collect();
        }
        self.remove_set_aside(&space);
        self.remove_stale_spaces();
        for code in [
            "index_damaged",
            "index_unavailable",
            "index_of_another_space",
        ] {
            engine.shared.notices.resolve(code);
        }
        self.tell_what_waits();
        drop(indexing);
        self.embed_knowledge_base().await?;
        Ok(report)
    }

    /// Reads every page anew, whatever is remembered of it, and makes the index from that.
    pub async fn rebuild(&self, progress: &mut OnSync<'_>) -> StoreResult<SyncReport> {
        self.require_writable()?;
        self.forget_parsed().await?;
        self.reindex(progress).await
    }

    /// Fills a new generation with every page it lacks. What changes meanwhile is left to the next refresh.
    async fn fill(
        &self,
        index: &LanceIndex,
        embedder: Option<&dyn Embedder>,
        known: Option<&Snapshot>,
        snapshot: &mut Snapshot,
        progress: &mut OnSync<'_>,
    ) -> StoreResult<SyncReport> {
        let shared = &self.engine.shared;
        let pages = shared.serving.load_full().pages.clone();
        let work = Indexing {
            files: &shared.files,
            index: Some(index),
            embedder,
        };
        let lacking = differences(&pages, snapshot);
        let total = lacking.len();
        let (mut report, mut batches, mut done) = (SyncReport::default(), 0, 0);
        while done < total {
            let rest = &lacking[done..];
            let slugs = &rest[..Indexing::batch_length(rest, &pages)];
            let mut go_on = |embedded: usize, of: usize| {
                let part = slugs.len() * embedded / of.max(1);
                progress(SyncProgress {
                    done: done + part,
                    total,
                })
                .is_continue()
            };
            let batch = work
                .batch(slugs, &pages, known.unwrap_or(snapshot), &mut go_on)
                .await?;
            report.add(batch.report);
            if report.stopped {
                return Ok(report);
            }
            *snapshot = snapshot.patched(slugs, &batch.rows);
            batches += 1;
            done += slugs.len();
            work.maintain(batches, false, &mut report).await;
            if progress(SyncProgress { done, total }).is_break() {
                report.stopped = true;
                return Ok(report);
            }
        }
        work.maintain(batches, true, &mut report).await;
        Ok(report)
    }

    /// Embeds and writes what waits, batch by batch, and shows each batch to the turns.
    pub(super) async fn drain(&self, progress: &mut OnSync<'_>) -> StoreResult<SyncReport> {
        let shared = &self.engine.shared;
        let index = self.engine.index.load_full().filter(|_| shared.writable);
        let (mut report, mut batches, mut done) = (SyncReport::default(), 0, 0);
        loop {
            let serving = shared.serving.load_full();
            let embedder = shared
                .embedder
                .as_deref()
                .filter(|_| serving.snapshot.dims() > 0);
            let work = Indexing {
                files: &shared.files,
                index: index.as_deref().map(|index| -> &dyn IndexStore { index }),
                embedder,
            };
            let (mut taken, waiting) = self.take(&serving);
            if taken.slugs.is_empty() {
                taken.finished = true;
                work.maintain(batches, true, &mut report).await;
                break;
            }
            let total = done + waiting;
            let mut go_on = |embedded: usize, of: usize| {
                let part = taken.slugs.len() * embedded / of.max(1);
                progress(SyncProgress {
                    done: done + part,
                    total,
                })
                .is_continue()
            };
            let batch = work
                .batch(&taken.slugs, &serving.pages, &serving.snapshot, &mut go_on)
                .await?;
            report.add(batch.report);
            if report.stopped {
                return Ok(report);
            }
            shared.serving.rcu(|current| {
                let snapshot = current.snapshot.patched(&taken.slugs, &batch.rows);
                Arc::new(current.with_snapshot(Arc::new(snapshot)))
            });
            taken.finished = true;
            batches += 1;
            done += taken.slugs.len();
            work.maintain(batches, false, &mut report).await;
            if progress(SyncProgress { done, total }).is_break() {
                report.stopped = !self.waiting().is_empty();
                break;
            }
        }
        self.after_writing(&report).await;
        Ok(report)
    }

    fn take(&self, serving: &Serving) -> (Taken<'_>, usize) {
        let mut waiting = self.waiting();
        let all: Vec<Slug> = waiting
            .iter()
            .take(crate::sync::PAGES_IN_A_BATCH)
            .cloned()
            .collect();
        let count = waiting.len();
        let slugs = all[..Indexing::batch_length(&all, &serving.pages)].to_vec();
        for slug in &slugs {
            waiting.remove(slug);
        }
        self.engine
            .in_work
            .fetch_add(slugs.len(), Ordering::Relaxed);
        drop(waiting);
        (
            Taken {
                waiting: &self.engine.waiting,
                in_work: &self.engine.in_work,
                count: slugs.len(),
                slugs,
                finished: false,
            },
            count,
        )
    }

    async fn after_writing(&self, report: &SyncReport) {
        let notices = &self.engine.shared.notices;
        if report.pages + report.removed > 0 {
            self.tell_upkeep(report).await;
        }
        if !report.without_vector.is_empty() {
            notices.post(notice(
                "pages_without_vector",
                Severity::Warning,
                format!(
                    "the embedding model refused {}: found by keyword only",
                    report.without_vector.join(", ")
                ),
            ));
        }
        let index = self.engine.index.load_full();
        if let Some(index) = index
            && self.is_writable()
            && self.waiting().is_empty()
        {
            notices.resolve("index_damaged");
            self.remove_set_aside(index.space());
            if index.space().embedding.is_some() {
                self.remove_stale_spaces();
            }
        }
    }

    /// Removes indexes of other models and rules, once this model's is complete. Without a model they are kept: making
    /// them again is expensive, and the model may only be missing for a while.
    fn remove_stale_spaces(&self) {
        if self.engine.shared.embedder.is_some()
            && let Err(error) = self.engine.home.remove_others(&self.space())
        {
            tracing::warn!(error = describe(&error), "old indexes could not be removed");
        }
    }

    /// Removes the damaged index of a space, once another is complete.
    fn remove_set_aside(&self, space: &IndexSpace) {
        if let Err(error) = self.engine.home.remove_set_aside(space) {
            tracing::warn!(error = describe(&error), "a damaged index stays set aside");
        }
    }

    async fn embed_knowledge_base(&self) -> StoreResult<()> {
        if let Some(embedder) = self.engine.shared.embedder.as_deref()
            && self.is_writable()
        {
            self.engine.shared.pkb.embed_all(embedder).await?;
        }
        Ok(())
    }
}
