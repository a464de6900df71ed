//! Cuts a buffer to its newest entries for the prompt.
//!
//! The limit counts lines, because lines are what a prompt pays for; the cut goes between entries, because half a
//! fact misleads. Only an entry that is longer than the whole limit is cut itself, and then its opening line stays.

use std::borrow::Cow;

use super::{non_empty_lines, split};

const OLDER_LEFT_OUT: &str =
    "(Older entries are left out here; all of them are in memory/buffer.md.)\n";
const BODY_LEFT_OUT: &str =
    "  (The middle of this long entry is left out here; all of it is in memory/buffer.md.)\n";

/// Returns the newest entries of a buffer that together have at most `limit` lines that are not blank.
///
/// A buffer within the limit comes back as it is. Otherwise a line in front says that entries were left out. If even
/// the newest entry is too long, its opening line and the last `limit` lines are returned, with a line between them
/// that says so; it is returned whole if nothing would be left out. A buffer without entries is cut to its last
/// lines. Spacing is kept.
#[must_use]
pub fn take_newest(text: &str, limit: usize) -> Cow<'_, str> {
    if non_empty_lines(text) <= limit {
        return Cow::Borrowed(text);
    }
    let groups = split(text);
    let Some(newest) = groups.last().filter(|group| group.opening.is_some()) else {
        return Cow::Owned(format!("{OLDER_LEFT_OUT}{}", last_lines(text, limit)));
    };
    let mut start = text.len();
    let mut room = limit;
    for group in groups
        .iter()
        .rev()
        .take_while(|group| group.opening.is_some())
    {
        let lines = group.non_empty_lines();
        if lines > room {
            break;
        }
        room -= lines;
        start -= group.raw.len();
    }
    if start < text.len() {
        return Cow::Owned(format!("{OLDER_LEFT_OUT}{}", &text[start..]));
    }
    let (opening, body) = newest.raw.split_once('\n').unwrap_or((newest.raw, ""));
    if non_empty_lines(body) <= limit {
        return if newest.raw.len() == text.len() {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(format!("{OLDER_LEFT_OUT}{}", newest.raw))
        };
    }
    Cow::Owned(format!(
        "{opening}\n{BODY_LEFT_OUT}{}",
        last_lines(body, limit)
    ))
}

/// Returns the end of a text from its `limit`-th last line that is not blank.
fn last_lines(text: &str, limit: usize) -> &str {
    let mut start = text.len();
    let mut at = text.len();
    let mut room = limit;
    for line in text.split_inclusive('\n').rev() {
        at -= line.len();
        if !line.trim().is_empty() {
            if room == 0 {
                break;
            }
            room -= 1;
            start = at;
        }
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: &str = "- [Apr 3, 9:05 AM] a\n  a2\n\n";
    const B: &str = "- [2026-11-30 14:05] b ^m-b\n\n  b2\n  b3\n";

    fn check(text: &str, limit: usize, expected: &str) {
        assert_eq!(take_newest(text, limit), expected, "{limit} of {text:?}");
    }

    #[test]
    fn keeps_whole_entries_from_the_end() {
        let text = format!("head\n\n{A}{B}");
        check(&text, 6, &text);
        check(&text, 5, &format!("{OLDER_LEFT_OUT}{A}{B}"));
        check(&text, 4, &format!("{OLDER_LEFT_OUT}{B}"));
        check(&text, 3, &format!("{OLDER_LEFT_OUT}{B}"));
        check(&text, 2, &format!("{OLDER_LEFT_OUT}{B}"));
        check(
            &text,
            1,
            &format!("- [2026-11-30 14:05] b ^m-b\n{BODY_LEFT_OUT}  b3\n"),
        );
        check(B, 2, B);
        check(&format!("{B}\n{A}"), 2, &format!("{OLDER_LEFT_OUT}{A}"));
        check("a\n\nb\nc", 2, &format!("{OLDER_LEFT_OUT}b\nc"));
        check("", 0, "");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn the_limit_holds(text in "(- \\[Apr 3, 9:05 AM\\] x\n|  y\n|\n|z){0,20}", limit in 0_usize..10) {
            let cut = take_newest(&text, limit);
            prop_assert!(non_empty_lines(&cut) <= limit + 2);
            if non_empty_lines(&text) <= limit {
                prop_assert_eq!(&*cut, text.as_str());
            }
        }
    }
}
