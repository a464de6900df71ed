//! The intake: what somebody wants remembered, kept at once and shown in the buffer.
//!
//! An entry is one operation: a commit of the state database is the promise to the caller, and the buffer and the day's
//! archive get it right after. The same commit makes the item of it, so neither is ever without the other. Whoever reads
//! the files meanwhile sees the entry there already. Saying the same again while it still stands in the buffer gives the
//! same entry, and so does repeating a request under its key. Before any of this a text is screened: what must not be
//! kept reaches no file, no database and no log.

use std::sync::Arc;

use memory_core::env::{Clock, Ids};
use memory_core::item::MAX_CLAIM_CHARACTERS;
use memory_core::provenance::{Authority, Channel, Origin, Trust, trust_of};
use memory_core::store::{StoreError, StoreResult};
use memory_core::text::buffer;
use memory_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use self::entries::Entries;
use crate::blocking;
use crate::error::{SubstrateError, SubstrateResult};
use crate::oplog::{OpLog, OperationKind, Request, WriteContext, ids_of};
use crate::pages::hash_bytes;
use crate::screen::{Finding, screen};
use crate::state::remembered::EntrySource;
use crate::workspace::{Workspace, read_text_or_empty};

pub use self::forget::ForgetReceipt;
pub(crate) use self::forget::forget_record;

mod entries;
mod forget;
mod items;

pub(crate) use self::items::adopt;

/// What somebody wants remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberReceipt {
    /// The entries, in the order given.
    pub entries: Vec<Remembered>,
    /// What the texts were relieved of before anything was kept.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Whether the files have them already. If not, they are safe all the same, every reader sees them, and the files
    /// have them a moment later.
    pub applied: bool,
    /// Name of the note that was left for the next writer, because nobody could write. It is safe too, but it has no
    /// entries yet and nobody sees it until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
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

    /// Takes an entry out of the buffer and the content of its item away, for the owner. The archive of the day keeps it.
    ///
    /// Doing it again does nothing. An entry that somebody edited before stays as it is with its item; one that is edited
    /// at this very moment stays in the file and shows to nobody.
    pub async fn forget(&self, id: &str, context: WriteContext) -> SubstrateResult<ForgetReceipt> {
        let (shared, id) = (Arc::clone(&self.shared), id.to_owned());
        blocking::run(move || {
            let now = shared.clock.now();
            shared.forget(&id, context, now)
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
        // Nothing was said in the future, and the ledger's times only go forward.
        let at = at.min(self.shared.clock.now());
        self.shared.remember(input, zone, context, at)
    }
}

impl Shared {
    fn remember(
        &self,
        input: &RememberInput,
        zone: &str,
        context: WriteContext,
        said: Timestamp,
    ) -> SubstrateResult<RememberReceipt> {
        let (texts, findings) = texts_of(input)?;
        let entries = Entries {
            source: source_of(input, said)?,
            texts,
            standing: ids_of(&read_text_or_empty(
                self.workspace.fs().as_ref(),
                &self.workspace.buffer_path(),
            )?),
            day: said.civil_date(zone),
            stamp: said.civil_minute(zone),
            buffer: self.path_of(&self.workspace.buffer_path())?,
            archive: self.path_of(&self.workspace.archive_dir())?,
            keyed: context.key.is_some(),
            actor: context.actor.clone(),
            session: context.session.clone(),
            ids: Arc::clone(&self.ids),
        };
        let request = Request {
            kind: OperationKind::Remember,
            context,
            hash: entries.hash()?,
            // A note may have waited for long, and its key is to be known for as long as that of any other.
            at: self.clock.now(),
        };
        let entries = self
            .log
            .commit(request, move |connection| entries.plan(connection))?;
        self.log.settle_soon();
        let buffer = self.path_of(&self.workspace.buffer_path())?;
        Ok(RememberReceipt {
            entries,
            findings,
            applied: !self.log.is_open(&buffer),
            left: None,
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

/// Returns texts as they may be kept, without empty ones, and what they were relieved of.
pub(crate) fn screened(texts: &[String]) -> (Vec<String>, Vec<Finding>) {
    let mut findings: Vec<Finding> = Vec::new();
    let mut kept = Vec::with_capacity(texts.len());
    for text in texts {
        let screened = screen(text);
        for found in screened.findings {
            let same =
                |known: &&mut Finding| known.class == found.class && known.what == found.what;
            match findings.iter_mut().find(same) {
                Some(known) => known.count += found.count,
                None => findings.push(found),
            }
        }
        let text = buffer::normalise_content(&screened.text);
        if !text.is_empty() {
            kept.push(text);
        }
    }
    findings.sort_unstable();
    (kept, findings)
}

/// Returns an error if this could not be kept by anybody, so that it is not left for somebody who then cannot.
pub fn check(input: &RememberInput) -> SubstrateResult<()> {
    texts_of(input)?;
    source_of(input, Timestamp::from_millis(0)).map(drop)
}

/// Returns the texts to keep, at least one, and what they were relieved of.
fn texts_of(input: &RememberInput) -> SubstrateResult<(Vec<String>, Vec<Finding>)> {
    let (texts, findings) = screened(&input.texts);
    if texts.is_empty() {
        return Err(SubstrateError::Refused {
            reason: "there is nothing to remember; pass some text".to_owned(),
        });
    }
    if let Some(long) = texts
        .iter()
        .map(|text| text.chars().count())
        .find(|count| *count > MAX_CLAIM_CHARACTERS)
    {
        return Err(SubstrateError::Refused {
            reason: format!(
                "a note has at most {MAX_CLAIM_CHARACTERS} characters and this one has {long}; ingest it as a page"
            ),
        });
    }
    Ok((texts, findings))
}

/// Returns what is kept of where text came from, or refuses what may not become more than evidence.
fn source_of(input: &RememberInput, at: Timestamp) -> SubstrateResult<EntrySource> {
    let RememberInput {
        origin,
        authority,
        ref channel,
        ..
    } = *input;
    if Channel::parse(&channel.to_string()) != *channel {
        return Err(SubstrateError::Refused {
            reason: format!(
                "`{channel}` is another channel's name when it is written down; name it otherwise"
            ),
        });
    }
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
