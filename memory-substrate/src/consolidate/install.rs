//! Installing a result: changed pages, the entries that go out of the buffer, their items and the record of the run, in one
//! operation.
//!
//! Everything that the run read is compared inside the transaction. If a person was faster anywhere, nothing is installed
//! and the run is made again on top of what they did.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use memory_core::provenance::{Authority, Origin, Trust};
use memory_core::store::{PageOrigin, StoreError, StoreResult};
use memory_core::text::buffer;
use memory_core::text::citation::marks;
use memory_core::text::page::Page;
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;
use rusqlite::Connection;

use super::batch::Entry;
use super::ledger;
use crate::error::store_io;
use crate::oplog::{Change, OriginChange, Part, less_trusted};
use crate::pages::FilePages;
use crate::state::origins;
use crate::workspace::Workspace;

/// A page to be written.
#[derive(Clone, Debug)]
pub(super) struct NewText {
    pub(super) slug: Slug,
    /// Hash of what the run read; `None` when there was no page.
    pub(super) base: Option<String>,
    pub(super) text: String,
}

/// A view to be written.
#[derive(Clone, Debug)]
pub(super) struct NewView {
    /// Its path, relative to the assistant's folder.
    pub(super) path: String,
    /// What the run read; `None` when there was no file.
    pub(super) base: Option<Vec<u8>>,
    pub(super) text: String,
}

/// Everything that a run changes.
#[derive(Debug)]
pub(super) struct Install {
    pub(super) run: String,
    pub(super) pages: Vec<NewText>,
    pub(super) views: Vec<NewView>,
    /// The entries that go out of the buffer, each with the page that states it.
    pub(super) filed: Vec<(Entry, Slug)>,
    /// The pages that state an entry already: each with the hash of what the run read.
    pub(super) relied: Vec<(Slug, String)>,
    /// The items whose line went from one page to another: item, old page, new page.
    pub(super) moved: Vec<(String, Slug, Slug)>,
    /// For each new page those from which its text may come.
    pub(super) parents: BTreeMap<Slug, BTreeSet<Slug>>,
    pub(super) at: Timestamp,
}

impl Install {
    /// Plans the parts of the operation, and changes origins and items along with it.
    pub(super) fn plan(
        &self,
        connection: &Connection,
        files: &FilePages,
        workspace: &Workspace,
        buffer: &str,
    ) -> StoreResult<Vec<Part>> {
        let mut parts = Vec::new();
        for new in &self.pages {
            parts.push(self.page(connection, files, new)?);
        }
        for (slug, hash) in &self.relied {
            let found = files.read_blocking(slug)?;
            if found.map(|page| page.hash).as_ref() != Some(hash) {
                return Err(changed(slug.as_str()));
            }
        }
        for view in &self.views {
            let place = workspace.root().join(&view.path);
            if read(workspace, &place)? != view.base {
                return Err(changed(&view.path));
            }
            parts.push(Part {
                path: view.path.clone(),
                change: Change::Write {
                    base: view.base.clone(),
                    content: view.text.clone().into_bytes(),
                    merged: false,
                },
                origin: None,
            });
        }
        let there = read(workspace, &workspace.buffer_path())?.unwrap_or_default();
        let mut places: BTreeMap<String, Vec<std::ops::Range<usize>>> = BTreeMap::new();
        for (id, place) in buffer::entries_in(&there) {
            places.entry(id).or_default().push(place);
        }
        let mut taken = Vec::new();
        for (entry, _) in &self.filed {
            let as_read = |place: &std::ops::Range<usize>| there[place.clone()] == entry.bytes[..];
            if !places
                .get(&entry.id)
                .is_some_and(|places| places.iter().all(as_read))
            {
                return Err(changed(buffer));
            }
            taken.extend_from_slice(&entry.bytes);
            if !taken.ends_with(b"\n") {
                taken.push(b'\n');
            }
        }
        parts.push(Part {
            path: buffer.to_owned(),
            change: Change::Remove { entries: taken },
            origin: None,
        });
        self.items(connection)?;
        Ok(parts)
    }

    fn page(&self, connection: &Connection, files: &FilePages, new: &NewText) -> StoreResult<Part> {
        let found = files.read_blocking(&new.slug)?;
        if found.as_ref().map(|page| &page.hash) != new.base.as_ref() {
            return Err(changed(new.slug.as_str()));
        }
        let known = origins::of(connection, &new.slug)?;
        let inherited = self.inherited(connection, &new.slug)?;
        let before = match &inherited {
            Some(_) => less_trusted(known.as_ref(), inherited.as_ref()).cloned(),
            None => known,
        };
        let after = self.origin(&new.slug, new.base.is_none(), before.as_ref());
        let origin = OriginChange::of(new.slug.clone(), before, after);
        if let Some(lower) = origin.as_ref().and_then(OriginChange::meanwhile) {
            origins::put(connection, std::slice::from_ref(lower))?;
        }
        Ok(Part {
            path: files.place_of(&new.slug)?,
            change: Change::Write {
                base: found.map(|page| page.bytes),
                content: new.text.clone().into_bytes(),
                merged: false,
            },
            origin,
        })
    }

    /// Returns how a new page came in by what may come from others: as whichever of them is trusted least.
    fn inherited(&self, connection: &Connection, slug: &Slug) -> StoreResult<Option<PageOrigin>> {
        let mut least: Option<PageOrigin> = None;
        for parent in self.parents.get(slug).into_iter().flatten() {
            let origin = origins::of(connection, parent)?;
            least = less_trusted(least.as_ref(), origin.as_ref()).cloned();
        }
        Ok(least.map(|origin| PageOrigin {
            slug: slug.clone(),
            original_name: slug.to_relative_path(),
            ..origin
        }))
    }

    /// Returns how a page came in once the run's entries are on it: as whichever of its parts is trusted least.
    fn origin(&self, slug: &Slug, is_new: bool, before: Option<&PageOrigin>) -> Option<PageOrigin> {
        let mut least = before.cloned();
        let mut is_owners = before.is_none() && !is_new;
        let here = self.filed.iter().filter(|(_, page)| page == slug);
        for (entry, _) in here {
            if (entry.origin, entry.authority) == (Origin::UserDirect, Authority::Owner) {
                is_owners |= is_new && least.is_none();
                continue;
            }
            let written = PageOrigin {
                slug: slug.clone(),
                original_name: before.map_or_else(
                    || slug.to_relative_path(),
                    |before| before.original_name.clone(),
                ),
                origin: entry.origin,
                authority: entry.authority,
                at: self.at,
            };
            // What is trusted leaves the owner's own page the owner's own.
            if is_owners && least.is_none() && origins::trust(&written) == Trust::Trusted {
                continue;
            }
            least = less_trusted(least.as_ref(), Some(&written)).cloned();
        }
        least
    }

    /// Follows with the items of what was filed.
    fn items(&self, connection: &Connection) -> StoreResult<()> {
        let places = self.places();
        for (entry, page) in &self.filed {
            let section = places.get(&(entry.id.as_str(), page)).cloned();
            ledger::follow(connection, (&self.run, self.at), entry, page, section)?;
        }
        for (id, from, to) in &self.moved {
            let section = places.get(&(id.as_str(), to)).cloned();
            ledger::carry(connection, (&self.run, self.at), id, (from, to), section)?;
        }
        Ok(())
    }

    /// Returns the section in which each entry is stated.
    fn places(&self) -> BTreeMap<(&str, &Slug), SectionId> {
        let mut places = BTreeMap::new();
        let filed = self.filed.iter();
        let moved = self.moved.iter().map(|(id, _, _)| id.as_str());
        let ids: BTreeSet<&str> = filed
            .map(|(entry, _)| entry.id.as_str())
            .chain(moved)
            .collect();
        for new in &self.pages {
            let page = Page::parse(&new.slug, &new.text);
            for mark in marks(&new.text) {
                let section = page
                    .sections
                    .iter()
                    .find(|section| section.range.contains(&mark.line_start));
                if let (Some(id), Some(section)) = (ids.get(mark.id), section) {
                    places.insert((*id, &new.slug), section.id.clone());
                }
            }
        }
        places
    }
}

fn read(workspace: &Workspace, place: &Path) -> StoreResult<Option<Vec<u8>>> {
    match workspace.fs().read(place) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(store_io("read", place)(error)),
    }
}

/// Says that somebody was faster.
pub(super) fn changed(what: &str) -> StoreError {
    StoreError::Conflict {
        what: what.to_owned(),
        expected: "what the run had read".to_owned(),
        found: "something newer".to_owned(),
    }
}
