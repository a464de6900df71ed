//! Noticing cheaply that somebody edited the pages.
//!
//! Adding, removing and renaming a file changes its folder's time, so a look at the folders finds those edits at once.
//! An edit in place changes only the file, and looking at every file costs ten milliseconds in ten thousand pages; so
//! small folders are always looked at whole, and large ones when a folder changed, when some seconds have passed, or
//! after some turns, whichever is first. What a page says is read from its file anyway: only finding it can be late.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use memory_core::env::Fs;
use memory_core::time::Timestamp;

use crate::pages::PageIndex;

/// With at most this many pages every file is looked at each time.
const SMALL: usize = 250;
/// After this long every file is looked at.
const LONGEST_MS: i64 = 3_000;
/// After this many looks at the folders every file is looked at.
const MOST_CHECKS: u32 = 50;

/// What the folders looked like before the last full look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    folders: Vec<(PathBuf, Option<i64>)>,
    pages: usize,
    looked_at: Option<Timestamp>,
    checks: u32,
}

impl Watch {
    /// Returns the state of the folders of these pages. To be taken before the files are looked at.
    pub(crate) fn stamp(fs: &dyn Fs, root: &Path, pages: &PageIndex, now: Timestamp) -> Self {
        let mut folders = BTreeSet::from([root.to_owned()]);
        for page in pages.pages() {
            let file = root.join(&page.path);
            for folder in file
                .ancestors()
                .skip(1)
                .take_while(|folder| folder.starts_with(root))
            {
                if !folders.insert(folder.to_owned()) {
                    break;
                }
            }
        }
        let folders = folders
            .into_iter()
            .map(|folder| (modified(fs, &folder), folder))
            .map(|(at, path)| (path, at));
        Self {
            folders: folders.collect(),
            pages: pages.len(),
            looked_at: Some(now),
            checks: 0,
        }
    }

    /// Returns whether it is time to look at every file.
    pub(crate) fn is_due(&mut self, fs: &dyn Fs, now: Timestamp) -> bool {
        self.checks += 1;
        let Some(looked_at) = self.looked_at else {
            return true;
        };
        self.pages <= SMALL
            || self.checks > MOST_CHECKS
            || now >= looked_at.plus_millis(LONGEST_MS)
            || now < looked_at
            || self
                .folders
                .iter()
                .any(|(folder, at)| modified(fs, folder) != *at)
    }
}

fn modified(fs: &dyn Fs, folder: &Path) -> Option<i64> {
    fs.info(folder).ok().map(|info| info.modified_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::RealFs;

    fn large(folder: &Path) -> Watch {
        let watch = Watch::stamp(
            &RealFs,
            folder,
            &PageIndex::default(),
            Timestamp::from_millis(1_000),
        );
        Watch {
            pages: SMALL + 1,
            ..watch
        }
    }

    #[test]
    fn a_large_folder_is_looked_at_when_something_may_have_changed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut watch = large(folder.path());
        let now = Timestamp::from_millis(1_500);
        assert!(!watch.is_due(&RealFs, now));
        watch.folders[0].1 = Some(1);
        assert!(
            watch.is_due(&RealFs, now),
            "the folder has another time now"
        );
        let mut watch = large(folder.path());
        assert!(
            watch.is_due(&RealFs, Timestamp::from_millis(9_000)),
            "some seconds have passed"
        );
        let mut watch = large(folder.path());
        assert!(
            (0..=MOST_CHECKS).any(|_| watch.is_due(&RealFs, now)),
            "it was asked often"
        );
    }

    #[test]
    fn a_small_folder_and_an_unknown_one_are_always_looked_at() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut watch = Watch {
            pages: 3,
            ..large(folder.path())
        };
        assert!(watch.is_due(&RealFs, Timestamp::from_millis(1_000)));
        assert!(Watch::default().is_due(&RealFs, Timestamp::default()));
    }
}
