//! Prompt blocks: the wrappers around what memory puts into a prompt.
//!
//! A block is an opening tag, a line end, its text, a line end and a closing tag. Everything here asks for the whole
//! wrapper, each tag on a line of its own: a person who writes about `<memory>` has not written a block, and what a
//! person wrote must survive any clean-up.

mod escape;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use escape::{escape_closing, escape_header_lines, unescape_header_lines};

/// Names the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tag {
    /// The static context.
    Info,
    /// Sections chosen for a turn.
    Memory,
    /// Paths of chosen sections that are in the prompt already.
    MemoryPointer,
    /// Files of the first tier.
    KnowledgeBase,
    /// Reminders of the first tier.
    SystemReminder,
    /// Per-turn excerpts, recognised in old transcripts.
    MemorySpotlight,
}

/// The names of all blocks.
pub const TAGS: [&str; 6] = [
    Tag::Info.as_str(),
    Tag::Memory.as_str(),
    Tag::MemoryPointer.as_str(),
    Tag::KnowledgeBase.as_str(),
    Tag::SystemReminder.as_str(),
    Tag::MemorySpotlight.as_str(),
];

impl Tag {
    /// All blocks.
    pub const ALL: [Self; 6] = [
        Self::Info,
        Self::Memory,
        Self::MemoryPointer,
        Self::KnowledgeBase,
        Self::SystemReminder,
        Self::MemorySpotlight,
    ];

    /// Returns the name in the tag.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Memory => "memory",
            Self::MemoryPointer => "memory_pointer",
            Self::KnowledgeBase => "knowledge_base",
            Self::SystemReminder => "system_reminder",
            Self::MemorySpotlight => "memory_spotlight",
        }
    }

    /// Returns the block with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tag| tag.as_str() == name)
    }

    /// Returns whether the closing tag is escaped inside the block.
    ///
    /// The others hold text whose header lines are escaped already, and their stored form must not change.
    const fn escapes_closing(self) -> bool {
        matches!(self, Self::Info | Self::KnowledgeBase)
    }
}

/// Wraps a text, escaping the block's own tags inside it where its grammar says so. Doing it twice changes nothing.
#[must_use]
pub fn wrap(tag: Tag, inner: &str) -> String {
    let name = tag.as_str();
    if tag.escapes_closing() {
        let inner = escape_closing(tag, inner);
        format!(
            "<{name}>\n{}\n</{name}>",
            escape::escape_opening_lines(tag, &inner)
        )
    } else {
        format!("<{name}>\n{inner}\n</{name}>")
    }
}

/// Returns the text inside a wrapper, or the text itself unless it is wrapped as a whole.
#[must_use]
pub fn unwrap(tag: Tag, text: &str) -> &str {
    inner(tag, text).unwrap_or(text)
}

/// Returns whether a text is one wrapped block as a whole.
#[must_use]
pub fn is_wrapped(tag: Tag, text: &str) -> bool {
    inner(tag, text).is_some()
}

fn inner(tag: Tag, text: &str) -> Option<&str> {
    let name = tag.as_str();
    let rest = text
        .strip_prefix('<')?
        .strip_prefix(name)?
        .strip_prefix(">\n")?;
    rest.strip_suffix('>')?
        .strip_suffix(name)?
        .strip_suffix("\n</")
}

/// Holds a block inside a longer text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which block it is.
    pub tag: Tag,
    /// From the opening to the end of the closing tag, without the line end after it.
    pub range: Range<usize>,
}

/// Finds the blocks in a text into which several were flattened; a block inside a block is not listed.
///
/// A closing line ends the block whose opening line is the last one above it, so that text between a stray opening
/// and a real block never counts as part of it.
#[must_use]
pub fn find(text: &str) -> Vec<Found> {
    let mut open: [Option<usize>; Tag::ALL.len()] = [None; Tag::ALL.len()];
    let mut found: Vec<Found> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let tag_line = line.strip_suffix('\n').unwrap_or(line);
        let tag_line = tag_line.strip_suffix('\r').unwrap_or(tag_line);
        if let Some((tag, closes)) = tag_of_line(tag_line) {
            let slot = &mut open[tag as usize];
            if !closes {
                *slot = Some(at);
            } else if let Some(start) = slot.take() {
                while found.last().is_some_and(|last| last.range.start > start) {
                    found.pop();
                }
                found.push(Found {
                    tag,
                    range: start..at + tag_line.len(),
                });
                // Whatever opened inside this block and was not closed cannot be closed after it.
                for other in &mut open {
                    *other = other.filter(|opened| *opened < start);
                }
            }
        }
        at += line.len();
    }
    found
}

/// Reads a line that is exactly a tag of ours; the flag says whether it closes.
fn tag_of_line(line: &str) -> Option<(Tag, bool)> {
    let name = line.strip_prefix('<')?.strip_suffix('>')?;
    name.strip_prefix('/').map_or_else(
        || Some((Tag::parse(name)?, false)),
        |name| Some((Tag::parse(name)?, true)),
    )
}

/// Returns whether a text holds a whole block, by itself or among other text.
#[must_use]
pub fn is_present(tag: Tag, text: &str) -> bool {
    find(text).iter().any(|found| found.tag == tag)
}

/// Returns a text without the whole blocks in it, each with the line end after it; all else stays as it is.
///
/// This goes by form alone. Where a person's own words are kept, use [`strip_attached`], which removes nothing but
/// what was really attached.
#[must_use]
pub fn strip(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for Found { range, .. } in find(text) {
        out.push_str(&text[at..range.start]);
        at = after_line_end(text, range.end);
    }
    out.push_str(&text[at..]);
    out
}

/// Returns a text without the given blocks, each removed once with the line end after it; all else stays as it is.
///
/// `attached` holds wrapped blocks as they were handed to the host. One that is not there, or not on lines of its
/// own, is passed over.
#[must_use]
pub fn strip_attached(text: &str, attached: &[&str]) -> String {
    let mut out = text.to_owned();
    for block in attached
        .iter()
        .filter(|block| Tag::ALL.into_iter().any(|tag| is_wrapped(tag, block)))
    {
        let stands_alone = |at: &usize| {
            let end = at + block.len();
            (*at == 0 || out[..*at].ends_with('\n'))
                && (end == out.len() || after_line_end(&out, end) > end)
        };
        let place = out
            .match_indices(block)
            .map(|(at, _)| at)
            .find(stands_alone);
        if let Some(at) = place {
            let end = after_line_end(&out, at + block.len());
            out.replace_range(at..end, "");
        }
    }
    out
}

/// Returns the offset after a line end at `at`, or `at` if there is none.
fn after_line_end(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    let end = rest
        .strip_prefix("\r\n")
        .or_else(|| rest.strip_prefix('\n'));
    end.map_or(at, |rest| text.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wraps_and_unwraps() {
        assert_eq!(
            wrap(Tag::Memory, "a\n</memory>"),
            "<memory>\na\n</memory>\n</memory>"
        );
        assert_eq!(
            wrap(Tag::Info, "a </INFO > b"),
            "<info>\na &lt;/info&gt; b\n</info>"
        );
        assert_eq!(unwrap(Tag::Memory, "<memory>\na\n</memory>"), "a");
        for text in [
            "<memory>\n</memory>",
            "<memory>a</memory>",
            "<memory>\na",
            "a\n</memory>",
            " <memory>\na\n</memory>",
            "<info>\na\n</memory>",
            "",
        ] {
            assert_eq!(unwrap(Tag::Memory, text), text);
            assert!(!is_wrapped(Tag::Memory, text), "{text}");
        }
        assert_eq!(TAGS.map(Tag::parse), Tag::ALL.map(Some));
    }

    #[test]
    fn presence_needs_the_whole_wrapper() {
        let info = wrap(Tag::Info, "notes");
        for (text, present) in [
            (info.clone(), true),
            (format!("hello\n{info}\n<memory>\nx\n</memory>\nbye"), true),
            (format!("hello {info}"), false),
            (format!("{info} bye"), false),
            ("<info>\nnot closed".to_owned(), false),
            ("<memory>\nx\n</memory>".to_owned(), false),
            ("<info>\r\nx\r\n</info>\r\n".to_owned(), true),
        ] {
            assert_eq!(is_present(Tag::Info, &text), present, "{text:?}");
        }
        let nested = wrap(Tag::Info, "<memory>\nx\n</memory>");
        assert!(!is_present(Tag::Memory, &nested) && is_present(Tag::Info, &nested));
    }

    #[test]
    fn stripping_leaves_what_a_person_wrote() {
        let info = wrap(Tag::Info, "notes\n<memory>");
        let memory = wrap(Tag::Memory, "x");
        assert_eq!(strip(&format!("{info}\n{memory}\nhello\n")), "hello\n");
        assert_eq!(
            strip(&format!("what is\n<memory>\nhere?\n{memory}\n</info>\nend")),
            "what is\n<memory>\nhere?\n</info>\nend"
        );
        assert_eq!(
            strip("say <memory>\nx\n</memory>"),
            "say <memory>\nx\n</memory>"
        );
        assert_eq!(strip(&memory), "");
        let mine = "<memory>\nmy own words\n</memory>\n";
        let text = format!("{memory}\n{mine}{memory}");
        assert_eq!(
            strip_attached(&text, &[&memory, &info, "my own words"]),
            format!("{mine}{memory}")
        );
        assert_eq!(strip_attached(&text, &[&memory, &memory]), mine);
        assert_eq!(
            strip_attached(&format!("x {memory}"), &[&memory]),
            format!("x {memory}")
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn wrapping_reads_back(inner in "(</?(info|memory) ?>|[a\n ])*|.{0,30}") {
            for tag in Tag::ALL {
                let block = wrap(tag, &inner);
                let stored = unwrap(tag, &block);
                // Storing and wrapping again heals to the same bytes.
                prop_assert_eq!(wrap(tag, stored), block.clone());
                if tag.escapes_closing() {
                    prop_assert_eq!(find(&block), vec![Found { tag, range: 0..block.len() }]);
                } else {
                    prop_assert_eq!(stored, inner.as_str());
                }
                let escaped = wrap(tag, &escape_header_lines(&inner));
                prop_assert_eq!(find(&escaped), vec![Found { tag, range: 0..escaped.len() }]);
            }
        }

        #[test]
        fn finding_never_panics(text in "(</?(info|memory|memory_pointer)>|[a\r\n ])*|.{0,30}") {
            let found = find(&text);
            prop_assert!(found.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
            prop_assert!(strip(&text).len() <= text.len());
            prop_assert_eq!(strip_attached(&text, &[]), text);
        }
    }
}
