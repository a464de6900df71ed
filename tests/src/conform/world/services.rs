//! The world's services, each method over the story and what is kept.

use std::sync::PoisonError;

use async_trait::async_trait;
use memory_core::embed::SpaceId;
use memory_core::services::{
    Call, Capability, Dense, DenseSpace, Kv, KvScope, Lexical, LexicalQuery, Log, LogKind, LogRow,
    Message, Messages, Notice, Notices, PageEntry, PageLink, PageText, Pages, Pkb, PkbFile, PkbHit,
    Residency, Resident, ResidentEntry, Role, SectionEntry, SectionHit, SectionText, Sections,
    ServiceError, ServiceResult,
};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

use super::search::{DIMS, Terms, cosine, embed};
use super::story::{Page, Part};
use super::{Nonsense, Question, World};

/// Length of a text that no prompt could hold.
const HUGE: usize = 1 << 20;

fn reads<'a>(capability: Capability, method: &'static str, text: &'a str) -> Question<'a> {
    Question {
        capability,
        method,
        text,
        writes: false,
    }
}

fn writes(capability: Capability, method: &'static str) -> Question<'static> {
    Question {
        capability,
        method,
        text: "",
        writes: true,
    }
}

/// Returns a list as a kind of nonsense would have it.
fn spoilt<T: Clone>(mut list: Vec<T>, nonsense: Option<Nonsense>) -> Vec<T> {
    match nonsense {
        Some(Nonsense::Short) => {
            list.pop();
        }
        Some(Nonsense::Long) => list.extend(list.clone()),
        _ => {}
    }
    list
}

fn huge(text: &str) -> String {
    format!("{text} {}", "roastery ".repeat(HUGE / 9))
}

fn unknown() -> Slug {
    Slug::from_title("nobody knows this page")
}

impl World {
    fn visible<'a>(&'a self, call: &'a Call) -> impl Iterator<Item = &'a Page> {
        let pages = self.story.pages.iter();
        pages.filter(|page| self.may_see(call.scope(), page))
    }

    fn visible_sections<'a>(
        &'a self,
        call: &'a Call,
    ) -> impl Iterator<Item = (&'a Page, usize, &'a Part)> {
        let of_page = |page: &'a Page| {
            let parts = page.sections.iter().enumerate();
            parts.map(move |(at, part)| (page, at, part))
        };
        self.visible(call).flat_map(of_page)
    }

    fn find<'a>(&'a self, call: &'a Call, slug: &Slug) -> Option<&'a Page> {
        self.visible(call).find(|page| page.slug == *slug)
    }

    fn terms(&self, call: &Call) -> Terms {
        let sections = self.visible_sections(call);
        let texts = sections.map(|(page, _, part)| (page.title.as_str(), part.text.as_str()));
        let pages: Vec<_> = texts.collect();
        Terms::of(pages.into_iter())
    }
}

fn entry(page: &Page, at: usize, part: &Part) -> SectionEntry {
    SectionEntry {
        id: part.id.clone(),
        heading: part.heading.clone(),
        ordinal: u32::try_from(at).unwrap_or(u32::MAX),
        hash: format!("{:04x}", part.mark),
        bytes: part.text.len() as u64,
        trust: page.trust,
    }
}

/// Sorts best first, ties by section, and cuts.
fn best(mut hits: Vec<SectionHit>, limit: u32, best_per_page: bool) -> Vec<SectionHit> {
    hits.sort_by(|left, right| {
        right
            .score
            .total_cmp(&left.score)
            .then_with(|| left.id.cmp(&right.id))
    });
    if best_per_page {
        let mut seen = std::collections::BTreeSet::new();
        hits.retain(|hit| seen.insert(hit.id.slug.clone()));
    }
    hits.truncate(limit as usize);
    hits
}

fn spoilt_hits(mut hits: Vec<SectionHit>, nonsense: Option<Nonsense>) -> Vec<SectionHit> {
    match nonsense {
        Some(Nonsense::Numbers) => {
            let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0];
            for (hit, odd) in hits.iter_mut().zip(odd.into_iter().cycle()) {
                hit.score = odd;
            }
        }
        Some(Nonsense::Long) => hits.push(SectionHit {
            id: SectionId::lead(unknown()),
            score: 99.0,
        }),
        _ => {}
    }
    spoilt(hits, nonsense)
}

#[async_trait]
impl Pages for World {
    async fn count(&self, call: &Call) -> ServiceResult<u32> {
        let nonsense = self
            .gate(call, reads(Capability::Pages, "pages.count", ""))
            .await?;
        if self.is_empty(Capability::Pages) {
            return Ok(0);
        }
        if nonsense == Some(Nonsense::Numbers) {
            return Ok(u32::MAX);
        }
        Ok(u32::try_from(self.visible(call).count()).unwrap_or(u32::MAX))
    }

    async fn freshest(&self, call: &Call, limit: u32) -> ServiceResult<Vec<PageEntry>> {
        let nonsense = self
            .gate(call, reads(Capability::Pages, "pages.freshest", ""))
            .await?;
        if self.is_empty(Capability::Pages) {
            return Ok(Vec::new());
        }
        let entry = |page: &Page| PageEntry {
            slug: page.slug.clone(),
            title: page.title.clone(),
            modified_at: page.fresh_at,
            fresh_at: page.fresh_at,
            sections: u32::try_from(page.sections.len()).unwrap_or(u32::MAX),
        };
        let mut entries: Vec<PageEntry> = self.visible(call).map(entry).collect();
        entries.sort_by(|left, right| {
            right
                .fresh_at
                .cmp(&left.fresh_at)
                .then_with(|| left.slug.cmp(&right.slug))
        });
        entries.truncate(limit as usize);
        if nonsense == Some(Nonsense::Numbers) {
            for (entry, at) in entries
                .iter_mut()
                .zip([i64::MIN, i64::MAX, 0].into_iter().cycle())
            {
                entry.fresh_at = Timestamp::from_millis(at);
                entry.sections = u32::MAX;
            }
        }
        Ok(spoilt(entries, nonsense))
    }

    async fn core(&self, call: &Call) -> ServiceResult<Vec<Slug>> {
        let nonsense = self
            .gate(call, reads(Capability::Pages, "pages.core", ""))
            .await?;
        if self.is_empty(Capability::Pages) {
            return Ok(Vec::new());
        }
        let core = self.story.core.iter();
        let mut core: Vec<Slug> = core
            .filter(|slug| self.find(call, slug).is_some())
            .cloned()
            .collect();
        if nonsense == Some(Nonsense::Long) {
            core.push(unknown());
        }
        Ok(spoilt(core, nonsense))
    }

    async fn read(&self, call: &Call, slugs: Vec<Slug>) -> ServiceResult<Vec<Option<PageText>>> {
        let nonsense = self
            .gate(call, reads(Capability::Pages, "pages.read", ""))
            .await?;
        if self.is_empty(Capability::Pages) {
            return Ok(slugs.iter().map(|_| None).collect());
        }
        let text = |slug: &Slug| {
            let page = self.find(call, slug)?;
            let bodies: Vec<&str> = page
                .sections
                .iter()
                .map(|part| part.text.as_str())
                .collect();
            let mut summary = page.summary.clone();
            if nonsense == Some(Nonsense::Texts) {
                summary = summary.map(|summary| huge(&summary));
            }
            Some(PageText {
                slug: page.slug.clone(),
                title: page.title.clone(),
                summary,
                body: bodies.join("\n\n"),
            })
        };
        Ok(spoilt(slugs.iter().map(text).collect(), nonsense))
    }

    async fn links(&self, call: &Call, slugs: Vec<Slug>) -> ServiceResult<Vec<Vec<PageLink>>> {
        let nonsense = self
            .gate(call, reads(Capability::Pages, "pages.links", ""))
            .await?;
        if self.is_empty(Capability::Pages) {
            return Ok(slugs.iter().map(|_| Vec::new()).collect());
        }
        let links = |slug: &Slug| {
            let page = self.find(call, slug);
            let targets = page.map(|page| page.links.as_slice()).unwrap_or_default();
            let seen = targets
                .iter()
                .filter(|target| self.find(call, target).is_some());
            let link = |target: &Slug| PageLink {
                target: target.clone(),
                description: None,
                target_in_degree: 1,
            };
            seen.map(link).collect()
        };
        Ok(spoilt(slugs.iter().map(links).collect(), nonsense))
    }

    async fn now_text(&self, call: &Call) -> ServiceResult<String> {
        let nonsense = self
            .gate(call, reads(Capability::Pages, "pages.now_text", ""))
            .await?;
        if self.is_empty(Capability::Pages) || !Self::may_see_global(call.scope()) {
            return Ok(String::new());
        }
        let now = "Visitors wait for the roastery in Leith.";
        Ok(match nonsense {
            Some(Nonsense::Texts) => huge(now),
            _ => now.to_owned(),
        })
    }
}

#[async_trait]
impl Sections for World {
    async fn of_pages(
        &self,
        call: &Call,
        slugs: Vec<Slug>,
    ) -> ServiceResult<Vec<Vec<SectionEntry>>> {
        let nonsense = self
            .gate(call, reads(Capability::Sections, "sections.of_pages", ""))
            .await?;
        if self.is_empty(Capability::Sections) {
            return Ok(slugs.iter().map(|_| Vec::new()).collect());
        }
        let entries = |slug: &Slug| {
            let page = self.find(call, slug);
            let parts = page.into_iter().flat_map(|page| {
                let parts = page.sections.iter().enumerate();
                parts.map(move |(at, part)| entry(page, at, part))
            });
            parts.collect()
        };
        Ok(spoilt(slugs.iter().map(entries).collect(), nonsense))
    }

    async fn texts(
        &self,
        call: &Call,
        ids: Vec<SectionId>,
    ) -> ServiceResult<Vec<Option<SectionText>>> {
        let nonsense = self
            .gate(call, reads(Capability::Sections, "sections.texts", ""))
            .await?;
        if self.is_empty(Capability::Sections) {
            return Ok(ids.iter().map(|_| None).collect());
        }
        let text = |id: &SectionId| {
            let (page, at, part) = self
                .visible_sections(call)
                .find(|(_, _, part)| part.id == *id)?;
            let mut text = SectionText {
                entry: entry(page, at, part),
                page_title: page.title.clone(),
                dated: (at == 0).then_some(page.fresh_at),
                text: part.text.clone(),
            };
            match nonsense {
                Some(Nonsense::Texts) => text.text = huge(&text.text),
                Some(Nonsense::Numbers) => {
                    text.dated = Some(Timestamp::from_millis(i64::MAX));
                    text.entry.bytes = u64::MAX;
                    text.entry.ordinal = u32::MAX;
                }
                _ => {}
            }
            Some(text)
        };
        Ok(spoilt(ids.iter().map(text).collect(), nonsense))
    }
}

#[async_trait]
impl Dense for World {
    async fn space(&self, call: &Call) -> ServiceResult<DenseSpace> {
        let nonsense = self
            .gate(call, reads(Capability::Dense, "dense.space", ""))
            .await?;
        let dims = match nonsense {
            Some(Nonsense::Numbers) => u32::MAX,
            _ => u32::try_from(DIMS).unwrap_or(u32::MAX),
        };
        Ok(DenseSpace {
            space: SpaceId::new("conform"),
            dims,
        })
    }

    async fn embed(&self, call: &Call, texts: Vec<String>) -> ServiceResult<Vec<f32>> {
        let nonsense = self
            .gate(
                call,
                reads(Capability::Dense, "dense.embed", &texts.join("\n")),
            )
            .await?;
        if self.is_empty(Capability::Dense) {
            return Ok(Vec::new());
        }
        let mut flat: Vec<f32> = texts.iter().flat_map(|text| embed(text)).collect();
        if nonsense == Some(Nonsense::Numbers) {
            flat.fill(f32::NAN);
        }
        Ok(spoilt(flat, nonsense))
    }

    async fn search(
        &self,
        call: &Call,
        vector: Vec<f32>,
        limit: u32,
    ) -> ServiceResult<Vec<SectionHit>> {
        let nonsense = self
            .gate(call, reads(Capability::Dense, "dense.search", ""))
            .await?;
        if self.is_empty(Capability::Dense) {
            return Ok(Vec::new());
        }
        if vector.len() != DIMS && nonsense.is_none() {
            return Err(ServiceError::BadRequest {
                reason: format!("a vector of {} numbers instead of {DIMS}", vector.len()),
            });
        }
        let hit = |(page, _, part): (&Page, usize, &Part)| SectionHit {
            id: part.id.clone(),
            score: cosine(&vector, &embed(&format!("{} {}", page.title, part.text))),
        };
        let hits = self.visible_sections(call).map(hit).collect();
        Ok(spoilt_hits(best(hits, limit, false), nonsense))
    }
}

#[async_trait]
impl Lexical for World {
    async fn search(&self, call: &Call, query: LexicalQuery) -> ServiceResult<Vec<SectionHit>> {
        let nonsense = self
            .gate(
                call,
                reads(Capability::Lexical, "lexical.search", &query.text),
            )
            .await?;
        if self.is_empty(Capability::Lexical) {
            return Ok(Vec::new());
        }
        let terms = self.terms(call);
        let mut hits = Vec::new();
        for (page, _, part) in self.visible_sections(call) {
            let head = format!("{} {}", page.title, part.heading);
            let score = terms.score(&query, &head, &part.text);
            if score > 0.0 {
                hits.push(SectionHit {
                    id: part.id.clone(),
                    score,
                });
            }
        }
        Ok(spoilt_hits(
            best(hits, query.limit, query.best_per_page),
            nonsense,
        ))
    }

    async fn idf(&self, call: &Call, text: String) -> ServiceResult<Vec<(String, f32)>> {
        let nonsense = self
            .gate(call, reads(Capability::Lexical, "lexical.idf", &text))
            .await?;
        if self.is_empty(Capability::Lexical) {
            return Ok(Vec::new());
        }
        let terms = self.terms(call);
        let mut found: Vec<(String, f32)> = Vec::new();
        for word in super::search::words(&text) {
            if found.iter().all(|(known, _)| *known != word) {
                let idf = match nonsense {
                    Some(Nonsense::Numbers) => f32::NAN,
                    _ => terms.idf(&word),
                };
                found.push((word, idf));
            }
        }
        Ok(spoilt(found, nonsense))
    }
}

#[async_trait]
impl Pkb for World {
    async fn always_shown(&self, call: &Call) -> ServiceResult<Vec<PkbFile>> {
        let nonsense = self
            .gate(call, reads(Capability::Pkb, "pkb.always_shown", ""))
            .await?;
        if self.is_empty(Capability::Pkb) || !Self::may_see_global(call.scope()) {
            return Ok(Vec::new());
        }
        let files = self.story.files.iter().filter(|file| file.always);
        let files = files.map(|file| PkbFile {
            path: file.path.clone(),
            text: match nonsense {
                Some(Nonsense::Texts) => huge(&file.text),
                _ => file.text.clone(),
            },
        });
        Ok(spoilt(files.collect(), nonsense))
    }

    async fn search(&self, call: &Call, text: String, limit: u32) -> ServiceResult<Vec<PkbHit>> {
        let nonsense = self
            .gate(call, reads(Capability::Pkb, "pkb.search", &text))
            .await?;
        if self.is_empty(Capability::Pkb) || !Self::may_see_global(call.scope()) {
            return Ok(Vec::new());
        }
        let query = LexicalQuery {
            text,
            head_weight: 2.0,
            body_weight: 1.0,
            k1: 1.2,
            b: 0.75,
            limit,
            best_per_page: false,
        };
        let files = &self.story.files;
        let terms = Terms::of(
            files
                .iter()
                .map(|file| (file.path.as_str(), file.text.as_str())),
        );
        let mut hits: Vec<PkbHit> = Vec::new();
        for file in files {
            let score = terms.score(&query, &file.path, &file.text);
            if score > 0.0 {
                let odd = nonsense == Some(Nonsense::Numbers);
                hits.push(PkbHit {
                    path: file.path.clone(),
                    chunk: 0,
                    text: match nonsense {
                        Some(Nonsense::Texts) => huge(&file.text),
                        _ => file.text.clone(),
                    },
                    dense: odd.then_some(f32::NAN),
                    lexical: Some(if odd { f32::INFINITY } else { score }),
                    fused: if odd { f32::NAN } else { score },
                });
            }
        }
        hits.sort_by(|left, right| {
            right
                .fused
                .total_cmp(&left.fused)
                .then_with(|| left.path.cmp(&right.path))
        });
        hits.truncate(limit as usize);
        Ok(spoilt(hits, nonsense))
    }
}

#[async_trait]
impl Residency for World {
    async fn active(&self, call: &Call) -> ServiceResult<Vec<ResidentEntry>> {
        let nonsense = self
            .gate(call, reads(Capability::Residency, "residency.active", ""))
            .await?;
        if self.is_empty(Capability::Residency) {
            return Ok(Vec::new());
        }
        let mut active = self.resident(&call.scope().conversation);
        if nonsense.is_some() {
            active.push(ResidentEntry {
                slug: unknown(),
                section: None,
                message: String::new(),
                tier: self.tier,
                bytes: u64::MAX,
                at: Timestamp::from_millis(i64::MIN),
            });
        }
        Ok(spoilt(active, nonsense))
    }

    async fn record(
        &self,
        call: &Call,
        message: String,
        shown: Vec<Resident>,
    ) -> ServiceResult<()> {
        let question = writes(Capability::Residency, "residency.record");
        self.gate(call, question).await?;
        let conversation = &call.scope().conversation;
        let at = memory_core::env::Clock::now(self);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for shown in shown {
            // As in a real host: the same thing on the same message is one row.
            let known = kept.resident.iter().any(|(of, entry)| {
                of == conversation
                    && entry.message == message
                    && entry.slug == shown.slug
                    && entry.section == shown.section
            });
            if !known {
                let entry = ResidentEntry {
                    slug: shown.slug,
                    section: shown.section,
                    message: message.clone(),
                    tier: self.tier,
                    bytes: shown.bytes,
                    at,
                };
                kept.resident.push((conversation.clone(), entry));
            }
        }
        Ok(())
    }

    async fn clear(&self, call: &Call) -> ServiceResult<()> {
        let question = writes(Capability::Residency, "residency.clear");
        self.gate(call, question).await?;
        self.forget_context(&call.scope().conversation);
        Ok(())
    }
}

#[async_trait]
impl Log for World {
    async fn append(&self, call: &Call, rows: Vec<LogRow>) -> ServiceResult<()> {
        self.gate(call, writes(Capability::Log, "log.append"))
            .await?;
        let conversation = &call.scope().conversation;
        let rows = rows.into_iter().map(|row| (conversation.clone(), row));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.rows.extend(rows);
        Ok(())
    }

    async fn newest(&self, call: &Call, kind: LogKind, limit: u32) -> ServiceResult<Vec<LogRow>> {
        let nonsense = self
            .gate(call, reads(Capability::Log, "log.newest", ""))
            .await?;
        if self.is_empty(Capability::Log) {
            return Ok(Vec::new());
        }
        let conversation = &call.scope().conversation;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let own = kept.rows.iter().rev();
        let own = own.filter(|(of, row)| of == conversation && row.kind == kind);
        let mut rows: Vec<LogRow> = own
            .map(|(_, row)| row.clone())
            .take(limit as usize)
            .collect();
        if nonsense == Some(Nonsense::Texts) {
            rows.push(LogRow {
                kind,
                slug: None,
                body: "this is no JSON".to_owned(),
            });
        }
        Ok(spoilt(rows, nonsense))
    }
}

#[async_trait]
impl Kv for World {
    async fn get(&self, call: &Call, scope: KvScope, key: String) -> ServiceResult<Option<String>> {
        let nonsense = self.gate(call, reads(Capability::Kv, "kv.get", "")).await?;
        if self.is_empty(Capability::Kv) {
            return Ok(None);
        }
        if nonsense.is_some() {
            return Ok(Some("{\"this\": is no JSON".to_owned()));
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kept.values.get(&(Self::owner(call, scope), key)).cloned())
    }

    async fn put(
        &self,
        call: &Call,
        scope: KvScope,
        key: String,
        value: Option<String>,
    ) -> ServiceResult<()> {
        self.gate(call, writes(Capability::Kv, "kv.put")).await?;
        let key = (Self::owner(call, scope), key);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match value {
            Some(value) => kept.values.insert(key, value),
            None => kept.values.remove(&key),
        };
        Ok(())
    }
}

#[async_trait]
impl Messages for World {
    async fn recent(&self, call: &Call, limit: u32) -> ServiceResult<Vec<Message>> {
        let nonsense = self
            .gate(call, reads(Capability::Messages, "messages.recent", ""))
            .await?;
        if self.is_empty(Capability::Messages) || limit == 0 {
            return Ok(Vec::new());
        }
        let text = "Good morning.";
        let message = Message {
            id: "before".to_owned(),
            role: Role::Assistant,
            text: match nonsense {
                Some(Nonsense::Texts) => huge(text),
                _ => text.to_owned(),
            },
            at: Timestamp::from_millis(0),
        };
        Ok(spoilt(vec![message], nonsense))
    }
}

#[async_trait]
impl Notices for World {
    async fn post(&self, call: &Call, _notice: Notice) -> ServiceResult<()> {
        let question = writes(Capability::Notices, "notices.post");
        self.gate(call, question).await.map(drop)
    }
}
