//! Jobs: work that nobody waits for, and what becomes of each when it has been tried.
//!
//! Only values and rules are here. Every rule is a function of the job and the time, so that a store only has to keep what it
//! is told, and two stores cannot disagree about when something is tried again.

use serde::{Deserialize, Serialize};

use crate::env::Rng;
use crate::time::Timestamp;
use crate::wire::job as name;

/// How often a job is tried before it has failed for good.
pub const MOST_ATTEMPTS: u32 = 8;

/// How often a job is put off before it has failed for good.
pub const MOST_DEFERRALS: u32 = 50;

/// Characters of an error that are kept.
pub const LONGEST_ERROR: usize = 2_000;

/// The first and the longest wait after a failure, in milliseconds: twice as long each time.
pub const RETRY_MS: (i64, i64) = (5_000, 5 * 60_000);

/// The first and the longest wait of a job that was put off.
pub const DEFERRAL_MS: (i64, i64) = (30_000, 5 * 60_000);

/// Names of jobs that nobody makes any more. What is left of them ends quietly. None is ever taken out.
const RETIRED: &[&str] = &[
    "embed_item",
    "extract_items",
    "batch_extract",
    "extract_entities",
    "cleanup_stale_superseded_items",
    "backfill_entity_relations",
    "refresh_weekly_summary",
    "refresh_monthly_summary",
    "journal_carry_forward",
    "generate_capability_cards",
    "generate_thread_starters",
    "memory_v2_rebuild_edges",
    "memory_v3_consolidate",
    "memory_v3_index_maintenance",
    "memory_v3_edge_learning",
    "memory_proc_distill",
    "conversation_analyze",
];

/// A queue of its own: what waits in one never holds up another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Work that may take many minutes, such as whatever asks a language model.
    Model,
    /// Embedding.
    Embed,
    /// Everything else.
    Fast,
}

impl Lane {
    /// Every lane.
    pub const ALL: [Self; 3] = [Self::Model, Self::Embed, Self::Fast];

    /// Returns the name as it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Embed => "embed",
            Self::Fast => "fast",
        }
    }

    /// Returns the lane of a kind of job.
    pub fn of(kind: &str) -> Self {
        match kind {
            name::CONSOLIDATE
            | name::SWEEP
            | name::V3_MAINTAIN
            | name::RETROSPECTIVE
            | name::GRAPH_EXTRACT
            | name::GRAPH_CONSOLIDATE
            | name::GRAPH_PATTERN_SCAN
            | name::GRAPH_NARRATIVE_REFINE
            | name::GRAPH_BOOTSTRAP
            | name::PKB_FILING
            | name::PKB_COMPACTION => Self::Model,
            name::EMBED_CONCEPT_PAGE
            | name::EMBED_GRAPH_NODE
            | name::GRAPH_TRIGGER_EMBED
            | name::EMBED_PKB_FILE => Self::Embed,
            _ => Self::Fast,
        }
    }
}

/// How far a job has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// It waits for its time.
    Pending,
    /// Somebody is at it.
    Running,
    /// It is done.
    Completed,
    /// It failed for good, and is only tried again if somebody asks for it.
    Failed,
    /// Somebody did not want it any more.
    Cancelled,
}

impl JobStatus {
    /// Every status.
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Returns the name as it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns whether nothing more happens to it by itself.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A job as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its identifier.
    pub id: String,
    /// What is to be done.
    pub kind: String,
    /// With what, as JSON.
    pub payload: String,
    /// Which lane it is in.
    pub lane: Lane,
    /// How far it has come.
    pub status: JobStatus,
    /// How often it was tried and failed.
    pub attempts: u32,
    /// How often it was put off.
    pub deferrals: u32,
    /// When it may be tried next.
    pub run_after: Timestamp,
    /// The lease under which it is held. A later lease of the same job has a greater one.
    pub token: u64,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// When it was asked for.
    pub created: Timestamp,
    /// When it changed last.
    pub updated: Timestamp,
    /// Whether somebody wants it to stop.
    pub is_stopping: bool,
}

/// A job that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// What is to be done.
    pub kind: String,
    /// With what, as JSON.
    pub payload: String,
    /// When it may be tried first.
    pub run_after: Timestamp,
    /// What makes another one superfluous.
    pub unless: Unless,
}

/// What makes a new job superfluous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unless {
    /// Nothing.
    Never,
    /// One of its kind that waits. One that runs may have begun before what this one is for.
    Pending,
    /// One of its kind that waits or runs.
    Active,
}

/// How a try ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It is done.
    Completed,
    /// It failed, and trying again is useless.
    Failed {
        /// Why.
        reason: String,
    },
    /// It failed, and may work later.
    Retry {
        /// Why.
        reason: String,
    },
    /// It could not be tried yet; that is nobody's failure.
    Deferred {
        /// What is missing.
        reason: String,
    },
    /// It was stopped before its end. If nobody wanted that, only the worker ended, and it is tried again.
    Stopped,
}

/// What becomes of a job after a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// How far it has come.
    pub status: JobStatus,
    /// How often it was tried and failed.
    pub attempts: u32,
    /// How often it was put off.
    pub deferrals: u32,
    /// When it is tried again, if it is.
    pub run_after: Timestamp,
    /// What went wrong.
    pub last_error: Option<String>,
}

/// Returns what becomes of a job after a try. The wait after a failure has some chance in it, so that jobs that failed
/// together do not come back together.
pub fn after(job: &Job, resolution: Resolution, now: Timestamp, rng: &dyn Rng) -> Next {
    let next = |status, last_error: Option<String>| Next {
        status,
        attempts: job.attempts,
        deferrals: job.deferrals,
        run_after: job.run_after,
        last_error: last_error.map(|error| shortened(&error)),
    };
    match resolution {
        Resolution::Completed => next(JobStatus::Completed, None),
        // Whoever cancels a job does not want to see it again, whatever it came to.
        Resolution::Stopped | Resolution::Retry { .. } | Resolution::Deferred { .. }
            if job.is_stopping =>
        {
            next(JobStatus::Cancelled, None)
        }
        Resolution::Stopped => next(JobStatus::Pending, job.last_error.clone()),
        Resolution::Failed { reason } => Next {
            attempts: job.attempts.saturating_add(1),
            ..next(JobStatus::Failed, Some(reason))
        },
        Resolution::Retry { reason } => {
            let attempts = job.attempts.saturating_add(1);
            if attempts >= MOST_ATTEMPTS {
                let reason = format!("given up after {attempts} tries: {reason}");
                return Next {
                    attempts,
                    ..next(JobStatus::Failed, Some(reason))
                };
            }
            let cap = doubled(RETRY_MS, attempts);
            let half = u64::try_from(cap / 2).unwrap_or_default();
            let chance = i64::try_from(rng.next_u64() % half.max(1)).unwrap_or_default();
            Next {
                attempts,
                run_after: now.plus_millis(cap / 2 + chance),
                ..next(JobStatus::Pending, Some(reason))
            }
        }
        Resolution::Deferred { reason } => {
            let deferrals = job.deferrals.saturating_add(1);
            if deferrals >= MOST_DEFERRALS {
                let reason = format!("put off {deferrals} times: {reason}");
                return Next {
                    deferrals,
                    ..next(JobStatus::Failed, Some(reason))
                };
            }
            Next {
                deferrals,
                run_after: now.plus_millis(doubled(DEFERRAL_MS, deferrals)),
                ..next(JobStatus::Pending, Some(reason))
            }
        }
    }
}

/// Returns whether jobs of a kind are left over from older versions and end quietly.
pub fn is_retired(kind: &str) -> bool {
    RETIRED.contains(&kind)
}

/// Returns the wait after so many times: the first one doubled, up to the longest.
pub fn doubled((first, longest): (i64, i64), times: u32) -> i64 {
    let factor = 1_i64.checked_shl(times.saturating_sub(1).min(62));
    factor
        .and_then(|factor| first.checked_mul(factor))
        .map_or(longest, |wait| wait.clamp(first.min(longest), longest))
}

fn shortened(error: &str) -> String {
    error.chars().take(LONGEST_ERROR).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::SeededRng;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn job() -> Job {
        Job {
            id: "j1".to_owned(),
            kind: name::CONSOLIDATE.to_owned(),
            payload: "{}".to_owned(),
            lane: Lane::Model,
            status: JobStatus::Running,
            attempts: 0,
            deferrals: 0,
            run_after: NOW,
            token: 1,
            last_error: None,
            created: NOW,
            updated: NOW,
            is_stopping: false,
        }
    }

    fn retry() -> Resolution {
        Resolution::Retry {
            reason: "the provider is down".to_owned(),
        }
    }

    #[test]
    fn failures_wait_longer_each_time_and_end() {
        let (mut job, rng) = (job(), SeededRng::new(1));
        let mut waits = Vec::new();
        loop {
            let next = after(&job, retry(), NOW, &rng);
            job.attempts = next.attempts;
            if next.status == JobStatus::Failed {
                let error = next.last_error.expect("it is said");
                assert_eq!(error, "given up after 8 tries: the provider is down");
                break;
            }
            waits.push(next.run_after.as_millis() - NOW.as_millis());
        }
        let caps = [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000];
        assert_eq!(waits.len(), caps.len());
        for (wait, cap) in waits.into_iter().zip(caps) {
            assert!((cap / 2..cap).contains(&wait), "{wait} of {cap}");
        }
    }

    #[test]
    fn what_is_put_off_was_not_tried() {
        let (mut job, rng) = (job(), SeededRng::new(1));
        for number in 1..MOST_DEFERRALS {
            let reason = "no model".to_owned();
            let next = after(&job, Resolution::Deferred { reason }, NOW, &rng);
            assert_eq!((next.status, next.attempts), (JobStatus::Pending, 0));
            let wait = next.run_after.as_millis() - NOW.as_millis();
            assert_eq!(wait, doubled(DEFERRAL_MS, number));
            job.deferrals = next.deferrals;
        }
        let reason = "no model".to_owned();
        let next = after(&job, Resolution::Deferred { reason }, NOW, &rng);
        assert_eq!(next.status, JobStatus::Failed);
        assert_eq!(doubled(DEFERRAL_MS, 1), 30_000);
        assert_eq!(doubled(DEFERRAL_MS, 4), 240_000);
        assert_eq!(
            [5, 40, u32::MAX].map(|times| doubled(DEFERRAL_MS, times)),
            [300_000; 3]
        );
    }

    #[test]
    fn the_end_is_the_end() {
        let rng = SeededRng::new(1);
        let reason = "x".repeat(3_000);
        let next = after(&job(), Resolution::Failed { reason }, NOW, &rng);
        assert_eq!(next.status, JobStatus::Failed);
        assert_eq!(next.last_error.expect("said").len(), LONGEST_ERROR);
        let next = after(&job(), Resolution::Completed, NOW, &rng);
        assert_eq!((next.status, next.attempts), (JobStatus::Completed, 0));
        // The worker ended: nothing was tried.
        let next = after(&job(), Resolution::Stopped, NOW, &rng);
        assert_eq!(
            (next.status, next.attempts, next.run_after),
            (JobStatus::Pending, 0, NOW)
        );
        // Somebody did not want it any more.
        let cancelled = Job {
            is_stopping: true,
            ..job()
        };
        for resolution in [Resolution::Stopped, retry()] {
            let next = after(&cancelled, resolution, NOW, &rng);
            assert_eq!(next.status, JobStatus::Cancelled);
        }
        let next = after(&cancelled, Resolution::Completed, NOW, &rng);
        assert_eq!(
            next.status,
            JobStatus::Completed,
            "it was done before it heard of that"
        );
    }

    #[test]
    fn every_kind_has_one_lane() {
        assert_eq!(Lane::of(name::CONSOLIDATE), Lane::Model);
        assert_eq!(Lane::of(name::EMBED_CONCEPT_PAGE), Lane::Embed);
        assert_eq!(Lane::of(name::REEMBED), Lane::Fast);
        assert!(is_retired("memory_v3_edge_learning") && !is_retired(name::CONSOLIDATE));
    }
}
