//! What plugins did that they should not have, kept where `doctor` finds it.
//!
//! A host and `strata doctor` are different processes, and the log of the former is seldom at hand when the latter is
//! asked. So each change is written down with the assistant: the first panic of a build in a method, not the hundredth.
//! The list is short and the oldest go first, because it explains the present and is no archive.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use memory_core::abi::ErrorCode;
use memory_core::predicates::Tier;
use memory_core::store::StoreResult;
use memory_core::time::Timestamp;
use memory_substrate::state::SqliteState;
use plugin_host::{BuildIncidents, Incident as Seen, LoadError, SlotError};
use serde::{Deserialize, Serialize};

use crate::error::cause_chain;
use crate::plugins::Serving;

/// Key of the list among an assistant's own facts.
const KEY: &str = "plugin_incidents";

/// Incidents that are kept.
const KEPT: usize = 100;

/// How long the same incident is not written down again, in milliseconds.
const QUIET_MS: i64 = 60 * 60 * 1_000;

/// Characters of a reason that are kept; a plugin may have written it.
const REASON_CHARACTERS: usize = 500;

/// What a plugin did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IncidentKind {
    /// It was refused, so that it cannot serve.
    Refused,
    /// A build is no longer used.
    Quarantined,
    /// It panicked; the panic was contained.
    Panicked,
    /// It did not answer in time.
    TimedOut,
    /// It answered with what no prompt may hold.
    Malformed,
    /// It answered with an error.
    Failed,
    /// It did not give its thread back.
    Blocked,
    /// It logged more than anybody can read, and a part was dropped.
    Flooded,
}

impl IncidentKind {
    /// Returns what happened, as it is said to people.
    pub const fn described(self) -> &'static str {
        match self {
            Self::Refused => "was refused",
            Self::Quarantined => "was put into quarantine",
            Self::Panicked => "panicked",
            Self::TimedOut => "did not answer in time",
            Self::Malformed => "gave a malformed answer",
            Self::Failed => "failed",
            Self::Blocked => "did not give its thread back",
            Self::Flooded => "logged too much",
        }
    }
}

/// Something a plugin did that it should not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// What it did.
    pub kind: IncidentKind,
    /// The tier it serves.
    pub tier: Tier,
    /// The plugin.
    pub plugin: String,
    /// Checksum of its library, when known.
    pub sha256: Option<String>,
    /// The method it did it in, when it was in one.
    pub method: Option<String>,
    /// Why, in one line.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

impl Incident {
    /// Returns the incident of a plugin that cannot serve.
    pub(crate) fn refused(tier: Tier, plugin: &str, error: &LoadError, at: Timestamp) -> Self {
        let (kind, sha256) = match error {
            LoadError::Quarantined { sha256, .. } => {
                (IncidentKind::Quarantined, Some(sha256.clone()))
            }
            // What is refused on its way in was never looked at further than it came.
            _ => (IncidentKind::Refused, None),
        };
        Self {
            kind,
            tier,
            plugin: plugin.to_owned(),
            sha256,
            method: None,
            reason: shortened(&cause_chain(error).join(": ")),
            at,
        }
    }

    /// Returns the incident of a call that failed; `None` when the failure was not the plugin's.
    pub(crate) fn of_call(serving: &Serving, error: &SlotError, at: Timestamp) -> Option<Self> {
        let SlotError::Call {
            method,
            code,
            message,
            ..
        } = error
        else {
            return None;
        };
        let kind = match *code {
            ErrorCode::PANICKED => IncidentKind::Panicked,
            ErrorCode::DEADLINE => IncidentKind::TimedOut,
            _ => IncidentKind::Failed,
        };
        Some(Self::of(serving, kind, method, message, at))
    }

    /// Returns the incident of an answer that no prompt may hold.
    pub(crate) fn malformed(serving: &Serving, reason: &str, at: Timestamp) -> Self {
        Self::of(serving, IncidentKind::Malformed, "begin_turn", reason, at)
    }

    /// Returns what the host saw of a build by itself; `None` for what a call has told already.
    fn seen(build: &BuildIncidents, seen: &Seen, at: Timestamp) -> Option<Self> {
        let kind = match seen.kind {
            plugin_host::IncidentKind::Blocked => IncidentKind::Blocked,
            plugin_host::IncidentKind::Flood => IncidentKind::Flooded,
            plugin_host::IncidentKind::Panic => IncidentKind::Panicked,
            plugin_host::IncidentKind::Deadline | plugin_host::IncidentKind::Nonsense => {
                return None;
            }
        };
        Some(Self {
            kind,
            tier: build.tier,
            plugin: build.plugin.clone(),
            sha256: Some(build.sha256.clone()),
            method: Some(seen.method.to_owned()),
            reason: shortened(&seen.message),
            at,
        })
    }

    fn of(
        serving: &Serving,
        kind: IncidentKind,
        method: &str,
        reason: &str,
        at: Timestamp,
    ) -> Self {
        Self {
            kind,
            tier: serving.tier,
            plugin: serving.plugin.clone(),
            sha256: Some(serving.sha256.clone()),
            method: Some(method.to_owned()),
            reason: shortened(reason),
            at,
        }
    }

    fn signature(&self) -> Signature {
        Signature {
            kind: self.kind,
            plugin: self.plugin.clone(),
            sha256: self.sha256.clone(),
            method: self.method.clone(),
            // Why a plugin is refused is a state, and another reason is a change. What a call says may differ each time.
            reason: matches!(self.kind, IncidentKind::Refused).then(|| self.reason.clone()),
        }
    }
}

fn shortened(reason: &str) -> String {
    reason.chars().take(REASON_CHARACTERS).collect()
}

/// What makes two incidents the same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Signature {
    kind: IncidentKind,
    plugin: String,
    sha256: Option<String>,
    method: Option<String>,
    reason: Option<String>,
}

/// Writes incidents of one assistant down, each once.
#[derive(Debug, Default)]
pub(crate) struct IncidentBook {
    noted: Mutex<BTreeMap<Signature, Timestamp>>,
    /// When the newest happened of what each build had done at the last look, by its checksum.
    looked: Mutex<BTreeMap<String, Instant>>,
    /// Held while the list is read and written, so that two incidents at once both stay.
    writing: tokio::sync::Mutex<()>,
}

impl IncidentBook {
    /// Writes an incident down unless the same was a short while ago. That it cannot be written fails nothing.
    pub(crate) async fn note(&self, state: &SqliteState, incident: Incident) {
        if !self.is_news(&incident) {
            return;
        }
        let Incident {
            kind,
            tier,
            plugin,
            sha256,
            method,
            reason,
            ..
        } = &incident;
        tracing::warn!(?kind, %tier, plugin, sha256, method, reason, "incident of a plugin");
        if state.is_read_only() {
            return;
        }
        let _writing = self.writing.lock().await;
        let signature = incident.signature();
        if let Err(error) = append(state, incident).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the incident could not be written down");
            // Tried again when it happens again.
            self.lock().remove(&signature);
        }
    }

    /// Writes down what the host itself saw of its builds since the last look: what nobody was waiting for an answer to.
    pub(crate) async fn note_seen(
        &self,
        state: &SqliteState,
        builds: Vec<BuildIncidents>,
        now: Timestamp,
    ) {
        for (build, seen) in self.since_the_last_look(&builds) {
            if let Some(incident) = Incident::seen(build, seen, now) {
                self.note(state, incident).await;
            }
        }
    }

    /// Takes note that the configured tier serves as it should: if it is refused again, that is news.
    pub(crate) fn recovered(&self) {
        self.lock().retain(|signature, _| {
            !matches!(
                signature.kind,
                IncidentKind::Refused | IncidentKind::Quarantined
            )
        });
    }

    /// Returns what the host has seen since this was asked last.
    fn since_the_last_look<'a>(
        &self,
        builds: &'a [BuildIncidents],
    ) -> Vec<(&'a BuildIncidents, &'a Seen)> {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let all = builds
            .iter()
            .flat_map(|build| build.incidents.iter().map(move |seen| (build, seen)));
        let is_new = |build: &BuildIncidents, at: Instant| {
            looked.get(&build.sha256).is_none_or(|newest| at > *newest)
        };
        let new: Vec<_> = all.filter(|(build, seen)| is_new(build, seen.at)).collect();
        for (build, seen) in &new {
            let newest = looked.entry(build.sha256.clone()).or_insert(seen.at);
            *newest = seen.at.max(*newest);
        }
        new
    }

    fn is_news(&self, incident: &Incident) -> bool {
        let mut noted = self.lock();
        let fresh =
            |at: &Timestamp| incident.at.as_millis().abs_diff(at.as_millis()) < QUIET_MS as u64;
        noted.retain(|_, at| fresh(at));
        let signature = incident.signature();
        if noted.contains_key(&signature) {
            return false;
        }
        noted.insert(signature, incident.at);
        true
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Signature, Timestamp>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the incidents that were written down since a moment, oldest first.
pub(crate) async fn since(state: &SqliteState, moment: Timestamp) -> StoreResult<Vec<Incident>> {
    let mut all = read(state).await?;
    all.retain(|incident| incident.at >= moment);
    Ok(all)
}

async fn append(state: &SqliteState, incident: Incident) -> StoreResult<()> {
    let mut all = read(state).await?;
    all.push(incident);
    let surplus = all.len().saturating_sub(KEPT);
    all.drain(..surplus);
    let text = serde_json::to_string(&all).expect("a list of plain values can be written as JSON");
    state.put_meta(KEY, Some(text)).await
}

/// Returns the list. One that a newer program wrote in another way says nothing to this one.
async fn read(state: &SqliteState) -> StoreResult<Vec<Incident>> {
    let text = state.meta(KEY).await?.unwrap_or_default();
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use memory_core::env::{Clock as _, ManualClock};

    use super::*;

    fn incident(reason: &str, at: Timestamp) -> Incident {
        Incident {
            kind: IncidentKind::Refused,
            tier: Tier::V3,
            plugin: "tier-v3".to_owned(),
            sha256: None,
            method: None,
            reason: reason.to_owned(),
            at,
        }
    }

    #[tokio::test]
    async fn changes_are_written_down_and_repetitions_are_not() {
        let root = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::from_millis(1_000));
        let state = SqliteState::open(&root.path().join("state.db"), &clock).unwrap();
        let book = IncidentBook::default();
        let now = clock.now();
        for reason in ["no file", "no file", "bad hash", "no file"] {
            book.note(&state, incident(reason, now)).await;
        }
        let reasons = |all: Vec<Incident>| -> Vec<String> {
            all.into_iter().map(|incident| incident.reason).collect()
        };
        let start = Timestamp::from_millis(0);
        let all = since(&state, start).await.unwrap();
        assert_eq!(reasons(all), ["no file", "bad hash"]);

        book.recovered();
        book.note(&state, incident("no file", now)).await;
        let later = now.plus_millis(2 * QUIET_MS);
        book.note(&state, incident("no file", later)).await;
        let all = since(&state, start).await.unwrap();
        assert_eq!(reasons(all), ["no file", "bad hash", "no file", "no file"]);
        assert_eq!(since(&state, later).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn what_was_seen_is_written_down_once_and_again_when_it_happens_again() {
        let root = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::from_millis(1_000));
        let state = SqliteState::open(&root.path().join("state.db"), &clock).unwrap();
        let (book, start) = (IncidentBook::default(), Instant::now());
        let seen = |method, message: &str, second| Seen {
            kind: plugin_host::IncidentKind::Panic,
            method,
            message: message.to_owned(),
            at: start + Duration::from_secs(second),
            count: 1,
        };
        let build = |incidents| BuildIncidents {
            plugin: "tier-v2".to_owned(),
            tier: Tier::V2,
            version: "1.0.0".to_owned(),
            sha256: "ab".to_owned(),
            quarantine: None,
            incidents,
        };
        // Two messages of one method, in either order, at every turn of some hours.
        let first = vec![seen("shutdown", "one", 1), seen("shutdown", "two", 2)];
        for hour in 0..3 {
            let now = clock.now().plus_millis(hour * 2 * QUIET_MS);
            book.note_seen(&state, vec![build(first.clone())], now)
                .await;
        }
        let start = Timestamp::from_millis(0);
        let all = since(&state, start).await.unwrap();
        assert_eq!(all.len(), 1, "{all:#?}");
        assert_eq!((all[0].tier, all[0].reason.as_str()), (Tier::V2, "one"));

        let later = clock.now().plus_millis(9 * QUIET_MS);
        let mut again = first;
        again.push(seen("shutdown", "three", 3));
        book.note_seen(&state, vec![build(again)], later).await;
        let all = since(&state, start).await.unwrap();
        assert_eq!(all.len(), 2, "{all:#?}");

        // What another build did before that, and told after it.
        let mut other = build(vec![seen("health", "late", 2)]);
        other.sha256 = "cd".to_owned();
        book.note_seen(&state, vec![other], later).await;
        let all = since(&state, start).await.unwrap();
        assert_eq!(all.len(), 3, "{all:#?}");
    }

    #[tokio::test]
    async fn the_list_stays_short_and_a_strange_one_is_begun_anew() {
        let root = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::from_millis(1_000));
        let state = SqliteState::open(&root.path().join("state.db"), &clock).unwrap();
        state
            .put_meta(KEY, Some("[{\"kind\":\"unheard_of\"}]".to_owned()))
            .await
            .unwrap();
        let book = IncidentBook::default();
        for number in 0..=KEPT {
            let reason = "x".repeat(REASON_CHARACTERS) + "y";
            let mut one = incident(&shortened(&reason), clock.now());
            one.plugin = format!("plugin-{number}");
            book.note(&state, one).await;
        }
        let all = since(&state, Timestamp::from_millis(0)).await.unwrap();
        assert_eq!((all.len(), all[0].plugin.as_str()), (KEPT, "plugin-1"));
        assert_eq!(all[0].reason.len(), REASON_CHARACTERS);
    }
}
