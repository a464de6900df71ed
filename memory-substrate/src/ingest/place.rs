//! Giving each file a slug and writing it.
//!
//! A name that was ingested before keeps its slug. A new name gets the slug it asks for if no other page has it, and
//! otherwise one with a suffix made from the name, so the same folder always gives the same pages.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;

use memory_core::store::PageOrigin;
use memory_core::text::page::Page;
use memory_core::text::slug::Slug;

use super::source::{Content, SourceFile};
use super::{
    IngestAction, IngestOptions, IngestProgress, IngestedPage, Ingester, MOST_BYTES, MOST_FILES,
};
use crate::error::SubstrateResult;
use crate::oplog::{Change, OriginChange, Part};
use crate::pages::{LARGEST_PAGE, PageMap, free_slug, hash_bytes};
use crate::screen::inspect;
use crate::state::origins;

/// How many secrets and hidden characters of one page are told of before the rest is only counted.
const SPOTS_TOLD: usize = 5;

/// Writes files as pages and reports each.
pub(super) fn place(
    ingester: &Ingester,
    files: Vec<SourceFile>,
    options: IngestOptions,
    progress: &mut dyn FnMut(IngestProgress<'_>),
) -> SubstrateResult<Vec<IngestedPage>> {
    let map = ingester.pages.scan()?;
    let known = ingester.state.read_blocking(origins::all)?;
    let mut names = Names::new(&map, known);
    let (mut done, total) = (0, files.len());
    let mut report = Vec::with_capacity(total);
    let mut files = files.into_iter();
    while done < total {
        let turn = ingester.pages.take_turn()?;
        let (mut batch, mut bytes): (Vec<Planned>, usize) = (Vec::new(), 0);
        while batch.len() < MOST_FILES
            && bytes < MOST_BYTES
            && let Some(file) = files.next()
        {
            let planned = plan(ingester, file, options, &mut names);
            bytes += planned.bytes();
            batch.push(planned);
        }
        if !options.dry_run {
            write(ingester, &mut batch, options)?;
        }
        drop(turn);
        for planned in batch {
            done += 1;
            progress(IngestProgress {
                done,
                total,
                name: &planned.page.original_name,
            });
            report.push(planned.page);
        }
    }
    Ok(report)
}

/// Which slugs and names are in use.
struct Names {
    /// The slug of each name that was ingested.
    ingested: HashMap<String, Slug>,
    /// The name of each existing page: the one it was ingested under, else its file's.
    existing: HashMap<Slug, String>,
    /// How pages came in, as far as it was recorded.
    recorded: HashMap<Slug, PageOrigin>,
    /// Slugs given in this run.
    given: BTreeSet<Slug>,
}

impl Names {
    fn new(map: &PageMap, origins: Vec<PageOrigin>) -> Self {
        let mut existing: HashMap<Slug, String> = map
            .files
            .iter()
            .map(|(slug, file)| (slug.clone(), file.path.clone()))
            .collect();
        for origin in &origins {
            if let Some(name) = existing.get_mut(&origin.slug) {
                name.clone_from(&origin.original_name);
            }
        }
        let ingested = origins
            .iter()
            .map(|origin| (origin.original_name.clone(), origin.slug.clone()))
            .collect();
        let recorded = origins
            .into_iter()
            .map(|origin| (origin.slug.clone(), origin))
            .collect();
        Self {
            ingested,
            existing,
            recorded,
            given: BTreeSet::new(),
        }
    }

    /// Returns the slug for a file. `is_same` tells whether a page has the file's very bytes.
    fn slug_for(&mut self, name: &str, wanted: &Slug, is_same: impl Fn(&Slug) -> bool) -> Slug {
        let before = self
            .ingested
            .get(name)
            .filter(|slug| !self.given.contains(*slug));
        let slug = match before {
            Some(slug) => slug.clone(),
            None if self.is_free_for(wanted, name) => wanted.clone(),
            // Where the records of earlier runs were lost, the bytes still tell that it is the same page.
            None if !self.given.contains(wanted) && is_same(wanted) => wanted.clone(),
            None => free_slug(wanted, name, |slug| !self.is_free_for(slug, name)),
        };
        self.given.insert(slug.clone());
        slug
    }

    /// Gives the slug that a program has named, whoever has had it: another page of that name is another version of it.
    fn take(&mut self, slug: &Slug) -> Slug {
        self.given.insert(slug.clone());
        slug.clone()
    }

    fn is_free_for(&self, slug: &Slug, name: &str) -> bool {
        !self.given.contains(slug) && self.existing.get(slug).is_none_or(|owner| owner == name)
    }
}

/// A file whose fate is decided.
struct Planned {
    page: IngestedPage,
    write: Option<Part>,
}

impl Planned {
    fn bytes(&self) -> usize {
        match self.write.as_ref().map(|part| &part.change) {
            Some(Change::Write { base, content, .. }) => {
                content.len() + base.as_ref().map_or(0, Vec::len)
            }
            _ => 0,
        }
    }
}

fn plan(
    ingester: &Ingester,
    file: SourceFile,
    options: IngestOptions,
    names: &mut Names,
) -> Planned {
    let SourceFile {
        name,
        wanted,
        is_exact,
        content,
    } = file;
    let mut page = IngestedPage::invalid(name, None);
    let bytes = match usable(content) {
        Ok(bytes) => bytes,
        Err(reason) => {
            page.error = Some(reason);
            return Planned { page, write: None };
        }
    };
    let hash = hash_bytes(&bytes);
    let is_same = |slug: &Slug| matches!(ingester.pages.read_blocking(slug), Ok(Some(there)) if there.hash == hash);
    let slug = if is_exact {
        names.take(&wanted)
    } else {
        names.slug_for(&page.original_name, &wanted, is_same)
    };
    if slug != wanted {
        page.warnings.push(format!(
            "another page is named `{wanted}`, this one is `{slug}`"
        ));
    }
    let parsed = Page::parse_bytes(&slug, &bytes);
    let declared = |text: Option<&str>| text.map(str::to_owned);
    page.source = declared(parsed.frontmatter.source());
    page.origin_date = declared(parsed.frontmatter.origin_date_text());
    page.faults = parsed.faults;
    page.warnings.extend(told(&bytes));
    page.slug = Some(slug.clone());
    let base = match ingester.pages.read_blocking(&slug) {
        Ok(None) => None,
        Ok(Some(there)) if there.hash == hash => {
            page.action = IngestAction::Unchanged;
            return Planned { page, write: None };
        }
        Ok(Some(there)) if options.overwrite => Some(there.bytes),
        Ok(Some(_)) => {
            page.action = IngestAction::SkippedExists;
            page.warnings.push(
                "another version of this page is there and was kept; overwrite to replace it"
                    .to_owned(),
            );
            return Planned { page, write: None };
        }
        Err(error) => {
            page.error = Some(error.to_string());
            return Planned { page, write: None };
        }
    };
    let path = match ingester.pages.place_of(&slug) {
        Ok(path) => path,
        Err(error) => {
            page.error = Some(error.to_string());
            return Planned { page, write: None };
        }
    };
    page.action = IngestAction::Written;
    let origin = PageOrigin {
        slug: slug.clone(),
        original_name: page.original_name.clone(),
        origin: options.origin,
        authority: options.authority,
        at: ingester.clock.now(),
    };
    let before = names.recorded.get(&slug).cloned();
    let write = Part {
        path,
        change: Change::Write {
            base,
            content: bytes,
            merged: false,
        },
        origin: OriginChange::of(slug, before, Some(origin)),
    };
    Planned {
        page,
        write: Some(write),
    }
}

/// Returns what stands in a page that should not, for its owner to decide about: the page is not changed.
fn told(bytes: &[u8]) -> Vec<String> {
    let spots = inspect(&String::from_utf8_lossy(bytes));
    let rest = spots.len().saturating_sub(SPOTS_TOLD);
    let mut told: Vec<String> = spots
        .iter()
        .take(SPOTS_TOLD)
        .map(ToString::to_string)
        .collect();
    if rest > 0 {
        told.push(format!("and {rest} more of what a page should not hold"));
    }
    told
}

/// Returns the bytes of a text, or why they are none.
fn usable(content: Content) -> Result<Vec<u8>, String> {
    let bytes = match content {
        Content::Bytes(bytes) => bytes,
        Content::File(path) => read(&path).map_err(|error| error.to_string())?,
    };
    if bytes.len() as u64 > LARGEST_PAGE {
        return Err(format!(
            "the text has {} bytes, a page may have {LARGEST_PAGE}",
            bytes.len()
        ));
    }
    match bytes.iter().position(|byte| *byte == 0) {
        Some(position) => Err(format!("it is not text: byte {position} is zero")),
        None => Ok(bytes),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = std::fs::metadata(path)?.len();
    if bytes > LARGEST_PAGE {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("the file has {bytes} bytes, a page may have {LARGEST_PAGE}"),
        ));
    }
    std::fs::read(path)
}

/// Writes what a batch comes to and adds to its report what met an edit.
fn write(
    ingester: &Ingester,
    batch: &mut [Planned],
    options: IngestOptions,
) -> SubstrateResult<()> {
    let mut pages: HashMap<String, &mut IngestedPage> = HashMap::new();
    let mut parts = Vec::new();
    for planned in batch {
        if let Some(part) = planned.write.take() {
            pages.insert(part.path.clone(), &mut planned.page);
            parts.push(part);
        }
    }
    for conflict in ingester.write(parts, options)? {
        if let Some(page) = pages.get_mut(&conflict.path) {
            page.warnings.push(format!(
                "the page was edited meanwhile and kept; the new text is in `{}`",
                conflict.copy.unwrap_or_default()
            ));
        }
    }
    for (path, page) in pages {
        if ingester.log.is_open(&path) {
            page.warnings
                .push("the page is safe, but its file cannot be written yet".to_owned());
        }
    }
    Ok(())
}
