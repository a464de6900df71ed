//! Writing an entry into a page, so that every byte that was there stays.
//!
//! An entry becomes an item of a list, word for word, with its day before and its mark behind it. What in it would be read
//! as structure of the page is escaped, and a link that leads nowhere becomes its text.

use memory_core::provenance::Channel;
use memory_core::text::citation::without_marks;
use memory_core::text::frontmatter::{Value, render};
use memory_core::text::links::{Link, LinkKind};
use memory_core::text::page::Page;
use memory_core::text::section::{Section, normalise_heading};
use memory_core::text::slug::Slug;

use super::words::{is_day, telling};
use crate::consolidate::batch::Entry;

/// Heading under which entries go on a page that has headings, none of which fits better.
const HEADING: &str = "Notes";

/// Characters of a sentence that is shown alone.
const LONGEST_SENTENCE: usize = 240;

/// Returns the list item of an entry. `leads` tells whether a link leads to a page.
pub(in super::super) fn block(entry: &Entry, leads: impl Fn(&Link) -> bool) -> String {
    let is_fence = |line: &str| {
        let line = line.trim_start();
        line.starts_with("```") || line.starts_with("~~~")
    };
    let fences = entry.content.lines().filter(|line| is_fence(line)).count();
    // A block of code that has no end is none, and what is in it is text like any other.
    let plain: Vec<String> = entry
        .content
        .lines()
        .map(|line| {
            if is_fence(line) && fences % 2 == 1 {
                escaped(line)
            } else {
                line.to_owned()
            }
        })
        .collect();
    let content = without_dead_links(&plain.join("\n"), leads);
    let mut block = String::new();
    let mut in_code = false;
    for (number, line) in content.lines().enumerate() {
        let fence = is_fence(line) && fences % 2 == 0;
        let line = if in_code || fence {
            unmarked(line)
        } else {
            escaped(line)
        };
        in_code ^= fence;
        if number == 0 {
            block.push_str("- ");
            if is_day(&entry.day) {
                block.push_str(&entry.day);
                block.push_str(": ");
            }
            // Code begins on a line of its own, below the mark.
            if !fence {
                block.push_str(line.trim());
                block.push(' ');
            }
            block.truncate(block.trim_end().len());
            block.push_str(" ^m-");
            block.push_str(&entry.id);
            if fence {
                block.push_str("\n  ");
                block.push_str(line.trim());
            }
        } else if !line.trim().is_empty() {
            block.push_str("  ");
            block.push_str(&line);
        }
        block.push('\n');
    }
    block
}

/// Returns a page of its own for an entry.
pub(super) fn page(title: &str, channel: &Channel, lead: Option<&str>, block: &str) -> String {
    let mut body = format!("# {title}\n\n");
    if let Some(lead) = lead {
        body.push_str(lead);
        body.push_str("\n\n");
    }
    body.push_str(block);
    of_channel(channel, &body)
}

/// Returns the text of a new page that belongs to a channel.
pub(in super::super) fn of_channel(channel: &Channel, body: &str) -> String {
    if *channel == Channel::Global {
        return body.to_owned();
    }
    let name = channel.to_string();
    render(&[("channel", Value::Text(&name))], body)
}

/// Returns a page's text with a block in it; `None` where no place is sure to be read as text.
pub(in super::super) fn add(slug: &Slug, text: &str, block: &str) -> Option<String> {
    let page = Page::parse(slug, text);
    let place = place(&page, block);
    let section = place.unwrap_or_else(|| page.sections.last().expect("there is always a lead"));
    let source = &text[section.range.clone()];
    if !is_closed(&text[page.body.clone()][..section.range.end - page.body.start]) {
        return None;
    }
    let end = section.range.start + source.trim_end().len();
    let before = &text[..end];
    let mut added = String::new();
    if !before.is_empty() && !before.ends_with('\n') {
        added.push('\n');
    }
    if place.is_none() && page.sections.len() > 1 {
        added.push_str("\n## ");
        added.push_str(HEADING);
        added.push_str("\n\n");
    } else if !text[page.body.start..end].trim().is_empty() && !ends_with_a_list(source) {
        added.push('\n');
    }
    added.push_str(block);
    let rest = &text[end..];
    if rest.trim().is_empty() {
        // What white space a person left at the end of a file is no part of it that they would miss.
        if text.contains("\r\n") {
            added = added.replace('\n', "\r\n");
        }
        return Some(format!("{before}{added}"));
    }
    added.pop();
    if text.contains("\r\n") {
        added = added.replace('\n', "\r\n");
    }
    Some(format!("{before}{added}{rest}"))
}

/// Returns the section where a block belongs; `None` for a heading that is to be made at the end.
fn place<'a>(page: &'a Page, block: &str) -> Option<&'a Section> {
    if page.sections.len() == 1 {
        return page.sections.first();
    }
    let words = telling(block);
    let fits = |section: &&Section| {
        let heading = telling(&section.heading);
        !heading.is_empty() && heading.iter().all(|word| words.contains(word))
    };
    let headed = || page.sections.iter().filter(|section| !section.id.is_lead());
    let notes = normalise_heading(HEADING);
    let found = headed()
        .filter(fits)
        .max_by_key(|section| {
            (
                telling(&section.heading).len(),
                std::cmp::Reverse(section.ordinal),
            )
        })
        .or_else(|| headed().find(|section| section.id.heading == notes))?;
    // Its last piece, when it is a long one.
    headed().rfind(|section| {
        (&section.id.heading, section.id.occurrence) == (&found.id.heading, found.id.occurrence)
    })
}

/// Returns whether nothing that hides text is open at the end of a text.
fn is_closed(text: &str) -> bool {
    let mut open = Open::default();
    for line in text.lines() {
        open.reads(line);
    }
    open.fence.is_none() && !open.in_comment
}

/// What hides text and is open where a reader has come to.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// The sign of the fence and how often it stands there.
    fence: Option<(char, usize)>,
    in_comment: bool,
}

impl Open {
    /// Reads a line. Returns whether it is no text, but code, a comment or a fence.
    pub(super) fn reads(&mut self, line: &str) -> bool {
        let mut bare = line.trim();
        while let Some(rest) = ["- ", "* ", "+ ", "> "]
            .iter()
            .find_map(|mark| bare.strip_prefix(mark))
        {
            bare = rest.trim_start();
        }
        if let Some((sign, length)) = self.fence {
            let is_end = bare.chars().count() >= length && bare.chars().all(|c| c == sign);
            if is_end {
                self.fence = None;
            }
            return true;
        }
        if self.in_comment {
            self.in_comment = !line.contains("-->");
            return true;
        }
        for sign in ['`', '~'] {
            let length = bare.chars().take_while(|c| *c == sign).count();
            let is_inline = sign == '`' && bare[length..].contains('`');
            if length >= 3 && !is_inline {
                self.fence = Some((sign, length));
                return true;
            }
        }
        let mut rest = line;
        while let Some(begin) = rest.find("<!--") {
            let Some(end) = rest[begin..].find("-->") else {
                self.in_comment = true;
                return true;
            };
            rest = &rest[begin + end + 3..];
        }
        false
    }
}

fn ends_with_a_list(text: &str) -> bool {
    let last = text.trim_end().lines().last().unwrap_or_default();
    last.starts_with("- ")
        || (last.starts_with("  ") && text.lines().any(|line| line.starts_with("- ")))
}

/// Returns a line of which nothing is read as structure of the page.
fn escaped(line: &str) -> String {
    let line = unmarked(line);
    let start = line.len() - line.trim_start().len();
    let text = line.trim();
    let is_rule = !text.is_empty()
        && text
            .chars()
            .all(|c| matches!(c, '-' | '=' | '_' | '*' | ' '));
    let is_structure = is_rule
        || ["#", "```", "~~~", "<!--"]
            .iter()
            .any(|mark| text.starts_with(mark));
    if is_structure {
        format!("{}\\{}", &line[..start], &line[start..])
    } else {
        line
    }
}

/// Returns a line that ends with no mark of its own, wherever it is put: which item a line states is for us to say.
fn unmarked(line: &str) -> String {
    let behind = format!(" {line}");
    if without_marks(&behind).len() == behind.len() {
        line.to_owned()
    } else {
        behind.replace(" ^m-", " \\^m-")[1..].to_owned()
    }
}

/// Returns a text in which links that lead nowhere are words.
fn without_dead_links(content: &str, leads: impl Fn(&Link) -> bool) -> String {
    let mut text = content.to_owned();
    // Taking brackets off may uncover others.
    for _ in 0..8 {
        let nowhere = Slug::from_title("entry");
        let mut dead: Vec<_> = Page::parse(&nowhere, &text)
            .links
            .into_iter()
            .filter(|link| {
                matches!(
                    link.kind,
                    LinkKind::Wikilink | LinkKind::Embed | LinkKind::Markdown
                )
            })
            .filter(|link| !leads(link))
            .filter_map(|link| Some((link.range?, link.label.unwrap_or(link.target))))
            .collect();
        if dead.is_empty() {
            return text;
        }
        dead.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
        // Of two that lie within each other, one goes now and the other the next time round.
        let mut begun = text.len();
        for (range, words) in dead {
            if range.end <= begun {
                begun = range.start;
                text.replace_range(range, &words);
            }
        }
    }
    text.replace("[[", "(")
        .replace("]]", ")")
        .replace("](", ") (")
}

/// Returns the first sentence of a page's lead, on one line and without marks.
pub(in super::super) fn first_sentence(lead: &str) -> Option<String> {
    let text = without_marks(lead);
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with(['#', '|', '>', '`', '!', '<']))?;
    let line = super::words::plain(line);
    let end = line
        .match_indices(['.', '!', '?', '。'])
        .find(|(at, mark)| {
            let rest = &line[at + mark.len()..];
            rest.is_empty() || rest.starts_with(' ') || *mark == "。"
        })
        .map_or(line.len(), |(at, mark)| at + mark.len());
    let mut sentence: String = line[..end].chars().take(LONGEST_SENTENCE).collect();
    if sentence.len() < end {
        sentence.push('…');
    }
    (!sentence.is_empty()).then_some(sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(text: &str) -> Option<String> {
        add(
            &Slug::from_title("page"),
            text,
            "- 2026-11-30: belts ^m-1\n",
        )
    }

    #[test]
    fn a_block_goes_where_a_reader_expects_it() {
        for (text, wanted) in [
            ("", "- 2026-11-30: belts ^m-1\n"),
            (
                "# T\n\nLead.\n",
                "# T\n\nLead.\n\n- 2026-11-30: belts ^m-1\n",
            ),
            ("# T\n\n- old", "# T\n\n- old\n- 2026-11-30: belts ^m-1\n"),
            (
                "Lead.\n\n## Part\n\ntext\n",
                "Lead.\n\n## Part\n\ntext\n\n## Notes\n\n- 2026-11-30: belts ^m-1\n",
            ),
            (
                "Lead.\n\n## Notes\n\n- old\n\n## Part\n\ntext\n",
                "Lead.\n\n## Notes\n\n- old\n- 2026-11-30: belts ^m-1\n\n## Part\n\ntext\n",
            ),
            (
                "Lead.\n## Belts\n\nx\n## Notes\ny",
                "Lead.\n## Belts\n\nx\n\n- 2026-11-30: belts ^m-1\n## Notes\ny",
            ),
            ("a\r\nb\r\n", "a\r\nb\r\n\r\n- 2026-11-30: belts ^m-1\r\n"),
            (
                "---\ntitle: x\n---\n",
                "---\ntitle: x\n---\n- 2026-11-30: belts ^m-1\n",
            ),
        ] {
            assert_eq!(put(text).as_deref(), Some(wanted), "{text:?}");
        }
    }

    #[test]
    fn what_is_open_takes_nothing() {
        assert_eq!(put("text\n\n```sh\nls\n"), None);
        assert_eq!(put("text\n<!-- hidden\n"), None);
        assert_eq!(put("- ~~~~\n  a\n  ~~~\n"), None);
        for text in [
            "A --> B\n",
            "```mermaid\nA --> B\n```\n",
            "<!-- a --> and ```code``` here\n",
            "```\n<!-- \n```\n",
        ] {
            assert!(put(text).is_some(), "{text:?}");
        }
    }

    fn entry(content: &str) -> Entry {
        Entry {
            id: "1".to_owned(),
            bytes: Vec::new(),
            content: content.to_owned(),
            day: "2026-11-30".to_owned(),
            channel: Channel::Global,
            trust: memory_core::provenance::Trust::Trusted,
            origin: memory_core::provenance::Origin::UserDirect,
            authority: memory_core::provenance::Authority::Owner,
            item: None,
        }
    }

    #[test]
    fn nothing_in_an_entry_passes_for_more_than_text() {
        for (content, wanted) in [
            ("```\nls\n```", "- 2026-11-30: ^m-1\n  ```\n  ls\n  ```\n"),
            ("```\nls", "- 2026-11-30: \\``` ^m-1\n  ls\n"),
            ("^m-2", "- 2026-11-30: \\^m-2 ^m-1\n"),
            ("a\n^m-2", "- 2026-11-30: a ^m-1\n  \\^m-2\n"),
            ("a ^m-2", "- 2026-11-30: a \\^m-2 ^m-1\n"),
            ("[a [[b]] c](x.md)", "- 2026-11-30: a b c ^m-1\n"),
            (
                "see [a [[b]] c](x.md) tomorrow",
                "- 2026-11-30: see a b c tomorrow ^m-1\n",
            ),
        ] {
            let block = block(&entry(content), |_| false);
            assert_eq!(block, wanted, "{content:?}");
            assert!(put(&format!("text\n\n{block}")).is_some(), "{content:?}");
            let marks = memory_core::text::citation::marks(&block);
            assert_eq!(marks.len(), 1, "{content:?}");
        }
    }

    #[test]
    fn a_sentence_is_shown_alone() {
        for (lead, wanted) in [
            (
                "# T\n\nNora is a cook. She lives in Leith.\n",
                Some("Nora is a cook."),
            ),
            (
                "- 2026-11-30: version 2.5 is out ^m-1\n",
                Some("version 2.5 is out"),
            ),
            ("# T\n", None),
        ] {
            assert_eq!(first_sentence(lead).as_deref(), wanted);
        }
    }
}
