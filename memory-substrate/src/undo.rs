//! Taking back what an operation did to files.
//!
//! Taking back is an operation of its own: it is acknowledged, applied and merged with later edits like any other, and can
//! itself be taken back. It needs the old bytes, which are kept for some time after they were replaced.

use std::path::Path;

use memory_core::item::ForgetReason;
use memory_core::provenance::{Authority, Origin};
use memory_core::store::{Expected, StoreError, StoreResult};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::assistant::AssistantStore;
use crate::blocking;
use crate::consolidate;
use crate::entries::without;
use crate::error::store_io;
use crate::oplog::{
    Change, OpLog, OperationKind, OriginChange, Part, Plan, Request, WriteConflict, WriteContext,
};
use crate::pages::{FilePages, hash_bytes, page_of_path};
use crate::remember::forget_record;
use crate::state::history::{self, PastPart};
use crate::state::{ops, origins, runs};
use crate::workspace::Workspace;
use crate::writer::Writer;

/// What became of an operation that was taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoReport {
    /// The operation that took it back; empty when there was nothing to change.
    pub operation: String,
    /// The files that were changed, relative to the assistant's folder.
    pub files: Vec<String>,
    /// The entries that were taken out of buffer and archive.
    pub entries: Vec<String>,
    /// The entries that a consolidation had filed and that stand in the buffer again.
    #[serde(default)]
    pub put_back: Vec<String>,
    /// Files that were edited since in the same place: they stay as they are, with the older text beside them.
    pub conflicts: Vec<WriteConflict>,
}

/// The answer to a request, which a repetition gets again.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Undone {
    operation: String,
    files: Vec<String>,
    entries: Vec<String>,
    #[serde(default)]
    put_back: Vec<String>,
}

impl AssistantStore {
    /// Takes back what an operation did to files, and shows the files as they are then.
    pub async fn undo(&self, operation: &str) -> StoreResult<UndoReport> {
        let (writer, pages) = (self.writer()?.clone(), self.files().clone());
        let operation = operation.to_owned();
        let report = blocking::run(move || writer.undo(&pages, &operation)).await?;
        self.look(true).await?;
        Ok(report)
    }
}

/// What taking back needs besides the record.
pub(crate) struct Bench {
    pub(crate) workspace: Workspace,
    log: OpLog,
}

impl Writer {
    /// Takes back what an operation did to files, as far as nobody has changed the same places since. Taking back the same
    /// operation again changes nothing. It blocks.
    pub fn undo(&self, pages: &FilePages, operation: &str) -> StoreResult<UndoReport> {
        // What is not in its files yet would be written after it was taken back.
        self.settle()?;
        let found = self
            .state()
            .read_blocking(|connection| history::parts(connection, operation))?;
        let Some((kind, parts)) = found else {
            return Err(StoreError::NotFound {
                what: format!("the operation `{operation}`"),
            });
        };
        if let Some(open) = parts.iter().find(|part| part.result.is_none()) {
            return Err(StoreError::Conflict {
                what: format!("the operation `{operation}`"),
                expected: "an operation that is in all its files".to_owned(),
                found: format!("`{}` could not be written yet", open.path),
            });
        }
        let undone = self
            .state()
            .read_blocking(|connection| history::undone_kind(connection, operation))?;
        if undone == Some(OperationKind::Remember) || kind == OperationKind::Forget {
            // How the entries came in was forgotten with them, and without that they would be trusted.
            return Err(StoreError::BadRequest {
                reason: format!(
                    "the operation `{operation}` took notes back, and that cannot be taken back: remember them again"
                ),
            });
        }
        let key = |connection: &Connection| history::undo_key(connection, operation);
        let context = WriteContext::new("undo", Origin::UserDirect, Authority::Owner);
        if kind == OperationKind::Rename {
            let key = self.state().read_blocking(key)?;
            return self.undo_rename(pages, &parts, context.with_key(key));
        }
        let _turn = pages.take_turn()?;
        let context = context.with_key(self.state().read_blocking(key)?);
        let request = Request {
            kind: OperationKind::Write,
            context,
            hash: hash_bytes(format!("undo {operation}").as_bytes()),
            at: self.clock().now(),
        };
        let bench = Bench {
            workspace: self.workspace().clone(),
            log: self.log().clone(),
        };
        let at = request.at;
        let (id, undone) = (self.ids().next_id(), operation.to_owned());
        let done: Undone = self.log().commit(request, move |connection| {
            let mut entries = Vec::new();
            let mut planned = Vec::new();
            let mut put_back = Vec::new();
            if let Some(taken) = runs::taken_by(connection, &undone)? {
                let unfiled =
                    consolidate::take_back(&bench, connection, &parts, &taken, (&id, at))?;
                planned = unfiled.parts;
                put_back = unfiled.entries;
            } else if kind == OperationKind::Remember {
                entries = history::entries_of(connection, &undone)?;
                for part in &parts {
                    planned.extend(bench.without_entries(part, &entries)?);
                }
                for entry in &entries {
                    forget_record(connection, entry, "undo", (ForgetReason::Owner, at))?;
                }
            } else {
                for part in &parts {
                    let reversed = bench.reversed(connection, part)?;
                    if let Some(Change::Write { content, .. }) =
                        reversed.as_ref().map(|part| &part.change)
                    {
                        consolidate::view_restored(connection, &part.path, content)?;
                    }
                    planned.extend(reversed);
                }
            }
            let files = planned.iter().map(|part| part.path.clone()).collect();
            let outcome = Undone {
                operation: id.clone(),
                files,
                entries,
                put_back,
            };
            Ok(Plan {
                id,
                outcome,
                parts: planned,
            })
        })?;
        self.settle()?;
        let conflicts = self
            .state()
            .read_blocking(|connection| ops::conflicts(connection, &done.operation))?;
        Ok(UndoReport {
            operation: done.operation,
            files: done.files,
            entries: done.entries,
            put_back: done.put_back,
            conflicts,
        })
    }

    fn undo_rename(
        &self,
        pages: &FilePages,
        parts: &[PastPart],
        context: WriteContext,
    ) -> StoreResult<UndoReport> {
        let mut report = UndoReport::default();
        // A rename has one part.
        let Some((part, target)) = parts
            .iter()
            .find_map(|part| part.target.as_ref().map(|target| (part, target)))
        else {
            return Ok(report);
        };
        // What met another page there was put elsewhere, and that other page is not to be moved.
        if part.met_an_edit() {
            return Ok(report);
        }
        let (from, to) = (page_of_path(target).0, page_of_path(&part.path).0);
        let key = context.key.clone().unwrap_or_default();
        pages.rename_blocking(&from, &to, Expected::Any, context)?;
        let done = self
            .state()
            .read_blocking(|connection| history::of_key(connection, &key))?;
        report.operation = done.unwrap_or_default();
        report.files.push(part.path.clone());
        report.conflicts = self
            .state()
            .read_blocking(|connection| ops::conflicts(connection, &report.operation))?;
        Ok(report)
    }
}

impl Bench {
    /// Returns the change that gives a file what it had before.
    pub(crate) fn reversed(
        &self,
        connection: &Connection,
        part: &PastPart,
    ) -> StoreResult<Option<Part>> {
        // What met an edit did not change the file.
        if part.met_an_edit() {
            return Ok(None);
        }
        let current = self.read(&part.path)?;
        let before = match &part.before {
            Some(hash) => Some(self.old(&part.path, hash, current.as_deref())?),
            None => None,
        };
        let change = match (part.change.as_str(), before) {
            ("write", before) => {
                // What it wrote is not kept if a person has replaced it since. Then nothing can be merged with it: their
                // text stays, and the older one goes beside it.
                let after = part.after.as_deref().unwrap_or_default();
                let after = self.version(&part.path, after, current.as_deref())?;
                match before {
                    Some(content) => Change::Write {
                        base: after,
                        content,
                        merged: false,
                    },
                    None if current.is_none() => return Ok(None),
                    None => Change::Delete {
                        base: after.unwrap_or_default(),
                    },
                }
            }
            ("delete", Some(content)) => Change::Write {
                base: None,
                content,
                merged: false,
            },
            _ => return Ok(None),
        };
        let origin = match &part.origin {
            Some(OriginChange { slug, before, .. }) => {
                let now = origins::of(connection, slug)?;
                OriginChange::of(slug.clone(), now, before.clone())
            }
            None => None,
        };
        if let Some(lower) = origin.as_ref().and_then(OriginChange::meanwhile) {
            origins::put(connection, std::slice::from_ref(lower))?;
        }
        Ok(Some(Part {
            path: part.path.clone(),
            change,
            origin,
        }))
    }

    /// Returns the change that takes entries out of a file.
    fn without_entries(&self, part: &PastPart, entries: &[String]) -> StoreResult<Option<Part>> {
        let Some(current) = self.read(&part.path)? else {
            return Ok(None);
        };
        let content = without(&current, |id| entries.iter().any(|entry| entry == id));
        Ok((content != current).then(|| Part {
            path: part.path.clone(),
            change: Change::Write {
                base: Some(current),
                content,
                merged: false,
            },
            origin: None,
        }))
    }

    /// Returns the bytes of a hash: those of the file if it has them still, or those that were kept.
    pub(crate) fn version(
        &self,
        path: &str,
        hash: &str,
        current: Option<&[u8]>,
    ) -> StoreResult<Option<Vec<u8>>> {
        if let Some(current) = current.filter(|current| hash_bytes(current) == hash) {
            return Ok(Some(current.to_owned()));
        }
        self.log
            .old_version(hash)
            .map_err(store_io("read an old version of", Path::new(path)))
    }

    /// Returns the bytes of a hash, without which nothing can be taken back.
    pub(crate) fn old(
        &self,
        path: &str,
        hash: &str,
        current: Option<&[u8]>,
    ) -> StoreResult<Vec<u8>> {
        self.version(path, hash, current)?
            .ok_or_else(|| StoreError::NotFound {
                what: format!(
                    "the version of `{path}` that this needs (old versions are kept for 30 days)"
                ),
            })
    }

    pub(crate) fn read(&self, path: &str) -> StoreResult<Option<Vec<u8>>> {
        let place = self.workspace.root().join(path);
        match self.workspace.fs().read(&place) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(store_io("read", &place)(error)),
        }
    }
}

#[cfg(test)]
mod tests;
