//! Keeping the index small: folding files together, extending the text index, removing old versions.
//!
//! The three steps fail on their own, and removing old versions always runs, because a failing first step that stops
//! the last is how such an index fills a disk. A failure is returned, not only logged.

use std::sync::atomic::Ordering;

use lancedb::table::{CompactionOptions, Duration, OptimizeAction, OptimizeOptions};
use memory_core::store::{StoreError, StoreResult};

use super::contain::{contained, panicked};
use super::durable::tree_size;
use super::{LanceIndex, TEXT_INDEX, Writer};
use crate::blocking;
use crate::sync::describe;

/// With more pieces than this they are folded together.
const MOST_FRAGMENTS: usize = 32;
/// With more files than this everything is folded together.
const MOST_FILES: u64 = 100;
/// With more versions than this the older ones are removed, and everything is folded together first.
const MOST_VERSIONS: u64 = 40;
/// Rows that are copied at once when files are folded together.
const ROWS_AT_ONCE: usize = 256;
/// Bytes that are read ahead meanwhile; well above what one batch can hold.
const BYTES_AHEAD: u64 = 64 << 20;
/// With more rows than this outside the text index it is extended at once.
const MOST_UNINDEXED: u64 = 5_000;

impl LanceIndex {
    /// Returns how many rows the text index does not cover.
    pub(super) async fn unindexed(&self, rows: u64) -> StoreResult<u64> {
        let stats =
            self.table.index_stats(TEXT_INDEX).await.map_err(|error| {
                StoreError::engine("asking for the state of the text index", error)
            })?;
        Ok(stats.map_or(rows, |stats| {
            u64::try_from(stats.num_unindexed_rows).unwrap_or(u64::MAX)
        }))
    }

    pub(super) async fn run_maintenance(&self, writer: &mut Writer) -> StoreResult<()> {
        let dir = self.generation.dir();
        let size = blocking::run(move || {
            tree_size(&dir).map_err(|error| StoreError::engine("measuring the index", error))
        })
        .await?;
        let stats = self
            .table
            .stats()
            .await
            .map_err(|error| StoreError::engine("asking for the state of the index", error))?;
        let rows = u64::try_from(stats.num_rows).unwrap_or(u64::MAX);
        let deleted = stats.num_deleted_rows.unwrap_or(0);
        let crowded = size.files > MOST_FILES || size.versions > MOST_VERSIONS;
        let compact = crowded
            || stats.fragment_stats.num_fragments > MOST_FRAGMENTS
            || deleted * 5 > stats.num_rows;
        let unindexed = if self.has_text_index.load(Ordering::Acquire) {
            self.unindexed(rows).await?
        } else {
            0
        };
        let extend =
            unindexed > 0 && (compact || unindexed > MOST_UNINDEXED || unindexed * 10 > rows);
        if !compact && !extend {
            return Ok(());
        }

        let mut failures = Vec::new();
        if compact {
            // What is read ahead bounds the memory it takes: sections may be long, and the usual batch has thousands.
            let options = CompactionOptions {
                materialize_deletions_threshold: 0.0,
                batch_size: Some(ROWS_AT_ONCE),
                num_threads: Some(1),
                io_buffer_size: Some(BYTES_AHEAD),
                ..CompactionOptions::default()
            };
            let step = OptimizeAction::Compact {
                options,
                remap_options: None,
            };
            failures.extend(self.step("folding its files together", step).await);
        }
        if extend {
            failures.extend(
                self.step(
                    "extending the text index",
                    OptimizeAction::Index(OptimizeOptions::merge(64)),
                )
                .await,
            );
        }
        // What is about to become the only version must be on disk before the older ones go.
        self.settle(writer, true).await?;
        // The writer's lock means that no other write is under way, so files nobody names are leftovers. A reader in
        // another process reads everything when it opens, and opens again when a file is gone.
        let step = OptimizeAction::Prune {
            older_than: Some(Duration::zero()),
            delete_unverified: Some(true),
            error_if_tagged_old_versions: Some(false),
        };
        failures.extend(self.step("removing its old versions", step).await);
        self.settle(writer, false).await?;
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    async fn step(&self, what: &str, action: OptimizeAction) -> Option<StoreError> {
        let failed = format!("maintaining the index: {what}");
        #[cfg(test)]
        if self.broken.load(Ordering::Relaxed) {
            return Some(StoreError::engine(failed, "made to fail"));
        }
        let work = async {
            self.table
                .optimize(action)
                .await
                .map_err(|error| StoreError::engine(failed.clone(), error))?;
            Ok(())
        };
        let error = contained(work, panicked(&failed)).await.err()?;
        tracing::warn!(
            step = what,
            error = describe(&error),
            "a step of index maintenance failed"
        );
        Some(error)
    }
}
