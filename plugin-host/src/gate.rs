//! A gate that lets a few threads in at once, and the others wait for a limited time.
//!
//! Those inside run code of a plugin and may never come out. Whoever waits must then be told so, and the threads that are
//! lost must not become more with each attempt.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A gate for threads.
#[derive(Debug)]
pub(crate) struct Gate {
    free: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    /// Returns a gate with so many places.
    pub(crate) const fn new(places: usize) -> Self {
        Self {
            free: Mutex::new(places),
            changed: Condvar::new(),
        }
    }

    /// Waits for a place; `None` when none comes free in time.
    pub(crate) fn enter(&self, limit: Duration) -> Option<Passage<'_>> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut free, waited) = self
            .changed
            .wait_timeout_while(free, limit, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && *free == 0 {
            return None;
        }
        *free -= 1;
        drop(free);
        Some(Passage(self))
    }
}

/// A place inside of a gate, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Passage<'a>(&'a Gate);

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_let_in_and_the_next_when_one_has_left() {
        let gate = Gate::new(2);
        let first = gate.enter(Duration::ZERO).expect("free");
        let second = gate.enter(Duration::ZERO).expect("free");
        assert!(gate.enter(Duration::from_millis(1)).is_none());
        drop(first);
        let third = gate.enter(Duration::ZERO).expect("free again");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.enter(Duration::from_mins(1)).is_some());
            drop(second);
            assert!(waiting.join().expect("it ends"));
        });
        drop(third);
    }
}
