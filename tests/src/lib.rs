//! What needs more than one crate: evaluation, benchmarks, conformance of tiers, fixtures of the integration tests.
//!
//! It drives the product from outside, through the façade and the real loader, so what it measures is what a host gets.

pub mod bench;
pub mod conform;
pub mod corpus;
pub mod eval;
pub mod host;
pub mod measure;
pub mod world;
