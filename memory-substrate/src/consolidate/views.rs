//! The views that a person and every prompt see first: what matters most, what is open, what is new.
//!
//! They are made from pages, so a page is where to change something. Somebody who would rather write a view in person does
//! so: a view that was edited is theirs, and is never written again.

use std::collections::BTreeSet;

use memory_core::provenance::{Channel, Trust};
use memory_core::store::StoreResult;
use memory_core::text::page::Page;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;
use rusqlite::Connection;

use super::batch::Entry;
use super::filing::Filing;
use super::install::NewView;
use super::rules::first_sentence;
use super::stage::Stage;
use crate::entries::content_of;
use crate::error::store_io;
use crate::oplog::{Change, Part};
use crate::pages::{IndexedPage, PageIndex, hash_bytes, page_of_path};
use crate::state::history::PastPart;
use crate::state::runs::RunEntry;
use crate::state::{SqliteState, kv};
use crate::undo::Bench;
use crate::workspace::Workspace;

/// The first line of every view: a comment, which no prompt shows.
const COMMENT: &str =
    "_Made from the pages. Whoever edits this file keeps it: it is not written again._\n\n";

/// Characters of the view of what is new.
const LONGEST_RECENT: usize = 2_000;

/// Characters of the others.
const LONGEST: usize = 10_000;

/// Pages in a view.
const MOST_PAGES: usize = 20;

/// Pages that are linked from fewer others are not essential.
const FEWEST_LINKS: u32 = 2;

/// Days in which a page was touched so that it counts as open.
const OPEN_DAYS: i64 = 14;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Under which the state keeps the hash of a view that was written last.
const KEY: &str = "view:";

/// The views as a run found them.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Those that are not a person's: path and bytes.
    ours: Vec<(View, String, Option<Vec<u8>>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Essentials,
    Threads,
    Recent,
}

impl Files {
    /// Looks which views may be written. It blocks.
    pub(super) fn read(workspace: &Workspace, state: &SqliteState) -> StoreResult<Self> {
        state.read_blocking(|connection| Self::read_with(workspace, connection))
    }

    fn read_with(workspace: &Workspace, connection: &Connection) -> StoreResult<Self> {
        let mut ours = Vec::new();
        for (view, place) in [
            (View::Essentials, workspace.essentials_path()),
            (View::Threads, workspace.threads_path()),
            (View::Recent, workspace.recent_path()),
        ] {
            let bytes = match workspace.fs().read(&place) {
                Ok(bytes) => Some(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(store_io("read", &place)(error)),
            };
            let Some(path) = place
                .strip_prefix(workspace.root())
                .ok()
                .and_then(|path| path.to_str())
                .map(|path| path.replace('\\', "/"))
            else {
                continue;
            };
            let written = kv::meta(connection, &key(&path))?;
            let is_ours = match &bytes {
                None => true,
                Some(bytes) => {
                    bytes.trim_ascii().is_empty() || written.as_deref() == Some(&*hash_bytes(bytes))
                }
            };
            if is_ours {
                ours.push((view, path, bytes));
            }
        }
        Ok(Self { ours })
    }

    /// Returns the views as they are to be once a result is installed, as far as they change.
    pub(super) fn made(
        self,
        index: &PageIndex,
        stage: &Stage,
        filing: &Filing,
        filed: &[(Entry, Slug)],
        at: Timestamp,
    ) -> Vec<NewView> {
        let sight = Sight {
            index,
            stage,
            filing,
        };
        let made = |(view, path, base): (View, String, Option<Vec<u8>>)| {
            let lines = match view {
                View::Essentials => sight.essentials(),
                View::Threads => sight.threads(at),
                View::Recent => recent(base.as_deref(), filed),
            };
            let longest = if view == View::Recent {
                LONGEST_RECENT
            } else {
                LONGEST
            };
            if lines.is_empty() && base.is_none() {
                return None;
            }
            let text = cut(&lines, longest);
            (base.as_deref() != Some(text.as_bytes())).then_some(NewView { path, base, text })
        };
        self.ours.into_iter().filter_map(made).collect()
    }
}

/// Remembers which views are ours.
pub(super) fn remember(connection: &Connection, views: &[NewView]) -> StoreResult<()> {
    for view in views {
        let hash = hash_bytes(view.text.as_bytes());
        kv::put_meta(connection, &key(&view.path), Some(&hash))?;
    }
    Ok(())
}

/// Follows with what is remembered of a view when its text was put back.
pub(crate) fn restored(connection: &Connection, path: &str, content: &[u8]) -> StoreResult<()> {
    let key = key(path);
    match kv::meta(connection, &key)? {
        Some(_) => kv::put_meta(connection, &key, Some(&hash_bytes(content))),
        None => Ok(()),
    }
}

/// Returns whether a path is that of a view that was made from pages.
pub(super) fn is_view(connection: &Connection, path: &str) -> StoreResult<bool> {
    Ok(kv::meta(connection, &key(path))?.is_some())
}

/// What taking a run back leaves out of the views.
pub(super) struct Undone {
    /// What its entries said.
    said: Vec<String>,
    /// Links to the pages that it made.
    gone: Vec<String>,
}

impl Undone {
    /// Looks what a run has put there.
    pub(super) fn of(parts: &[PastPart], taken: &[RunEntry]) -> Self {
        let made = parts
            .iter()
            .filter(|part| part.change == "write" && part.before.is_none())
            .filter_map(|part| part.path.strip_prefix("memory/concepts/"));
        Self {
            said: taken
                .iter()
                .filter_map(|entry| first_sentence(&content_of(entry.text.as_bytes())))
                .map(|said| without_links(&said))
                .collect(),
            gone: made
                .map(|path| format!("[[{}]]", page_of_path(path).0))
                .collect(),
        }
    }

    /// Plans what a view has then: what it had before, if nothing has been added since, and else everything but these lines.
    /// One that a person has edited stays as it is.
    pub(super) fn reversed(
        &self,
        bench: &Bench,
        connection: &Connection,
        part: &PastPart,
    ) -> StoreResult<Option<Part>> {
        let Some(current) = bench.read(&part.path)? else {
            return Ok(None);
        };
        let hash = hash_bytes(&current);
        if kv::meta(connection, &key(&part.path))?.as_ref() != Some(&hash) {
            return Ok(None);
        }
        let reversed = if part.after.as_ref() == Some(&hash) {
            bench.reversed(connection, part)?
        } else {
            self.without(&part.path, current)
        };
        if let Some(Change::Write { content, .. }) = reversed.as_ref().map(|part| &part.change) {
            restored(connection, &part.path, content)?;
        }
        Ok(reversed)
    }

    fn without(&self, path: &str, current: Vec<u8>) -> Option<Part> {
        let text = String::from_utf8_lossy(&current);
        let is_kept = |line: &&str| {
            let has = |parts: &[String]| parts.iter().any(|part| line.contains(part.as_str()));
            !line.starts_with("- ") || !(has(&self.said) || has(&self.gone))
        };
        let content: String = text.split_inclusive('\n').filter(is_kept).collect();
        (content.as_bytes() != current).then(|| Part {
            path: path.to_owned(),
            change: Change::Write {
                content: content.into_bytes(),
                base: Some(current),
                merged: false,
            },
            origin: None,
        })
    }
}

/// Plans taking an entry out of the views that were made from pages.
pub(super) fn without_entry(
    connection: &Connection,
    workspace: &Workspace,
    taken: &[RunEntry],
) -> StoreResult<Vec<Part>> {
    let undone = Undone::of(&[], taken);
    let mut parts = Vec::new();
    for (_, path, bytes) in Files::read_with(workspace, connection)?.ours {
        let Some(part) = bytes.and_then(|bytes| undone.without(&path, bytes)) else {
            continue;
        };
        if let Change::Write { content, .. } = &part.change {
            restored(connection, &path, content)?;
        }
        parts.push(part);
    }
    Ok(parts)
}

fn without_links(text: &str) -> String {
    text.replace("[[", "").replace("]]", "")
}

fn key(path: &str) -> String {
    format!("{KEY}{path}")
}

/// Returns lines under the comment, as many as fit.
fn cut(lines: &[String], longest: usize) -> String {
    let mut text = COMMENT.to_owned();
    let mut left = longest.saturating_sub(COMMENT.chars().count());
    for line in lines {
        let length = line.chars().count() + 1;
        if length > left {
            break;
        }
        left -= length;
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// What is new: what was just filed, and what the view has said so far.
fn recent(base: Option<&[u8]>, filed: &[(Entry, Slug)]) -> Vec<String> {
    let is_shown =
        |entry: &Entry| entry.channel == Channel::Global && entry.trust == Trust::Trusted;
    let mut lines: Vec<String> = filed
        .iter()
        .rev()
        .filter(|(entry, _)| is_shown(entry))
        .map(|(entry, page)| {
            let said = first_sentence(&entry.content).unwrap_or_default();
            let said = without_links(&said);
            format!("- {} {said} ([[{page}]])", entry.day)
        })
        .collect();
    let before = String::from_utf8_lossy(base.unwrap_or_default()).into_owned();
    let known: BTreeSet<String> = lines.iter().cloned().collect();
    let kept = before.lines().filter(|line| line.starts_with("- "));
    lines.extend(
        kept.filter(|line| !known.contains(*line))
            .map(str::to_owned),
    );
    lines
}

/// The pages as they will be.
struct Sight<'a> {
    index: &'a PageIndex,
    stage: &'a Stage,
    filing: &'a Filing,
}

impl Sight<'_> {
    fn shown(&self) -> impl Iterator<Item = &IndexedPage> {
        let pages = self.index.pages().iter().map(AsRef::as_ref);
        pages.filter(|page: &&IndexedPage| {
            page.channel == Channel::Global && page.trust == Trust::Trusted
        })
    }

    fn text(&self, slug: &Slug) -> Option<&str> {
        let new = self.filing.pages.get(slug);
        new.or_else(|| self.stage.pages.get(slug).map(|page| &page.text))
            .map(String::as_str)
    }

    fn lead(&self, slug: &Slug) -> Option<String> {
        let page = Page::parse(slug, self.text(slug)?);
        page.sections
            .iter()
            .find_map(|section| first_sentence(&section.body))
    }

    /// What most pages link to.
    fn essentials(&self) -> Vec<String> {
        let mut pages: Vec<(u32, &Slug)> = self
            .shown()
            .map(|page| (self.index.in_degree(&page.slug), &page.slug))
            .filter(|(links, _)| *links >= FEWEST_LINKS)
            .collect();
        pages.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(right.1)));
        pages
            .into_iter()
            .take(MOST_PAGES)
            .filter_map(|(_, slug)| Some(format!("- [[{slug}]]: {}", self.lead(slug)?)))
            .collect()
    }

    /// What was touched lately.
    fn threads(&self, now: Timestamp) -> Vec<String> {
        let since = now.plus_millis(-OPEN_DAYS * DAY_MS);
        let touched: Vec<&Slug> = self.filing.pages.keys().collect();
        // By days, so that the order does not hang on which file was written a moment before another.
        let mut pages: Vec<(bool, String, &Slug)> = self
            .shown()
            .map(|page| (touched.contains(&&page.slug), page))
            .filter(|(is_touched, page)| *is_touched || page.modified_at >= since)
            .map(|(is_touched, page)| (is_touched, page.modified_at.utc_date(), &page.slug))
            .collect();
        pages.sort_by(|(touched, day, slug), (other_touched, other_day, other)| {
            (other_touched, other_day)
                .cmp(&(touched, day))
                .then(slug.cmp(other))
        });
        pages
            .into_iter()
            .take(MOST_PAGES)
            .filter_map(|(_, _, slug)| Some(format!("- [[{slug}]]: {}", self.lead(slug)?)))
            .collect()
    }
}
