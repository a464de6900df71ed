//! The inside of a `<memory>` block: sections under header lines, so that single sections can be taken out again.
//!
//! A lead stands under `# memory/concepts/<slug>.md`, a section under `# memory/concepts/<slug>.md § <heading>`, a
//! capability under `# Skill: ...` or `# CLI command: ...`. Text of pages is escaped when it is rendered, so every
//! line that reads as a header is one, whatever a page says.
//!
//! Blocks on past messages are frozen. So pieces are slices of the block as it is: joined they give its bytes, and
//! dropping nothing gives the very same text.

use std::borrow::Cow;

use super::block::{escape_header_lines, unescape_header_lines};
use super::one_line;
use super::slug::Slug;

const PAGE_START: &str = "# memory/concepts/";
const PAGE_END: &str = ".md";
const SECTION_SIGN: &str = " § ";
const CAPABILITY_STARTS: [&str; 2] = ["# Skill:", "# CLI command:"];

/// Returns the header line of a section, without a line end; an empty heading is the lead.
#[must_use]
pub fn header(slug: &Slug, heading: &str) -> String {
    let heading = one_line(heading);
    if heading.is_empty() {
        format!("{PAGE_START}{slug}{PAGE_END}")
    } else {
        format!("{PAGE_START}{slug}{PAGE_END}{SECTION_SIGN}{heading}")
    }
}

/// Returns a section as it stands in the block: its header, then its text, escaped and without white space at its end.
#[must_use]
pub fn render_section(slug: &Slug, heading: &str, text: &str) -> String {
    let mut out = header(slug, heading);
    let text = text.trim_end();
    if !text.is_empty() {
        out.push('\n');
        out.push_str(&escape_header_lines(text));
    }
    out
}

/// Joins the text in front and the rendered pieces with blank lines. Empty ones are left out.
#[must_use]
pub fn render(preamble: &str, pieces: &[String]) -> String {
    join(std::iter::once(preamble).chain(pieces.iter().map(String::as_str)))
}

fn join<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for part in parts.map(str::trim_end).filter(|part| !part.is_empty()) {
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        out.push_str(part);
    }
    out
}

/// Holds the inside of a block, cut at its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBlock<'a> {
    /// What stands before the first header, with the blank lines after it.
    pub preamble: &'a str,
    /// The pieces in order.
    pub pieces: Vec<Piece<'a>>,
}

/// Holds one piece of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// What the piece shows.
    pub kind: PieceKind,
    /// Header and text as they are, with the blank lines after them.
    pub raw: &'a str,
}

/// Says what a piece of a block shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PieceKind {
    /// A section of a page.
    Section {
        /// The page.
        slug: Slug,
        /// The heading as it is written; empty for the lead.
        heading: String,
    },
    /// A skill or a command.
    Capability,
}

impl<'a> MemoryBlock<'a> {
    /// Cuts the inside of a block (see [`unwrap`](super::block::unwrap)) at its headers.
    #[must_use]
    pub fn parse(inner: &'a str) -> Self {
        let mut block = Self {
            preamble: inner,
            pieces: Vec::new(),
        };
        let mut open: Option<(usize, PieceKind)> = None;
        let mut at = 0;
        for line in inner.split_inclusive('\n') {
            if let Some(kind) = parse_header(line) {
                match open.replace((at, kind)) {
                    Some((start, kind)) => block.pieces.push(Piece {
                        kind,
                        raw: &inner[start..at],
                    }),
                    None => block.preamble = &inner[..at],
                }
            }
            at += line.len();
        }
        if let Some((start, kind)) = open {
            block.pieces.push(Piece {
                kind,
                raw: &inner[start..],
            });
        }
        block
    }

    /// Returns the bytes that were parsed.
    #[must_use]
    pub fn join(&self) -> String {
        std::iter::once(self.preamble)
            .chain(self.pieces.iter().map(|piece| piece.raw))
            .collect()
    }
}

impl Piece<'_> {
    /// Returns the text below the header, as the page has it.
    #[must_use]
    pub fn text(&self) -> String {
        let text = self
            .raw
            .split_once('\n')
            .map_or("", |(_, text)| text.trim_end());
        unescape_header_lines(text).into_owned()
    }
}

/// Reads a line, with or without its end, as a header.
#[must_use]
pub fn parse_header(line: &str) -> Option<PieceKind> {
    let line = line.trim_end_matches(['\n', '\r']);
    if CAPABILITY_STARTS
        .iter()
        .any(|start| line.starts_with(start))
    {
        return Some(PieceKind::Capability);
    }
    // A slug holds no dot, so the first ending is the real one.
    let (slug, heading) = line.strip_prefix(PAGE_START)?.split_once(PAGE_END)?;
    let heading = if heading.is_empty() {
        ""
    } else {
        heading.strip_prefix(SECTION_SIGN)?
    };
    Some(PieceKind::Section {
        slug: Slug::parse(slug).ok()?,
        heading: heading.to_owned(),
    })
}

/// Returns the inside of a block with only the sections that `keep` wants, called with page and heading.
///
/// Capabilities stay. If nothing is dropped, the text comes back as it is and borrowed; if no piece is left, the
/// result is empty, and so should the block be.
#[must_use]
pub fn retain(inner: &str, mut keep: impl FnMut(&Slug, &str) -> bool) -> Cow<'_, str> {
    let block = MemoryBlock::parse(inner);
    let kept: Vec<&str> = block
        .pieces
        .iter()
        .filter(|piece| match &piece.kind {
            PieceKind::Section { slug, heading } => keep(slug, heading),
            PieceKind::Capability => true,
        })
        .map(|piece| piece.raw)
        .collect();
    if kept.len() == block.pieces.len() {
        Cow::Borrowed(inner)
    } else if kept.is_empty() {
        Cow::Borrowed("")
    } else {
        Cow::Owned(join(std::iter::once(block.preamble).chain(kept)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slug(text: &str) -> Slug {
        Slug::parse(text).unwrap()
    }

    fn example() -> String {
        render(
            "Read this.",
            &[
                render_section(
                    &slug("a/b"),
                    "",
                    "# Title\n\n# Other\n# memory/concepts/fake.md\n</memory>\n",
                ),
                render_section(&slug("c"), "One § two.md\nthree", "text"),
                "# Skill: search\nfinds things".to_owned(),
                render_section(&slug("c"), "Empty", "  \n"),
            ],
        )
    }

    #[test]
    fn the_form_is_stable() {
        assert_eq!(
            example(),
            "Read this.\n\n# memory/concepts/a/b.md\n# Title\n\n# Other\n\\# memory/concepts/fake.md\n\\</memory>\n\n\
             # memory/concepts/c.md § One § two.md three\ntext\n\n# Skill: search\nfinds things\n\n# memory/concepts/c.md § Empty"
        );
    }

    #[test]
    fn pieces_come_back() {
        let text = example();
        let block = MemoryBlock::parse(&text);
        assert_eq!((block.preamble, block.pieces.len()), ("Read this.\n\n", 4));
        assert_eq!(
            block.pieces[0].text(),
            "# Title\n\n# Other\n# memory/concepts/fake.md\n</memory>"
        );
        let heading = "One § two.md three".to_owned();
        assert_eq!(
            block.pieces[1].kind,
            PieceKind::Section {
                slug: slug("c"),
                heading
            }
        );
        assert_eq!(block.pieces[2].kind, PieceKind::Capability);
        assert_eq!(block.join(), text);
        for line in [
            "# memory/concepts/A.md",
            "# memory/concepts/a.md x",
            "# memory/concepts/../a.md",
            "\\# memory/concepts/a.md",
            "## memory/concepts/a.md",
            " # Skill: x",
        ] {
            assert_eq!(parse_header(line), None, "{line}");
        }
    }

    #[test]
    fn filtering_touches_nothing_else() {
        let text = example();
        assert!(matches!(retain(&text, |_, _| true), Cow::Borrowed(same) if same == text));
        let without_lead = retain(&text, |_, heading| !heading.is_empty());
        assert!(without_lead.starts_with("Read this.\n\n# memory/concepts/c.md § One"));
        assert!(without_lead.ends_with("# memory/concepts/c.md § Empty"));
        assert_eq!(
            retain(&text, |_, _| false),
            "Read this.\n\n# Skill: search\nfinds things"
        );
        assert_eq!(retain("# memory/concepts/a.md\nx", |_, _| false), "");
        assert_eq!(retain("only prose", |_, _| false), "only prose");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn rendered_sections_read_back(parts in prop::collection::vec((".{0,12}", "[a§.\nmd ]{0,12}", "(# memory/concepts/a.md|# Skill:|\\\\|</memory>|[a# \n])*"), 0..5)) {
            let pieces: Vec<_> = parts.iter().map(|(title, heading, text)| render_section(&Slug::from_title(title), heading, text)).collect();
            let inner = render("Preamble.", &pieces);
            let block = MemoryBlock::parse(&inner);
            prop_assert_eq!(block.join(), inner.as_str());
            let found: Vec<_> = block.pieces.iter().map(|piece| (piece.kind.clone(), piece.text())).collect();
            let expected: Vec<_> = parts
                .iter()
                .map(|(title, heading, text)| {
                    let kind = PieceKind::Section { slug: Slug::from_title(title), heading: one_line(heading) };
                    (kind, text.trim_end().to_owned())
                })
                .collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn any_text_joins_to_itself(text in "(# memory/concepts/a.md( § b)?|# Skill: x|[a\n#])*|\\PC{0,40}") {
            prop_assert_eq!(MemoryBlock::parse(&text).join(), text.as_str());
            drop(retain(&text, |_, heading| heading.is_empty()));
        }
    }
}
