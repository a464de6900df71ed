//! The section index on LanceDB: vectors and full text on disk, derived from pages and rebuildable.
//!
//! The database promises nothing once the power fails, so its files are flushed here after each batch, a small record
//! in the state database says what a batch left behind, and an index that does not match its record is reported as damaged
//! instead of being believed. One process writes, under the assistant's lock; within it writes and maintenance take turns.

mod contain;
mod durable;
mod generation;
mod load;
mod maintain;
mod open;
mod rows;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use lancedb::index::Index;
use lancedb::index::scalar::{FtsIndexBuilder, FullTextSearchQuery};
use lancedb::query::{ExecutableQuery as _, QueryBase as _, Select};
use lancedb::{DistanceType, Table};
use memory_core::store::{IndexRow, IndexSpace, IndexStats, IndexStore, StoreError, StoreResult};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use tokio::sync::Mutex;

use self::contain::{contained, panicked};
use self::durable::{Files, tree_size};
use self::generation::{Generation, unreadable};
use crate::blocking;

pub use self::generation::IndexHome;
pub use self::rows::ROW_SCHEMA;

pub(crate) use self::open::Opened;

const TABLE: &str = "sections";
const TEXT_INDEX: &str = "terms_text";
/// Pages in one statement; more would make the text of its condition too long.
const PAGES_IN_A_STATEMENT: usize = 256;

/// The section index of one space.
pub struct LanceIndex {
    home: IndexHome,
    generation: Generation,
    space: IndexSpace,
    dims: usize,
    schema: SchemaRef,
    table: Table,
    writable: bool,
    has_text_index: AtomicBool,
    writer: Arc<Mutex<Writer>>,
    /// Makes every step of upkeep fail.
    #[cfg(test)]
    pub(crate) broken: AtomicBool,
    /// Makes every write fail.
    #[cfg(test)]
    pub(crate) refusing: AtomicBool,
}

/// What only the one writer may touch.
#[derive(Debug, Default)]
struct Writer {
    /// What is on disk for certain.
    files: Files,
}

impl std::fmt::Debug for LanceIndex {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LanceIndex")
            .field("space", &self.space)
            .field("generation", &self.generation.number)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

impl LanceIndex {
    async fn replace_some(&self, pages: &[Slug], rows: &[IndexRow]) -> StoreResult<()> {
        let ours = in_pages(pages);
        if rows.is_empty() {
            self.table
                .delete(ours.as_str())
                .await
                .map_err(|error| StoreError::engine("removing pages from the index", error))?;
            return Ok(());
        }
        let batch = rows::to_batch(&self.schema, self.dims, rows)?;
        let mut merge = self.table.merge_insert(&["id"]);
        merge
            .when_matched_update_all(None)
            .when_not_matched_insert_all()
            .when_not_matched_by_source_delete(Some(ours));
        merge
            .execute(reader(batch, self.schema.clone()))
            .await
            .map_err(|error| StoreError::engine("writing pages to the index", error))?;
        Ok(())
    }

    async fn ensure_text_index(&self) -> StoreResult<()> {
        if self.has_text_index.load(Ordering::Acquire) {
            return Ok(());
        }
        // Token positions are left out: nothing asks for phrases, and they made compaction crash in the past.
        let rules = FtsIndexBuilder::default()
            .base_tokenizer("whitespace".to_owned())
            .max_token_length(None)
            .lower_case(false)
            .stem(false)
            .remove_stop_words(false)
            .ascii_folding(false)
            .with_position(false);
        self.table
            .create_index(&["terms"], Index::FTS(rules))
            .name(TEXT_INDEX.to_owned())
            .execute()
            .await
            .map_err(|error| StoreError::engine("creating the text index", error))?;
        self.has_text_index.store(true, Ordering::Release);
        Ok(())
    }

    fn require_writable(&self) -> StoreResult<()> {
        if self.writable {
            Ok(())
        } else {
            Err(StoreError::BadRequest {
                reason: "the index was opened for reading".to_owned(),
            })
        }
    }

    async fn find(
        &self,
        query: impl lancedb::query::ExecutableQuery,
        column: &str,
        score: impl Fn(f32) -> f32,
    ) -> StoreResult<Vec<(SectionId, f32)>> {
        let failed = |error| StoreError::engine("searching the index", error);
        let batches: Vec<RecordBatch> = query
            .execute()
            .await
            .map_err(failed)?
            .try_collect()
            .await
            .map_err(failed)?;
        let mut found = Vec::new();
        for batch in &batches {
            found.extend(rows::scored(batch, column, &score)?);
        }
        found.sort_by(|left: &(SectionId, f32), right| {
            right
                .1
                .total_cmp(&left.1)
                .then_with(|| left.0.cmp(&right.0))
        });
        Ok(found)
    }
}

#[async_trait]
impl IndexStore for LanceIndex {
    fn space(&self) -> &IndexSpace {
        &self.space
    }

    async fn replace_pages(&self, pages: Vec<Slug>, rows: Vec<IndexRow>) -> StoreResult<()> {
        self.require_writable()?;
        check_batch(&pages, &rows)?;
        if pages.is_empty() {
            return Ok(());
        }
        #[cfg(test)]
        if self.refusing.load(Ordering::Relaxed) {
            return Err(StoreError::engine(
                "writing pages to the index",
                "made to fail",
            ));
        }
        let mut writer = self.writer.clone().lock_owned().await;
        let mut rows = rows;
        rows.sort_by(|left, right| left.id.cmp(&right.id));
        let mut pages = pages;
        pages.sort_unstable();
        pages.dedup();
        // Rows and pages are in the same order, so each statement takes the rows up to the first of the next.
        let mut rest = rows.as_slice();
        for chunk in pages.chunks(PAGES_IN_A_STATEMENT) {
            let end = chunk
                .last()
                .map_or(0, |last| rest.partition_point(|row| row.id.slug <= *last));
            let (now, later) = rest.split_at(end);
            rest = later;
            contained(
                self.replace_some(chunk, now),
                panicked("writing pages to the index"),
            )
            .await?;
        }
        if !rows.is_empty() {
            contained(
                self.ensure_text_index(),
                panicked("creating the text index"),
            )
            .await?;
        }
        self.settle(&mut writer, false).await
    }

    async fn all_rows(&self) -> StoreResult<Vec<IndexRow>> {
        let failed = |error| unreadable("its rows cannot be read", error);
        let batches: Vec<RecordBatch> = self
            .table
            .query()
            .execute()
            .await
            .map_err(failed)?
            .try_collect()
            .await
            .map_err(failed)?;
        let mut rows = Vec::new();
        for batch in &batches {
            rows.extend(rows::from_batch(batch)?);
        }
        rows.sort_by(|left, right| left.id.cmp(&right.id));
        Ok(rows)
    }

    async fn search_vector(
        &self,
        vector: &[f32],
        limit: u32,
    ) -> StoreResult<Vec<(SectionId, f32)>> {
        if self.dims == 0 || vector.len() != self.dims {
            return Err(StoreError::BadRequest {
                reason: format!(
                    "a vector of {} numbers for an index of {}",
                    vector.len(),
                    self.dims
                ),
            });
        }
        if limit == 0 {
            return Ok(Vec::new());
        }
        let query = self
            .table
            .query()
            .nearest_to(vector)
            .map_err(|error| StoreError::engine("searching the index", error))?
            .column("vector")
            .distance_type(DistanceType::Cosine)
            .select(Select::columns(&["id", "_distance"]))
            .limit(usize::try_from(limit).unwrap_or(usize::MAX));
        self.find(query, "_distance", |distance| 1.0 - distance)
            .await
    }

    async fn search_terms(&self, terms: &str, limit: u32) -> StoreResult<Vec<(SectionId, f32)>> {
        if limit == 0 || terms.trim().is_empty() || !self.has_text_index.load(Ordering::Acquire) {
            return Ok(Vec::new());
        }
        let text = FullTextSearchQuery::new(terms.to_owned())
            .with_column("terms".to_owned())
            .map_err(|error| StoreError::engine("searching the index", error))?;
        let query = self
            .table
            .query()
            .full_text_search(text)
            .select(Select::columns(&["id", "_score"]))
            .limit(usize::try_from(limit).unwrap_or(usize::MAX));
        self.find(query, "_score", |score| score).await
    }

    async fn maintain(&self) -> StoreResult<()> {
        self.require_writable()?;
        let mut writer = self.writer.clone().lock_owned().await;
        self.run_maintenance(&mut writer).await
    }

    async fn stats(&self) -> StoreResult<IndexStats> {
        let dir = self.generation.dir();
        let size = blocking::run(move || {
            tree_size(&dir).map_err(|error| StoreError::engine("measuring the index", error))
        })
        .await?;
        let rows = self.count().await?.1;
        Ok(IndexStats {
            rows,
            files: size.files,
            bytes: size.bytes,
            unindexed_rows: self.unindexed(rows).await?,
        })
    }
}

/// Returns the condition that a row belongs to one of these pages.
fn in_pages(pages: &[Slug]) -> String {
    let quoted: Vec<String> = pages
        .iter()
        .map(|slug| format!("'{}'", slug.as_str().replace('\'', "''")))
        .collect();
    format!("slug IN ({})", quoted.join(", "))
}

fn reader(batch: RecordBatch, schema: SchemaRef) -> Box<dyn RecordBatchReader + Send> {
    Box::new(RecordBatchIterator::new([Ok(batch)], schema))
}

/// A section twice, or of a page that is not replaced, would break the one-statement replacement.
fn check_batch(pages: &[Slug], rows: &[IndexRow]) -> StoreResult<()> {
    let pages: HashSet<&Slug> = pages.iter().collect();
    let mut known = HashSet::new();
    for row in rows {
        if !pages.contains(&row.id.slug) {
            return Err(StoreError::BadRequest {
                reason: format!("`{}` is of a page that is not replaced", row.id),
            });
        }
        if !known.insert(&row.id) {
            return Err(StoreError::BadRequest {
                reason: format!("`{}` is given twice", row.id),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
