//! What becomes of pages that come while the index cannot be written: they are found, counted, told of, and indexed by
//! themselves afterwards.

use super::*;

#[test]
fn pages_that_came_while_the_index_failed_are_indexed_by_themselves_afterwards() {
    runtime(async {
        let fixture = Fixture::new();
        let notes = tempfile::tempdir().expect("a temporary folder");
        for number in 0..12 {
            let text = format!("# Note {number}\n\nAbout quince {number}.\n");
            std::fs::write(notes.path().join(format!("note-{number}.md")), text).expect("written");
        }
        let store = fixture.open().await;
        let index = store.engine.index.load_full().expect("an index");
        index.refusing.store(true, Ordering::Relaxed);
        let source = IngestSource::Folder(notes.path().to_owned());
        let listener = &mut |_: EngineProgress| ControlFlow::Continue(());
        let ingesting = store.ingest_and_index(source, IngestOptions::default(), listener);
        let (taken_in, indexed) = ingesting.await.expect("the pages are safe");
        assert_eq!((taken_in.written, taken_in.invalid), (12, 0));
        indexed.expect_err("the index fails");

        // For as long as it fails every turn finds the words, tries again, and says how much is behind.
        for turn in 0..20 {
            fixture.clock.advance_millis(3_000);
            let report = store.refresh().await.expect("a turn is served");
            assert_eq!(report.waiting, 12, "turn {turn}");
            assert_eq!(store.stats().await.expect("counted").waiting, 12);
            assert_eq!(found(&store, "quince").len(), 5);
        }
        let notices = store.take_notices();
        let behind = notices.iter().find(|notice| notice.code == "index_behind");
        let behind = behind.unwrap_or_else(|| panic!("{notices:?}"));
        assert!(behind.message.contains("by keyword only"), "{behind:?}");

        index.refusing.store(false, Ordering::Relaxed);
        let report = store.refresh().await.expect("the next turn");
        assert_eq!(report.waiting, 0);
        for number in 0..12 {
            let text = format!("About quince {number}.");
            let nearest = &near(&store, &text).await[0];
            assert_eq!(nearest.slug.as_str(), format!("note-{number}"));
        }
        assert_eq!(row_set(&store).await.len(), 12);
        assert!(store.integrity().await.expect("compared").is_clean());
    });
}
