//! Bringing the index in line with the pages.
//!
//! One comparison serves a fresh index, an interrupted build, an outside edit and a rebuild: what the pages say against
//! what the rows were made from. Each batch replaces whole pages and is durable before the next begins, so the work may
//! be killed anywhere and goes on where it was.

pub(crate) mod rows;
pub(crate) mod vectors;

use std::ops::ControlFlow;
use std::sync::Arc;

use memory_core::embed::Embedder;
use memory_core::store::{IndexRow, IndexStore, StoreResult};
use memory_core::text::slug::Slug;
use serde::{Deserialize, Serialize};

use crate::blocking;
use crate::pages::{FilePages, IndexedPage, PageIndex};
use crate::snapshot::{Part, SegmentBuilder, Snapshot, Source};

pub(crate) use memory_core::causes::with_causes as describe;

/// Most pages of one batch.
pub(crate) const PAGES_IN_A_BATCH: usize = 200;
/// A batch ends with the page that reaches this many sections, which bounds what an interruption loses.
const SECTIONS_IN_A_BATCH: usize = 1_000;
/// Between two looks at whether the index needs maintenance.
const BATCHES_BETWEEN_MAINTENANCE: usize = 8;

/// How far a synchronisation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncProgress {
    /// Pages that are done; never goes down.
    pub done: usize,
    /// Pages there are to do.
    pub total: usize,
}

/// Told how far a synchronisation is; may stop it. What was not finished is done by the next one.
pub type OnSync<'a> = dyn FnMut(SyncProgress) -> ControlFlow<()> + Send + 'a;

/// What a synchronisation did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncReport {
    /// Pages that were indexed.
    pub pages: usize,
    /// Their sections.
    pub sections: usize,
    /// Sections that were embedded.
    pub embedded: usize,
    /// Sections whose text had not changed and that kept their vector.
    pub reused: usize,
    /// Pages that were gone.
    pub removed: usize,
    /// Whether it was stopped before all was done.
    pub stopped: bool,
    /// Sections the model refused; they are found by keyword only.
    pub without_vector: Vec<String>,
    /// What went wrong while the index was folded together; what was indexed is indexed all the same.
    pub maintenance_error: Option<String>,
}

/// Returns the pages whose rows are missing, incomplete or made from something else, and those of pages that are gone.
pub(crate) fn differences(pages: &PageIndex, rows: &Snapshot) -> Vec<Slug> {
    let mut different: Vec<Slug> = pages
        .pages()
        .iter()
        .filter(|page| !is_current(page, rows))
        .map(|page| page.slug.clone())
        .collect();
    different.extend(
        rows.pages()
            .map(|page| page.slug)
            .filter(|slug| pages.get(slug).is_none()),
    );
    different.sort_unstable();
    different
}

fn is_current(page: &IndexedPage, rows: &Snapshot) -> bool {
    rows.page(&page.slug).is_some_and(|found| {
        found.hash == page.hash
            && found.found == found.expected
            && found.channel == page.channel
            && found.trust == page.trust
    })
}

/// Returns the rows of some pages as their files are now, without vectors. A page that is gone has none.
pub(crate) async fn read_rows(
    files: &FilePages,
    pages: &[Arc<IndexedPage>],
) -> StoreResult<Vec<IndexRow>> {
    let (files, pages) = (files.clone(), pages.to_vec());
    blocking::run(move || {
        let mut all = Vec::new();
        for page in &pages {
            if let Some(stored) = files.read_blocking(&page.slug)? {
                all.extend(rows::rows_of(page, &stored.bytes));
            }
        }
        Ok(all)
    })
    .await
}

/// Returns the segment of some pages, found by keyword, with the vectors of sections that have not changed.
pub(crate) async fn read_segment(
    files: &FilePages,
    pages: Vec<Arc<IndexedPage>>,
    dims: usize,
    known: Arc<Snapshot>,
) -> StoreResult<Part> {
    let files = files.clone();
    blocking::run(move || {
        let mut builder = SegmentBuilder::new(dims);
        for page in &pages {
            if let Some(stored) = files.read_blocking(&page.slug)? {
                let mut rows = rows::rows_of(page, &stored.bytes);
                vectors::reuse(&mut rows, &known);
                for row in &rows {
                    builder.add(Source::from(row));
                }
            }
        }
        Ok(Part::new(builder.finish()))
    })
    .await
}

/// Where rows go and where they come from.
#[derive(Debug)]
pub(crate) struct Indexing<'a> {
    pub(crate) files: &'a FilePages,
    /// The index; `None` when only the snapshot is brought in line.
    pub(crate) index: Option<&'a dyn IndexStore>,
    /// The model; `None` for an index without vectors.
    pub(crate) embedder: Option<&'a dyn Embedder>,
}

/// What a batch wrote.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) rows: Vec<IndexRow>,
    pub(crate) report: SyncReport,
}

impl Indexing<'_> {
    /// Returns how many of the first pages make one batch.
    pub(crate) fn batch_length(slugs: &[Slug], pages: &PageIndex) -> usize {
        let mut sections = 0;
        for (number, slug) in slugs.iter().take(PAGES_IN_A_BATCH).enumerate() {
            sections += pages.get(slug).map_or(0, |page| page.sections.len());
            if sections >= SECTIONS_IN_A_BATCH {
                return number + 1;
            }
        }
        slugs.len().min(PAGES_IN_A_BATCH)
    }

    /// Brings the rows of some pages in line. When it was stopped, nothing was written.
    pub(crate) async fn batch(
        &self,
        slugs: &[Slug],
        pages: &PageIndex,
        known: &Snapshot,
        go_on: &mut (dyn FnMut(usize, usize) -> bool + Send),
    ) -> StoreResult<Batch> {
        let present: Vec<Arc<IndexedPage>> = slugs
            .iter()
            .filter_map(|slug| pages.get(slug))
            .cloned()
            .collect();
        let mut rows = read_rows(self.files, &present).await?;
        let mut report = SyncReport::default();
        if let Some(embedder) = self.embedder {
            report.reused = vectors::reuse(&mut rows, known);
            let filled = vectors::embed(&mut rows, embedder, go_on).await?;
            report.embedded = filled.embedded;
            report.stopped = filled.stopped;
            report.without_vector = filled.refused.iter().map(ToString::to_string).collect();
            if filled.stopped {
                return Ok(Batch {
                    rows: Vec::new(),
                    report,
                });
            }
        }
        if let Some(index) = self.index {
            index.replace_pages(slugs.to_vec(), rows.clone()).await?;
        }
        report.pages = present.len();
        report.removed = slugs.len() - present.len();
        report.sections = rows.len();
        Ok(Batch { rows, report })
    }

    /// Looks after the index now and then, and at the end.
    pub(crate) async fn maintain(&self, batches: usize, is_last: bool, report: &mut SyncReport) {
        let Some(index) = self.index else { return };
        if batches > 0
            && (is_last || batches.is_multiple_of(BATCHES_BETWEEN_MAINTENANCE))
            && let Err(error) = index.maintain().await
        {
            report.maintenance_error = Some(describe(&error));
        }
    }
}

impl SyncReport {
    pub(crate) fn add(&mut self, batch: Self) {
        self.pages += batch.pages;
        self.sections += batch.sections;
        self.embedded += batch.embedded;
        self.reused += batch.reused;
        self.removed += batch.removed;
        self.stopped |= batch.stopped;
        self.without_vector.extend(batch.without_vector);
    }
}
