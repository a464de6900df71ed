//! The read image of an assistant's sections: postings and vectors in memory.
//!
//! Several searches a turn, each through a database engine, would break a turn's time budget, so they run here. The
//! image is made of immutable segments: a changed page marks its old rows as gone and adds a small segment, and a new
//! image shares all the rest with the one before. It is derived, may be dropped at any time, and answers exactly what
//! the index behind it would.

mod bits;
mod dense;
mod lexical;
mod matrix;
mod merge;
mod part;
mod postings;
mod segment;
mod top;
mod visibility;

use memory_core::provenance::{Channel, Trust};
use memory_core::services::SectionHit;
use memory_core::store::IndexRow;
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use serde::Serialize;

use self::top::Top;

pub use self::lexical::TermSearch;
pub(crate) use self::lexical::inverse_frequency;
pub(crate) use self::matrix::dot;
pub(crate) use self::part::Part;
pub(crate) use self::postings::{Lengths, Postings, PostingsBuilder};
pub(crate) use self::segment::{Segment, SegmentBuilder, Source};
pub use self::visibility::Visibility;

/// More segments than this are folded together.
const MOST_SEGMENTS: usize = 8;

/// An immutable image of all sections.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    parts: Vec<Part>,
    dims: usize,
}

/// What the image knows of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRows {
    /// The page.
    pub slug: Slug,
    /// Hash of the bytes its sections were made from.
    pub hash: String,
    /// How many sections it should have.
    pub expected: u32,
    /// How many it has.
    pub found: u32,
    /// Where it belongs.
    pub channel: Channel,
    /// Its trust.
    pub trust: Trust,
}

/// How large an image is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SnapshotStats {
    /// Sections.
    pub sections: usize,
    /// Sections with a vector.
    pub vectors: usize,
    /// Segments a search visits.
    pub segments: usize,
    /// About how much memory it takes.
    pub bytes: usize,
}

impl Snapshot {
    /// Returns an image without sections, for vectors of a length; 0 for none.
    pub fn empty(dims: usize) -> Self {
        Self {
            parts: Vec::new(),
            dims,
        }
    }

    /// Returns the image of some segments, which have no page in common.
    pub(crate) fn of(dims: usize, segments: Vec<Segment>) -> Self {
        let parts = segments
            .into_iter()
            .map(Part::new)
            .filter(|part| part.live() > 0)
            .collect();
        Self { parts, dims }
    }

    /// Returns the image of these sections.
    pub fn from_rows<'a>(dims: usize, rows: impl IntoIterator<Item = &'a IndexRow>) -> Self {
        let mut builder = SegmentBuilder::new(dims);
        for row in rows {
            builder.add(Source::from(row));
        }
        Self::of(dims, vec![builder.finish()])
    }

    /// Returns the image after these pages got these sections. A page without sections is gone.
    #[must_use]
    pub fn patched(&self, pages: &[Slug], rows: &[IndexRow]) -> Self {
        let mut builder = SegmentBuilder::new(self.dims);
        for row in rows {
            builder.add(Source::from(row));
        }
        self.replaced(pages, Part::new(builder.finish()))
    }

    /// Returns the image after these pages got the sections of a segment.
    #[must_use]
    pub(crate) fn replaced(&self, pages: &[Slug], new: Part) -> Self {
        let mut parts: Vec<Part> = self.parts.iter().map(|part| part.without(pages)).collect();
        parts.push(new);
        parts.retain(|part| part.live() > 0);
        let mut patched = Self {
            parts,
            dims: self.dims,
        };
        patched.fold();
        patched
    }

    /// Folds segments together when there are too many. The largest stays as it is until the rest has grown to half
    /// its size or a third of it is gone, so that the work stays in proportion to the change.
    fn fold(&mut self) {
        if self.parts.len() <= MOST_SEGMENTS {
            return;
        }
        let Some(largest) = (0..self.parts.len()).max_by_key(|part| self.parts[*part].live())
        else {
            return;
        };
        let kept = &self.parts[largest];
        let rest: usize = self.parts.iter().map(Part::live).sum::<usize>() - kept.live();
        if rest * 2 > kept.live() || kept.gone() * 2 > kept.live() {
            self.parts = vec![Part::new(merge::merge(&self.parts, self.dims))];
        } else {
            let kept = self.parts.swap_remove(largest);
            let merged = Part::new(merge::merge(&self.parts, self.dims));
            self.parts = vec![kept, merged];
        }
    }

    /// Returns the length of a vector; 0 for an image without vectors.
    pub const fn dims(&self) -> usize {
        self.dims
    }

    /// Returns how many sections there are.
    pub fn section_count(&self) -> usize {
        self.parts.iter().map(Part::live).sum()
    }

    /// Returns what is known of a page.
    pub fn page(&self, slug: &Slug) -> Option<PageRows> {
        self.parts
            .iter()
            .find_map(|part| Some(part.rows_of(part.page(slug)?)))
    }

    /// Returns what is known of every page, in no particular order.
    pub fn pages(&self) -> impl Iterator<Item = PageRows> {
        self.parts
            .iter()
            .flat_map(|part| part.pages().map(|page| part.rows_of(page)))
    }

    /// Returns the vector of a section whose text had this hash, when it had one.
    pub(crate) fn vector_of(&self, id: &SectionId, text_hash: &str) -> Option<&[f32]> {
        let hash = segment::parse_hash(text_hash);
        self.parts.iter().find_map(|part| {
            let page = part.page(&id.slug)?;
            let row = (page.rows.0 as usize..page.rows.1 as usize)
                .find(|row| hash != 0 && part.segment.rows[*row].text_hash == hash)?;
            part.segment.vectors.row(row)
        })
    }

    /// Returns how large this image is.
    pub fn stats(&self) -> SnapshotStats {
        SnapshotStats {
            sections: self.section_count(),
            vectors: self.parts.iter().map(Part::vectors).sum(),
            segments: self.parts.len(),
            bytes: self.parts.iter().map(|part| part.segment.bytes()).sum(),
        }
    }

    fn hits(&self, top: Top<'_>) -> Vec<SectionHit> {
        top.finish()
            .into_iter()
            .map(|scored| SectionHit {
                id: self.parts[scored.part as usize]
                    .segment
                    .id(scored.row as usize),
                score: scored.score,
            })
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
