//! One pass of the markdown parser over a body, from which sections, titles and links are all taken.
//!
//! Whether a `## ` is a heading or a line of code, and whether a `[[name]]` is a link, is for a markdown parser to
//! say. It runs once per page, because it is the costly part, and only what the other modules need is kept.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::one_line;

/// Longest heading that is underlined, in characters; more than that is a paragraph before a rule.
const LONGEST_UNDERLINED: usize = 200;

/// Holds what a body is made of. Ranges are relative to the body.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// Text of the first heading of level one, without markup.
    pub(super) title: Option<String>,
    /// Headings of level two that start a section, in order.
    pub(super) headings: Vec<Heading>,
    /// Code and HTML, in order, in which nothing is a wikilink.
    pub(super) opaque: Vec<Range<usize>>,
    /// Links in markdown's own notation, in order.
    pub(super) links: Vec<MarkdownLink>,
}

/// Holds a heading that starts a section.
#[derive(Debug)]
pub(super) struct Heading {
    /// Whole lines of the heading.
    pub(super) lines: Range<usize>,
    /// The heading as it is written, on one line, without its marks.
    pub(super) text: String,
}

/// Holds a link in markdown's own notation.
#[derive(Debug)]
pub(super) struct MarkdownLink {
    pub(super) range: Range<usize>,
    pub(super) destination: String,
    pub(super) label: String,
}

/// Collects what is inside an open heading.
struct OpenHeading {
    level: HeadingLevel,
    range: Range<usize>,
    inner: Option<Range<usize>>,
    plain: String,
}

impl Outline {
    /// Reads a body.
    pub(super) fn of(body: &str) -> Self {
        let mut outline = Self::default();
        // Tables and footnotes are on so that code inside them is seen as code.
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
        let mut containers = 0_usize;
        let mut heading: Option<OpenHeading> = None;
        let mut link: Option<MarkdownLink> = None;
        for (event, range) in Parser::new_ext(body, options).into_offset_iter() {
            if let Some(open) = &mut heading {
                if let Event::End(TagEnd::Heading(_)) = event {
                    outline.close_heading(body, open);
                    heading = None;
                    continue;
                }
                let inner = open.inner.get_or_insert_with(|| range.clone());
                *inner = inner.start.min(range.start)..inner.end.max(range.end);
                push_plain(&event, &mut open.plain);
            }
            if let Some(open) = &mut link {
                push_plain(&event, &mut open.label);
            }
            match event {
                Event::Start(Tag::Heading { level, .. }) if containers == 0 => {
                    heading = Some(OpenHeading {
                        level,
                        range,
                        inner: None,
                        plain: String::new(),
                    });
                }
                Event::Start(Tag::BlockQuote(_) | Tag::Item | Tag::FootnoteDefinition(_)) => {
                    containers += 1;
                }
                Event::End(TagEnd::BlockQuote(_) | TagEnd::Item | TagEnd::FootnoteDefinition) => {
                    containers = containers.saturating_sub(1);
                }
                Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock)
                | Event::Code(_)
                | Event::InlineHtml(_) => {
                    outline.opaque.push(range);
                }
                Event::Start(Tag::Link { dest_url, .. }) => {
                    link = Some(MarkdownLink {
                        range,
                        destination: dest_url.into_string(),
                        label: String::new(),
                    });
                }
                Event::End(TagEnd::Link) => outline.links.extend(link.take()),
                _ => {}
            }
        }
        outline
    }

    fn close_heading(&mut self, body: &str, open: &OpenHeading) {
        let written = open.inner.clone().map_or("", |inner| &body[inner]);
        let text = one_line(written);
        if text.is_empty() {
            return;
        }
        match open.level {
            HeadingLevel::H1 if self.title.is_none() => {
                let title = one_line(&open.plain);
                self.title = Some(if title.is_empty() { text } else { title });
            }
            HeadingLevel::H2 => {
                let marked = body[open.range.clone()].trim_start().strip_prefix("##");
                let is_marked = marked.is_some_and(|rest| rest.starts_with([' ', '\t']));
                let one_line = !written.contains(['\n', '\r']);
                if is_marked || one_line && text.chars().count() <= LONGEST_UNDERLINED {
                    self.headings.push(Heading {
                        lines: whole_lines(body, &open.range),
                        text,
                    });
                }
            }
            _ => {}
        }
    }
}

fn push_plain(event: &Event<'_>, out: &mut String) {
    match event {
        Event::Text(text) | Event::Code(text) => out.push_str(text),
        Event::SoftBreak | Event::HardBreak => out.push(' '),
        _ => {}
    }
}

/// Widens a range to the lines that it touches, with the last line's end.
fn whole_lines(body: &str, range: &Range<usize>) -> Range<usize> {
    let start = body[..range.start]
        .rfind(['\n', '\r'])
        .map_or(0, |end| end + 1);
    let written = body[range.clone()].trim_end_matches(['\n', '\r']).len();
    let rest = &body[range.start + written..];
    let end = rest.find(['\n', '\r']).map_or(rest.len(), |at| {
        if rest[at..].starts_with("\r\n") {
            at + 2
        } else {
            at + 1
        }
    });
    start..range.start + written + end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, headings: &[&str]) {
        let outline = Outline::of(body);
        let found: Vec<_> = outline
            .headings
            .iter()
            .map(|heading| heading.text.as_str())
            .collect();
        assert_eq!(found, headings, "{body:?}");
    }

    #[test]
    fn only_real_headings_of_level_two_count() {
        check("## a\n## b ##\n### c\n# d\n##e\n\\## f\n", &["a", "b"]);
        check(
            "```\n## a\n```\n~~~sh\n## b\n~~~\n    ## c\n\n## d\n",
            &["d"],
        );
        check(
            "> ## a\n\n- ## b\n\n  ## c\n\n<div>\n## d\n</div>\n\n## e\n",
            &["e"],
        );
        check("[^1]: ## a\n\n## b\n", &["b"]);
        check(
            "one\n---\n\ntwo\nlines\n---\n\n   ## three\n    ## four\n",
            &["one", "three"],
        );
        check(
            &format!("{}\n---\n\n#tag\n---\n", "long ".repeat(60)),
            &["#tag"],
        );
        check("##\n## \n## ##\n", &[]);
        check(
            "## `code` and [[Link|label]] *x*\r\n## b\r\n",
            &["`code` and [[Link|label]] *x*", "b"],
        );
        check("a\r## b\rc", &["b"]);
    }

    #[test]
    fn lines_of_headings_are_whole() {
        let body = "x\n  ## a ##  \ny\nset\n---\nz";
        let outline = Outline::of(body);
        let lines: Vec<_> = outline
            .headings
            .iter()
            .map(|heading| &body[heading.lines.clone()])
            .collect();
        assert_eq!(lines, ["  ## a ##  \n"]);
        let body = "x\r\n\r\nset\r\n---\r\nz";
        let outline = Outline::of(body);
        assert_eq!(&body[outline.headings[0].lines.clone()], "set\r\n---\r\n");
    }

    #[test]
    fn titles_are_plain_text() {
        assert_eq!(
            Outline::of("text\n\n# The *big* `one`\n\n# Two\n")
                .title
                .as_deref(),
            Some("The big one")
        );
        assert_eq!(Outline::of("> # quoted\n\n```\n# code\n```\n").title, None);
    }
}
