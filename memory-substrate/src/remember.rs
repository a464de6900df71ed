//! The intake: what somebody wants remembered, kept at once and shown in the buffer.
//!
//! An entry is first committed to the state database together with its text, which is the promise to the caller, and
//! then appended to the buffer and to the day's archive. What a crash leaves between the two is finished at the next
//! opening. Saying the same again while it still stands in the buffer gives the same entry, so a retry is harmless.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use memory_core::env::{Clock, Ids};
use memory_core::provenance::{Authority, Channel, Origin, Trust, trust_of};
use memory_core::store::{StoreError, StoreResult};
use memory_core::text::buffer;
use memory_core::time::Timestamp;
use serde::Serialize;

use self::append::{Appending, ids_of};
use crate::blocking;
use crate::error::{SubstrateError, SubstrateResult};
use crate::pages::hash_bytes;
use crate::state::SqliteState;
use crate::state::remembered::{self, EntrySource, PendingEntry};
use crate::workspace::{Workspace, read_text_or_empty};

mod append;

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// Whether the files have them too. If not, they are safe and will be in the files after the next write or start.
    pub applied: bool,
}

/// Keeps entries for one assistant.
#[derive(Clone, Debug)]
pub struct Rememberer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    workspace: Workspace,
    state: Arc<SqliteState>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    /// Held from the look into the buffer to the end of the append.
    appending: Mutex<()>,
}

impl Rememberer {
    /// Returns the intake of an assistant.
    pub fn new(
        workspace: Workspace,
        state: Arc<SqliteState>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                workspace,
                state,
                clock,
                ids,
                appending: Mutex::new(()),
            }),
        }
    }

    /// Keeps entries, dated in the assistant's time zone. When this returns, they survive anything.
    pub async fn remember(
        &self,
        input: RememberInput,
        zone: &str,
    ) -> SubstrateResult<RememberReceipt> {
        let (shared, zone) = (Arc::clone(&self.shared), zone.to_owned());
        blocking::run(move || shared.remember(&input, &zone)).await
    }

    /// Finishes what a crash left unfinished, and returns how many entries that were. Call it once after opening.
    pub async fn replay(&self) -> SubstrateResult<usize> {
        let shared = Arc::clone(&self.shared);
        blocking::run(move || {
            let _appending = shared
                .appending
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            shared.apply_pending()
        })
        .await
    }
}

impl Shared {
    fn remember(&self, input: &RememberInput, zone: &str) -> SubstrateResult<RememberReceipt> {
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
        let now = self.clock.now();
        let source = source_of(input, now)?;
        let _appending = self
            .appending
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let standing = ids_of(&read_text_or_empty(
            self.workspace.fs().as_ref(),
            &self.workspace.buffer_path(),
        )?);
        let (day, stamp) = (now.civil_date(zone), now.civil_minute(zone));
        let entries = self.state.write_blocking(|transaction| {
            let mut given: HashMap<String, String> = HashMap::new();
            let mut entries = Vec::with_capacity(texts.len());
            for text in &texts {
                let hash = hash_of(text, &source)?;
                let known = match given.get(&hash) {
                    Some(id) => Some(id.clone()),
                    None => remembered::newest_of(transaction, &hash)?
                        .filter(|newest| newest.is_pending || standing.contains(&newest.id))
                        .map(|newest| newest.id),
                };
                let duplicate = known.is_some();
                let id = known.unwrap_or_else(|| self.ids.next_id());
                if !duplicate {
                    let entry = buffer::write_entry(text, &stamp, &id).map_err(|error| {
                        StoreError::BadRequest {
                            reason: error.to_string(),
                        }
                    })?;
                    let entry = PendingEntry {
                        id: id.clone(),
                        day: day.clone(),
                        entry,
                    };
                    remembered::add(transaction, &hash, &entry, &source)?;
                }
                given.insert(hash, id.clone());
                entries.push(Remembered { id, duplicate });
            }
            Ok(entries)
        })?;
        let applied = match self.apply_pending() {
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "remembered text is safe but could not be written to its files yet"
                );
                false
            }
        };
        Ok(RememberReceipt { entries, applied })
    }

    /// Brings every unapplied entry into its files.
    fn apply_pending(&self) -> SubstrateResult<usize> {
        let pending = self.state.read_blocking(remembered::pending)?;
        if pending.is_empty() {
            return Ok(0);
        }
        self.append(&self.workspace.buffer_path(), "", pending.iter())?;
        let mut days: BTreeMap<&str, Vec<&PendingEntry>> = BTreeMap::new();
        for entry in &pending {
            days.entry(&entry.day).or_default().push(entry);
        }
        for (day, entries) in days {
            let path = self.workspace.archive_dir().join(format!("{day}.md"));
            self.append(&path, &format!("# {day}\n\n"), entries.into_iter())?;
        }
        // Without this mark the next start looks again and finds the entries in place, so it need not be flushed. A
        // later change that takes an entry out of the buffer is flushed, and this one with it.
        self.state.write_unflushed_blocking(|transaction| {
            remembered::mark_applied(transaction, &pending)
        })?;
        Ok(pending.len())
    }

    fn append<'a>(
        &self,
        path: &Path,
        header: &str,
        entries: impl Iterator<Item = &'a PendingEntry>,
    ) -> SubstrateResult<()> {
        let fs = self.workspace.fs();
        let there = match fs.read(path) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(SubstrateError::io("read", path)(error)),
        };
        let mut appending = Appending::to(&there, header);
        for entry in entries {
            appending.add(entry);
        }
        match appending.into_addition() {
            addition if addition.is_empty() => Ok(()),
            addition => fs
                .append(path, &addition)
                .map_err(SubstrateError::io("append to", path)),
        }
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
    let key = serde_json::to_vec(&(channel, origin, authority, text))
        .map_err(|error| StoreError::engine("name a content", error))?;
    Ok(hash_bytes(&key))
}

#[cfg(test)]
mod tests;
