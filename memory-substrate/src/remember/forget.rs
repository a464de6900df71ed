//! Forgetting one entry: out of the buffer byte for byte, its item without its content, and everything else as it was.
//!
//! Both happen by one commit, like keeping it did. The archive of the day is the record of what was said and keeps its
//! copy; the answer says so, because who forgets something wants to know where it still is. An entry that a person
//! edited since is theirs, so it is left alone and the caller is told.

use memory_core::item::{Actor, Change, ForgetReason, ItemId, ItemState, Operation, OperationKey};
use memory_core::provenance::Authority;
use memory_core::store::{StoreError, StoreResult};
use memory_core::text::buffer;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{Shared, hash_of, items};
use crate::entries::content_of;
use crate::error::{SubstrateError, SubstrateResult};
use crate::oplog::{
    Change as FileChange, OperationKind, Part, Plan, Request, WriteContext, ids_of,
};
use crate::pages::hash_bytes;
use crate::state::{items as stored, ops, remembered};
use crate::workspace::{Workspace, read_bytes_or_empty, read_text_or_empty};

/// What became of an entry that was to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetReceipt {
    /// The entry.
    pub id: String,
    /// The operation that did it.
    #[serde(default)]
    pub operation: String,
    /// Whether it was taken out of the buffer now.
    pub entry_removed: bool,
    /// Whether its item's content was taken away now.
    pub item_forgotten: bool,
    /// The file of the archive that still has it, relative to the assistant's folder.
    pub archive: Option<String>,
    /// Pages that cite it. They are not changed.
    pub cited_by: Vec<Slug>,
    /// Whether somebody edited the entry at that very moment, so that it stays in the buffer.
    pub edited_meanwhile: bool,
}

impl ForgetReceipt {
    /// Returns whether there was nothing left to do.
    pub fn was_forgotten(&self) -> bool {
        !self.entry_removed && !self.item_forgotten
    }
}

impl Shared {
    pub(super) fn forget(
        &self,
        name: &str,
        context: WriteContext,
        now: Timestamp,
    ) -> SubstrateResult<ForgetReceipt> {
        if context.authority != Authority::Owner {
            return Err(SubstrateError::Refused {
                reason: "only the owner makes an entry forgotten".to_owned(),
            });
        }
        let id = entry_id(name)?;
        let buffer = self.path_of(&self.workspace.buffer_path())?;
        let archive = self.path_of(&self.workspace.archive_dir())?;
        let forgetting = Forgetting {
            id,
            buffer,
            archive,
            workspace: self.workspace.clone(),
            actor: context.actor.clone(),
            operation: self.ids.next_id(),
            at: now,
        };
        let request = Request {
            kind: OperationKind::Forget,
            hash: hash_bytes(forgetting.id.as_bytes()),
            context,
            at: now,
        };
        let mut receipt: ForgetReceipt = self
            .log
            .commit(request, move |connection| forgetting.plan(connection))?;
        // It is gone for every reader even if its file cannot be written yet.
        if let Err(error) = self.log.settle() {
            tracing::warn!(%error, "an entry is forgotten but could not be taken out of its file yet");
        }
        let met = self
            .log
            .state()
            .read_blocking(|connection| ops::conflicts(connection, &receipt.operation))?;
        if !met.is_empty() {
            receipt.entry_removed = false;
            receipt.edited_meanwhile = true;
        }
        Ok(receipt)
    }
}

/// Returns the identifier that somebody means by `i1`, `^m-i1` or `mem_i1`.
fn entry_id(name: &str) -> SubstrateResult<String> {
    let id = name.trim();
    let id = id
        .strip_prefix("^m-")
        .or_else(|| id.strip_prefix("mem_"))
        .unwrap_or(id);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if id.is_empty() || id.len() > 200 || !id.bytes().all(fits) {
        return Err(StoreError::BadRequest {
            reason: "an entry is named by what stands behind `^m-` at the end of its first line"
                .to_owned(),
        }
        .into());
    }
    Ok(id.to_owned())
}

/// An entry about to be forgotten.
struct Forgetting {
    id: String,
    buffer: String,
    archive: String,
    workspace: Workspace,
    actor: String,
    operation: String,
    at: Timestamp,
}

impl Forgetting {
    fn plan(self, connection: &Connection) -> StoreResult<Plan<ForgetReceipt>> {
        let known = remembered::of(connection, &self.id)?;
        let item = item_of(connection, &self.id)?;
        let there =
            read_bytes_or_empty(self.workspace.fs().as_ref(), &self.workspace.buffer_path())?;
        let places = buffer::find_entries(&there, &self.id);
        if known.is_none() && item.is_none() && places.is_empty() {
            return Err(StoreError::NotFound {
                what: format!("entry ^m-{}", self.id),
            });
        }
        let mut parts = Vec::new();
        if let Some(first) = places.first() {
            let entry = &there[first.clone()];
            // After it was forgotten once, or when its record was lost, nobody knows any more what it was.
            let source = known.as_ref().filter(|known| !known.hash.is_empty());
            let mut edited = places.iter().any(|place| there[place.clone()] != *entry);
            if let Some(known) = source {
                edited |= hash_of(&content_of(entry), &known.source)? != known.hash;
            }
            if edited {
                return Err(StoreError::Conflict {
                    what: format!("entry ^m-{} of {}", self.id, self.buffer),
                    expected: "the text that was remembered".to_owned(),
                    found:
                        "one that somebody edited, which was left as it is; delete it there first"
                            .to_owned(),
                });
            }
            parts.push(Part {
                path: self.buffer.clone(),
                change: FileChange::Remove {
                    entries: entry.to_vec(),
                },
                origin: None,
            });
        }
        let cited_by = match &item {
            Some(ItemState::Live(item)) => stored::citing_pages(connection, &item.id)?,
            _ => Vec::new(),
        };
        let item_forgotten = forget_item(
            connection,
            item,
            &self.id,
            &self.actor,
            (ForgetReason::Owner, self.at),
        )?;
        remembered::forget(connection, &self.id)?;
        let archive = self.archived(known.as_ref().map(|known| known.day.as_str()))?;
        Ok(Plan {
            id: self.operation.clone(),
            outcome: ForgetReceipt {
                operation: self.operation,
                entry_removed: !parts.is_empty(),
                item_forgotten,
                archive,
                cited_by,
                edited_meanwhile: false,
                id: self.id,
            },
            parts,
        })
    }

    /// Returns the file of the archive that has the entry.
    fn archived(&self, day: Option<&str>) -> StoreResult<Option<String>> {
        let Some(day) = day else {
            return Ok(None);
        };
        let path = self.workspace.archive_dir().join(format!("{day}.md"));
        let text = read_text_or_empty(self.workspace.fs().as_ref(), &path)?;
        Ok(ids_of(&text)
            .contains(&self.id)
            .then(|| format!("{}/{day}.md", self.archive)))
    }
}

/// Takes away what is known of an entry besides its text in files: what it said, and the content of its item.
pub(crate) fn forget_record(
    connection: &Connection,
    id: &str,
    actor: &str,
    why: (ForgetReason, Timestamp),
) -> StoreResult<()> {
    let item = item_of(connection, id)?;
    forget_item(connection, item, id, actor, why)?;
    remembered::forget(connection, id)
}

fn item_of(connection: &Connection, id: &str) -> StoreResult<Option<ItemState>> {
    match ItemId::minted(id) {
        Ok(item) => stored::current(connection, &item),
        Err(_) => Ok(None),
    }
}

/// Returns whether there was any content to take away.
fn forget_item(
    connection: &Connection,
    item: Option<ItemState>,
    entry: &str,
    actor: &str,
    (reason, at): (ForgetReason, Timestamp),
) -> StoreResult<bool> {
    let Some(ItemState::Live(item)) = item else {
        return Ok(false);
    };
    let forget = Operation {
        key: key(entry)?,
        item: item.id.clone(),
        expected: Some(item.revision),
        change: Change::Forget { reason },
        citations: None,
    };
    items::commit(connection, Actor::Owner(actor.to_owned()), at, vec![forget])?;
    Ok(true)
}

fn key(id: &str) -> StoreResult<OperationKey> {
    OperationKey::parse(&format!("forget:{id}")).map_err(|error| StoreError::BadRequest {
        reason: error.to_string(),
    })
}
