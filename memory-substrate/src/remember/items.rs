//! The items of entries: made by the commit that keeps the entry, and made up for where that could not be.

use std::collections::BTreeMap;

use memory_core::item::{
    Actor, Change, Claim, Commit, Evidence, EvidenceId, Interval, ItemId, NewItem, Operation,
    OperationKey,
};
use memory_core::provenance::{Authority, Origin};
use memory_core::store::{StoreError, StoreResult};
use memory_core::text::buffer;
use memory_core::time::Timestamp;
use rusqlite::Connection;

use super::screened;
use crate::entries::content_of;
use crate::state::remembered::{self, EntrySource};
use crate::state::{SqliteState, items};
use crate::workspace::{Workspace, read_bytes_or_empty};

/// Returns the operation by which the item of an entry is learnt. `rests_on` says where its text comes from; what a
/// person stated rests on nothing else.
pub(super) fn learnt(
    entry: &str,
    text: &str,
    source: &EntrySource,
    rests_on: String,
) -> StoreResult<Operation> {
    let is_stated = matches!(source.origin, Origin::UserDirect | Origin::UserFile);
    let evidence = if is_stated {
        BTreeMap::new()
    } else {
        let id = EvidenceId::parse(&format!("note:{entry}")).map_err(refused)?;
        let piece = Evidence {
            source: rests_on,
            trust: source.trust,
        };
        BTreeMap::from([(id, piece)])
    };
    Ok(Operation {
        key: OperationKey::parse(&format!("remember:{entry}")).map_err(refused)?,
        item: ItemId::minted(entry).map_err(refused)?,
        expected: None,
        change: Change::Add(NewItem {
            claim: Claim::new(text).map_err(refused)?,
            channel: source.channel.clone(),
            origin: source.origin,
            authority: source.authority,
            valid: Interval::default(),
            evidence,
        }),
        citations: None,
    })
}

/// Returns who the ledger says it was.
pub(super) fn actor(source: &EntrySource, name: &str) -> Actor {
    let name = name.to_owned();
    match (source.authority, source.origin) {
        (Authority::Owner, Origin::UserDirect | Origin::UserFile) => Actor::Owner(name),
        (Authority::Paired, _) => Actor::Paired(name),
        _ => Actor::System(name),
    }
}

/// Writes operations with whatever else the caller's transaction holds.
pub(super) fn commit(
    connection: &Connection,
    actor: Actor,
    at: Timestamp,
    operations: Vec<Operation>,
) -> StoreResult<()> {
    let commit = Commit {
        actor,
        at,
        expected_head: None,
        operations,
    };
    items::ledger::commit(connection, &commit)
        .map(drop)
        .map_err(StoreError::from)
}

/// Makes items of the entries that stand in the buffer and have none: they are older than items are, or the ledger was
/// lost. Returns how many. It blocks.
pub(crate) fn adopt(workspace: &Workspace, state: &SqliteState) -> StoreResult<usize> {
    let bytes = read_bytes_or_empty(workspace.fs().as_ref(), &workspace.buffer_path())?;
    let entries: Vec<(String, String)> = buffer::entries_in(&bytes)
        .into_iter()
        .map(|(id, range)| (id, content_of(&bytes[range])))
        .collect();
    let lacking = state.read_blocking(|connection| {
        let mut lacking = Vec::new();
        for (id, content) in entries {
            // Only a person gives an entry an identifier that no item can have.
            let Ok(item) = ItemId::minted(&id) else {
                continue;
            };
            if items::current(connection, &item)?.is_none()
                && let Some(known) = remembered::of(connection, &id)?
            {
                lacking.push((id, content, known.source));
            }
        }
        Ok(lacking)
    })?;
    if lacking.is_empty() {
        return Ok(0);
    }
    state.write_blocking(|transaction| {
        let mut adopted = 0;
        for (id, content, source) in lacking {
            let (texts, _) = screened(&[content]);
            let Some(text) = texts.first() else {
                continue;
            };
            match learnt(&id, text, &source, "memory/buffer.md".to_owned()) {
                // One after the other, so that an entry that is there twice is one item.
                Ok(operation) if items::current(transaction, &operation.item)?.is_none() => {
                    let actor = Actor::System("recovery".to_owned());
                    commit(transaction, actor, source.at, vec![operation])?;
                    adopted += 1;
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(entry = id, %error, "an entry of the buffer has no item");
                }
            }
        }
        Ok(adopted)
    })
}

fn refused(error: impl std::error::Error) -> StoreError {
    StoreError::BadRequest {
        reason: error.to_string(),
    }
}
