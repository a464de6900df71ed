//! Reading the whole index into the segments of a snapshot, as fast as two processors can and without holding it twice.
//!
//! Rows are asked for slab by slab, because the database reads ahead as far as it can and would have all of them in
//! memory at once. Two builders share the work by page, so that a page's rows end up in one segment.

use arrow_array::RecordBatch;
use futures_util::TryStreamExt as _;
use futures_util::future::try_join_all;
use lancedb::query::{ExecutableQuery as _, QueryBase as _, Select};
use memory_core::store::{StoreError, StoreResult};
use tokio::sync::mpsc;

use super::generation::unreadable;
use super::{LanceIndex, rows};
use crate::blocking;
use crate::snapshot::{Segment, SegmentBuilder};

/// Rows asked for at once.
const SLAB: usize = 4_096;
/// Batches that may wait for a builder.
const QUEUE: usize = 4;
/// With fewer rows than this a second builder is not worth its thread.
const WORTH_SHARING: usize = 4_096;

impl LanceIndex {
    /// Reads what a snapshot needs of every row.
    pub(super) async fn load(&self, rows: usize) -> StoreResult<Vec<Segment>> {
        let lanes: u64 = if rows < WORTH_SHARING { 1 } else { 2 };
        let mut feeds = Vec::new();
        let mut builders = Vec::new();
        for lane in 0..lanes {
            let (feed, mut queue) = mpsc::channel::<RecordBatch>(QUEUE);
            feeds.push(feed);
            // Pages are not shared out evenly, hence a little room.
            let room = if lanes == 1 {
                rows
            } else {
                rows / 2 + rows / 32
            };
            let dims = self.dims;
            builders.push(blocking::run(move || {
                let mut builder = SegmentBuilder::with_capacity(dims, room);
                while let Some(batch) = queue.blocking_recv() {
                    rows::add_to_segment(&mut builder, &batch, |key| lane_of(key) % lanes == lane)?;
                }
                Ok::<_, StoreError>(builder.finish())
            }));
        }
        let ((), segments) = tokio::try_join!(self.feed(rows, feeds), try_join_all(builders))?;
        Ok(segments)
    }

    async fn feed(&self, rows: usize, feeds: Vec<mpsc::Sender<RecordBatch>>) -> StoreResult<()> {
        let columns: Vec<&str> = rows::SNAPSHOT_COLUMNS
            .into_iter()
            .filter(|name| self.dims > 0 || *name != "vector")
            .collect();
        let failed = |error| unreadable("its rows cannot be read", error);
        for offset in (0..rows).step_by(SLAB) {
            let query = self
                .table
                .query()
                .select(Select::columns(&columns))
                .offset(offset)
                .limit(SLAB);
            let mut stream = query.execute().await.map_err(failed)?;
            while let Some(batch) = stream.try_next().await.map_err(failed)? {
                for feed in &feeds {
                    if feed.send(batch.clone()).await.is_err() {
                        // The builder has failed and says so itself.
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns a number that is the same for every section of a page.
fn lane_of(key: &str) -> u64 {
    let page = key.bytes().take_while(|byte| *byte != b'#');
    page.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }) >> 32
}
