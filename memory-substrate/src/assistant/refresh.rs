//! Taking in what was edited outside, at the start of a turn.

use std::ops::ControlFlow;
use std::sync::Arc;

use memory_core::services::Severity;
use memory_core::store::StoreResult;
use memory_core::text::slug::Slug;

use super::open::notice;
use super::watch::Watch;
use super::{AssistantStore, EMBEDDED_IN_A_TURN, completed};
use crate::blocking;
use crate::services::Serving;
use crate::snapshot::Snapshot;
use crate::state::cache;
use crate::sync::{describe, read_segment};

/// What a refresh found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefreshReport {
    /// Pages that are new or say something else.
    pub changed: usize,
    /// Pages that are gone.
    pub removed: usize,
    /// Pages that are found by keyword and wait for [`AssistantStore::sync`] to be found by meaning.
    pub waiting: usize,
}

impl AssistantStore {
    /// Takes in pages that were edited since the last call. Call it at the start of a turn: without changes it looks at
    /// a few folders only.
    ///
    /// Changed pages are found by keyword when this returns. A few are embedded and written at once as well; more wait
    /// for [`Self::sync`], which a long-running host starts in the background then.
    pub async fn refresh(&self) -> StoreResult<RefreshReport> {
        let mut report = self.look(false).await?;
        report.waiting = self.waiting().len();
        if (1..=EMBEDDED_IN_A_TURN).contains(&report.waiting)
            && let Ok(_indexing) = self.engine.indexing.try_lock()
        {
            // A turn is served with what can be found by keyword if the rest fails.
            if let Err(error) = self.drain(&mut |_| ControlFlow::Continue(())).await {
                self.engine.shared.notices.post(notice(
                    "index_behind",
                    Severity::Warning,
                    format!(
                        "changed pages are found by keyword only: {}",
                        describe(&error)
                    ),
                ));
            }
            report.waiting = self.waiting().len();
        }
        self.tell_what_waits();
        Ok(report)
    }

    /// Brings the page index and the image in line with the files, without vectors for what is new.
    pub(crate) async fn look(&self, at_every_file: bool) -> StoreResult<RefreshReport> {
        let engine = &self.engine;
        let mut watch = engine.watch.lock().await;
        let serving = engine.shared.serving.load_full();
        let (fs, root) = (
            engine.shared.workspace.fs().clone(),
            engine.shared.files.folder().to_owned(),
        );
        let (now, mut last, pages) = (
            engine.shared.clock.now(),
            watch.clone(),
            serving.pages.clone(),
        );
        let (due, mut stamped) = blocking::run(move || {
            let due = at_every_file || last.is_due(&*fs, now);
            // Stamped before the files are looked at, so that a change in between shows at the next look.
            let stamped = if due {
                Watch::stamp(&*fs, &root, &pages, now)
            } else {
                last
            };
            Ok::<_, memory_core::store::StoreError>((due, stamped))
        })
        .await?;
        if !due {
            *watch = stamped;
            return Ok(RefreshReport::default());
        }
        let refreshed = engine.indexer.refresh(&serving.pages).await?;
        if Arc::ptr_eq(&refreshed.index, &serving.pages) {
            *watch = stamped;
            return Ok(RefreshReport::default());
        }
        let changed: Vec<_> = refreshed
            .changed
            .iter()
            .filter_map(|slug| refreshed.index.get(slug))
            .cloned()
            .collect();
        let dims = serving.snapshot.dims();
        let part = read_segment(
            &engine.shared.files,
            changed,
            dims,
            serving.snapshot.clone(),
        )
        .await?;
        let affected: Vec<Slug> = refreshed
            .changed
            .iter()
            .chain(&refreshed.removed)
            .cloned()
            .collect();
        engine.shared.serving.rcu(|current| {
            let snapshot = current.snapshot.replaced(&affected, part.clone());
            Serving::new(refreshed.index.clone(), Arc::new(snapshot))
        });
        if self.has_work(dims) {
            self.waiting().extend(affected);
        }
        // New folders are watched from the next full look on, which is soon enough only if it comes soon.
        if refreshed.index.len() != serving.pages.len() {
            stamped = Watch::default();
        }
        *watch = stamped;
        Ok(RefreshReport {
            changed: refreshed.changed.len(),
            removed: refreshed.removed.len(),
            waiting: 0,
        })
    }

    /// Parses every file again.
    pub(super) async fn forget_parsed(&self) -> StoreResult<()> {
        let engine = &self.engine;
        let watch = engine.watch.lock().await;
        engine.shared.state.write(cache::clear).await?;
        let pages = engine.indexer.refresh(&Arc::default()).await?.index;
        let serving = engine.shared.serving.load_full();
        let (snapshot, behind) = completed(
            &engine.shared.files,
            &pages,
            Snapshot::clone(&serving.snapshot),
        )
        .await?;
        engine
            .shared
            .serving
            .store(Arc::new(Serving::new(pages, Arc::new(snapshot))));
        if self.has_work(serving.snapshot.dims()) {
            self.waiting().extend(behind);
        }
        drop(watch);
        Ok(())
    }

    /// Returns whether a changed page needs more than its place in the image: a row in an index or a vector.
    fn has_work(&self, dims: usize) -> bool {
        self.is_writable() || dims > 0
    }
}
