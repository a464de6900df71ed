//! The page index: every page without its text, with links resolved.
//!
//! An index is made whole and never changed, so a turn that holds one sees one state of the folder from start to end.
//! Pages are shared between one index and the next, which makes a small change cheap.

use std::collections::HashMap;
use std::sync::Arc;

use memory_core::provenance::{Channel, Trust};
use memory_core::services::{PageEntry, PageLink, SectionEntry};
use memory_core::text::core_pages;
use memory_core::text::fault::Fault;
use memory_core::text::links::{Dangling, Link, LinkResolver, PageNames, Resolution, dangling};
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

use super::scan::RenamedPage;

/// A page without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedPage {
    /// The page.
    pub slug: Slug,
    /// Path of its file below the folder of pages.
    pub path: String,
    /// The name it was ingested under; `None` for the owner's own file.
    pub original_name: Option<String>,
    /// Its title.
    pub title: String,
    /// Whether the title was given by the author and not made from the slug.
    pub title_is_given: bool,
    /// Its one-line summary, when the author gave one.
    pub summary: Option<String>,
    /// Every other name by which it can be linked.
    pub aliases: Vec<String>,
    /// Where it belongs.
    pub channel: Channel,
    /// How far it is trusted.
    pub trust: Trust,
    /// When the file last changed.
    pub modified_at: Timestamp,
    /// The declared date of the content, else `modified_at`.
    pub fresh_at: Timestamp,
    /// The declared date of the content.
    pub dated: Option<Timestamp>,
    /// Hash of the file's bytes.
    pub hash: String,
    /// Length of the file.
    pub bytes: u64,
    /// Its sections in page order.
    pub sections: Vec<SectionEntry>,
    /// Its links as written, without their places in the text.
    pub links: Vec<Link>,
    /// What is wrong with the file.
    pub faults: Vec<Fault>,
    /// When the file was last read, in milliseconds since the epoch.
    pub(super) checked_ms: i64,
    /// How many of the aliases, from the first on, stand in the file.
    pub(super) written_aliases: usize,
}

impl IndexedPage {
    /// Returns whether the two say the same, however often the file was looked at.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        // Everything else follows from the bytes, the name and how the page came in.
        let key = |page: &Self| (page.trust, page.modified_at);
        key(self) == key(other)
            && self.slug == other.slug
            && self.hash == other.hash
            && self.path == other.path
            && self.original_name == other.original_name
    }

    /// Returns the aliases that stand in the file.
    pub(super) fn written_aliases(&self) -> &[String] {
        &self.aliases[..self.written_aliases]
    }

    fn names(&self) -> PageNames {
        PageNames {
            slug: self.slug.clone(),
            title: self.title_is_given.then(|| self.title.clone()),
            aliases: self.aliases.clone(),
        }
    }
}

/// Every page of an assistant at one moment.
#[derive(Debug, Default)]
pub struct PageIndex {
    pages: Vec<Arc<IndexedPage>>,
    links: Vec<Vec<PageLink>>,
    in_degree: Vec<u32>,
    by_freshness: Vec<usize>,
    dangling: Vec<Dangling>,
    ambiguous: Vec<Dangling>,
    renamed: Vec<RenamedPage>,
    unreadable: Vec<(String, String)>,
    resolver: LinkResolver,
}

impl PageIndex {
    /// Returns the index of pages, which are sorted by slug.
    pub(super) fn build(
        pages: Vec<Arc<IndexedPage>>,
        renamed: Vec<RenamedPage>,
        unreadable: Vec<(String, String)>,
    ) -> Self {
        debug_assert!(
            pages.is_sorted_by(|left, right| left.slug < right.slug),
            "pages are unique and sorted"
        );
        let resolver = LinkResolver::new(pages.iter().map(|page| page.names()));
        let position: HashMap<&Slug, usize> = pages
            .iter()
            .enumerate()
            .map(|(position, page)| (&page.slug, position))
            .collect();
        let targets: Vec<Vec<(usize, Option<String>)>> = pages
            .iter()
            .enumerate()
            .map(|(own, page)| targets_of(page, own, &resolver, &position))
            .collect();
        let mut in_degree = vec![0_u32; pages.len()];
        for (target, _) in targets.iter().flatten() {
            in_degree[*target] += 1;
        }
        let links = targets
            .into_iter()
            .map(|targets| {
                let link = |(target, description): (usize, Option<String>)| PageLink {
                    target: pages[target].slug.clone(),
                    description,
                    target_in_degree: in_degree[target],
                };
                targets.into_iter().map(link).collect()
            })
            .collect();
        let mut by_freshness: Vec<usize> = (0..pages.len()).collect();
        // The sort is stable and the pages are sorted, so ties stay in the order of slugs.
        by_freshness.sort_by_key(|position| std::cmp::Reverse(pages[*position].fresh_at));
        let (ambiguous, dangling) = dangling(
            pages.iter().map(|page| (&page.slug, page.links.as_slice())),
            &resolver,
        )
        .into_iter()
        .partition(|link| !link.candidates.is_empty());
        Self {
            pages,
            links,
            in_degree,
            by_freshness,
            dangling,
            ambiguous,
            renamed,
            unreadable,
            resolver,
        }
    }

    /// Returns how many pages there are.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Returns whether there is no page.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Returns the pages, sorted by slug.
    pub fn pages(&self) -> &[Arc<IndexedPage>] {
        &self.pages
    }

    /// Returns a page.
    pub fn get(&self, slug: &Slug) -> Option<&Arc<IndexedPage>> {
        self.position(slug).map(|position| &self.pages[position])
    }

    /// Returns a page's links to other existing pages in the order written, each target once.
    pub fn resolved_links(&self, slug: &Slug) -> &[PageLink] {
        self.position(slug)
            .map_or(&[], |position| &self.links[position])
    }

    /// Returns from how many other pages a page is linked.
    pub fn in_degree(&self, slug: &Slug) -> u32 {
        self.position(slug)
            .map_or(0, |position| self.in_degree[position])
    }

    /// Returns what finds a page by its name.
    pub(crate) fn resolver(&self) -> &LinkResolver {
        &self.resolver
    }

    /// Returns which page a name means.
    pub fn resolve(&self, name: &str) -> Resolution {
        self.resolver.resolve_name(name)
    }

    /// Returns the pages with the newest content, newest first, ties by slug.
    pub fn freshest(&self, limit: usize) -> impl Iterator<Item = &Arc<IndexedPage>> {
        self.by_freshness
            .iter()
            .take(limit)
            .map(|position| &self.pages[*position])
    }

    /// Returns the existing pages that a list of core pages names, in its order, each once.
    pub fn core(&self, core_pages_text: &str) -> Vec<Slug> {
        let mut core = Vec::new();
        for listed in core_pages::parse(core_pages_text) {
            match self.resolve(&listed.target) {
                Resolution::Found(slug) if !core.contains(&slug) => core.push(slug),
                _ => {}
            }
        }
        core
    }

    /// Returns what tiers are told of a page.
    pub fn entry(page: &IndexedPage) -> PageEntry {
        PageEntry {
            slug: page.slug.clone(),
            title: page.title.clone(),
            modified_at: page.modified_at,
            fresh_at: page.fresh_at,
            sections: u32::try_from(page.sections.len()).unwrap_or(u32::MAX),
        }
    }

    /// Returns the links that lead nowhere.
    pub fn dangling(&self) -> &[Dangling] {
        &self.dangling
    }

    /// Returns the links that could mean several pages.
    pub fn ambiguous(&self) -> &[Dangling] {
        &self.ambiguous
    }

    /// Returns everything that is wrong with the files, by page.
    pub fn faults(&self) -> impl Iterator<Item = (&Arc<IndexedPage>, &Fault)> {
        self.pages
            .iter()
            .flat_map(|page| page.faults.iter().map(move |fault| (page, fault)))
    }

    /// Returns the pages whose name belongs to another page.
    pub fn renamed(&self) -> &[RenamedPage] {
        &self.renamed
    }

    /// Returns the files and folders that could not be read, with the reason.
    pub fn unreadable(&self) -> &[(String, String)] {
        &self.unreadable
    }

    fn position(&self, slug: &Slug) -> Option<usize> {
        self.pages.binary_search_by(|page| page.slug.cmp(slug)).ok()
    }
}

/// Returns the positions of the pages that a page links, each once, with the first description given.
fn targets_of(
    page: &IndexedPage,
    own: usize,
    resolver: &LinkResolver,
    position: &HashMap<&Slug, usize>,
) -> Vec<(usize, Option<String>)> {
    let mut targets: Vec<(usize, Option<String>)> = Vec::new();
    for link in &page.links {
        let Resolution::Found(slug) = resolver.resolve(&page.slug, link) else {
            continue;
        };
        let Some(&target) = position.get(&slug) else {
            continue;
        };
        if target == own {
            continue;
        }
        match targets.iter_mut().find(|(known, _)| *known == target) {
            Some((_, description)) => {
                if description.is_none() {
                    description.clone_from(&link.label);
                }
            }
            None => targets.push((target, link.label.clone())),
        }
    }
    targets
}
