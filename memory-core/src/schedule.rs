//! When recurring work is due.
//!
//! Every decision is a function of the time and of what is known, so that nothing depends on how often somebody looks. What
//! was missed while nobody looked is made up for once.

use serde::{Deserialize, Serialize};

use crate::job::doubled;
use crate::time::Timestamp;

/// Lines of a buffer from which a consolidation is worth its while.
pub const FEWEST_LINES: usize = 10;

const HOUR_MS: i64 = 60 * 60 * 1000;

/// The first and the longest wait after a run that failed.
const TRANSIENT_MS: (i64, i64) = (5 * 60_000, 30 * 60_000);

/// The first wait after a run that failed because nobody pays for it. The longest is six hours, or the interval.
const BILLING_MS: (i64, i64) = (HOUR_MS, 6 * HOUR_MS);

/// Why a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Nobody pays for it.
    Billing,
    /// It may work later.
    Transient,
}

/// Failures in a row. The kind of the last one says how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failures {
    /// How many.
    pub consecutive_failures: u32,
    /// When the last one was.
    pub last_failure_at: Timestamp,
    /// Why.
    pub kind: FailureKind,
}

impl Failures {
    /// Reads what was stored. What cannot be read counts as no failure: the next one begins a new row.
    pub fn read(text: &str) -> Option<Self> {
        let read: Self = serde_json::from_str(text).ok()?;
        (read.consecutive_failures >= 1).then_some(read)
    }

    /// Returns the row with one more.
    #[must_use]
    pub fn and(before: Option<Self>, kind: FailureKind, now: Timestamp) -> Self {
        let before = before.map_or(0, |before| before.consecutive_failures);
        Self {
            consecutive_failures: before.saturating_add(1),
            last_failure_at: now,
            kind,
        }
    }

    /// Returns for how many milliseconds nothing is tried any more.
    pub fn remaining_ms(&self, now: Timestamp, interval_ms: i64) -> i64 {
        let (first, longest) = match self.kind {
            FailureKind::Transient => TRANSIENT_MS,
            FailureKind::Billing => (BILLING_MS.0, BILLING_MS.1.max(interval_ms)),
        };
        let wait = doubled((first, longest), self.consecutive_failures);
        let passed = now
            .as_millis()
            .saturating_sub(self.last_failure_at.as_millis());
        // A failure that lies ahead was noted by a clock that went wrong, and says nothing of now.
        if passed < 0 {
            return 0;
        }
        wait.saturating_sub(passed).max(0)
    }
}

/// What is known when it is asked whether to consolidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// The time.
    pub now: Timestamp,
    /// When the interval began; nothing before the first look.
    pub last_run: Option<Timestamp>,
    /// Hours between runs.
    pub interval_hours: u32,
    /// Lines of the buffer that are not blank.
    pub lines: usize,
    /// When the buffer was last written; nothing without one.
    pub touched: Option<Timestamp>,
    /// Lines from which a run does not wait for its time; nothing for never.
    pub most_lines: Option<u32>,
    /// Whether a run waits or is at work.
    pub is_active: bool,
    /// Failures in a row.
    pub failures: Option<Failures>,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether to consolidate.
    pub runs: bool,
    /// Whether the interval begins anew.
    pub begins_anew: bool,
    /// Why, in a word or two.
    pub why: &'static str,
}

impl Decision {
    const fn wait(why: &'static str) -> Self {
        Self {
            runs: false,
            begins_anew: false,
            why,
        }
    }

    const fn run(why: &'static str) -> Self {
        Self {
            runs: true,
            begins_anew: true,
            why,
        }
    }
}

/// Returns whether to consolidate now.
///
/// When the interval has passed, a buffer of ten lines is filed, and a smaller one once nobody has written to it for an
/// interval. A buffer that has outgrown its limit is filed before that. After a failure neither happens for a while.
pub fn consolidation(at: &Situation) -> Decision {
    let interval_ms = i64::from(at.interval_hours) * HOUR_MS;
    let since = |then: Option<Timestamp>| {
        then.map_or(i64::MAX, |then| {
            at.now.as_millis().saturating_sub(then.as_millis())
        })
    };
    let is_waiting = at
        .failures
        .is_some_and(|failures| failures.remaining_ms(at.now, interval_ms) > 0);
    // A clock that was set back must not keep anything waiting for longer than an interval.
    let passed = since(at.last_run);
    let interval = if (0..interval_ms).contains(&passed) {
        Decision::wait("the interval has not passed")
    } else if is_waiting {
        Decision::wait("the last run failed")
    } else if at.lines >= FEWEST_LINES {
        Decision::run("the interval has passed")
    } else if at.lines > 0 && at.touched.is_some() && since(at.touched) >= interval_ms {
        Decision::run("little waits, but for long")
    } else {
        Decision {
            runs: false,
            begins_anew: true,
            why: "too little waits",
        }
    };
    if interval.runs {
        return interval;
    }
    let is_full = at
        .most_lines
        .is_some_and(|most| at.lines >= usize::try_from(most).unwrap_or(usize::MAX));
    if is_full && !at.is_active && !is_waiting {
        return Decision::run("the buffer is full");
    }
    interval
}

/// Returns when an interval has begun that begins anew: at its own hour, so that looking a little late each time does not
/// shift it, and so that hours that were slept through count once. One that begins before its time begins now.
pub fn begun(last_run: Option<Timestamp>, interval_hours: u32, now: Timestamp) -> Timestamp {
    let interval_ms = i64::from(interval_hours.max(1)) * HOUR_MS;
    match last_run {
        Some(last) if now.as_millis().saturating_sub(last.as_millis()) >= interval_ms => {
            let late = now.as_millis().saturating_sub(last.as_millis()) % interval_ms;
            now.plus_millis(-late)
        }
        _ => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_796_050_800_000);

    fn hours(hours: i64) -> Timestamp {
        NOW.plus_millis(hours * HOUR_MS)
    }

    fn usual() -> Situation {
        Situation {
            now: NOW,
            last_run: Some(hours(-9)),
            interval_hours: 8,
            lines: 20,
            touched: Some(hours(-1)),
            most_lines: Some(100),
            is_active: false,
            failures: None,
        }
    }

    fn failed(times: u32, minutes_ago: i64, kind: FailureKind) -> Failures {
        Failures {
            consecutive_failures: times,
            last_failure_at: NOW.plus_millis(-minutes_ago * 60_000),
            kind,
        }
    }

    #[test]
    fn each_row_of_the_table_holds() {
        let usual = usual();
        for (what, at, runs, begins_anew) in [
            ("the interval has passed", usual, true, true),
            (
                "never before",
                Situation {
                    last_run: None,
                    ..usual
                },
                true,
                true,
            ),
            (
                "not yet",
                Situation {
                    last_run: Some(hours(-7)),
                    ..usual
                },
                false,
                false,
            ),
            (
                "at the very moment",
                Situation {
                    last_run: Some(hours(-8)),
                    ..usual
                },
                true,
                true,
            ),
            (
                "ten lines are enough",
                Situation { lines: 10, ..usual },
                true,
                true,
            ),
            ("nine are not", Situation { lines: 9, ..usual }, false, true),
            (
                "nine that have settled are",
                Situation {
                    lines: 9,
                    touched: Some(hours(-8)),
                    ..usual
                },
                true,
                true,
            ),
            (
                "nothing never is",
                Situation {
                    lines: 0,
                    touched: Some(hours(-99)),
                    ..usual
                },
                false,
                true,
            ),
            (
                "no buffer is nothing",
                Situation {
                    lines: 0,
                    touched: None,
                    ..usual
                },
                false,
                true,
            ),
            (
                "after a failure",
                Situation {
                    failures: Some(failed(1, 4, FailureKind::Transient)),
                    ..usual
                },
                false,
                false,
            ),
            (
                "when that is over",
                Situation {
                    failures: Some(failed(1, 5, FailureKind::Transient)),
                    ..usual
                },
                true,
                true,
            ),
            (
                "it is full",
                Situation {
                    last_run: Some(hours(-1)),
                    lines: 100,
                    ..usual
                },
                true,
                true,
            ),
            (
                "nearly full",
                Situation {
                    last_run: Some(hours(-1)),
                    lines: 99,
                    ..usual
                },
                false,
                false,
            ),
            (
                "full of few lines",
                Situation {
                    last_run: Some(hours(-1)),
                    lines: 3,
                    most_lines: Some(3),
                    ..usual
                },
                true,
                true,
            ),
            (
                "without a limit",
                Situation {
                    last_run: Some(hours(-1)),
                    lines: 9_999,
                    most_lines: None,
                    ..usual
                },
                false,
                false,
            ),
            (
                "full, and one is at work",
                Situation {
                    last_run: Some(hours(-1)),
                    lines: 100,
                    is_active: true,
                    ..usual
                },
                false,
                false,
            ),
            (
                "full, after a failure",
                Situation {
                    last_run: Some(hours(-1)),
                    lines: 100,
                    failures: Some(failed(3, 1, FailureKind::Billing)),
                    ..usual
                },
                false,
                false,
            ),
            (
                "the clock was set back",
                Situation {
                    last_run: Some(hours(3)),
                    ..usual
                },
                true,
                true,
            ),
        ] {
            let decision = consolidation(&at);
            assert_eq!(
                (decision.runs, decision.begins_anew),
                (runs, begins_anew),
                "{what}: {decision:?}"
            );
        }
    }

    #[test]
    fn waits_after_failures_have_two_curves() {
        let wait = |times, kind| failed(times, 0, kind).remaining_ms(NOW, 8 * HOUR_MS) / 60_000;
        assert_eq!(
            [1, 2, 3, 4, 99].map(|times| wait(times, FailureKind::Transient)),
            [5, 10, 20, 30, 30]
        );
        assert_eq!(
            [1, 2, 3, 4, 99].map(|times| wait(times, FailureKind::Billing)),
            [60, 120, 240, 480, 480]
        );
        let row = Failures::and(
            Some(failed(2, 9, FailureKind::Billing)),
            FailureKind::Transient,
            NOW,
        );
        assert_eq!(
            (row.consecutive_failures, row.kind),
            (3, FailureKind::Transient)
        );
        // Whatever cannot be read is no failure.
        for text in [
            "",
            "{}",
            "{\"consecutiveFailures\":0,\"lastFailureAt\":1,\"kind\":\"billing\"}",
        ] {
            assert_eq!(Failures::read(text), None, "{text}");
        }
        let text = serde_json::to_string(&row).expect("JSON");
        assert_eq!(Failures::read(&text), Some(row));
    }

    #[test]
    fn a_year_of_looks_runs_as_often_as_there_are_intervals() {
        let (mut last_run, mut runs) = (None, 0);
        // Looked at every seven minutes, but for a week in which nobody did.
        let mut minute = 0;
        while minute < 365 * 24 * 60 {
            let now = NOW.plus_millis(minute * 60_000);
            let decision = consolidation(&Situation {
                now,
                last_run,
                ..usual()
            });
            if decision.begins_anew {
                last_run = Some(now);
            }
            runs += i64::from(decision.runs);
            minute += if minute == 7 * 1_000 { 7 * 24 * 60 } else { 7 };
        }
        let intervals = (365 - 7) * 3;
        assert!((intervals - 20..=intervals + 2).contains(&runs), "{runs}");
    }

    #[test]
    fn an_interval_begins_at_its_own_hour() {
        let at = |minutes: i64| Timestamp::from_millis(minutes * 60_000);
        for (last, now, wanted) in [
            (None, 7, 7),
            (Some(0), 481, 480),
            (Some(480), 3 * 480 + 70, 3 * 480),
            (Some(0), 200, 200),
            (Some(900), 200, 200),
        ] {
            assert_eq!(
                begun(last.map(at), 8, at(now)),
                at(wanted),
                "{last:?} {now}"
            );
        }
    }
}
