//! The section index on LanceDB: vectors and full text on disk, derived from pages and rebuildable.
//!
//! The database promises nothing once the power fails, so its files are flushed here after each batch, a small record
//! says what a batch left behind, and an index that does not match its record is reported as damaged instead of being
//! believed. One process writes, under the assistant's lock; within it writes and maintenance take turns.

mod contain;
mod durable;
mod generation;
mod load;
mod maintain;
mod rows;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use lancedb::index::Index;
use lancedb::index::scalar::{FtsIndexBuilder, FullTextSearchQuery};
use lancedb::query::{ExecutableQuery as _, QueryBase as _, Select};
use lancedb::{DistanceType, ObjectStoreRegistry, Session, Table};
use memory_core::store::{IndexRow, IndexSpace, IndexStats, IndexStore, StoreError, StoreResult};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use tokio::sync::Mutex;

use self::contain::{contained, panicked};
use self::durable::{Flushed, tree_size};
use self::generation::{Check, Generation, damaged, unreadable};
use crate::blocking;
use crate::snapshot::Segment;

pub use self::generation::IndexHome;
pub use self::rows::ROW_SCHEMA;

const TABLE: &str = "sections";
const TEXT_INDEX: &str = "terms_text";
/// Pages in one statement; more would make the text of its condition too long.
const PAGES_IN_A_STATEMENT: usize = 256;
/// Most memory for the database's own caches. The snapshot answers searches, so they only serve loading and writing.
const CACHE_BYTES: usize = 8 << 20;

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
}

/// What only the one writer may touch.
#[derive(Debug, Default)]
struct Writer {
    flushed: Flushed,
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
    /// Opens the generation in use and loads what a snapshot needs, `None` when there is no index of this space.
    ///
    /// An index that cannot be read completely, or that does not hold what its last batch recorded, is
    /// [`StoreError::Damaged`].
    pub(crate) async fn open(
        home: &IndexHome,
        space: &IndexSpace,
        writable: bool,
    ) -> StoreResult<Option<(Self, Vec<Segment>)>> {
        let Some(generation) = home.current(space)? else {
            return Ok(None);
        };
        let opening = async {
            let index = Self::open_generation(home, space, generation, writable).await?;
            let segments = index.verified().await?;
            Ok(Some((index, segments)))
        };
        contained(opening, |message| {
            damaged(format!("the database panicked while reading it: {message}"))
        })
        .await
    }

    /// Makes an empty index and puts it into use, for a space that has none or whose index is damaged.
    pub async fn create(home: &IndexHome, space: &IndexSpace) -> StoreResult<Self> {
        let index = Self::create_generation(home, space, home.replace(space)?).await?;
        home.switch(&index.generation)?;
        Ok(index)
    }

    /// Returns the next generation to fill while the one in use serves on: a new one, or what an interrupted rebuild
    /// left behind. [`Self::promote`] puts it into use.
    pub(crate) async fn stage(
        home: &IndexHome,
        space: &IndexSpace,
    ) -> StoreResult<(Self, Vec<Segment>)> {
        let generation = home.next(space)?;
        if home.read_check(&generation).is_some() {
            match Self::open_generation(home, space, generation, true).await {
                Ok(index) => match index.verified().await {
                    Ok(segments) => return Ok((index, segments)),
                    Err(error) => tracing::warn!(%error, "an interrupted rebuild starts again"),
                },
                Err(error) => tracing::warn!(%error, "an interrupted rebuild starts again"),
            }
        }
        let index = Self::create_generation(home, space, home.replace(space)?).await?;
        Ok((index, Vec::new()))
    }

    /// Puts this generation into use and removes the others of its space.
    pub fn promote(&self) -> StoreResult<()> {
        self.home.switch(&self.generation)
    }

    async fn open_generation(
        home: &IndexHome,
        space: &IndexSpace,
        generation: Generation,
        writable: bool,
    ) -> StoreResult<Self> {
        let table = connect(&generation.dir())
            .await?
            .open_table(TABLE)
            .execute()
            .await
            .map_err(|error| unreadable("the table cannot be opened", error))?;
        let dims = usize::try_from(space.dims).unwrap_or(0);
        let schema = rows::schema(dims)?;
        let found = table
            .schema()
            .await
            .map_err(|error| unreadable("the table has no schema", error))?;
        if found
            .fields()
            .iter()
            .map(|field| field.name())
            .ne(schema.fields().iter().map(|field| field.name()))
        {
            return Err(damaged("the table has other columns"));
        }
        let has_text_index = has_text_index(&table).await?;
        Ok(Self {
            home: home.clone(),
            generation,
            space: space.clone(),
            dims,
            schema,
            table,
            writable,
            has_text_index: AtomicBool::new(has_text_index),
            writer: Arc::default(),
        })
    }

    async fn create_generation(
        home: &IndexHome,
        space: &IndexSpace,
        generation: Generation,
    ) -> StoreResult<Self> {
        let dims = usize::try_from(space.dims).unwrap_or(0);
        let schema = rows::schema(dims)?;
        let table = connect(&generation.dir())
            .await?
            .create_empty_table(TABLE, schema.clone())
            .execute()
            .await
            .map_err(|error| StoreError::engine("creating the section index", error))?;
        let index = Self {
            home: home.clone(),
            generation,
            space: space.clone(),
            dims,
            schema,
            table,
            writable: true,
            has_text_index: AtomicBool::new(false),
            writer: Arc::default(),
        };
        let mut writer = index.writer.clone().lock_owned().await;
        index.settle(&mut writer).await?;
        Ok(index)
    }

    /// Reads the whole index and compares it with its record.
    async fn verified(&self) -> StoreResult<Vec<Segment>> {
        let check = self
            .home
            .read_check(&self.generation)
            .ok_or_else(|| damaged("there is no record of what it should hold"))?;
        let found = self.count().await?;
        // A process that was killed after a batch and before its record leaves a newer version, never an older one.
        if found.version < check.version
            || (found.version == check.version && found.rows != check.rows)
        {
            return Err(damaged(format!(
                "version {} with {} rows was recorded, version {} with {} rows is there",
                check.version, check.rows, found.version, found.rows
            )));
        }
        let segments = self
            .load(usize::try_from(found.rows).unwrap_or(usize::MAX))
            .await?;
        let read: usize = segments.iter().map(|segment| segment.rows.len()).sum();
        if u64::try_from(read) != Ok(found.rows) {
            return Err(damaged(format!(
                "{} rows are there, {read} can be read",
                found.rows
            )));
        }
        if let Some(id) = segments.iter().find_map(Segment::duplicate) {
            return Err(damaged(format!("`{id}` is there more than once")));
        }
        if self.writable {
            let mut writer = self.writer.clone().lock_owned().await;
            if found == check {
                let dir = self.generation.dir();
                blocking::run(move || {
                    let mut writer = writer;
                    writer
                        .flushed
                        .trust_tree(&dir)
                        .map_err(|error| StoreError::engine("listing the index", error))
                })
                .await?;
            } else {
                self.settle(&mut writer).await?;
            }
        }
        Ok(segments)
    }

    async fn count(&self) -> StoreResult<Check> {
        let version = self
            .table
            .version()
            .await
            .map_err(|error| unreadable("its version cannot be read", error))?;
        let rows = self
            .table
            .count_rows(None)
            .await
            .map_err(|error| unreadable("its rows cannot be counted", error))?;
        Ok(Check {
            version,
            rows: u64::try_from(rows).unwrap_or(u64::MAX),
        })
    }

    /// Flushes what was written and records what the table holds now.
    async fn settle(&self, writer: &mut Writer) -> StoreResult<()> {
        let check = self.count().await?;
        let (home, generation) = (self.home.clone(), self.generation.clone());
        let mut flushed = std::mem::take(&mut writer.flushed);
        writer.flushed = blocking::run(move || {
            flushed
                .flush_new(&generation.dir())
                .map_err(|error| StoreError::engine("flushing the index to disk", error))?;
            home.write_check(&generation, check)?;
            Ok::<_, StoreError>(flushed)
        })
        .await?;
        Ok(())
    }

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
        self.settle(&mut writer).await
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
        let rows = self.count().await?.rows;
        Ok(IndexStats {
            rows,
            files: size.files,
            bytes: size.bytes,
            unindexed_rows: self.unindexed(rows).await?,
        })
    }
}

async fn connect(dir: &Path) -> StoreResult<lancedb::Connection> {
    let path = dir.to_str().ok_or_else(|| StoreError::BadRequest {
        reason: "the index needs a path that is valid Unicode".to_owned(),
    })?;
    let session = Session::new(
        CACHE_BYTES,
        CACHE_BYTES,
        Arc::new(ObjectStoreRegistry::default()),
    );
    lancedb::connect(path)
        .session(Arc::new(session))
        .execute()
        .await
        .map_err(|error| StoreError::engine("opening the section index", error))
}

async fn has_text_index(table: &Table) -> StoreResult<bool> {
    let indices = table
        .list_indices()
        .await
        .map_err(|error| unreadable("its indices cannot be listed", error))?;
    Ok(indices.iter().any(|index| index.name == TEXT_INDEX))
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
