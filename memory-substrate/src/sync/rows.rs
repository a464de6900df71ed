//! From a page's bytes to its index rows.
//!
//! This is the one place that does it, so that a row made while serving, while ingesting and while rebuilding is the
//! same row.

use memory_core::store::IndexRow;
use memory_core::text::page::Page;
use memory_core::time::Timestamp;

use crate::pages::{IndexedPage, hash_bytes};
use crate::segment;

/// Returns the rows of a page whose file holds these bytes, without vectors.
pub(crate) fn rows_of(page: &IndexedPage, bytes: &[u8]) -> Vec<IndexRow> {
    let parsed = Page::parse_bytes(&page.slug, bytes);
    let page_hash = hash_bytes(bytes);
    let page_rows = u32::try_from(parsed.sections.len()).unwrap_or(u32::MAX);
    parsed
        .sections
        .iter()
        .map(|section| IndexRow {
            id: section.id.clone(),
            heading: section.heading.clone(),
            ordinal: section.ordinal,
            page_hash: page_hash.clone(),
            page_rows,
            title: parsed.title.clone(),
            modified_at: page.modified_at,
            dated: parsed.frontmatter.origin_date().map(Timestamp::from_millis),
            text_hash: section.hash.clone(),
            text: section.text(),
            head_terms: segment::index_text(&section.head),
            body_terms: segment::index_text(&section.body),
            channel: page.channel.clone(),
            trust: page.trust,
            vector: None,
        })
        .collect()
}

/// Returns whether a row's section has anything below its heading. One that has not gets no vector: a heading alone would
/// be near every question about its subject and have nothing to say.
pub(crate) fn says_something(row: &IndexRow) -> bool {
    row.text
        .split_once('\n')
        .is_some_and(|(_, body)| !body.trim().is_empty())
}
