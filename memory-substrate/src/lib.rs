//! Everything durable and heavy of Strata: files, state, the section index, embedding, and the services over them.
//!
//! Files are the truth for prose and one SQLite database is the truth for turns and what was shown. The section index in
//! LanceDB is derived from both and may be deleted at any moment. A turn never waits for it: queries run on a read image
//! in memory, loaded from the index when an assistant is opened and patched with every page that changes.
//!
//! # Limitations
//!
//! One process writes an assistant at a time. There is no evidence repository and no background job yet.

pub mod assistant;
pub mod backup;
pub mod blocking;
pub mod embed;
pub mod erase;
pub mod error;
pub mod fs;
pub mod index;
pub mod ingest;
pub mod oplog;
pub mod pages;
pub mod pkb;
pub mod remember;
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
