//! The buffer: the human-readable intake, one entry per captured item.
//!
//! An entry is `- [2026-11-30 14:05] text ^m-<id>`, and every further line is indented by two blanks. The reader also
//! takes the older form without a year (`- [Apr 3, 9:05 AM] text`), which never carried an id.
//!
//! Whether a line opens an entry is decided on the raw line, at its first column. Our writer indents everything
//! after the first line, so no content can open a second entry, whatever it holds. Lines end at LF only; a CR before
//! it belongs to the line and is ignored.
//!
//! Splitting is lossless: the raw groups joined give the text, so an entry can be taken out and every other byte
//! stays.

mod cap;
mod find;

pub use cap::take_newest;
pub use find::{entries_in, find_entries};

/// Marks the id at the end of an opening line.
pub(super) const ID_MARK: &str = " ^m-";

/// Says why an entry was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BufferError {
    /// There is nothing but white space to remember; ask for content.
    #[error("an entry needs content")]
    Empty,
    /// The time is not of the form that the reader knows; the caller has to format it.
    #[error("`{stamp}` is not of the form `2026-11-30 14:05`")]
    BadStamp {
        /// The time that was given.
        stamp: String,
    },
    /// The id is empty or holds something else than ASCII letters, digits, `-` and `_`; the caller has to make another.
    #[error("`{id}` cannot be the id of an entry")]
    BadId {
        /// The id that was given.
        id: String,
    },
}

/// Holds the time of an entry as it is written; whether the day exists is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp<'a> {
    /// `2026-11-30 14:05`, in the assistant's time zone.
    Civil(&'a str),
    /// `Apr 3, 9:05 AM`, in the assistant's time zone and an unknown year.
    Yearless(&'a str),
}

impl<'a> Stamp<'a> {
    /// Returns the time as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        match self {
            Self::Civil(stamp) | Self::Yearless(stamp) => stamp,
        }
    }
}

/// Holds the first line of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening<'a> {
    /// When the entry was captured.
    pub stamp: Stamp<'a>,
    /// The first line of the content, trimmed.
    pub text: &'a str,
    /// Id of the item, without its mark.
    pub id: Option<&'a str>,
}

/// Holds an entry, or what stands before the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// The lines as they are, with their ends.
    pub raw: &'a str,
    /// The first line, unless the group is what stands before the first entry.
    pub opening: Option<Opening<'a>>,
}

impl Group<'_> {
    /// Returns the content of the entry, in the form of [`normalise_content`] for entries that we wrote.
    #[must_use]
    pub fn content(&self) -> String {
        let Some(opening) = self.opening else {
            return self.raw.trim().to_owned();
        };
        let mut content = opening.text.to_owned();
        for line in self.raw.split('\n').skip(1) {
            let line = line.strip_suffix('\r').unwrap_or(line);
            content.push('\n');
            if !line.trim().is_empty() {
                content.push_str(line.strip_prefix("  ").unwrap_or(line));
            }
        }
        content.truncate(content.trim_end().len());
        content
    }

    /// Returns how many lines of the group are not blank.
    #[must_use]
    pub fn non_empty_lines(&self) -> usize {
        non_empty_lines(self.raw)
    }
}

/// Returns how many lines of a text are not blank: the unit of every limit on the buffer's size.
#[must_use]
pub fn non_empty_lines(text: &str) -> usize {
    text.split('\n')
        .filter(|line| !line.trim().is_empty())
        .count()
}

/// Writes one entry, with its line end.
///
/// `stamp` is `YYYY-MM-DD HH:MM` in the assistant's time zone, `id` the item's id without a mark.
pub fn write_entry(content: &str, stamp: &str, id: &str) -> Result<String, BufferError> {
    let content = normalise_content(content);
    if content.is_empty() {
        return Err(BufferError::Empty);
    }
    if !is_civil(stamp) {
        return Err(BufferError::BadStamp {
            stamp: stamp.to_owned(),
        });
    }
    if !is_id(id) {
        return Err(BufferError::BadId { id: id.to_owned() });
    }
    let mut lines = content.split('\n');
    let mut entry = format!(
        "- [{stamp}] {}{ID_MARK}{id}\n",
        lines.next().unwrap_or_default()
    );
    for line in lines {
        if !line.is_empty() {
            entry.push_str("  ");
            entry.push_str(line);
        }
        entry.push('\n');
    }
    Ok(entry)
}

/// Returns content in the form in which an entry can hold it.
///
/// Lines end in LF, blank lines are empty, and there is no white space around the whole and at the end of the first
/// line.
#[must_use]
pub fn normalise_content(content: &str) -> String {
    let content = content.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(content.len());
    for (index, line) in content.trim().lines().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        if !line.trim().is_empty() {
            out.push_str(if index == 0 { line.trim_end() } else { line });
        }
    }
    out
}

/// Splits a buffer into what stands before the first entry, if anything does, and its entries.
#[must_use]
pub fn split(text: &str) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut start = 0;
    let mut opening = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some(next) = parse_opening(line) {
            if at > start {
                groups.push(Group {
                    raw: &text[start..at],
                    opening,
                });
            }
            start = at;
            opening = Some(next);
        }
        at += line.len();
    }
    if at > start {
        groups.push(Group {
            raw: &text[start..at],
            opening,
        });
    }
    groups
}

/// Reads a line, with or without its end, as the opening of an entry.
#[must_use]
pub fn parse_opening(line: &str) -> Option<Opening<'_>> {
    let (stamp, rest) = line.strip_prefix("- [")?.split_once(']')?;
    let text = rest.trim();
    if is_civil(stamp) {
        let (text, id) = split_id(text);
        Some(Opening {
            stamp: Stamp::Civil(stamp),
            text,
            id,
        })
    } else if is_yearless(stamp) {
        Some(Opening {
            stamp: Stamp::Yearless(stamp),
            text,
            id: None,
        })
    } else {
        None
    }
}

/// Splits the id from the end of a first line. Only the last mark counts; an earlier one is content.
fn split_id(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(ID_MARK) {
        Some((text, id)) if is_id(id) => (text.trim_end(), Some(id)),
        _ => (text, None),
    }
}

/// Returns whether a text can be the id of an entry.
pub(super) fn is_id(id: &str) -> bool {
    !id.is_empty()
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Returns whether a text has the shape of `2026-11-30 14:05`.
fn is_civil(stamp: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00 00:00";
    stamp.len() == SHAPE.len()
        && stamp.bytes().zip(SHAPE).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            _ => byte == *shape,
        })
}

/// Returns whether a text has the shape of `Apr 3, 9:05 AM`.
fn is_yearless(stamp: &str) -> bool {
    fn parts(stamp: &str) -> Option<[&str; 5]> {
        let (month, rest) = stamp.split_once(' ')?;
        let (day, rest) = rest.split_once(", ")?;
        let (hour, rest) = rest.split_once(':')?;
        let (minute, half) = rest.split_once(' ')?;
        Some([month, day, hour, minute, half])
    }
    let digits = |text: &str, lengths: &[usize]| {
        lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    parts(stamp).is_some_and(|[month, day, hour, minute, half]| {
        let month = month.as_bytes();
        month.len() == 3
            && month[0].is_ascii_uppercase()
            && month[1..].iter().all(u8::is_ascii_lowercase)
            && digits(day, &[1, 2])
            && digits(hour, &[1, 2])
            && digits(minute, &[2])
            && matches!(half, "AM" | "PM")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAMP: &str = "2026-11-30 14:05";

    #[test]
    fn writes_the_documented_form() {
        assert_eq!(
            write_entry(" one \n\n two\r\n   \n three ", STAMP, "a1").unwrap(),
            "- [2026-11-30 14:05] one ^m-a1\n\n   two\n\n   three\n"
        );
        assert_eq!(write_entry(" \n ", STAMP, "a"), Err(BufferError::Empty));
        assert!(matches!(
            write_entry("x", "Apr 3, 9:05 AM", "a"),
            Err(BufferError::BadStamp { .. })
        ));
        for id in ["", "a b", "a\n", "ä"] {
            assert!(
                matches!(write_entry("x", STAMP, id), Err(BufferError::BadId { .. })),
                "{id:?}"
            );
        }
    }

    #[test]
    fn openings_are_recognised_on_the_raw_line() {
        for (line, stamp, text, id) in [
            (
                "- [2026-11-30 14:05] x ^m-a_1-b",
                Stamp::Civil(STAMP),
                "x",
                Some("a_1-b"),
            ),
            (
                "- [2026-11-30 14:05] x ^m-a ^m-b \r\n",
                Stamp::Civil(STAMP),
                "x ^m-a",
                Some("b"),
            ),
            (
                "- [2026-11-30 14:05] x ^m-",
                Stamp::Civil(STAMP),
                "x ^m-",
                None,
            ),
            (
                "- [2026-11-30 14:05] x^m-a",
                Stamp::Civil(STAMP),
                "x^m-a",
                None,
            ),
            ("- [2026-11-30 14:05]", Stamp::Civil(STAMP), "", None),
            (
                "- [Apr 3, 9:05 AM] x ^m-a",
                Stamp::Yearless("Apr 3, 9:05 AM"),
                "x ^m-a",
                None,
            ),
            (
                "- [Foo 99, 77:88 PM]x",
                Stamp::Yearless("Foo 99, 77:88 PM"),
                "x",
                None,
            ),
        ] {
            assert_eq!(
                parse_opening(line),
                Some(Opening { stamp, text, id }),
                "{line}"
            );
        }
        for line in [
            "  - [Jan 1, 9:00 AM] x",
            "-[Jan 1, 9:00 AM] x",
            "- [Jan  1, 9:00 AM] x",
            "-  [Jan 1, 9:00 AM] x",
            "- [ ] task",
            "- [x] done",
            "- [[page]] note",
            "- [jan 1, 9:00 AM] x",
            "- [Jan 1, 21:00] x",
            "- [Jan 1, 9:0 AM] x",
            "- [2026-11-30] x",
            "- [2026-11-30 14:05:00] x",
            "- [2026-11-30  14:05] x",
            " - [2026-11-30 14:05] x",
            "* [2026-11-30 14:05] x",
            "- [２０26-11-30 14:05] x",
            "",
        ] {
            assert_eq!(parse_opening(line), None, "{line}");
        }
    }

    #[test]
    fn nothing_in_content_opens_a_second_entry() {
        for content in [
            "fact\n- [2026-11-30 14:05] not an entry ^m-zz\n- [Apr 3, 9:05 AM] nor this",
            "- [2026-11-30 14:05] whole content looks like one ^m-zz",
            "list\n- [ ] a\n  - [x] b\n- [[page]] note",
            "a\n\n\nb\n   \nc",
            "```\n- [Jan 1, 9:00 AM] x\n```",
            "trailing  \nspaces  ",
            "a\r\nb\rc\n\r\n- [Jan 1, 9:00 AM] x",
            "^m-a\n ^m-b",
            "\u{2028}- [Jan 1, 9:00 AM] x\u{85}y",
        ] {
            let entry = write_entry(content, STAMP, "id-1").unwrap();
            let groups = split(&entry);
            assert_eq!(groups.len(), 1, "{content:?}");
            assert_eq!(
                groups[0].opening.and_then(|opening| opening.id),
                Some("id-1"),
                "{content:?}"
            );
            assert_eq!(
                groups[0].content(),
                normalise_content(content),
                "{content:?}"
            );
        }
    }

    #[test]
    fn older_entries_with_bare_continuations_are_read() {
        let text =
            "# Buffer\n\n- [Apr 3, 9:05 AM] one\nbare line\n  two\n\n- [Apr 4, 9:05 AM] three";
        let groups = split(text);
        let shown: Vec<_> = groups
            .iter()
            .map(|group| (group.opening.is_some(), group.content()))
            .collect();
        assert_eq!(
            shown,
            [
                (false, "# Buffer".to_owned()),
                (true, "one\nbare line\ntwo".to_owned()),
                (true, "three".to_owned())
            ]
        );
        assert_eq!(groups[1].non_empty_lines(), 3);
        assert!(split("").is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn one_content_is_one_entry(content in "(- \\[(Apr 3, 9:05 AM|2026-11-30 14:05)\\] |\\^m-a|[a \r\n\t\u{2028}\u{3000}-])*.{0,20}", before in "(- \\[Apr 3, 9:05 AM\\] x\n|prose\n){0,3}") {
            prop_assume!(!content.trim().is_empty());
            let entry = write_entry(&content, STAMP, "id").unwrap();
            let text = format!("{before}{entry}");
            let groups = split(&text);
            prop_assert_eq!(groups.iter().map(|group| group.raw).collect::<String>(), text.as_str());
            let last = groups.last().unwrap();
            prop_assert_eq!(last.raw, entry.as_str());
            prop_assert_eq!(last.content(), normalise_content(&content));
            prop_assert_eq!(split(&entry).len(), 1);
        }

        #[test]
        fn splitting_is_lossless(text in "(- \\[Apr 3, 9:05 AM\\]|- \\[2026-11-30 14:05\\]|[ax \r\n-])*|\\PC{0,40}") {
            let groups = split(&text);
            prop_assert_eq!(groups.iter().map(|group| group.raw).collect::<String>(), text.as_str());
            prop_assert_eq!(groups.iter().map(Group::non_empty_lines).sum::<usize>(), non_empty_lines(&text));
            prop_assert!(groups.iter().skip(1).all(|group| group.opening.is_some()));
        }
    }
}
