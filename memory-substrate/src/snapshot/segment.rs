//! An immutable part of the snapshot: some pages' sections with their terms and vectors.
//!
//! Rows are sorted by section, so a page's sections lie together and a tie between two rows is settled by their
//! numbers. A segment never changes; what is gone is marked in a set beside it.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use memory_core::provenance::{Channel, Trust};
use memory_core::store::IndexRow;
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;

use super::matrix::Matrix;
use super::postings::{Lengths, Postings, PostingsBuilder, narrow};

/// A page of a segment.
#[derive(Clone, Debug)]
pub(crate) struct PageEntry {
    pub(crate) slug: Slug,
    /// Hash of the bytes the rows were made from.
    pub(crate) hash: String,
    /// How many rows the page should have.
    pub(crate) expected_rows: u32,
    /// Its rows: from the first up to, not including, the second.
    pub(crate) rows: (u32, u32),
}

/// A section of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) page: u32,
    pub(crate) heading: Box<str>,
    pub(crate) occurrence: u32,
    pub(crate) chunk: u32,
    pub(crate) text_hash: u128,
    pub(crate) channel: u32,
    pub(crate) trust: Trust,
}

/// Some pages' sections with their terms and vectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) pages: Vec<PageEntry>,
    pub(crate) rows: Vec<Row>,
    pub(crate) lengths: Vec<Lengths>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) postings: Postings,
    pub(crate) vectors: Matrix,
}

/// A section's identity, borrowed. Orders as [`SectionId`] does.
pub(crate) type Key<'a> = (&'a Slug, &'a str, u32, u32);

impl Segment {
    /// Returns a row's identity, borrowed.
    pub(crate) fn key(&self, row: usize) -> Key<'_> {
        let found = &self.rows[row];
        (
            &self.pages[found.page as usize].slug,
            &found.heading,
            found.occurrence,
            found.chunk,
        )
    }

    /// Returns a row's identity.
    pub(crate) fn id(&self, row: usize) -> SectionId {
        let (slug, heading, occurrence, chunk) = self.key(row);
        SectionId {
            slug: slug.clone(),
            heading: heading.to_owned(),
            occurrence,
            chunk,
        }
    }

    /// Returns a row's channel.
    pub(crate) fn channel(&self, row: usize) -> &Channel {
        &self.channels[self.rows[row].channel as usize]
    }

    /// Returns the number of a page, when it is here.
    pub(crate) fn page(&self, slug: &Slug) -> Option<usize> {
        self.pages.binary_search_by(|page| page.slug.cmp(slug)).ok()
    }

    /// Returns a section that is here more than once, which no index may hold.
    pub(crate) fn duplicate(&self) -> Option<SectionId> {
        (1..self.rows.len())
            .find(|row| self.key(row - 1) == self.key(*row))
            .map(|row| self.id(row))
    }

    /// Returns about how many bytes this takes.
    pub(crate) fn bytes(&self) -> usize {
        let pages: usize = self
            .pages
            .iter()
            .map(|page| page.slug.as_str().len() + page.hash.len())
            .sum();
        let rows: usize = self.rows.iter().map(|row| row.heading.len()).sum();
        pages
            + rows
            + size_of::<PageEntry>() * self.pages.len()
            + (size_of::<Row>() + size_of::<Lengths>()) * self.rows.len()
            + self.postings.bytes()
            + self.vectors.bytes()
    }
}

/// What a segment needs of a section; the text itself is not kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) id: &'a SectionId,
    pub(crate) text_hash: &'a str,
    pub(crate) page_hash: &'a str,
    pub(crate) page_rows: u32,
    pub(crate) channel: &'a Channel,
    pub(crate) trust: Trust,
    pub(crate) head_terms: &'a str,
    pub(crate) body_terms: &'a str,
    pub(crate) vector: Option<&'a [f32]>,
}

impl<'a> From<&'a IndexRow> for Source<'a> {
    fn from(row: &'a IndexRow) -> Self {
        Self {
            id: &row.id,
            text_hash: &row.text_hash,
            page_hash: &row.page_hash,
            page_rows: row.page_rows,
            channel: &row.channel,
            trust: row.trust,
            head_terms: &row.head_terms,
            body_terms: &row.body_terms,
            vector: row.vector.as_deref(),
        }
    }
}

/// Collects sections, in any order, into a segment.
#[derive(Debug)]
pub(crate) struct SegmentBuilder {
    dims: usize,
    postings: PostingsBuilder,
    sections: Vec<Pending>,
    lengths: Vec<Lengths>,
    channels: Vec<Channel>,
    channel_numbers: HashMap<Channel, u32>,
    vectors: Matrix,
}

#[derive(Debug)]
struct Pending {
    slug: Slug,
    page_hash: Arc<str>,
    page_rows: u32,
    row: Row,
}

impl Pending {
    fn key(&self) -> Key<'_> {
        (
            &self.slug,
            &self.row.heading,
            self.row.occurrence,
            self.row.chunk,
        )
    }
}

impl SegmentBuilder {
    /// Returns an empty builder for vectors of a length; 0 for a segment without vectors.
    pub(crate) fn new(dims: usize) -> Self {
        Self::with_capacity(dims, 0)
    }

    /// Returns an empty builder with room for that many sections.
    pub(crate) fn with_capacity(dims: usize, rows: usize) -> Self {
        Self {
            dims,
            postings: PostingsBuilder::default(),
            sections: Vec::with_capacity(rows),
            lengths: Vec::with_capacity(rows),
            channels: Vec::new(),
            channel_numbers: HashMap::new(),
            vectors: Matrix::with_capacity(dims, rows),
        }
    }

    /// Adds a section.
    pub(crate) fn add(&mut self, source: Source<'_>) {
        let added = narrow(self.sections.len());
        self.lengths.push(
            self.postings
                .add(added, source.head_terms, source.body_terms),
        );
        self.vectors
            .push(source.vector.filter(|vector| vector.len() == self.dims));
        let channel = channel_number(
            &mut self.channels,
            &mut self.channel_numbers,
            source.channel,
        );
        // Sections of one page mostly come together and share its hash.
        let page_hash = match self.sections.last() {
            Some(last) if *last.page_hash == *source.page_hash => last.page_hash.clone(),
            _ => source.page_hash.into(),
        };
        self.sections.push(Pending {
            slug: source.id.slug.clone(),
            page_hash,
            page_rows: source.page_rows,
            row: Row {
                page: 0,
                heading: source.id.heading.as_str().into(),
                occurrence: source.id.occurrence,
                chunk: source.id.chunk,
                text_hash: parse_hash(source.text_hash),
                channel,
                trust: source.trust,
            },
        });
    }

    /// Returns the finished segment.
    pub(crate) fn finish(mut self) -> Segment {
        let mut order: Vec<u32> = (0..narrow(self.sections.len())).collect();
        order.sort_by(|left, right| {
            self.sections[*left as usize]
                .key()
                .cmp(&self.sections[*right as usize].key())
        });
        let mut new_rows = vec![0_u32; order.len()];
        for (new, old) in order.iter().enumerate() {
            new_rows[*old as usize] = narrow(new);
        }
        let postings = self.postings.finish(&new_rows);
        self.vectors.permute(new_rows);
        self.vectors.shrink();
        let mut segment = Segment {
            lengths: order
                .iter()
                .map(|old| self.lengths[*old as usize])
                .collect(),
            channels: self.channels,
            postings,
            vectors: self.vectors,
            ..Segment::default()
        };
        segment.rows.reserve_exact(order.len());
        let mut sections: Vec<Option<Pending>> = self.sections.into_iter().map(Some).collect();
        for old in order {
            let Some(pending) = sections[old as usize].take() else {
                continue;
            };
            push_row(
                &mut segment,
                &pending.slug,
                &pending.page_hash,
                pending.page_rows,
                pending.row,
            );
        }
        segment.pages.shrink_to_fit();
        segment
    }
}

/// Returns the number a text hash stands for, 0 for anything else, which equals no hash.
pub(crate) fn parse_hash(hexadecimal: &str) -> u128 {
    u128::from_str_radix(hexadecimal, 16).unwrap_or(0)
}

/// Appends a row, opening its page when it is the page's first.
pub(crate) fn push_row(
    segment: &mut Segment,
    slug: &Slug,
    page_hash: &str,
    expected_rows: u32,
    mut row: Row,
) {
    let next = narrow(segment.rows.len());
    match segment.pages.last_mut() {
        Some(page) if page.slug == *slug => page.rows.1 = next + 1,
        _ => segment.pages.push(PageEntry {
            slug: slug.clone(),
            hash: page_hash.to_owned(),
            expected_rows,
            rows: (next, next + 1),
        }),
    }
    row.page = narrow(segment.pages.len() - 1);
    segment.rows.push(row);
}

/// Returns the number of a channel in a segment's list, adding it when it is new.
pub(crate) fn channel_number(
    channels: &mut Vec<Channel>,
    numbers: &mut HashMap<Channel, u32>,
    channel: &Channel,
) -> u32 {
    if let Some(number) = numbers.get(channel) {
        return *number;
    }
    let number = narrow(channels.len());
    channels.push(channel.clone());
    numbers.insert(channel.clone(), number);
    number
}

/// Compares two rows of two segments by identity.
pub(crate) fn compare(left: (&Segment, usize), right: (&Segment, usize)) -> Ordering {
    left.0.key(left.1).cmp(&right.0.key(right.1))
}
