//! Pages and sections, read from the files as they are now.
//!
//! The index says which pages and sections there are; what they say is always the file's word. A page whose file meanwhile
//! names another channel is shown only to those who may see both.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::provenance::Channel;
use memory_core::services::{
    Call, PageEntry, PageLink, PageText, Pages, SectionEntry, SectionText, Sections, ServiceResult,
};
use memory_core::store::StoreError;
use memory_core::text::citation::without_marks;
use memory_core::text::page::{Page, decode};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

use super::{Host, Serving, admit, failed};
use crate::blocking;
use crate::pages::{IndexedPage, PageIndex};
use crate::snapshot::Visibility;
use crate::views;

/// A page's file and what is read out of it.
struct ReadPage {
    text: String,
    page: Page,
}

impl Host {
    fn visible<'a>(
        serving: &'a Serving,
        slug: &Slug,
        visibility: &Visibility,
    ) -> Option<&'a Arc<IndexedPage>> {
        serving
            .pages
            .get(slug)
            .filter(|page| visibility.allows(&page.channel, page.trust))
    }

    /// Reads the files of some pages; those that are gone or must not be seen are left out.
    async fn read_pages(
        &self,
        slugs: Vec<Slug>,
        visibility: &Visibility,
    ) -> ServiceResult<HashMap<Slug, ReadPage>> {
        let serving = self.shared.serving.load_full();
        let wanted: Vec<Slug> = slugs
            .into_iter()
            .filter(|slug| Self::visible(&serving, slug, visibility).is_some())
            .collect();
        if wanted.is_empty() {
            return Ok(HashMap::new());
        }
        let files = self.shared.files.clone();
        let mut read = blocking::run(move || {
            let mut read = HashMap::new();
            for slug in wanted {
                if read.contains_key(&slug) {
                    continue;
                }
                if let Some(stored) = files.read_blocking(&slug)? {
                    let text = decode(&stored.bytes).0.into_owned();
                    let page = Page::parse(&slug, &text);
                    read.insert(slug, ReadPage { text, page });
                }
            }
            Ok::<_, StoreError>(read)
        })
        .await
        .map_err(failed)?;
        read.retain(|_, read| {
            let named = read
                .page
                .frontmatter
                .channel()
                .map_or(Channel::Global, Channel::parse);
            visibility.allows_channel(&named)
        });
        Ok(read)
    }
}

#[async_trait]
impl Pages for Host {
    async fn count(&self, call: &Call) -> ServiceResult<u32> {
        let visibility = admit(call)?;
        Ok(self.shared.serving.load().visible_pages(&visibility))
    }

    async fn freshest(&self, call: &Call, limit: u32) -> ServiceResult<Vec<PageEntry>> {
        let visibility = admit(call)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let serving = self.shared.serving.load_full();
        // Only when something is hidden must more than the first few be looked at.
        let looked_at = if serving.hides_something(&visibility) {
            serving.pages.len()
        } else {
            limit
        };
        let visible = serving
            .pages
            .freshest(looked_at)
            .filter(|page| visibility.allows(&page.channel, page.trust));
        Ok(visible
            .take(limit)
            .map(|page| PageIndex::entry(page))
            .collect())
    }

    async fn core(&self, call: &Call) -> ServiceResult<Vec<Slug>> {
        let visibility = admit(call)?;
        let workspace = self.shared.workspace.clone();
        let text = blocking::run(move || workspace.core_pages_text())
            .await
            .map_err(failed)?;
        let serving = self.shared.serving.load_full();
        let core = serving.pages.core(&text).into_iter();
        Ok(core
            .filter(|slug| Self::visible(&serving, slug, &visibility).is_some())
            .collect())
    }

    async fn read(&self, call: &Call, slugs: Vec<Slug>) -> ServiceResult<Vec<Option<PageText>>> {
        let visibility = admit(call)?;
        let read = self.read_pages(slugs.clone(), &visibility).await?;
        let text = |slug: &Slug| {
            let found = read.get(slug)?;
            Some(PageText {
                slug: slug.clone(),
                title: found.page.title.clone(),
                summary: found.page.frontmatter.summary().map(str::to_owned),
                body: without_marks(&found.text[found.page.body.clone()]).into_owned(),
            })
        };
        Ok(slugs.iter().map(text).collect())
    }

    async fn links(&self, call: &Call, slugs: Vec<Slug>) -> ServiceResult<Vec<Vec<PageLink>>> {
        let visibility = admit(call)?;
        let serving = self.shared.serving.load_full();
        let links_of = |slug: &Slug| {
            if Self::visible(&serving, slug, &visibility).is_none() {
                return Vec::new();
            }
            let links = serving.pages.resolved_links(slug).iter();
            links
                .filter(|link| Self::visible(&serving, &link.target, &visibility).is_some())
                .cloned()
                .collect()
        };
        Ok(slugs.iter().map(links_of).collect())
    }

    async fn now_text(&self, call: &Call) -> ServiceResult<String> {
        if !admit(call)?.allows_global() {
            return Ok(String::new());
        }
        let workspace = self.shared.workspace.clone();
        blocking::run(move || Ok::<_, StoreError>(views::now_text(&workspace)))
            .await
            .map_err(failed)
    }
}

#[async_trait]
impl Sections for Host {
    async fn of_pages(
        &self,
        call: &Call,
        slugs: Vec<Slug>,
    ) -> ServiceResult<Vec<Vec<SectionEntry>>> {
        let visibility = admit(call)?;
        let serving = self.shared.serving.load_full();
        let sections_of = |slug: &Slug| {
            Self::visible(&serving, slug, &visibility)
                .map_or_else(Vec::new, |page| page.sections.clone())
        };
        Ok(slugs.iter().map(sections_of).collect())
    }

    async fn texts(
        &self,
        call: &Call,
        ids: Vec<SectionId>,
    ) -> ServiceResult<Vec<Option<SectionText>>> {
        let visibility = admit(call)?;
        let read = self
            .read_pages(ids.iter().map(|id| id.slug.clone()).collect(), &visibility)
            .await?;
        let serving = self.shared.serving.load_full();
        let text = |id: &SectionId| {
            let found = read.get(&id.slug)?;
            let section = found
                .page
                .sections
                .iter()
                .find(|section| section.id == *id)?;
            Some(SectionText {
                entry: SectionEntry {
                    id: id.clone(),
                    heading: section.heading.clone(),
                    ordinal: section.ordinal,
                    hash: section.hash.clone(),
                    bytes: u64::try_from(section.body.len()).unwrap_or(u64::MAX),
                    trust: serving.pages.get(&id.slug)?.trust,
                },
                page_title: found.page.title.clone(),
                dated: found
                    .page
                    .frontmatter
                    .origin_date()
                    .map(Timestamp::from_millis),
                text: section.body.clone(),
            })
        };
        Ok(ids.iter().map(text).collect())
    }
}
