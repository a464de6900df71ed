//! Writing operations: looked up by key, checked, chained, and stored with all that follows from them.

use memory_core::item::{
    Actor, Change, Commit, Committed, Head, ItemState, LedgerError, LedgerResult, Link, Operation,
    Revision, apply, digest,
};
use memory_core::store::StoreResult;
use memory_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::super::sql::{Count, sql};
use super::{citations, outbox, revision};

/// Writes operations inside the caller's transaction, which must be dropped if this returns an error.
///
/// It is meant to be called with other writes of the same transaction, such as the intake's, so that an item is never
/// without the entry it was made of.
pub(crate) fn commit(connection: &Connection, commit: &Commit) -> LedgerResult<Vec<Committed>> {
    let (mut head, mut newest) = head(connection)?;
    let mut expected = commit.expected_head.as_ref();
    let mut done = Vec::with_capacity(commit.operations.len());
    for operation in &commit.operations {
        if let Some(known) = known(connection, operation)? {
            done.push(known);
            continue;
        }
        // Only for what is new: a retry must give the first result, however far the ledger has gone on.
        if let Some(expected) = expected.take()
            && *expected != head
        {
            return Err(LedgerError::StaleHead {
                expected: Box::new(expected.clone()),
                found: Box::new(head),
            });
        }
        // A clock that was set back must not make an operation older than the one before it.
        newest = newest.max(commit.at);
        let current = revision::current(connection, &operation.item)?;
        let other = match operation.change.other() {
            Some(other) => revision::current(connection, other)?,
            None => None,
        };
        let (current, other) = (current.as_ref(), other.as_ref());
        let next = apply(operation, &commit.actor, newest, current, other)?;
        head = write(connection, operation, &commit.actor, newest, &next, &head)?;
        done.push(Committed {
            key: operation.key.clone(),
            item: operation.item.clone(),
            revision: next.revision(),
            head: head.clone(),
            at: newest,
            replayed: false,
        });
    }
    Ok(done)
}

/// Returns where the ledger ends and when its last operation was written.
pub(super) fn head(connection: &Connection) -> StoreResult<(Head, Timestamp)> {
    connection
        .prepare_cached("SELECT sequence, hash, at FROM item_head")
        .and_then(|mut statement| {
            statement.query_row([], |row| {
                let head = Head {
                    sequence: row.get::<_, Count>(0)?.0,
                    hash: row.get(1)?,
                };
                Ok((head, Timestamp::from_millis(row.get(2)?)))
            })
        })
        .map_err(sql("read the head of the ledger"))
}

/// Returns what became of an operation that was written before.
fn known(connection: &Connection, operation: &Operation) -> LedgerResult<Option<Committed>> {
    let found = connection
        .prepare_cached(
            "SELECT item, revision, sequence, hash, at, salt, request FROM item_operations WHERE key = ?1",
        )
        .and_then(|mut statement| {
            statement
                .query_row([operation.key.as_str()], |row| {
                    let item: String = row.get(0)?;
                    let revision: Revision = row.get(1)?;
                    let head = Head {
                        sequence: row.get::<_, Count>(2)?.0,
                        hash: row.get(3)?,
                    };
                    let at = Timestamp::from_millis(row.get(4)?);
                    let salt: Option<String> = row.get(5)?;
                    let request: String = row.get(6)?;
                    Ok((item, revision, head, at, salt, request))
                })
                .optional()
        })
        .map_err(sql("look for an operation"))?;
    let Some((item, revision, head, at, salt, request)) = found else {
        return Ok(None);
    };
    // Without its salt, because the item was forgotten, only the item can be compared.
    let same = item == operation.item.as_str()
        && salt.is_none_or(|salt| digest(&salt, operation) == request);
    if !same {
        return Err(LedgerError::KeyReused {
            key: operation.key.clone(),
        });
    }
    Ok(Some(Committed {
        key: operation.key.clone(),
        item: operation.item.clone(),
        revision,
        head,
        at,
        replayed: true,
    }))
}

fn write(
    connection: &Connection,
    operation: &Operation,
    actor: &Actor,
    at: Timestamp,
    next: &ItemState,
    head: &Head,
) -> StoreResult<Head> {
    let salt: String = connection
        .prepare_cached("SELECT lower(hex(randomblob(16)))")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(sql("make a salt"))?;
    let (request, result) = (digest(&salt, operation), digest(&salt, next));
    let link = Link {
        sequence: head.sequence + 1,
        previous: &head.hash,
        key: operation.key.as_str(),
        change: operation.change.name(),
        item: operation.item.as_str(),
        revision: next.revision().get(),
        actor: actor.kind(),
        actor_name: actor.name(),
        at,
        request: &request,
        result: &result,
    };
    let hash = link.hash();
    connection
        .prepare_cached(
            "INSERT INTO item_operations (sequence, key, change, item, revision, actor, actor_name, at, salt, request, \
             result, previous, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                Count(link.sequence),
                link.key,
                link.change,
                link.item,
                link.revision,
                link.actor,
                link.actor_name,
                at.as_millis(),
                salt,
                request,
                result,
                link.previous,
                hash,
            ])
        })
        .map_err(sql("write an operation"))?;
    revision::write(connection, next, link.sequence, at)?;
    if matches!(operation.change, Change::Forget { .. }) {
        revision::scrub(connection, next)?;
    }
    if let Some(cited) = &operation.citations {
        citations::replace(connection, &operation.item, cited)?;
    }
    outbox::tell(connection, next, link.sequence, at)?;
    connection
        .prepare_cached("UPDATE item_head SET sequence = ?1, hash = ?2, at = ?3")
        .and_then(|mut statement| {
            statement.execute(params![Count(link.sequence), hash, at.as_millis()])
        })
        .map_err(sql("move the head of the ledger"))?;
    Ok(Head {
        sequence: link.sequence,
        hash,
    })
}
