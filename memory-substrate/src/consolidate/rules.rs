//! The filer that needs no model: it puts every entry, word for word, on the page where a person would look for it.
//!
//! The entry's own hints come first, then a page that says the same, then a page that the entry names, then the nearest one
//! if it is near enough, and else a page of its own. It never rewords anything and settles no contradiction: both
//! statements stand, and a person is asked. The same entries and pages give the same bytes.

mod doubts;
mod nearest;
mod shelf;
mod subject;
mod words;
mod write;

use std::collections::BTreeMap;

use memory_core::provenance::{Channel, Trust};
use memory_core::text::links::Resolution;
use memory_core::text::page::Page;
use memory_core::text::slug::Slug;

use self::shelf::{Group, Shelf};
use super::batch::Entry;
use super::check::Bench;
use super::filing::{Filing, Route};
use super::near::Nearness;

pub(super) use self::nearest::threshold;
pub(super) use self::shelf::is_stated;
pub(super) use self::words::plain;
pub(super) use self::write::{add, block, first_sentence, of_channel};

/// Files the entries of a batch.
pub(super) fn by_rules(bench: &Bench<'_>, nearness: &Nearness) -> Filing {
    let threshold = threshold(&nearness.background);
    let mut shelves: BTreeMap<(Channel, Trust), Shelf<'_>> = BTreeMap::new();
    let mut new: BTreeMap<Slug, String> = BTreeMap::new();
    let mut filing = Filing::default();
    for (number, entry) in bench.entries.iter().enumerate() {
        let group = Group {
            channel: entry.channel.clone(),
            trust: entry.trust,
        };
        let shelf = shelves
            .entry((entry.channel.clone(), entry.trust))
            .or_insert_with(|| Shelf::new(bench, group));
        let near = nearness.pages.get(number).map_or(&[][..], Vec::as_slice);
        let near = threshold.and_then(|threshold| {
            let best = near.iter().find(|(slug, _)| shelf.has(slug))?;
            (best.1 >= threshold).then(|| best.0.clone())
        });
        let route = file(shelf, &mut new, entry, near, &mut filing);
        filing.routes.push(route);
    }
    for shelf in shelves.into_values() {
        filing.pages.extend(shelf.changed());
    }
    filing
}

/// Files one entry.
fn file(
    shelf: &mut Shelf<'_>,
    new: &mut BTreeMap<Slug, String>,
    entry: &Entry,
    near: Option<Slug>,
    filing: &mut Filing,
) -> Route {
    let to = |page: Option<Slug>, why: &str| Route {
        entry: entry.id.clone(),
        page,
        why: why.to_owned(),
        block: None,
    };
    let put = |(page, block): (Slug, String), why: &str| Route {
        block: Some(block),
        ..to(Some(page), why)
    };
    if let Some(page) = shelf.citing(&entry.id) {
        return if shelf.states(&page, entry) {
            to(Some(page), "it stands there already")
        } else {
            // Somebody edited it here after it was filed there, and which of both counts is for them to say.
            to(
                None,
                "a page states it in other words: delete one of the two",
            )
        };
    }
    let hinted = hinted(shelf, entry);
    if let Some(page) = shelf.stating(entry, hinted.as_ref())
        && shelf.mark(&page, entry)
    {
        return to(Some(page), "the page says so already");
    }
    let found = hinted
        .map(|page| (page, "it names the page in brackets"))
        .or_else(|| {
            shelf
                .named_in(&entry.content)
                .map(|page| (page, "it names the page"))
        })
        .or_else(|| near.map(|page| (page, "nearest page by meaning")))
        .or_else(|| {
            let page = shelf.nearest_by_words(&entry.content)?;
            Some((page, "nearest page by words"))
        });
    if let Some((page, why)) = found
        && let Some(placed) = shelf.put(&page, entry, new)
    {
        filing.doubts.extend(doubts::found(shelf, &page, entry));
        return put(placed, why);
    }
    let title = subject::of(&entry.content).unwrap_or_else(|| subject::of_the_month(&entry.day));
    match shelf.begin(&title, entry, new) {
        Some(placed) => put(placed, "a page of its own"),
        None => to(
            None,
            "it is longer than a page may be: take it in with `strata ingest`",
        ),
    }
}

/// Returns the page that an entry names in brackets. Of several, the one to which fewest others link: a page that
/// everything links to is about everything.
fn hinted(shelf: &Shelf<'_>, entry: &Entry) -> Option<Slug> {
    let nowhere = Slug::from_title("entry");
    let links = Page::parse(&nowhere, &entry.content).links;
    let mut found: Vec<(u32, usize, Slug)> = Vec::new();
    for (position, link) in links.iter().enumerate() {
        if let Resolution::Found(slug) = shelf.resolve(&link.target)
            && shelf.has(&slug)
        {
            found.push((shelf.in_degree(&slug), position, slug));
        }
    }
    found.sort();
    found.into_iter().next().map(|(_, _, slug)| slug)
}

#[cfg(test)]
mod tests;
