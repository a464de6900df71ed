//! An index that fell behind follows by itself: the turns that go on meanwhile bring it up to date, and nobody has to.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memory_core::embed::{EmbedError, Embedder, SpaceId, Vectors};
use memory_substrate::embed::SeededEmbedder;
use strata::{
    Access, EmbedderChoice, IngestOptions, IngestSource, InitOptions, Strata, StrataError,
    StrataOptions, TurnInput,
};

use crate::fixture::Fixture;

/// More pages than a turn indexes itself.
const PAGES: usize = 40;

/// Fails for as long as it is told to.
#[derive(Debug, Default)]
struct Failing {
    inner: SeededEmbedder,
    fails: AtomicBool,
}

#[async_trait::async_trait]
impl Embedder for Failing {
    fn space(&self) -> &SpaceId {
        self.inner.space()
    }

    fn dims(&self) -> usize {
        self.inner.dims()
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vectors, EmbedError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(EmbedError::Failed {
                reason: "out of breath".to_owned(),
            });
        }
        self.inner.embed(texts).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_could_not_be_indexed_follow_with_the_turns_once_it_works_again() {
    let fixture = Fixture::new();
    for number in 0..PAGES {
        let text = format!("# Quince {number}\n\nThe quince {number} ripens late.\n");
        fixture.note(&format!("quinces/Quince {number}.md"), &text);
    }
    let model = Arc::new(Failing::default());
    let options = StrataOptions {
        embedder: EmbedderChoice::Given(model.clone()),
        ..fixture.options()
    };
    let strata = Strata::open(options).unwrap();
    strata
        .init("default", InitOptions::default())
        .await
        .unwrap();
    let assistant = strata
        .assistant("default", Access::ReadWrite)
        .await
        .unwrap();
    model.fails.store(true, Ordering::SeqCst);
    let source = IngestSource::Folder(fixture.path("notes/quinces"));
    let go_on = &mut |_| ControlFlow::Continue(());
    let ingested = assistant
        .ingest(source, IngestOptions::default(), go_on)
        .await;
    let Err(StrataError::NotIndexed { report, .. }) = ingested else {
        panic!("{ingested:?}")
    };
    assert_eq!(report.written, PAGES);

    let store = assistant.store().await.unwrap();
    let turn = async |number: usize| {
        let question = format!("When does the quince {number} ripen?");
        assistant.begin_turn(TurnInput::owner("c", question)).await
    };
    for number in 0..5 {
        let found = turn(number).await;
        assert!(
            found.text().contains("ripens late"),
            "words are found: {}",
            found.text()
        );
        assert_eq!(
            store.stats().await.unwrap().waiting,
            PAGES,
            "it says how many wait"
        );
    }

    model.fails.store(false, Ordering::SeqCst);
    let catching_up = async {
        while store.stats().await.unwrap().waiting > 0 {
            turn(7).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), catching_up)
        .await
        .expect("it follows by itself");
    let stats = store.stats().await.unwrap();
    assert_eq!(
        (stats.pages, stats.vectors, stats.waiting),
        (PAGES, PAGES, 0)
    );
    assert!(store.integrity().await.unwrap().is_clean());
}
