//! Tier v1: a personal knowledge base of plain files, shown and searched.
//!
//! The files a person listed are shown once per conversation; after that, each message brings the best matching chunk of
//! the other files. What was shown is known by residency, so nothing is shown twice.
//!
//! # Limitations
//!
//! There is no memory graph: nothing is extracted from conversations and nothing decays.

#![forbid(unsafe_code)]

mod render;
mod settings;
mod tier;

pub use tier::KnowledgeBaseTier;

memory_core::export_tier!(KnowledgeBaseTier);
