//! Finds an entry by its id, so that it can be taken out while every other byte stays.
//!
//! It works on bytes, because a file that a person edits may hold some that are no text, and those are nobody's to
//! change either.

use std::ops::Range;

use super::parse_opening;

/// Returns where the entries with an id stand in a buffer, as [`entries_in`] does.
#[must_use]
pub fn find_entries(buffer: &[u8], id: &str) -> Vec<Range<usize>> {
    let all = entries_in(buffer).into_iter();
    all.filter(|(found, _)| found == id)
        .map(|(_, range)| range)
        .collect()
}

/// Returns the entries of a buffer that have an id, with where they stand: each from its first line to the last of the
/// indented lines that follow it, as [`write_entry`](super::write_entry) writes them. What a person put behind an entry
/// is not part of it, and neither are blank lines at its end.
#[must_use]
pub fn entries_in(buffer: &[u8]) -> Vec<(String, Range<usize>)> {
    let mut found: Vec<(String, Range<usize>)> = Vec::new();
    let mut is_open = false;
    let mut at = 0;
    for line in buffer.split_inclusive(|byte| *byte == b'\n') {
        let start = at;
        at += line.len();
        let text = String::from_utf8_lossy(line);
        if let Some(opening) = parse_opening(&text) {
            is_open = opening.id.is_some();
            if let Some(id) = opening.id {
                found.push((id.to_owned(), start..at));
            }
        } else if is_open && !text.trim().is_empty() {
            is_open = text.starts_with("  ");
            if let Some((_, last)) = found.last_mut().filter(|_| is_open) {
                last.end = at;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::buffer::write_entry;

    #[test]
    fn an_entry_ends_where_its_indented_lines_end() {
        let entry = "- [2026-11-30 14:05] two lines ^m-a\n  and\n\n  more\n";
        for (before, after) in [
            ("", ""),
            ("prose\n", "\n"),
            ("", "\nprose of a person\n  - and a list of theirs\n"),
            (
                "- [Apr 3, 9:05 AM] older\n",
                "- [2026-11-30 14:06] next ^m-ab\n  more\n",
            ),
        ] {
            let text = format!("{before}{entry}{after}");
            let whole = before.len()..before.len() + entry.len();
            assert_eq!(find_entries(text.as_bytes(), "a"), vec![whole], "{text}");
        }
        let twice = format!("{entry}{entry}");
        assert_eq!(find_entries(twice.as_bytes(), "a").len(), 2);
        assert_eq!(find_entries(entry.as_bytes(), "b"), []);
        let broken = [b"\xff\xfe\n", entry.as_bytes(), b"\xff\n"].concat();
        let whole = 3..3 + entry.len();
        assert_eq!(find_entries(&broken, "a"), vec![whole]);
    }

    proptest! {
        #[test]
        fn what_was_written_is_found_whole(
            content in "[a\n\r \t-]{0,20}[a-z]",
            before in "(- \\[2026-11-30 14:05\\] x \\^m-b\n|prose\n|\n|  indented\n){0,3}",
            after in "(- \\[2026-11-30 14:05\\] x \\^m-b\n(  y\n)?|prose\n)?",
        ) {
            let entry = write_entry(&content, "2026-11-30 14:05", "a").unwrap();
            let text = format!("{before}{entry}{after}");
            let whole = before.len()..before.len() + entry.len();
            prop_assert_eq!(find_entries(text.as_bytes(), "a"), vec![whole]);
        }
    }
}
