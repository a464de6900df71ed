//! Looking for texts in bytes: every file of an assistant, whatever it holds.
//!
//! A file may be a database or an index, so nothing is parsed: a text is looked for as the bytes it has in a file of
//! text, and as those it has inside a JSON string. Texts that are shorter than a few words stand everywhere and prove
//! nothing, so they are left out.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Shorter texts are not looked for.
pub(crate) const SHORTEST: usize = 12;
/// Bytes by which a place is judged before a text is compared there.
const PREFIX: usize = 8;
/// Bits of the number by which a place is judged.
const BITS: u32 = 16;
/// Bytes read at once.
const BUFFER: usize = 1 << 20;

/// Texts to be looked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needles {
    texts: Vec<Vec<u8>>,
    filter: Vec<bool>,
    longest: usize,
}

impl Needles {
    /// Returns what is to be looked for so that no line of these texts is missed.
    pub(crate) fn of_lines<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let lines = texts.into_iter().flat_map(str::lines).map(str::trim);
        Self::of(lines.filter(|line| line.len() >= SHORTEST))
    }

    /// Returns what is to be looked for so that none of these texts is missed.
    pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut found: Vec<Vec<u8>> = Vec::new();
        for text in texts.into_iter().filter(|text| text.len() >= SHORTEST) {
            let quoted = serde_json::to_string(text).unwrap_or_default();
            let inside = quoted.get(1..quoted.len().saturating_sub(1));
            let escaped = inside.unwrap_or(text).as_bytes();
            found.extend([text.as_bytes().to_vec(), escaped.to_vec()]);
        }
        found.sort_unstable();
        found.dedup();
        let mut filter = vec![false; 1 << BITS];
        for text in &found {
            filter[judged(text)] = true;
        }
        Self {
            longest: found.iter().map(Vec::len).max().unwrap_or(0),
            texts: found,
            filter,
        }
    }

    /// Returns the same needles without those that a text holds.
    pub(crate) fn without(self, held: &[Vec<u8>]) -> Self {
        let rest: Vec<Vec<u8>> = self
            .texts
            .into_iter()
            .filter(|text| !held.contains(text))
            .collect();
        let mut filter = vec![false; 1 << BITS];
        for text in &rest {
            filter[judged(text)] = true;
        }
        Self {
            longest: rest.iter().map(Vec::len).max().unwrap_or(0),
            texts: rest,
            filter,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns whether bytes hold one of the texts.
    pub(crate) fn are_in(&self, bytes: &[u8]) -> bool {
        self.first_in(bytes).is_some()
    }

    /// Returns the texts that bytes hold.
    pub(crate) fn all_in(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut found: Vec<Vec<u8>> = Vec::new();
        self.visit(bytes, &mut |text| {
            if !found.iter().any(|known| known == text) {
                found.push(text.to_vec());
            }
            false
        });
        found
    }

    fn first_in(&self, bytes: &[u8]) -> Option<()> {
        let mut found = None;
        self.visit(bytes, &mut |_| {
            found = Some(());
            true
        });
        found
    }

    fn visit(&self, bytes: &[u8], ends: &mut dyn FnMut(&[u8]) -> bool) {
        if self.texts.is_empty() {
            return;
        }
        for (at, window) in bytes.windows(PREFIX).enumerate() {
            if !self.filter[judged(window)] {
                continue;
            }
            for text in &self.texts {
                if bytes[at..].starts_with(text) && ends(text) {
                    return;
                }
            }
        }
    }

    /// Returns whether a file holds one of the texts.
    pub(crate) fn are_in_file(&self, path: &Path) -> io::Result<bool> {
        let mut file = File::open(path)?;
        let mut bytes = Vec::new();
        loop {
            let before = bytes.len();
            let read = file.by_ref().take(BUFFER as u64).read_to_end(&mut bytes)?;
            if self.are_in(&bytes) {
                return Ok(true);
            }
            if read == 0 || bytes.len() == before {
                return Ok(false);
            }
            // A text may lie across the end of what was read.
            let kept = bytes.len().min(self.longest);
            bytes.drain(..bytes.len() - kept);
        }
    }
}

fn judged(bytes: &[u8]) -> usize {
    let mut first = [0; PREFIX];
    first.copy_from_slice(&bytes[..PREFIX]);
    let mixed = u64::from_le_bytes(first).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> (64 - BITS)).unwrap_or(0)
}

/// Returns every plain file below a folder, sorted.
pub(crate) fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_wherever_it_lies_and_however_it_is_quoted() {
        let needles = Needles::of_lines(["short\n  the \"quoted\" harbour  \nanother long line"]);
        assert!(!needles.are_in(b"short and the harbour"));
        assert!(needles.are_in(b"\0\0the \"quoted\" harbour\xff"));
        assert!(needles.are_in(br#"{"a":"the \"quoted\" harbour"}"#));
        assert_eq!(
            needles
                .all_in(b"another long line, another long line")
                .len(),
            1
        );
        let held = needles.all_in(b"another long line");
        let rest = needles.without(&held);
        assert!(!rest.are_in(b"another long line") && rest.are_in(b"the \"quoted\" harbour"));
        assert!(!Needles::of_lines(["tiny"]).are_in(b"tiny"));
    }

    #[test]
    fn a_text_across_the_end_of_a_buffer_is_found() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("large");
        let needles = Needles::of_lines(["the harbour is closed"]);
        for before in [0, BUFFER - 5, BUFFER, 2 * BUFFER - 1] {
            let mut bytes = vec![b'.'; before];
            bytes.extend_from_slice(b"the harbour is closed");
            bytes.extend_from_slice(&[b'.'; 40]);
            std::fs::write(&path, &bytes).expect("written");
            assert!(needles.are_in_file(&path).expect("read"), "{before}");
        }
        std::fs::write(&path, vec![b'.'; 3 * BUFFER]).expect("written");
        assert!(!needles.are_in_file(&path).expect("read"));
    }
}
