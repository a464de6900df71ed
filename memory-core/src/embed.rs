//! The embedder trait and the identity of an embedding space.
//!
//! Vectors are meaningful only beside vectors of their own space, so the space travels with every vector set and every
//! index, and nothing here compares across two of them.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Identifies an embedding space: weights, precision, pooling, cut-off, normalisation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SpaceId(String);

impl SpaceId {
    /// Returns the space with this identifier.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// Returns the identifier.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SpaceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Row-major vectors of shape (rows, dims), 32-bit floats, each row L2-normalised.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vectors {
    /// Length of one row.
    pub dims: usize,
    /// All rows, one after the other.
    pub data: Vec<f32>,
}

impl Vectors {
    /// Returns how many rows there are.
    pub fn rows(&self) -> usize {
        self.data.len().checked_div(self.dims).unwrap_or(0)
    }

    /// Returns one row.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.data[index * self.dims..(index + 1) * self.dims]
    }
}

/// Why text could not be embedded.
#[derive(Debug, Error)]
pub enum EmbedError {
    /// The model is not here. Go on without dense search and tell the operator.
    #[error("no embedding model: {reason}")]
    Unavailable {
        /// What is missing and how to get it.
        reason: String,
    },
    /// The input cannot be embedded. Do not retry it.
    #[error("text cannot be embedded: {reason}")]
    BadInput {
        /// What is wrong with it.
        reason: String,
    },
    /// The model failed. May be retried.
    #[error("embedding failed: {reason}")]
    Failed {
        /// What the runtime said.
        reason: String,
    },
}

/// Turns texts into vectors of one space.
#[async_trait]
pub trait Embedder: Send + Sync + fmt::Debug {
    /// Returns the space of every vector this embedder makes.
    fn space(&self) -> &SpaceId;

    /// Returns the length of a vector.
    fn dims(&self) -> usize;

    /// Embeds the texts in order, one row each. Blank texts are an error.
    async fn embed(&self, texts: Vec<String>) -> Result<Vectors, EmbedError>;
}
