//! Finds the fences of a block, and tells a broken block from prose between two rules.

use std::ops::Range;

/// Holds where a block is written.
pub(super) struct Fences {
    pub(super) yaml: Range<usize>,
    pub(super) closing: Option<Range<usize>>,
}

impl Fences {
    /// Finds the block that a `---` at `start` opens, whether or not it is closed.
    pub(super) fn find(source: &str, start: usize) -> Option<Self> {
        let mut lines = source[start..].split_inclusive('\n');
        let opening = lines.next().filter(|line| line.trim_end() == "---")?;
        let begin = start + opening.len();
        let mut at = begin;
        for line in lines {
            if matches!(line.trim_end(), "---" | "...") {
                return Some(Self {
                    yaml: begin..at,
                    closing: Some(at..at + line.len()),
                });
            }
            at += line.len();
        }
        Some(Self {
            yaml: begin..at,
            closing: None,
        })
    }
}

/// Returns whether every line at the margin could belong to a set of keys, and at least one is a key.
pub(super) fn looks_like_keys(yaml: &str) -> bool {
    let mut found = false;
    for line in yaml.lines() {
        if line.trim().is_empty() || line.starts_with([' ', '\t', '#']) {
            continue;
        }
        if is_key_line(line) {
            found = true;
        } else if !(line.starts_with("- ")
            || line.trim_end() == "-"
            || line.starts_with([']', '}']))
        {
            return false;
        }
    }
    found
}

fn is_key_line(line: &str) -> bool {
    // A title can be longer than a key, and prose has sentences before its first colon.
    const LONGEST_KEY: usize = 64;
    let Some((key, rest)) = line.split_once(':') else {
        return false;
    };
    !key.is_empty()
        && key.len() <= LONGEST_KEY
        && key.split_whitespace().count() <= 3
        && (rest.is_empty() || rest.starts_with(char::is_whitespace))
}
