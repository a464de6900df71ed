//! Making an index entry from a file's bytes, and keeping it in the page cache.
//!
//! A cached entry is only what follows from the bytes. What depends on where the file is or how it came in is added
//! each time, so it can change without reading the file again.

use memory_core::provenance::{Channel, Trust};
use memory_core::services::SectionEntry;
use memory_core::text::fault::Fault;
use memory_core::text::links::Link;
use memory_core::text::page::Page;
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::hash::hash_bytes;
use super::index::IndexedPage;
use super::scan::PageFile;
use crate::state::cache::CachedPage;

/// Names the parser that made an entry. Raise the number with every change of what parsing gives.
const PARSED_BY: &str = concat!("2/", env!("CARGO_PKG_VERSION"));

/// How a page came in, as far as the index needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// The name it was ingested under; `None` for the owner's own file.
    pub(super) original_name: Option<String>,
    /// How far it is trusted.
    pub(super) trust: Trust,
}

impl Source {
    /// Returns the source of a file that nobody ingested.
    pub(super) const fn own_file() -> Self {
        Self {
            original_name: None,
            trust: Trust::Trusted,
        }
    }
}

/// What follows from a file's bytes and slug.
#[derive(Debug, Serialize, Deserialize)]
struct Parsed {
    by: String,
    title: String,
    given: bool,
    summary: Option<String>,
    aliases: Vec<String>,
    channel: Channel,
    dated: Option<Timestamp>,
    sections: Vec<ParsedSection>,
    links: Vec<Link>,
    faults: Vec<Fault>,
}

/// A section: normalised heading, occurrence, chunk, heading as written, hash, bytes. The slug is the page's.
#[derive(Debug, Serialize, Deserialize)]
struct ParsedSection(String, u32, u32, String, String, u64);

/// Returns the entry of a file, from its bytes.
pub(super) fn parse(
    slug: &Slug,
    file: &PageFile,
    bytes: &[u8],
    source: &Source,
    checked_ms: i64,
) -> IndexedPage {
    let page = Page::parse_bytes(slug, bytes);
    let names = page.names();
    let sections = page.sections.iter().map(|section| {
        let SectionId {
            heading,
            occurrence,
            chunk,
            ..
        } = section.id.clone();
        let bytes = section.body.len() as u64;
        ParsedSection(
            heading,
            occurrence,
            chunk,
            section.heading.clone(),
            section.hash.clone(),
            bytes,
        )
    });
    let parsed = Parsed {
        by: PARSED_BY.to_owned(),
        given: names.title.is_some(),
        summary: page.frontmatter.summary().and_then(one_line),
        aliases: names.aliases,
        channel: page
            .frontmatter
            .channel()
            .map(Channel::parse)
            .unwrap_or_default(),
        dated: page.frontmatter.origin_date().map(Timestamp::from_millis),
        sections: sections.collect(),
        links: page
            .links
            .iter()
            .map(|link| Link {
                range: None,
                ..link.clone()
            })
            .collect(),
        faults: page.faults.clone(),
        title: page.title,
    };
    let stamp = PageFile {
        bytes: bytes.len() as u64,
        ..file.clone()
    };
    complete(slug, &stamp, hash_bytes(bytes), parsed, source, checked_ms)
}

/// Returns the entry of a cached row, or `None` when the row was made by another parser.
pub(super) fn revive(
    row: CachedPage,
    slug: &Slug,
    file: &PageFile,
    source: &Source,
) -> Option<IndexedPage> {
    let parsed: Parsed = serde_json::from_str(&row.meta).ok()?;
    (parsed.by == PARSED_BY).then(|| complete(slug, file, row.hash, parsed, source, row.checked_ms))
}

/// Returns the entry of a file whose bytes are those of an entry already made.
pub(super) fn again(
    page: &IndexedPage,
    file: &PageFile,
    source: &Source,
    checked_ms: i64,
) -> IndexedPage {
    complete(
        &page.slug,
        file,
        page.hash.clone(),
        parsed_of(page),
        source,
        checked_ms,
    )
}

/// Returns the row that keeps an entry.
pub(super) fn keep(page: &IndexedPage) -> Result<CachedPage, serde_json::Error> {
    Ok(CachedPage {
        path: page.path.clone(),
        slug: page.slug.to_string(),
        bytes: page.bytes,
        modified_ms: page.modified_at.as_millis(),
        checked_ms: page.checked_ms,
        hash: page.hash.clone(),
        meta: serde_json::to_string(&parsed_of(page))?,
    })
}

fn parsed_of(page: &IndexedPage) -> Parsed {
    let sections = page.sections.iter().map(|section| {
        let SectionId {
            heading,
            occurrence,
            chunk,
            ..
        } = section.id.clone();
        ParsedSection(
            heading,
            occurrence,
            chunk,
            section.heading.clone(),
            section.hash.clone(),
            section.bytes,
        )
    });
    Parsed {
        by: PARSED_BY.to_owned(),
        title: page.title.clone(),
        given: page.title_is_given,
        summary: page.summary.clone(),
        aliases: page.written_aliases().to_vec(),
        channel: page.channel.clone(),
        dated: page.dated,
        sections: sections.collect(),
        links: page.links.clone(),
        faults: page.faults.clone(),
    }
}

fn complete(
    slug: &Slug,
    file: &PageFile,
    hash: String,
    parsed: Parsed,
    source: &Source,
    checked_ms: i64,
) -> IndexedPage {
    let sections = parsed
        .sections
        .into_iter()
        .zip(0..)
        .map(|(section, ordinal)| {
            let ParsedSection(heading, occurrence, chunk, written, hash, bytes) = section;
            let id = SectionId {
                slug: slug.clone(),
                heading,
                occurrence,
                chunk,
            };
            SectionEntry {
                id,
                heading: written,
                ordinal,
                hash,
                bytes,
                trust: source.trust,
            }
        });
    let modified_at = Timestamp::from_millis(file.modified_ms);
    let written_aliases = parsed.aliases.len();
    let mut aliases = parsed.aliases;
    let own_name = (file.path != slug.to_relative_path()).then_some(&file.path);
    for name in own_name.into_iter().chain(&source.original_name) {
        aliases.extend(file_aliases(name, slug));
    }
    IndexedPage {
        slug: slug.clone(),
        path: file.path.clone(),
        original_name: source.original_name.clone(),
        title: parsed.title,
        title_is_given: parsed.given,
        summary: parsed.summary,
        aliases,
        channel: parsed.channel,
        trust: source.trust,
        modified_at,
        fresh_at: parsed.dated.unwrap_or(modified_at),
        dated: parsed.dated,
        hash,
        bytes: file.bytes,
        sections: sections.collect(),
        links: parsed.links,
        faults: parsed.faults,
        checked_ms,
        written_aliases,
    }
}

/// Returns the names that a file's path gives a page: the path, and its last part where the slug has lost that.
///
/// Where the slug still ends as the file's name does, links find it by that, and the exact path of a page in the
/// outermost folder must win over equal names further in.
fn file_aliases(path: &str, slug: &Slug) -> Vec<String> {
    let last = path.rsplit('/').next().unwrap_or(path);
    let mut names = vec![path.to_owned()];
    if last != path && Slug::from_path(last).last_segment() != slug.last_segment() {
        names.push(last.to_owned());
    }
    names
}

fn one_line(text: &str) -> Option<String> {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}
