//! The intake: what somebody wants remembered, kept at once and shown in the buffer.
//!
//! An entry is one operation: a commit of the state database is the promise to the caller, and the buffer and the day's
//! archive get it right after. Whoever reads them meanwhile sees it there already. Saying the same again while it still
//! stands in the buffer gives the same entry, and so does repeating a request under its key.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use memory_core::env::{Clock, Ids};
use memory_core::provenance::{Authority, Channel, Origin, Trust, trust_of};
use memory_core::store::{StoreError, StoreResult};
use memory_core::text::buffer;
use memory_core::time::Timestamp;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::blocking;
use crate::error::{SubstrateError, SubstrateResult};
use crate::oplog::{Change, OpLog, OperationKind, Part, Plan, Request, WriteContext, ids_of};
use crate::pages::hash_bytes;
use crate::state::remembered::{self, EntrySource, NewEntry};
use crate::workspace::{Workspace, read_text_or_empty};

/// What somebody wants remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberInput {
    /// One text for each entry. Empty ones are left out.
    pub texts: Vec<String>,
    /// How they got here.
    pub origin: Origin,
    /// With whose authority.
    pub authority: Authority,
    /// Where they belong.
    pub channel: Channel,
}

/// One entry as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// Its identifier.
    pub id: String,
    /// Whether it was there already.
    pub duplicate: bool,
}

/// The promise that entries are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RememberReceipt {
    /// The entries, in the order given.
    pub entries: Vec<Remembered>,
    /// Whether the files have them already. If not, they are safe all the same, every reader sees them, and the files
    /// have them a moment later.
    pub applied: bool,
}

/// Keeps entries for one assistant.
#[derive(Clone, Debug)]
pub struct Rememberer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// With open operations laid over its files.
    workspace: Workspace,
    log: OpLog,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Rememberer {
    /// Returns the intake of an assistant. The workspace shows open operations.
    pub(crate) fn new(
        workspace: Workspace,
        log: OpLog,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                workspace,
                log,
                clock,
                ids,
            }),
        }
    }

    /// Keeps entries, dated in the assistant's time zone. When this returns, they survive anything.
    pub async fn remember(
        &self,
        input: RememberInput,
        zone: &str,
    ) -> SubstrateResult<RememberReceipt> {
        let context = WriteContext::new("strata", input.origin, input.authority);
        self.remember_as(input, zone, context).await
    }

    /// Does the same on somebody's behalf. With a key the same request may be repeated and is kept once.
    pub async fn remember_as(
        &self,
        input: RememberInput,
        zone: &str,
        context: WriteContext,
    ) -> SubstrateResult<RememberReceipt> {
        let (shared, zone) = (Arc::clone(&self.shared), zone.to_owned());
        blocking::run(move || {
            let now = shared.clock.now();
            shared.remember(&input, &zone, context, now)
        })
        .await
    }

    /// Keeps entries that were said at some instant, on the calling thread, which may block.
    pub(crate) fn remember_at(
        &self,
        input: &RememberInput,
        zone: &str,
        context: WriteContext,
        at: Timestamp,
    ) -> SubstrateResult<RememberReceipt> {
        self.shared.remember(input, zone, context, at)
    }
}

impl Shared {
    fn remember(
        &self,
        input: &RememberInput,
        zone: &str,
        context: WriteContext,
        now: Timestamp,
    ) -> SubstrateResult<RememberReceipt> {
        let texts: Vec<String> = input
            .texts
            .iter()
            .map(|text| buffer::normalise_content(text))
            .filter(|text| !text.is_empty())
            .collect();
        if texts.is_empty() {
            return Err(SubstrateError::Refused {
                reason: "there is nothing to remember; pass some text".to_owned(),
            });
        }
        let entries = Entries {
            source: source_of(input, now)?,
            texts,
            standing: ids_of(&read_text_or_empty(
                self.workspace.fs().as_ref(),
                &self.workspace.buffer_path(),
            )?),
            day: now.civil_date(zone),
            stamp: now.civil_minute(zone),
            buffer: self.path_of(&self.workspace.buffer_path())?,
            archive: self.path_of(&self.workspace.archive_dir())?,
            keyed: context.key.is_some(),
            ids: Arc::clone(&self.ids),
        };
        let request = Request {
            kind: OperationKind::Remember,
            context,
            hash: entries.hash()?,
            at: now,
        };
        let entries = self
            .log
            .commit(request, move |connection| entries.plan(connection))?;
        self.log.settle_soon();
        let buffer = self.path_of(&self.workspace.buffer_path())?;
        Ok(RememberReceipt {
            entries,
            applied: !self.log.is_open(&buffer),
        })
    }

    fn path_of(&self, path: &std::path::Path) -> SubstrateResult<String> {
        self.log
            .relative(path)
            .ok_or_else(|| SubstrateError::Refused {
                reason: format!("`{}` is outside the assistant's folder", path.display()),
            })
    }
}

/// Entries about to be kept.
struct Entries {
    source: EntrySource,
    texts: Vec<String>,
    /// Ids of the entries that stand in the buffer.
    standing: HashSet<String>,
    day: String,
    stamp: String,
    buffer: String,
    archive: String,
    keyed: bool,
    ids: Arc<dyn Ids>,
}

impl Entries {
    /// Names the request, whenever it is made.
    fn hash(&self) -> StoreResult<String> {
        let EntrySource {
            channel,
            origin,
            authority,
            ..
        } = &self.source;
        name_of(&(channel, origin, authority, &self.texts))
    }

    /// Decides which texts are new and what they add to which files.
    fn plan(self, connection: &Connection) -> StoreResult<Plan<Vec<Remembered>>> {
        let mut given: HashMap<String, String> = HashMap::new();
        let mut entries = Vec::with_capacity(self.texts.len());
        let (mut operation, mut added) = (None, String::new());
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
            }
            given.insert(hash, id.clone());
            entries.push(Remembered { id, duplicate });
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

/// Returns what is kept of where text came from, or refuses what may not become more than evidence.
fn source_of(input: &RememberInput, at: Timestamp) -> SubstrateResult<EntrySource> {
    let RememberInput {
        origin,
        authority,
        ref channel,
        ..
    } = *input;
    let trust: Trust = match trust_of(origin, authority) {
        Some(verdict) if verdict.beyond_evidence => verdict.trust,
        _ => {
            return Err(SubstrateError::Refused {
                reason: format!(
                    "text of origin `{origin:?}` under authority `{authority:?}` may be kept as evidence only"
                ),
            });
        }
    };
    Ok(EntrySource {
        channel: channel.clone(),
        origin,
        authority,
        trust,
        at,
    })
}

/// Names a content said in one channel by one kind of speaker.
fn hash_of(text: &str, source: &EntrySource) -> StoreResult<String> {
    let EntrySource {
        channel,
        origin,
        authority,
        ..
    } = source;
    name_of(&(channel, origin, authority, text))
}

fn name_of(content: &impl Serialize) -> StoreResult<String> {
    serde_json::to_vec(content)
        .map(|key| hash_bytes(&key))
        .map_err(|error| StoreError::engine("name a content", error))
}

#[cfg(test)]
mod tests;
