//! Finding the page files and giving each its slug.
//!
//! An owner may drop any file into the folder, so two names can lead to one slug. The file that carries the slug's own
//! name keeps it, because other pages link to that; the others get a suffix made from their path, which stays the same
//! at every scan, and are reported.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use memory_core::env::{EntryKind, FileInfo, Fs};
use memory_core::store::StoreResult;
use memory_core::text::slug::Slug;

use crate::error::store_io;
use crate::fs::TEMPORARY_MARK;

/// Where a page goes whose own folder is reserved for synthetic pages.
const ALTERNATIVE_TO_RESERVED: &str = "notes/";

/// A page's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFile {
    /// Its path below the folder, with forward slashes.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Modification time in milliseconds since the epoch.
    pub modified_ms: i64,
}

/// A page whose file does not have the slug that its name asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenamedPage {
    /// The file's path below the folder.
    pub path: String,
    /// The slug its name asks for, which another file has.
    pub wanted: Slug,
    /// The slug it has instead.
    pub slug: Slug,
}

/// Every page's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageMap {
    /// The files by slug.
    pub files: BTreeMap<Slug, PageFile>,
    /// Files that could not have the slug of their name.
    pub renamed: Vec<RenamedPage>,
    /// Folders that could not be read, with the reason.
    pub unreadable: Vec<(String, String)>,
}

/// Returns the slug that a file's name asks for.
pub(crate) fn wanted_slug(relative: &str) -> Slug {
    let slug = Slug::from_path(relative);
    if slug.is_reserved() {
        Slug::from_path(&format!("{ALTERNATIVE_TO_RESERVED}{relative}"))
    } else {
        slug
    }
}

/// Returns the slug and the path below the folder of pages that the file of a page has, from its path in the
/// assistant's folder.
pub(crate) fn page_of_path(path: &str) -> (Slug, String) {
    let relative = path.strip_prefix("memory/concepts/").unwrap_or(path);
    (wanted_slug(relative), relative.to_owned())
}

/// Returns a slug like the wanted one that is free, made from a seed so that it is the same every time.
pub(crate) fn free_slug(wanted: &Slug, seed: &str, is_taken: impl Fn(&Slug) -> bool) -> Slug {
    let mut candidate = wanted.with_hash_suffix(seed);
    let mut attempt = 1_u32;
    while is_taken(&candidate) {
        candidate = wanted.with_hash_suffix(&format!("{seed}\u{0}{attempt}"));
        attempt += 1;
    }
    candidate
}

/// Returns whether a file's name is that of a page.
pub(crate) fn is_page_name(name: &str) -> bool {
    let ending = name.len().checked_sub(3).and_then(|cut| name.get(cut..));
    ending.is_some_and(|ending| ending.eq_ignore_ascii_case(".md")) && !is_hidden(name)
}

/// Returns whether an entry is none of our business: hidden, or a write that is under way.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || name.contains(TEMPORARY_MARK)
}

/// Looks at every file below a folder. A folder that does not exist has none.
pub(super) fn scan(fs: &dyn Fs, folder: &Path) -> StoreResult<PageMap> {
    let mut map = PageMap::default();
    let mut files = Vec::new();
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((place, relative)) = folders.pop() {
        let entries = match fs.list(&place) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) if relative.is_empty() => return Err(store_io("list", folder)(error)),
            Err(error) => {
                map.unreadable.push((relative, error.to_string()));
                continue;
            }
        };
        for entry in entries.into_iter().filter(|entry| !is_hidden(&entry.name)) {
            let path = if relative.is_empty() {
                entry.name.clone()
            } else {
                format!("{relative}/{}", entry.name)
            };
            // Names are read lossily, and what stands for something else leads to no file.
            if entry.name.contains(char::REPLACEMENT_CHARACTER)
                && is_relevant(&entry)
                && fs.info(&place.join(&entry.name)).is_err()
            {
                map.unreadable
                    .push((path, "its name is not Unicode; rename it".to_owned()));
                continue;
            }
            match entry.kind {
                EntryKind::Directory => {
                    folders.push((PathBuf::from(&place).join(&entry.name), path));
                }
                EntryKind::File if is_page_name(&entry.name) => {
                    files.push(PageFile {
                        path,
                        bytes: entry.bytes,
                        modified_ms: entry.modified_ms,
                    });
                }
                EntryKind::File | EntryKind::Other => {}
            }
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    map.unreadable.sort();
    assign(files, &mut map);
    Ok(map)
}

/// Returns whether an entry is, or may hold, a page.
fn is_relevant(entry: &FileInfo) -> bool {
    match entry.kind {
        EntryKind::Directory => true,
        EntryKind::File => is_page_name(&entry.name),
        EntryKind::Other => false,
    }
}

fn assign(files: Vec<PageFile>, map: &mut PageMap) {
    let mut others = Vec::new();
    for file in files {
        let wanted = wanted_slug(&file.path);
        if wanted.to_relative_path() == file.path {
            map.files.insert(wanted, file);
        } else {
            others.push((wanted, file));
        }
    }
    for (wanted, file) in others {
        if map.files.contains_key(&wanted) {
            let slug = free_slug(&wanted, &file.path, |slug| map.files.contains_key(slug));
            map.renamed.push(RenamedPage {
                path: file.path.clone(),
                wanted,
                slug: slug.clone(),
            });
            map.files.insert(slug, file);
        } else {
            map.files.insert(wanted, file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::RealFs;

    fn map_of(paths: &[&str]) -> (tempfile::TempDir, PageMap) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for path in paths {
            RealFs
                .write(&folder.path().join(path), path.as_bytes())
                .expect("write");
        }
        let map = scan(&RealFs, folder.path()).expect("scan");
        (folder, map)
    }

    fn path_of<'a>(map: &'a PageMap, slug: &str) -> Option<&'a str> {
        map.files
            .iter()
            .find(|(known, _)| known.as_str() == slug)
            .map(|(_, file)| file.path.as_str())
    }

    #[test]
    fn only_visible_markdown_files_are_pages() {
        let (_folder, map) = map_of(&[
            "a.md",
            "sub/deep/B.MD",
            ".hidden.md",
            ".obsidian/x.md",
            ".trash/y.md",
            "note.txt",
            "a.md.tmp.1.md",
            "readme",
        ]);
        let slugs: Vec<&str> = map.files.keys().map(Slug::as_str).collect();
        assert_eq!(slugs, ["a", "sub/deep/b"]);
        assert_eq!(path_of(&map, "sub/deep/b"), Some("sub/deep/B.MD"));
    }

    #[test]
    fn a_folder_that_is_missing_has_no_pages() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(
            scan(&RealFs, &folder.path().join("none")).expect("scan"),
            PageMap::default()
        );
    }

    #[test]
    fn of_two_names_for_one_slug_the_canonical_one_keeps_it() {
        let (_folder, map) = map_of(&["A B.md", "a-b.md", "A, b.md"]);
        assert_eq!(path_of(&map, "a-b"), Some("a-b.md"));
        assert_eq!(map.files.len(), 3);
        let renamed: Vec<&str> = map.renamed.iter().map(|page| page.path.as_str()).collect();
        assert_eq!(renamed, ["A B.md", "A, b.md"]);
        assert!(
            map.renamed
                .iter()
                .all(|page| page.slug.as_str().starts_with("a-b-"))
        );
    }

    #[test]
    fn without_a_canonical_one_the_first_by_path_keeps_it() {
        let (_folder, map) = map_of(&["a b.md", "A b.md"]);
        assert_eq!(path_of(&map, "a-b"), Some("A b.md"));
        assert_eq!(map.renamed.len(), 1);
    }

    #[test]
    fn a_page_in_a_reserved_folder_is_still_found() {
        let (_folder, map) = map_of(&["skills/cooking.md", "Skills/baking.md"]);
        assert_eq!(
            path_of(&map, "notes/skills/cooking"),
            Some("skills/cooking.md")
        );
        assert_eq!(
            path_of(&map, "notes/skills/baking"),
            Some("Skills/baking.md")
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn names_that_are_no_text_are_reported() {
        use std::os::unix::ffi::OsStrExt as _;

        let (folder, _) = map_of(&["a.md"]);
        for name in [&b"caf\xe9.md"[..], b"caf\xe9.png"] {
            let path = folder.path().join(std::ffi::OsStr::from_bytes(name));
            std::fs::write(path, "x").expect("this system takes any name");
        }
        std::fs::write(folder.path().join("odd \u{fffd}.md"), "x").expect("write");
        let map = scan(&RealFs, folder.path()).expect("scan");
        assert_eq!(map.files.len(), 2);
        let [(path, reason)] = map.unreadable.as_slice() else {
            panic!("expected one, got {:?}", map.unreadable);
        };
        assert_eq!(path, "caf\u{fffd}.md");
        assert!(reason.contains("not Unicode"), "{reason}");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let (folder, _) = map_of(&["a.md"]);
        let outside = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(outside.path().join("x.md"), "x").expect("write");
        std::os::unix::fs::symlink(outside.path(), folder.path().join("out")).expect("link");
        std::os::unix::fs::symlink(outside.path().join("x.md"), folder.path().join("x.md"))
            .expect("link");
        let map = scan(&RealFs, folder.path()).expect("scan");
        assert_eq!(map.files.len(), 1);
    }
}
