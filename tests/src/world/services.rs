//! The world's services: what a question becomes before it is answered, and the pages.
//!
//! Every answer may be spoilt in the same few ways, so that a rule can ask for nonsense of one service and nothing else.

use async_trait::async_trait;
use memory_core::services::{
    Call, Capability, PageEntry, PageLink, PageText, Pages, SectionEntry, SectionText, Sections,
    ServiceResult,
};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

use super::story::{Page, Part};
use super::{Nonsense, Question, World};

mod finders;
mod records;

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
    pub(super) fn visible<'a>(&'a self, call: &'a Call) -> impl Iterator<Item = &'a Page> {
        let pages = self.story.pages.iter();
        pages.filter(|page| self.may_see(call.scope(), page))
    }

    pub(super) fn visible_sections<'a>(
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
