//! What is wrong with a text, and where: the report that replaces an error in every parser of this module.
//!
//! A person's file is never refused, so a fault is data beside the result and not an `Err`. It names a place,
//! because "line 3, column 8" is what lets somebody repair the file.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Describes one thing that is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What sort of fault it is.
    pub kind: FaultKind,
    /// Line of the fault in the whole file, counted from 1.
    pub line: usize,
    /// Column of the fault in characters, counted from 1.
    pub column: usize,
    /// What happened and what the consequence is, for a person.
    pub message: String,
}

/// Names the sorts of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The file is not UTF-8; the damaged bytes were replaced in the index, the file is as it was.
    InvalidUtf8,
    /// The file starts with `---` and never closes the block; the whole file is body.
    UnclosedFence,
    /// The text between two leading rules is not a set of keys; the whole file is body.
    NotFrontmatter,
    /// The frontmatter is not valid YAML; its keys are unknown, the body is read.
    Yaml,
    /// A key occurs twice; the keys are unknown, the body is read.
    DuplicateKey,
    /// The frontmatter is larger, deeper or more self-referencing than a page needs; the body is read.
    OverBudget,
    /// A key that we read has a value of another shape; only that key is unknown.
    WrongType,
    /// `origin_date` is not a date we read; only that key is unknown.
    BadDate,
}

impl FaultKind {
    /// Returns whether the keys of the page are not known for certain, so that none may be edited.
    #[must_use]
    pub const fn hides_keys(self) -> bool {
        matches!(
            self,
            Self::InvalidUtf8
                | Self::UnclosedFence
                | Self::NotFrontmatter
                | Self::Yaml
                | Self::DuplicateKey
                | Self::OverBudget
        )
    }
}

impl Fault {
    /// Returns a fault at a byte offset of `source`.
    pub(super) fn at(
        source: &str,
        offset: usize,
        kind: FaultKind,
        message: impl Into<String>,
    ) -> Self {
        let (line, column) = position(source, offset);
        Self {
            kind,
            line,
            column,
            message: message.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.message
        )
    }
}

/// Returns the line and column, both from 1, of a byte offset; a byte-order mark takes no column.
fn position(source: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(source.len());
    while !source.is_char_boundary(end) {
        end -= 1;
    }
    let before = &source[..end];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before[line_start..]
        .chars()
        .filter(|c| *c != '\u{feff}')
        .count()
        + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        for (source, offset, expected) in [
            ("", 0, (1, 1)),
            ("ab", 1, (1, 2)),
            ("é\nüx", 5, (2, 2)),
            ("\u{feff}a", 3, (1, 1)),
            ("a\r\nb", 3, (2, 1)),
            ("é", 1, (1, 1)),
            ("a", 99, (1, 2)),
        ] {
            assert_eq!(position(source, offset), expected, "{source:?} at {offset}");
        }
    }

    #[test]
    fn a_fault_reads_as_one_line() {
        let fault = Fault::at("a\nbc", 3, FaultKind::Yaml, "no");
        assert_eq!(fault.to_string(), "line 2, column 2: no");
        assert!(fault.kind.hides_keys() && !FaultKind::BadDate.hides_keys());
    }
}
