//! Vectors made from hashed words, for benches and tests that need many of them and no model.
//!
//! Equal texts give equal vectors and shared words pull vectors together, so searches behave plausibly and
//! reproducibly on every machine. They know nothing of meaning. The space says so in its name, which keeps an index
//! made with them from ever being asked by a real model or the other way round.

use std::collections::HashSet;

use async_trait::async_trait;
use memory_core::embed::{EmbedError, Embedder, SpaceId, Vectors};
use sha2::{Digest as _, Sha256};

use super::provision::DEFAULT_DIMS;
use crate::segment;

/// An embedder without a model: each word adds its own fixed direction. Not semantic; never a fallback for a model.
#[derive(Clone, Debug)]
pub struct SeededEmbedder {
    space: SpaceId,
    dims: usize,
}

impl SeededEmbedder {
    /// Returns an embedder with vectors of the given length, at least one.
    pub fn new(dims: usize) -> Self {
        let dims = dims.max(1);
        Self {
            space: SpaceId::new(format!("seeded-test/words/{dims}/l2@1")),
            dims,
        }
    }

    fn fill(text: &str, row: &mut [f32]) {
        let mut words = HashSet::new();
        segment::for_each_token(text, |token| {
            let seed = seed(token);
            if words.insert(seed) {
                add_direction(seed, row);
            }
        });
        // Text without a word in it still is a text: it gets a direction as a whole.
        if row.iter().all(|value| *value == 0.0) {
            add_direction(seed(text), row);
        }
        let norm = row.iter().map(|value| value * value).sum::<f32>().sqrt();
        for value in row {
            *value /= norm;
        }
    }
}

impl Default for SeededEmbedder {
    /// Returns an embedder with vectors as long as the default model's.
    fn default() -> Self {
        Self::new(DEFAULT_DIMS)
    }
}

#[async_trait]
impl Embedder for SeededEmbedder {
    fn space(&self) -> &SpaceId {
        &self.space
    }

    fn dims(&self) -> usize {
        self.dims
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vectors, EmbedError> {
        super::refuse_blank(&texts)?;
        let mut data = vec![0.0; texts.len() * self.dims];
        for (text, row) in texts.iter().zip(data.chunks_exact_mut(self.dims)) {
            Self::fill(text, row);
        }
        Ok(Vectors {
            dims: self.dims,
            data,
        })
    }
}

/// Returns the number that a word's direction is drawn from.
fn seed(word: &str) -> u64 {
    let digest = Sha256::digest(word.as_bytes());
    digest
        .iter()
        .take(8)
        .fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

/// Adds the direction of a seed: eight components from each number of the `SplitMix64` sequence, none of them zero.
fn add_direction(mut seed: u64, row: &mut [f32]) {
    for chunk in row.chunks_mut(8) {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = seed;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        for (value, byte) in chunk.iter_mut().zip(bits.to_le_bytes()) {
            *value += f32::from(byte.cast_signed()) + 0.5;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn embed(texts: &[&str]) -> Vectors {
        SeededEmbedder::default()
            .embed(texts.iter().map(ToString::to_string).collect())
            .await
            .unwrap()
    }

    fn dot(left: &[f32], right: &[f32]) -> f32 {
        left.iter()
            .zip(right)
            .map(|(left, right)| left * right)
            .sum()
    }

    #[tokio::test]
    async fn shared_words_pull_vectors_together() {
        let rows = embed(&[
            "the red bridge fell",
            "Red bridge!",
            "a quarterly tax report",
            "***",
            "***",
        ])
        .await;
        assert_eq!((rows.dims, rows.rows()), (384, 5));
        for index in 0..rows.rows() {
            assert!((dot(rows.row(index), rows.row(index)) - 1.0).abs() < 1e-5);
        }
        assert!(dot(rows.row(0), rows.row(1)) > 0.5);
        assert!(dot(rows.row(0), rows.row(2)).abs() < 0.25);
        assert_eq!(rows.row(3), rows.row(4));
    }

    #[tokio::test]
    async fn vectors_are_the_same_on_every_machine() {
        let vectors = SeededEmbedder::new(2)
            .embed(vec!["word".into(), "Word word".into()])
            .await
            .unwrap();
        assert_eq!(vectors.row(0), vectors.row(1));
        assert_eq!(seed("word"), 0x98c1_eb4e_e934_7674, "{:x}", seed("word"));
    }

    #[tokio::test]
    async fn the_space_admits_what_it_is_and_blank_text_is_refused() {
        let embedder = SeededEmbedder::new(16);
        assert!(embedder.space().as_str().starts_with("seeded-test/"));
        assert!(matches!(
            embedder.embed(vec![" \n".into()]).await,
            Err(EmbedError::BadInput { .. })
        ));
        assert_eq!(embedder.embed(Vec::new()).await.unwrap().rows(), 0);
    }
}
