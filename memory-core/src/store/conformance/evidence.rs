//! What an evidence store promises: records are added once, never changed, chained, and can lose what they say.

use std::collections::BTreeSet;
use std::ops::Deref;

use futures_util::future::join_all;

use super::{
    Breach, CALLERS, Report, Verdict, bad_request, conflict, equal, hold, one_winner, require,
    wrong,
};
use crate::item::{ForgetReason, OperationKey};
use crate::provenance::{Authority, Channel, Origin, Trust};
use crate::store::{
    Appended, Erasure, EvidenceCheck, EvidenceContent, EvidenceKind, EvidenceRecord, EvidenceStore,
    EvidenceStream, ExpectedHead, MAX_EVIDENCE_BYTES, NewEvidence, Requester, StoreResult,
    evidence_id,
};
use crate::time::Timestamp;

pub use self::erasing::{
    an_erased_record_does_not_come_again, erasing_is_all_known_or_nothing_and_may_come_again,
    erasing_takes_what_was_said_and_leaves_the_chain, whole_streams_are_erased,
};

mod erasing;

/// What a conflict names in place of a hash when a stream is empty.
const NOTHING: &str = "nothing";

/// Bytes of a content that is larger than any buffer on its way.
const LARGE: usize = 3 << 20;

/// Holds evidence stores to every rule. Each gets an empty one.
pub async fn suite<S>(make: impl AsyncFn() -> S) -> Report
where
    S: Deref<Target: EvidenceStore + Sized>,
{
    hold!(
        make,
        [
            a_record_comes_back_as_it_went_in,
            any_text_is_kept,
            records_are_chained,
            the_same_key_gives_the_first_record,
            a_key_is_one_record_for_good,
            a_stream_that_moved_on_is_a_conflict,
            streams_are_apart_and_sorted,
            a_stream_is_read_in_pages,
            what_must_not_be_recorded_is_refused,
            erasing_takes_what_was_said_and_leaves_the_chain,
            erasing_is_all_known_or_nothing_and_may_come_again,
            whole_streams_are_erased,
            an_erased_record_does_not_come_again,
            of_several_writers_at_one_head_one_wins,
            the_same_record_from_several_writers_is_there_once,
            writers_of_one_stream_make_one_chain,
        ]
    )
}

/// Holds an evidence store to what must survive its end. `reopen` ends it and opens it again.
pub async fn survives<S>(make: impl AsyncFn() -> S, reopen: impl AsyncFn(S) -> S) -> Report
where
    S: Deref<Target: EvidenceStore + Sized>,
{
    let mut report = Report::default();
    let verdict = async {
        let mut store = make().await;
        let mut kept = Vec::new();
        // More than once, so that what is added after opening is opened too.
        for round in 0..3 {
            for number in 0..4 {
                let evidence = turn(&format!("r{round}-{number}"), "text");
                kept.push(add(&*store, &session(), evidence).await?);
            }
            let erased = vec![kept[round].id.clone()];
            let at = Timestamp::from_millis(9);
            store
                .erase(Erasure::Records(erased), ForgetReason::Owner, at)
                .await?;
            kept[round] = kept[round].clone().erased(ForgetReason::Owner, at);
            store = reopen(store).await;
            let found = store.list(&session(), 0, 99).await?;
            equal("records after opening again", &found, &kept)?;
            clean(&*store, kept.len(), round + 1).await?;
        }
        let repeated = append(&*store, &session(), turn("r2-3", "text")).await?;
        require(
            repeated.replayed,
            "a key should be known after opening again",
        )
    };
    report.note("what_was_acknowledged_survives", verdict.await);
    report
}

fn session() -> EvidenceStream {
    EvidenceStream::Session {
        session: "c".to_owned(),
        branch: "main".to_owned(),
    }
}

fn key(name: &str) -> Result<OperationKey, Breach> {
    OperationKey::parse(name).map_err(|error| wrong(error.to_string()))
}

/// A turn of the owner's.
fn turn(name: &str, content: &str) -> NewEvidence {
    NewEvidence {
        key: OperationKey::parse(name).expect("the rules name plain keys"),
        kind: EvidenceKind::Turn,
        event_time: Timestamp::from_millis(-5),
        ingestion_time: Timestamp::from_millis(7),
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        trust: Trust::Trusted,
        channel: Channel::Global,
        requester: Requester::default(),
        content: content.to_owned(),
    }
}

async fn append(
    store: &dyn EvidenceStore,
    stream: &EvidenceStream,
    evidence: NewEvidence,
) -> StoreResult<Appended> {
    store.append(stream, evidence, ExpectedHead::Any).await
}

/// Adds what is new and returns its record.
async fn add(
    store: &dyn EvidenceStore,
    stream: &EvidenceStream,
    evidence: NewEvidence,
) -> Result<EvidenceRecord, Breach> {
    let added = append(store, stream, evidence).await?;
    require(!added.replayed, "a new record should not be a repeated one")?;
    Ok(added.record)
}

/// Requires that a look at all evidence finds so many records, so many erased, and no fault.
async fn clean(store: &dyn EvidenceStore, records: usize, erased: usize) -> Verdict {
    let found = store.verify().await?;
    let expected = EvidenceCheck {
        streams: store.streams().await?.len() as u64,
        records: records as u64,
        erased: erased as u64,
        faults: Vec::new(),
    };
    equal("a look at all evidence", &found, &expected)
}

fn text(record: &EvidenceRecord) -> Option<&str> {
    match &record.content {
        EvidenceContent::Kept { text, .. } => Some(text),
        EvidenceContent::Erased { .. } => None,
    }
}

/// Every field of a record comes back, by its identifier and in its stream.
pub async fn a_record_comes_back_as_it_went_in(store: &dyn EvidenceStore) -> Verdict {
    equal("the head of nothing", &store.head(&session()).await?, &None)?;
    equal("streams", &store.streams().await?.len(), &0)?;
    equal("records", &store.list(&session(), 0, 9).await?.len(), &0)?;
    clean(store, 0, 0).await?;
    let written = NewEvidence {
        kind: EvidenceKind::ProjectChange,
        origin: Origin::ToolOutput,
        authority: Authority::Paired,
        trust: Trust::Untrusted,
        channel: Channel::Project("atlas".to_owned()),
        requester: Requester {
            principal: Some("owner/1".to_owned()),
            speaker: Some("Ada 🦝".to_owned()),
            agent: Some("coder".to_owned()),
        },
        ..turn("turn:m1/é", "hello")
    };
    let record = add(store, &session(), written.clone()).await?;
    require(
        record.answers(&written),
        "the record should be what was added",
    )?;
    let times = (
        record.event_time.as_millis(),
        record.ingestion_time.as_millis(),
    );
    equal("its times", &times, &(-5, 7))?;
    equal(
        "its place",
        &(&record.stream, record.number),
        &(&session(), 1),
    )?;
    equal("its parent", &record.parent, &None)?;
    equal(
        "its identifier",
        &record.id,
        &evidence_id(&session(), &written.key)?,
    )?;
    equal("its fault", &record.own_fault(), &None)?;
    equal(
        "by identifier",
        &store.evidence(&record.id).await?,
        &Some(record.clone()),
    )?;
    equal(
        "in its stream",
        &store.list(&session(), 0, 9).await?,
        &[record.clone()][..],
    )?;
    equal(
        "the head",
        &store.head(&session()).await?,
        &Some(record.head()),
    )?;
    let nowhere = evidence_id(&session(), &key("nowhere")?)?;
    equal("what is not there", &store.evidence(&nowhere).await?, &None)
}

/// A content may be empty, of any script, look like what a store writes itself, or fill more than a buffer.
pub async fn any_text_is_kept(store: &dyn EvidenceStore) -> Verdict {
    let contents = [
        String::new(),
        "lines\r\n\n\0 and e\u{301} 日本語 🦝 \u{2028}".to_owned(),
        "{\"hash\":\"\"}\n00000000 0000000000000000 {}\n".to_owned(),
        "x".repeat(LARGE),
        "after a large one".to_owned(),
    ];
    for (number, content) in contents.iter().enumerate() {
        let record = add(store, &session(), turn(&format!("k{number}"), content)).await?;
        equal("a content", &text(&record), &Some(content.as_str()))?;
    }
    let records = store.list(&session(), 0, 99).await?;
    let found: Vec<_> = records.iter().filter_map(text).collect();
    equal("contents", &found, &contents)?;
    clean(store, contents.len(), 0).await
}

/// Each record names the one before it, and equal contents do not have equal hashes.
pub async fn records_are_chained(store: &dyn EvidenceStore) -> Verdict {
    let mut head = None;
    let mut hashes = BTreeSet::new();
    for number in 1..=4 {
        let record = add(store, &session(), turn(&format!("k{number}"), "same")).await?;
        equal("its fault", &record.fault(head.as_ref()), &None)?;
        equal("its number", &record.number, &number)?;
        require(
            hashes.insert(record.content_hash.clone()),
            "a salted hash should not show that two contents are equal",
        )?;
        head = Some(record.head());
    }
    clean(store, 4, 0).await
}

/// A repeated request gets the first record, however far the stream has gone on, and adds nothing.
pub async fn the_same_key_gives_the_first_record(store: &dyn EvidenceStore) -> Verdict {
    let first = add(store, &session(), turn("k1", "one")).await?;
    add(store, &session(), turn("k2", "two")).await?;
    let again = NewEvidence {
        ingestion_time: Timestamp::from_millis(99),
        ..turn("k1", "one")
    };
    for expected in [
        ExpectedHead::Any,
        ExpectedHead::Empty,
        ExpectedHead::At(first.hash.clone()),
    ] {
        let answer = store.append(&session(), again.clone(), expected).await?;
        let expected = Appended {
            record: first.clone(),
            replayed: true,
        };
        equal("the second time", &answer, &expected)?;
    }
    clean(store, 2, 0).await
}

/// Another record under a known key is refused; in another stream the key is free.
pub async fn a_key_is_one_record_for_good(store: &dyn EvidenceStore) -> Verdict {
    let first = add(store, &session(), turn("k1", "one")).await?;
    let others = [
        turn("k1", "two"),
        NewEvidence {
            event_time: Timestamp::from_millis(6),
            ..turn("k1", "one")
        },
        NewEvidence {
            trust: Trust::Untrusted,
            ..turn("k1", "one")
        },
        NewEvidence {
            requester: Requester {
                speaker: Some("Eve".to_owned()),
                ..Requester::default()
            },
            ..turn("k1", "one")
        },
    ];
    for other in others {
        bad_request(
            "a key that is taken",
            append(store, &session(), other).await,
        )?;
    }
    let elsewhere = EvidenceStream::Project("c".to_owned());
    let other = add(store, &elsewhere, turn("k1", "two")).await?;
    require(
        other.id != first.id,
        "two records should not have one identifier",
    )?;
    equal("the first", &store.evidence(&first.id).await?, &Some(first))?;
    clean(store, 2, 0).await
}

/// A record that expects another head is not added, and is told which one there is.
pub async fn a_stream_that_moved_on_is_a_conflict(store: &dyn EvidenceStore) -> Verdict {
    let at = |hash: &str| ExpectedHead::At(hash.to_owned());
    let stream = session();
    let add_at = |name: &str, expected| store.append(&stream, turn(name, "text"), expected);
    let answer = add_at("k1", at("elsewhere")).await;
    conflict(
        "a head where there is nothing",
        answer,
        Some(("elsewhere", NOTHING)),
    )?;
    let first = add_at("k1", ExpectedHead::Empty).await?.record;
    let answer = add_at("k2", ExpectedHead::Empty).await;
    conflict(
        "nothing where there is a head",
        answer,
        Some((NOTHING, &first.hash)),
    )?;
    let second = add_at("k2", at(&first.hash)).await?.record;
    let answer = add_at("k3", at(&first.hash)).await;
    conflict("a head that was", answer, Some((&first.hash, &second.hash)))?;
    equal(
        "records",
        &store.list(&session(), 0, 9).await?,
        &[first, second][..],
    )
}

/// Streams share nothing, whatever their names look like, and are listed in their order.
pub async fn streams_are_apart_and_sorted(store: &dyn EvidenceStore) -> Verdict {
    let session = |session: &str, branch: &str| EvidenceStream::Session {
        session: session.to_owned(),
        branch: branch.to_owned(),
    };
    let sorted = [
        session("a", "b/c"),
        session("a/b", "c"),
        session("日本", "../\0\n"),
        EvidenceStream::Project("a".to_owned()),
        EvidenceStream::Project("b".to_owned()),
        EvidenceStream::Import("a".to_owned()),
    ];
    let mut heads = Vec::new();
    for (number, stream) in sorted.iter().enumerate().rev() {
        let record = add(store, stream, turn("k", &number.to_string())).await?;
        equal("its number", &record.number, &1)?;
        heads.insert(0, record.head());
    }
    equal("streams", &store.streams().await?, &heads)?;
    for (number, stream) in sorted.iter().enumerate() {
        let records = store.list(stream, 0, 9).await?;
        let found: Vec<_> = records.iter().filter_map(text).collect();
        equal("its records", &found, &[number.to_string()][..])?;
    }
    clean(store, sorted.len(), 0).await
}

/// A stream is read from any number on, as much of it as was asked for.
pub async fn a_stream_is_read_in_pages(store: &dyn EvidenceStore) -> Verdict {
    for number in 1..=5 {
        add(store, &session(), turn(&format!("k{number}"), "text")).await?;
    }
    let cases: [(u64, u32, &[u64]); 6] = [
        (0, 2, &[1, 2]),
        (2, 2, &[3, 4]),
        (4, u32::MAX, &[5]),
        (5, 9, &[]),
        (u64::MAX, 9, &[]),
        (0, 0, &[]),
    ];
    for (after, limit, expected) in cases {
        let records = store.list(&session(), after, limit).await?;
        let numbers: Vec<u64> = records.iter().map(|record| record.number).collect();
        equal("numbers", &numbers, expected)?;
    }
    Ok(())
}

/// More trust than origin and authority allow, a stream without a name and a content beyond all measure leave no trace.
pub async fn what_must_not_be_recorded_is_refused(store: &dyn EvidenceStore) -> Verdict {
    let of = |origin, authority, trust| NewEvidence {
        origin,
        authority,
        trust,
        ..turn("k", "text")
    };
    let no_name = EvidenceStream::Session {
        session: "c".to_owned(),
        branch: String::new(),
    };
    let cases = [
        (
            session(),
            of(Origin::ToolOutput, Authority::Owner, Trust::Trusted),
        ),
        (
            session(),
            of(Origin::UserDirect, Authority::None, Trust::Trusted),
        ),
        (
            session(),
            of(Origin::UserFile, Authority::Paired, Trust::Trusted),
        ),
        (session(), turn("k", &"x".repeat(MAX_EVIDENCE_BYTES + 1))),
        (no_name, turn("k", "text")),
        (EvidenceStream::Project(String::new()), turn("k", "text")),
        (EvidenceStream::Import(String::new()), turn("k", "text")),
    ];
    for (stream, evidence) in cases {
        let answer = append(store, &stream, evidence).await;
        bad_request("what must not be recorded", answer)?;
    }
    equal("streams", &store.streams().await?.len(), &0)?;
    let lower = of(Origin::UserDirect, Authority::None, Trust::Untrusted);
    add(store, &session(), lower).await?;
    clean(store, 1, 0).await
}

/// Of writers that expect the same head, one succeeds and the others are told.
pub async fn of_several_writers_at_one_head_one_wins(store: &dyn EvidenceStore) -> Verdict {
    let mut expected = ExpectedHead::Empty;
    for round in 0..3 {
        let stream = session();
        let writes = (0..CALLERS).map(|writer| {
            let evidence = turn(&format!("r{round}-{writer}"), "text");
            store.append(&stream, evidence, expected.clone())
        });
        let winner = one_winner("writers at one head", join_all(writes).await)?;
        let Some(head) = store.head(&stream).await? else {
            return Err(wrong("the stream should have a head"));
        };
        equal("the head", &head.number, &(round + 1))?;
        let name = key(&format!("r{round}-{winner}"))?;
        let record = store.evidence(&evidence_id(&stream, &name)?).await?;
        equal(
            "its record",
            &record.map(|record| record.hash),
            &Some(head.hash.clone()),
        )?;
        expected = ExpectedHead::At(head.hash);
    }
    clean(store, 3, 0).await
}

/// Writers that add the same record all get it, and it is there once.
pub async fn the_same_record_from_several_writers_is_there_once(
    store: &dyn EvidenceStore,
) -> Verdict {
    let stream = session();
    let writes = (0..CALLERS).map(|_| append(store, &stream, turn("k1", "one")));
    let mut first = 0;
    let mut records = Vec::new();
    for answer in join_all(writes).await {
        let answer = answer?;
        first += usize::from(!answer.replayed);
        records.push(answer.record);
    }
    equal("writers that added it", &first, &1)?;
    records.dedup();
    equal("records", &records.len(), &1)?;
    clean(store, 1, 0).await
}

/// Whatever writers add to one stream at once is all there, one after the other.
pub async fn writers_of_one_stream_make_one_chain(store: &dyn EvidenceStore) -> Verdict {
    let stream = session();
    let writes = (0..CALLERS).map(|writer| {
        let evidence = turn(&format!("k{writer}"), "text");
        append(store, &stream, evidence)
    });
    for answer in join_all(writes).await {
        answer?;
    }
    let records = store.list(&stream, 0, 99).await?;
    let keys: BTreeSet<_> = records.iter().map(|record| record.key.clone()).collect();
    equal("records", &keys.len(), &CALLERS)?;
    clean(store, CALLERS, 0).await
}
