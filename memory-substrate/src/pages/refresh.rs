//! Bringing the page index up to date with the folder.
//!
//! A file is read again only if its length or time changed. A time is no proof for a file that changed just before it
//! was last read, since a second change in the same tick would look the same; such a file is read once more and told
//! by its hash.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

use memory_core::env::Clock;
use memory_core::store::{PageOrigin, StoreResult};
use memory_core::text::slug::Slug;

use super::cached::{self, Source};
use super::hash::hash_bytes;
use super::index::{IndexedPage, PageIndex};
use super::scan::PageFile;
use super::{FilePages, PageMap};
use crate::blocking;
use crate::state::cache::{self, CachedPage};
use crate::state::{SqliteState, origins};

/// How close to a reading a file's time must be for the reading not to be trusted: twice the coarsest tick in use.
const UNSURE_MS: i64 = 4_000;

/// Larger files are not notes, and would have to be held in memory.
pub(crate) const LARGEST_PAGE: u64 = 8 << 20;

/// Makes page indexes of one folder.
#[derive(Clone, Debug)]
pub struct PageIndexer {
    pages: FilePages,
    state: Arc<SqliteState>,
    clock: Arc<dyn Clock>,
}

/// An index and how it differs from the one before.
#[derive(Clone, Debug)]
pub struct Refreshed {
    /// The index; the same one as before when nothing changed.
    pub index: Arc<PageIndex>,
    /// Pages that are new or say something else, sorted.
    pub changed: Vec<Slug>,
    /// Pages that are gone, sorted.
    pub removed: Vec<Slug>,
}

impl PageIndexer {
    /// Returns an indexer of these pages that keeps what it parsed in the state database.
    pub fn new(pages: FilePages, state: Arc<SqliteState>, clock: Arc<dyn Clock>) -> Self {
        Self {
            pages,
            state,
            clock,
        }
    }

    /// Returns an index of the folder as it is now. Pass the last one, or an empty one on the first call.
    pub async fn refresh(&self, previous: &Arc<PageIndex>) -> StoreResult<Refreshed> {
        let (indexer, previous) = (self.clone(), Arc::clone(previous));
        blocking::run(move || indexer.refresh_blocking(&previous)).await
    }

    /// Does the same on the calling thread, which may block.
    pub fn refresh_blocking(&self, previous: &Arc<PageIndex>) -> StoreResult<Refreshed> {
        // Taken before the files are looked at: a later change then has a later time than the reading.
        let now_ms = self.clock.now().as_millis();
        let map = self.pages.scan()?;
        let origins = self.state.read_blocking(origins::all)?;
        let sources: HashMap<Slug, Source> = origins
            .into_iter()
            .map(|origin| (origin.slug.clone(), source_of(origin)))
            .collect();
        let cached = if previous.is_empty() {
            self.state.read_blocking(cache::all)?
        } else {
            Vec::new()
        };
        let mut reading = Reading {
            pages: &self.pages,
            now_ms,
            known: previous
                .pages()
                .iter()
                .map(|page| (page.path.as_str(), page))
                .collect(),
            cached: cached
                .into_iter()
                .map(|row| (row.path.clone(), row))
                .collect(),
            to_keep: Vec::new(),
            unreadable: map.unreadable.clone(),
        };
        let own_file = Source::own_file();
        let pages: Vec<Arc<IndexedPage>> = map
            .files
            .iter()
            .filter_map(|(slug, file)| {
                reading.page(slug, file, sources.get(slug).unwrap_or(&own_file))
            })
            .collect();
        let gone: Vec<String> = reading
            .cached
            .keys()
            .cloned()
            .chain(gone_paths(previous, &map))
            .collect();
        let Reading {
            to_keep,
            unreadable,
            ..
        } = reading;
        self.keep(&to_keep, &gone);
        Ok(compare(previous, pages, map, unreadable))
    }

    fn keep(&self, pages: &[Arc<IndexedPage>], gone: &[String]) {
        if self.state.is_read_only() || (pages.is_empty() && gone.is_empty()) {
            return;
        }
        let rows: Result<Vec<CachedPage>, _> =
            pages.iter().map(|page| cached::keep(page)).collect();
        let kept = match rows {
            Ok(rows) => self
                .state
                .write_unflushed_blocking(|transaction| cache::update(transaction, &rows, gone)),
            Err(error) => Err(memory_core::store::StoreError::engine(
                "encode the page cache",
                error,
            )),
        };
        // The cache only saves time, so the index is good without it.
        if let Err(error) = kept {
            tracing::warn!(%error, "the page cache could not be updated; the next start reads every page");
        }
    }
}

struct Reading<'a> {
    pages: &'a FilePages,
    now_ms: i64,
    known: HashMap<&'a str, &'a Arc<IndexedPage>>,
    cached: HashMap<String, CachedPage>,
    to_keep: Vec<Arc<IndexedPage>>,
    unreadable: Vec<(String, String)>,
}

impl Reading<'_> {
    /// Returns the entry of a file, reading it only if it must be; `None` if it cannot be read.
    fn page(&mut self, slug: &Slug, file: &PageFile, source: &Source) -> Option<Arc<IndexedPage>> {
        let known = self
            .known
            .get(file.path.as_str())
            .filter(|page| page.slug == *slug)
            .map(|page| Arc::clone(page));
        let known = known.or_else(|| {
            let row = self
                .cached
                .remove(&file.path)
                .filter(|row| row.slug == slug.as_str())?;
            let stamp = PageFile {
                path: row.path.clone(),
                bytes: row.bytes,
                modified_ms: row.modified_ms,
            };
            cached::revive(row, slug, &stamp, source).map(Arc::new)
        });
        let Some(known) = known else {
            return self.read(slug, file, source, None);
        };
        let unchanged = known.bytes == file.bytes
            && known.modified_at.as_millis() == file.modified_ms
            && file.modified_ms < known.checked_ms.saturating_sub(UNSURE_MS);
        if !unchanged {
            self.read(slug, file, source, Some(&known))
        } else if known.trust == source.trust && known.original_name == source.original_name {
            Some(known)
        } else {
            Some(Arc::new(cached::again(
                &known,
                file,
                source,
                known.checked_ms,
            )))
        }
    }

    fn read(
        &mut self,
        slug: &Slug,
        file: &PageFile,
        source: &Source,
        known: Option<&IndexedPage>,
    ) -> Option<Arc<IndexedPage>> {
        if file.bytes > LARGEST_PAGE {
            let reason = format!(
                "it has {} bytes, a page may have {LARGEST_PAGE}; split it",
                file.bytes
            );
            self.unreadable.push((file.path.clone(), reason));
            return None;
        }
        let bytes = match self.pages.read_file(&file.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.unreadable.push((file.path.clone(), error.to_string()));
                return None;
            }
        };
        if let Some(position) = bytes.iter().position(|byte| *byte == 0) {
            let reason = format!("it is not text: byte {position} is zero");
            self.unreadable.push((file.path.clone(), reason));
            return None;
        }
        let page = match known {
            Some(known) if known.hash == hash_bytes(&bytes) => {
                cached::again(known, file, source, self.now_ms)
            }
            _ => cached::parse(slug, file, &bytes, source, self.now_ms),
        };
        let page = Arc::new(page);
        self.to_keep.push(Arc::clone(&page));
        Some(page)
    }
}

fn source_of(origin: PageOrigin) -> Source {
    Source {
        trust: origins::trust(&origin),
        original_name: Some(origin.original_name),
    }
}

fn gone_paths<'a>(
    previous: &'a PageIndex,
    map: &'a PageMap,
) -> impl Iterator<Item = String> + use<'a> {
    let paths: BTreeSet<&str> = map.files.values().map(|file| file.path.as_str()).collect();
    let gone = previous
        .pages()
        .iter()
        .filter(move |page| !paths.contains(page.path.as_str()));
    gone.map(|page| page.path.clone())
}

fn compare(
    previous: &Arc<PageIndex>,
    pages: Vec<Arc<IndexedPage>>,
    map: PageMap,
    unreadable: Vec<(String, String)>,
) -> Refreshed {
    let is_known = |page: &&Arc<IndexedPage>| {
        previous
            .get(&page.slug)
            .is_some_and(|known| known.says_the_same(page))
    };
    let changed: Vec<Slug> = pages
        .iter()
        .filter(|page| !is_known(page))
        .map(|page| page.slug.clone())
        .collect();
    let current: BTreeSet<&Slug> = pages.iter().map(|page| &page.slug).collect();
    let removed: Vec<Slug> = previous
        .pages()
        .iter()
        .map(|page| &page.slug)
        .filter(|slug| !current.contains(slug))
        .cloned()
        .collect();
    let same_reports = previous.renamed() == map.renamed && previous.unreadable() == unreadable;
    let same_readings = pages.iter().all(|page| {
        previous
            .get(&page.slug)
            .is_some_and(|known| Arc::ptr_eq(known, page))
    });
    if changed.is_empty() && removed.is_empty() && same_reports && same_readings {
        return Refreshed {
            index: Arc::clone(previous),
            changed,
            removed,
        };
    }
    Refreshed {
        index: Arc::new(PageIndex::build(pages, map.renamed, unreadable)),
        changed,
        removed,
    }
}

#[cfg(test)]
mod tests;
