//! Links between pages, in every notation that a page can hold; the only module that knows their syntax.
//!
//! Four notations name another page: annotated entries of `links:` (`target — description`), wikilinks and embeds
//! (`[[target#heading|label]]`), markdown links to a `.md` file, and the directed `edges:`. A target is kept as it
//! is written; what it means is for the resolver to say, because that depends on the other pages.

mod resolve;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use resolve::{Dangling, LinkResolver, PageNames, Resolution, dangling};

use super::frontmatter::Frontmatter;
use super::outline::{MarkdownLink, Outline};

/// Separates target and description in an entry of `links:`. No other dash does.
const ANNOTATION: &str = " \u{2014} ";

/// Endings by which an embed or a wikilink names a file that is no page.
const ATTACHMENT_ENDINGS: &[&str] = &[
    "avif", "base", "bmp", "canvas", "flac", "gif", "jpeg", "jpg", "m4a", "mkv", "mov", "mp3",
    "mp4", "ogg", "ogv", "pdf", "png", "svg", "wav", "webm", "webp",
];

/// Names the notation of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// An entry of `links:`.
    Links,
    /// `[[target]]` in the body.
    Wikilink,
    /// `![[target]]` in the body.
    Embed,
    /// `[label](target.md)` in the body.
    Markdown,
    /// An entry of `edges:`.
    Edges,
}

impl LinkKind {
    /// Returns the name under which the kind is reported.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::Wikilink => "wikilink",
            Self::Embed => "embed",
            Self::Markdown => "markdown",
            Self::Edges => "edges",
        }
    }
}

/// Holds one link to another page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Notation of the link.
    pub kind: LinkKind,
    /// The page as it is named in the link, never empty.
    pub target: String,
    /// Heading or block within the page, without its `#`.
    pub anchor: Option<String>,
    /// Label or description that a reader sees.
    pub label: Option<String>,
    /// Place in the page's source; links of the frontmatter have none.
    pub range: Option<Range<usize>>,
}

/// Reads an entry of `links:`; an entry without a target is none.
///
/// The target may be a name or a wikilink. Only the first em dash between blanks separates the description.
#[must_use]
pub fn parse_links_entry(entry: &str) -> Option<Link> {
    let (target, description) = entry
        .split_once(ANNOTATION)
        .map_or((entry, None), |(target, description)| {
            (target, some(description))
        });
    let mut link = named(LinkKind::Links, target)?;
    link.label = description.or(link.label);
    Some(link)
}

/// Reads what stands between the brackets of a wikilink; a link within the page (`[[#heading]]`) is none.
#[must_use]
pub fn parse_wikilink(inner: &str) -> Option<Link> {
    let (name, label) = inner
        .split_once('|')
        .map_or((inner, None), |(name, label)| (name, some(label)));
    // Within a table the bar has to be escaped.
    let name = name.strip_suffix('\\').unwrap_or(name);
    let (target, anchor) = name
        .split_once('#')
        .map_or((name, None), |(target, anchor)| (target, some(anchor)));
    let target = some(target)?;
    Some(Link {
        kind: LinkKind::Wikilink,
        target,
        anchor,
        label,
        range: None,
    })
}

/// Returns the links of a page: `links:`, then those of the body in their order, then `edges:`.
///
/// Repeated links are all there.
pub(super) fn collect(frontmatter: &Frontmatter, source: &str, outline: &Outline) -> Vec<Link> {
    let body = frontmatter.body();
    let mut links: Vec<Link> = frontmatter
        .links()
        .iter()
        .filter_map(|entry| parse_links_entry(entry))
        .collect();
    let first_of_body = links.len();
    wikilinks(
        &source[body.clone()],
        &outline.opaque,
        body.start,
        &mut links,
    );
    links.extend(
        outline
            .links
            .iter()
            .filter_map(|link| markdown_link(link, body.start)),
    );
    links[first_of_body..].sort_by_key(|link| link.range.as_ref().map_or(0, |range| range.start));
    links.extend(
        frontmatter
            .edges()
            .iter()
            .filter_map(|edge| named(LinkKind::Edges, edge)),
    );
    links
}

/// Reads a target of the frontmatter, which may be dressed as a wikilink.
fn named(kind: LinkKind, text: &str) -> Option<Link> {
    let text = some(text)?;
    let inner = text
        .strip_prefix("[[")
        .and_then(|rest| rest.strip_suffix("]]"));
    match inner {
        Some(inner) => Some(Link {
            kind,
            ..parse_wikilink(inner)?
        }),
        None => Some(Link {
            kind,
            target: text,
            anchor: None,
            label: None,
            range: None,
        }),
    }
}

/// Finds the wikilinks outside code and HTML. Each byte is passed once.
fn wikilinks(body: &str, opaque: &[Range<usize>], offset: usize, links: &mut Vec<Link>) {
    let mut opaque = opaque.iter().peekable();
    let mut at = 0;
    while let Some(found) = body[at..].find("[[") {
        let open = at + found;
        let inner = &body[open + 2..];
        let Some(stop) = inner.find(['[', ']', '\n']) else {
            return;
        };
        let close = open + 2 + stop;
        // A further bracket may open the real link: `[[[a]]`.
        at = if inner.starts_with('[') {
            open + 1
        } else {
            close
        };
        if !body[close..].starts_with("]]") || is_escaped(body, open) {
            continue;
        }
        at = close + 2;
        while opaque.next_if(|range| range.end <= open).is_some() {}
        if opaque.peek().is_some_and(|range| range.start <= open) {
            continue;
        }
        if let Some(mut link) = parse_wikilink(&body[open + 2..close]) {
            if is_attachment(&link.target) {
                continue;
            }
            let embed = body[..open].ends_with('!');
            if embed {
                link.kind = LinkKind::Embed;
            }
            link.range = Some(offset + open - usize::from(embed)..offset + close + 2);
            links.push(link);
        }
    }
}

/// Returns whether the brackets are preceded by a backslash that is not itself escaped.
fn is_escaped(body: &str, open: usize) -> bool {
    let before = &body[..open];
    (before.len() - before.trim_end_matches('\\').len()) % 2 == 1
}

fn is_attachment(target: &str) -> bool {
    target.rsplit_once('.').is_some_and(|(_, ending)| {
        ATTACHMENT_ENDINGS
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}

/// Reads a markdown link if it leads to a page of this workspace.
fn markdown_link(link: &MarkdownLink, offset: usize) -> Option<Link> {
    let (path, anchor) = link
        .destination
        .split_once('#')
        .map_or((link.destination.as_str(), None), |(path, anchor)| {
            (path, some(anchor))
        });
    if path.starts_with("//") || has_scheme(path) {
        return None;
    }
    let target = percent_decoded(path);
    let cut = target.len().checked_sub(3)?;
    if cut == 0 || !target.get(cut..)?.eq_ignore_ascii_case(".md") {
        return None;
    }
    let range = Some(offset + link.range.start..offset + link.range.end);
    Some(Link {
        kind: LinkKind::Markdown,
        target,
        anchor,
        label: some(&link.label),
        range,
    })
}

/// Returns whether an address names its scheme, which a relative path does not. One letter is a drive.
fn has_scheme(address: &str) -> bool {
    address.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    })
}

/// Undoes percent-encoding; what is not valid stays as it is.
fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let byte = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        if let Some(byte) = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            out.push(byte);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

fn some(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn links(source: &str) -> Vec<String> {
        let frontmatter = Frontmatter::parse(source);
        let outline = Outline::of(&source[frontmatter.body()]);
        let links = collect(&frontmatter, source, &outline);
        links
            .iter()
            .map(|link| {
                let anchor = link
                    .anchor
                    .as_ref()
                    .map(|anchor| format!("#{anchor}"))
                    .unwrap_or_default();
                let label = link
                    .label
                    .as_ref()
                    .map(|label| format!("|{label}"))
                    .unwrap_or_default();
                format!("{} {}{anchor}{label}", link.kind.as_str(), link.target)
            })
            .collect()
    }

    #[test]
    fn entries_split_at_the_first_em_dash_between_blanks() {
        for (entry, target, label) in [
            ("a — b — c", "a", Some("b — c")),
            ("a - b", "a - b", None),
            ("a – b", "a – b", None),
            ("a—b", "a—b", None),
            (" a —  ", "a", None),
            ("[[A b#c|d]] — e", "A b", Some("e")),
            ("[[A b|d]]", "A b", Some("d")),
        ] {
            let link = parse_links_entry(entry).unwrap();
            assert_eq!(
                (link.target.as_str(), link.label.as_deref()),
                (target, label),
                "{entry}"
            );
        }
        assert!(parse_links_entry("  ").is_none() && parse_links_entry("[[#x]]").is_none());
    }

    #[test]
    fn finds_links_in_the_body_and_not_in_code() {
        for (body, expected) in [
            (
                "[[a]] and [[B c#h|d]] ![[e]]",
                vec!["wikilink a", "wikilink B c#h|d", "embed e"],
            ),
            ("[[|x]] [[#h]] [[ ]] [[]] [[a\nb]]", vec![]),
            (
                "`[[a]]` ``x [[b]]`` [[c]]\n\n    [[d]]\n\n```\n[[e]]\n```\n<!-- [[f]] -->\n\n[[g]]",
                vec!["wikilink c", "wikilink g"],
            ),
            (
                "[[a [[b]] [[[c]]] \\[[d]] \\\\[[e]] [[f] [[g]]",
                vec!["wikilink b", "wikilink c", "wikilink e", "wikilink g"],
            ),
            ("| a |\n|---|\n| [[b\\|c]] |\n", vec!["wikilink b|c"]),
            (
                "![[pic.PNG]] [[doc.pdf]] [[Release 1.10]] [[node.js]]",
                vec!["wikilink Release 1.10", "wikilink node.js"],
            ),
            (
                "[x](other.md) [y](../My%20Note.md#h) ![z](z.md)",
                vec!["markdown other.md|x", "markdown ../My Note.md#h|y"],
            ),
            (
                "[x](https://a.b/c.md) [y](#h) [z](a.txt) <https://a.md> [w](//a/b.md)",
                vec![],
            ),
            (
                "[x][1] [[z]] [y](b.md)\n\n[1]: <a b.md>\n",
                vec!["markdown a b.md|x", "wikilink z", "markdown b.md|y"],
            ),
        ] {
            assert_eq!(links(body), expected, "{body}");
        }
    }

    #[test]
    fn frontmatter_links_surround_those_of_the_body() {
        let source = "---\nedges: [x, '[[Y z]]']\nlinks:\n  - \"a — why\"\n---\n[[b]]\n";
        assert_eq!(
            links(source),
            ["links a|why", "wikilink b", "edges x", "edges Y z"]
        );
    }

    #[test]
    fn ranges_show_the_link() {
        let source = "---\ntitle: é\n---\nü ![[b]] [x](c.md)";
        let frontmatter = Frontmatter::parse(source);
        let found = collect(
            &frontmatter,
            source,
            &Outline::of(&source[frontmatter.body()]),
        );
        let shown: Vec<_> = found
            .iter()
            .map(|link| &source[link.range.clone().unwrap()])
            .collect();
        assert_eq!(shown, ["![[b]]", "[x](c.md)"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn never_panics(body in "[\\[\\]|#!\\\\` a%.md()\n]{0,60}|\\PC{0,40}") {
            let outline = Outline::of(&body);
            for link in collect(&Frontmatter::parse(&body), &body, &outline) {
                prop_assert!(!link.target.is_empty());
                prop_assert!(body.get(link.range.clone().unwrap_or(0..0)).is_some());
            }
        }
    }
}
