//! The copy that a model works on: the pages of one channel and trust, and the notes that belong there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use memory_core::provenance::{Channel, Trust};
use memory_core::text::citation::marks;
use memory_core::text::frontmatter::Frontmatter;
use memory_core::text::links::{LinkKind, Resolution};
use memory_core::text::page::Page;
use memory_core::text::slug::Slug;

use super::Material;
use super::arguments::{self, Answered, Doubt};
use super::kept::units;
use crate::consolidate::batch::Entry;
use crate::consolidate::check::{self, Bench, Keeping, shortened};
use crate::consolidate::filing::{self, Filing, Route};
use crate::consolidate::rules::{add, block, of_channel};
use crate::pages::LARGEST_PAGE;
use crate::segment::analyze;

/// Pages told in one answer.
const LISTED: usize = 200;

/// Pages found by one search.
const FOUND: usize = 12;

/// Characters of a doubt's statement and reason.
const LONGEST_DOUBT: usize = 300;

/// What is wrong with a result, at most so many lines of it.
const MOST_PROBLEMS: usize = 40;

/// The pages and notes of one group.
pub(super) struct Desk {
    pub(super) material: Material,
    pub(super) channel: Channel,
    pub(super) trust: Trust,
    pub(super) entries: Vec<Entry>,
    /// What the rules would do with each.
    pub(super) suggestions: Vec<String>,
    /// Pages that were made for other groups.
    taken: BTreeSet<Slug>,
    /// Changed and new pages.
    texts: BTreeMap<Slug, String>,
    /// The notes that were put on pages, as they were put there.
    filed: BTreeMap<String, String>,
}

impl Desk {
    pub(super) fn new(
        material: Material,
        (channel, trust): (Channel, Trust),
        numbers: Vec<usize>,
        taken: BTreeSet<Slug>,
    ) -> Self {
        let chosen = numbers.into_iter().map(|number| &material.entries[number]);
        let (entries, suggestions) = chosen.cloned().unzip();
        Self {
            material,
            channel,
            trust,
            entries,
            suggestions,
            taken,
            texts: BTreeMap::new(),
            filed: BTreeMap::new(),
        }
    }

    /// Returns the pages of the group, those that are new included.
    pub(super) fn pages(&self) -> impl Iterator<Item = (&Slug, &str)> {
        let staged = self.material.stage.pages.iter();
        let staged = staged
            .filter(|(slug, page)| {
                page.channel == self.channel
                    && page.trust == self.trust
                    && !self.texts.contains_key(*slug)
            })
            .map(|(slug, page)| (slug, page.text.as_str()));
        staged.chain(self.texts.iter().map(|(slug, text)| (slug, text.as_str())))
    }

    fn text(&self, slug: &Slug) -> Answered<&str> {
        if let Some(text) = self.texts.get(slug) {
            return Ok(text);
        }
        self.base(slug).ok_or_else(|| {
            format!("there is no page `{slug}`; `list` and `search` tell which there are")
        })
    }

    /// Returns what a page said before the run.
    fn base(&self, slug: &Slug) -> Option<&str> {
        let page = self.material.stage.pages.get(slug)?;
        (page.channel == self.channel && page.trust == self.trust).then_some(&*page.text)
    }

    /// Tells the pages in the order of their names.
    pub(super) fn list(&self, after: Option<&str>) -> String {
        let mut pages: Vec<(&Slug, &str)> = self.pages().collect();
        pages.sort();
        let after = after.unwrap_or_default();
        let rest = pages.iter().filter(|(slug, _)| slug.as_str() > after);
        let mut told = String::new();
        let (mut count, mut last) = (0, "");
        for (slug, text) in rest {
            if count == LISTED {
                let _ = writeln!(told, "There are more: go on after `{last}`.");
                break;
            }
            let _ = writeln!(told, "{}", line_of(slug, text));
            (count, last) = (count + 1, slug.as_str());
        }
        if told.is_empty() {
            told.push_str("There are no pages here.");
        }
        told
    }

    /// Tells the pages that have most of some words.
    pub(super) fn search(&self, query: &str) -> String {
        let words: BTreeSet<String> = analyze(query).into_iter().collect();
        let mut found: Vec<(usize, &Slug, &str)> = self
            .pages()
            .filter_map(|(slug, text)| {
                let folded = format!("{slug}\n{text}").to_lowercase();
                let shared = words
                    .iter()
                    .filter(|word| folded.contains(word.as_str()))
                    .count();
                (shared > 0).then_some((shared, slug, text))
            })
            .collect();
        found.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(right.1)));
        let mut told = String::new();
        for (_, slug, text) in found.into_iter().take(FOUND) {
            let _ = writeln!(told, "{}", line_of(slug, text));
            let body = Frontmatter::parse(text).body();
            let best = text[body].lines().max_by_key(|line| {
                let folded = line.to_lowercase();
                words
                    .iter()
                    .filter(|word| folded.contains(word.as_str()))
                    .count()
            });
            if let Some(line) = best.map(str::trim).filter(|line| !line.is_empty()) {
                let _ = writeln!(told, "  {}", shortened(line));
            }
        }
        if told.is_empty() {
            told.push_str("No page has any of these words.");
        }
        told
    }

    pub(super) fn read(&self, page: &str) -> Answered<String> {
        Ok(self.text(&arguments::page(page)?)?.to_owned())
    }

    /// Gives a page a new text, or begins one.
    pub(super) fn write(&mut self, page: &str, text: &str) -> Answered<String> {
        let slug = arguments::page(page)?;
        let body = &text[Frontmatter::parse(text).body()];
        if body.trim().is_empty() {
            return Err("a page cannot be emptied".to_owned());
        }
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > LARGEST_PAGE {
            return Err(format!("a page has at most {LARGEST_PAGE} bytes"));
        }
        let kept = if let Ok(text) = self.text(&slug) {
            head(text).to_owned()
        } else {
            self.free(&slug)?;
            of_channel(&self.channel, "")
        };
        let given = head(text);
        if !given.is_empty() && given != kept {
            return Err("frontmatter stays as it is, and a new page has none".to_owned());
        }
        let new = format!("{kept}{}", &text[given.len()..]);
        if self.hides(&new) {
            return Err(
                "the text has a secret, or characters that a reader would not see".to_owned(),
            );
        }
        let told = format!("`{slug}` is written");
        self.texts.insert(slug, new);
        Ok(told)
    }

    /// Replaces one passage of a page.
    pub(super) fn edit(&mut self, page: &str, old: &str, new: &str) -> Answered<String> {
        let slug = arguments::page(page)?;
        let text = self.text(&slug)?;
        match text.matches(old).count() {
            _ if old.is_empty() => Err("`old` is empty".to_owned()),
            0 => Err(format!(
                "`{slug}` does not have this passage; `read` it first"
            )),
            1 => {
                let text = text.replacen(old, new, 1);
                self.write(slug.as_str(), &text)
            }
            times => Err(format!(
                "`{slug}` has this passage {times} times; take in more of what is around it"
            )),
        }
    }

    /// Puts a note on a page, word for word.
    pub(super) fn file(
        &mut self,
        note: &str,
        page: Option<&str>,
        title: Option<&str>,
    ) -> Answered<String> {
        let entry = self.entry(note)?.clone();
        if let Some((slug, _)) = self.stating(&entry.id) {
            return Err(format!(
                "this note is on `{slug}` already; move it with `edit` or `write`"
            ));
        }
        let slug = match (page, title) {
            (Some(page), _) => {
                let slug = arguments::page(page)?;
                self.text(&slug)?;
                slug
            }
            (None, Some(title)) => {
                let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
                if title.is_empty() || title.len() > 120 {
                    return Err("a title has 1 to 120 characters".to_owned());
                }
                let slug = Slug::from_title(&title);
                if self.text(&slug).is_err() {
                    self.free(&slug)?;
                    if self.material.index.resolve(&title) != Resolution::Missing {
                        return Err(format!(
                            "another page is called `{title}`; choose a title that says more"
                        ));
                    }
                    let text = of_channel(&self.channel, &format!("# {title}\n"));
                    self.texts.insert(slug.clone(), text);
                }
                slug
            }
            (None, None) => return Err("give a `page` or a `title`".to_owned()),
        };
        let item = self.block(&entry, &slug);
        let text = self.text(&slug)?;
        let Some(text) = add(&slug, text, &item) else {
            return Err(format!(
                "`{slug}` ends inside code or a comment; mend that or choose another page"
            ));
        };
        let told = format!("the note is on `{slug}`");
        self.texts.insert(slug, text);
        self.filed.insert(entry.id, item);
        Ok(told)
    }

    /// Looks at what was made. Returns it, or what is wrong with it.
    pub(super) fn done(&self, doubts: &[Doubt]) -> Result<Filing, Vec<String>> {
        let mut filing = Filing {
            pages: self.changed(),
            ..Filing::default()
        };
        let mut problems = Vec::new();
        for entry in &self.entries {
            match self.stating(&entry.id) {
                Some((slug, text)) if !self.is_verbatim(entry, slug, text) => {
                    problems.push(format!(
                        "`{slug}` has the mark of note `{}` but not its words: {}",
                        entry.id,
                        shortened(&entry.content)
                    ));
                }
                Some((slug, _)) => filing.routes.push(Route {
                    entry: entry.id.clone(),
                    page: Some(slug.clone()),
                    why: "the model put it there".to_owned(),
                    block: self.filed.get(&entry.id).cloned(),
                }),
                None => problems.push(format!("note `{}` is on no page yet", entry.id)),
            }
        }
        for doubt in doubts {
            match self.doubt(doubt) {
                Ok(doubt) => filing.doubts.push(doubt),
                Err(problem) => problems.push(problem),
            }
        }
        self.parents(&mut filing);
        let stage = &self.material.stage;
        let bench = Bench {
            stage,
            index: &self.material.index,
            entries: &self.entries,
            longest: self.material.longest,
            keeping: Keeping::Anywhere,
        };
        if problems.is_empty() {
            let found = check::problems(&bench, &filing).into_iter();
            problems.extend(found.map(|problem| problem.text));
        }
        if problems.is_empty() {
            return Ok(filing);
        }
        let more = problems.len().saturating_sub(MOST_PROBLEMS);
        problems.truncate(MOST_PROBLEMS);
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        Err(problems)
    }

    /// Returns the pages whose text is another one than before.
    fn changed(&self) -> BTreeMap<Slug, String> {
        let texts = self.texts.iter();
        let changed = texts.filter(|(slug, text)| self.base(slug) != Some(text));
        changed
            .map(|(slug, text)| (slug.clone(), text.clone()))
            .collect()
    }

    /// Notes from which pages the text of a new one may come: whichever of its group were changed.
    fn parents(&self, filing: &mut Filing) {
        let old: BTreeSet<Slug> = filing
            .pages
            .keys()
            .filter(|slug| self.base(slug).is_some())
            .cloned()
            .collect();
        let new = filing.pages.keys().filter(|slug| self.base(slug).is_none());
        filing.parents = new.map(|slug| (slug.clone(), old.clone())).collect();
    }

    fn doubt(&self, doubt: &Doubt) -> Answered<filing::Doubt> {
        let entry = self.entry(&doubt.note)?;
        let page = arguments::page(&doubt.page)?;
        self.text(&page)?;
        let cut = |text: &str| -> String {
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            line.chars().take(LONGEST_DOUBT).collect()
        };
        Ok(filing::Doubt {
            entry: entry.id.clone(),
            page,
            statement: cut(&doubt.statement),
            why: cut(&doubt.why),
        })
    }

    fn entry(&self, note: &str) -> Answered<&Entry> {
        let id = note.trim().trim_start_matches("^m-");
        let mut entries = self.entries.iter();
        entries
            .find(|entry| entry.id == id)
            .ok_or_else(|| format!("`{}` is no note of this batch", shortened(id)))
    }

    /// Returns the page on which a note is.
    fn stating(&self, id: &str) -> Option<(&Slug, &str)> {
        let mut changed = self.texts.iter();
        let (slug, text) =
            changed.find(|(_, text)| marks(text).iter().any(|mark| mark.id == id))?;
        Some((slug, text))
    }

    /// Says whether a new page may have this name.
    fn free(&self, slug: &Slug) -> Answered<()> {
        let is_free = self.texts.contains_key(slug)
            || (self.material.index.resolve(slug.as_str()) == Resolution::Missing
                && !self.material.stage.taken.contains(slug)
                && !self.material.stage.pages.contains_key(slug)
                && !self.taken.contains(slug));
        if is_free {
            Ok(())
        } else {
            Err(format!(
                "another page answers to `{slug}`; choose a name that says more"
            ))
        }
    }

    /// Returns whether a text has something in it that no page here has and that would be taken out of a note.
    fn hides(&self, text: &str) -> bool {
        let is_new = |line: &str| {
            !self
                .pages()
                .any(|(_, text)| text.lines().any(|old| old == line))
        };
        let mut lines = text.lines();
        lines.any(|line| !crate::screen::screen(line).findings.is_empty() && is_new(line))
    }

    /// Returns whether a page has a note in its own words.
    fn is_verbatim(&self, entry: &Entry, slug: &Slug, text: &str) -> bool {
        let there = units(text);
        let forms = [
            self.filed.get(&entry.id).cloned(),
            Some(self.block(entry, slug)),
            Some(block(entry, |_| true)),
            Some(block(entry, |_| false)),
        ];
        forms.into_iter().flatten().any(|form| {
            let mut wanted = units(&form).into_iter().enumerate();
            wanted.all(|(number, unit)| {
                there.iter().any(|found| {
                    found.text == unit.text && (number > 0 || found.marks.contains(&entry.id))
                })
            })
        })
    }

    /// Returns a note as it is to stand on a page.
    fn block(&self, entry: &Entry, page: &Slug) -> String {
        block(entry, |link| {
            let index = &self.material.index;
            index.resolver().resolve(page, link) != Resolution::Missing
                || (link.kind != LinkKind::Markdown
                    && Slug::parse(&link.target).is_ok_and(|slug| self.texts.contains_key(&slug)))
        })
    }
}

/// Returns the frontmatter of a text with its fences; nothing when it has none.
fn head(text: &str) -> &str {
    let block = Frontmatter::parse(text).block();
    block.map_or("", |range| &text[range])
}

/// Tells a page in one line.
fn line_of(slug: &Slug, text: &str) -> String {
    let page = Page::parse(slug, text);
    let title = shortened(&page.title);
    let characters = text[page.body].chars().count();
    format!("- {slug} ({title}), {characters} characters")
}
