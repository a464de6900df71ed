//! A tier to start from: it shows the freshest notes that share words with the message.
//!
//! A tier decides what the model is shown beside a message. This one is small enough to be read in a quarter of an hour
//! and complete enough to be used. It keeps to what every tier must keep to:
//!
//! * it sees the world only through the services it is handed, and passes each of them the call it was given;
//! * `begin_turn` and `explain` record nothing, because nobody knows yet whether the host will attach the block;
//! * `commit` records exactly what the block showed, once;
//! * what it cannot do without is an error with a reason, what it can do without is named in `degraded`;
//! * it keeps nothing between calls but counters and what waits for its commit, so requesters and conversations never mix.
//!
//! Read `tier.rs` first: it is the whole life of a turn. `choose.rs` is the ranking, which you will replace; `render.rs`
//! turns notes into the text of the block; `settings.rs` reads the configuration.
//!
//! # Limitations
//!
//! Only words count, so a note that says the same in other words is not found, and of a large memory only the freshest
//! pages are looked at.

#![forbid(unsafe_code)]

mod choose;
mod render;
mod settings;
#[cfg(test)]
mod testing;
mod tier;

pub use tier::FreshNotes;

// The one line that makes this crate a plugin. The code that carries calls across the border, the guards against panics
// and the bridge for `tracing` are generated here. Use it once, at the root of the crate.
memory_core::export_tier!(FreshNotes);
