//! The pages as a run found them: what it works on, and what must not have changed when it is installed.
//!
//! A run never touches a file. It makes new texts of what was staged, and these are compared and written in one operation
//! at its end, so that whatever becomes of the run, nothing is half done.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::provenance::{Channel, Trust};
use memory_core::store::StoreResult;
use memory_core::text::slug::Slug;

use super::install::changed;
use crate::pages::{FilePages, PageIndex};

/// A page as the run found it.
#[derive(Clone, Debug)]
pub(super) struct StagedPage {
    /// Its text.
    pub(super) text: String,
    /// Hash of its bytes.
    pub(super) hash: String,
    /// Where it belongs.
    pub(super) channel: Channel,
    /// How far it is trusted.
    pub(super) trust: Trust,
}

/// The pages that a run may work on.
#[derive(Clone, Debug, Default)]
pub(super) struct Stage {
    pub(super) pages: BTreeMap<Slug, StagedPage>,
    /// Names of files that are there and are left alone.
    pub(super) taken: BTreeSet<Slug>,
}

impl Stage {
    /// Reads every page of an index that is text and no longer than this. The others are left alone. It blocks.
    pub(super) fn read(files: &FilePages, index: &PageIndex, longest: u64) -> StoreResult<Self> {
        let mut pages = BTreeMap::new();
        for page in index.pages() {
            if page.bytes > longest {
                continue;
            }
            let Some(stored) = files.read_blocking(&page.slug)? else {
                continue;
            };
            // Whose it is and how far it is trusted is known of the text that was looked at, and of no other.
            if stored.hash != page.hash {
                return Err(changed(page.slug.as_str()));
            }
            let Ok(text) = String::from_utf8(stored.bytes) else {
                continue;
            };
            let staged = StagedPage {
                text,
                hash: stored.hash,
                channel: page.channel.clone(),
                trust: page.trust,
            };
            pages.insert(page.slug.clone(), staged);
        }
        let files = files.scan()?.files.into_keys();
        let taken = files.filter(|slug| !pages.contains_key(slug)).collect();
        Ok(Self { pages, taken })
    }
}
