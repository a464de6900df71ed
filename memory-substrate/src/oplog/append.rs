//! What has to be appended to a file so that it holds given entries exactly once.
//!
//! The same computation serves the ordinary append and the one after a crash: an entry that is there is left alone,
//! anything else is added on a line of its own. Only if an attempt may have been cut off is the end of the file taken
//! for the beginning of the entry and completed; otherwise it is a line that a person has begun.

use std::borrow::Cow;
use std::collections::HashSet;

use memory_core::text::buffer;

/// The bytes to append to a file.
#[derive(Debug)]
pub(super) struct Appending<'a> {
    there: &'a [u8],
    text: Cow<'a, str>,
    ids: HashSet<String>,
    addition: Vec<u8>,
    header: &'a str,
}

impl<'a> Appending<'a> {
    /// Returns an empty addition to a file's bytes. The header opens a file that is still empty.
    pub(super) fn to(there: &'a [u8], header: &'a str) -> Self {
        let text = String::from_utf8_lossy(there);
        let ids = ids_of(&text);
        Self {
            there,
            text,
            ids,
            addition: Vec::new(),
            header,
        }
    }

    /// Returns whether the file has an entry, however it was edited since.
    pub(super) fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Adds what is missing of an entry, which an earlier attempt may have begun.
    pub(super) fn add(&mut self, id: Option<&str>, entry: &str, tried: bool) {
        let known = id.is_none_or(|id| self.has(id));
        if known && self.text.contains(entry) {
            return;
        }
        if tried
            && self.addition.is_empty()
            && let Some(kept) = cut_off(self.there, entry.as_bytes())
        {
            self.addition.extend_from_slice(&entry.as_bytes()[kept..]);
            return;
        }
        // Its owner edited it meanwhile.
        if id.is_some() && known {
            return;
        }
        if self.addition.is_empty() {
            match self.there.last() {
                None => self.addition.extend_from_slice(self.header.as_bytes()),
                Some(b'\n') => {}
                Some(_) => self.addition.push(b'\n'),
            }
        }
        self.addition.extend_from_slice(entry.as_bytes());
    }

    /// Returns the bytes to append.
    pub(super) fn into_addition(self) -> Vec<u8> {
        self.addition
    }
}

/// Returns what has to be appended to a file's bytes so that it has every entry of a text.
pub(super) fn addition(there: &[u8], header: &str, entries: &str, tried: bool) -> Vec<u8> {
    let mut appending = Appending::to(there, header);
    for group in buffer::split(entries) {
        appending.add(id_of(&group), group.raw, tried);
    }
    appending.into_addition()
}

/// Returns the id of an entry.
pub(super) fn id_of<'a>(group: &buffer::Group<'a>) -> Option<&'a str> {
    group.opening.and_then(|opening| opening.id)
}

/// Returns the ids of a buffer's entries.
pub(crate) fn ids_of(text: &str) -> HashSet<String> {
    buffer::split(text)
        .into_iter()
        .filter_map(|group| group.opening?.id.map(str::to_owned))
        .collect()
}

/// Returns how much of an entry the end of a file holds, if the entry was cut off there.
fn cut_off(there: &[u8], entry: &[u8]) -> Option<usize> {
    let longest = entry.len().saturating_sub(1).min(there.len());
    (1..=longest).rev().find(|kept| {
        let start = there.len() - kept;
        there[start..] == entry[..*kept] && (start == 0 || there[start - 1] == b'\n')
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Entry {
        id: String,
        entry: String,
    }

    fn entry(id: &str, text: &str) -> Entry {
        Entry {
            id: id.to_owned(),
            entry: buffer::write_entry(text, "2026-11-30 14:05", id).expect("a good entry"),
        }
    }

    fn add(appending: &mut Appending<'_>, entry: &Entry) {
        appending.add(Some(&entry.id), &entry.entry, false);
    }

    fn after(there: &[u8], entries: &[Entry]) -> Vec<u8> {
        appended(there, entries, false)
    }

    fn appended(there: &[u8], entries: &[Entry], tried: bool) -> Vec<u8> {
        let mut appending = Appending::to(there, "");
        for entry in entries {
            appending.add(Some(&entry.id), &entry.entry, tried);
        }
        [there, &appending.into_addition()].concat()
    }

    #[test]
    fn the_header_opens_only_an_empty_file() {
        let mut first = Appending::to(b"", "# day\n\n");
        add(&mut first, &entry("1", "a"));
        assert_eq!(
            first.into_addition(),
            b"# day\n\n- [2026-11-30 14:05] a ^m-1\n"
        );
        let mut second = Appending::to(b"# day\n", "# day\n\n");
        add(&mut second, &entry("1", "a"));
        assert_eq!(second.into_addition(), b"- [2026-11-30 14:05] a ^m-1\n");
    }

    #[test]
    fn an_entry_never_continues_a_persons_line() {
        let text = after(b"my own note", &[entry("1", "a")]);
        assert_eq!(text, b"my own note\n- [2026-11-30 14:05] a ^m-1\n");
        let text = after(b"- [", &[entry("1", "a")]);
        assert_eq!(text, b"- [\n- [2026-11-30 14:05] a ^m-1\n");
    }

    #[test]
    fn an_entry_that_its_owner_edited_is_not_added_again() {
        let there = b"- [2026-11-30 14:05] a, corrected ^m-1\n- [2026-11-30 14:06] b ^m-2\n";
        assert_eq!(after(there, &[entry("1", "a")]), there);
    }

    proptest! {
        #[test]
        fn any_cut_is_completed(
            before in "([a-z ]{0,12}\n){0,2}",
            texts in proptest::collection::vec("[a-zé語\n]{1,40}[a-z]", 1..4),
            at in any::<prop::sample::Index>(),
        ) {
            let entries: Vec<Entry> =
                texts.iter().enumerate().map(|(number, text)| entry(&format!("i{number}"), text)).collect();
            let whole = after(before.as_bytes(), &entries);
            let cut = before.len() + at.index(whole.len() - before.len() + 1);
            let repaired = appended(&whole[..cut], &entries, true);
            for entry in &entries {
                let text = String::from_utf8_lossy(&repaired);
                prop_assert_eq!(text.matches(&format!("^m-{}\n", entry.id)).count(), 1, "{:?}", text);
                prop_assert!(text.contains(&entry.entry), "{text:?}");
            }
            let again = appended(&repaired, &entries, true);
            prop_assert_eq!(&again, &repaired);
            prop_assert_eq!(repaired, whole);
        }
    }
}
