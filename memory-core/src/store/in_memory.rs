//! Stores that live and end with the process: the shortest code that keeps every promise of the traits.
//!
//! They serve a host's tests, which then need no folder, and stand beside the durable stores as the model of what those
//! should answer. Nothing is fast here and nothing is flushed: a lock around plain collections.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::evidence::InMemoryEvidence;
pub use self::index::InMemoryIndex;
pub use self::pages::InMemoryPages;
pub use self::state::InMemoryState;

mod evidence;
mod index;
mod pages;
mod state;

/// Returns what a lock guards. Whoever panicked while holding it had changed nothing yet, or everything.
fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
