//! Sections: a page's lead and its `##` parts, the unit that is indexed, retrieved and injected.
//!
//! A section is named by what a person calls it, (page, heading, how many equal headings came before, chunk), and
//! never by its position: inserting a paragraph above must not make every later section look like another one. Its
//! hash stands beside the id and says whether the text changed.
//!
//! The ranges of a page's sections follow each other without a gap and cover the body, so nothing that a person
//! wrote is left out of the index.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::citation::without_marks;
use super::outline::Outline;
use super::slug::{Slug, SlugError};
use super::{digest, fold_name};

/// Longest section body in characters; longer ones are cut into chunks.
pub const MAX_SECTION_CHARS: usize = 6_000;

/// Names a section for good.
///
/// Ids order by page, heading, occurrence and chunk. As text, and in serde, an id is its [`key`](Self::key).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SectionId {
    /// The page.
    pub slug: Slug,
    /// The heading in the form of [`normalise_heading`]; empty for the lead.
    pub heading: String,
    /// Which of the page's equal headings it is, from 1.
    pub occurrence: u32,
    /// Which chunk of the section it is, from 0.
    pub chunk: u32,
}

/// Says why a text is not the key of a section; treat the row that holds it as unknown and rebuild it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SectionKeyError {
    /// The text does not have the three parts of a key.
    #[error("`{key}` is not the key of a section")]
    Shape {
        /// The text.
        key: String,
    },
    /// The part before the first `#` is not a slug.
    #[error("`{key}` does not start with a slug")]
    Slug {
        /// The text.
        key: String,
        /// What is wrong with the slug.
        source: SlugError,
    },
}

impl SectionId {
    /// Returns the id of a page's lead.
    #[must_use]
    pub const fn lead(slug: Slug) -> Self {
        Self {
            slug,
            heading: String::new(),
            occurrence: 1,
            chunk: 0,
        }
    }

    /// Returns whether the section is (a chunk of) the lead.
    #[must_use]
    pub const fn is_lead(&self) -> bool {
        self.heading.is_empty()
    }

    /// Returns the canonical text of the id: `<slug>#<occurrence>.<chunk>#<heading>`.
    ///
    /// The heading comes last because it alone may hold any character.
    #[must_use]
    pub fn key(&self) -> String {
        format!(
            "{}#{}.{}#{}",
            self.slug, self.occurrence, self.chunk, self.heading
        )
    }

    /// Reads a key, in canonical form only, so that one section has one key.
    pub fn parse_key(key: &str) -> Result<Self, SectionKeyError> {
        let shape = || SectionKeyError::Shape {
            key: key.to_owned(),
        };
        let mut parts = key.splitn(3, '#');
        let (Some(slug), Some(numbers), Some(heading)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(shape());
        };
        let slug = Slug::parse(slug).map_err(|source| SectionKeyError::Slug {
            key: key.to_owned(),
            source,
        })?;
        let (occurrence, chunk) = numbers.split_once('.').ok_or_else(shape)?;
        let id = Self {
            slug,
            heading: normalise_heading(heading),
            occurrence: occurrence.parse().map_err(|_| shape())?,
            chunk: chunk.parse().map_err(|_| shape())?,
        };
        if id.occurrence == 0 || id.key() != key {
            Err(shape())
        } else {
            Ok(id)
        }
    }
}

impl fmt::Display for SectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key())
    }
}

impl FromStr for SectionId {
    type Err = SectionKeyError;

    fn from_str(key: &str) -> Result<Self, SectionKeyError> {
        Self::parse_key(key)
    }
}

impl TryFrom<String> for SectionId {
    type Error = SectionKeyError;

    fn try_from(key: String) -> Result<Self, SectionKeyError> {
        Self::parse_key(&key)
    }
}

impl From<SectionId> for String {
    fn from(id: SectionId) -> Self {
        id.key()
    }
}

/// Holds one section, or one chunk of a long one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Name of the section.
    pub id: SectionId,
    /// The heading as it is written, on one line; empty for the lead.
    pub heading: String,
    /// The page's title, the heading and the date, on one line; every chunk has it.
    pub head: String,
    /// The text below the heading, without blank lines around it and marks of items; at most [`MAX_SECTION_CHARS`]
    /// characters.
    pub body: String,
    /// 16 bytes of a digest over head and body, in hex.
    pub hash: String,
    /// Place in the page's source, with the heading and the blank lines around the body.
    pub range: Range<usize>,
    /// Position among all chunks of the page, from 0. It is no name: it shifts with edits.
    pub ordinal: u32,
}

impl Section {
    /// Returns head and body together: the text that is embedded.
    #[must_use]
    pub fn text(&self) -> String {
        if self.body.is_empty() {
            self.head.clone()
        } else {
            format!("{}\n{}", self.head, self.body)
        }
    }
}

/// Returns the form of a heading under which two spellings are one section: NFC, lower case, single blanks.
#[must_use]
pub fn normalise_heading(heading: &str) -> String {
    fold_name(heading)
}

/// Holds what a page tells each of its sections.
pub(super) struct PageFacts<'a> {
    pub(super) slug: &'a Slug,
    pub(super) title: &'a str,
    /// The date of the content as `YYYY-MM-DD`.
    pub(super) day: Option<&'a str>,
}

/// Cuts the body at `body` into sections. There is always a lead, if need be an empty one.
pub(super) fn split(
    page: &PageFacts<'_>,
    source: &str,
    body: &Range<usize>,
    outline: &Outline,
) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut seen: HashMap<String, u32> = HashMap::new();
    let first = outline
        .headings
        .first()
        .map_or(body.end, |heading| body.start + heading.lines.start);
    push_part(
        page,
        source,
        "",
        1,
        body.start..first,
        body.start,
        &mut sections,
    );
    for (index, heading) in outline.headings.iter().enumerate() {
        let end = outline
            .headings
            .get(index + 1)
            .map_or(body.end, |next| body.start + next.lines.start);
        let occurrence = seen.entry(normalise_heading(&heading.text)).or_insert(0);
        *occurrence += 1;
        let part = body.start + heading.lines.start..end;
        push_part(
            page,
            source,
            &heading.text,
            *occurrence,
            part,
            body.start + heading.lines.end,
            &mut sections,
        );
    }
    sections
}

/// Adds the chunks of one part, whose text begins at `text_start`.
fn push_part(
    page: &PageFacts<'_>,
    source: &str,
    heading: &str,
    occurrence: u32,
    part: Range<usize>,
    text_start: usize,
    sections: &mut Vec<Section>,
) {
    let head = head(page, heading);
    let mut start = part.start;
    for (chunk, end) in cuts(&source[text_start..part.end]).into_iter().enumerate() {
        let end = text_start + end;
        let body = without_marks(without_blank_lines(&source[start.max(text_start)..end]));
        sections.push(Section {
            id: SectionId {
                slug: page.slug.clone(),
                heading: normalise_heading(heading),
                occurrence,
                chunk: u32::try_from(chunk).unwrap_or(u32::MAX),
            },
            heading: heading.to_owned(),
            hash: digest::hex(&[&head, &body], 16),
            head: head.clone(),
            body: body.into_owned(),
            range: start..end,
            ordinal: u32::try_from(sections.len()).unwrap_or(u32::MAX),
        });
        start = end;
    }
}

fn head(page: &PageFacts<'_>, heading: &str) -> String {
    let mut head = page.title.to_owned();
    if !heading.is_empty() {
        head.push_str(" — ");
        head.push_str(heading);
    }
    if let Some(day) = page.day {
        head.push_str(" (");
        head.push_str(day);
        head.push(')');
    }
    head
}

/// Returns where the chunks of a text end, the last one at its end.
///
/// A chunk ends after the last line end of its window, or within a line that fills the window by itself. Blank lines
/// after a cut stay with the chunk before, so that no chunk begins with them. Every byte is looked at a fixed number
/// of times.
fn cuts(text: &str) -> Vec<usize> {
    let end = text.trim_end().len();
    let begin = leading_blank(&text[..end]);
    let mut cuts = Vec::new();
    let mut start = begin;
    while let Some((window, _)) = text[start..end].char_indices().nth(MAX_SECTION_CHARS) {
        let line_end = text[start..start + window].rfind('\n').filter(|at| *at > 0);
        let cut = start + line_end.map_or(window, |at| at + 1);
        start = cut + leading_blank(&text[cut..end]);
        cuts.push(start);
    }
    cuts.push(text.len());
    cuts
}

/// Returns the length of the blank lines at the front of a text.
fn leading_blank(text: &str) -> usize {
    let blank = text.len() - text.trim_start().len();
    text[..blank].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns a text without the blank lines at its front and without white space at its end.
fn without_blank_lines(text: &str) -> &str {
    let text = text.trim_end();
    &text[leading_blank(text)..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sections(body: &str) -> Vec<Section> {
        let slug = Slug::from_title("page");
        let facts = PageFacts {
            slug: &slug,
            title: "Page",
            day: None,
        };
        split(&facts, body, &(0..body.len()), &Outline::of(body))
    }

    #[test]
    fn marks_of_items_are_no_part_of_a_section() {
        let plain = sections("lead\n\n## One\n- a\n- b\n");
        let marked = sections("lead ^m-1\n\n## One\n- a ^m-2 ^m-3\n- b\n");
        let say = |sections: &[Section]| -> Vec<(String, String)> {
            let said = sections.iter();
            said.map(|section| (section.body.clone(), section.hash.clone()))
                .collect()
        };
        assert_eq!(say(&plain), say(&marked));
        assert_eq!(marked[1].body, "- a\n- b");
    }

    #[test]
    fn splits_into_lead_and_parts() {
        let found =
            sections("# Page\n\nlead\n\n## One\n\n  a\n\n### deep\nb\n\n## one\nc\n## Two\n");
        let shown: Vec<_> = found
            .iter()
            .map(|s| (s.id.key(), s.head.as_str(), s.body.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                ("page#1.0#".to_owned(), "Page", "# Page\n\nlead"),
                (
                    "page#1.0#one".to_owned(),
                    "Page — One",
                    "  a\n\n### deep\nb"
                ),
                ("page#2.0#one".to_owned(), "Page — one", "c"),
                ("page#1.0#two".to_owned(), "Page — Two", ""),
            ]
        );
        assert_eq!(
            found.iter().map(|s| s.ordinal).collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
        assert_eq!(found[3].text(), "Page — Two");
    }

    #[test]
    fn a_lead_always_exists() {
        for body in ["", "\n\n", "## only\n"] {
            let found = sections(body);
            assert!(
                found[0].id.is_lead() && found[0].body.is_empty(),
                "{body:?}"
            );
            assert_eq!(found[0].id, SectionId::lead(Slug::from_title("page")));
        }
    }

    #[test]
    fn long_parts_are_cut_at_line_ends_and_keep_their_head() {
        let line = format!("{}\n", "ü".repeat(999));
        let found = sections(&format!("## a\n\n{}\n\n{}", line.repeat(6), line.repeat(7)));
        let parts: Vec<_> = found
            .iter()
            .map(|s| (s.id.chunk, s.head.as_str(), s.body.chars().count()))
            .collect();
        assert_eq!(
            parts,
            [
                (0, "Page", 0),
                (0, "Page — a", 5_999),
                (1, "Page — a", 5_999),
                (2, "Page — a", 999)
            ]
        );
        let hard = sections(&"é".repeat(6_001));
        assert_eq!(
            hard.iter()
                .map(|s| s.body.chars().count())
                .collect::<Vec<_>>(),
            [6_000, 1]
        );
        assert_eq!(sections(&"x".repeat(6_000)).len(), 1);
    }

    #[test]
    fn hashes_follow_head_and_body() {
        let slug = Slug::from_title("page");
        let of = |title: &str, day: Option<&str>, body: &str| {
            split(
                &PageFacts {
                    slug: &slug,
                    title,
                    day,
                },
                body,
                &(0..body.len()),
                &Outline::of(body),
            )[0]
            .clone()
        };
        let base = of("Page", None, "a");
        assert_eq!(base.hash.len(), 32);
        assert_eq!(base.hash, of("Page", None, "\na\n\n").hash);
        assert_ne!(base.hash, of("Other", None, "a").hash);
        assert_ne!(base.hash, of("Page", None, "b").hash);
        let dated = of("Page", Some("2024-01-05"), "a");
        assert_eq!(dated.head, "Page (2024-01-05)");
        assert_ne!(base.hash, dated.hash);
    }

    #[test]
    fn keys_are_canonical() {
        for bad in [
            "",
            "a",
            "a#1.0",
            "A#1.0#",
            "a#0.0#",
            "a#01.0#",
            "a#1#",
            "a#1.0#Two",
            "a#1.0# x",
            "a#1.+0#x",
        ] {
            assert!(SectionId::parse_key(bad).is_err(), "{bad}");
        }
        let id = SectionId::parse_key("a/b#2.3#c# d.e").unwrap();
        assert_eq!(
            (id.heading.as_str(), id.occurrence, id.chunk),
            ("c# d.e", 2, 3)
        );
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, "\"a/b#2.3#c# d.e\"");
        assert_eq!(serde_json::from_str::<SectionId>(&json).unwrap(), id);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn keys_read_back(title in ".{0,20}", heading in ".{0,30}", occurrence in 1_u32.., chunk in any::<u32>()) {
            let id = SectionId { slug: Slug::from_title(&title), heading: normalise_heading(&heading), occurrence, chunk };
            prop_assert_eq!(SectionId::parse_key(&id.key()), Ok(id));
            drop(SectionId::parse_key(&heading));
        }

        #[test]
        fn sections_tile_the_body(lines in prop::collection::vec("(## )?[a-c# `>-]{0,4}|```|---|\t|\\PC{0,4}", 0..20), fill in 0_usize..40, crlf in any::<bool>()) {
            let end = if crlf { "\r\n" } else { "\n" };
            let body = lines.join(&format!("{end}{}", format!("x{end}").repeat(fill * 40)));
            let found = sections(&body);
            let mut at = 0;
            let mut ids = std::collections::HashSet::new();
            for section in &found {
                prop_assert_eq!(section.range.start, at);
                at = section.range.end;
                prop_assert!(body[section.range.clone()].contains(&section.body));
                prop_assert!(section.body.chars().count() <= MAX_SECTION_CHARS);
                prop_assert!(ids.insert(section.id.clone()));
            }
            prop_assert_eq!(at, body.len());
        }
    }
}
