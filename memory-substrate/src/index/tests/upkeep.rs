//! Upkeep under many small writes: how many pieces, versions and bytes there are at most, and what tidying takes.
//!
//! These are the ways in which an index of this kind has filled disks and memories. The limits are those that an assistant
//! is promised, not those at which upkeep begins.

use super::*;
use crate::assistant::testing::{process, said, say};
use crate::index::durable::tree_size;

/// Most pieces of the table, and most of its versions, between two writes.
const MOST_PIECES: u64 = 64;
/// Most files.
const MOST_FILES: u64 = 200;
/// Most bytes of fifty short rows and all that belongs to them.
const MOST_BYTES: u64 = 4 << 20;

/// What an index is made of.
#[derive(Clone, Copy, Debug, Default)]
struct Pieces {
    fragments: u64,
    versions: u64,
    files: u64,
    bytes: u64,
}

impl Pieces {
    async fn of(index: &LanceIndex) -> Self {
        let size = tree_size(&index.generation.dir()).expect("measured");
        let stats = index.table.stats().await.expect("counted");
        Self {
            fragments: stats.fragment_stats.num_fragments as u64,
            versions: size.versions,
            files: size.files,
            bytes: size.bytes,
        }
    }

    fn at_most(self, other: Self) -> Self {
        Self {
            fragments: self.fragments.max(other.fragments),
            versions: self.versions.max(other.versions),
            files: self.files.max(other.files),
            bytes: self.bytes.max(other.bytes),
        }
    }

    fn are_few(self) -> bool {
        self.fragments <= MOST_PIECES && self.versions <= MOST_PIECES && self.files <= MOST_FILES
    }
}

/// Writes one row with a word that nothing else has.
async fn write_one(index: &LanceIndex, name: &str, number: u64) {
    let mut rows = page(name, 1, number);
    let unique = format!(" unique{number}");
    rows[0].body_terms.push_str(&unique);
    let written = index.replace_pages(vec![slug(name)], rows).await;
    written.expect("written");
}

async fn finds(index: &LanceIndex, number: u64) -> usize {
    let found = index.search_terms(&format!("unique{number}"), 5).await;
    found.expect("searched").len()
}

#[test]
fn hundreds_of_single_rows_leave_few_pieces_versions_and_bytes() {
    runtime(async {
        let place = place(16);
        let index = place.create().await;
        let (mut first, mut second) = (Pieces::default(), Pieces::default());
        for number in 0..240 {
            write_one(&index, &format!("page-{}", number % 50), number).await;
            index.maintain().await.expect("tidied");
            let half = if number < 120 {
                &mut first
            } else {
                &mut second
            };
            *half = half.at_most(Pieces::of(&index).await);
        }
        assert!(first.are_few() && second.are_few(), "{first:?} {second:?}");
        assert!(second.bytes <= MOST_BYTES, "{second:?}");
        assert!(
            second.bytes * 4 <= first.bytes * 5,
            "it grows with the writes and not with the rows: {first:?} {second:?}"
        );
        drop(index);
        let (index, segments) = place.open().await.expect("opens").expect("is there");
        assert_eq!(rows_in(&segments), 50);
        assert_eq!(finds(&index, 239).await, 1);
    });
}

#[test]
fn upkeep_that_fails_is_told_after_a_few_writes_and_writes_go_on() {
    runtime(async {
        let place = place(16);
        let index = place.create().await;
        index.broken.store(true, Ordering::Relaxed);
        let mut failed = Vec::new();
        for number in 0..80 {
            write_one(&index, &format!("page-{number}"), number).await;
            if index.maintain().await.is_err() {
                failed.push(number);
            }
            assert_eq!(finds(&index, number).await, 1, "{number}");
        }
        let first = failed.first().copied().expect("it was never told");
        assert!(first < 40, "told only after {first} writes");
        assert_eq!(
            failed.last(),
            Some(&79),
            "it is told until it works again: {failed:?}"
        );
        index.broken.store(false, Ordering::Relaxed);
        index.maintain().await.expect("tidied");
        assert!(Pieces::of(&index).await.are_few());
        assert_eq!(index.stats().await.expect("counted").rows, 80);
    });
}

#[test]
fn a_finished_text_index_with_a_hundred_rows_behind_it_is_compacted() {
    runtime(async {
        let place = place(16);
        let index = place.create().await;
        let pages: Vec<Slug> = (0..150)
            .map(|number| slug(&format!("old-{number}")))
            .collect();
        let rows = (0..).zip(&pages);
        let rows = rows.flat_map(|(number, name)| page(name.as_str(), 2, number));
        let rows = rows.collect();
        index.replace_pages(pages, rows).await.expect("written");
        index.maintain().await.expect("tidied");
        for number in 0..100 {
            write_one(&index, &format!("new-{number}"), 1_000 + number).await;
        }
        let stats = index.stats().await.expect("counted");
        assert!(stats.unindexed_rows >= 100, "there is no tail: {stats:?}");
        index.maintain().await.expect("compacted");
        let stats = index.stats().await.expect("counted");
        assert_eq!((stats.rows, stats.unindexed_rows), (400, 0));
        let pieces = Pieces::of(&index).await;
        assert!(
            pieces.fragments <= 2 && pieces.versions <= 3,
            "small pieces or old versions are left: {pieces:?}"
        );
        for number in [1_000, 1_050, 1_099] {
            assert_eq!(finds(&index, number).await, 1, "{number}");
        }
        drop(index);
        let (_, segments) = place.open().await.expect("opens").expect("is there");
        assert_eq!(rows_in(&segments), 400);
    });
}

#[test]
fn of_two_thousand_rows_that_came_bit_by_bit_few_wait_for_the_text_index() {
    runtime(async {
        let place = place(16);
        let index = place.create().await;
        for number in 0..50 {
            let name = format!("page-{number}");
            let mut rows = page(&name, 40, number);
            let unique = format!(" unique{number}");
            rows[7].body_terms.push_str(&unique);
            index
                .replace_pages(vec![slug(&name)], rows)
                .await
                .expect("written");
            assert_eq!(finds(&index, number).await, 1, "it is found at once");
            index.maintain().await.expect("tidied");
            let stats = index.stats().await.expect("counted");
            assert!(stats.unindexed_rows * 10 <= stats.rows, "{stats:?}");
        }
        assert_eq!(index.stats().await.expect("counted").rows, 2_000);
        for number in [0, 24, 49] {
            assert_eq!(finds(&index, number).await, 1);
        }
    });
}

#[test]
fn of_many_who_write_new_pages_at_once_nobody_meets_a_conflict_and_no_row_is_there_twice() {
    runtime(async {
        let place = place(16);
        let index = Arc::new(place.create().await);
        // The first eight want the same pages, the others have their own.
        let tasks: Vec<_> = (0..16_u64)
            .map(|writer| {
                let index = index.clone();
                tokio::spawn(async move {
                    for number in 0..6 {
                        let name = if writer < 8 {
                            format!("shared-{number}")
                        } else {
                            format!("own-{writer}-{number}")
                        };
                        let rows = page(&name, 1, writer * 100 + number);
                        index.replace_pages(vec![slug(&name)], rows).await?;
                    }
                    Ok::<_, StoreError>(())
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic").expect("no conflict");
        }
        let rows = index.all_rows().await.expect("read");
        let pages: HashSet<&Slug> = rows.iter().map(|row| &row.id.slug).collect();
        assert_eq!((rows.len(), pages.len()), (6 + 8 * 6, 6 + 8 * 6));
    });
}

/// How many rows the other process tidies.
const ROWS: &str = "STRATA_TEST_ROWS";

/// Returns by how many megabytes a process grew at most while it tidied so many rows of twenty kilobytes.
#[cfg(target_os = "linux")]
fn growth_while_tidying(rows: u32) -> u64 {
    let output = process("index::tests::upkeep::tidies_large_rows")
        .env(ROWS, rows.to_string())
        .output()
        .expect("it starts");
    let heard = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{heard}");
    let growth = heard.lines().find_map(|line| said(line, "growth"));
    growth.expect("it said so").parse().expect("a number")
}

/// Twenty thousand such rows are four hundred megabytes. A tenth of it shows whether memory follows the table.
#[cfg(target_os = "linux")]
#[test]
fn tidying_takes_memory_for_a_few_rows_and_not_for_the_table() {
    let (few, many) = (growth_while_tidying(700), growth_while_tidying(2_800));
    assert!(
        many < few * 2 + 48,
        "{few} MB, and {many} MB for four times as many rows"
    );
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "it is the process that another test measures"]
fn tidies_large_rows() {
    let rows: u32 = std::env::var(ROWS)
        .expect("given")
        .parse()
        .expect("a number");
    runtime(async {
        let place = place(16);
        let index = place.create().await;
        let write = async |name: String, rows: u32| {
            let slugs = (0..rows).map(|number| slug(&format!("{name}-{number}")));
            let slugs: Vec<Slug> = slugs.collect();
            let made = (0..).zip(&slugs).map(|(number, slug)| {
                let mut made = row(slug.as_str(), "", &words(number, 8));
                made.text = words(number, 5_000);
                made.vector = Some(vector(number, DIMS));
                made
            });
            let made = made.collect();
            index.replace_pages(slugs, made).await.expect("written");
        };
        // As many pieces as it takes for them to be folded together, the first time into a large one.
        for piece in 0..35 {
            write(format!("page-{piece}"), rows / 35).await;
        }
        index.maintain().await.expect("tidied");
        for piece in 0..35 {
            write(format!("late-{piece}"), 1).await;
        }
        std::fs::write("/proc/self/clear_refs", "5").expect("the peak is forgotten");
        let before = kilobytes("VmRSS:");
        index.maintain().await.expect("tidied");
        let stats = Pieces::of(&index).await;
        assert!(stats.fragments <= 2, "{stats:?}");
        say("growth", kilobytes("VmHWM:").saturating_sub(before) / 1_000);
    });
}

#[cfg(target_os = "linux")]
fn kilobytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("read");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.expect("a size").parse().expect("a number")
}
