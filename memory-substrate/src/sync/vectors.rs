//! Giving rows their vectors.
//!
//! A section whose text did not change keeps the vector it had. One text that the model refuses costs only its own
//! section, and a model that fails stops the work, so that nothing is recorded as done that is not.

use memory_core::embed::{EmbedError, Embedder};
use memory_core::store::{IndexRow, StoreError, StoreResult};
use memory_core::text::section::SectionId;

use super::rows::says_something;
use crate::snapshot::Snapshot;

/// Sections given to the model at once. The model makes its own batches of them; this bounds memory and sets how often
/// progress is told.
const TEXTS_AT_ONCE: usize = 128;

/// What became of some rows.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    pub(crate) embedded: usize,
    pub(crate) refused: Vec<SectionId>,
    /// The caller asked to stop before all was done.
    pub(crate) stopped: bool,
}

/// Takes over the vectors of sections that have not changed, and returns how many.
pub(crate) fn reuse(rows: &mut [IndexRow], known: &Snapshot) -> usize {
    let mut reused = 0;
    for row in rows.iter_mut().filter(|row| row.vector.is_none()) {
        if let Some(vector) = known.vector_of(&row.id, &row.text_hash) {
            row.vector = Some(vector.to_vec());
            reused += 1;
        }
    }
    reused
}

/// Embeds what has no vector and says something. `go_on` is told how many of how many rows are done.
pub(crate) async fn embed(
    rows: &mut [IndexRow],
    embedder: &dyn Embedder,
    go_on: &mut (dyn FnMut(usize, usize) -> bool + Send),
) -> StoreResult<Filled> {
    let mut wanted: Vec<usize> = (0..rows.len())
        .filter(|row| rows[*row].vector.is_none() && says_something(&rows[*row]))
        .collect();
    // Texts of like length fill a batch without padding.
    wanted.sort_by_key(|row| (rows[*row].text.len(), *row));
    let mut filled = Filled::default();
    let total = wanted.len();
    for (number, chunk) in wanted.chunks(TEXTS_AT_ONCE).enumerate() {
        if number > 0 && !go_on(number * TEXTS_AT_ONCE, total) {
            filled.stopped = true;
            return Ok(filled);
        }
        embed_chunk(rows, chunk, embedder, &mut filled).await?;
    }
    Ok(filled)
}

async fn embed_chunk(
    rows: &mut [IndexRow],
    chunk: &[usize],
    embedder: &dyn Embedder,
    filled: &mut Filled,
) -> StoreResult<()> {
    let texts = chunk.iter().map(|row| rows[*row].text.clone()).collect();
    match embedder.embed(texts).await {
        Ok(vectors) if vectors.rows() == chunk.len() && vectors.dims == embedder.dims() => {
            for (position, row) in chunk.iter().enumerate() {
                rows[*row].vector = Some(vectors.row(position).to_vec());
            }
            filled.embedded += chunk.len();
            Ok(())
        }
        Ok(vectors) => Err(failed(EmbedError::Failed {
            reason: format!(
                "{} vectors came back for {} texts",
                vectors.rows(),
                chunk.len()
            ),
        })),
        Err(EmbedError::BadInput { .. }) if chunk.len() > 1 => {
            for row in chunk {
                Box::pin(embed_chunk(rows, &[*row], embedder, filled)).await?;
            }
            Ok(())
        }
        Err(EmbedError::BadInput { reason }) => {
            for row in chunk {
                tracing::warn!(section = %rows[*row].id, reason, "a section has no vector");
                filled.refused.push(rows[*row].id.clone());
            }
            Ok(())
        }
        Err(error) => Err(failed(error)),
    }
}

fn failed(error: EmbedError) -> StoreError {
    StoreError::engine("embedding pages", error)
}
