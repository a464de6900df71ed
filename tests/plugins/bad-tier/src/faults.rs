//! What an instance keeps only in order to break a rule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memory_core::services::{Call, SectionText};
use memory_core::text::section::SectionId;
use memory_core::tier::{CommitBook, ShownSection};

use crate::config::Config;

/// A book that all instances of the library share, as none should.
pub(crate) static SHARED: LazyLock<CommitBook<Vec<ShownSection>>> =
    LazyLock::new(CommitBook::default);

static INSTANCES: AtomicU64 = AtomicU64::new(0);

/// Returns a number that no other instance has.
pub(crate) fn number() -> u64 {
    INSTANCES.fetch_add(1, Ordering::Relaxed)
}

/// What is kept although it should not be.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The message of whichever turn began last.
    pub(crate) message: Mutex<String>,
    /// The call of whichever turn began last.
    pub(crate) call: Mutex<Option<Call>>,
    /// What was committed, by conversation.
    pub(crate) seen: Mutex<BTreeMap<String, BTreeSet<SectionId>>>,
    /// The texts that the owner was shown last.
    pub(crate) owners: Mutex<Vec<SectionText>>,
    /// Whether the word search has ever failed.
    pub(crate) lexical_failed: AtomicBool,
    /// Whether the page service has ever failed.
    pub(crate) pages_failed: AtomicBool,
}

/// Locks whatever happened before.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Panics when the future that holds it is dropped before it was done.
#[derive(Debug)]
pub(crate) struct Bomb<'a>(pub(crate) &'a Config);

impl Drop for Bomb<'_> {
    fn drop(&mut self) {
        self.0.panic_in("cancel");
    }
}

/// Keeps the thread for longer than anybody waits, and then lets go, so that a test can end.
pub(crate) fn block_the_thread() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        std::hint::spin_loop();
    }
}
