//! What must hold of a run's result before any of it is installed, whoever made it.
//!
//! A filer may be a model. So nothing that it says about its own work counts: the texts themselves are looked at.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::text::citation::{marks, without_marks};
use memory_core::text::frontmatter::Frontmatter;
use memory_core::text::links::{LinkResolver, Resolution};
use memory_core::text::page::Page;
use memory_core::text::slug::Slug;

use super::agent::lost;
use super::batch::Entry;
use super::filing::Filing;
use super::rules::{block, is_stated};
use super::stage::Stage;
use crate::pages::PageIndex;

/// What a result is held against.
pub(super) struct Bench<'a> {
    pub(super) stage: &'a Stage,
    pub(super) index: &'a PageIndex,
    pub(super) entries: &'a [Entry],
    /// Most characters of a page's text.
    pub(super) longest: usize,
    /// What a filer may do with what pages said before.
    pub(super) keeping: Keeping,
}

/// What a filer may do with what pages said before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    /// It only adds: every line stays where it is.
    InPlace,
    /// It may arrange: what one of the changed pages said, one of them says afterwards.
    Anywhere,
}

/// Something that is wrong with a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) about: About,
    /// What it is, in one sentence.
    pub(super) text: String,
}

/// Where something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum About {
    Entry(String),
    Page(Slug),
}

impl Problem {
    fn of_entry(id: &str, text: String) -> Self {
        Self {
            about: About::Entry(id.to_owned()),
            text,
        }
    }

    fn of_page(slug: &Slug, text: String) -> Self {
        Self {
            about: About::Page(slug.clone()),
            text,
        }
    }
}

/// Returns what is wrong with a result; nothing when it may be installed.
pub(super) fn problems(bench: &Bench<'_>, filing: &Filing) -> Vec<Problem> {
    let mut found = Vec::new();
    let pages: BTreeMap<&Slug, Page> = filing
        .pages
        .iter()
        .map(|(slug, text)| (slug, Page::parse(slug, text)))
        .collect();
    names(bench, &pages, &mut found);
    let new = pages
        .iter()
        .filter(|(slug, _)| bench.index.get(slug).is_none())
        .map(|(_, page)| page.names());
    let new = LinkResolver::new(new);
    routes(bench, filing, &new, &mut found);
    for (slug, page) in &pages {
        let text = &filing.pages[*slug];
        let base = bench.stage.pages.get(*slug).map(|page| page.text.as_str());
        if base.is_none() && bench.stage.taken.contains(*slug) {
            let text = format!("`{slug}` cannot be edited: it is too long or no text");
            found.push(Problem::of_page(slug, text));
            continue;
        }
        let lost = match bench.keeping {
            Keeping::InPlace => base.and_then(|base| lost_line(base, text)),
            Keeping::Anywhere => None,
        };
        if let Some(lost) = lost {
            let text = format!("`{slug}` lost the line `{}`", shortened(lost));
            found.push(Problem::of_page(slug, text));
        }
        size(bench.longest, slug, base, text, &mut found);
        dangling(bench, slug, page, base, &new, &mut found);
    }
    if bench.keeping == Keeping::Anywhere {
        arranged(bench, filing, &mut found);
    }
    found
}

/// Nothing that was said is lost by arranging it, and no mark is made up or doubled.
fn arranged(bench: &Bench<'_>, filing: &Filing, found: &mut Vec<Problem>) {
    let before = || {
        let pages = filing.pages.keys();
        pages.filter_map(|slug| Some((slug, bench.stage.pages.get(slug)?.text.as_str())))
    };
    let after = || filing.pages.values().map(String::as_str);
    for (slug, text) in before() {
        if let Some(lost) = lost([text], after()) {
            let text = format!("`{slug}` said `{}`, which is nowhere now", shortened(&lost));
            found.push(Problem::of_page(slug, text));
        }
    }
    let mut allowed: BTreeMap<&str, usize> = BTreeMap::new();
    for mark in before().flat_map(|(_, text)| marks(text)) {
        *allowed.entry(mark.id).or_default() += 1;
    }
    for entry in bench.entries {
        allowed.entry(&entry.id).or_insert(1);
    }
    for (slug, text) in &filing.pages {
        for mark in marks(text) {
            match allowed.get_mut(mark.id) {
                Some(left) if *left > 0 => *left -= 1,
                Some(_) => {
                    let text = format!("`{slug}` repeats the mark `{}`", mark.id);
                    found.push(Problem::of_page(slug, text));
                }
                None => {
                    let text = format!("`{slug}` has the mark `{}`, which nobody gave", mark.id);
                    found.push(Problem::of_page(slug, text));
                }
            }
        }
    }
}

/// Every entry has one place, and its page says so.
fn routes(bench: &Bench<'_>, filing: &Filing, new: &LinkResolver, found: &mut Vec<Problem>) {
    let mut routed = BTreeSet::new();
    for route in &filing.routes {
        let Some(entry) = bench.entries.iter().find(|entry| entry.id == route.entry) else {
            let text = format!("`{}` is no entry of the batch", route.entry);
            found.push(Problem::of_entry(&route.entry, text));
            continue;
        };
        if !routed.insert(&entry.id) {
            let text = format!("entry `{}` was filed twice", entry.id);
            found.push(Problem::of_entry(&entry.id, text));
        }
        let Some(page) = &route.page else {
            continue;
        };
        let text = filing
            .pages
            .get(page)
            .or_else(|| bench.stage.pages.get(page).map(|page| &page.text));
        let is_cited = text.is_some_and(|text| marks(text).iter().any(|mark| mark.id == entry.id));
        let is_stated = text.is_some_and(|text| {
            let form = |leads: bool| block(entry, |_| leads);
            let resolved = block(entry, |link| {
                bench.index.resolver().resolve(page, link) != Resolution::Missing
                    || new.resolve(page, link) != Resolution::Missing
            });
            [resolved, form(true), form(false)]
                .iter()
                .any(|block| is_stated(entry, text, block))
        });
        if is_cited && !is_stated {
            let text = format!("`{page}` cites entry `{}` and does not say it", entry.id);
            found.push(Problem::of_entry(&entry.id, text));
        }
        if !is_cited {
            let text = format!(
                "entry `{}` is said to be on `{page}`, which does not cite it",
                entry.id
            );
            found.push(Problem::of_entry(&entry.id, text));
        }
    }
    for entry in bench.entries {
        if !routed.contains(&entry.id) {
            let text = format!("entry `{}` was left out", entry.id);
            found.push(Problem::of_entry(&entry.id, text));
        }
    }
}

/// A new page takes no name that another one answers to, so that no link changes its meaning.
fn names(bench: &Bench<'_>, pages: &BTreeMap<&Slug, Page>, found: &mut Vec<Problem>) {
    for (slug, page) in pages {
        if bench.index.get(slug).is_some() {
            continue;
        }
        let title = page.names().title;
        for name in title.iter().map(String::as_str).chain([slug.as_str()]) {
            if bench.index.resolve(name) != Resolution::Missing {
                let text = format!("the new page `{slug}` takes the name `{name}` of another one");
                found.push(Problem::of_page(slug, text));
            }
        }
    }
}

/// A page is not made longer than pages are to be.
fn size(longest: usize, slug: &Slug, base: Option<&str>, text: &str, found: &mut Vec<Problem>) {
    let characters = |text: &str| {
        let body = Frontmatter::parse(text).body();
        without_marks(&text[body]).chars().count()
    };
    // Bytes are at least as many as characters.
    if text.len() <= longest {
        return;
    }
    let (before, after) = (base.map_or(0, characters), characters(text));
    if after > longest && after > before {
        let text =
            format!("`{slug}` would have {after} characters, and a page has at most {longest}");
        found.push(Problem::of_page(slug, text));
    }
}

/// No link that leads nowhere is made.
fn dangling(
    bench: &Bench<'_>,
    slug: &Slug,
    page: &Page,
    base: Option<&str>,
    new: &LinkResolver,
    found: &mut Vec<Problem>,
) {
    let known: BTreeSet<String> = base.map_or_else(BTreeSet::new, |base| {
        let links = Page::parse(slug, base).links;
        links.into_iter().map(|link| link.target).collect()
    });
    for link in &page.links {
        let leads = [bench.index.resolver(), new]
            .iter()
            .any(|resolver| resolver.resolve(slug, link) != Resolution::Missing);
        if !leads && !known.contains(&link.target) {
            let text = format!("`{slug}` links to `{}`, which is no page", link.target);
            found.push(Problem::of_page(slug, text));
        }
    }
}

/// Returns the first line of a text that another one does not have after the lines before it. Marks do not count.
fn lost_line<'a>(base: &'a str, text: &str) -> Option<&'a str> {
    let text = without_marks(text);
    let mut rest = text.lines();
    base.lines().find(|line| {
        let plain = without_marks(line);
        let wanted = plain.trim_end();
        !wanted.is_empty() && !rest.any(|line| line.trim_end() == wanted)
    })
}

/// Returns the beginning of a text, for a message.
pub(super) fn shortened(text: &str) -> String {
    const SHOWN: usize = 80;
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_lost_when_it_is_not_there_in_its_order() {
        assert_eq!(lost_line("a\n\nb\n", "a ^m-1\nnew\nb"), None);
        assert_eq!(lost_line("a\nb\n", "b\na\n"), Some("b"));
        assert_eq!(lost_line("a ^m-1\nb", "a\nb\r\n"), None);
        assert_eq!(lost_line("a\nb\n", "a\n"), Some("b"));
    }
}
