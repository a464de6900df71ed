//! What a tier may ask of its host: capabilities, each a small trait.
//!
//! Every method takes the [`Call`] first. The host filters by the call's requester inside the service, below every
//! caller, so a tier cannot widen what it is shown. A capability that the manifest did not ask for, or that the tier's
//! row does not allow, is simply absent.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::embed::SpaceId;
use crate::predicates::Tier;
use crate::predicates::registry::{BUILT, TierRow};
use crate::provenance::{Authority, Channel, Trust};
use crate::text::section::SectionId;
use crate::text::slug::Slug;
use crate::time::Timestamp;

/// One thing a host offers to a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Pages, the page index, links and the now-text.
    Pages,
    /// The section table and section text.
    Sections,
    /// Embedding and vector search.
    Dense,
    /// Field-weighted BM25 and idf.
    Lexical,
    /// The personal knowledge base of tier v1.
    Pkb,
    /// What is in context.
    Residency,
    /// Typed logs.
    Log,
    /// A namespace of its own.
    Kv,
    /// The conversation's messages.
    Messages,
    /// The time.
    Clock,
    /// Messages to the user or operator.
    Notices,
}

impl Capability {
    /// Every capability, in the order of the table.
    pub const ALL: [Self; 11] = [
        Self::Pages,
        Self::Sections,
        Self::Dense,
        Self::Lexical,
        Self::Pkb,
        Self::Residency,
        Self::Log,
        Self::Kv,
        Self::Messages,
        Self::Clock,
        Self::Notices,
    ];

    /// Returns the name used in manifests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Sections => "sections",
            Self::Dense => "dense",
            Self::Lexical => "lexical",
            Self::Pkb => "pkb",
            Self::Residency => "residency",
            Self::Log => "log",
            Self::Kv => "kv",
            Self::Messages => "messages",
            Self::Clock => "clock",
            Self::Notices => "notices",
        }
    }

    /// Returns the capability of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|capability| capability.name() == name)
    }

    /// Returns whether the row of a tier allows this capability. The manifest must ask for it as well.
    pub const fn allowed_for(self, tier: Tier) -> bool {
        match BUILT.row(tier) {
            None => false,
            Some(row) => self.allowed_by(row),
        }
    }

    /// Returns whether a row allows this capability.
    pub const fn allowed_by(self, row: &TierRow) -> bool {
        match self {
            Self::Pages | Self::Sections | Self::Dense | Self::Lexical => row.reads_pages,
            Self::Pkb => !row.reads_pages,
            Self::Residency
            | Self::Log
            | Self::Kv
            | Self::Messages
            | Self::Clock
            | Self::Notices => true,
        }
    }
}

/// Who asks, and for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// The person, when known.
    pub principal: Option<String>,
    /// With what authority. Missing authority gets nothing.
    pub authority: Authority,
    /// What will read the answer, such as `prompt` or `explain`.
    pub consumer: String,
}

/// The scope of one call: fixed by the host, the same for every service used while it lasts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallScope {
    /// Who asks.
    pub requester: Requester,
    /// Channels that may be read; empty means the global one only.
    pub channels: Vec<Channel>,
    /// Event time to answer for; `None` means now.
    pub as_of: Option<Timestamp>,
    /// Ingestion time to answer for; `None` means now.
    pub known_at: Option<Timestamp>,
    /// The conversation.
    pub conversation: String,
    /// Number of the turn in the conversation, from 1.
    pub turn: u64,
    /// W3C trace parent, when the host traces.
    pub trace_parent: Option<String>,
}

/// Deadline and cancellation of one call, implemented by the host.
pub trait CallControl: Send + Sync {
    /// Returns whether the caller gave up or the deadline passed.
    fn is_cancelled(&self) -> bool;

    /// Returns the milliseconds left until the deadline.
    fn remaining_ms(&self) -> u64;

    /// Gives other work a chance to run.
    fn yield_now(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Returns the number under which the host knows this call. Services look the scope up by it, so a scope that a
    /// plugin changed has no effect.
    fn token(&self) -> u64;
}

/// One call: its scope, deadline and cancellation.
#[derive(Clone)]
pub struct Call {
    scope: Arc<CallScope>,
    control: Arc<dyn CallControl>,
}

impl Call {
    /// Returns a call of this scope and control.
    pub fn new(scope: Arc<CallScope>, control: Arc<dyn CallControl>) -> Self {
        Self { scope, control }
    }

    /// Returns the scope.
    pub fn scope(&self) -> &CallScope {
        &self.scope
    }

    /// Returns the control, for the code that carries a call across the border.
    pub fn control(&self) -> &Arc<dyn CallControl> {
        &self.control
    }

    /// Returns whether the caller gave up or the deadline passed.
    pub fn is_cancelled(&self) -> bool {
        self.control.is_cancelled()
    }

    /// Returns the milliseconds left until the deadline.
    pub fn remaining_ms(&self) -> u64 {
        self.control.remaining_ms()
    }

    /// Gives other work a chance to run.
    pub async fn yield_now(&self) {
        self.control.yield_now().await;
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Call")
            .field("scope", &self.scope)
            .field("token", &self.control.token())
            .finish()
    }
}

/// Why a service refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ServiceError {
    /// The capability was not handed out. Go on without it.
    #[error("the host does not offer `{capability}`")]
    NotOffered {
        /// The capability's name.
        capability: String,
    },
    /// It cannot answer now, for instance without an embedding model. Degrade.
    #[error("unavailable: {reason}")]
    Unavailable {
        /// What is missing.
        reason: String,
    },
    /// The caller gave up or the deadline passed. Stop.
    #[error("the call was cancelled")]
    Cancelled,
    /// The request makes no sense. Fix the caller.
    #[error("bad request: {reason}")]
    BadRequest {
        /// What is wrong.
        reason: String,
    },
    /// The service is broken. Report it.
    #[error("service failed: {reason}")]
    Failed {
        /// What broke.
        reason: String,
    },
}

/// A result of a service.
pub type ServiceResult<T> = Result<T, ServiceError>;

/// A page as the page index knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageEntry {
    /// The page.
    pub slug: Slug,
    /// Its title.
    pub title: String,
    /// When the file last changed.
    pub modified_at: Timestamp,
    /// The declared date of the content, else `modified_at`.
    pub fresh_at: Timestamp,
    /// How many sections it has, the lead and chunks included.
    pub sections: u32,
}

/// A page's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageText {
    /// The page.
    pub slug: Slug,
    /// Its title.
    pub title: String,
    /// Its one-line summary from the frontmatter, when it has one.
    pub summary: Option<String>,
    /// The body, without frontmatter.
    pub body: String,
}

/// A link that leads to an existing page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLink {
    /// The target.
    pub target: Slug,
    /// What the author says of the link.
    pub description: Option<String>,
    /// From how many distinct pages the target is linked.
    pub target_in_degree: u32,
}

/// Pages, the page index, links and the now-text. Dead pages are never returned.
#[async_trait]
pub trait Pages: Send + Sync {
    /// Returns how many pages the requester can see.
    async fn count(&self, call: &Call) -> ServiceResult<u32>;

    /// Returns the pages with the newest content, newest first, ties by slug.
    async fn freshest(&self, call: &Call, limit: u32) -> ServiceResult<Vec<PageEntry>>;

    /// Returns the curated core pages in the order of the file, existing ones only.
    async fn core(&self, call: &Call) -> ServiceResult<Vec<Slug>>;

    /// Returns the texts of pages in the order asked; `None` for one that does not exist or cannot be seen.
    async fn read(&self, call: &Call, slugs: Vec<Slug>) -> ServiceResult<Vec<Option<PageText>>>;

    /// Returns each page's outgoing links to existing pages, in the order asked and written.
    async fn links(&self, call: &Call, slugs: Vec<Slug>) -> ServiceResult<Vec<Vec<PageLink>>>;

    /// Returns the essentials, threads and recent views as one text.
    async fn now_text(&self, call: &Call) -> ServiceResult<String>;
}

/// A section without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionEntry {
    /// The section.
    pub id: SectionId,
    /// Its heading as written; empty for the lead.
    pub heading: String,
    /// Its position on the page, from 0. Shifts when earlier sections change, so never an identity.
    pub ordinal: u32,
    /// Hash of its text.
    pub hash: String,
    /// Length of its text in bytes.
    pub bytes: u64,
    /// Lowest trust of its parts.
    pub trust: Trust,
}

/// A section with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionText {
    /// The section.
    pub entry: SectionEntry,
    /// The page's title.
    pub page_title: String,
    /// The declared date of the page's content, when it has one.
    pub dated: Option<Timestamp>,
    /// The text below the heading, as the page says it now.
    pub text: String,
}

/// The section table.
#[async_trait]
pub trait Sections: Send + Sync {
    /// Returns each page's sections in page order, pages in the order asked; empty for an unknown page.
    async fn of_pages(
        &self,
        call: &Call,
        slugs: Vec<Slug>,
    ) -> ServiceResult<Vec<Vec<SectionEntry>>>;

    /// Returns the texts of sections in the order asked; `None` for one that is gone or cannot be seen.
    async fn texts(
        &self,
        call: &Call,
        ids: Vec<SectionId>,
    ) -> ServiceResult<Vec<Option<SectionText>>>;
}

/// A section that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct SectionHit {
    /// The section.
    pub id: SectionId,
    /// Cosine similarity for a dense search, BM25 score for a lexical one.
    pub score: f32,
}

/// The embedding space in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenseSpace {
    /// Its identity; score thresholds belong to it.
    pub space: SpaceId,
    /// Length of a vector.
    pub dims: u32,
}

/// Embedding and exact vector search over sections.
#[async_trait]
pub trait Dense: Send + Sync {
    /// Returns the space, or why dense search is not to be had.
    async fn space(&self, call: &Call) -> ServiceResult<DenseSpace>;

    /// Embeds texts, one row each, flat and row-major: shape (texts, dims).
    async fn embed(&self, call: &Call, texts: Vec<String>) -> ServiceResult<Vec<f32>>;

    /// Returns the sections nearest to a vector by cosine similarity, best first, ties by section.
    async fn search(
        &self,
        call: &Call,
        vector: Vec<f32>,
        limit: u32,
    ) -> ServiceResult<Vec<SectionHit>>;
}

/// A lexical search.
#[derive(Clone, Debug, PartialEq)]
pub struct LexicalQuery {
    /// The user's text; it is never read as search syntax.
    pub text: String,
    /// Weight of a term in the head field.
    pub head_weight: f32,
    /// Weight of a term in the body field.
    pub body_weight: f32,
    /// BM25's term-frequency saturation.
    pub k1: f32,
    /// BM25's length normalisation, 0 to 1.
    pub b: f32,
    /// Most hits to return.
    pub limit: u32,
    /// Whether only the best section of each page counts towards the limit.
    pub best_per_page: bool,
}

/// Field-weighted BM25 over sections, segmented by the host.
#[async_trait]
pub trait Lexical: Send + Sync {
    /// Returns the sections that share terms with the text, best first, ties by section.
    async fn search(&self, call: &Call, query: LexicalQuery) -> ServiceResult<Vec<SectionHit>>;

    /// Returns the inverse document frequency of each of the text's terms over sections, in order of first occurrence.
    async fn idf(&self, call: &Call, text: String) -> ServiceResult<Vec<(String, f32)>>;
}

/// A file of the personal knowledge base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PkbFile {
    /// Path below the knowledge base, with forward slashes.
    pub path: String,
    /// Its text, comment lines removed.
    pub text: String,
}

/// A chunk that a search of the knowledge base found.
#[derive(Clone, Debug, PartialEq)]
pub struct PkbHit {
    /// Path of the file.
    pub path: String,
    /// Number of the chunk in the file, from 0.
    pub chunk: u32,
    /// The chunk's text.
    pub text: String,
    /// Cosine similarity, when dense search ran.
    pub dense: Option<f32>,
    /// BM25 score, when a term matched.
    pub lexical: Option<f32>,
    /// Score after fusion.
    pub fused: f32,
}

/// The personal knowledge base.
#[async_trait]
pub trait Pkb: Send + Sync {
    /// Returns the files that are always shown, in the order of the list.
    async fn always_shown(&self, call: &Call) -> ServiceResult<Vec<PkbFile>>;

    /// Returns the best chunk of each matching file, best first.
    async fn search(&self, call: &Call, text: String, limit: u32) -> ServiceResult<Vec<PkbHit>>;
}

/// Something that is in a conversation's context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResidentEntry {
    /// The page.
    pub slug: Slug,
    /// The section; `None` when the whole page is shown.
    pub section: Option<SectionId>,
    /// The message it is attached to.
    pub message: String,
    /// The tier that showed it.
    pub tier: Tier,
    /// Length of the rendered text in bytes.
    pub bytes: u64,
    /// When it was attached.
    pub at: Timestamp,
}

/// What is in context. The host owns it, so no swap, restart or fork shows a thing twice.
#[async_trait]
pub trait Residency: Send + Sync {
    /// Returns what is in the call's conversation, of every tier, in order of attachment.
    async fn active(&self, call: &Call) -> ServiceResult<Vec<ResidentEntry>>;

    /// Records what was attached to a message. The host sets conversation, tier and time.
    async fn record(&self, call: &Call, message: String, shown: Vec<Resident>)
    -> ServiceResult<()>;

    /// Forgets everything that is in the call's conversation.
    async fn clear(&self, call: &Call) -> ServiceResult<()>;
}

/// Something that was just attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resident {
    /// The page.
    pub slug: Slug,
    /// The section; `None` for a whole page.
    pub section: Option<SectionId>,
    /// Length of the rendered text in bytes.
    pub bytes: u64,
}

/// What a log row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogKind {
    /// Sections that were chosen and attached.
    Selection,
    /// The whole pool of a turn, the rejected part included.
    PoolAudit,
    /// Activation of pages in a turn.
    Activation,
}

impl LogKind {
    /// Returns the name used on disk and across the border.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Selection => "selection",
            Self::PoolAudit => "pool_audit",
            Self::Activation => "activation",
        }
    }

    /// Returns the kind of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Selection, Self::PoolAudit, Self::Activation]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// A row of a typed log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    /// What it is about.
    pub kind: LogKind,
    /// The page it is about; `None` for a whole turn.
    pub slug: Option<Slug>,
    /// The rest, as a JSON object.
    pub body: String,
}

/// Typed logs. The host sets conversation, turn, tier and time.
#[async_trait]
pub trait Log: Send + Sync {
    /// Appends rows, all or none.
    async fn append(&self, call: &Call, rows: Vec<LogRow>) -> ServiceResult<()>;

    /// Returns the newest rows of a kind in the call's conversation, newest first.
    async fn newest(&self, call: &Call, kind: LogKind, limit: u32) -> ServiceResult<Vec<LogRow>>;
}

/// To what a value belongs, so that it goes away with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvScope {
    /// The call's conversation.
    Conversation,
    /// The assistant.
    Assistant,
}

/// A tier's own small state. Keys of different tiers never meet.
#[async_trait]
pub trait Kv: Send + Sync {
    /// Returns a value.
    async fn get(&self, call: &Call, scope: KvScope, key: String) -> ServiceResult<Option<String>>;

    /// Sets a value, or removes it with `None`.
    async fn put(
        &self,
        call: &Call,
        scope: KvScope,
        key: String,
        value: Option<String>,
    ) -> ServiceResult<()>;
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user.
    User,
    /// The assistant.
    Assistant,
    /// A tool.
    Tool,
}

/// A message of the conversation, without any block of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its identifier.
    pub id: String,
    /// Who wrote it.
    pub role: Role,
    /// Its text.
    pub text: String,
    /// When it happened.
    pub at: Timestamp,
}

/// The conversation's messages on the current branch.
#[async_trait]
pub trait Messages: Send + Sync {
    /// Returns the newest messages, oldest first.
    async fn recent(&self, call: &Call, limit: u32) -> ServiceResult<Vec<Message>>;
}

/// How serious a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Something is degraded.
    Warning,
    /// Something is broken.
    Error,
}

/// A message to the user or operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Stable code, such as `dense_unavailable`. The same code is shown once per change of state.
    pub code: String,
    /// How serious it is.
    pub severity: Severity,
    /// What happened and what to do.
    pub message: String,
}

/// Notices.
#[async_trait]
pub trait Notices: Send + Sync {
    /// Hands a notice to the host.
    async fn post(&self, call: &Call, notice: Notice) -> ServiceResult<()>;
}

/// The capabilities a tier was handed, each there or absent.
#[derive(Clone, Default)]
pub struct Services {
    /// Pages, the page index, links and the now-text.
    pub pages: Option<Arc<dyn Pages>>,
    /// The section table.
    pub sections: Option<Arc<dyn Sections>>,
    /// Embedding and vector search.
    pub dense: Option<Arc<dyn Dense>>,
    /// Field-weighted BM25.
    pub lexical: Option<Arc<dyn Lexical>>,
    /// The personal knowledge base.
    pub pkb: Option<Arc<dyn Pkb>>,
    /// What is in context.
    pub residency: Option<Arc<dyn Residency>>,
    /// Typed logs.
    pub log: Option<Arc<dyn Log>>,
    /// A namespace of its own.
    pub kv: Option<Arc<dyn Kv>>,
    /// The conversation's messages.
    pub messages: Option<Arc<dyn Messages>>,
    /// The time.
    pub clock: Option<Arc<dyn crate::env::Clock>>,
    /// Notices.
    pub notices: Option<Arc<dyn Notices>>,
}

impl Services {
    /// Returns which capabilities are there.
    pub fn offered(&self) -> Vec<Capability> {
        Capability::ALL
            .into_iter()
            .filter(|capability| self.has(*capability))
            .collect()
    }

    /// Returns whether a capability is there.
    pub fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::Pages => self.pages.is_some(),
            Capability::Sections => self.sections.is_some(),
            Capability::Dense => self.dense.is_some(),
            Capability::Lexical => self.lexical.is_some(),
            Capability::Pkb => self.pkb.is_some(),
            Capability::Residency => self.residency.is_some(),
            Capability::Log => self.log.is_some(),
            Capability::Kv => self.kv.is_some(),
            Capability::Messages => self.messages.is_some(),
            Capability::Clock => self.clock.is_some(),
            Capability::Notices => self.notices.is_some(),
        }
    }

    /// Returns these services with only what the manifest asks for and the tier's row allows.
    #[must_use]
    pub fn narrowed(mut self, tier: Tier, asked: &[Capability]) -> Self {
        let keep =
            |capability: Capability| capability.allowed_for(tier) && asked.contains(&capability);
        self.pages = self.pages.filter(|_| keep(Capability::Pages));
        self.sections = self.sections.filter(|_| keep(Capability::Sections));
        self.dense = self.dense.filter(|_| keep(Capability::Dense));
        self.lexical = self.lexical.filter(|_| keep(Capability::Lexical));
        self.pkb = self.pkb.filter(|_| keep(Capability::Pkb));
        self.residency = self.residency.filter(|_| keep(Capability::Residency));
        self.log = self.log.filter(|_| keep(Capability::Log));
        self.kv = self.kv.filter(|_| keep(Capability::Kv));
        self.messages = self.messages.filter(|_| keep(Capability::Messages));
        self.clock = self.clock.filter(|_| keep(Capability::Clock));
        self.notices = self.notices.filter(|_| keep(Capability::Notices));
        self
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Services")
            .field("offered", &self.offered())
            .finish()
    }
}
