//! The table of services, one row a method, from which the adapters of both sides are made.
//!
//! The two sides must agree on every method; with one table they cannot drift apart. The traits that cross the border are
//! written out in `services`, and the compiler holds them against this table.

/// Hands every asynchronous service to a macro.
macro_rules! for_each_service {
    ($with:ident) => {
        $with! {
            Pages as Pages_TO, pages {
                fn count() -> u32;
                fn freshest(limit: u32) -> Vec<PageEntry>;
                fn core() -> Vec<Slug>;
                fn read(slugs: Vec<Slug>) -> Vec<Option<PageText>>;
                fn links(slugs: Vec<Slug>) -> Vec<Vec<PageLink>>;
                fn now_text() -> String;
            }
            Sections as Sections_TO, sections {
                fn of_pages(slugs: Vec<Slug>) -> Vec<Vec<SectionEntry>>;
                fn texts(ids: Vec<SectionId>) -> Vec<Option<SectionText>>;
            }
            Dense as Dense_TO, dense {
                fn space() -> DenseSpace;
                fn embed(texts: Vec<String>) -> Vec<f32>;
                fn search(vector: Vec<f32>, limit: u32) -> Vec<SectionHit>;
            }
            Lexical as Lexical_TO, lexical {
                fn search(query: LexicalQuery) -> Vec<SectionHit>;
                fn idf(text: String) -> Vec<(String, f32)>;
            }
            Pkb as Pkb_TO, pkb {
                fn always_shown() -> Vec<PkbFile>;
                fn search(text: String, limit: u32) -> Vec<PkbHit>;
            }
            Residency as Residency_TO, residency {
                fn active() -> Vec<ResidentEntry>;
                fn record(message: String, shown: Vec<Resident>) -> ();
                fn clear() -> ();
            }
            Log as Log_TO, log {
                fn append(rows: Vec<LogRow>) -> ();
                fn newest(kind: LogKind, limit: u32) -> Vec<LogRow>;
            }
            Kv as Kv_TO, kv {
                fn get(scope: KvScope, key: String) -> Option<String>;
                fn put(scope: KvScope, key: String, value: Option<String>) -> ();
            }
            Messages as Messages_TO, messages {
                fn recent(limit: u32) -> Vec<Message>;
            }
            Notices as Notices_TO, notices {
                fn post(notice: Notice) -> ();
            }
        }
    };
}

pub(super) use for_each_service;
