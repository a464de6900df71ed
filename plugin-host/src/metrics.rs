//! Counters of the machinery: what is called, how it ends, how long it takes, and what serves.
//!
//! They are plain atomics, written on every call and read when somebody asks. A snapshot is not one instant: its numbers
//! are read one after the other while calls go on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memory_core::abi::ErrorCode;
use memory_core::predicates::Tier;
use serde::Serialize;

use crate::method::Method;

/// Upper bounds of the histogram's buckets in microseconds; what takes longer is in one more.
const BOUNDS_US: [u64; 10] = [
    100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 10_000_000,
];

/// Error codes counted apart; a code that a newer plugin made is counted as the first.
const CODES: usize = 12;

/// What a host has counted since it started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Metrics {
    /// All slots together, those that are gone included.
    pub changes: ChangeMetrics,
    /// The slots that there are, by assistant.
    pub slots: Vec<SlotMetrics>,
    /// The builds that are loaded, by plugin and hash.
    pub builds: Vec<BuildMetrics>,
}

/// What became of wishes and of what served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChangeMetrics {
    /// Instances that came up.
    pub loads: u64,
    /// Instances that did not.
    pub refusals: u64,
    /// Times a newcomer took over.
    pub switches: u64,
    /// Times an earlier build of the same tier took over, because the configured one could not serve.
    pub fallbacks: u64,
    /// Times what served before went on serving, because the configured one could not.
    pub kept: u64,
    /// Times nothing served any more.
    pub emptied: u64,
    /// Times a change had to wait, because there had been too many.
    pub postponed: u64,
    /// Instances that were drained.
    pub drains: u64,
    /// Turns that still held an instance when its drain ended.
    pub abandoned_turns: u64,
}

/// What one slot has counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlotMetrics {
    /// The assistant.
    pub assistant: String,
    /// What happened.
    #[serde(flatten)]
    pub changes: ChangeMetrics,
}

/// What one build has counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BuildMetrics {
    /// The plugin.
    pub plugin: String,
    /// The tier it serves.
    pub tier: Tier,
    /// Its own version.
    pub version: String,
    /// Hash of the library.
    pub sha256: String,
    /// Why it is quarantined, if it is.
    pub quarantined: Option<String>,
    /// Its threads that do not come back at the moment.
    pub blocked_threads: usize,
    /// Log lines and spans that were taken.
    pub log_lines: u64,
    /// Log lines and spans that were dropped, because there were too many.
    pub log_dropped: u64,
    /// The methods that were called, by name.
    pub methods: BTreeMap<&'static str, MethodMetrics>,
}

/// How the calls of one method went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MethodMetrics {
    /// Calls that were made.
    pub calls: u64,
    /// Those that were answered well.
    pub answered: u64,
    /// Those whose caller went away before the answer.
    pub given_up: u64,
    /// Those that failed, by the name of the error code: `PANICKED`, `DEADLINE`, `CANCELLED`, ...
    pub failures: BTreeMap<&'static str, u64>,
    /// Panics, those included that happened while a call was dropped.
    pub panics: u64,
    /// Time of all calls that have ended, in microseconds.
    pub total_us: u64,
    /// The longest of them, in microseconds.
    pub max_us: u64,
    /// How many of them took how long.
    pub histogram: Vec<Bucket>,
}

/// One bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Its upper bound in microseconds; `None` for the last, which has none.
    pub up_to_us: Option<u64>,
    /// Calls that took as long and longer than the bucket before.
    pub calls: u64,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Answered,
    Failed(ErrorCode),
    GivenUp,
}

/// The counters of the methods of one build.
#[derive(Debug, Default)]
pub(crate) struct MethodCounters([Counters; Method::ALL.len()]);

#[derive(Debug, Default)]
struct Counters {
    calls: AtomicU64,
    answered: AtomicU64,
    given_up: AtomicU64,
    failures: [AtomicU64; CODES],
    panics: AtomicU64,
    total_us: AtomicU64,
    max_us: AtomicU64,
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
}

impl MethodCounters {
    fn of(&self, method: Method) -> &Counters {
        // A method's number is its place among all of them, and there is a set of counters for each.
        &self.0[method as usize]
    }

    /// Counts a call that begins.
    pub(crate) fn begun(&self, method: Method) {
        add(&self.of(method).calls, 1);
    }

    /// Counts a call that has ended.
    pub(crate) fn ended(&self, method: Method, ending: Ending, took: Duration) {
        let counters = self.of(method);
        add(
            match ending {
                Ending::Answered => &counters.answered,
                Ending::GivenUp => &counters.given_up,
                Ending::Failed(code) => {
                    let number = usize::try_from(code.0).unwrap_or(0);
                    &counters.failures[if number < CODES { number } else { 0 }]
                }
            },
            1,
        );
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        add(&counters.total_us, took);
        counters.max_us.fetch_max(took, Ordering::Relaxed);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < took);
        add(&counters.buckets[bucket], 1);
    }

    /// Counts a panic.
    pub(crate) fn panicked(&self, method: Method) {
        add(&self.of(method).panics, 1);
    }

    /// Returns the counters of the methods that were called.
    pub(crate) fn snapshot(&self) -> BTreeMap<&'static str, MethodMetrics> {
        let called = |method: &Method| get(&self.of(*method).calls) > 0;
        let methods = Method::ALL.into_iter().filter(called);
        methods
            .map(|method| (method.name(), self.of(method).snapshot()))
            .collect()
    }
}

impl Counters {
    fn snapshot(&self) -> MethodMetrics {
        let codes = (0_u32..).map(|number| ErrorCode(number).name());
        let bounds = BOUNDS_US.into_iter().map(Some).chain([None]);
        let bucket = |(up_to_us, count): (Option<u64>, &AtomicU64)| Bucket {
            up_to_us,
            calls: get(count),
        };
        MethodMetrics {
            calls: get(&self.calls),
            answered: get(&self.answered),
            given_up: get(&self.given_up),
            failures: codes
                .zip(&self.failures)
                .map(|(name, count)| (name, get(count)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            panics: get(&self.panics),
            total_us: get(&self.total_us),
            max_us: get(&self.max_us),
            histogram: bounds.zip(&self.buckets).map(bucket).collect(),
        }
    }
}

/// The counters behind [`ChangeMetrics`].
#[derive(Debug, Default)]
pub(crate) struct ChangeCounters {
    pub(crate) loads: AtomicU64,
    pub(crate) refusals: AtomicU64,
    pub(crate) switches: AtomicU64,
    pub(crate) fallbacks: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) emptied: AtomicU64,
    pub(crate) postponed: AtomicU64,
    pub(crate) drains: AtomicU64,
    pub(crate) abandoned_turns: AtomicU64,
}

impl ChangeCounters {
    pub(crate) fn snapshot(&self) -> ChangeMetrics {
        ChangeMetrics {
            loads: get(&self.loads),
            refusals: get(&self.refusals),
            switches: get(&self.switches),
            fallbacks: get(&self.fallbacks),
            kept: get(&self.kept),
            emptied: get(&self.emptied),
            postponed: get(&self.postponed),
            drains: get(&self.drains),
            abandoned_turns: get(&self.abandoned_turns),
        }
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// Reads a counter.
pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_method_ending_and_time() {
        let counters = MethodCounters::default();
        let us = Duration::from_micros;
        for (ending, took) in [
            (Ending::Answered, us(100)),
            (Ending::Answered, us(101)),
            (Ending::Failed(ErrorCode::DEADLINE), Duration::from_hours(1)),
            (Ending::Failed(ErrorCode(999)), us(1)),
            (Ending::GivenUp, us(1)),
        ] {
            counters.begun(Method::Commit);
            counters.ended(Method::Commit, ending, took);
        }
        counters.panicked(Method::Commit);
        counters.begun(Method::Health);

        let snapshot = counters.snapshot();
        let names: Vec<_> = snapshot.keys().copied().collect();
        assert_eq!(
            names,
            ["commit", "health"],
            "what was never called is left out"
        );
        let commit = &snapshot["commit"];
        assert_eq!(
            (
                commit.calls,
                commit.answered,
                commit.given_up,
                commit.panics
            ),
            (5, 2, 1, 1)
        );
        assert_eq!(
            commit.failures,
            BTreeMap::from([("DEADLINE", 1), ("UNKNOWN", 1)])
        );
        assert_eq!(
            (commit.max_us, commit.total_us),
            (3_600_000_000, 3_600_000_203)
        );
        let full: Vec<_> = commit
            .histogram
            .iter()
            .filter(|bucket| bucket.calls > 0)
            .collect();
        let expected = [(Some(100), 3), (Some(300), 1), (None, 1)];
        assert_eq!(
            full.iter()
                .map(|bucket| (bucket.up_to_us, bucket.calls))
                .collect::<Vec<_>>(),
            expected
        );
        assert_eq!(
            (snapshot["health"].calls, snapshot["health"].answered),
            (1, 0)
        );
    }

    #[test]
    fn every_code_has_a_place_of_its_own() {
        let counters = MethodCounters::default();
        for number in 1..12 {
            counters.begun(Method::Stats);
            counters.ended(
                Method::Stats,
                Ending::Failed(ErrorCode(number)),
                Duration::ZERO,
            );
        }
        let failures = &counters.snapshot()["stats"].failures;
        assert_eq!(failures.len(), 11);
        assert!(!failures.contains_key("UNKNOWN"), "{failures:?}");
    }
}
