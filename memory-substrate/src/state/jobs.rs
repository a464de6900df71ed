//! The job queue: what waits, who holds what for how long, and how it ended.
//!
//! A job is held under a lease that runs out by itself, so a process that dies gives back what it held. The next lease has a
//! greater token, and whoever held the job before cannot finish it any more. Nothing here decides when something is tried
//! again: that is for [`memory_core::job`].

use memory_core::job::{Job, JobStatus, Lane, MOST_ATTEMPTS, NewJob, Next, Unless};
use memory_core::store::{StoreError, StoreResult};
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::sql::{Named, sql};

const COLUMNS: &str = "id, type, payload, lane, status, attempts, deferrals, run_after, token, last_error, created_at, \
                       updated_at, is_stopping";

/// Asks for a job. Returns its identifier, or that of the one that makes it superfluous.
pub(crate) fn enqueue(
    connection: &Connection,
    id: &str,
    new: &NewJob,
    now: Timestamp,
) -> StoreResult<(String, bool)> {
    let same = match new.unless {
        Unless::Never => None,
        Unless::Pending => of_kind(connection, &new.kind, false)?,
        Unless::Active => of_kind(connection, &new.kind, true)?,
    };
    if let Some(same) = same {
        // Whoever wants it sooner gets it sooner.
        connection
            .prepare_cached(
                "UPDATE memory_jobs SET run_after = min(run_after, ?2) WHERE id = ?1 AND status = 'pending'",
            )
            .and_then(|mut statement| statement.execute(params![same, new.run_after.as_millis()]))
            .map_err(sql("ask for a job"))?;
        return Ok((same, false));
    }
    connection
        .prepare_cached(
            "INSERT INTO memory_jobs (id, type, payload, lane, status, run_after, created_at, updated_at) \
             VALUES (?1, ?2, ?3, ?4, 'pending', ?5, ?6, ?6)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                id,
                new.kind,
                new.payload,
                Lane::of(&new.kind).as_str(),
                new.run_after.as_millis(),
                now.as_millis(),
            ])
        })
        .map_err(sql("ask for a job"))?;
    Ok((id.to_owned(), true))
}

/// Returns the oldest job of a kind that waits, or runs too.
pub(crate) fn of_kind(
    connection: &Connection,
    kind: &str,
    or_running: bool,
) -> StoreResult<Option<String>> {
    connection
        .prepare_cached(
            "SELECT id FROM memory_jobs WHERE type = ?1 AND status IN ('pending', 'running') \
             AND (?2 OR status = 'pending') ORDER BY seq LIMIT 1",
        )
        .and_then(|mut statement| {
            statement
                .query_row(params![kind, or_running], |row| row.get(0))
                .optional()
        })
        .map_err(sql("look for a job"))
}

/// Ends what workers left that died: what somebody had cancelled, and what was left so often that it may be what kills them.
///
/// Those that are at work here are not left, whatever a clock that was set says of their leases.
pub(crate) fn settle_left(
    connection: &Connection,
    now: Timestamp,
    at_work: &str,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE memory_jobs SET status = CASE WHEN is_stopping THEN 'cancelled' ELSE 'failed' END, \
             last_error = CASE WHEN is_stopping THEN last_error ELSE 'whoever was at it ended ' || (attempts + 1) || ' times' END, \
             attempts = attempts + 1, is_stopping = 0, lease_until = NULL, updated_at = ?1 \
             WHERE status = 'running' AND lease_until <= ?1 AND (is_stopping OR attempts + 1 >= ?2) \
             AND id NOT IN (SELECT value FROM json_each(?3))",
        )
        .and_then(|mut statement| {
            statement.execute(params![now.as_millis(), MOST_ATTEMPTS, at_work])
        })
        .map(drop)
        .map_err(sql("end what was left"))
}

/// Takes the job of a lane that has waited longest, for a while. One whose lease has run out is
/// taken over, which counts as a failure.
pub(crate) fn claim(
    connection: &Connection,
    lane: Lane,
    now: Timestamp,
    lease_ms: i64,
    at_work: &str,
) -> StoreResult<Option<Job>> {
    connection
        .prepare_cached(&format!(
            "UPDATE memory_jobs SET attempts = attempts + (status = 'running'), status = 'running', token = token + 1, \
             lease_until = ?3, updated_at = ?2 \
             WHERE seq = (SELECT seq FROM memory_jobs WHERE lane = ?1 AND (\
                 (status = 'pending' AND run_after <= ?2) OR (status = 'running' AND lease_until <= ?2)\
             ) AND id NOT IN (SELECT value FROM json_each(?4)) ORDER BY run_after, seq LIMIT 1) RETURNING {COLUMNS}"
        ))
        .and_then(|mut statement| {
            let values = params![
                lane.as_str(),
                now.as_millis(),
                now.plus_millis(lease_ms).as_millis(),
                at_work
            ];
            statement.query_row(values, read).optional()
        })
        .map_err(sql("take a job"))
}

/// Holds a job for longer. Returns whether it is still held under this lease, and whether somebody wants it to stop.
pub(crate) fn renew(
    connection: &Connection,
    id: &str,
    token: u64,
    until: Timestamp,
) -> StoreResult<Option<bool>> {
    connection
        .prepare_cached(
            "UPDATE memory_jobs SET lease_until = ?3 WHERE id = ?1 AND token = ?2 AND status = 'running' \
             RETURNING is_stopping",
        )
        .and_then(|mut statement| {
            statement
                .query_row(params![id, number(token), until.as_millis()], |row| row.get(0))
                .optional()
        })
        .map_err(sql("hold a job"))
}

/// Ends a try, if the job is still held under this lease. Returns whether it was.
pub(crate) fn finish(
    connection: &Connection,
    id: &str,
    token: u64,
    next: &Next,
    now: Timestamp,
) -> StoreResult<bool> {
    connection
        .prepare_cached(
            "UPDATE memory_jobs SET status = ?3, attempts = ?4, deferrals = ?5, run_after = ?6, last_error = ?7, \
             updated_at = ?8, lease_until = NULL, is_stopping = 0 WHERE id = ?1 AND token = ?2 AND status = 'running'",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                id,
                number(token),
                next.status.as_str(),
                next.attempts,
                next.deferrals,
                next.run_after.as_millis(),
                next.last_error,
                now.as_millis(),
            ])
        })
        .map(|changed| changed > 0)
        .map_err(sql("end a job"))
}

/// Cancels a job that waits, and asks one that runs to stop. Returns how far it has come then; nothing for one that there
/// is not.
pub(crate) fn cancel(
    connection: &Connection,
    id: &str,
    now: Timestamp,
) -> StoreResult<Option<JobStatus>> {
    connection
        .prepare_cached(
            "UPDATE memory_jobs SET \
             is_stopping = CASE WHEN status = 'running' THEN 1 ELSE is_stopping END, \
             status = CASE WHEN status = 'pending' THEN 'cancelled' ELSE status END, \
             updated_at = CASE WHEN status IN ('pending', 'running') THEN ?2 ELSE updated_at END \
             WHERE id = ?1 RETURNING status",
        )
        .and_then(|mut statement| {
            let status = |row: &Row<'_>| Ok(row.get::<_, Named<JobStatus>>(0)?.0);
            statement
                .query_row(params![id, now.as_millis()], status)
                .optional()
        })
        .map_err(sql("cancel a job"))
}

/// Has a job tried again that failed or was cancelled, at once and as if for the first time. Returns how far it has come
/// then; nothing for one that there is not.
pub(crate) fn retry(
    connection: &Connection,
    id: &str,
    now: Timestamp,
) -> StoreResult<Option<JobStatus>> {
    let Some(job) = get(connection, id)? else {
        return Ok(None);
    };
    if !matches!(job.status, JobStatus::Failed | JobStatus::Cancelled) {
        return Ok(Some(job.status));
    }
    connection
        .prepare_cached(
            "UPDATE memory_jobs SET status = 'pending', attempts = 0, deferrals = 0, run_after = ?2, updated_at = ?2 \
             WHERE id = ?1",
        )
        .and_then(|mut statement| statement.execute(params![id, now.as_millis()]))
        .map_err(sql("try a job again"))?;
    Ok(Some(JobStatus::Pending))
}

/// Returns a job.
pub(crate) fn get(connection: &Connection, id: &str) -> StoreResult<Option<Job>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM memory_jobs WHERE id = ?1"))
        .and_then(|mut statement| statement.query_row([id], read).optional())
        .map_err(sql("read a job"))
}

/// Returns the newest jobs, newest first.
pub(crate) fn newest(connection: &Connection, limit: u32) -> StoreResult<Vec<Job>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM memory_jobs ORDER BY seq DESC LIMIT ?1"
        ))
        .and_then(|mut statement| statement.query_map([limit], read)?.collect())
        .map_err(sql("read jobs"))
}

/// Returns how many jobs there are of each status.
pub(crate) fn counts(connection: &Connection) -> StoreResult<Vec<(JobStatus, u64)>> {
    connection
        .prepare_cached("SELECT status, count(*) FROM memory_jobs GROUP BY status ORDER BY status")
        .and_then(|mut statement| {
            let count = |row: &Row<'_>| {
                let number: i64 = row.get(1)?;
                Ok((
                    row.get::<_, Named<JobStatus>>(0)?.0,
                    u64::try_from(number).unwrap_or_default(),
                ))
            };
            statement.query_map([], count)?.collect()
        })
        .map_err(sql("count jobs"))
}

/// Returns when the next job of a lane is due.
pub(crate) fn next_due(connection: &Connection, lane: Lane) -> StoreResult<Option<Timestamp>> {
    connection
        .prepare_cached(
            "SELECT min(CASE status WHEN 'pending' THEN run_after ELSE lease_until END) FROM memory_jobs \
             WHERE lane = ?1 AND status IN ('pending', 'running')",
        )
        .and_then(|mut statement| {
            statement.query_row([lane.as_str()], |row| row.get::<_, Option<i64>>(0))
        })
        .map(|due| due.map(Timestamp::from_millis))
        .map_err(sql("look for the next job"))
}

/// Removes jobs that ended before an instant. Those that failed stay, because somebody has to look at them.
pub(crate) fn prune(connection: &Connection, before: Timestamp) -> StoreResult<()> {
    connection
        .prepare_cached(
            "DELETE FROM memory_jobs WHERE status IN ('completed', 'cancelled') AND updated_at < ?1",
        )
        .and_then(|mut statement| statement.execute([before.as_millis()]))
        .map(drop)
        .map_err(sql("remove old jobs"))
}

fn read(row: &Row<'_>) -> rusqlite::Result<Job> {
    let token: i64 = row.get(8)?;
    Ok(Job {
        id: row.get(0)?,
        kind: row.get(1)?,
        payload: row.get(2)?,
        lane: row.get::<_, Named<Lane>>(3)?.0,
        status: row.get::<_, Named<JobStatus>>(4)?.0,
        attempts: row.get(5)?,
        deferrals: row.get(6)?,
        run_after: Timestamp::from_millis(row.get(7)?),
        token: u64::try_from(token).unwrap_or_default(),
        last_error: row.get(9)?,
        created: Timestamp::from_millis(row.get(10)?),
        updated: Timestamp::from_millis(row.get(11)?),
        is_stopping: row.get(12)?,
    })
}

fn number(token: u64) -> i64 {
    i64::try_from(token).unwrap_or(i64::MAX)
}

/// Returns an error that says that there is no such job.
pub(crate) fn unknown(id: &str) -> StoreError {
    StoreError::NotFound {
        what: format!("the job `{id}`"),
    }
}

#[cfg(test)]
mod tests {
    use memory_core::env::{ManualClock, SeededRng};
    use memory_core::job::{Resolution, after};
    use memory_core::wire::job as name;

    use super::*;
    use crate::state::SqliteState;

    const MINUTE: i64 = 60_000;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_millis(minutes * MINUTE)
    }

    fn new(kind: &str, unless: Unless) -> NewJob {
        NewJob {
            kind: kind.to_owned(),
            payload: "{}".to_owned(),
            run_after: at(0),
            unless,
        }
    }

    fn on<T>(state: &SqliteState, work: impl FnOnce(&Connection) -> StoreResult<T>) -> T {
        state
            .write_blocking(|transaction| work(transaction))
            .expect("it works")
    }

    fn state() -> (tempfile::TempDir, SqliteState) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("state.db");
        let state = SqliteState::open(&path, &ManualClock::default()).expect("open");
        (folder, state)
    }

    #[test]
    fn what_waits_already_is_not_asked_for_twice() {
        let (_folder, state) = state();
        let ask = |id: &str, unless| {
            on(&state, |c| {
                enqueue(c, id, &new(name::CONSOLIDATE, unless), at(0))
            })
        };
        assert_eq!(ask("a", Unless::Pending), ("a".to_owned(), true));
        assert_eq!(ask("b", Unless::Pending), ("a".to_owned(), false));
        assert_eq!(ask("c", Unless::Active), ("a".to_owned(), false));
        assert_eq!(ask("d", Unless::Never), ("d".to_owned(), true));
        let job = on(&state, |c| claim(c, Lane::Model, at(0), MINUTE, "[]")).expect("one waits");
        assert_eq!((job.id.as_str(), job.token), ("a", 1));
        on(&state, |c| cancel(c, "d", at(0)));
        // One that runs may have begun before what the new one is for.
        assert_eq!(ask("e", Unless::Active), ("a".to_owned(), false));
        assert_eq!(ask("f", Unless::Pending), ("f".to_owned(), true));
    }

    #[test]
    fn a_lease_that_ran_out_is_taken_over_and_its_holder_is_too_late() {
        let (_folder, state) = state();
        on(&state, |c| {
            enqueue(c, "a", &new(name::CONSOLIDATE, Unless::Never), at(0))
        });
        let first = on(&state, |c| claim(c, Lane::Model, at(0), MINUTE, "[]")).expect("it waits");
        assert!(on(&state, |c| claim(c, Lane::Model, at(0), MINUTE, "[]")).is_none());
        assert_eq!(
            on(&state, |c| renew(c, "a", first.token, at(2))),
            Some(false)
        );
        assert!(on(&state, |c| claim(c, Lane::Model, at(1), MINUTE, "[]")).is_none());
        let second =
            on(&state, |c| claim(c, Lane::Model, at(2), MINUTE, "[]")).expect("it was left");
        assert_eq!((second.id.as_str(), second.token), ("a", 2));
        assert_eq!(second.attempts, 1, "whoever had it did not end it");
        let done = after(&first, Resolution::Completed, at(2), &SeededRng::new(1));
        assert!(!on(&state, |c| finish(c, "a", first.token, &done, at(2))));
        assert_eq!(on(&state, |c| renew(c, "a", first.token, at(9))), None);
        assert!(on(&state, |c| finish(c, "a", second.token, &done, at(2))));
        let job = on(&state, |c| get(c, "a")).expect("it is kept");
        assert_eq!(job.status, JobStatus::Completed);
    }

    #[test]
    fn what_kills_its_workers_ends_and_what_was_cancelled_does_not_begin_again() {
        let (_folder, state) = state();
        on(&state, |c| {
            enqueue(c, "a", &new(name::CONSOLIDATE, Unless::Never), at(0))
        });
        let mut minute = 0;
        while let Some(job) = on(&state, |c| {
            settle_left(c, at(minute), "[]")?;
            claim(c, Lane::Model, at(minute), MINUTE, "[]")
        }) {
            assert_eq!(job.id, "a");
            minute += 1;
        }
        let job = on(&state, |c| get(c, "a")).expect("it is kept");
        assert_eq!(
            (job.status, job.attempts, minute),
            (JobStatus::Failed, MOST_ATTEMPTS, 8)
        );
        on(&state, |c| {
            enqueue(c, "b", &new(name::CONSOLIDATE, Unless::Never), at(0))
        });
        on(&state, |c| claim(c, Lane::Model, at(9), MINUTE, "[]")).expect("it waits");
        on(&state, |c| cancel(c, "b", at(9)));
        on(&state, |c| settle_left(c, at(10), "[]"));
        let job = on(&state, |c| get(c, "b")).expect("it is kept");
        assert_eq!(job.status, JobStatus::Cancelled);
    }

    #[test]
    fn lanes_do_not_see_each_other_and_the_oldest_comes_first() {
        let (_folder, state) = state();
        for (id, kind) in [
            ("a", name::CONSOLIDATE),
            ("b", name::EMBED_CONCEPT_PAGE),
            ("c", name::SWEEP),
        ] {
            on(&state, |c| enqueue(c, id, &new(kind, Unless::Never), at(0)));
        }
        let later = NewJob {
            run_after: at(5),
            ..new(name::EMBED_CONCEPT_PAGE, Unless::Never)
        };
        on(&state, |c| enqueue(c, "d", &later, at(0)));
        let take = |lane| on(&state, |c| claim(c, lane, at(1), MINUTE, "[]")).map(|job| job.id);
        assert_eq!(take(Lane::Model).as_deref(), Some("a"));
        assert_eq!(take(Lane::Model).as_deref(), Some("c"));
        assert_eq!(take(Lane::Embed).as_deref(), Some("b"));
        assert_eq!(take(Lane::Embed), None, "its time has not come");
        assert_eq!(take(Lane::Fast), None);
        let due = on(&state, |c| next_due(c, Lane::Fast));
        assert_eq!(due, None);
    }

    #[test]
    fn a_job_is_cancelled_and_tried_again() {
        let (_folder, state) = state();
        on(&state, |c| {
            enqueue(c, "a", &new(name::CONSOLIDATE, Unless::Never), at(0))
        });
        assert_eq!(
            on(&state, |c| cancel(c, "a", at(1))),
            Some(JobStatus::Cancelled)
        );
        assert_eq!(
            on(&state, |c| retry(c, "a", at(2))),
            Some(JobStatus::Pending)
        );
        let job = on(&state, |c| claim(c, Lane::Model, at(2), MINUTE, "[]")).expect("it waits");
        assert_eq!(
            on(&state, |c| cancel(c, "a", at(2))),
            Some(JobStatus::Running)
        );
        assert_eq!(
            on(&state, |c| renew(c, "a", job.token, at(3))),
            Some(true),
            "it is asked to stop"
        );
        let reason = "broken".to_owned();
        let next = after(
            &job,
            Resolution::Failed { reason },
            at(2),
            &SeededRng::new(1),
        );
        assert!(on(&state, |c| finish(c, "a", job.token, &next, at(2))));
        on(&state, |c| prune(c, at(99)));
        let kept = on(&state, |c| get(c, "a")).expect("what failed is kept");
        assert_eq!(
            (kept.status, kept.last_error.as_deref()),
            (JobStatus::Failed, Some("broken"))
        );
        assert_eq!(on(&state, counts), [(JobStatus::Failed, 1)]);
        assert_eq!(on(&state, |c| retry(c, "nothing", at(2))), None);
    }
}
