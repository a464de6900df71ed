//! Opening an index, and believing it only as far as it agrees with what was recorded of it.
//!
//! A table whose newest part was lost opens without an error, and a changed bit in a data file reads as other numbers. So
//! every file is held against its recorded length and checksum while the rows are loaded, which reads most of them
//! anyway. A writer first removes what was never recorded: a batch that was cut off is gone then, and is made again.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::future::BoxFuture;
use lancedb::{ObjectStoreRegistry, Session, Table};
use memory_core::store::{IndexSpace, StoreError, StoreResult};

use super::contain::contained;
use super::durable::Files;
use super::generation::{Current, Generation, IndexHome, damaged, unreadable};
use super::{LanceIndex, TABLE, TEXT_INDEX, Writer, rows};
use crate::blocking;
use crate::snapshot::Segment;
use crate::state::indexed::Watermark;

/// Most memory for the database's own caches. The snapshot answers searches, so they only serve loading and writing.
const CACHE_BYTES: usize = 8 << 20;

/// An index that was opened and found to be what was recorded.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) index: LanceIndex,
    pub(crate) segments: Vec<Segment>,
    /// What had to be put right first.
    pub(crate) mended: Option<String>,
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
    ) -> StoreResult<Option<Opened>> {
        let (at, of) = (home.clone(), space.clone());
        let Some(Current { generation, lost }) = blocking::run(move || at.current(&of)).await?
        else {
            return Ok(None);
        };
        let (index, segments) = Self::open_believed(home, space, generation, writable).await?;
        if writable {
            let (home, generation, lost) = (home.clone(), index.generation.clone(), lost.is_some());
            blocking::run(move || {
                if lost {
                    home.name_current(&generation)?;
                }
                home.record_serving(&generation)
            })
            .await?;
        }
        Ok(Some(Opened {
            index,
            segments,
            mended: lost,
        }))
    }

    /// Makes an empty index and puts it into use, for a space that has none or whose index is damaged.
    pub async fn create(home: &IndexHome, space: &IndexSpace) -> StoreResult<Self> {
        let index = Self::create_generation(home, space).await?;
        index.promote().await?;
        Ok(index)
    }

    /// Returns the next generation to fill while the one in use serves on: a new one, or what an interrupted rebuild
    /// left behind. [`Self::promote`] puts it into use.
    pub(crate) async fn stage(
        home: &IndexHome,
        space: &IndexSpace,
    ) -> StoreResult<(Self, Vec<Segment>)> {
        let (at, of) = (home.clone(), space.clone());
        let begun = blocking::run(move || at.staged(&of)).await?;
        if let Some(generation) = begun {
            match Self::open_believed(home, space, generation, true).await {
                Ok(begun) => return Ok(begun),
                Err(error) => tracing::warn!(%error, "an interrupted rebuild starts again"),
            }
        }
        Ok((Self::create_generation(home, space).await?, Vec::new()))
    }

    /// Puts this generation into use and removes the others of its space.
    pub async fn promote(&self) -> StoreResult<()> {
        let (home, generation) = (self.home.clone(), self.generation.clone());
        blocking::run(move || home.switch(&generation)).await
    }

    /// Opens a generation and reads all of it, if it is what was recorded.
    ///
    /// The future is boxed: the database's own are nested so deeply that the compiler gives up on what contains them.
    fn open_believed<'a>(
        home: &'a IndexHome,
        space: &'a IndexSpace,
        generation: Generation,
        writable: bool,
    ) -> BoxFuture<'a, StoreResult<(Self, Vec<Segment>)>> {
        let opening = async move {
            let (at, of) = (home.clone(), generation.clone());
            let recorded = blocking::run(move || prepare(&at, &of, writable)).await?;
            let index = Self::open_generation(home, space, generation, writable).await?;
            let segments = index.verified(recorded).await?;
            Ok((index, segments))
        };
        Box::pin(contained(opening, |message| {
            damaged(format!("the database panicked while reading it: {message}"))
        }))
    }

    async fn open_generation(
        home: &IndexHome,
        space: &IndexSpace,
        generation: Generation,
        writable: bool,
    ) -> StoreResult<Self> {
        let table = connect(&generation)
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
            #[cfg(test)]
            broken: AtomicBool::default(),
            #[cfg(test)]
            refusing: AtomicBool::default(),
        })
    }

    /// Makes an empty generation beside the one in use.
    pub(crate) async fn create_generation(
        home: &IndexHome,
        space: &IndexSpace,
    ) -> StoreResult<Self> {
        let (at, of) = (home.clone(), space.clone());
        let generation = blocking::run(move || at.make_next(&of)).await?;
        let dims = usize::try_from(space.dims).unwrap_or(0);
        let schema = rows::schema(dims)?;
        let table = connect(&generation)
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
            #[cfg(test)]
            broken: AtomicBool::default(),
            #[cfg(test)]
            refusing: AtomicBool::default(),
        };
        let mut writer = index.writer.clone().lock_owned().await;
        index.settle(&mut writer, false).await?;
        Ok(index)
    }

    /// Reads the whole index and compares it with its record.
    async fn verified(&self, recorded: Option<(Watermark, Files)>) -> StoreResult<Vec<Segment>> {
        let (version, rows) = self.count().await?;
        let Some((holds, files)) = recorded else {
            // The record was lost with the state database. What its rows were made from is compared with the pages like
            // that of any other, so it is taken as it is.
            let segments = self.load_all(rows).await?;
            if self.writable {
                let mut writer = self.writer.clone().lock_owned().await;
                self.settle(&mut writer, false).await?;
            }
            return Ok(segments);
        };
        // A reader may find what a writer has written since.
        let is_same = version == holds.version;
        if (is_same && rows != holds.rows)
            || (!is_same && (self.writable || version < holds.version))
        {
            return Err(damaged(format!(
                "version {} with {} rows was recorded, version {version} with {rows} rows is there",
                holds.version, holds.rows
            )));
        }
        let (root, expected) = (self.generation.dir(), files.clone());
        let reading = blocking::run(move || {
            expected
                .wrong_content(&root)
                .map_err(|error| StoreError::engine("reading the section index", error))?
                .map_or(Ok(()), |wrong| Err(damaged(wrong)))
        });
        let (segments, ()) = tokio::try_join!(self.load_all(rows), reading)?;
        if self.writable {
            let mut writer = self.writer.clone().lock_owned().await;
            *writer = Writer { files };
            if holds.pruning {
                self.settle(&mut writer, false).await?;
            }
        }
        Ok(segments)
    }

    async fn load_all(&self, rows: u64) -> StoreResult<Vec<Segment>> {
        let segments = self
            .load(usize::try_from(rows).unwrap_or(usize::MAX))
            .await?;
        let read: usize = segments.iter().map(|segment| segment.rows.len()).sum();
        if u64::try_from(read) != Ok(rows) {
            return Err(damaged(format!(
                "{rows} rows are there, {read} can be read"
            )));
        }
        if let Some(id) = segments.iter().find_map(Segment::duplicate) {
            return Err(damaged(format!("`{id}` is there more than once")));
        }
        Ok(segments)
    }

    /// Returns the table's version and its rows.
    pub(super) async fn count(&self) -> StoreResult<(u64, u64)> {
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
        Ok((version, u64::try_from(rows).unwrap_or(u64::MAX)))
    }

    /// Flushes what was written and records what the table holds now. `pruning` says that files are about to be removed.
    pub(super) async fn settle(&self, writer: &mut Writer, pruning: bool) -> StoreResult<()> {
        let (version, rows) = self.count().await?;
        let (home, generation) = (self.home.clone(), self.generation.clone());
        let mut files = std::mem::take(&mut writer.files);
        writer.files = blocking::run(move || {
            let changes = files
                .flush_new(&generation.dir())
                .map_err(|error| StoreError::engine("flushing the index to disk", error))?;
            let holds = Watermark {
                version,
                rows,
                pruning,
            };
            home.record(&generation, holds, &changes)?;
            Ok::<_, StoreError>(files)
        })
        .await?;
        Ok(())
    }
}

/// Looks at the files before the database does. Returns what was recorded of them.
fn prepare(
    home: &IndexHome,
    generation: &Generation,
    writable: bool,
) -> StoreResult<Option<(Watermark, Files)>> {
    let Some((holds, files)) = home.recorded(generation)? else {
        return Ok(None);
    };
    let failed = |error| StoreError::engine("looking at the section index", error);
    let dir = generation.dir();
    if writable {
        let removed = files.remove_strangers(&dir).map_err(failed)?;
        if removed > 0 {
            tracing::debug!(removed, "files of an unfinished batch were removed");
        }
    }
    // A reader cannot know what a writer is removing, and finds out when it reads.
    let may_be_gone = holds.pruning || !writable;
    match files.wrong_size(&dir, may_be_gone).map_err(failed)? {
        Some(wrong) => Err(damaged(wrong)),
        None => Ok(Some((holds, files))),
    }
}

async fn connect(generation: &Generation) -> StoreResult<lancedb::Connection> {
    let dir = generation.dir();
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
