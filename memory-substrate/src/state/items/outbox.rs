//! The outbox: word of every change, handed out until somebody says that it was dealt with.
//!
//! An event is written in the transaction of its change, so none is lost, and handed out again when its taker does not
//! come back, so some come twice. The number of times it was handed out is the token: a taker that comes back too late
//! holds an older one and is turned away.

use memory_core::item::{ItemId, ItemState, LedgerError, LedgerResult, Revision};
use memory_core::store::{
    OUTBOX_ATTEMPTS, OutboxBacklog, OutboxEvent, Released, StoreResult, outbox_retry,
};
use memory_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::super::sql::{Count, Named, sql};

/// Adds word of a change.
pub(super) fn tell(
    connection: &Connection,
    state: &ItemState,
    operation: u64,
    at: Timestamp,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO item_outbox (item, revision, operation, available_at) VALUES (?1, ?2, ?3, ?4)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                state.id().as_str(),
                state.revision(),
                Count(operation),
                at.as_millis(),
            ])
        })
        .map(drop)
        .map_err(sql("tell of a change"))
}

/// Takes the oldest event of each item that nobody holds, oldest first.
pub(super) fn lease(
    connection: &Connection,
    now: Timestamp,
    lease_ms: i64,
    limit: u32,
) -> StoreResult<Vec<OutboxEvent>> {
    // One whose takers never came back is given up as well, or it would keep its item's later events waiting for ever.
    connection
        .prepare_cached(
            "UPDATE item_outbox SET dead = 1 WHERE dead = 0 AND available_at <= ?1 AND lease >= ?2",
        )
        .and_then(|mut statement| {
            statement.execute(params![now.as_millis(), Count(OUTBOX_ATTEMPTS)])
        })
        .map_err(sql("give up events"))?;
    let mut taken: Vec<OutboxEvent> = connection
        .prepare_cached(
            "UPDATE item_outbox SET lease = lease + 1, available_at = ?2 WHERE event IN (
                 SELECT event FROM item_outbox AS oldest
                 WHERE dead = 0 AND available_at <= ?1 AND NOT EXISTS (
                     SELECT 1 FROM item_outbox AS older
                     WHERE older.item = oldest.item AND older.event < oldest.event AND older.dead = 0
                 )
                 ORDER BY event LIMIT ?3
             ) RETURNING event, item, revision, operation, lease",
        )
        .and_then(|mut statement| {
            let until = now.plus_millis(lease_ms.max(1)).as_millis();
            statement
                .query_map(params![now.as_millis(), until, limit], |row| {
                    Ok(OutboxEvent {
                        event: row.get::<_, Count>(0)?.0,
                        item: row.get::<_, Named<ItemId>>(1)?.0,
                        revision: row.get::<_, Revision>(2)?,
                        sequence: row.get::<_, Count>(3)?.0,
                        token: row.get::<_, Count>(4)?.0,
                    })
                })?
                .collect()
        })
        .map_err(sql("take events"))?;
    taken.sort_by_key(|event| event.event);
    Ok(taken)
}

/// Removes an event that was dealt with.
pub(super) fn ack(connection: &Connection, event: u64, token: u64) -> LedgerResult<()> {
    let removed = connection
        .prepare_cached("DELETE FROM item_outbox WHERE event = ?1 AND lease = ?2 AND dead = 0")
        .and_then(|mut statement| statement.execute(params![Count(event), Count(token)]))
        .map_err(sql("finish an event"))?;
    held(removed, event, token)
}

/// Gives an event back for later, or up.
pub(super) fn release(
    connection: &Connection,
    event: u64,
    token: u64,
    now: Timestamp,
) -> LedgerResult<Released> {
    let released = if token >= OUTBOX_ATTEMPTS {
        Released::Dead
    } else {
        Released::Retry(outbox_retry(now, token))
    };
    let (dead, available_at) = match released {
        Released::Dead => (true, now),
        Released::Retry(at) => (false, at),
    };
    let changed = connection
        .prepare_cached(
            "UPDATE item_outbox SET dead = ?3, available_at = ?4 WHERE event = ?1 AND lease = ?2 AND dead = 0",
        )
        .and_then(|mut statement| {
            statement.execute(params![Count(event), Count(token), dead, available_at.as_millis()])
        })
        .map_err(sql("give an event back"))?;
    held(changed, event, token)?;
    Ok(released)
}

/// Returns how much waits.
pub(super) fn backlog(connection: &Connection) -> StoreResult<OutboxBacklog> {
    connection
        .query_row(
            "SELECT count(*) FILTER (WHERE dead = 0), count(*) FILTER (WHERE dead = 1) FROM item_outbox",
            [],
            |row| {
                Ok(OutboxBacklog {
                    waiting: row.get::<_, Count>(0)?.0,
                    dead: row.get::<_, Count>(1)?.0,
                })
            },
        )
        .map_err(sql("count events"))
}

fn held(rows: usize, event: u64, token: u64) -> LedgerResult<()> {
    if rows == 1 {
        Ok(())
    } else {
        Err(LedgerError::LeaseLost { event, token })
    }
}
