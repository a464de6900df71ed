//! Giving each file a slug and writing it.
//!
//! A name that was ingested before keeps its slug. A new name gets the slug it asks for if no other page has it, and
//! otherwise one with a suffix made from the name, so the same folder always gives the same pages.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;

use memory_core::provenance::Trust;
use memory_core::store::{Expected, PageOrigin, StoreError};
use memory_core::text::page::Page;
use memory_core::text::slug::Slug;

use super::source::{Content, SourceFile};
use super::{IngestAction, IngestOptions, IngestProgress, IngestedPage, Ingester};
use crate::error::SubstrateResult;
use crate::pages::{PageMap, free_slug, hash_bytes};
use crate::state::origins;

/// Pages whose origins are recorded in one transaction.
const BATCH: usize = 200;

/// Larger files are not notes, and would have to be held in memory.
const LARGEST_BYTES: usize = 8 * 1024 * 1024;

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
    let mut files = files.into_iter().peekable();
    while files.peek().is_some() {
        let mut batch: Vec<Planned> = files
            .by_ref()
            .take(BATCH)
            .map(|file| plan(ingester, file, options, &mut names))
            .collect();
        if !options.dry_run {
            record_new(ingester, &batch)?;
        }
        for planned in &mut batch {
            if !options.dry_run {
                write(ingester, planned)?;
            }
            done += 1;
            progress(IngestProgress {
                done,
                total,
                name: &planned.page.original_name,
            });
        }
        report.extend(batch.into_iter().map(|planned| planned.page));
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

    fn is_free_for(&self, slug: &Slug, name: &str) -> bool {
        !self.given.contains(slug) && self.existing.get(slug).is_none_or(|owner| owner == name)
    }
}

/// A file whose fate is decided.
struct Planned {
    page: IngestedPage,
    write: Option<Write>,
}

struct Write {
    bytes: Vec<u8>,
    /// What must be there when the bytes are written.
    expected: Expected,
    /// How the page that is there came in, if that was recorded.
    before: Option<PageOrigin>,
    /// How these bytes come in.
    origin: PageOrigin,
}

impl Write {
    /// Returns whether neither the page nor a record of one was there.
    fn is_new(&self) -> bool {
        self.before.is_none() && self.expected == Expected::Absent
    }

    /// Returns whether the new bytes are trusted further than those they replace.
    fn raises_trust(&self) -> bool {
        let before = self.before.as_ref().map_or(Trust::Trusted, origins::trust);
        before < origins::trust(&self.origin)
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
        content,
    } = file;
    let mut page = IngestedPage {
        slug: None,
        original_name: name,
        action: IngestAction::Invalid,
        warnings: Vec::new(),
        faults: Vec::new(),
        error: None,
    };
    let bytes = match usable(content) {
        Ok(bytes) => bytes,
        Err(reason) => {
            page.error = Some(reason);
            return Planned { page, write: None };
        }
    };
    let hash = hash_bytes(&bytes);
    let is_same = |slug: &Slug| matches!(ingester.pages.read_blocking(slug), Ok(Some(there)) if there.hash == hash);
    let slug = names.slug_for(&page.original_name, &wanted, is_same);
    if slug != wanted {
        page.warnings.push(format!(
            "another page is named `{wanted}`, this one is `{slug}`"
        ));
    }
    page.faults = Page::parse_bytes(&slug, &bytes).faults;
    page.slug = Some(slug.clone());
    let expected = match ingester.pages.read_blocking(&slug) {
        Ok(None) => Some(Expected::Absent),
        Ok(Some(there)) if there.hash == hash => {
            page.action = IngestAction::Unchanged;
            None
        }
        Ok(Some(there)) if options.overwrite => Some(Expected::Hash(there.hash)),
        Ok(Some(_)) => {
            page.action = IngestAction::SkippedExists;
            page.warnings.push(
                "another version of this page is there and was kept; overwrite to replace it"
                    .to_owned(),
            );
            None
        }
        Err(error) => {
            page.error = Some(error.to_string());
            None
        }
    };
    let write = expected.map(|expected| {
        page.action = IngestAction::Written;
        Write {
            bytes,
            expected,
            before: names.recorded.get(&slug).cloned(),
            origin: PageOrigin {
                slug,
                original_name: page.original_name.clone(),
                origin: options.origin,
                authority: options.authority,
                at: ingester.clock.now(),
            },
        }
    });
    Planned { page, write }
}

/// Returns the bytes of a text, or why they are none.
fn usable(content: Content) -> Result<Vec<u8>, String> {
    let bytes = match content {
        Content::Bytes(bytes) => bytes,
        Content::File(path) => read(&path).map_err(|error| error.to_string())?,
    };
    if bytes.len() > LARGEST_BYTES {
        return Err(format!(
            "the text has {} bytes, a page may have {LARGEST_BYTES}",
            bytes.len()
        ));
    }
    match bytes.iter().position(|byte| *byte == 0) {
        Some(position) => Err(format!("it is not text: byte {position} is zero")),
        None => Ok(bytes),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let largest = LARGEST_BYTES as u64;
    let bytes = std::fs::metadata(path)?.len();
    if bytes > largest {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("the file has {bytes} bytes, a page may have {largest}"),
        ));
    }
    std::fs::read(path)
}

/// Records how the new pages of a batch come in, before there is any.
fn record_new(ingester: &Ingester, batch: &[Planned]) -> SubstrateResult<()> {
    let new = batch.iter().filter_map(|planned| planned.write.as_ref());
    let origins: Vec<PageOrigin> = new
        .filter(|write| write.is_new())
        .map(|write| write.origin.clone())
        .collect();
    if !origins.is_empty() {
        record(ingester, &origins)?;
    }
    Ok(())
}

fn record(ingester: &Ingester, origins: &[PageOrigin]) -> SubstrateResult<()> {
    ingester
        .state
        .write_blocking(|transaction| origins::put(transaction, origins))?;
    Ok(())
}

/// Writes a page. Only trouble that every further page would have too is an error.
fn write(ingester: &Ingester, planned: &mut Planned) -> SubstrateResult<()> {
    let Some(write) = planned.write.take() else {
        return Ok(());
    };
    let origin = std::slice::from_ref(&write.origin);
    // As long as either the old or the new bytes may be there, the record is the one of lower trust.
    let raises_trust = write.raises_trust();
    if !raises_trust && !write.is_new() {
        record(ingester, origin)?;
    }
    let written = ingester
        .pages
        .write_blocking(&write.origin.slug, &write.bytes, &write.expected);
    match written {
        Ok(_) if raises_trust => record(ingester, origin),
        Ok(_) => Ok(()),
        Err(error) => {
            if !raises_trust {
                take_back(ingester, &write)?;
            }
            if !matches!(
                error,
                StoreError::Conflict { .. } | StoreError::BadRequest { .. }
            ) {
                return Err(error.into());
            }
            planned.page.action = IngestAction::Invalid;
            planned.page.error = Some(error.to_string());
            Ok(())
        }
    }
}

/// Records again what was recorded before a write that failed, unless it did its work before it failed.
fn take_back(ingester: &Ingester, write: &Write) -> SubstrateResult<()> {
    let slug = &write.origin.slug;
    let is_untouched = match ingester.pages.read_blocking(slug) {
        Ok(there) => there.is_none_or(|there| there.hash != hash_bytes(&write.bytes)),
        Err(_) => false,
    };
    if is_untouched {
        ingester
            .state
            .write_blocking(|transaction| match &write.before {
                Some(before) => origins::put(transaction, std::slice::from_ref(before)),
                None => origins::remove(transaction, slug),
            })?;
    }
    Ok(())
}
