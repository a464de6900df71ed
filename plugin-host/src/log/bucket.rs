//! A token bucket: how much of a flood is let through, and how much was not.

use std::time::{Duration, Instant};

/// Lines a library may log at once.
const BURST: f64 = 1000.0;

/// Lines a library may log per second in the long run.
const PER_SECOND: f64 = 200.0;

/// Tokens that have to gather before the end of a flood is told of, so that a lasting flood is told of once a second.
const TELL_AT: f64 = 200.0;

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is let through.
    Pass,
    /// It is let through, after so many were not.
    PassAfter(u64),
    /// It is dropped; it is the first of a flood.
    DropFirst,
    /// It is dropped.
    Drop,
}

/// A token bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    tokens: f64,
    filled: Option<Instant>,
    dropped: u64,
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            tokens: BURST,
            filled: None,
            dropped: 0,
        }
    }
}

impl Bucket {
    /// Asks for one line to be let through.
    pub(super) fn take(&mut self, now: Instant) -> Verdict {
        let since = self.filled.map_or(Duration::ZERO, |filled| {
            now.saturating_duration_since(filled)
        });
        self.filled = Some(now);
        self.tokens = BURST.min(self.tokens + since.as_secs_f64() * PER_SECOND);
        // Once a flood has begun, single tokens are not spent as they come: the line that tells of it would come as often.
        let needed = if self.dropped > 0 { TELL_AT } else { 1.0 };
        if self.tokens < needed {
            self.dropped += 1;
            return if self.dropped == 1 {
                Verdict::DropFirst
            } else {
                Verdict::Drop
            };
        }
        self.tokens -= 1.0;
        match std::mem::take(&mut self.dropped) {
            0 => Verdict::Pass,
            dropped => Verdict::PassAfter(dropped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_a_flood_does_not() {
        let mut bucket = Bucket::default();
        let start = Instant::now();
        let passed = (0..5000)
            .filter(|_| bucket.take(start) == Verdict::Pass)
            .count();
        assert_eq!(passed, 1000);
        let second = start + Duration::from_secs(1);
        assert_eq!(
            bucket.take(start + Duration::from_millis(990)),
            Verdict::Drop
        );
        assert_eq!(bucket.take(second), Verdict::PassAfter(4001));
        let passed = (0..5000)
            .filter(|_| bucket.take(second) == Verdict::Pass)
            .count();
        assert_eq!(
            passed, 199,
            "200 in a second, the one that told of the flood included"
        );
        assert_eq!(bucket.take(second), Verdict::Drop);
        let quiet = second + Duration::from_hours(1);
        assert_eq!(bucket.take(quiet), Verdict::PassAfter(4802));
        assert_eq!(
            (0..5000)
                .filter(|_| bucket.take(quiet) == Verdict::Pass)
                .count(),
            999
        );
    }

    #[test]
    fn a_steady_rate_below_the_limit_is_never_cut() {
        let mut bucket = Bucket::default();
        let start = Instant::now();
        for number in 0..10_000_u32 {
            assert_eq!(
                bucket.take(start + Duration::from_millis(6) * number),
                Verdict::Pass
            );
        }
    }

    #[test]
    fn a_lasting_flood_is_told_of_once_a_second() {
        let mut bucket = Bucket::default();
        let start = Instant::now();
        let told = (0..10_000_u32)
            .map(|number| bucket.take(start + Duration::from_millis(1) * number))
            .filter(|verdict| matches!(verdict, Verdict::PassAfter(_)))
            .count();
        assert!((5..=10).contains(&told), "{told} in ten seconds");
    }
}
