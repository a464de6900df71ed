//! Operations that are acknowledged and not known to be in their files, by file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memory_core::time::Timestamp;

use super::operation::{Change, Operation, Part};
use super::resolve;

/// Orders parts as they are to be applied: by operation, then by number.
pub(super) type PartKey = (i64, u32);

/// A part that is still to be applied.
#[derive(Debug)]
pub(super) struct OpenPart {
    pub(super) key: PartKey,
    /// The operation's identifier.
    pub(super) operation: String,
    pub(super) at: Timestamp,
    pub(super) part: Part,
    /// Whether somebody may have begun to apply it already.
    pub(super) tried: AtomicBool,
}

/// What is still to be applied.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    parts: BTreeMap<PartKey, Arc<OpenPart>>,
    by_path: BTreeMap<String, BTreeSet<PartKey>>,
}

impl Pending {
    /// Returns what these operations have still to do.
    pub(super) fn of(operations: Vec<Operation>) -> Self {
        let mut pending = Self::default();
        for operation in operations {
            pending.insert(operation, true);
        }
        pending
    }

    /// Adds an operation that was just committed.
    pub(super) fn add(&mut self, operation: Operation) {
        self.insert(operation, false);
    }

    fn insert(&mut self, operation: Operation, tried: bool) {
        for (number, part) in operation.parts {
            let key = (operation.seq, number);
            for path in part.paths() {
                self.by_path.entry(path.to_owned()).or_default().insert(key);
            }
            let open = OpenPart {
                key,
                operation: operation.id.clone(),
                at: operation.at,
                part,
                tried: AtomicBool::new(tried),
            };
            self.parts.insert(key, Arc::new(open));
        }
    }

    pub(super) fn remove(&mut self, key: PartKey) {
        let Some(open) = self.parts.remove(&key) else {
            return;
        };
        for path in open.part.paths() {
            if let Some(keys) = self.by_path.get_mut(path) {
                keys.remove(&key);
                if keys.is_empty() {
                    self.by_path.remove(path);
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns every open part in the order in which they are to be applied.
    pub(super) fn open(&self) -> Vec<Arc<OpenPart>> {
        self.parts.values().cloned().collect()
    }

    /// Returns whether something is still to be done to a path.
    pub(super) fn concerns(&self, path: &str) -> bool {
        self.by_path.contains_key(path)
    }

    /// Returns whether something is still to be done below a folder, whose path ends in a slash unless it is empty.
    pub(super) fn concerns_below(&self, folder: &str) -> bool {
        self.below(folder).next().is_some()
    }

    /// Returns the paths below a folder to which something is still to be done.
    pub(super) fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        self.by_path
            .range::<str, _>((Bound::Included(folder), Bound::Unbounded))
            .map(|(path, _)| path.as_str())
            .take_while(move |path| path.starts_with(folder))
    }

    /// Returns the bytes of a path once everything is applied, and when the last change was asked for. `read` returns
    /// what a file holds now.
    pub(super) fn effective(
        &self,
        path: &str,
        read: &dyn Fn(&str) -> Option<Vec<u8>>,
    ) -> (Option<Vec<u8>>, Timestamp) {
        let mut bytes = read(path);
        let mut last = Timestamp::default();
        for key in self.by_path.get(path).into_iter().flatten() {
            let Some(open) = self.parts.get(key) else {
                continue;
            };
            let old_path = match &open.part.change {
                Change::Rename { .. } => open.part.path.as_str(),
                _ => path,
            };
            let tried = open.tried.load(Ordering::Acquire);
            bytes = resolve::effect(path, &open.part.change, bytes, tried, || read(old_path));
            last = open.at;
        }
        (bytes, last)
    }
}
