//! Upkeep: the index stays small under many small writes, and its failure costs no write and is told until it is over.

use memory_core::provenance::{Authority, Channel, Origin};

use super::*;

/// Bytes of an index that are in order for one row, beside what its text may take.
const BYTES_OF_A_ROW: u64 = 4 << 10;

fn note(text: String) -> RememberInput {
    RememberInput {
        texts: vec![text],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    }
}

async fn touch(fixture: &Fixture, store: &AssistantStore, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let input = note(format!("Note {number} of the day."));
        store.remember(input, "UTC").await.expect("remembered");
        let page = number % 25;
        fixture.write(
            &format!("diary-{page}.md"),
            &format!("# Diary {page}\n\nEntry {number} of the day.\n\n## More\n\nWord{number}.\n"),
        );
        store.refresh().await.expect("refreshed");
    }
}

fn source_bytes(fixture: &Fixture) -> u64 {
    let pages = std::fs::read_dir(fixture.workspace.concepts_dir()).expect("listed");
    pages
        .map(|page| page.and_then(|page| page.metadata()).expect("a page").len())
        .sum()
}

#[test]
fn five_hundred_small_writes_keep_the_index_small() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        touch(&fixture, &store, 0..125).await;
        let stats = store.stats().await.expect("counted");
        let first = stats.index.expect("an index");
        let budget = 10 * source_bytes(&fixture) + BYTES_OF_A_ROW * first.rows;
        assert_eq!(first.rows, 50);
        // Between two looks at it, at most the limit on files is added to what stays.
        touch(&fixture, &store, 125..250).await;
        let stats = store.stats().await.expect("counted");
        let second = stats.index.expect("an index");
        assert!(first.files <= 200 && second.files <= 200, "{second:?}");
        assert!(stats.snapshot.segments <= 8);
        assert_eq!(stats.maintenance_error, None);
        assert!(
            second.bytes <= budget * 2 && second.bytes <= first.bytes * 2,
            "{second:?} after {first:?}, budget {budget}"
        );
        assert!(store.integrity().await.expect("compared").is_clean());
        let buffer = std::fs::read_to_string(fixture.workspace.buffer_path()).expect("a buffer");
        assert_eq!(buffer.matches("of the day.").count(), 250);
    });
}

#[test]
fn upkeep_that_fails_is_told_in_every_process_and_stops_no_write() {
    runtime(async {
        let fixture = Fixture::new();
        write_pages(&fixture, 20);
        let store = fixture.open().await;
        store.sync(&mut go_on).await.expect("synchronised");
        let index = store.engine.index.load_full().expect("an index");
        index.broken.store(true, Ordering::Relaxed);
        touch(&fixture, &store, 0..50).await;
        assert!(!found(&store, "word49").is_empty());
        assert!(store.integrity().await.expect("compared").is_clean());
        let notices = store.take_notices();
        let told = |notice: &Notice| {
            notice.code == "index_maintenance_failed" && notice.severity == Severity::Error
        };
        assert!(notices.iter().any(told), "{notices:?}");
        let reader = fixture.open_read_only().await;
        let seen = reader.stats().await.expect("counted").maintenance_error;
        assert!(
            seen.is_some_and(|error| error.contains("tidied") || error.contains("maintaining"))
        );
        index.broken.store(false, Ordering::Relaxed);
        touch(&fixture, &store, 50..52).await;
        assert_eq!(
            reader.stats().await.expect("counted").maintenance_error,
            None
        );
    });
}
