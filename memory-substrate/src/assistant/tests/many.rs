//! Many writers in one process: nobody is told of a conflict and nothing is lost.

use memory_core::item::{Consumer, ItemQuery};
use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::store::ItemStore as _;

use super::*;

/// Writers, and notes of each.
const WRITERS: usize = 16;
const NOTES: usize = 100;

#[test]
fn sixteen_writers_add_a_hundred_notes_each_and_meet_no_conflict() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let store = store.clone();
                tokio::spawn(async move {
                    for number in 0..NOTES {
                        let input = RememberInput {
                            texts: vec![format!("Writer {writer} says number {number}.")],
                            origin: Origin::UserDirect,
                            authority: Authority::Owner,
                            channel: Channel::Global,
                        };
                        let receipt = store.remember(input, "UTC").await?;
                        assert!(!receipt.entries[0].duplicate);
                    }
                    Ok::<_, crate::error::SubstrateError>(())
                })
            })
            .collect();
        for writer in writers {
            writer.await.expect("no panic").expect("no conflict");
        }
        store.writer().expect("a writer").settle().expect("settled");
        let buffer = std::fs::read_to_string(fixture.workspace.buffer_path()).expect("read");
        let said: BTreeSet<&str> = buffer
            .lines()
            .filter_map(|line| line.split_once("] ")?.1.split_once(" ^m-"))
            .map(|(text, _)| text)
            .collect();
        assert_eq!(
            (said.len(), buffer.lines().count()),
            (WRITERS * NOTES, WRITERS * NOTES)
        );
        let query = ItemQuery {
            limit: u32::MAX,
            ..ItemQuery::new(Authority::Owner, Consumer::Listing, store.now())
        };
        let items = store.state().items(query).await.expect("read");
        assert_eq!(items.len(), WRITERS * NOTES);
    });
}
