//! What is said is evidence from the turn's end on, until its conversation is deleted.

use std::sync::Arc;

use memory_core::store::{EvidenceContent, EvidenceStore as _, EvidenceStream};
use memory_substrate::evidence::EvidenceJournal;
use memory_substrate::fs::RealFs;
use strata::{Access, ConversationEvent, TurnEnd, TurnInput};

use crate::fixture::Fixture;

fn journal(fixture: &Fixture) -> EvidenceJournal {
    EvidenceJournal::read_only(Arc::new(RealFs), fixture.workspace("evidence"))
}

fn stream() -> EvidenceStream {
    EvidenceStream::Session {
        session: "c".to_owned(),
        branch: "main".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_evidence_until_its_conversation_is_deleted() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    let begun = assistant
        .begin_turn(TurnInput::owner("c", "Where does the robot stand?"))
        .await;
    assistant.attached(&begun).await.unwrap();
    let end = || TurnEnd::reply("In the cellar.");
    assistant.end_turn(&begun, end()).await.unwrap();
    assistant.end_turn(&begun, end()).await.unwrap();
    drop(begun);
    drop(assistant);

    let records = journal(&fixture).list(&stream(), 0, 9).await.unwrap();
    assert_eq!(records.len(), 1);
    let EvidenceContent::Kept { text, .. } = &records[0].content else {
        panic!("nothing was erased: {records:?}");
    };
    for said in ["Where does the robot stand?", "In the cellar."] {
        assert!(text.contains(said), "{text}");
    }
    let found = fixture.data(&["doctor"]).to_string();
    assert!(found.contains("1 records in 1 streams"), "{found}");

    let assistant = fixture.reopen(Access::ReadWrite).await;
    assistant
        .on_event("c", ConversationEvent::Delete)
        .await
        .unwrap();
    let records = journal(&fixture).list(&stream(), 0, 9).await.unwrap();
    assert!(records[0].is_erased(), "{records:?}");
    for entry in std::fs::read_dir(fixture.workspace("evidence")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("cellar"));
    }
    drop(assistant);
    let check = journal(&fixture).verify().await.unwrap();
    assert_eq!((check.records, check.erased, check.faults.len()), (1, 1, 0));
}

#[test]
fn changed_evidence_is_a_problem_that_is_named() {
    let fixture = Fixture::ingested();
    let file = fixture.workspace("evidence/00000001.journal");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "00000002 0000000000000000 {}\n").unwrap();
    let printed = fixture.run(&["doctor", "--json"]).expect(8).json();
    let text = printed["data"].to_string();
    assert!(
        text.contains("00000001.journal") && text.contains("checksum"),
        "{text}"
    );
}
