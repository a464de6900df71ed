//! What the outside world supplies: time, ids, randomness.
//!
//! Everything that would make two runs differ is a trait, so a test can repeat a run byte for byte.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::time::Timestamp;

pub use self::fs::{EntryKind, FileInfo, Fs};

pub mod fs;

/// Tells the time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the current instant.
    fn now(&self) -> Timestamp;
}

/// Makes identifiers.
pub trait Ids: Send + Sync + fmt::Debug {
    /// Returns a new identifier, unique in this assistant, made of lower-case letters and digits.
    fn next_id(&self) -> String;
}

/// Supplies randomness.
pub trait Rng: Send + Sync + fmt::Debug {
    /// Returns a uniform 64-bit value.
    fn next_u64(&self) -> u64;
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that moves only when told, for repeatable runs.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Returns a clock that stands at an instant.
    pub const fn at(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.as_millis()))
    }

    /// Moves the clock forward.
    pub fn advance_millis(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Ids that count up from one, for repeatable runs.
#[derive(Debug, Default)]
pub struct CountingIds {
    prefix: String,
    next: AtomicU64,
}

impl CountingIds {
    /// Returns a counter whose ids start with a prefix.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self {
            prefix: prefix.into(),
            next: AtomicU64::new(0),
        }
    }
}

impl Ids for CountingIds {
    fn next_id(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::SeqCst) + 1;
        format!("{}{number:06}", self.prefix)
    }
}

/// A `SplitMix64` generator, deterministic for a seed (Steele, Lea and Flood 2014).
#[derive(Debug)]
pub struct SeededRng(AtomicU64);

impl SeededRng {
    /// Returns the generator of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Rng for SeededRng {
    fn next_u64(&self) -> u64 {
        let state = self
            .0
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst)
            .wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_time_and_counted_ids_repeat() {
        let clock = ManualClock::at(Timestamp::from_millis(5));
        clock.advance_millis(7);
        assert_eq!(clock.now().as_millis(), 12);
        let ids = CountingIds::new("m");
        assert_eq!(
            (ids.next_id(), ids.next_id()),
            ("m000001".to_owned(), "m000002".to_owned())
        );
    }

    #[test]
    fn the_generator_matches_its_published_first_values() {
        let rng = SeededRng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }
}
