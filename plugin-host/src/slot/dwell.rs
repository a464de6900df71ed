//! Minimum dwell: how often one tier's instance may be replaced.
//!
//! A program that rewrites a setting back and forth would otherwise make and drain an instance at every turn.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The latest replacements of one slot's instance by another of the same tier.
#[derive(Debug, Default)]
pub(super) struct Dwell(VecDeque<Instant>);

impl Dwell {
    /// Notes a replacement; as many are remembered as are allowed.
    pub(super) fn note(&mut self, now: Instant, allowed: usize) {
        self.0.push_back(now);
        while self.0.len() > allowed {
            self.0.pop_front();
        }
    }

    /// Returns whether one more replacement has to wait.
    pub(super) fn waits(&self, now: Instant, allowed: usize, window: Duration) -> bool {
        let recent = |at: &&Instant| now.saturating_duration_since(**at) < window;
        self.0.iter().filter(recent).count() >= allowed
    }

    /// Forgets everything: another tier serves.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_changes_pass_and_the_next_waits_for_the_window() {
        let (mut dwell, start) = (Dwell::default(), Instant::now());
        let at = |second: u64| start + Duration::from_secs(second);
        let waits = |dwell: &Dwell, second| dwell.waits(at(second), 4, Duration::from_secs(10));
        for second in 0..4 {
            assert!(!waits(&dwell, second));
            dwell.note(at(second), 4);
        }
        assert!(waits(&dwell, 4) && waits(&dwell, 9));
        assert!(!waits(&dwell, 10), "the first is out of the window");
        dwell.note(at(10), 4);
        assert!(waits(&dwell, 10), "the second is not");
        assert!(!waits(&dwell, 11));
        dwell.clear();
        assert!(!waits(&dwell, 10));
    }

    #[test]
    fn without_a_window_nothing_waits() {
        let (mut dwell, start) = (Dwell::default(), Instant::now());
        for _ in 0..9 {
            dwell.note(start, 1);
        }
        assert!(!dwell.waits(start, 1, Duration::ZERO));
    }
}
