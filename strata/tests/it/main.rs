//! Tests of the façade and the command line, end to end, on real plugins.
//!
//! They run the built program and the library on workspaces in temporary folders, with vectors made from hashed words, so
//! that no model is needed. The plugins must have been built; a test that cannot find them fails and says how.

#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod catching_up;
mod cli;
mod consolidate;
mod contracts;
mod demo;
mod doctor;
mod evidence;
mod fixture;
mod host;
mod model;
mod plugins;
#[cfg(unix)]
mod processes;
mod removed;
mod repair;
mod settings;
mod signing;
#[cfg(unix)]
mod socket;
mod tiers;
mod turns;
