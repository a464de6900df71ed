//! The benchmarks: each measures one thing and returns figures.
//!
//! Pages and questions are made up from fixed seeds and vectors are seeded ones, so that a figure speaks of this code and
//! not of a model. The model is measured by itself.

pub mod ingest;
pub mod plugins;
pub mod remember;
pub mod turn;
pub mod upkeep;
