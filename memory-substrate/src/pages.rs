//! Concept pages as files that a person may edit at any time.
//!
//! The folder is shared with editors and other tools, so nothing here assumes to be alone: a write compares the bytes
//! on disk and not a memory of them, a page's file may have any name its owner gave it, and links are never followed
//! out of the folder. Every change is an operation: acknowledged by one commit, then applied.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use async_trait::async_trait;
use memory_core::env::{Clock, EntryKind, FileInfo, Fs, Ids};
use memory_core::store::{Expected, PageStamp, PageStore, StoreError, StoreResult, StoredPage};
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

use crate::blocking;
use crate::error::store_io;
use crate::oplog::{OpLog, WriteContext};
use crate::writer::Writer;

pub use self::hash::hash_bytes;
pub use self::index::{IndexedPage, PageIndex};
pub(crate) use self::refresh::LARGEST_PAGE;
pub use self::refresh::{PageIndexer, Refreshed};
pub(crate) use self::scan::page_of_path;
pub use self::scan::{PageFile, PageMap, RenamedPage};
pub(crate) use self::scan::{free_slug, is_page_name, wanted_slug};
pub(crate) use self::validate::validate;
pub use self::validate::{LongPage, PageFault, PagesReport, UnresolvedLink};

mod cached;
mod hash;
mod index;
mod refresh;
mod scan;
mod validate;
mod write;

/// The pages below one folder.
#[derive(Clone, Debug)]
pub struct FilePages {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
    /// Files whose name is not the canonical one of their slug, as of the last scan; `None` before the first.
    named: RwLock<Option<HashMap<Slug, String>>>,
    /// Absent when the pages are for reading only.
    writing: Option<Writing>,
}

/// What writing pages takes.
#[derive(Debug)]
struct Writing {
    log: OpLog,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    /// Held from the look at a page until the change is in its file.
    turn: Mutex<()>,
}

impl FilePages {
    /// Returns the pages below a folder, for reading.
    pub fn new(fs: Arc<dyn Fs>, folder: PathBuf) -> Self {
        Self::of(fs, folder, None)
    }

    /// Returns the pages of an assistant that is open for writing.
    pub fn of_writer(writer: &Writer) -> Self {
        let workspace = writer.workspace();
        let writing = Writing {
            log: writer.log().clone(),
            clock: Arc::clone(writer.clock()),
            ids: Arc::clone(writer.ids()),
            turn: Mutex::default(),
        };
        Self::of(
            Arc::clone(workspace.fs()),
            workspace.concepts_dir(),
            Some(writing),
        )
    }

    fn of(fs: Arc<dyn Fs>, folder: PathBuf, writing: Option<Writing>) -> Self {
        Self {
            shared: Arc::new(Shared {
                fs,
                folder,
                named: RwLock::new(None),
                writing,
            }),
        }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// Looks at every file and gives each its slug, on the calling thread, which may block.
    pub fn scan(&self) -> StoreResult<PageMap> {
        self.shared.scan()
    }

    /// Reads a page on the calling thread, which may block.
    pub fn read_blocking(&self, slug: &Slug) -> StoreResult<Option<StoredPage>> {
        self.shared.read(slug)
    }

    /// Writes a page on somebody's behalf if what is there is what was expected, and returns the new hash.
    pub async fn write_as(
        &self,
        slug: &Slug,
        bytes: Vec<u8>,
        expected: Expected,
        context: WriteContext,
    ) -> StoreResult<String> {
        let (shared, slug) = (Arc::clone(&self.shared), slug.clone());
        blocking::run(move || write::write(&shared, slug, bytes, expected, context)).await
    }

    /// Deletes a page on somebody's behalf if what is there is what was expected.
    pub async fn delete_as(
        &self,
        slug: &Slug,
        expected: Expected,
        context: WriteContext,
    ) -> StoreResult<()> {
        let (shared, slug) = (Arc::clone(&self.shared), slug.clone());
        blocking::run(move || write::delete(&shared, slug, expected, context)).await
    }

    /// Gives a page another slug on somebody's behalf if what is there is what was expected.
    pub async fn rename_as(
        &self,
        from: &Slug,
        to: &Slug,
        expected: Expected,
        context: WriteContext,
    ) -> StoreResult<()> {
        let (shared, from, to) = (Arc::clone(&self.shared), from.clone(), to.clone());
        blocking::run(move || write::rename(&shared, from, to, expected, context)).await
    }

    /// Gives a page another slug on the calling thread, which may block.
    pub(crate) fn rename_blocking(
        &self,
        from: &Slug,
        to: &Slug,
        expected: Expected,
        context: WriteContext,
    ) -> StoreResult<()> {
        write::rename(&self.shared, from.clone(), to.clone(), expected, context)
    }

    /// Keeps every other change of pages waiting until the guard is dropped.
    pub(crate) fn take_turn(&self) -> StoreResult<MutexGuard<'_, ()>> {
        self.shared.take_turn()
    }

    /// Returns the path by which an operation names a page's file, or refuses what no page may be written to.
    pub(crate) fn place_of(&self, slug: &Slug) -> StoreResult<String> {
        self.shared.place_of(slug)
    }

    /// Reads the bytes of a file of a scan on the calling thread, which may block.
    pub(crate) fn read_file(&self, relative: &str) -> io::Result<Vec<u8>> {
        self.shared.fs.read(&self.shared.folder.join(relative))
    }
}

impl Shared {
    fn scan(&self) -> StoreResult<PageMap> {
        let map = scan::scan(self.fs.as_ref(), &self.folder)?;
        let named = map
            .files
            .iter()
            .filter(|(slug, file)| file.path != slug.to_relative_path());
        let named = named
            .map(|(slug, file)| (slug.clone(), file.path.clone()))
            .collect();
        *self.named.write().unwrap_or_else(PoisonError::into_inner) = Some(named);
        Ok(map)
    }

    /// Returns the path of a page's file, whether it exists or not.
    fn path_of(&self, slug: &Slug) -> StoreResult<PathBuf> {
        let known = |named: &HashMap<Slug, String>| {
            named
                .get(slug)
                .map_or_else(|| slug.to_relative_path(), String::clone)
        };
        let cached = self
            .named
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map(known);
        let relative = if let Some(relative) = cached {
            relative
        } else {
            let map = self.scan()?;
            map.files
                .get(slug)
                .map_or_else(|| slug.to_relative_path(), |file| file.path.clone())
        };
        Ok(self.folder.join(relative))
    }

    /// Returns what is known of a page's file; `None` when there is no regular file inside the folder.
    fn look_at(&self, path: &Path) -> StoreResult<Option<FileInfo>> {
        let below = path.strip_prefix(&self.folder).unwrap_or(path);
        let mut place = self.folder.clone();
        for part in below.parent().into_iter().flat_map(Path::components) {
            place.push(part);
            match self.fs.info(&place) {
                Ok(info) if info.kind == EntryKind::Directory => {}
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(store_io("look at", &place)(error)),
            }
        }
        match self.fs.info(path) {
            Ok(info) => Ok((info.kind == EntryKind::File).then_some(info)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(store_io("look at", path)(error)),
        }
    }

    fn read(&self, slug: &Slug) -> StoreResult<Option<StoredPage>> {
        if slug.is_reserved() {
            return Ok(None);
        }
        let path = self.path_of(slug)?;
        let Some(info) = self.look_at(&path)? else {
            return Ok(None);
        };
        let bytes = match self.fs.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(store_io("read", &path)(error)),
        };
        let hash = hash_bytes(&bytes);
        Ok(Some(StoredPage {
            slug: slug.clone(),
            bytes,
            hash,
            modified_at: Timestamp::from_millis(info.modified_ms),
        }))
    }

    fn writing(&self) -> StoreResult<&Writing> {
        self.writing.as_ref().ok_or_else(|| StoreError::BadRequest {
            reason: "these pages were opened for reading only".to_owned(),
        })
    }

    fn take_turn(&self) -> StoreResult<MutexGuard<'_, ()>> {
        let turn = &self.writing()?.turn;
        Ok(turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the path by which an operation names a page's file.
    fn place_of(&self, slug: &Slug) -> StoreResult<String> {
        let refuse = |reason| Err(StoreError::BadRequest { reason });
        if slug.is_reserved() {
            return refuse(format!(
                "`{slug}` is a name that no page's file may take; choose another folder"
            ));
        }
        let path = self.path_of(slug)?;
        if self.look_at(&path)?.is_none() {
            self.refuse_links(&path)?;
        }
        match self.writing()?.log.relative(&path) {
            Some(relative) => Ok(relative),
            None => refuse(format!("`{slug}` has a path that is not Unicode")),
        }
    }

    /// Forgets under which name of its own a page's file was.
    fn forget_name(&self, slug: &Slug) {
        if let Some(named) = self
            .named
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
        {
            named.remove(slug);
        }
    }

    /// Refuses a place where something that is not ours stands: a link would lead the write out of the folder.
    fn refuse_links(&self, path: &Path) -> StoreResult<()> {
        for place in path.ancestors().take_while(|place| *place != self.folder) {
            let kind = self.fs.info(place).map(|info| info.kind);
            let expected = if place == path {
                EntryKind::File
            } else {
                EntryKind::Directory
            };
            if kind.is_ok_and(|kind| kind != expected) {
                return Err(StoreError::BadRequest {
                    reason: format!(
                        "`{}` is a link or something else that a page cannot replace",
                        place.display()
                    ),
                });
            }
        }
        Ok(())
    }
}

#[async_trait]
impl PageStore for FilePages {
    async fn list(&self) -> StoreResult<Vec<PageStamp>> {
        let shared = Arc::clone(&self.shared);
        let map = blocking::run(move || shared.scan()).await?;
        let stamp = |(slug, file): (Slug, PageFile)| PageStamp {
            slug,
            bytes: file.bytes,
            modified_at: Timestamp::from_millis(file.modified_ms),
        };
        Ok(map.files.into_iter().map(stamp).collect())
    }

    async fn read(&self, slug: &Slug) -> StoreResult<Option<StoredPage>> {
        let (shared, slug) = (Arc::clone(&self.shared), slug.clone());
        blocking::run(move || shared.read(&slug)).await
    }

    async fn write(&self, slug: &Slug, bytes: Vec<u8>, expected: Expected) -> StoreResult<String> {
        self.write_as(slug, bytes, expected, WriteContext::host())
            .await
    }

    async fn delete(&self, slug: &Slug, expected: Expected) -> StoreResult<()> {
        self.delete_as(slug, expected, WriteContext::host()).await
    }

    async fn rename(&self, from: &Slug, to: &Slug, expected: Expected) -> StoreResult<()> {
        self.rename_as(from, to, expected, WriteContext::host())
            .await
    }
}

#[cfg(test)]
mod tests;
