//! What a start does with an index that is not what it was: it serves words at once, says so, and ends with the same rows.

use std::path::{Path, PathBuf};

use super::*;

/// A damage that a power cut, a disk or a person may do.
struct Damage {
    name: &'static str,
    /// The notice that tells of it.
    told: &'static str,
    /// Whether the rows have to be made again.
    costs_rows: bool,
    done: fn(&Path),
}

const DAMAGES: [Damage; 6] = [
    Damage {
        name: "the newest manifest is full of zeros",
        told: "index_damaged",
        costs_rows: true,
        done: |index| {
            let newest = newest_in(index, "_versions");
            let length = std::fs::metadata(&newest).expect("a file").len();
            let zeros = vec![0; usize::try_from(length).expect("small")];
            std::fs::write(newest, zeros).expect("written");
        },
    },
    Damage {
        name: "every manifest is empty",
        told: "index_damaged",
        costs_rows: true,
        done: |index| {
            for path in files_in(index, "_versions") {
                std::fs::write(path, b"").expect("written");
            }
        },
    },
    Damage {
        name: "the index is deleted",
        told: "index_damaged",
        costs_rows: true,
        done: |index| std::fs::remove_dir_all(index).expect("removed"),
    },
    Damage {
        name: "one bit of a data file is another",
        told: "index_damaged",
        costs_rows: true,
        done: |index| {
            let path = newest_in(index, "data");
            let mut bytes = std::fs::read(&path).expect("read");
            let third = bytes.len() / 3;
            bytes[third] ^= 4;
            std::fs::write(path, bytes).expect("written");
        },
    },
    Damage {
        name: "`CURRENT` is empty",
        told: "index_mended",
        costs_rows: false,
        done: |index| {
            let space = std::fs::read_dir(index).expect("listed").next();
            let current = space
                .expect("a space")
                .expect("an entry")
                .path()
                .join("CURRENT");
            std::fs::write(current, b"").expect("written");
        },
    },
    Damage {
        name: "files are back from a time before the last batch",
        told: "index_damaged",
        costs_rows: true,
        done: |index| {
            let newest = newest_in(index, "_versions");
            std::fs::remove_file(newest).expect("removed");
        },
    },
];

#[test]
fn a_start_serves_words_at_once_says_what_is_wrong_and_ends_equal() {
    runtime(async {
        for damage in DAMAGES {
            let Damage {
                name,
                told,
                costs_rows,
                done,
            } = damage;
            let fixture = Fixture::new();
            write_pages(&fixture, 20);
            let store = fixture.open().await;
            store.sync(&mut go_on).await.expect("synchronised");
            fixture.write("late.md", "# Late\n\nThe harbour3 pilot is late.\n");
            store.refresh().await.expect("refreshed");
            let clean = row_set(&store).await;
            drop(store);
            done(&fixture.workspace.index_dir());

            // A reader cannot repair it, but serves from the files.
            let reader = fixture.open_read_only().await;
            assert!(!found(&reader, "harbour3").is_empty(), "{name}");
            drop(reader);

            let (store, notices) = fixture
                .open_with(Some(Arc::new(SeededEmbedder::new(DIMS))))
                .await;
            let codes: Vec<&str> = notices.iter().map(|notice| notice.code.as_str()).collect();
            assert!(codes.contains(&told), "{name}: {notices:?}");
            assert!(!found(&store, "pilot").is_empty(), "{name}");
            let waiting = store.stats().await.expect("counted").waiting;
            assert_eq!(waiting, if costs_rows { 21 } else { 0 }, "{name}");
            store.sync(&mut go_on).await.expect("synchronised");
            assert_eq!(row_set(&store).await, clean, "{name}");
            assert!(!near(&store, "Step 3 of the plan.").await.is_empty());
            assert!(store.integrity().await.expect("compared").is_clean());
            drop(store);
            let set_aside = walk(&fixture.workspace.index_dir())
                .into_iter()
                .find(|path| path.to_string_lossy().contains("damaged-"));
            assert_eq!(set_aside, None, "{name}");

            let (_, notices) = fixture
                .open_with(Some(Arc::new(SeededEmbedder::new(DIMS))))
                .await;
            assert!(notices.is_empty(), "{name}: {notices:?}");
        }
    });
}

#[test]
fn what_is_damaged_is_kept_until_its_replacement_is_complete() {
    runtime(async {
        let fixture = Fixture::new();
        write_pages(&fixture, 20);
        let store = fixture.open().await;
        store.sync(&mut go_on).await.expect("synchronised");
        drop(store);
        (DAMAGES[3].done)(&fixture.workspace.index_dir());
        for _ in 0..2 {
            drop(fixture.open().await);
            let kept = walk(&fixture.workspace.index_dir());
            assert!(
                kept.iter()
                    .any(|path| path.to_string_lossy().contains("damaged-1"))
            );
        }
    });
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Returns the database's files in the folders of a name.
fn files_in(index: &Path, folder: &str) -> Vec<PathBuf> {
    let mut files = walk(index);
    files.retain(|path| {
        let parent = path.parent().and_then(Path::file_name);
        parent.is_some_and(|parent| parent == folder)
            && path.extension().is_some_and(|ending| ending != "json")
    });
    files
}

fn newest_in(index: &Path, folder: &str) -> PathBuf {
    let written = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).expect("a file");
        metadata.modified().expect("a time")
    };
    let newest = files_in(index, folder).into_iter().max_by_key(written);
    newest.expect("a file")
}
