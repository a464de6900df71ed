//! Files that go into the prompt as they are, and the static context that is made of them.
//!
//! A line that starts with `_` is a comment to the person who edits the file; the model never sees it. In a code
//! fence such a line is code and stays.

use super::buffer;

/// Returns what the model sees of a file: no comments, no runs of blank lines, no white space around it.
///
/// Lines end in LF in the result. Three or more line ends in a row become two.
#[must_use]
pub fn clean(text: &str) -> String {
    let text = text
        .strip_prefix('\u{feff}')
        .unwrap_or(text)
        .replace("\r\n", "\n");
    let mut fence: Option<Fence> = None;
    let mut out = String::with_capacity(text.len());
    let mut line_ends = 0;
    for line in text.split('\n') {
        match fence {
            Some(open) if open.is_closed_by(line) => fence = None,
            Some(_) => {}
            None if line.starts_with('_') => continue,
            None => fence = Fence::opened_by(line),
        }
        if line.is_empty() {
            line_ends += 1;
            continue;
        }
        if !out.is_empty() {
            out.push_str(if line_ends > 0 { "\n\n" } else { "\n" });
        }
        line_ends = 0;
        out.push_str(line);
    }
    out.trim().to_owned()
}

/// Holds the marks of a code fence that is open.
#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    fn opened_by(line: &str) -> Option<Self> {
        let (mark, length, rest) = marks(line)?;
        // A backtick after the marks makes it a code span within a paragraph.
        (length >= 3 && !(mark == '`' && rest.contains('`'))).then_some(Self { mark, length })
    }

    fn is_closed_by(self, line: &str) -> bool {
        marks(line).is_some_and(|(mark, length, rest)| {
            mark == self.mark && length >= self.length && rest.trim().is_empty()
        })
    }
}

fn marks(line: &str) -> Option<(char, usize, &str)> {
    let text = line.trim_start_matches(' ');
    if line.len() - text.len() > 3 {
        return None;
    }
    let mark = text
        .chars()
        .next()
        .filter(|mark| matches!(mark, '`' | '~'))?;
    let rest = text.trim_start_matches(mark);
    Some((mark, text.len() - rest.len(), rest))
}

/// Holds the files of the static context, as they are on disk; an empty text stands for a missing file.
#[derive(Clone, Copy, Debug, Default)]
pub struct InfoParts<'a> {
    /// `core.md`, of which [`MAX_CORE_BYTES`] are shown.
    pub core: &'a str,
    /// `essentials.md`.
    pub essentials: &'a str,
    /// `threads.md`.
    pub threads: &'a str,
    /// `recent.md`.
    pub recent: &'a str,
    /// `buffer.md`.
    pub buffer: &'a str,
    /// Most lines of the buffer that are not blank; without a limit if there is none.
    pub max_buffer_lines: Option<usize>,
}

/// Most bytes of `core.md` that a prompt shows: it is in every conversation, so it is no place to store things.
pub const MAX_CORE_BYTES: usize = 2048;

/// Returns as many whole lines of a text as fit, without white space at their end.
fn whole_lines(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = text
        .match_indices('\n')
        .map(|(at, _)| at)
        .take_while(|at| *at <= most)
        .last()
        .unwrap_or(0);
    text[..end].trim_end()
}

/// Returns the static context, not yet wrapped, or nothing if every file is empty.
#[must_use]
pub fn info_text(parts: &InfoParts<'_>) -> Option<String> {
    let mut buffer = clean(parts.buffer);
    if let Some(limit) = parts.max_buffer_lines {
        buffer = buffer::take_newest(&buffer, limit).into_owned();
    }
    let core = clean(parts.core);
    let sections = [
        ("Core", whole_lines(&core, MAX_CORE_BYTES).to_owned()),
        ("Essentials", clean(parts.essentials)),
        ("Threads", clean(parts.threads)),
        ("Recent", clean(parts.recent)),
        ("Buffer", buffer),
    ];
    let shown: Vec<String> = sections
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(heading, text)| format!("## {heading}\n\n{text}"))
        .collect();
    (!shown.is_empty()).then(|| shown.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_core_comes_first_and_in_whole_lines() {
        let parts = |core| InfoParts {
            core,
            essentials: "e",
            ..InfoParts::default()
        };
        let info = info_text(&parts("_ a comment\nc\n")).expect("some text");
        assert_eq!(info, "## Core\n\nc\n\n## Essentials\n\ne");
        let line = format!("{}\n", "ä".repeat(50));
        let long = line.repeat(30);
        let info = info_text(&parts(&long)).expect("some text");
        let shown = info
            .strip_prefix("## Core\n\n")
            .and_then(|rest| rest.split_once("\n\n## Essentials"))
            .expect("both");
        assert_eq!(shown.0, line.repeat(20).trim_end(), "20 lines of 101 bytes");
        let info = info_text(&parts(&"x".repeat(MAX_CORE_BYTES + 1)));
        assert_eq!(info.as_deref(), Some("## Essentials\n\ne"), "no half line");
    }

    #[test]
    fn comments_go_and_code_stays() {
        for (text, expected) in [
            ("_ a comment\nshown\n_x\n", "shown"),
            ("a\n_c\nb", "a\nb"),
            ("a\n\n\n\n\nb\n\n", "a\n\nb"),
            ("a\r\n\r\n\r\nb\r\n", "a\n\nb"),
            ("```\n_kept\n```\n_gone", "```\n_kept\n```"),
            (
                "~~~~\n_kept\n~~~\n_kept\n~~~~\n_gone",
                "~~~~\n_kept\n~~~\n_kept\n~~~~",
            ),
            ("``` a ` b\n_gone", "``` a ` b"),
            (" _not a comment", "_not a comment"),
            ("\u{feff}_gone\n", ""),
            ("```\n_open to the end", "```\n_open to the end"),
            ("", ""),
        ] {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }

    #[test]
    fn sections_stand_in_their_order_and_empty_ones_do_not() {
        let parts = InfoParts {
            essentials: "I am.\n_hidden",
            recent: "\n\n",
            buffer: "- [Apr 3, 9:05 AM] a\n- [Apr 4, 9:05 AM] b\n",
            max_buffer_lines: Some(1),
            ..InfoParts::default()
        };
        let text = info_text(&parts).unwrap();
        assert!(
            text.starts_with("## Essentials\n\nI am.\n\n## Buffer\n\n(Older"),
            "{text}"
        );
        assert!(
            text.ends_with("\n- [Apr 4, 9:05 AM] b") && !text.contains("] a"),
            "{text}"
        );
        assert_eq!(
            info_text(&InfoParts {
                threads: "_x",
                ..InfoParts::default()
            }),
            None
        );
        let unlimited = InfoParts {
            max_buffer_lines: None,
            ..parts
        };
        assert!(info_text(&unlimited).unwrap().contains("] a"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_runs_of_blank_lines_are_left(text in "(_|```|~~~|[a\n\r ])*|\\PC{0,30}") {
            let once = clean(&text);
            prop_assert!(!once.contains("\n\n\n"));
            drop(info_text(&InfoParts { buffer: &text, max_buffer_lines: Some(1), ..InfoParts::default() }));
        }
    }
}
