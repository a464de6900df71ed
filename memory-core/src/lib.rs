//! Domain types, text formats, predicates and the plugin border of Strata.
//!
//! This is the only crate that a host and a tier share, so everything in it is either plain data, a pure function or a
//! trait. A tier is an author's `impl MemoryTier`; the border around it is generated in `abi`, and nothing outside that
//! module names the libraries it is made of. That keeps the choice of border library reversible and keeps its types
//! out of the domain.
//!
//! # Limitations
//!
//! No I/O happens here: stores, services, clocks and embedders are traits that a host implements.

pub mod abi;
pub mod causes;
pub mod config;
pub mod embed;
pub mod env;
pub mod item;
pub mod job;
pub mod ledger;
pub mod llm;
pub mod predicates;
pub mod provenance;
pub mod schedule;
pub mod services;
pub mod store;
pub mod text;
pub mod tier;
pub mod time;
pub mod wire;
