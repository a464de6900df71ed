//! The pages among which an entry may go: those of its channel and trust, with what was filed so far.
//!
//! What is trusted less never stands on a page that is trusted more, and what belongs to a channel never on a page of
//! another one, so each such group of pages is a shelf of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use memory_core::provenance::{Channel, Trust};
use memory_core::text::citation::{marks, without_marks};
use memory_core::text::frontmatter::Frontmatter;
use memory_core::text::links::{LinkKind, Resolution};
use memory_core::text::page::Page;
use memory_core::text::slug::Slug;

use super::words::{is_common, said, stated, telling};
use super::write;
use crate::consolidate::batch::Entry;
use crate::consolidate::check::Bench;
use crate::segment::analyze;

/// Words of a page's name, at most.
const LONGEST_NAME: usize = 6;

/// Characters that a name of one word has at least.
const SHORTEST_NAME: usize = 3;

/// Share of an entry's words, weighed by how rare they are, that a page has to have.
const SHARED: f64 = 0.6;

/// Words that they have to share at least.
const FEWEST_SHARED: usize = 3;

/// Pages of one name, at most.
const SIBLINGS: usize = 1_000;

/// Which pages are on a shelf.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) channel: Channel,
    pub(super) trust: Trust,
}

/// Pages among which an entry may go.
pub(super) struct Shelf<'a> {
    bench: &'a Bench<'a>,
    group: Group,
    pages: BTreeMap<Slug, String>,
    changed: BTreeSet<Slug>,
    /// Pages by the words of their names; `None` where several have the same one.
    names: HashMap<String, Option<Slug>>,
    /// The pages that make a statement, by its day, if it begins with one, and by what it says.
    statements: HashMap<(Option<String>, String), Vec<Slug>>,
    cited: HashMap<String, Slug>,
    /// The pages that have a word.
    having: HashMap<String, BTreeSet<Slug>>,
}

impl<'a> Shelf<'a> {
    /// Returns the pages of a group.
    pub(super) fn new(bench: &'a Bench<'a>, group: Group) -> Self {
        let mut shelf = Self {
            bench,
            group,
            pages: BTreeMap::new(),
            changed: BTreeSet::new(),
            names: HashMap::new(),
            statements: HashMap::new(),
            cited: HashMap::new(),
            having: HashMap::new(),
        };
        for (slug, page) in &bench.stage.pages {
            if page.channel == shelf.group.channel && page.trust == shelf.group.trust {
                shelf.take_in(slug, page.text.clone());
            }
        }
        shelf
    }

    /// Returns the pages that were changed or are new.
    pub(super) fn changed(self) -> BTreeMap<Slug, String> {
        let changed = self.changed;
        let pages = self.pages.into_iter();
        pages.filter(|(slug, _)| changed.contains(slug)).collect()
    }

    /// Returns whether a page is on the shelf.
    pub(super) fn has(&self, slug: &Slug) -> bool {
        self.pages.contains_key(slug)
    }

    /// Returns which page a name means.
    pub(super) fn resolve(&self, name: &str) -> Resolution {
        match self.bench.index.resolve(name) {
            Resolution::Missing => self
                .names
                .get(&key(name))
                .cloned()
                .flatten()
                .map_or(Resolution::Missing, Resolution::Found),
            found => found,
        }
    }

    /// Returns from how many pages a page is linked.
    pub(super) fn in_degree(&self, slug: &Slug) -> u32 {
        self.bench.index.in_degree(slug)
    }

    /// Returns the page that states an item already.
    pub(super) fn citing(&self, id: &str) -> Option<Slug> {
        self.cited.get(id).cloned()
    }

    /// Returns whether a page has an entry word for word.
    pub(super) fn states(&self, page: &Slug, entry: &Entry) -> bool {
        let Some(text) = self.pages.get(page) else {
            return false;
        };
        is_stated(entry, text, &self.block(entry, page))
    }

    /// Returns a page that says the same already, the preferred one if there is one. The same on another day is another
    /// statement.
    pub(super) fn stating(&self, entry: &Entry, preferred: Option<&Slug>) -> Option<Slug> {
        if entry.content.lines().count() != 1 {
            return None;
        }
        let said = said(&entry.content);
        let whole = self.statements.get(&(None, said.clone()));
        let dated = self.statements.get(&(Some(entry.day.clone()), said));
        let mut pages = whole.into_iter().chain(dated).flatten();
        match preferred {
            Some(preferred) => pages
                .any(|page| page == preferred)
                .then(|| preferred.clone()),
            None => pages.next().cloned(),
        }
    }

    /// Marks the line that says the same. Returns whether there is one outside of code, and of comments.
    pub(super) fn mark(&mut self, page: &Slug, entry: &Entry) -> bool {
        let Some(text) = self.pages.get(page) else {
            return false;
        };
        let body = Frontmatter::parse(text).body();
        let (mut at, mut open) = (body.start, write::Open::default());
        for line in text[body].split_inclusive('\n') {
            let is_text = !open.reads(line);
            if is_text && !line.trim_start().starts_with(['#', '|']) && says(line, entry) {
                let end = at + line.trim_end().len();
                let marked = format!("{} ^m-{}{}", &text[..end], entry.id, &text[end..]);
                self.take_in(page, marked);
                self.changed.insert(page.clone());
                return true;
            }
            at += line.len();
        }
        false
    }

    /// Returns the page that a text names: the longest name, of equal ones the rarest, and of those the first.
    pub(super) fn named_in(&self, text: &str) -> Option<Slug> {
        let words = analyze(text);
        for length in (1..=LONGEST_NAME.min(words.len())).rev() {
            let named = words.windows(length).filter_map(|run| {
                let slug = self.names.get(&run.join(" "))?.as_ref()?;
                (length > 1 || self.is_distinctive(&run[0])).then(|| {
                    let pages = run.iter().map(|word| self.pages_with(word)).min();
                    (pages.unwrap_or_default(), slug)
                })
            });
            if let Some((_, slug)) = named.min_by_key(|(pages, _)| *pages) {
                return Some(slug.clone());
            }
        }
        None
    }

    /// Returns the page that shares most of a text's words, if that is most of what the text says.
    pub(super) fn nearest_by_words(&self, text: &str) -> Option<Slug> {
        let words: BTreeSet<String> = telling(text).into_iter().collect();
        let weight = |word: &String| {
            (1.0 + count(self.pages.len()) / (1.0 + count(self.pages_with(word)))).ln()
        };
        let all: f64 = words.iter().map(weight).sum();
        let mut shared: BTreeMap<&Slug, (usize, f64)> = BTreeMap::new();
        for word in &words {
            for slug in self.having.get(word).into_iter().flatten() {
                let (number, score) = shared.entry(slug).or_default();
                *number += 1;
                *score += weight(word);
            }
        }
        shared
            .into_iter()
            .filter(|(_, (number, score))| *number >= FEWEST_SHARED && *score >= SHARED * all)
            .max_by(|(left, (_, one)), (right, (_, other))| {
                one.total_cmp(other).then(right.cmp(left))
            })
            .map(|(slug, _)| slug.clone())
    }

    /// Puts an entry on a page, or on one that continues it when it is full, and returns which and what was put there. `new` has the titles of new
    /// pages of every shelf.
    pub(super) fn put(
        &mut self,
        page: &Slug,
        entry: &Entry,
        new: &mut BTreeMap<Slug, String>,
    ) -> Option<(Slug, String)> {
        let block = self.block(entry, page);
        if self.write(page, &block) {
            return Some((page.clone(), block));
        }
        let title = Page::parse(page, self.pages.get(page)?).title;
        let lead = format!("Continues [[{page}]].");
        for number in 2..SIBLINGS {
            let slug = Slug::from_path(&format!("{page}-{number}.md"));
            if let Some(text) = self.pages.get(&slug) {
                // A page that only happens to have such a name is about something else.
                if text.contains(&lead) && self.write(&slug, &block) {
                    return Some((slug, block));
                }
                continue;
            }
            let title = format!("{title} ({number})");
            if self.is_free(&slug, &title, new) {
                let text = write::page(&title, &self.group.channel, Some(&lead), &block);
                return Some((self.make(slug, title, text, new)?, block));
            }
        }
        None
    }

    /// Puts an entry on a page of this title, which is made if there is none.
    pub(super) fn begin(
        &mut self,
        title: &str,
        entry: &Entry,
        new: &mut BTreeMap<Slug, String>,
    ) -> Option<(Slug, String)> {
        if let Resolution::Found(slug) = self.resolve(title)
            && self.has(&slug)
        {
            return self.put(&slug, entry, new);
        }
        let block = self.block(entry, &Slug::from_title(title));
        let qualified = match (&self.group.channel, self.group.trust) {
            (_, Trust::Untrusted) => format!("{title} (unverified)"),
            (Channel::Global, _) => format!("{title} (notes)"),
            (channel, _) => format!("{title} ({channel})"),
        };
        let numbered = (2..SIBLINGS).map(|number| format!("{title} ({number})"));
        for title in [title.to_owned(), qualified].into_iter().chain(numbered) {
            let slug = Slug::from_title(&title);
            if self.has(&slug) {
                return self.put(&slug, entry, new);
            }
            if self.is_free(&slug, &title, new) {
                let text = write::page(&title, &self.group.channel, None, &block);
                return Some((self.make(slug, title, text, new)?, block));
            }
        }
        None
    }

    /// Returns the lines of a page that state something.
    pub(super) fn lines(&self, page: &Slug) -> Vec<String> {
        let Some(text) = self.pages.get(page) else {
            return Vec::new();
        };
        let body = Frontmatter::parse(text).body();
        let lines = text[body].lines().filter(|line| !line.trim().is_empty());
        lines.map(str::to_owned).collect()
    }

    /// Returns an entry as it is to stand on a page.
    fn block(&self, entry: &Entry, page: &Slug) -> String {
        write::block(entry, |link| {
            self.bench.index.resolver().resolve(page, link) != Resolution::Missing
                || (link.kind != LinkKind::Markdown && self.is_made(&link.target))
        })
    }

    /// Returns whether a page of this run is called so, letter for letter.
    fn is_made(&self, name: &str) -> bool {
        let mut made = self.changed.iter();
        made.any(|slug| {
            let text = self.pages.get(slug).map_or("", String::as_str);
            slug.as_str() == name || Page::parse(slug, text).title == name
        })
    }

    fn make(
        &mut self,
        slug: Slug,
        title: String,
        text: String,
        new: &mut BTreeMap<Slug, String>,
    ) -> Option<Slug> {
        if self.is_too_long(&text) {
            return None;
        }
        new.insert(slug.clone(), title);
        self.take_in(&slug, text);
        self.changed.insert(slug.clone());
        Some(slug)
    }

    /// Adds a block to a page. Returns whether there was room.
    fn write(&mut self, page: &Slug, block: &str) -> bool {
        let Some(text) = self.pages.get(page) else {
            return false;
        };
        match write::add(page, text, block) {
            Some(text) if !self.is_too_long(&text) => {
                self.take_in(page, text);
                self.changed.insert(page.clone());
                true
            }
            _ => false,
        }
    }

    fn is_too_long(&self, text: &str) -> bool {
        let body = Frontmatter::parse(text).body();
        without_marks(&text[body]).chars().count() > self.bench.longest
    }

    /// Returns whether no page answers to a slug or title.
    fn is_free(&self, slug: &Slug, title: &str, new: &BTreeMap<Slug, String>) -> bool {
        let is_unknown = |name: &str| self.bench.index.resolve(name) == Resolution::Missing;
        is_unknown(slug.as_str())
            && is_unknown(title)
            && !slug.is_reserved()
            && !self.bench.stage.taken.contains(slug)
            && !new.contains_key(slug)
            && !new.values().any(|known| key(known) == key(title))
    }

    /// Returns how many pages have a word.
    fn pages_with(&self, word: &str) -> usize {
        self.having.get(word).map_or(0, BTreeSet::len)
    }

    /// Returns whether a word alone says which page is meant.
    fn is_distinctive(&self, word: &str) -> bool {
        let pages = self.pages_with(word);
        word.chars().count() >= SHORTEST_NAME
            && !is_common(word)
            && !word.chars().all(|c| c.is_ascii_digit())
            && pages <= (self.pages.len() / 10).max(3)
    }

    /// Takes in a page as it reads now.
    fn take_in(&mut self, slug: &Slug, text: String) {
        let page = Page::parse(slug, &text);
        let names = page.names();
        let last = names.slug.last_segment().replace(['-', '_'], " ");
        let own = [last].into_iter().chain(names.title).chain(names.aliases);
        let own: HashSet<String> = own.map(|name| key(&name)).collect();
        for name in own.into_iter().filter(|name| !name.is_empty()) {
            let known = self.names.entry(name).or_insert_with(|| Some(slug.clone()));
            if known.as_ref().is_some_and(|known| known != slug) {
                *known = None;
            }
        }
        for mark in marks(&text) {
            let cited = self.cited.entry(mark.id.to_owned());
            cited.or_insert_with(|| slug.clone());
        }
        for line in text[page.body.clone()].lines() {
            let (whole, dated) = stated(line);
            let keys = [
                Some((None, whole)),
                dated.map(|(day, said)| (Some(day), said)),
            ];
            for key in keys
                .into_iter()
                .flatten()
                .filter(|(_, said)| !said.is_empty())
            {
                let pages = self.statements.entry(key).or_default();
                if !pages.contains(slug) {
                    pages.push(slug.clone());
                }
            }
        }
        for word in analyze(&text[page.body]) {
            self.having.entry(word).or_default().insert(slug.clone());
        }
        self.pages.insert(slug.clone(), text);
    }
}

/// Returns whether a line of a page says what an entry of one line says.
fn says(line: &str, entry: &Entry) -> bool {
    let said = said(&entry.content);
    let (whole, dated) = stated(line);
    whole == said || dated == Some((entry.day.clone(), said))
}

/// Returns whether a text has every line of an entry: as it is, or as it would be put there.
pub(in super::super) fn is_stated(entry: &Entry, text: &str, block: &str) -> bool {
    let there: HashSet<String> = text.lines().map(|line| stated(line).0).collect();
    let has = |lines: &mut dyn Iterator<Item = &str>| {
        lines
            .map(|line| stated(line).0)
            .all(|line| line.is_empty() || there.contains(&line))
    };
    if has(&mut block.lines()) {
        return true;
    }
    if entry.content.lines().count() == 1 {
        return text.lines().any(|line| says(line, entry));
    }
    has(&mut entry.content.lines())
}

/// Returns the form in which names are compared.
fn key(name: &str) -> String {
    analyze(name).join(" ")
}

#[expect(clippy::cast_precision_loss, reason = "numbers of pages")]
fn count(number: usize) -> f64 {
    number as f64
}
