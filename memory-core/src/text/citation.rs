//! Marks that say which item a line states: ` ^m-<id>` at its end, as Obsidian marks a block.
//!
//! A person sees them and may carry a line elsewhere with its mark. Nobody else is to see them: they are no part of what
//! a section says, so they are left out of what is indexed, hashed and shown, and marking a line costs no new vector.

use std::borrow::Cow;

use super::buffer::{ID_MARK, is_id};

/// Holds a mark and the line that it stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark<'a> {
    /// Id of the item.
    pub id: &'a str,
    /// Where the line begins.
    pub line_start: usize,
}

/// Returns the marks of a text, in order. A line may carry several.
#[must_use]
pub fn marks(text: &str) -> Vec<Mark<'_>> {
    let mut found = Vec::new();
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        let first = found.len();
        while let Some((before, id)) = last_mark(rest) {
            found.push(Mark { id, line_start });
            rest = before;
        }
        found[first..].reverse();
        line_start += line.len();
    }
    found
}

/// Returns a text without its marks and without the blanks before them.
#[must_use]
pub fn without_marks(text: &str) -> Cow<'_, str> {
    if !text.contains(ID_MARK) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while let Some((before, _)) = last_mark(rest) {
            rest = before;
        }
        out.push_str(rest);
        if rest.len() < line.len() {
            // The end of the line, whichever it is.
            out.push_str(&line[line.trim_end().len()..]);
        }
    }
    if out.len() == text.len() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(out)
    }
}

/// Returns a line's last mark, if it ends with one, and what stands before it.
fn last_mark(line: &str) -> Option<(&str, &str)> {
    let (before, id) = line.trim_end().rsplit_once(ID_MARK)?;
    is_id(id).then(|| (before.trim_end(), id))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(text: &str) -> Vec<&str> {
        marks(text).into_iter().map(|mark| mark.id).collect()
    }

    #[test]
    fn a_mark_stands_at_the_end_of_its_line() {
        let text = "one ^m-a\r\ntwo ^m-b ^m-c  \n\nno ^m-d here\nnone^m-e\n ^m-\nlast ^m-f";
        assert_eq!(ids(text), ["a", "b", "c", "f"]);
        assert_eq!(marks(text)[1].line_start, "one ^m-a\r\n".len());
        assert_eq!(
            without_marks(text),
            "one\r\ntwo  \n\nno ^m-d here\nnone^m-e\n ^m-\nlast"
        );
    }

    #[test]
    fn a_text_without_marks_is_the_same_text() {
        for text in ["", "plain\n", "a ^m- b\n", "^m-a"] {
            assert!(
                matches!(without_marks(text), Cow::Borrowed(same) if same == text),
                "{text:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_left_has_no_marks_and_as_many_lines(text in "([a ]| \\^m-x|\r|\n){0,30}") {
            let left = without_marks(&text);
            prop_assert!(marks(&left).is_empty(), "{left:?}");
            prop_assert_eq!(left.matches('\n').count(), text.matches('\n').count());
        }
    }
}
