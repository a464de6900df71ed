//! The services of a host as they cross the border, and the objects a library or a call is handed.
//!
//! A method names its call by number. The host knows the call behind that number and looks the scope up itself, so
//! whatever a plugin makes of the scope it was shown has no effect. Every answer is a future that the host has already
//! given to its own runtime; a plugin only waits for it.

#![allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_local_definitions,
    unused_braces,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    reason = "the attribute below generates items and expressions that these lints object to"
)]

use abi_stable::sabi_trait;
use abi_stable::std_types::{RArc, ROption, RResult, RStr, RString, RVec, Tuple2};
use async_ffi::FfiFuture;

use super::error::AbiError;
use super::types::{
    DenseSpace, KvScopeCode, LexicalQuery, LogField, LogKindCode, LogRow, Message, Notice,
    PageEntry, PageLink, PageText, PkbFile, PkbHit, Resident, ResidentEntry, SectionEntry,
    SectionHit, SectionText,
};

/// A future answer.
pub type Reply<T> = FfiFuture<RResult<T, AbiError>>;

/// An object of the other side, shared.
pub type Shared = RArc<()>;

/// Deadline and cancellation of a call.
#[sabi_trait]
pub trait CallControl: Send + Sync {
    /// Returns whether the caller gave up.
    fn is_cancelled(&self) -> bool;
    /// Returns the milliseconds left.
    fn remaining_ms(&self) -> u64;
    /// Returns the call's number.
    fn token(&self) -> u64;
    /// Lets other work run.
    #[sabi(last_prefix_field)]
    fn yield_now(&self) -> FfiFuture<()>;
}

/// Where a library's log goes.
#[sabi_trait]
pub trait LibraryHost: Send + Sync {
    /// Returns the most verbose level that anybody listens to, 0 (off) to 5 (trace).
    fn max_level(&self) -> u32;
    /// Takes an event.
    fn event(&self, level: u32, target: RStr<'_>, message: RStr<'_>, fields: RVec<LogField>);
    /// Opens a span and returns its number, 0 when nobody listens.
    fn span_new(&self, level: u32, target: RStr<'_>, name: RStr<'_>, fields: RVec<LogField>)
    -> u64;
    /// Enters a span on this thread.
    fn span_enter(&self, span: u64);
    /// Leaves a span on this thread.
    fn span_exit(&self, span: u64);
    /// Closes a span.
    #[sabi(last_prefix_field)]
    fn span_close(&self, span: u64);
}

/// Pages, the page index, links and the now-text.
#[sabi_trait]
pub trait Pages: Send + Sync {
    fn count(&self, call: u64) -> Reply<u32>;
    fn freshest(&self, call: u64, limit: u32) -> Reply<RVec<PageEntry>>;
    fn core(&self, call: u64) -> Reply<RVec<RString>>;
    fn read(&self, call: u64, slugs: RVec<RString>) -> Reply<RVec<ROption<PageText>>>;
    fn links(&self, call: u64, slugs: RVec<RString>) -> Reply<RVec<RVec<PageLink>>>;
    #[sabi(last_prefix_field)]
    fn now_text(&self, call: u64) -> Reply<RString>;
}

/// The section table.
#[sabi_trait]
pub trait Sections: Send + Sync {
    fn of_pages(&self, call: u64, slugs: RVec<RString>) -> Reply<RVec<RVec<SectionEntry>>>;
    #[sabi(last_prefix_field)]
    fn texts(&self, call: u64, ids: RVec<RString>) -> Reply<RVec<ROption<SectionText>>>;
}

/// Embedding and vector search.
#[sabi_trait]
pub trait Dense: Send + Sync {
    fn space(&self, call: u64) -> Reply<DenseSpace>;
    fn embed(&self, call: u64, texts: RVec<RString>) -> Reply<RVec<f32>>;
    #[sabi(last_prefix_field)]
    fn search(&self, call: u64, vector: RVec<f32>, limit: u32) -> Reply<RVec<SectionHit>>;
}

/// Field-weighted BM25.
#[sabi_trait]
pub trait Lexical: Send + Sync {
    fn search(&self, call: u64, query: LexicalQuery) -> Reply<RVec<SectionHit>>;
    #[sabi(last_prefix_field)]
    fn idf(&self, call: u64, text: RString) -> Reply<RVec<Tuple2<RString, f32>>>;
}

/// The personal knowledge base.
#[sabi_trait]
pub trait Pkb: Send + Sync {
    fn always_shown(&self, call: u64) -> Reply<RVec<PkbFile>>;
    #[sabi(last_prefix_field)]
    fn search(&self, call: u64, text: RString, limit: u32) -> Reply<RVec<PkbHit>>;
}

/// What is in context.
#[sabi_trait]
pub trait Residency: Send + Sync {
    fn active(&self, call: u64) -> Reply<RVec<ResidentEntry>>;
    fn record(&self, call: u64, message: RString, shown: RVec<Resident>) -> Reply<()>;
    #[sabi(last_prefix_field)]
    fn clear(&self, call: u64) -> Reply<()>;
}

/// Typed logs.
#[sabi_trait]
pub trait Log: Send + Sync {
    fn append(&self, call: u64, rows: RVec<LogRow>) -> Reply<()>;
    #[sabi(last_prefix_field)]
    fn newest(&self, call: u64, kind: LogKindCode, limit: u32) -> Reply<RVec<LogRow>>;
}

/// A tier's own small state.
#[sabi_trait]
pub trait Kv: Send + Sync {
    fn get(&self, call: u64, scope: KvScopeCode, key: RString) -> Reply<ROption<RString>>;
    #[sabi(last_prefix_field)]
    fn put(
        &self,
        call: u64,
        scope: KvScopeCode,
        key: RString,
        value: ROption<RString>,
    ) -> Reply<()>;
}

/// The conversation's messages.
#[sabi_trait]
pub trait Messages: Send + Sync {
    #[sabi(last_prefix_field)]
    fn recent(&self, call: u64, limit: u32) -> Reply<RVec<Message>>;
}

/// The time.
#[sabi_trait]
pub trait Clock: Send + Sync {
    #[sabi(last_prefix_field)]
    fn now_ms(&self) -> i64;
}

/// Notices.
#[sabi_trait]
pub trait Notices: Send + Sync {
    #[sabi(last_prefix_field)]
    fn post(&self, call: u64, notice: Notice) -> Reply<()>;
}

/// What one instance was handed, each there or absent.
#[sabi_trait]
pub trait HostServices: Send + Sync {
    fn pages(&self) -> ROption<Pages_TO<'static, Shared>>;
    fn sections(&self) -> ROption<Sections_TO<'static, Shared>>;
    fn dense(&self) -> ROption<Dense_TO<'static, Shared>>;
    fn lexical(&self) -> ROption<Lexical_TO<'static, Shared>>;
    fn pkb(&self) -> ROption<Pkb_TO<'static, Shared>>;
    fn residency(&self) -> ROption<Residency_TO<'static, Shared>>;
    fn log(&self) -> ROption<Log_TO<'static, Shared>>;
    fn kv(&self) -> ROption<Kv_TO<'static, Shared>>;
    fn messages(&self) -> ROption<Messages_TO<'static, Shared>>;
    fn clock(&self) -> ROption<Clock_TO<'static, Shared>>;
    #[sabi(last_prefix_field)]
    fn notices(&self) -> ROption<Notices_TO<'static, Shared>>;
}
