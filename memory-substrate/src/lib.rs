//! Everything durable and heavy of Strata: files, state, the section index, embedding, and the services over them.
//!
//! Files are the truth for prose and one SQLite database is the truth for turns and what was shown. The section index in
//! LanceDB is derived from both and may be deleted at any moment. A turn never waits for it: queries run on a read image
//! in memory, loaded from the index when an assistant is opened and patched with every page that changes.
//!
//! # Limitations
//!
//! One process writes an assistant at a time. Evidence is a plain journal and no git repository. Consolidation
//! goes by rules, and is the only background job yet.

pub mod assistant;
pub mod backup;
pub mod blocking;
pub mod consolidate;
pub mod embed;
pub mod erase;
pub mod error;
pub mod evidence;
pub mod fs;
pub mod index;
pub mod ingest;
pub mod jobs;
pub mod llm;
pub mod oplog;
pub mod pages;
pub mod pkb;
pub mod prompts;
pub mod random;
pub mod remember;
pub mod screen;
pub mod segment;
pub mod services;
pub mod snapshot;
pub mod spool;
pub mod state;
pub mod sync;
pub mod undo;
pub mod views;
pub mod workspace;
pub mod writer;

#[cfg(test)]
mod conformance;
mod entries;
