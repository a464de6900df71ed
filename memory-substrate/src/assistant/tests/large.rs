//! One very long document: every part of it is a section of its own and is found.

use super::*;
use crate::ingest::{IngestAction, IngestReport};
use crate::pages::LARGEST_PAGE;

async fn take_in(store: &AssistantStore, text: String) -> IngestReport {
    let source = IngestSource::Text {
        name: "long".to_owned(),
        text,
    };
    let options = IngestOptions {
        overwrite: true,
        ..IngestOptions::default()
    };
    let listener = &mut |_: EngineProgress| ControlFlow::Continue(());
    let (report, indexed) = store
        .ingest_and_index(source, options, listener)
        .await
        .expect("taken in");
    indexed.expect("indexed");
    report
}

/// A page may have eight megabytes; two of them are cut into hundreds of parts as well.
#[test]
fn every_part_of_a_long_document_is_found_and_it_has_as_many_parts_the_next_time() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let mut text = String::new();
        for number in 0..10 {
            for line in 0..2_400 {
                let said = format!(
                    "Line {line} of the log of station {number}, nothing happened there at all that day, the pumps ran.\n"
                );
                text.push_str(&said);
            }
            let said = format!("At last the needle{number} was seen there.\n");
            text.push_str(&said);
        }
        assert!(text.len() > 2_000_000, "{}", text.len());
        assert_eq!(take_in(&store, text.clone()).await.written, 1);
        let parts = row_set(&store).await;
        assert!(parts.len() > 300, "{}", parts.len());
        let index = store.engine.index.load_full().expect("an index");
        for number in 0..10 {
            let word = format!("needle{number}");
            assert_eq!(found(&store, &word).len(), 1, "{word}");
            assert_eq!(
                index.search_terms(&word, 5).await.expect("searched").len(),
                1,
                "{word}"
            );
        }
        assert_eq!(take_in(&store, text.clone()).await.unchanged, 1);
        assert_eq!(row_set(&store).await, parts);
        // Another version of one line has as many parts.
        assert_eq!(
            take_in(&store, text.replace("needle9", "thimble"))
                .await
                .written,
            1
        );
        assert_eq!(row_set(&store).await.len(), parts.len());
        assert_eq!(found(&store, "thimble").len(), 1);
        assert!(store.integrity().await.expect("compared").is_clean());
    });
}

#[test]
fn what_is_longer_than_a_page_may_be_is_refused_whole_and_said() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        take_in(&store, "The short version.\n".to_owned()).await;
        let most = usize::try_from(LARGEST_PAGE).expect("small");
        let report = take_in(&store, "a ".repeat(most / 2 + 1)).await;
        assert_eq!((report.written, report.invalid), (0, 1));
        assert_eq!(report.pages[0].action, IngestAction::Invalid);
        let error = report.pages[0].error.as_deref().unwrap_or_default();
        assert!(error.contains(&LARGEST_PAGE.to_string()), "{error}");
        let kept = std::fs::read_to_string(fixture.page("long.md")).expect("read");
        assert_eq!(kept, "The short version.\n");
        assert_eq!(row_set(&store).await.len(), 1);
    });
}
