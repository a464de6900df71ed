//! Tests of what only files can get wrong: ends that were torn off, damage, growth, and every step at which a disk fails.

use std::fs;
use std::path::Path;

use memory_core::env::SeededRng;
use memory_core::item::OperationKey;
use memory_core::provenance::{Authority, Channel, Origin, Trust};
use memory_core::store::{EvidenceContent, EvidenceKind, Requester};

use super::*;
use crate::fs::RealFs;
use crate::fs::faulty::{FAULTS, Faults, FaultyFs};
use crate::writer::testing::{fast_folder, temporaries};

/// Small enough that every test with some records has several files.
const SMALL: u64 = 2_300;

fn journal(fs: Arc<dyn Fs>, folder: &Path) -> EvidenceJournal {
    let rng: Arc<dyn Rng> = Arc::new(SeededRng::new(7));
    EvidenceJournal::of(fs, folder.to_owned(), Some(rng), SMALL)
}

fn open(folder: &Path) -> EvidenceJournal {
    journal(Arc::new(RealFs), folder)
}

fn stream(name: &str) -> EvidenceStream {
    EvidenceStream::Session {
        session: name.to_owned(),
        branch: "main".to_owned(),
    }
}

fn turn(key: &str, content: &str) -> NewEvidence {
    NewEvidence {
        key: OperationKey::parse(key).unwrap(),
        kind: EvidenceKind::Turn,
        event_time: Timestamp::from_millis(1),
        ingestion_time: Timestamp::from_millis(2),
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        trust: Trust::Trusted,
        channel: Channel::Global,
        requester: Requester {
            speaker: Some("Ada".to_owned()),
            ..Requester::default()
        },
        content: content.to_owned(),
    }
}

fn add(journal: &EvidenceJournal, key: &str, content: &str) -> StoreResult<EvidenceRecord> {
    let appended = journal
        .inner
        .append(&stream("c"), turn(key, content), &ExpectedHead::Any)?;
    Ok(appended.record)
}

fn erase(journal: &EvidenceJournal, id: &EvidenceId) -> StoreResult<u64> {
    let what = Erasure::Records(vec![id.clone()]);
    journal
        .inner
        .erase(&what, ForgetReason::Owner, Timestamp::from_millis(9))
}

fn records(journal: &EvidenceJournal) -> Vec<EvidenceRecord> {
    journal.inner.list(&stream("c"), 0, u32::MAX).unwrap()
}

fn texts(journal: &EvidenceJournal) -> Vec<String> {
    let text = |record: EvidenceRecord| match record.content {
        EvidenceContent::Kept { text, .. } => text,
        EvidenceContent::Erased { .. } => "erased".to_owned(),
    };
    records(journal).into_iter().map(text).collect()
}

fn faults(journal: &EvidenceJournal) -> Vec<String> {
    let check = journal.inner.verify().unwrap();
    let line = |fault: EvidenceFault| format!("{}: {}", fault.place, fault.reason);
    check.faults.into_iter().map(line).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = RealFs.list(folder).unwrap();
    entries
        .iter()
        .map(|entry| folder.join(&entry.name))
        .collect()
}

#[test]
fn a_file_that_is_full_is_followed_by_another() {
    let folder = fast_folder();
    let writing = open(folder.path());
    let large = "x".repeat(3 * usize::try_from(SMALL).expect("it is small"));
    let mut expected = Vec::new();
    for number in 0..20 {
        let content = if number == 7 {
            large.clone()
        } else {
            number.to_string()
        };
        add(&writing, &format!("k{number}"), &content).unwrap();
        expected.push(content);
    }
    let lengths: Vec<u64> = files(folder.path())
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .collect();
    assert!(lengths.len() > 5, "{lengths:?}");
    let over = lengths.iter().filter(|length| **length > SMALL).count();
    assert_eq!(
        over, 1,
        "only the one that is larger by itself: {lengths:?}"
    );
    for journal in [writing, open(folder.path())] {
        assert_eq!(texts(&journal), expected);
        assert_eq!(faults(&journal), [""; 0]);
    }
}

#[test]
fn an_unfinished_end_is_cut_off_and_nothing_else() {
    let ends: [&[u8]; 4] = [
        b"0",
        b"00000123 0123456789abcdef {\"id\":",
        &[0; 700],
        b"{\"half",
    ];
    for end in ends {
        let folder = fast_folder();
        for key in ["k1", "k2"] {
            add(&open(folder.path()), key, key).unwrap();
        }
        let path = files(folder.path()).pop().unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [whole.as_slice(), end].concat()).unwrap();
        // A reader leaves it, since a writer may be at work.
        let reading = EvidenceJournal::read_only(Arc::new(RealFs), folder.path().to_owned());
        assert_eq!(texts(&reading), ["k1", "k2"]);
        assert_eq!(faults(&reading), [""; 0]);
        assert!(fs::read(&path).unwrap().ends_with(end));
        let writing = open(folder.path());
        assert_eq!(texts(&writing), ["k1", "k2"]);
        assert_eq!(fs::read(&path).unwrap(), whole);
        add(&writing, "k3", "k3").unwrap();
        assert_eq!(texts(&open(folder.path())), ["k1", "k2", "k3"]);
        assert_eq!(faults(&writing), [""; 0]);
    }
}

#[test]
fn damage_is_reported_and_costs_no_other_record() {
    let folder = fast_folder();
    for key in ["k1", "k2", "k3"] {
        add(&open(folder.path()), key, &format!("text of {key}")).unwrap();
    }
    let path = files(folder.path()).remove(0);
    let whole = fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    let at = String::from_utf8_lossy(&whole).find("text of k2").unwrap();
    damaged[at] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let writing = open(folder.path());
    assert_eq!(texts(&writing), ["text of k1", "text of k3"]);
    let found = faults(&writing);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("checksum"), "{found:?}");
    assert!(found[1].contains("record 3"), "{found:?}");
    // Writing goes on, and what cannot be read is neither taken away nor mended over.
    let third = records(&writing).pop().unwrap();
    add(&writing, "k4", "k4").unwrap();
    erase(&writing, &third.id).unwrap();
    let now = fs::read(&path).unwrap();
    let cut = String::from_utf8_lossy(&damaged)
        .lines()
        .nth(1)
        .unwrap()
        .to_owned();
    assert!(String::from_utf8_lossy(&now).contains(&cut));
    assert_eq!(texts(&writing), ["text of k1", "erased", "k4"]);
}

#[test]
fn a_changed_or_missing_record_is_noticed_by_the_chain() {
    let folder = fast_folder();
    let writing = open(folder.path());
    for key in ["k1", "k2", "k3"] {
        add(&writing, key, key).unwrap();
    }
    let path = files(folder.path()).remove(0);
    let whole = fs::read(&path).unwrap();
    let lines: Vec<&[u8]> = frame::lines(&whole).map(|(_, line)| line).collect();
    let rewrite = |content: &str| {
        let mut record = frame::read(lines[1]).unwrap();
        if let EvidenceContent::Kept { text, .. } = &mut record.content {
            content.clone_into(text);
        }
        frame::write(&record).unwrap()
    };
    let trusted = {
        let mut record = frame::read(lines[1]).unwrap();
        record.trust = Trust::Untrusted;
        frame::write(&record).unwrap()
    };
    let cases = [
        (
            "its content",
            vec![lines[0].to_vec(), rewrite("another"), lines[2].to_vec()],
        ),
        (
            "not what was recorded",
            vec![lines[0].to_vec(), trusted, lines[2].to_vec()],
        ),
        (
            "does not follow",
            vec![lines[0].to_vec(), lines[2].to_vec()],
        ),
        (
            "does not follow",
            vec![lines[1].to_vec(), lines[2].to_vec()],
        ),
        ("is gone", vec![lines[0].to_vec(), lines[1].to_vec()]),
    ];
    for (reason, lines) in cases {
        fs::write(&path, lines.concat()).unwrap();
        let found = faults(&writing);
        assert!(
            found.iter().any(|fault| fault.contains(reason)),
            "{reason}: {found:?}"
        );
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(faults(&writing), [""; 0]);
}

#[test]
fn what_was_erased_is_in_no_file() {
    let folder = fast_folder();
    let writing = open(folder.path());
    let mut ids = Vec::new();
    for number in 0..12 {
        let content = if number % 5 == 1 { "canary" } else { "plain" };
        ids.push(add(&writing, &format!("k{number}"), content).unwrap().id);
    }
    let salt = match records(&writing)[1].content.clone() {
        EvidenceContent::Kept { salt, .. } => salt,
        EvidenceContent::Erased { .. } => panic!("it is not erased yet"),
    };
    let what = Erasure::Records(vec![ids[1].clone(), ids[6].clone(), ids[11].clone()]);
    let erased = writing
        .inner
        .erase(&what, ForgetReason::Erased, Timestamp::from_millis(1));
    assert_eq!(erased.unwrap(), 3);
    for path in files(folder.path()) {
        let text = String::from_utf8(fs::read(path).unwrap()).unwrap();
        assert!(!text.contains("canary") && !text.contains(&salt));
    }
    for journal in [writing, open(folder.path())] {
        assert_eq!(faults(&journal), [""; 0]);
        assert_eq!(
            texts(&journal)
                .iter()
                .filter(|text| *text == "erased")
                .count(),
            3
        );
    }
}

#[test]
fn a_reader_follows_the_writer_and_changes_nothing() {
    let folder = fast_folder();
    let place = folder.path().join("evidence");
    let reading = EvidenceJournal::read_only(Arc::new(RealFs), place.clone());
    assert_eq!(texts(&reading), [""; 0]);
    assert!(!place.exists());
    let writing = open(&place);
    for number in 0..8 {
        let record = add(&writing, &format!("k{number}"), "text").unwrap();
        assert_eq!(records(&reading).last(), Some(&record));
    }
    let first = records(&writing).remove(0);
    erase(&writing, &first.id).unwrap();
    assert_eq!(texts(&reading)[0], "erased");
    for refused in [
        add(&reading, "k", "text").map(drop),
        erase(&reading, &first.id).map(drop),
    ] {
        assert!(
            matches!(refused, Err(StoreError::BadRequest { .. })),
            "{refused:?}"
        );
    }
}

/// What is done at every step of which something goes wrong: enough for several files, and an erasure in two of them.
/// Returns what was acknowledged.
fn story(journal: &EvidenceJournal) -> (Vec<String>, StoreResult<()>) {
    let mut known = Vec::new();
    let mut done = || {
        for number in 0..8 {
            let key = format!("k{number}");
            add(journal, &key, &key)?;
            known.push(key);
        }
        let ids = ["k1", "k6"]
            .map(|key| evidence_id(&stream("c"), &OperationKey::parse(key).unwrap()).unwrap());
        let what = Erasure::Records(ids.to_vec());
        journal
            .inner
            .erase(&what, ForgetReason::Erased, Timestamp::from_millis(1))?;
        known.push("erased".to_owned());
        Ok(())
    };
    let ended = done();
    (known, ended)
}

fn check_acknowledged(journal: &EvidenceJournal, known: &[String], context: &str) {
    let found = records(journal);
    for key in known.iter().filter(|key| *key != "erased") {
        let count = found
            .iter()
            .filter(|record| record.key.as_str() == key)
            .count();
        assert_eq!(count, 1, "{context}: `{key}` was acknowledged");
    }
    if known.iter().any(|key| key == "erased") {
        let erased = found.iter().filter(|record| record.is_erased()).count();
        assert_eq!(erased, 2, "{context}: the erasure was acknowledged");
    }
    assert_eq!(faults(journal), [""; 0], "{context}");
}

#[test]
fn nothing_acknowledged_is_lost_whatever_step_fails() {
    let steps = {
        let (folder, faults) = (fast_folder(), Faults::default());
        let journal = journal(Arc::new(FaultyFs(faults.clone())), folder.path());
        faults.arm(None);
        story(&journal).1.unwrap();
        faults.steps()
    };
    assert!(steps >= 10, "{steps} steps");
    for step in 0..steps {
        for fault in FAULTS {
            let context = format!("step {step}, {fault:?}");
            let (folder, faults) = (fast_folder(), Faults::default());
            let failing = journal(Arc::new(FaultyFs(faults.clone())), folder.path());
            faults.arm(Some((step, fault)));
            let (known, ended) = story(&failing);
            ended.expect_err(&context);
            // A disk that failed once serves the same journal again; a process that ended is followed by another.
            if matches!(fault, crate::fs::faulty::Fault::Fails(..)) {
                check_acknowledged(&failing, &known, &context);
                let (known, ended) = story(&failing);
                ended.expect(&context);
                check_acknowledged(&failing, &known, &context);
            }
            let next = open(folder.path());
            check_acknowledged(&next, &known, &context);
            let (known, ended) = story(&next);
            ended.expect(&context);
            let last = open(folder.path());
            check_acknowledged(&last, &known, &context);
            let texts = texts(&last);
            let expected = ["k0", "erased", "k2", "k3", "k4", "k5", "erased", "k7"];
            assert_eq!(texts, expected, "{context}");
            assert_eq!(temporaries(folder.path()), [""; 0], "{context}");
            for path in files(folder.path()) {
                let bytes = String::from_utf8(fs::read(path).unwrap()).unwrap();
                assert!(!bytes.contains("\"text\":\"k1\""), "{context}");
            }
        }
    }
}
