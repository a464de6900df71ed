//! Holding the ledger and every revision against the digests that were taken when they were written.

use memory_core::item::{Head, LedgerCheck, LedgerFault, Link, digest};
use memory_core::store::{StoreError, StoreResult};
use memory_core::time::Timestamp;
use rusqlite::{Connection, Row};

use super::super::sql::{Count, sql};
use super::{ledger, revision};

/// An operation as it is stored.
struct Stored {
    sequence: u64,
    key: String,
    change: String,
    item: String,
    revision: u32,
    actor: String,
    actor_name: String,
    at: Timestamp,
    salt: Option<String>,
    request: String,
    result: String,
    previous: String,
    hash: String,
}

/// Reads everything and says where it is not what was written.
pub(super) fn check(connection: &Connection) -> StoreResult<LedgerCheck> {
    let mut found = LedgerCheck {
        operations: 0,
        faults: Vec::new(),
    };
    let mut head = Head::genesis();
    let mut statement = connection
        .prepare(
            "SELECT sequence, key, change, item, revision, actor, actor_name, at, salt, request, result, previous, hash \
             FROM item_operations ORDER BY sequence",
        )
        .map_err(sql("read the ledger"))?;
    let rows = statement
        .query_map([], stored)
        .map_err(sql("read the ledger"))?;
    for row in rows {
        let row = row.map_err(sql("read the ledger"))?;
        found.operations += 1;
        let expected = head.sequence + 1;
        if row.sequence != expected {
            let last = row.sequence.saturating_sub(1);
            found.fault(
                expected,
                format!("operations {expected} to {last} are missing"),
            );
        } else if row.previous != head.hash {
            let reason = "it is not chained to the operation before it";
            found.fault(row.sequence, reason.to_owned());
        }
        if row.link().hash() != row.hash {
            found.fault(row.sequence, "its row was changed".to_owned());
        }
        if let Some(reason) = revision_fault(connection, &row)? {
            found.fault(row.sequence, reason);
        }
        head = Head {
            sequence: row.sequence,
            hash: row.hash,
        };
    }
    let (end, _) = ledger::head(connection)?;
    if end != head {
        let reason = format!(
            "the ledger should end with operation {} and ends with {}",
            end.sequence, head.sequence
        );
        found.fault(end.sequence.max(head.sequence), reason);
    }
    strays(connection, &mut found)?;
    Ok(found)
}

/// Returns what is wrong with the revision that an operation made.
fn revision_fault(connection: &Connection, row: &Stored) -> StoreResult<Option<String>> {
    let Stored { item, revision, .. } = row;
    let Some(salt) = &row.salt else {
        // Its item must have been forgotten since.
        let gone: bool = connection
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM item_revisions WHERE item = ?1 AND status = 'forgotten' AND revision > ?2)",
            )
            .and_then(|mut statement| {
                statement.query_row((item, revision), |row| row.get(0))
            })
            .map_err(sql("read a revision"))?;
        return Ok((!gone).then(|| format!("its salt is missing and `{item}` was not forgotten")));
    };
    match revision::of(connection, item, *revision) {
        Ok(Some(state)) if digest(salt, &state) == row.result => Ok(None),
        Ok(Some(_)) => Ok(Some(format!("revision {revision} of `{item}` was changed"))),
        Ok(None) => Ok(Some(format!("revision {revision} of `{item}` is missing"))),
        Err(StoreError::Damaged { reason, .. }) => Ok(Some(format!(
            "revision {revision} of `{item}` cannot be read: {reason}"
        ))),
        Err(error) => Err(error),
    }
}

/// Finds what no digest covers: revisions of no operation, and the times in which each was the newest.
fn strays(connection: &Connection, found: &mut LedgerCheck) -> StoreResult<()> {
    let mut statement = connection
        .prepare(
            "SELECT made.operation, made.item, made.revision FROM item_revisions AS made
             LEFT JOIN item_operations AS operation ON operation.sequence = made.operation
             LEFT JOIN item_revisions AS next ON next.item = made.item AND next.revision = made.revision + 1
             WHERE operation.item IS NOT made.item OR operation.revision IS NOT made.revision
                 OR operation.at IS NOT made.known_from OR next.known_from IS NOT made.known_to
             ORDER BY made.operation",
        )
        .map_err(sql("read the revisions"))?;
    let rows = statement
        .query_map([], |row| {
            Ok((
                row.get::<_, Count>(0)?.0,
                row.get::<_, String>(1)?,
                row.get::<_, u32>(2)?,
            ))
        })
        .map_err(sql("read the revisions"))?;
    for row in rows {
        let (sequence, item, revision) = row.map_err(sql("read the revisions"))?;
        let reason = format!("revision {revision} of `{item}` is not where its operation put it");
        found.fault(sequence, reason);
    }
    Ok(())
}

trait Faults {
    fn fault(&mut self, sequence: u64, reason: String);
}

impl Faults for LedgerCheck {
    fn fault(&mut self, sequence: u64, reason: String) {
        self.faults.push(LedgerFault { sequence, reason });
    }
}

impl Stored {
    fn link(&self) -> Link<'_> {
        Link {
            sequence: self.sequence,
            previous: &self.previous,
            key: &self.key,
            change: &self.change,
            item: &self.item,
            revision: self.revision,
            actor: &self.actor,
            actor_name: &self.actor_name,
            at: self.at,
            request: &self.request,
            result: &self.result,
        }
    }
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored {
        sequence: row.get::<_, Count>(0)?.0,
        key: row.get(1)?,
        change: row.get(2)?,
        item: row.get(3)?,
        revision: row.get(4)?,
        actor: row.get(5)?,
        actor_name: row.get(6)?,
        at: Timestamp::from_millis(row.get(7)?),
        salt: row.get(8)?,
        request: row.get(9)?,
        result: row.get(10)?,
        previous: row.get(11)?,
        hash: row.get(12)?,
    })
}
