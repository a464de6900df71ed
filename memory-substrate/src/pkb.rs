//! The personal knowledge base: a folder of notes, some of which are always shown.
//!
//! Here are only its files and their division into chunks; searching them is the index's work. The list of files that
//! are always shown is the owner's, so a missing list means the usual files and an empty one means none.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_core::env::{EntryKind, Fs};
use memory_core::services::PkbFile;
use memory_core::store::StoreResult;
use memory_core::text::prompt_file;

use crate::error::store_io;
use crate::pages::{hash_bytes, is_page_name};

/// The list of files that are always shown.
const LIST: &str = "_autoinject.md";

/// What is always shown when there is no list.
const USUAL: [&str; 4] = ["INDEX.md", "essentials.md", "threads.md", BUFFER];

/// The inbox, of which only the newest part is shown.
const BUFFER: &str = "buffer.md";

/// How many lines of the inbox are shown.
const BUFFER_LINES: usize = 50;

/// From this length on, in characters, a file is divided.
pub const LARGE_CHARS: usize = 8_000;

/// Length of a chunk, in characters, of a large file without headings.
pub const WINDOW_CHARS: usize = 4_000;

/// Digits of the hash that names a file's content.
const HASH_DIGITS: usize = 16;

/// A part of a file that is searched as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PkbChunk {
    /// Path of the file below the folder, with forward slashes.
    pub path: String,
    /// Number of the chunk in the file, from 0.
    pub chunk: u32,
    /// Its text.
    pub text: String,
    /// Hash of the whole file, the same on all its chunks.
    pub file_hash: String,
    /// When the file last changed, in milliseconds since the epoch.
    pub modified_ms: i64,
}

/// The folder of the knowledge base.
#[derive(Clone, Debug)]
pub struct PkbFolder {
    fs: Arc<dyn Fs>,
    root: PathBuf,
}

impl PkbFolder {
    /// Returns the knowledge base in a folder.
    pub fn new(fs: Arc<dyn Fs>, root: PathBuf) -> Self {
        Self { fs, root }
    }

    /// Reads the files that are always shown, in the order of the list. Blocks.
    ///
    /// An entry that leads out of the folder, is missing or has nothing to show is left out.
    pub fn always_shown(&self) -> StoreResult<Vec<PkbFile>> {
        let mut files = Vec::new();
        for listed in self.listed() {
            let Some((path, place)) = self.inside(&listed) else {
                continue;
            };
            let Ok(bytes) = self.fs.read(&place) else {
                continue;
            };
            let text = prompt_file::clean(&String::from_utf8_lossy(&bytes));
            let text = if path == BUFFER {
                last_lines(&text, BUFFER_LINES).to_owned()
            } else {
                text
            };
            if !text.trim().is_empty() {
                files.push(PkbFile { path, text });
            }
        }
        Ok(files)
    }

    /// Reads every file and divides it. `None` when there is no folder, in which case an index should be left alone: the
    /// folder may be on a disk that is not there at the moment. Blocks.
    pub fn chunks(&self) -> StoreResult<Option<Vec<PkbChunk>>> {
        match self.fs.info(&self.root) {
            Ok(info) if info.kind == EntryKind::Directory => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(store_io("look at", &self.root)(error)),
        }
        let mut chunks = Vec::new();
        for (path, modified_ms) in self.scan() {
            // A file that cannot be read is skipped, like one that went away meanwhile.
            let Ok(bytes) = self.fs.read(&self.root.join(&path)) else {
                continue;
            };
            let text = String::from_utf8_lossy(&bytes);
            let mut file_hash = hash_bytes(&bytes);
            file_hash.truncate(HASH_DIGITS);
            chunks.extend(
                split(&text)
                    .into_iter()
                    .zip(0..)
                    .map(|(text, chunk)| PkbChunk {
                        path: path.clone(),
                        chunk,
                        text: text.to_owned(),
                        file_hash: file_hash.clone(),
                        modified_ms,
                    }),
            );
        }
        Ok(Some(chunks))
    }

    fn listed(&self) -> Vec<String> {
        match self.fs.read(&self.root.join(LIST)) {
            Ok(bytes) => {
                let text = prompt_file::clean(&String::from_utf8_lossy(&bytes));
                text.lines()
                    .map(str::trim)
                    .filter(|line| !line.is_empty())
                    .map(str::to_owned)
                    .collect()
            }
            Err(_) => USUAL.map(str::to_owned).to_vec(),
        }
    }

    /// Returns the path below the folder that a listed file has, and its place, if it is a regular file there that is
    /// reached without a link.
    fn inside(&self, listed: &str) -> Option<(String, PathBuf)> {
        if listed.starts_with(['/', '\\']) {
            return None;
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in listed.split(['/', '\\']) {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()?),
                _ => parts.push(part),
            }
        }
        let (last, folders) = parts.split_last()?;
        let mut place = self.root.clone();
        for folder in folders {
            place.push(folder);
            self.is(&place, EntryKind::Directory).then_some(())?;
        }
        place.push(last);
        self.is(&place, EntryKind::File)
            .then(|| (parts.join("/"), place))
    }

    fn is(&self, place: &Path, kind: EntryKind) -> bool {
        self.fs.info(place).is_ok_and(|info| info.kind == kind)
    }

    fn scan(&self) -> Vec<(String, i64)> {
        let mut files = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            // A folder that cannot be read is skipped, as its files are.
            let Ok(entries) = self.fs.list(&self.root.join(&folder)) else {
                continue;
            };
            for entry in entries {
                let path = if folder.is_empty() {
                    entry.name.clone()
                } else {
                    format!("{folder}/{}", entry.name)
                };
                match entry.kind {
                    EntryKind::Directory if !entry.name.starts_with('.') => folders.push(path),
                    EntryKind::File if is_page_name(&entry.name) => {
                        files.push((path, entry.modified_ms));
                    }
                    _ => {}
                }
            }
        }
        files.sort();
        files
    }
}

/// Divides a file's text. The parts joined give the text.
///
/// A short text is one part. A long one is cut before each heading of level two, and one without any into windows of
/// equal length.
pub fn split(text: &str) -> Vec<&str> {
    if text.chars().nth(LARGE_CHARS - 1).is_none() {
        return vec![text];
    }
    let mut cuts: Vec<usize> = text
        .match_indices("\n## ")
        .map(|(newline, _)| newline + 1)
        .collect();
    if cuts.is_empty() && !text.starts_with("## ") {
        cuts = text
            .char_indices()
            .map(|(at, _)| at)
            .step_by(WINDOW_CHARS)
            .skip(1)
            .collect();
    }
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain(std::iter::once(text.len()));
    starts
        .zip(ends)
        .map(|(start, end)| &text[start..end])
        .collect()
}

fn last_lines(text: &str, count: usize) -> &str {
    let start = text
        .rmatch_indices('\n')
        .nth(count - 1)
        .map_or(0, |(newline, _)| newline + 1);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fs::RealFs;

    fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, PkbFolder) {
        let home = tempfile::tempdir().expect("a temporary folder");
        let root = home.path().join("pkb");
        for (path, text) in files {
            RealFs
                .write(&root.join(path), text.as_bytes())
                .expect("write");
        }
        let folder = PkbFolder::new(Arc::new(RealFs), root);
        (home, folder)
    }

    fn shown(folder: &PkbFolder) -> Vec<(String, String)> {
        folder
            .always_shown()
            .expect("read")
            .into_iter()
            .map(|file| (file.path, file.text))
            .collect()
    }

    fn pair(path: &str, text: &str) -> (String, String) {
        (path.to_owned(), text.to_owned())
    }

    #[test]
    fn without_a_list_the_usual_files_are_shown() {
        let (_home, folder) = folder(&[
            ("threads.md", "t"),
            ("INDEX.md", "_hidden\ni"),
            ("other.md", "o"),
        ]);
        assert_eq!(
            shown(&folder),
            [pair("INDEX.md", "i"), pair("threads.md", "t")]
        );
    }

    #[test]
    fn an_empty_list_shows_nothing() {
        let (_home, folder) = folder(&[("INDEX.md", "i"), (LIST, "_only a comment\n")]);
        assert_eq!(shown(&folder), []);
    }

    #[test]
    fn the_list_is_followed_in_order_and_never_out_of_the_folder() {
        let list = "b.md\n../secret.md\n/etc/hostname\nsub/../a.md\n\nmissing.md\nsub/c.md\n";
        let (home, folder) = folder(&[
            ("a.md", "a"),
            ("b.md", "b"),
            ("sub/c.md", "c"),
            (LIST, list),
        ]);
        std::fs::write(home.path().join("secret.md"), "s").expect("write");
        assert_eq!(
            shown(&folder),
            [pair("b.md", "b"), pair("a.md", "a"), pair("sub/c.md", "c")]
        );
    }

    #[test]
    fn only_the_end_of_the_inbox_is_shown() {
        let lines: Vec<String> = (1..=60).map(|number| format!("line {number}")).collect();
        let (_home, folder) = folder(&[("buffer.md", &lines.join("\n"))]);
        let files = shown(&folder);
        assert_eq!(files[0].1.lines().count(), BUFFER_LINES);
        assert!(files[0].1.starts_with("line 11\n"), "{}", files[0].1);
    }

    #[test]
    fn a_missing_folder_is_not_an_empty_one() {
        let (_home, missing) = folder(&[]);
        assert_eq!(missing.chunks().expect("read"), None);
        std::fs::create_dir(&missing.root).expect("create");
        assert_eq!(missing.chunks().expect("read"), Some(Vec::new()));
    }

    #[test]
    fn files_are_read_from_nested_folders_with_one_hash_each() {
        let long = format!("intro\n## A\n{}\n## B\nend", "x".repeat(LARGE_CHARS));
        let (_home, folder) = folder(&[
            ("topics/long.MD", &long),
            ("a.md", "short"),
            ("x.txt", "no"),
        ]);
        let chunks = folder.chunks().expect("read").expect("a folder");
        let names: Vec<(&str, u32)> = chunks
            .iter()
            .map(|chunk| (chunk.path.as_str(), chunk.chunk))
            .collect();
        assert_eq!(
            names,
            [
                ("a.md", 0),
                ("topics/long.MD", 0),
                ("topics/long.MD", 1),
                ("topics/long.MD", 2)
            ]
        );
        assert_eq!(chunks[1].file_hash, chunks[3].file_hash);
        assert_eq!(chunks[1].file_hash.len(), HASH_DIGITS);
        assert_eq!(chunks[1].text, "intro\n");
    }

    #[test]
    fn the_limit_is_counted_in_characters() {
        assert_eq!(split(&"語".repeat(LARGE_CHARS - 1)).len(), 1);
        let parts = split_lengths(&"語".repeat(LARGE_CHARS + 1));
        assert_eq!(parts, [WINDOW_CHARS, WINDOW_CHARS, 1]);
    }

    fn split_lengths(text: &str) -> Vec<usize> {
        split(text)
            .into_iter()
            .map(|part| part.chars().count())
            .collect()
    }

    proptest! {
        #[test]
        fn parts_joined_give_the_text(parts in proptest::collection::vec("[a語 #\n]{0,30}", 0..8), times in 1..2000_usize) {
            let text = parts.concat().repeat(times);
            prop_assert_eq!(split(&text).concat(), text);
        }
    }
}
