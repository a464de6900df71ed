//! What a request to remember comes to: which texts are new, and what they add to which files and tables.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use memory_core::env::Ids;
use memory_core::store::{StoreError, StoreResult};
use memory_core::text::buffer;
use rusqlite::Connection;

use super::{Remembered, hash_of, items, name_of};
use crate::oplog::{Change, Part, Plan};
use crate::state::remembered::{self, EntrySource, NewEntry};

/// Entries about to be kept.
pub(super) struct Entries {
    pub(super) source: EntrySource,
    pub(super) texts: Vec<String>,
    /// Ids of the entries that stand in the buffer.
    pub(super) standing: HashSet<String>,
    pub(super) day: String,
    pub(super) stamp: String,
    pub(super) buffer: String,
    pub(super) archive: String,
    pub(super) keyed: bool,
    pub(super) actor: String,
    pub(super) session: Option<String>,
    pub(super) ids: Arc<dyn Ids>,
}

impl Entries {
    /// Names the request, whenever it is made.
    pub(super) fn hash(&self) -> StoreResult<String> {
        let EntrySource {
            channel,
            origin,
            authority,
            ..
        } = &self.source;
        name_of(&(channel, origin, authority, &self.texts))
    }

    /// Decides which texts are new and what they add to which files.
    pub(super) fn plan(self, connection: &Connection) -> StoreResult<Plan<Vec<Remembered>>> {
        let mut given: HashMap<String, String> = HashMap::new();
        let mut entries = Vec::with_capacity(self.texts.len());
        let (mut operation, mut added) = (None, String::new());
        let mut learnt = Vec::new();
        for text in &self.texts {
            let hash = hash_of(text, &self.source)?;
            let known = match given.get(&hash) {
                Some(id) => Some(id.clone()),
                None => remembered::newest_of(connection, &hash)?
                    .filter(|newest| newest.is_pending || self.standing.contains(&newest.id))
                    .map(|newest| newest.id),
            };
            let duplicate = known.is_some();
            let id = known.unwrap_or_else(|| self.ids.next_id());
            if !duplicate {
                let entry = buffer::write_entry(text, &self.stamp, &id).map_err(|error| {
                    StoreError::BadRequest {
                        reason: error.to_string(),
                    }
                })?;
                added.push_str(&entry);
                // The first entry names the operation: both are unique, and one leads to the other.
                let operation = operation.get_or_insert_with(|| id.clone());
                let entry = NewEntry {
                    id: &id,
                    hash: &hash,
                    day: &self.day,
                    operation,
                };
                remembered::add(connection, entry, &self.source)?;
                let rests_on = self.session.as_ref().map_or_else(
                    || self.actor.clone(),
                    |session| format!("session {session}"),
                );
                learnt.push(items::learnt(&id, text, &self.source, rests_on)?);
            }
            given.insert(hash, id.clone());
            entries.push(Remembered { id, duplicate });
        }
        if !learnt.is_empty() {
            let actor = items::actor(&self.source, &self.actor);
            items::commit(connection, actor, self.source.at, learnt)?;
        }
        let append = |path: String, header: String| Part {
            path,
            change: Change::Append {
                header,
                content: added.clone(),
            },
            origin: None,
        };
        let parts = if added.is_empty() {
            Vec::new()
        } else {
            vec![
                append(self.buffer, String::new()),
                append(
                    format!("{}/{}.md", self.archive, self.day),
                    format!("# {}\n\n", self.day),
                ),
            ]
        };
        Ok(Plan {
            // Without anything new only a key makes this an operation.
            id: operation
                .or_else(|| self.keyed.then(|| self.ids.next_id()))
                .unwrap_or_default(),
            outcome: entries,
            parts,
        })
    }
}
