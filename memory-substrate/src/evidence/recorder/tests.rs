//! Tests of turns on their way into the journal, through every step at which a disk or a process fails.

use std::path::Path;

use memory_core::provenance::{Authority, Channel, Origin, Trust};
use memory_core::services::Role;
use memory_core::store::{
    EvidenceContent, EvidenceKind, EvidenceRecord, EvidenceStore as _, StateStore as _,
    TurnTree as _,
};

use super::*;
use crate::fs::RealFs;
use crate::fs::faulty::{FAULTS, Fault, Faults};
use crate::workspace::Workspace;
use crate::writer::Writer;
use crate::writer::testing::{fast_folder, open, open_faulty, tree, workspace};

fn message(id: &str, parent: Option<&str>, role: Role, text: &str) -> TurnNode {
    TurnNode {
        id: id.to_owned(),
        conversation: "c".to_owned(),
        parent: parent.map(str::to_owned),
        branch: "main".to_owned(),
        turn: 1,
        role,
        text: text.to_owned(),
        finalised: true,
        speaker: Some("Ada".to_owned()),
        principal: None,
        authority: Authority::Owner,
        agent: None,
        channel: Channel::Global,
        origin: match role {
            Role::User => Origin::UserDirect,
            _ => Origin::AssistantInferred,
        },
        event_time: Timestamp::from_millis(-5),
        ingestion_time: Timestamp::from_millis(7),
        metadata: "{}".to_owned(),
        attached_blocks: vec![("memory".to_owned(), "what was shown".to_owned())],
    }
}

/// A question and its answer, which follow what was said before.
fn turn(number: u64, before: Option<&str>) -> Vec<TurnNode> {
    let (asked, answered) = (format!("q{number}"), format!("a{number}"));
    let mut messages = vec![
        message(&asked, before, Role::User, &format!("asked {number}")),
        message(
            &answered,
            Some(&asked),
            Role::Assistant,
            &format!("answered {number}"),
        ),
    ];
    for message in &mut messages {
        message.turn = number;
    }
    messages
}

fn stream() -> EvidenceStream {
    EvidenceStream::Session {
        session: "c".to_owned(),
        branch: "main".to_owned(),
    }
}

async fn records(writer: &Writer) -> Vec<EvidenceRecord> {
    let recorder = writer.recorder();
    recorder.settle().await.unwrap();
    recorder.journal().list(&stream(), 0, 99).await.unwrap()
}

fn text(record: &EvidenceRecord) -> &str {
    match &record.content {
        EvidenceContent::Kept { text, .. } => text,
        EvidenceContent::Erased { .. } => "erased",
    }
}

fn has_bytes(folder: &Path, needle: &str) -> Vec<String> {
    let found = tree(&RealFs, folder).into_iter().filter(|(_, bytes)| {
        bytes
            .windows(needle.len())
            .any(|window| window == needle.as_bytes())
    });
    found.map(|(name, _)| name).collect()
}

#[tokio::test]
async fn a_turn_is_in_the_tree_and_in_the_evidence() {
    let home = fast_folder();
    let writer = open(&workspace(home.path(), Arc::new(RealFs)));
    for _ in 0..2 {
        writer.recorder().end_turn(turn(1, None)).await.unwrap();
    }
    let records = records(&writer).await;
    assert_eq!(records.len(), 1, "the same turn again changes nothing");
    let record = &records[0];
    assert_eq!(record.kind, EvidenceKind::Turn);
    assert_eq!(record.trust, Trust::Trusted);
    assert_eq!(record.event_time, Timestamp::from_millis(-5));
    let text = text(record);
    assert!(
        text.contains("asked 1") && text.contains("answered 1"),
        "{text}"
    );
    assert!(!text.contains("what was shown"), "{text}");
    let nodes = writer.state().recent_in_conversation("c", 9).await.unwrap();
    assert_eq!(nodes, turn(1, None));
    let backlog = writer.recorder().backlog().await.unwrap();
    assert_eq!(backlog, EvidenceBacklog::default());
}

#[tokio::test]
async fn a_reply_that_comes_later_is_another_record() {
    let home = fast_folder();
    let writer = open(&workspace(home.path(), Arc::new(RealFs)));
    let whole = turn(1, None);
    writer
        .recorder()
        .end_turn(whole[..1].to_vec())
        .await
        .unwrap();
    writer.recorder().end_turn(whole).await.unwrap();
    let records = records(&writer).await;
    let said: Vec<bool> = records
        .iter()
        .map(|record| text(record).contains("answered"))
        .collect();
    assert_eq!(said, [false, true]);
}

#[tokio::test]
async fn a_turn_that_is_refused_leaves_no_evidence() {
    let home = fast_folder();
    let writer = open(&workspace(home.path(), Arc::new(RealFs)));
    let mut bad = turn(1, None);
    bad[1].parent = Some("nowhere".to_owned());
    writer.recorder().end_turn(bad).await.unwrap_err();
    assert!(records(&writer).await.is_empty());
    assert_eq!(writer.state().turn_node("q1").await.unwrap(), None);
}

#[tokio::test]
async fn what_cannot_be_recorded_keeps_nothing_else_waiting() {
    let home = fast_folder();
    let writer = open(&workspace(home.path(), Arc::new(RealFs)));
    let mut large = turn(1, None);
    large[1].text = "x".repeat(memory_core::store::MAX_EVIDENCE_BYTES + 1);
    writer.recorder().end_turn(large).await.unwrap();
    writer
        .recorder()
        .end_turn(turn(2, Some("a1")))
        .await
        .unwrap();
    let said = records(&writer).await;
    assert_eq!(said.len(), 1);
    assert!(text(&said[0]).contains("asked 2"));
    let backlog = writer.recorder().backlog().await.unwrap();
    assert_eq!((backlog.waiting, backlog.refused), (0, 1));
    let now = Timestamp::from_millis(9);
    writer
        .recorder()
        .delete_conversation("c", now)
        .await
        .unwrap();
    let backlog = writer.recorder().backlog().await.unwrap();
    assert_eq!(
        backlog,
        EvidenceBacklog::default(),
        "it would still say what was said"
    );
}

#[tokio::test]
async fn deleting_a_conversation_erases_what_it_said_and_nothing_else() {
    let home = fast_folder();
    let place = workspace(home.path(), Arc::new(RealFs));
    let writer = open(&place);
    writer.recorder().end_turn(turn(1, None)).await.unwrap();
    let mut side = turn(2, Some("a1"));
    let mut other = turn(3, None);
    for message in &mut side {
        message.branch = "side".to_owned();
    }
    for message in &mut other {
        message.conversation = "d".to_owned();
    }
    writer.recorder().end_turn(side).await.unwrap();
    writer.recorder().end_turn(other).await.unwrap();
    assert_eq!(has_bytes(&place.evidence_dir(), "asked 1").len(), 1);
    let now = Timestamp::from_millis(9);
    let removed = writer
        .recorder()
        .delete_conversation("c", now)
        .await
        .unwrap();
    assert_eq!(removed.messages, 4);
    for said in ["asked 1", "answered 1", "asked 2"] {
        assert_eq!(has_bytes(&place.evidence_dir(), said), [""; 0]);
    }
    assert_eq!(has_bytes(&place.evidence_dir(), "asked 3").len(), 1);
    let check = writer.recorder().journal().verify().await.unwrap();
    assert_eq!(
        (check.records, check.erased, check.faults),
        (3, 2, Vec::new())
    );
}

/// Turns, a deletion and another turn. Returns how many of these steps were acknowledged.
async fn story(writer: &Writer) -> usize {
    let recorder = writer.recorder();
    let mut before: Option<String> = None;
    for number in 1..=3 {
        if recorder
            .end_turn(turn(number, before.as_deref()))
            .await
            .is_err()
        {
            return usize::try_from(number).unwrap() - 1;
        }
        before = Some(format!("a{number}"));
    }
    let now = Timestamp::from_millis(9);
    if recorder.delete_conversation("c", now).await.is_err() {
        return 3;
    }
    4
}

async fn check(place: &Workspace, acknowledged: usize, context: &str) {
    let writer = open(place);
    let records = records(&writer).await;
    let check = writer.recorder().journal().verify().await.unwrap();
    assert!(check.faults.is_empty(), "{context}: {check:?}");
    assert_eq!(
        writer.recorder().backlog().await.unwrap(),
        EvidenceBacklog::default()
    );
    let in_tree = writer
        .state()
        .recent_in_conversation("c", 99)
        .await
        .unwrap()
        .len();
    let erased = records.iter().filter(|record| record.is_erased()).count();
    if acknowledged == 4 || erased > 0 {
        assert_eq!(
            (in_tree, erased),
            (0, 3),
            "{context}: all of it was deleted"
        );
        assert_eq!(
            has_bytes(&place.evidence_dir(), "asked"),
            [""; 0],
            "{context}"
        );
        return;
    }
    // What was not acknowledged may be there, but then in both places.
    assert_eq!(in_tree, 2 * records.len(), "{context}");
    assert!(records.len() >= acknowledged, "{context}");
    for (record, number) in records.iter().zip(1..) {
        assert!(
            text(record).contains(&format!("asked {number}")),
            "{context}"
        );
    }
}

#[tokio::test]
async fn whatever_fails_tree_and_evidence_agree_and_nothing_acknowledged_is_lost() {
    let steps = {
        let (home, faults) = (fast_folder(), Faults::default());
        let place = workspace(home.path(), Arc::new(RealFs));
        let writer = open_faulty(&place, &faults, "i");
        faults.arm(None);
        assert_eq!(story(&writer).await, 4);
        faults.steps()
    };
    assert!(steps >= 8, "{steps} steps");
    for step in 0..steps {
        for fault in FAULTS {
            let context = format!("step {step}, {fault:?}");
            let (home, faults) = (fast_folder(), Faults::default());
            let place = workspace(home.path(), Arc::new(RealFs));
            let writer = open_faulty(&place, &faults, "i");
            faults.arm(Some((step, fault)));
            let acknowledged = story(&writer).await;
            if matches!(fault, Fault::Fails(..)) {
                // The disk works again, and the same process goes on.
                writer.recorder().settle().await.unwrap();
            }
            drop(writer);
            check(&place, acknowledged, &context).await;
        }
    }
}
