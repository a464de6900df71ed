//! Tier v2: pages activated by what is said, spreading over the links between them.
//!
//! Every page that a search finds gets an activation from the user's words, the assistant's last words, the now-text and
//! what it still had from the turn before. Activation then spreads over links, and the most active pages that are not in
//! context are shown with their summary or lead.
//!
//! # Limitations
//!
//! Weights of the dense and the lexical half are fixed; no model routes or reranks.

#![forbid(unsafe_code)]

mod activation;
mod render;
mod settings;
mod spread;
mod tier;

pub use tier::ActivationTier;

memory_core::export_tier!(ActivationTier);
