//! Another embedding model: its vectors and those of the first are never in one index, whatever their length.

use super::*;

/// Models in use are longer than those of other tests, which makes no difference but in length.
const LONG: usize = 384;

/// Works like the seeded model of a length under another name.
fn other(dims: usize) -> Arc<dyn Embedder> {
    Arc::new(Renamed(SpaceId::new("other"), SeededEmbedder::new(dims)))
}

fn first() -> Arc<dyn Embedder> {
    Arc::new(SeededEmbedder::new(LONG))
}

/// What the database of the knowledge base's vectors says of them.
fn kept_vectors(fixture: &Fixture) -> (String, Vec<usize>) {
    let path = fixture.workspace.index_dir().join("pkb-vectors.json");
    let text = std::fs::read_to_string(path).expect("read");
    let kept: serde_json::Value = serde_json::from_str(&text).expect("vectors");
    let rows = kept["rows"].as_object().expect("rows").values();
    let lengths = rows.map(|row| row.as_array().expect("a vector").len());
    (
        kept["space"].as_str().expect("a space").to_owned(),
        lengths.collect(),
    )
}

#[test]
fn a_model_of_the_same_length_is_not_taken_for_the_first() {
    switching(LONG);
}

#[test]
fn a_model_with_longer_vectors_breaks_nothing() {
    switching(LONG + 128);
}

fn switching(dims: usize) {
    runtime(async {
        let fixture = Fixture::new();
        write_pages(&fixture, 8);
        fixture.write_pkb("boats.md", "The boat lies in the harbour.\n");
        let (store, _) = fixture.open_with(Some(first())).await;
        store.sync(&mut go_on).await.expect("synchronised");
        let index = store.engine.index.load_full().expect("an index");
        let before = index.all_rows().await.expect("rows");
        assert_eq!(before.iter().filter(|row| row.vector.is_some()).count(), 24);
        drop((store, index));

        // Without the step: words are found, the owner is told, and no vector of the one model meets the other's.
        let (store, notices) = fixture.open_with(Some(other(dims))).await;
        let told = notices
            .iter()
            .find(|notice| notice.code == "index_of_another_space");
        let told = told.unwrap_or_else(|| panic!("{notices:?}"));
        assert!(told.message.contains("strata reindex"), "{told:?}");
        fixture.write("new.md", "# New\n\nThe zeppelin lands.\n");
        store.refresh().await.expect("refreshed");
        store.sync(&mut go_on).await.expect("synchronised");
        assert_eq!(found(&store, "zeppelin").len(), 1);
        let meanwhile = store.engine.index.load_full().expect("an index");
        assert_eq!(meanwhile.space().dims, 0);
        let rows = meanwhile.all_rows().await.expect("rows");
        assert!(rows.len() == 33 && rows.iter().all(|row| row.vector.is_none()));
        let call = crate::services::testing::owner();
        let dense = store
            .services(Tier::V3, &Capability::ALL)
            .dense
            .expect("offered");
        dense.space(&call).await.expect_err("nothing is compared");
        let (space, lengths) = kept_vectors(&fixture);
        assert_eq!((space.as_str(), lengths), ("other", vec![dims]));
        drop((store, meanwhile, dense));

        // The first model comes back to what it had, and to nothing else.
        let (store, notices) = fixture.open_with(Some(first())).await;
        assert!(notices.is_empty(), "{notices:?}");
        let index = store.engine.index.load_full().expect("an index");
        let after = index.all_rows().await.expect("rows");
        assert_eq!(after, before);
        drop((store, index));

        // With the step: everything is of the new model, without a word asked of any other.
        let (store, _) = fixture.open_with(Some(other(dims))).await;
        let report = store.reindex(&mut go_on).await.expect("made anew");
        assert_eq!((report.pages, report.embedded, report.reused), (9, 25, 0));
        let index = store.engine.index.load_full().expect("an index");
        let space = index.space();
        assert_eq!(space.embedding, Some(SpaceId::new("other")));
        assert_eq!(usize::try_from(space.dims), Ok(dims));
        let nearest = near(&store, "The zeppelin lands.").await;
        assert_eq!(nearest[0].slug.as_str(), "new");
        assert_eq!(
            store.engine.home.spaces().expect("listed"),
            std::slice::from_ref(space)
        );
        assert!(store.integrity().await.expect("compared").is_clean());
        drop((store, index));
        let (_, notices) = fixture.open_with(Some(other(dims))).await;
        assert!(notices.is_empty(), "{notices:?}");
    });
}
