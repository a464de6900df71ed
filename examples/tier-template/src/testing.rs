//! A host in memory, so that the tier is tested without one.
//!
//! Services are traits, so a test implements the few it needs over plain collections. Everything here answers at once,
//! which is why no runtime is needed either: a future that never waits is ready when it is polled once.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use memory_core::predicates::Tier;
use memory_core::provenance::Trust;
use memory_core::services::{
    Call, CallControl, CallScope, Kv, KvScope, Lexical, LexicalQuery, PageEntry, PageLink,
    PageText, Pages, Residency, Resident, ResidentEntry, SectionEntry, SectionHit, SectionText,
    Sections, ServiceError, ServiceResult, Services,
};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

/// Returns the lead of a page as the section service gives it.
pub(crate) fn text(name: &str, text: &str) -> SectionText {
    SectionText {
        entry: SectionEntry {
            id: SectionId::lead(Slug::from_title(name)),
            heading: String::new(),
            ordinal: 0,
            hash: String::new(),
            bytes: text.len() as u64,
            trust: Trust::Trusted,
        },
        page_title: name.to_owned(),
        dated: None,
        text: text.to_owned(),
    }
}

/// The host.
#[derive(Debug, Default)]
pub(crate) struct Host {
    /// The notes, oldest first.
    pub(crate) notes: Vec<SectionText>,
    /// Whether the key-value store fails.
    pub(crate) kv_fails: bool,
    /// Whether residency fails to record.
    pub(crate) record_fails: Mutex<bool>,
    /// What is in context.
    pub(crate) resident: Mutex<Vec<ResidentEntry>>,
    /// What is kept, by key.
    pub(crate) kept: Mutex<BTreeMap<String, String>>,
}

impl Host {
    /// Returns this host's services.
    pub(crate) fn services(self: &Arc<Self>) -> Services {
        Services {
            pages: Some(Arc::clone(self) as Arc<dyn Pages>),
            sections: Some(Arc::clone(self) as Arc<dyn Sections>),
            lexical: Some(Arc::clone(self) as Arc<dyn Lexical>),
            residency: Some(Arc::clone(self) as Arc<dyn Residency>),
            kv: Some(Arc::clone(self) as Arc<dyn Kv>),
            ..Services::default()
        }
    }

    /// Returns the keys of the sections in context.
    pub(crate) fn in_context(&self) -> Vec<String> {
        let resident = locked(&self.resident);
        let sections = resident.iter().filter_map(|entry| entry.section.as_ref());
        sections.map(SectionId::key).collect()
    }
}

/// Locks, also after a test has panicked.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a call of one conversation, far from its deadline.
pub(crate) fn call() -> Call {
    struct Still;
    impl CallControl for Still {
        fn is_cancelled(&self) -> bool {
            false
        }
        fn remaining_ms(&self) -> u64 {
            1_000
        }
        fn yield_now(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::ready(()))
        }
        fn token(&self) -> u64 {
            1
        }
    }
    let scope = CallScope {
        conversation: "c1".to_owned(),
        turn: 1,
        ..CallScope::default()
    };
    Call::new(Arc::new(scope), Arc::new(Still))
}

/// Runs a future that never waits.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing in these tests waits"),
    }
}

#[async_trait]
impl Pages for Host {
    async fn count(&self, _call: &Call) -> ServiceResult<u32> {
        Ok(u32::try_from(self.notes.len()).unwrap_or(u32::MAX))
    }

    async fn freshest(&self, _call: &Call, limit: u32) -> ServiceResult<Vec<PageEntry>> {
        let entry = |(age, note): (usize, &SectionText)| {
            let at = Timestamp::from_millis(-i64::try_from(age).unwrap_or(0));
            PageEntry {
                slug: note.entry.id.slug.clone(),
                title: note.page_title.clone(),
                modified_at: at,
                fresh_at: at,
                sections: 1,
            }
        };
        let newest_first = self.notes.iter().rev().enumerate();
        Ok(newest_first.map(entry).take(limit as usize).collect())
    }

    async fn core(&self, _call: &Call) -> ServiceResult<Vec<Slug>> {
        Ok(Vec::new())
    }

    async fn read(&self, _call: &Call, _slugs: Vec<Slug>) -> ServiceResult<Vec<Option<PageText>>> {
        Ok(Vec::new())
    }

    async fn links(&self, _call: &Call, _slugs: Vec<Slug>) -> ServiceResult<Vec<Vec<PageLink>>> {
        Ok(Vec::new())
    }

    async fn now_text(&self, _call: &Call) -> ServiceResult<String> {
        Ok(String::new())
    }
}

#[async_trait]
impl Sections for Host {
    async fn of_pages(
        &self,
        _call: &Call,
        _slugs: Vec<Slug>,
    ) -> ServiceResult<Vec<Vec<SectionEntry>>> {
        Ok(Vec::new())
    }

    async fn texts(
        &self,
        _call: &Call,
        ids: Vec<SectionId>,
    ) -> ServiceResult<Vec<Option<SectionText>>> {
        let find = |id: &SectionId| self.notes.iter().find(|note| note.entry.id == *id).cloned();
        Ok(ids.iter().map(find).collect())
    }
}

#[async_trait]
impl Lexical for Host {
    /// Scores a note by how many of the query's words it has.
    async fn search(&self, _call: &Call, query: LexicalQuery) -> ServiceResult<Vec<SectionHit>> {
        let words: Vec<&str> = query.text.split_whitespace().collect();
        let score = |note: &SectionText| {
            let found = words.iter().filter(|word| note.text.contains(**word));
            u16::try_from(found.count()).unwrap_or(u16::MAX)
        };
        let hits = self.notes.iter().filter(|note| score(note) > 0);
        Ok(hits
            .map(|note| SectionHit {
                id: note.entry.id.clone(),
                score: f32::from(score(note)),
            })
            .collect())
    }

    async fn idf(&self, _call: &Call, _text: String) -> ServiceResult<Vec<(String, f32)>> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Residency for Host {
    async fn active(&self, _call: &Call) -> ServiceResult<Vec<ResidentEntry>> {
        Ok(locked(&self.resident).clone())
    }

    async fn record(
        &self,
        _call: &Call,
        message: String,
        shown: Vec<Resident>,
    ) -> ServiceResult<()> {
        if *locked(&self.record_fails) {
            return Err(ServiceError::Failed {
                reason: "planted".to_owned(),
            });
        }
        let entries = shown.into_iter().map(|shown| ResidentEntry {
            slug: shown.slug,
            section: shown.section,
            message: message.clone(),
            tier: Tier::V3,
            bytes: shown.bytes,
            at: Timestamp::from_millis(0),
        });
        locked(&self.resident).extend(entries);
        Ok(())
    }

    async fn clear(&self, _call: &Call) -> ServiceResult<()> {
        locked(&self.resident).clear();
        Ok(())
    }
}

#[async_trait]
impl Kv for Host {
    async fn get(
        &self,
        _call: &Call,
        _scope: KvScope,
        key: String,
    ) -> ServiceResult<Option<String>> {
        if self.kv_fails {
            return Err(ServiceError::Unavailable {
                reason: "planted".to_owned(),
            });
        }
        Ok(locked(&self.kept).get(&key).cloned())
    }

    async fn put(
        &self,
        _call: &Call,
        _scope: KvScope,
        key: String,
        value: Option<String>,
    ) -> ServiceResult<()> {
        let mut kept = locked(&self.kept);
        match value {
            Some(value) => kept.insert(key, value),
            None => kept.remove(&key),
        };
        Ok(())
    }
}
