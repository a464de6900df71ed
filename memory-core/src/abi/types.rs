//! The values that cross the border.
//!
//! Each mirrors a domain type field by field. Within a major version none of them may change; a request or an answer
//! that may have to grow carries [`Ext`] entries, and a key there becomes a field at the next major version. Enumerations
//! are numbers with named constants, because a new variant of a Rust enum would be a new layout. Slugs and sections
//! cross as their text forms, and vectors as one flat run of floats.

use abi_stable::StableAbi;
use abi_stable::std_types::{ROption, RString, RVec};

/// Something a newer side adds to a frozen value; unknown keys are ignored.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, StableAbi)]
pub struct Ext {
    /// What it is.
    pub key: RString,
    /// Its value as JSON.
    pub json: RString,
}

macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $number:literal),+ $(,)? })+) => {$(
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$variant_meta])* pub const $variant: Self = Self($number);)+
        }
    )+};
}

codes! {
    /// A tier.
    TierCode {
        /// Memory is off.
        OFF = 0,
        /// Tier v1.
        V1 = 1,
        /// Tier v2.
        V2 = 2,
        /// Tier v3.
        V3 = 3,
    }
    /// Who speaks.
    AuthorityCode {
        /// Nobody known.
        NONE = 0,
        /// The owner.
        OWNER = 1,
        /// A paired person.
        PAIRED = 2,
    }
    /// Whether text may be injected.
    TrustCode {
        /// It must not.
        UNTRUSTED = 0,
        /// It may.
        TRUSTED = 1,
    }
    /// Where a block goes.
    PlacementCode {
        /// Before everything else.
        PREPEND = 0,
        /// After the blocks that count as memory.
        AFTER_MEMORY_PREFIX = 1,
        /// After the user's text.
        APPEND = 2,
    }
    /// What a log row is about.
    LogKindCode {
        /// Sections that were attached.
        SELECTION = 0,
        /// The whole pool of a turn.
        POOL_AUDIT = 1,
        /// Activation of pages.
        ACTIVATION = 2,
    }
    /// To what a value belongs.
    KvScopeCode {
        /// The conversation.
        CONVERSATION = 0,
        /// The assistant.
        ASSISTANT = 1,
    }
    /// Who wrote a message.
    RoleCode {
        /// The user.
        USER = 0,
        /// The assistant.
        ASSISTANT = 1,
        /// A tool.
        TOOL = 2,
    }
    /// How serious a notice is.
    SeverityCode {
        /// Good to know.
        INFO = 0,
        /// Degraded.
        WARNING = 1,
        /// Broken.
        ERROR = 2,
    }
}

macro_rules! values {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty),+ $(,)? })+) => {$(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Debug, PartialEq, StableAbi)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)+
        }
    )+};
}

values! {
    /// What a plugin says of itself.
    Manifest {
        /// Identifier of the plugin.
        id: RString,
        /// The tier it serves.
        tier: TierCode,
        /// Its own version.
        version: RString,
        /// The border version it was built with.
        abi: RString,
        /// The oldest Rust it was built for.
        rust_version: RString,
        /// What a panic does in it: `unwind` or `abort`.
        panic_strategy: RString,
        /// Capabilities without which it cannot serve.
        requires: RVec<RString>,
        /// Capabilities it uses when they are there.
        uses: RVec<RString>,
        /// Room to grow.
        ext: RVec<Ext>,
    }
    /// The scope of a call, for reading.
    CallScope {
        /// The person, when known.
        principal: ROption<RString>,
        /// With what authority.
        authority: AuthorityCode,
        /// What will read the answer.
        consumer: RString,
        /// Channels that may be read.
        channels: RVec<RString>,
        /// Event time to answer for, UTC milliseconds.
        as_of: ROption<i64>,
        /// Ingestion time to answer for, UTC milliseconds.
        known_at: ROption<i64>,
        /// The conversation.
        conversation: RString,
        /// Number of the turn.
        turn: u64,
        /// W3C trace parent.
        trace_parent: ROption<RString>,
        /// Room to grow.
        ext: RVec<Ext>,
    }
    /// What the host asks of a turn.
    TurnRequest {
        /// The user's message.
        user_message: RString,
        /// The assistant's message before it.
        previous_reply: ROption<RString>,
        /// The last visible messages, oldest first.
        recent: RVec<RString>,
        /// One line on the situation.
        situation: RString,
        /// Whether history was just stripped.
        context_lost: bool,
        /// Room to grow.
        ext: RVec<Ext>,
    }
    /// A section a block shows.
    ShownSection {
        /// The section's key.
        section: RString,
        /// The lane that surfaced it.
        lane: RString,
        /// The lane's score.
        score: f32,
        /// Length of the rendered section in bytes.
        bytes: u64,
    }
    /// Text for a prompt.
    Block {
        /// Identifier.
        id: RString,
        /// The wrapper's tag.
        tag: RString,
        /// Where it goes.
        placement: PlacementCode,
        /// Position in its placement.
        order: i32,
        /// Importance.
        priority: i32,
        /// Whether it must be kept.
        mandatory: bool,
        /// Metadata key.
        persistence_key: ROption<RString>,
        /// The text.
        text: RString,
        /// Shorter forms, largest first.
        variants: RVec<RString>,
        /// Fewest tokens that make sense.
        minimum_tokens: u32,
        /// What it shows.
        shows: RVec<ShownSection>,
        /// What to commit after attachment.
        commit: ROption<RString>,
        /// Room to grow.
        ext: RVec<Ext>,
    }
    /// What a tier answers to a turn.
    TurnPlan {
        /// The blocks.
        blocks: RVec<Block>,
        /// Candidates considered.
        pool_size: u32,
        /// Keys of sections that are in context already.
        already_resident: RVec<RString>,
        /// What degraded the turn.
        degraded: RVec<RString>,
        /// Room to grow.
        ext: RVec<Ext>,
    }
    /// A page of the page index.
    PageEntry {
        /// The page.
        slug: RString,
        /// Its title.
        title: RString,
        /// When the file changed, UTC milliseconds.
        modified_at: i64,
        /// The date of the content, UTC milliseconds.
        fresh_at: i64,
        /// How many sections.
        sections: u32,
    }
    /// A page's text.
    PageText {
        /// The page.
        slug: RString,
        /// Its title.
        title: RString,
        /// Its summary.
        summary: ROption<RString>,
        /// The body.
        body: RString,
    }
    /// A link to an existing page.
    PageLink {
        /// The target.
        target: RString,
        /// What the author says of it.
        description: ROption<RString>,
        /// Pages that link the target.
        target_in_degree: u32,
    }
    /// A section without its text.
    SectionEntry {
        /// The section's key.
        id: RString,
        /// The heading as written.
        heading: RString,
        /// Position on the page.
        ordinal: u32,
        /// Hash of the text.
        hash: RString,
        /// Length in bytes.
        bytes: u64,
        /// Lowest trust of its parts.
        trust: TrustCode,
    }
    /// A section with its text.
    SectionText {
        /// The section.
        entry: SectionEntry,
        /// The page's title.
        page_title: RString,
        /// The declared date, UTC milliseconds.
        dated: ROption<i64>,
        /// The text.
        text: RString,
    }
    /// A section that a search found.
    SectionHit {
        /// The section's key.
        id: RString,
        /// Similarity or BM25 score.
        score: f32,
    }
    /// The embedding space.
    DenseSpace {
        /// Its identity.
        space: RString,
        /// Length of a vector.
        dims: u32,
    }
    /// A lexical search.
    LexicalQuery {
        /// The user's text.
        text: RString,
        /// Weight of the head field.
        head_weight: f32,
        /// Weight of the body field.
        body_weight: f32,
        /// Saturation.
        k1: f32,
        /// Length normalisation.
        b: f32,
        /// Most hits.
        limit: u32,
        /// Whether only a page's best section counts.
        best_per_page: bool,
        /// Room to grow.
        ext: RVec<Ext>,
    }
    /// A file of the personal knowledge base.
    PkbFile {
        /// Path below the base.
        path: RString,
        /// Its text.
        text: RString,
    }
    /// A chunk that a search found.
    PkbHit {
        /// Path of the file.
        path: RString,
        /// Number of the chunk.
        chunk: u32,
        /// Its text.
        text: RString,
        /// Cosine similarity.
        dense: ROption<f32>,
        /// BM25 score.
        lexical: ROption<f32>,
        /// Score after fusion.
        fused: f32,
    }
    /// Something in context.
    ResidentEntry {
        /// The page.
        slug: RString,
        /// The section's key.
        section: ROption<RString>,
        /// The message.
        message: RString,
        /// The tier that showed it.
        tier: TierCode,
        /// Length of the rendered text.
        bytes: u64,
        /// When it was attached, UTC milliseconds.
        at: i64,
    }
    /// Something just attached.
    Resident {
        /// The page.
        slug: RString,
        /// The section's key.
        section: ROption<RString>,
        /// Length of the rendered text.
        bytes: u64,
    }
    /// A row of a typed log.
    LogRow {
        /// What it is about.
        kind: LogKindCode,
        /// The page.
        slug: ROption<RString>,
        /// The rest as JSON.
        body: RString,
    }
    /// A message of the conversation.
    Message {
        /// Identifier.
        id: RString,
        /// Who wrote it.
        role: RoleCode,
        /// The text.
        text: RString,
        /// When it happened, UTC milliseconds.
        at: i64,
    }
    /// A message to the user or operator.
    Notice {
        /// Stable code.
        code: RString,
        /// How serious.
        severity: SeverityCode,
        /// What happened and what to do.
        message: RString,
        /// Room to grow.
        ext: RVec<Ext>,
    }
    /// A field of a log event.
    LogField {
        /// Its name.
        name: RString,
        /// Its value as text.
        value: RString,
    }
}
