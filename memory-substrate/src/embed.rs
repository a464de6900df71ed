//! Embedding: finding the provisioned model, running it, and a seeded stand-in for benches and tests.
//!
//! The weights are published ones, taken from the user's cache folder and checked against pins; the graph is written
//! here, and the runtime is a shared library loaded by path. So the crate builds without a model, starts without a
//! network, and can say exactly what is missing. Every embedder names its space, and nothing compares across spaces.

pub mod local;
pub mod provision;
pub mod seeded;

mod graph;
mod runtime;

use memory_core::embed::EmbedError;

pub use self::local::LocalEmbedder;
pub use self::provision::Provisioned;
pub use self::seeded::SeededEmbedder;

/// Refuses blank texts: a model gives them a vector too, and it is near everything short.
fn refuse_blank(texts: &[String]) -> Result<(), EmbedError> {
    match texts.iter().position(|text| text.trim().is_empty()) {
        None => Ok(()),
        Some(index) => Err(EmbedError::BadInput {
            reason: format!(
                "text {} of {} is blank, leave it out",
                index + 1,
                texts.len()
            ),
        }),
    }
}
