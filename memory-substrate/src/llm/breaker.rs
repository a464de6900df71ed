//! The circuit breaker: after some failures in a row nothing is asked for a while, and then one call looks whether it is over.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memory_core::env::Clock;
use memory_core::job::doubled;
use memory_core::time::Timestamp;

/// Failures in a row after which nothing is asked.
const FAILURES: u32 = 3;

/// The first and the longest pause, in milliseconds: twice as long each time.
const PAUSE_MS: (i64, i64) = (30_000, 5 * 60_000);

/// Stops calls that would only fail.
#[derive(Debug)]
pub(super) struct Breaker {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// Until when nothing is asked.
    until: Option<Timestamp>,
    /// Whether a call is looking whether it is over.
    is_probing: bool,
}

/// Leave to make a call. It has to be told how that ended.
#[derive(Debug)]
pub(super) struct Leave<'a> {
    breaker: &'a Breaker,
    is_told: bool,
}

impl Breaker {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::default(),
        }
    }

    /// Returns leave to make a call, or how long to wait.
    pub(super) fn enter(&self) -> Result<Leave<'_>, Duration> {
        let now = self.clock.now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = state.until {
            let wait = until.as_millis().saturating_sub(now.as_millis());
            // A clock that was set back does not make anybody wait for longer than the pause was.
            if wait > 0 && wait <= PAUSE_MS.1 {
                return Err(Duration::from_millis(wait.unsigned_abs()));
            }
            if state.is_probing {
                return Err(Duration::from_millis(PAUSE_MS.0.unsigned_abs()));
            }
            state.is_probing = true;
        }
        Ok(Leave {
            breaker: self,
            is_told: false,
        })
    }
}

impl Leave<'_> {
    /// Tells how the call ended: whether the provider failed.
    pub(super) fn tell(mut self, has_failed: bool) {
        self.is_told = true;
        let now = self.breaker.clock.now();
        let mut state = self
            .breaker
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !has_failed {
            *state = State::default();
            return;
        }
        state.failures = state.failures.saturating_add(1);
        state.is_probing = false;
        if state.failures >= FAILURES {
            let pause = doubled(PAUSE_MS, state.failures - FAILURES + 1);
            state.until = Some(now.plus_millis(pause));
        }
    }
}

impl Drop for Leave<'_> {
    /// A call that nobody waits for any more says nothing about the provider.
    fn drop(&mut self) {
        if !self.is_told {
            let state = self.breaker.state.lock();
            state.unwrap_or_else(PoisonError::into_inner).is_probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use memory_core::env::ManualClock;

    use super::*;

    #[test]
    fn it_opens_probes_and_closes() {
        let clock = Arc::new(ManualClock::default());
        let breaker = Breaker::new(clock.clone());
        for _ in 0..FAILURES {
            breaker.enter().expect("closed").tell(true);
        }
        assert_eq!(breaker.enter().err(), Some(Duration::from_secs(30)));
        clock.advance_millis(30_000);
        let probe = breaker.enter().expect("one may look");
        assert!(breaker.enter().is_err(), "and only one");
        probe.tell(true);
        assert_eq!(breaker.enter().err(), Some(Duration::from_mins(1)));
        clock.advance_millis(60_000);
        drop(breaker.enter().expect("one may look"));
        breaker.enter().expect("another one may look").tell(false);
        breaker.enter().expect("closed").tell(true);
        breaker.enter().expect("closed").tell(false);
    }
}
