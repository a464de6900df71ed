//! A segment of the snapshot and which of its rows are gone.

use std::sync::Arc;

use memory_core::provenance::Trust;
use memory_core::text::slug::Slug;

use super::PageRows;
use super::bits::Bits;
use super::segment::{PageEntry, Segment};
use super::visibility::Visibility;

/// A segment and its tombstones.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) segment: Arc<Segment>,
    dead: Arc<Bits>,
    /// Terms of all live heads.
    pub(crate) head_terms: u64,
    /// Terms of all live bodies.
    pub(crate) body_terms: u64,
}

impl Part {
    /// Returns a segment with every row live.
    pub(crate) fn new(segment: Segment) -> Self {
        let dead = Arc::new(Bits::new(segment.rows.len()));
        let head_terms = segment
            .lengths
            .iter()
            .map(|length| u64::from(length.head))
            .sum();
        let body_terms = segment
            .lengths
            .iter()
            .map(|length| u64::from(length.body))
            .sum();
        Self {
            segment: Arc::new(segment),
            dead,
            head_terms,
            body_terms,
        }
    }

    /// Returns this part without these pages.
    pub(crate) fn without(&self, pages: &[Slug]) -> Self {
        let mut kept = self.clone();
        for page in pages.iter().filter_map(|slug| self.segment.page(slug)) {
            let (first, end) = self.segment.pages[page].rows;
            for row in (first as usize..end as usize).filter(|row| self.is_live(*row)) {
                Arc::make_mut(&mut kept.dead).insert(row);
                kept.head_terms -= u64::from(self.segment.lengths[row].head);
                kept.body_terms -= u64::from(self.segment.lengths[row].body);
            }
        }
        kept
    }

    /// Returns whether a row is still there.
    pub(crate) fn is_live(&self, row: usize) -> bool {
        !self.dead.contains(row)
    }

    /// Returns how many rows are still there.
    pub(crate) fn live(&self) -> usize {
        self.segment.rows.len() - self.dead.count()
    }

    /// Returns how many rows are gone.
    pub(crate) fn gone(&self) -> usize {
        self.dead.count()
    }

    /// Returns the pages that are still there. Pages go as a whole, so the first row speaks for all.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &PageEntry> {
        self.segment
            .pages
            .iter()
            .filter(|page| self.is_live(page.rows.0 as usize))
    }

    /// Returns a page that is still there.
    pub(crate) fn page(&self, slug: &Slug) -> Option<&PageEntry> {
        let page = &self.segment.pages[self.segment.page(slug)?];
        self.is_live(page.rows.0 as usize).then_some(page)
    }

    /// Returns what is known of one of this part's pages.
    pub(crate) fn rows_of(&self, page: &PageEntry) -> PageRows {
        let first = page.rows.0 as usize;
        PageRows {
            slug: page.slug.clone(),
            hash: page.hash.clone(),
            expected: page.expected_rows,
            found: page.rows.1 - page.rows.0,
            channel: self.segment.channel(first).clone(),
            trust: self.segment.rows[first].trust,
        }
    }

    /// Returns how many live rows have a vector.
    pub(crate) fn vectors(&self) -> usize {
        (0..self.segment.rows.len())
            .filter(|row| self.is_live(*row) && self.segment.vectors.row(*row).is_some())
            .count()
    }

    /// Returns how many live sections hold a term.
    pub(crate) fn document_frequency(&self, term: &str) -> usize {
        let list = self.segment.postings.of(term);
        if self.gone() == 0 {
            list.len()
        } else {
            list.iter()
                .filter(|posting| self.is_live(posting.row as usize))
                .count()
        }
    }

    /// Returns a view of the rows a requester may see.
    pub(crate) fn seen_by(&self, visibility: &Visibility) -> Seen<'_> {
        let channels = self
            .segment
            .channels
            .iter()
            .map(|channel| visibility.allows_channel(channel))
            .collect();
        Seen {
            part: self,
            channels,
        }
    }
}

/// The rows of a part that a requester may see.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    part: &'a Part,
    channels: Vec<bool>,
}

impl Seen<'_> {
    /// Returns whether a row is there and may be seen.
    pub(crate) fn contains(&self, row: usize) -> bool {
        let found = &self.part.segment.rows[row];
        found.trust == Trust::Trusted
            && self.channels[found.channel as usize]
            && self.part.is_live(row)
    }
}
