//! What an acknowledged change comes to, given what its file holds now.
//!
//! The same decision serves the ordinary write, the one after a crash and the reader who looks before either: bytes as
//! they were before mean that it is still to do, bytes as they are to be mean that it was done, and anything else that
//! a person was faster. Then both texts are merged by lines, and if that cannot be, both are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use memory_core::text::buffer;

use super::operation::Change;
use crate::entries::without;

/// Longest file name that common file systems take, in bytes.
const LONGEST_NAME: usize = 255;

/// What has to happen to a file so that it holds a written text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Nothing: it does.
    InPlace,
    /// It gets these bytes.
    Put { bytes: Vec<u8>, merged: bool },
    /// It stays, and the text goes beside it.
    Conflict,
}

/// Decides about a file that is to be replaced.
pub(super) fn written(current: Option<&[u8]>, base: Option<&[u8]>, content: &[u8]) -> Written {
    let put = |bytes: &[u8], merged| Written::Put {
        bytes: bytes.to_vec(),
        merged,
    };
    match (current, base) {
        (Some(current), _) if current == content => Written::InPlace,
        (current, base) if current == base => put(content, false),
        // Somebody deleted it, so no text of theirs is in the way.
        (None, _) => put(content, false),
        (Some(current), Some(base)) => match diffy::merge_bytes(base, content, current) {
            Ok(merged) if merged == current => Written::InPlace,
            Ok(merged) => put(&merged, true),
            Err(_) => Written::Conflict,
        },
        (Some(_), None) => Written::Conflict,
    }
}

/// What has to happen so that a file has its new path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renamed {
    /// Nothing: it has.
    InPlace,
    /// It is moved, with whatever it holds by now.
    Move,
    /// Both are gone; it is written anew.
    Anew,
    /// The old one is a copy of the new one and goes away.
    RemoveOld,
    /// Another file took the path; it is moved beside that.
    Clash,
}

/// Decides about a file that is to be renamed.
pub(super) fn renamed(from: Option<&[u8]>, to: Option<&[u8]>, content: &[u8]) -> Renamed {
    match (from, to) {
        (Some(_), None) => Renamed::Move,
        (None, Some(_)) => Renamed::InPlace,
        (None, None) => Renamed::Anew,
        (Some(from), Some(to)) if from == content && to == content => Renamed::RemoveOld,
        (Some(_), Some(_)) => Renamed::Clash,
    }
}

/// What has to happen to a file so that it has an entry no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// Nothing: it has not.
    InPlace,
    /// It gets these bytes.
    Put(Vec<u8>),
    /// It stays, because somebody edited the entry.
    Edited,
}

/// Decides about a file from which entries are to be taken out, each as a whole or, if somebody edited it, not at all.
pub(super) fn removed(current: &[u8], entries: &[u8]) -> Removal {
    let (mut gone, mut is_edited) = (BTreeSet::new(), false);
    let mut there: BTreeMap<String, Vec<Range<usize>>> = BTreeMap::new();
    for (id, place) in buffer::entries_in(current) {
        there.entry(id).or_default().push(place);
    }
    for (id, range) in buffer::entries_in(entries) {
        let Some(places) = there.get(&id) else {
            continue;
        };
        // An editor may have taken the line end off the last line of the file, or put one there.
        let entry = entries[range].trim_ascii_end();
        if places
            .iter()
            .all(|place| current[place.clone()].trim_ascii_end() == entry)
        {
            gone.insert(id);
        } else {
            is_edited = true;
        }
    }
    if !gone.is_empty() {
        Removal::Put(without(current, |found| gone.contains(found)))
    } else if is_edited {
        Removal::Edited
    } else {
        Removal::InPlace
    }
}

/// Returns whether a file that is to be deleted is still what was to be deleted.
pub(super) fn may_go(current: &[u8], base: &[u8]) -> bool {
    current == base
}

/// Returns the bytes a path has once a change is applied to what it has now, as far as that can be told without
/// touching anything. `tried` tells whether applying it may have begun, `other` what the old path of a rename holds.
pub(super) fn effect(
    path: &str,
    change: &Change,
    current: Option<Vec<u8>>,
    tried: bool,
    other: impl FnOnce() -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    match change {
        Change::Write { base, content, .. } => {
            match written(current.as_deref(), base.as_deref(), content) {
                Written::Put { bytes, .. } => Some(bytes),
                Written::InPlace | Written::Conflict => current,
            }
        }
        Change::Append { header, content } => {
            let mut bytes = current.unwrap_or_default();
            let addition = super::append::addition(&bytes, header, content, tried);
            bytes.extend_from_slice(&addition);
            Some(bytes)
        }
        Change::Remove { entries } => current.map(|current| match removed(&current, entries) {
            Removal::Put(left) => left,
            Removal::InPlace | Removal::Edited => current,
        }),
        Change::Delete { base } => current.filter(|current| !may_go(current, base)),
        Change::Rename { to, content } if path == to => {
            current.or_else(|| Some(other().unwrap_or_else(|| content.clone())))
        }
        Change::Rename { .. } => None,
    }
}

/// Returns the path of the copy that keeps an operation's text beside a file that was edited meanwhile.
pub(super) fn conflict_copy(path: &str, operation: &str) -> String {
    let (folder, name) = match path.rsplit_once('/') {
        Some((folder, name)) => (Some(folder), name),
        None => (None, path),
    };
    let (stem, ending) = match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => (stem, Some(ending)),
        _ => (name, None),
    };
    let mut suffix = format!(" (conflict {operation})");
    if let Some(ending) = ending {
        suffix.push('.');
        suffix.push_str(ending);
    }
    let mut cut = stem.len().min(LONGEST_NAME.saturating_sub(suffix.len()));
    while !stem.is_char_boundary(cut) {
        cut -= 1;
    }
    let name = format!("{}{suffix}", &stem[..cut]);
    folder.map_or(name.clone(), |folder| format!("{folder}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(text: &str, merged: bool) -> Written {
        Written::Put {
            bytes: text.into(),
            merged,
        }
    }

    fn decide(current: Option<&str>, base: Option<&str>, content: &str) -> Written {
        written(
            current.map(str::as_bytes),
            base.map(str::as_bytes),
            content.as_bytes(),
        )
    }

    #[test]
    fn a_write_is_done_once_and_never_over_an_edit() {
        assert_eq!(decide(Some("new"), Some("old"), "new"), Written::InPlace);
        assert_eq!(decide(None, None, "new"), put("new", false));
        assert_eq!(decide(Some("old"), Some("old"), "new"), put("new", false));
        assert_eq!(decide(None, Some("old"), "new"), put("new", false));
        let base = "one\ntwo\nthree\nfour\nfive\n";
        let edited = "ONE\ntwo\nthree\nfour\nfive\n";
        let ours = "one\ntwo\nthree\nfour\nFIVE\n";
        assert_eq!(
            decide(Some(edited), Some(base), ours),
            put("ONE\ntwo\nthree\nfour\nFIVE\n", true)
        );
        let clashing = "uno\ntwo\nthree\nfour\nfive\n";
        assert_eq!(
            decide(Some(edited), Some(base), clashing),
            Written::Conflict
        );
        assert_eq!(decide(Some("theirs"), None, "ours"), Written::Conflict);
    }

    #[test]
    fn an_entry_is_taken_out_alone_and_only_as_it_was() {
        const ENTRY: &str = "- [2026-11-30 14:05] a ^m-1\n  more\n";
        let remove = |text: &str| removed(text.as_bytes(), ENTRY.as_bytes());
        let put = |text: &str| Removal::Put(text.into());
        assert_eq!(remove(""), Removal::InPlace);
        assert_eq!(remove("- [2026-11-30 14:05] a ^m-2\n"), Removal::InPlace);
        assert_eq!(remove(ENTRY), put(""));
        assert_eq!(remove(ENTRY.trim_end()), put(""));
        let text = format!("prose\n\n{ENTRY}\nmore prose\n{ENTRY}");
        assert_eq!(remove(&text), put("prose\n\n\nmore prose\n"));
        for edited in [
            ENTRY.replace("a ^", "b ^"),
            format!("{ENTRY}  and more\n"),
            format!("{ENTRY}{}", ENTRY.replace("more", "less")),
        ] {
            assert_eq!(remove(&edited), Removal::Edited, "{edited}");
        }
    }

    #[test]
    fn a_rename_carries_whatever_the_file_holds() {
        let rename = |from: Option<&str>, to: Option<&str>| {
            renamed(from.map(str::as_bytes), to.map(str::as_bytes), b"x")
        };
        assert_eq!(rename(Some("x"), None), Renamed::Move);
        assert_eq!(rename(Some("edited"), None), Renamed::Move);
        assert_eq!(rename(None, Some("x")), Renamed::InPlace);
        assert_eq!(rename(None, None), Renamed::Anew);
        assert_eq!(rename(Some("x"), Some("x")), Renamed::RemoveOld);
        assert_eq!(rename(Some("x"), Some("other")), Renamed::Clash);
    }

    #[test]
    fn a_copy_stands_beside_its_file_under_a_name_that_fits() {
        assert_eq!(
            conflict_copy("memory/concepts/a/Kiwi plan.md", "op1"),
            "memory/concepts/a/Kiwi plan (conflict op1).md"
        );
        let long = format!("{}.md", "语".repeat(84));
        let copy = conflict_copy(&long, "op1");
        assert!(copy.len() <= LONGEST_NAME && copy.ends_with(" (conflict op1).md"));
    }
}
