//! Escapes in text that goes into a block, so that no page and no note can write our grammar.
//!
//! Two things are kept apart. A closing tag in static text is replaced by entities, as readers of stored prompts
//! expect. A line of page text that would read as one of our headers or as a tag gets a backslash in front, as
//! markdown would have it; a line that already has backslashes there gets one more, so the escape can be undone
//! exactly.

use std::borrow::Cow;

use super::{TAGS, Tag};

/// Starts of lines by which a memory block is divided.
const HEADER_STARTS: [&str; 4] = [
    "# memory/concepts/",
    "## memory/concepts/",
    "# Skill:",
    "# CLI command:",
];

/// Replaces the closing tag of a block, in any case and with blanks before its `>`, by `&lt;/name&gt;`.
#[must_use]
pub fn escape_closing(tag: Tag, text: &str) -> Cow<'_, str> {
    let name = tag.as_str();
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find("</") {
        let start = at + found;
        at = start + 2;
        let Some(rest) = text
            .get(at..at + name.len())
            .filter(|written| written.eq_ignore_ascii_case(name))
        else {
            continue;
        };
        let after = text[at + rest.len()..].trim_start();
        if let Some(after) = after.strip_prefix('>') {
            out.push_str(&text[copied..start]);
            out.push_str("&lt;/");
            out.push_str(name);
            out.push_str("&gt;");
            copied = text.len() - after.len();
            at = copied;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Replaces a line that is the opening tag of a block by `&lt;name&gt;`, so that the block is found from its real start.
pub(super) fn escape_opening_lines(tag: Tag, text: &str) -> Cow<'_, str> {
    change_lines(text, |line, out| {
        let content = line.trim_end_matches(['\n', '\r']);
        let name = content
            .strip_prefix('<')
            .and_then(|rest| rest.strip_suffix('>'));
        if name != Some(tag.as_str()) {
            return false;
        }
        out.push_str("&lt;");
        out.push_str(tag.as_str());
        out.push_str("&gt;");
        out.push_str(&line[content.len()..]);
        true
    })
}

/// Puts a backslash before each line that would read as a header of our grammar or as a tag of a block.
#[must_use]
pub fn escape_header_lines(text: &str) -> Cow<'_, str> {
    change_lines(text, |line, out| {
        if !is_header(line.trim_start_matches('\\')) {
            return false;
        }
        out.push('\\');
        out.push_str(line);
        true
    })
}

/// Undoes [`escape_header_lines`].
#[must_use]
pub fn unescape_header_lines(text: &str) -> Cow<'_, str> {
    change_lines(text, |line, out| {
        let Some(rest) = line
            .strip_prefix('\\')
            .filter(|rest| is_header(rest.trim_start_matches('\\')))
        else {
            return false;
        };
        out.push_str(rest);
        true
    })
}

/// Copies a text, letting `change` write lines (with their ends) in another form.
fn change_lines(text: &str, mut change: impl FnMut(&str, &mut String) -> bool) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    let mut changed = false;
    for line in text.split_inclusive('\n') {
        let mut written = String::new();
        if change(line, &mut written) {
            out.push_str(&text[copied..at]);
            out.push_str(&written);
            copied = at + line.len();
            changed = true;
        }
        at += line.len();
    }
    if !changed {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

fn is_header(line: &str) -> bool {
    HEADER_STARTS.iter().any(|start| line.starts_with(start)) || is_tag_line(line)
}

/// Returns whether a line is nothing but a tag of ours, in any case and with blanks around and inside it.
fn is_tag_line(line: &str) -> bool {
    let tag = line
        .trim()
        .strip_prefix('<')
        .and_then(|rest| rest.strip_suffix('>'));
    tag.is_some_and(|tag| {
        let name = tag.strip_prefix('/').unwrap_or(tag).trim();
        TAGS.iter().any(|known| known.eq_ignore_ascii_case(name))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn closing_tags_are_escaped_in_every_spelling() {
        for (text, expected) in [
            ("a</info>b", "a&lt;/info&gt;b"),
            ("</INFO\t >", "&lt;/info&gt;"),
            ("</info\n>", "&lt;/info&gt;"),
            ("</</info></info>", "</&lt;/info&gt;&lt;/info&gt;"),
            (
                "</information> <info> </ info> </inf",
                "</information> <info> </ info> </inf",
            ),
            ("</infö>", "</infö>"),
        ] {
            assert_eq!(escape_closing(Tag::Info, text), expected, "{text}");
        }
        assert_eq!(
            escape_closing(Tag::KnowledgeBase, "</info></Knowledge_Base>"),
            "</info>&lt;/knowledge_base&gt;"
        );
    }

    #[test]
    fn lines_of_our_grammar_get_a_backslash() {
        for (text, expected) in [
            ("# memory/concepts/x.md", "\\# memory/concepts/x.md"),
            (
                "a\n## memory/concepts/x § y\nb",
                "a\n\\## memory/concepts/x § y\nb",
            ),
            (
                "# Skill: x\n# CLI command: y\n",
                "\\# Skill: x\n\\# CLI command: y\n",
            ),
            ("</memory>\r\n <INFO >\n", "\\</memory>\r\n\\ <INFO >\n"),
            ("\\# Skill: x", "\\\\# Skill: x"),
            (
                "# memory\n### memory/concepts/\n # Skill:\na <memory>\n<other>\n\\x",
                "# memory\n### memory/concepts/\n # Skill:\na <memory>\n<other>\n\\x",
            ),
        ] {
            assert_eq!(escape_header_lines(text), expected, "{text}");
            assert_eq!(unescape_header_lines(expected), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn escaping_is_undone_exactly(text in "(# Skill:|## memory/concepts/|</?memory>|\\\\|[ a#\r\n])*|.{0,30}") {
            let escaped = escape_header_lines(&text);
            prop_assert!(!escaped.split_inclusive('\n').any(is_header));
            let unescaped = unescape_header_lines(&escaped);
            prop_assert_eq!(unescaped, text.as_str());
            drop((unescape_header_lines(&text), escape_closing(Tag::Info, &text)));
        }
    }
}
