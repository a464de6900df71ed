//! Entries of the buffer and the archive as they stand in their files.

use memory_core::text::buffer;

/// Returns a file without the entries that are named, and with every other byte of it: what a person put between entries
/// is theirs.
pub(crate) fn without(bytes: &[u8], is_named: impl Fn(&str) -> bool) -> Vec<u8> {
    let mut rest = Vec::with_capacity(bytes.len());
    let mut at = 0;
    for (id, range) in buffer::entries_in(bytes) {
        if is_named(&id) {
            rest.extend_from_slice(&bytes[at..range.start]);
            at = range.end;
        }
    }
    rest.extend_from_slice(&bytes[at..]);
    rest
}

/// Returns only the entries that are named, one after the other.
pub(crate) fn only(bytes: &[u8], is_named: impl Fn(&str) -> bool) -> Vec<u8> {
    let named = buffer::entries_in(bytes)
        .into_iter()
        .filter(|(id, _)| is_named(id));
    named
        .flat_map(|(_, range)| &bytes[range])
        .copied()
        .collect()
}

/// Returns what an entry says, given its bytes.
pub(crate) fn content_of(entry: &[u8]) -> String {
    let text = String::from_utf8_lossy(entry);
    buffer::split(&text)
        .first()
        .map(buffer::Group::content)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: &str = "# Mine\n\n- [2026-11-30 14:05] one ^m-a\n  more\nmy own prose\n- [2026-11-30 14:06] two ^m-b\n\nand more of mine\n";

    #[test]
    fn what_a_person_wrote_between_entries_stays() {
        let rest = without(BUFFER.as_bytes(), |id| id == "a");
        assert_eq!(
            String::from_utf8(rest).expect("text"),
            "# Mine\n\nmy own prose\n- [2026-11-30 14:06] two ^m-b\n\nand more of mine\n"
        );
        assert_eq!(without(BUFFER.as_bytes(), |_| false), BUFFER.as_bytes());
        let entries = only(BUFFER.as_bytes(), |_| true);
        assert_eq!(
            String::from_utf8(entries).expect("text"),
            "- [2026-11-30 14:05] one ^m-a\n  more\n- [2026-11-30 14:06] two ^m-b\n"
        );
        assert_eq!(
            content_of(b"- [2026-11-30 14:05] one ^m-a\n  more\n"),
            "one\nmore"
        );
    }

    #[test]
    fn bytes_that_are_no_text_stay_what_they_are() {
        let bytes = b"\xff\n- [2026-11-30 14:05] one ^m-a\n\xfe\n";
        assert_eq!(without(bytes, |_| true), b"\xff\n\xfe\n");
    }
}
