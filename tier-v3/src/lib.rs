//! Tier v3: sections found by lanes, fused into one ranking, selected within a cap.
//!
//! A turn's message is put to two finders, one lexical and one dense, over the sections of all pages. Their rankings are
//! fused by reciprocal rank, so that no score of one has to mean anything to the other, and the best sections are shown
//! unless they are in context already. Curated core pages come first, once per conversation.
//!
//! # Limitations
//!
//! Selection is deterministic; no model is asked. A section in context is not pointed at again.

#![forbid(unsafe_code)]

mod candidates;
mod fusion;
mod lanes;
mod render;
mod select;
mod settings;
mod tier;

pub use tier::SectionTier;

memory_core::export_tier!(SectionTier);
