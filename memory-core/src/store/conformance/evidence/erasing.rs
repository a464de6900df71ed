//! What an evidence store promises of erasing: what was said goes, that something was said stays.

use super::super::{Verdict, equal, not_found, require};
use super::{add, append, clean, key, session, turn};
use crate::item::{EvidenceId, ForgetReason};
use crate::store::{Erasure, EvidenceStore, EvidenceStream, NewEvidence, Requester, evidence_id};
use crate::time::Timestamp;

/// What was erased says nothing any more, not even who was behind it, and the chain still holds.
pub async fn erasing_takes_what_was_said_and_leaves_the_chain(
    store: &dyn EvidenceStore,
) -> Verdict {
    let mut records = Vec::new();
    for number in 0..3 {
        let evidence = NewEvidence {
            requester: Requester {
                speaker: Some("Ada".to_owned()),
                ..Requester::default()
            },
            ..turn(&format!("k{number}"), "secret")
        };
        records.push(add(store, &session(), evidence).await?);
    }
    let now = Timestamp::from_millis(42);
    let ids = vec![records[1].id.clone()];
    let erased = store
        .erase(Erasure::Records(ids), ForgetReason::Erased, now)
        .await?;
    equal("erased", &erased, &1)?;
    records[1] = records[1].clone().erased(ForgetReason::Erased, now);
    equal("records", &store.list(&session(), 0, 9).await?, &records)?;
    equal(
        "by identifier",
        &store.evidence(&records[1].id).await?,
        &Some(records[1].clone()),
    )?;
    clean(store, 3, 1).await?;
    // The last one too, and the stream goes on from there.
    let ids = vec![records[2].id.clone()];
    store
        .erase(Erasure::Records(ids), ForgetReason::Erased, now)
        .await?;
    equal(
        "the head",
        &store.head(&session()).await?,
        &Some(records[2].head()),
    )?;
    let next = add(store, &session(), turn("k3", "text")).await?;
    equal("its fault", &next.fault(Some(&records[2].head())), &None)?;
    clean(store, 4, 2).await
}

/// With an unknown record among them nothing is erased; what was erased is left as it is.
pub async fn erasing_is_all_known_or_nothing_and_may_come_again(
    store: &dyn EvidenceStore,
) -> Verdict {
    let record = add(store, &session(), turn("k1", "one")).await?;
    let unknown = evidence_id(&session(), &key("nowhere")?)?;
    let erase = |ids: Vec<EvidenceId>, now| {
        let at = Timestamp::from_millis(now);
        store.erase(Erasure::Records(ids), ForgetReason::Owner, at)
    };
    let answer = erase(vec![record.id.clone(), unknown], 1).await;
    not_found("a record that is not there", answer)?;
    equal(
        "the record",
        &store.evidence(&record.id).await?,
        &Some(record.clone()),
    )?;
    equal("nothing erased", &erase(Vec::new(), 1).await?, &0)?;
    let twice = vec![record.id.clone(), record.id.clone()];
    equal("erased", &erase(twice, 2).await?, &1)?;
    equal(
        "erased again",
        &erase(vec![record.id.clone()], 3).await?,
        &0,
    )?;
    let left = record.erased(ForgetReason::Owner, Timestamp::from_millis(2));
    equal(
        "what is left",
        &store.evidence(&left.id).await?,
        &Some(left.clone()),
    )
}

/// Erasing a stream erases every record of it, and none of another.
pub async fn whole_streams_are_erased(store: &dyn EvidenceStore) -> Verdict {
    let other = EvidenceStream::Project("c".to_owned());
    for number in 0..3 {
        for stream in [session(), other.clone()] {
            add(store, &stream, turn(&format!("k{number}"), "text")).await?;
        }
    }
    let unknown = EvidenceStream::Import("nowhere".to_owned());
    for expected in [3, 0] {
        let what = Erasure::Streams(vec![session(), unknown.clone()]);
        let at = Timestamp::from_millis(1);
        let erased = store.erase(what, ForgetReason::SourceDeleted, at).await?;
        equal("erased", &erased, &expected)?;
    }
    for (stream, erased) in [(session(), true), (other, false)] {
        let records = store.list(&stream, 0, 9).await?;
        equal("records", &records.len(), &3)?;
        let all = records.iter().all(|record| record.is_erased() == erased);
        require(
            all,
            "every record of one stream should be erased, none of the other",
        )?;
    }
    clean(store, 6, 3).await
}

/// Adding an erased record once more brings nothing back.
pub async fn an_erased_record_does_not_come_again(store: &dyn EvidenceStore) -> Verdict {
    let record = add(store, &session(), turn("k1", "one")).await?;
    let at = Timestamp::from_millis(1);
    let what = Erasure::Records(vec![record.id.clone()]);
    store.erase(what, ForgetReason::Owner, at).await?;
    let answer = append(store, &session(), turn("k1", "one")).await?;
    require(answer.replayed, "it should be known")?;
    require(answer.record.is_erased(), "it should stay erased")?;
    clean(store, 1, 1).await
}
