//! Pages: everything that is read out of one markdown file, in one go and without ever failing.
//!
//! The file stays the truth: a page holds copies and ranges, and nothing here writes it back. Whatever is wrong with
//! the file is in `faults`; the body is there all the same.

use std::borrow::Cow;
use std::ops::Range;

use super::fault::{Fault, FaultKind};
use super::frontmatter::Frontmatter;
use super::links::{self, Link, PageNames};
use super::outline::Outline;
use super::section::{self, PageFacts, Section};
use super::slug::Slug;
use super::{one_line, origin_date};

/// Holds what a markdown file says.
#[derive(Clone, Debug)]
pub struct Page {
    /// Name of the page.
    pub slug: Slug,
    /// Title on one line, never empty.
    pub title: String,
    /// Where the title was found.
    pub title_origin: TitleOrigin,
    /// The keys.
    pub frontmatter: Frontmatter,
    /// Range of the body in the source.
    pub body: Range<usize>,
    /// What is wrong with the file, in the order in which it was noticed.
    pub faults: Vec<Fault>,
    /// The lead, then the parts; their ranges cover the body.
    pub sections: Vec<Section>,
    /// Links to other pages, repeated ones too.
    pub links: Vec<Link>,
}

/// Names where a title was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TitleOrigin {
    /// The `title` key.
    Frontmatter,
    /// The first heading of level one.
    Heading,
    /// The last segment of the slug, because the file has no title.
    Slug,
}

impl Page {
    /// Reads a page.
    #[must_use]
    pub fn parse(slug: &Slug, source: &str) -> Self {
        let frontmatter = Frontmatter::parse(source);
        let body = frontmatter.body();
        let outline = Outline::of(&source[body.clone()]);
        let (title, title_origin) = match (frontmatter.title(), &outline.title) {
            (Some(title), _) => (one_line(title), TitleOrigin::Frontmatter),
            (None, Some(title)) => (title.clone(), TitleOrigin::Heading),
            (None, None) => (slug.last_segment().to_owned(), TitleOrigin::Slug),
        };
        let day = frontmatter.origin_date_text().and_then(origin_date::day);
        let sections = section::split(
            &PageFacts {
                slug,
                title: &title,
                day,
            },
            source,
            &body,
            &outline,
        );
        Self {
            slug: slug.clone(),
            sections,
            links: links::collect(&frontmatter, source, &outline),
            faults: frontmatter.faults().to_vec(),
            title,
            title_origin,
            frontmatter,
            body,
        }
    }

    /// Reads a page from bytes; ranges then refer to the text of [`decode`].
    #[must_use]
    pub fn parse_bytes(slug: &Slug, bytes: &[u8]) -> Self {
        let (source, fault) = decode(bytes);
        let mut page = Self::parse(slug, &source);
        page.faults.splice(0..0, fault);
        page
    }

    /// Returns the names by which the page can be linked; the caller adds the file's original name.
    ///
    /// A title that is only made from the slug is no name of its own.
    #[must_use]
    pub fn names(&self) -> PageNames {
        let title = (self.title_origin != TitleOrigin::Slug).then(|| self.title.clone());
        PageNames {
            slug: self.slug.clone(),
            title,
            aliases: self.frontmatter.aliases(),
        }
    }
}

/// Returns the text of a file, and a fault with the first damaged place if it is not UTF-8.
///
/// Damaged bytes become replacement characters in the text; the file itself has to stay as it is, so a page with this
/// fault must not be written back.
#[must_use]
pub fn decode(bytes: &[u8]) -> (Cow<'_, str>, Option<Fault>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), None),
        Err(error) => {
            let text = String::from_utf8_lossy(bytes);
            let offset = error.valid_up_to();
            let message = format!(
                "the file is not valid UTF-8 from byte {offset} on, it was indexed as far as it can be read"
            );
            // Up to the first damage, text and bytes are the same.
            let fault = Fault::at(&text, offset, FaultKind::InvalidUtf8, message);
            (text, Some(fault))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slug() -> Slug {
        Slug::from_path("notes/my-page.md")
    }

    #[test]
    fn the_title_comes_from_the_best_place() {
        for (source, title, origin) in [
            (
                "---\ntitle: A\n  b\n---\n# C\n",
                "A b",
                TitleOrigin::Frontmatter,
            ),
            (
                "---\ntitle: ''\n---\n# C *d*\n",
                "C d",
                TitleOrigin::Heading,
            ),
            ("---\ntitle: *x\n---\n# C\n", "C", TitleOrigin::Heading),
            ("text", "my-page", TitleOrigin::Slug),
        ] {
            let page = Page::parse(&slug(), source);
            assert_eq!(
                (page.title.as_str(), page.title_origin),
                (title, origin),
                "{source:?}"
            );
        }
    }

    #[test]
    fn a_page_is_read_as_a_whole() {
        let source = "\u{feff}---\r\ntitle: T\r\norigin_date: 2024-01-05\r\nlinks: [a]\r\n---\r\nlead [[b]]\r\n## Part\r\ntext\r\n";
        let page = Page::parse(&slug(), source);
        assert!(page.faults.is_empty());
        assert_eq!(
            page.sections
                .iter()
                .map(|s| s.head.as_str())
                .collect::<Vec<_>>(),
            ["T (2024-01-05)", "T — Part (2024-01-05)"]
        );
        assert_eq!(
            page.links
                .iter()
                .map(|link| link.target.as_str())
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!(page.frontmatter.origin_date(), Some(1_704_412_800_000));
        assert_eq!(page.names().title.as_deref(), Some("T"));
    }

    #[test]
    fn a_rule_at_the_top_hides_nothing() {
        let page = Page::parse(&slug(), "---\nprose before\n\n## Part\n---\ntext\n");
        assert_eq!(page.faults[0].kind, FaultKind::NotFrontmatter);
        assert!(
            page.sections[0].body.contains("prose before")
                && page.sections[1].body.contains("text")
        );
    }

    #[test]
    fn damaged_bytes_are_reported_with_their_line() {
        let page = Page::parse_bytes(&slug(), b"---\ntitle: A\n---\nok\nb\xffad\n");
        assert_eq!(
            (
                page.faults[0].kind,
                page.faults[0].line,
                page.faults[0].column
            ),
            (FaultKind::InvalidUtf8, 5, 2)
        );
        assert_eq!(page.title, "A");
        assert_eq!(page.sections[0].body, "ok\nb\u{fffd}ad");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn never_panics_on_bytes(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'-'), Just(b'#'), Just(b'[')], 0..200)) {
            let page = Page::parse_bytes(&slug(), &bytes);
            prop_assert!(!page.title.is_empty() && !page.sections.is_empty());
            let last = page.sections.last().map_or(0, |section| section.range.end);
            prop_assert_eq!(last, page.body.end);
        }
    }
}
