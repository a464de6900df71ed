//! The store of evidence: what was said, done and brought in, recorded once and never changed.
//!
//! Everything that is derived can be made again from it, so it is only ever added to. Records of one stream form a chain:
//! each names the hash of the one before, so one that was changed, left out or put in between is noticed. Erasing takes the
//! content out of a record and leaves the rest, over which the chain still holds, because the chain is made of a hash of the
//! content and not of the content. That hash is salted, and the salt goes with the content: otherwise whoever guesses what
//! was said could check the guess.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{StoreError, StoreResult, content_hash};
use crate::env::Rng;
use crate::item::{EvidenceId, ForgetReason, OperationKey};
use crate::provenance::{Authority, Channel, Origin, Trust, trust_of};
use crate::time::Timestamp;

/// Longest content of one record in bytes.
pub const MAX_EVIDENCE_BYTES: usize = 16 << 20;

/// Digits of a record's identifier.
const ID_DIGITS: usize = 32;

/// What a conflict names in place of a hash when a stream is empty.
const NOTHING: &str = "nothing";

/// What records belong together and follow each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceStream {
    /// The turns of one branch of a conversation.
    Session {
        /// The conversation.
        session: String,
        /// The branch.
        branch: String,
    },
    /// The changes of one project.
    Project(String),
    /// What came in with one import.
    Import(String),
}

impl fmt::Display for EvidenceStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session { session, branch } => {
                write!(formatter, "branch `{branch}` of session `{session}`")
            }
            Self::Project(id) => write!(formatter, "project `{id}`"),
            Self::Import(name) => write!(formatter, "import `{name}`"),
        }
    }
}

/// What a record is evidence of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// A user's message with what came of it.
    Turn,
    /// A change of a project's files.
    ProjectChange,
    /// Something that was brought in from elsewhere.
    Import,
}

/// Who was behind a record, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// The person.
    pub principal: Option<String>,
    /// The name by which they spoke.
    pub speaker: Option<String>,
    /// The agent, when there are several.
    pub agent: Option<String>,
}

/// A record that is to be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewEvidence {
    /// Names it in its stream: the same key again is the same record.
    pub key: OperationKey,
    /// What it is evidence of.
    pub kind: EvidenceKind,
    /// When it happened.
    pub event_time: Timestamp,
    /// When it was learnt.
    pub ingestion_time: Timestamp,
    /// How it got here.
    pub origin: Origin,
    /// With whose authority.
    pub authority: Authority,
    /// Whether it may be built upon; never more than origin and authority allow.
    pub trust: Trust,
    /// Where it belongs.
    pub channel: Channel,
    /// Who was behind it.
    pub requester: Requester,
    /// What was said, done or brought in.
    pub content: String,
}

/// What a record says, or what is left of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceContent {
    /// It is there.
    Kept {
        /// What was said, done or brought in.
        text: String,
        /// Who was behind it.
        requester: Requester,
        /// What the content's hash was made with.
        salt: String,
    },
    /// It was erased.
    Erased {
        /// When.
        at: Timestamp,
        /// Why.
        reason: ForgetReason,
    },
}

/// A record as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceRecord {
    /// Its identifier, which follows from stream and key.
    pub id: EvidenceId,
    /// Where it is.
    pub stream: EvidenceStream,
    /// Its number in the stream, from 1.
    pub number: u64,
    /// The key it was added with.
    pub key: OperationKey,
    /// What it is evidence of.
    pub kind: EvidenceKind,
    /// When it happened.
    pub event_time: Timestamp,
    /// When it was learnt.
    pub ingestion_time: Timestamp,
    /// How it got here.
    pub origin: Origin,
    /// With whose authority.
    pub authority: Authority,
    /// Whether it may be built upon.
    pub trust: Trust,
    /// Where it belongs.
    pub channel: Channel,
    /// What it says, unless that was erased.
    pub content: EvidenceContent,
    /// Salted hash of what it says and of who was behind it. It outlives the content.
    pub content_hash: String,
    /// Hash of the record before; `None` for a stream's first.
    pub parent: Option<String>,
    /// Hash of everything but the content.
    pub hash: String,
}

impl EvidenceRecord {
    /// Returns the record that a stream's next one is, or refuses one that must not exist. `head` is where the stream
    /// ends. The salt must be one that nobody can guess.
    pub fn new(
        stream: &EvidenceStream,
        head: Option<&StreamHead>,
        evidence: NewEvidence,
        salt: String,
    ) -> StoreResult<Self> {
        check(stream, &evidence)?;
        let content = EvidenceContent::Kept {
            text: evidence.content,
            requester: evidence.requester,
            salt,
        };
        let mut record = Self {
            id: evidence_id(stream, &evidence.key)?,
            stream: stream.clone(),
            number: head.map_or(0, |head| head.number) + 1,
            key: evidence.key,
            kind: evidence.kind,
            event_time: evidence.event_time,
            ingestion_time: evidence.ingestion_time,
            origin: evidence.origin,
            authority: evidence.authority,
            trust: evidence.trust,
            channel: evidence.channel,
            content_hash: hash_of(&content)?.unwrap_or_default(),
            content,
            parent: head.map(|head| head.hash.clone()),
            hash: String::new(),
        };
        record.hash = record.link()?;
        Ok(record)
    }

    /// Returns what is left of the record once its content is erased.
    #[must_use]
    pub fn erased(self, reason: ForgetReason, at: Timestamp) -> Self {
        Self {
            content: EvidenceContent::Erased { at, reason },
            ..self
        }
    }

    /// Returns whether the content was erased.
    pub const fn is_erased(&self) -> bool {
        matches!(self.content, EvidenceContent::Erased { .. })
    }

    /// Returns where the stream ends if this is its last record.
    pub fn head(&self) -> StreamHead {
        StreamHead {
            stream: self.stream.clone(),
            number: self.number,
            hash: self.hash.clone(),
        }
    }

    /// Returns whether the record is what this request, made before, has come to. When it was learnt does not count,
    /// because a repetition is later; of an erased one only the key is left to compare.
    pub fn answers(&self, evidence: &NewEvidence) -> bool {
        let EvidenceContent::Kept {
            text, requester, ..
        } = &self.content
        else {
            return self.key == evidence.key;
        };
        self.key == evidence.key
            && self.kind == evidence.kind
            && self.event_time == evidence.event_time
            && self.origin == evidence.origin
            && self.authority == evidence.authority
            && self.trust == evidence.trust
            && self.channel == evidence.channel
            && *requester == evidence.requester
            && *text == evidence.content
    }

    /// Returns what is wrong with the record as the one that follows `before`; `None` when nothing is.
    pub fn fault(&self, before: Option<&StreamHead>) -> Option<&'static str> {
        if self.number != before.map_or(0, |head| head.number) + 1 {
            return Some("its number does not follow");
        }
        if self.parent.as_deref() != before.map(|head| head.hash.as_str()) {
            return Some("it does not name the record before it");
        }
        self.own_fault()
    }

    /// Returns what is wrong with the record by itself; `None` when nothing is.
    pub fn own_fault(&self) -> Option<&'static str> {
        match hash_of(&self.content) {
            Ok(Some(hash)) if hash != self.content_hash => {
                return Some("its content is not what was recorded");
            }
            Ok(_) => {}
            Err(_) => return Some("its content cannot be hashed"),
        }
        if !self.link().is_ok_and(|hash| hash == self.hash) {
            return Some("it is not what was recorded");
        }
        None
    }

    /// Returns the hash of everything but the content.
    fn link(&self) -> StoreResult<String> {
        let linked = (
            (&self.id, &self.stream, self.number, &self.key, self.kind),
            (self.event_time, self.ingestion_time),
            (self.origin, self.authority, self.trust, &self.channel),
            (&self.content_hash, &self.parent),
        );
        canonical("link", &linked)
    }
}

/// Returns the hash of a content, salted; `None` when it was erased.
fn hash_of(content: &EvidenceContent) -> StoreResult<Option<String>> {
    match content {
        EvidenceContent::Kept {
            text,
            requester,
            salt,
        } => canonical("content", &(salt, requester, text)).map(Some),
        EvidenceContent::Erased { .. } => Ok(None),
    }
}

/// Returns the hash of a value. What it is the hash of is part of it, so that none stands for another.
fn canonical(what: &str, value: &impl Serialize) -> StoreResult<String> {
    let text = serde_json::to_vec(&(what, value))
        .map_err(|error| StoreError::engine("hash evidence", error))?;
    Ok(content_hash(&text))
}

/// Returns the identifier of the record that a stream has under a key.
pub fn evidence_id(stream: &EvidenceStream, key: &OperationKey) -> StoreResult<EvidenceId> {
    let mut id = canonical("id", &(stream, key))?;
    id.truncate(ID_DIGITS);
    EvidenceId::parse(&id).map_err(|error| StoreError::engine("name evidence", error))
}

/// Returns a salt for a content's hash, of 128 random bits.
pub fn evidence_salt(rng: &dyn Rng) -> String {
    format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64())
}

/// Returns the error of a key under which a stream has another record.
pub fn evidence_key_reused(stream: &EvidenceStream, key: &OperationKey) -> StoreError {
    StoreError::BadRequest {
        reason: format!("the key `{key}` belongs to another record of {stream}"),
    }
}

fn check(stream: &EvidenceStream, evidence: &NewEvidence) -> StoreResult<()> {
    let refuse = |reason| Err(StoreError::BadRequest { reason });
    let is_named = match stream {
        EvidenceStream::Session { session, branch } => !session.is_empty() && !branch.is_empty(),
        EvidenceStream::Project(name) | EvidenceStream::Import(name) => !name.is_empty(),
    };
    if !is_named {
        return refuse(format!("{stream} has a part without a name"));
    }
    if evidence.content.len() > MAX_EVIDENCE_BYTES {
        return refuse(format!(
            "evidence has at most {MAX_EVIDENCE_BYTES} bytes, this has {}",
            evidence.content.len()
        ));
    }
    // What should not be possible is recorded as well when it happens, and never built upon.
    let highest = trust_of(evidence.origin, evidence.authority)
        .map_or(Trust::Untrusted, |verdict| verdict.trust);
    if evidence.trust > highest {
        return refuse(format!(
            "text of origin `{:?}` under authority `{:?}` cannot be trusted",
            evidence.origin, evidence.authority
        ));
    }
    Ok(())
}

/// Where a stream ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHead {
    /// The stream.
    pub stream: EvidenceStream,
    /// Number of its last record.
    pub number: u64,
    /// Hash of its last record.
    pub hash: String,
}

/// Where a stream should end for a record to be added to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedHead {
    /// Anywhere.
    Any,
    /// Nothing was recorded yet.
    Empty,
    /// At the record of this hash.
    At(String),
}

impl ExpectedHead {
    /// Refuses when a stream ends elsewhere.
    pub fn require(&self, stream: &EvidenceStream, head: Option<&StreamHead>) -> StoreResult<()> {
        let found = head.map(|head| head.hash.as_str());
        let (agrees, expected) = match self {
            Self::Any => (true, NOTHING),
            Self::Empty => (found.is_none(), NOTHING),
            Self::At(hash) => (found == Some(hash.as_str()), hash.as_str()),
        };
        if agrees {
            return Ok(());
        }
        Err(StoreError::Conflict {
            what: stream.to_string(),
            expected: expected.to_owned(),
            found: found.unwrap_or(NOTHING).to_owned(),
        })
    }
}

/// What became of a record that was to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The record.
    pub record: EvidenceRecord,
    /// Whether it had been added before.
    pub replayed: bool,
}

/// What is to be erased.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Erasure {
    /// These records, all of which must exist.
    Records(Vec<EvidenceId>),
    /// Every record of these streams, as far as they exist.
    Streams(Vec<EvidenceStream>),
}

/// One place where the evidence is not what was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceFault {
    /// The record, or the place that cannot be read as one.
    pub place: String,
    /// What is wrong.
    pub reason: String,
}

/// What a look at all evidence found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvidenceCheck {
    /// How many streams there are.
    pub streams: u64,
    /// How many records, the erased ones included.
    pub records: u64,
    /// How many of them were erased.
    pub erased: u64,
    /// What is wrong.
    pub faults: Vec<EvidenceFault>,
}

impl EvidenceCheck {
    /// Looks at the records of one stream, in their order.
    pub fn look_at<'a>(&mut self, records: impl IntoIterator<Item = &'a EvidenceRecord>) {
        let mut before: Option<StreamHead> = None;
        for record in records {
            self.streams += u64::from(before.is_none());
            self.records += 1;
            self.erased += u64::from(record.is_erased());
            if let Some(reason) = record.fault(before.as_ref()) {
                self.faults.push(EvidenceFault {
                    place: format!("record {} of {}", record.number, record.stream),
                    reason: reason.to_owned(),
                });
            }
            before = Some(record.head());
        }
    }
}

/// Evidence, added once and kept.
#[async_trait]
pub trait EvidenceStore: Send + Sync + fmt::Debug {
    /// Adds a record to the end of a stream if it ends where it is expected to. One that was added before is returned as
    /// it was recorded, wherever the stream ends by now; another one under the same key is refused.
    async fn append(
        &self,
        stream: &EvidenceStream,
        evidence: NewEvidence,
        expected: ExpectedHead,
    ) -> StoreResult<Appended>;

    /// Returns a record, or `None` when it does not exist.
    async fn evidence(&self, id: &EvidenceId) -> StoreResult<Option<EvidenceRecord>>;

    /// Returns the records of a stream whose numbers are greater than `after`, the oldest first.
    async fn list(
        &self,
        stream: &EvidenceStream,
        after: u64,
        limit: u32,
    ) -> StoreResult<Vec<EvidenceRecord>>;

    /// Returns where a stream ends, or `None` when nothing was recorded in it.
    async fn head(&self, stream: &EvidenceStream) -> StoreResult<Option<StreamHead>>;

    /// Returns where every stream ends, sorted by stream.
    async fn streams(&self) -> StoreResult<Vec<StreamHead>>;

    /// Erases what records say and who was behind them, and returns how many were not erased before. When it fails, some
    /// may be erased and others not; doing it again finishes it.
    async fn erase(&self, what: Erasure, reason: ForgetReason, at: Timestamp) -> StoreResult<u64>;

    /// Reads all evidence, and says where it is not what was recorded.
    async fn verify(&self) -> StoreResult<EvidenceCheck>;
}
