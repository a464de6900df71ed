//! Services whose every answer is fixed, so that a test knows what must come back across the border.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use memory_core::embed::SpaceId;
use memory_core::env::ManualClock;
use memory_core::predicates::Tier;
use memory_core::provenance::Trust;
use memory_core::services::{
    Call, Dense, DenseSpace, Kv, KvScope, Lexical, LexicalQuery, Log, LogKind, LogRow, Message,
    Messages, Notice, Notices, PageEntry, PageLink, PageText, Pages, Pkb, PkbFile, PkbHit,
    Residency, Resident, ResidentEntry, Role, SectionEntry, SectionHit, SectionText, Sections,
    ServiceError, ServiceResult, Services,
};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

/// Lines that the probe's echo must contain.
pub(super) const EXPECTED: [&str; 12] = [
    "clock: 1234",
    "pages.count: 42",
    "pages.links: [[PageLink { target: Slug(\"garden/roses\"), description: Some(\"grows there\"), target_in_degree: 3 }]]",
    "body: \"Water weekly.\"",
    "pages.now_text: \"now\"",
    "dense.space: DenseSpace { space: SpaceId(\"test\"), dims: 2 }",
    "score: 0.5 }",
    "lexical.idf: [(\"echo\", 1.5)]",
    "tier: V2, bytes: 9, at: Timestamp(7) }",
    "kv.get: Some(\"yes\")",
    "role: Assistant, text: \"hello\"",
    "notices.post: ()",
];

/// Returns every service.
pub(super) fn all() -> Services {
    let fixed = Arc::new(Fixed::default());
    Services {
        pages: Some(Arc::clone(&fixed) as Arc<dyn Pages>),
        sections: Some(Arc::clone(&fixed) as Arc<dyn Sections>),
        dense: Some(Arc::clone(&fixed) as Arc<dyn Dense>),
        lexical: Some(Arc::clone(&fixed) as Arc<dyn Lexical>),
        pkb: Some(Arc::clone(&fixed) as Arc<dyn Pkb>),
        residency: Some(Arc::clone(&fixed) as Arc<dyn Residency>),
        log: Some(Arc::clone(&fixed) as Arc<dyn Log>),
        kv: Some(Arc::clone(&fixed) as Arc<dyn Kv>),
        messages: Some(Arc::clone(&fixed) as Arc<dyn Messages>),
        clock: Some(Arc::new(ManualClock::at(Timestamp::from_millis(1234)))),
        notices: Some(fixed),
    }
}

/// Returns a few services that fail: one panics, one is unavailable, most are not there.
pub(super) fn broken() -> Services {
    Services {
        pages: Some(Arc::new(Broken)),
        dense: Some(Arc::new(Broken)),
        clock: Some(Arc::new(ManualClock::default())),
        ..Services::default()
    }
}

#[derive(Default)]
struct Fixed {
    values: Mutex<Vec<(String, Option<String>)>>,
    rows: Mutex<Vec<LogRow>>,
}

fn slug(text: &str) -> Slug {
    Slug::parse(text).expect("a canonical slug")
}

fn section() -> SectionId {
    SectionId {
        slug: slug("garden"),
        heading: "water".to_owned(),
        occurrence: 1,
        chunk: 0,
    }
}

fn entry() -> SectionEntry {
    SectionEntry {
        id: section(),
        heading: "Water".to_owned(),
        ordinal: 1,
        hash: "00".to_owned(),
        bytes: 13,
        trust: Trust::Trusted,
    }
}

#[async_trait]
impl Pages for Fixed {
    async fn count(&self, call: &Call) -> ServiceResult<u32> {
        // A health check belongs to no conversation.
        let scope = call.scope();
        assert!(
            scope.conversation == "c1" || scope.requester.consumer == "health",
            "the host's own scope comes back: {scope:?}"
        );
        // Needs the runtime of the host, which the thread that polls the plugin does not have.
        tokio::spawn(async { 42 })
            .await
            .map_err(|error| ServiceError::Failed {
                reason: error.to_string(),
            })
    }

    async fn freshest(&self, _call: &Call, limit: u32) -> ServiceResult<Vec<PageEntry>> {
        let at = Timestamp::from_millis(7);
        let page = PageEntry {
            slug: slug("garden"),
            title: "Garden".to_owned(),
            modified_at: at,
            fresh_at: at,
            sections: limit,
        };
        Ok(vec![page])
    }

    async fn core(&self, _call: &Call) -> ServiceResult<Vec<Slug>> {
        Ok(vec![slug("garden")])
    }

    async fn read(&self, _call: &Call, slugs: Vec<Slug>) -> ServiceResult<Vec<Option<PageText>>> {
        let text = |slug: Slug| {
            Some(PageText {
                slug,
                title: "Garden".to_owned(),
                summary: None,
                body: "Water weekly.".to_owned(),
            })
        };
        Ok(slugs.into_iter().map(text).collect())
    }

    async fn links(&self, _call: &Call, slugs: Vec<Slug>) -> ServiceResult<Vec<Vec<PageLink>>> {
        let link = |_| {
            vec![PageLink {
                target: slug("garden/roses"),
                description: Some("grows there".to_owned()),
                target_in_degree: 3,
            }]
        };
        Ok(slugs.into_iter().map(link).collect())
    }

    async fn now_text(&self, _call: &Call) -> ServiceResult<String> {
        Ok("now".to_owned())
    }
}

#[async_trait]
impl Sections for Fixed {
    async fn of_pages(
        &self,
        _call: &Call,
        slugs: Vec<Slug>,
    ) -> ServiceResult<Vec<Vec<SectionEntry>>> {
        Ok(slugs.into_iter().map(|_| vec![entry()]).collect())
    }

    async fn texts(
        &self,
        _call: &Call,
        ids: Vec<SectionId>,
    ) -> ServiceResult<Vec<Option<SectionText>>> {
        let text = |_| {
            Some(SectionText {
                entry: entry(),
                page_title: "Garden".to_owned(),
                dated: None,
                text: "Water weekly.".to_owned(),
            })
        };
        Ok(ids.into_iter().map(text).collect())
    }
}

#[async_trait]
impl Dense for Fixed {
    async fn space(&self, _call: &Call) -> ServiceResult<DenseSpace> {
        Ok(DenseSpace {
            space: SpaceId::new("test"),
            dims: 2,
        })
    }

    async fn embed(&self, _call: &Call, texts: Vec<String>) -> ServiceResult<Vec<f32>> {
        Ok(texts.iter().flat_map(|_| [0.6, 0.8]).collect())
    }

    async fn search(
        &self,
        _call: &Call,
        vector: Vec<f32>,
        _limit: u32,
    ) -> ServiceResult<Vec<SectionHit>> {
        if vector != [0.6, 0.8] {
            return Err(ServiceError::BadRequest {
                reason: format!("{vector:?}"),
            });
        }
        Ok(vec![SectionHit {
            id: section(),
            score: 0.5,
        }])
    }
}

#[async_trait]
impl Lexical for Fixed {
    async fn search(&self, _call: &Call, query: LexicalQuery) -> ServiceResult<Vec<SectionHit>> {
        Ok(vec![SectionHit {
            id: section(),
            score: query.head_weight,
        }])
    }

    async fn idf(&self, _call: &Call, text: String) -> ServiceResult<Vec<(String, f32)>> {
        Ok(vec![(text, 1.5)])
    }
}

#[async_trait]
impl Pkb for Fixed {
    async fn always_shown(&self, _call: &Call) -> ServiceResult<Vec<PkbFile>> {
        Ok(Vec::new())
    }

    async fn search(&self, _call: &Call, _text: String, _limit: u32) -> ServiceResult<Vec<PkbHit>> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Residency for Fixed {
    async fn active(&self, _call: &Call) -> ServiceResult<Vec<ResidentEntry>> {
        Ok(vec![ResidentEntry {
            slug: slug("garden"),
            section: Some(section()),
            message: "m0".to_owned(),
            tier: Tier::V2,
            bytes: 9,
            at: Timestamp::from_millis(7),
        }])
    }

    async fn record(
        &self,
        _call: &Call,
        _message: String,
        _shown: Vec<Resident>,
    ) -> ServiceResult<()> {
        Ok(())
    }

    async fn clear(&self, _call: &Call) -> ServiceResult<()> {
        Ok(())
    }
}

#[async_trait]
impl Log for Fixed {
    async fn append(&self, _call: &Call, rows: Vec<LogRow>) -> ServiceResult<()> {
        self.rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(rows);
        Ok(())
    }

    async fn newest(&self, _call: &Call, kind: LogKind, limit: u32) -> ServiceResult<Vec<LogRow>> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(rows
            .iter()
            .rev()
            .filter(|row| row.kind == kind)
            .take(limit as usize)
            .cloned()
            .collect())
    }
}

#[async_trait]
impl Kv for Fixed {
    async fn get(
        &self,
        _call: &Call,
        _scope: KvScope,
        key: String,
    ) -> ServiceResult<Option<String>> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(values
            .iter()
            .rev()
            .find(|(name, _)| *name == key)
            .and_then(|(_, value)| value.clone()))
    }

    async fn put(
        &self,
        _call: &Call,
        _scope: KvScope,
        key: String,
        value: Option<String>,
    ) -> ServiceResult<()> {
        self.values
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((key, value));
        Ok(())
    }
}

#[async_trait]
impl Messages for Fixed {
    async fn recent(&self, _call: &Call, _limit: u32) -> ServiceResult<Vec<Message>> {
        let at = Timestamp::from_millis(7);
        Ok(vec![Message {
            id: "m0".to_owned(),
            role: Role::Assistant,
            text: "hello".to_owned(),
            at,
        }])
    }
}

#[async_trait]
impl Notices for Fixed {
    async fn post(&self, _call: &Call, _notice: Notice) -> ServiceResult<()> {
        Ok(())
    }
}

struct Broken;

fn unavailable<T>() -> ServiceResult<T> {
    Err(ServiceError::Unavailable {
        reason: "no model".to_owned(),
    })
}

#[async_trait]
impl Pages for Broken {
    async fn count(&self, _call: &Call) -> ServiceResult<u32> {
        panic!("told to panic in the host")
    }

    async fn freshest(&self, _call: &Call, _limit: u32) -> ServiceResult<Vec<PageEntry>> {
        unavailable()
    }

    async fn core(&self, _call: &Call) -> ServiceResult<Vec<Slug>> {
        unavailable()
    }

    async fn read(&self, _call: &Call, _slugs: Vec<Slug>) -> ServiceResult<Vec<Option<PageText>>> {
        unavailable()
    }

    async fn links(&self, _call: &Call, _slugs: Vec<Slug>) -> ServiceResult<Vec<Vec<PageLink>>> {
        unavailable()
    }

    async fn now_text(&self, _call: &Call) -> ServiceResult<String> {
        unavailable()
    }
}

#[async_trait]
impl Dense for Broken {
    async fn space(&self, _call: &Call) -> ServiceResult<DenseSpace> {
        unavailable()
    }

    async fn embed(&self, _call: &Call, _texts: Vec<String>) -> ServiceResult<Vec<f32>> {
        unavailable()
    }

    async fn search(
        &self,
        _call: &Call,
        _vector: Vec<f32>,
        _limit: u32,
    ) -> ServiceResult<Vec<SectionHit>> {
        unavailable()
    }
}
