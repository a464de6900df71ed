//! Evidence in vectors, one a stream.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::env::Rng;
use crate::item::{EvidenceId, ForgetReason};
use crate::store::{
    Appended, Erasure, EvidenceCheck, EvidenceRecord, EvidenceStore, EvidenceStream, ExpectedHead,
    NewEvidence, StoreError, StoreResult, StreamHead, evidence_key_reused, evidence_salt,
};
use crate::time::Timestamp;

/// Evidence in memory.
#[derive(Debug)]
pub struct InMemoryEvidence {
    rng: Arc<dyn Rng>,
    streams: Mutex<Streams>,
}

type Streams = BTreeMap<EvidenceStream, Vec<EvidenceRecord>>;

impl InMemoryEvidence {
    /// Returns an empty store. What is random goes into the hashes of contents.
    pub fn new(rng: Arc<dyn Rng>) -> Self {
        Self {
            rng,
            streams: Mutex::default(),
        }
    }
}

fn head_of(records: Option<&Vec<EvidenceRecord>>) -> Option<StreamHead> {
    records?.last().map(EvidenceRecord::head)
}

#[async_trait]
impl EvidenceStore for InMemoryEvidence {
    async fn append(
        &self,
        stream: &EvidenceStream,
        evidence: NewEvidence,
        expected: ExpectedHead,
    ) -> StoreResult<Appended> {
        let mut streams = locked(&self.streams);
        let known = streams.get(stream);
        let has_key = |record: &&EvidenceRecord| record.key == evidence.key;
        if let Some(record) = known.and_then(|records| records.iter().find(has_key)) {
            if !record.answers(&evidence) {
                return Err(evidence_key_reused(stream, &evidence.key));
            }
            return Ok(Appended {
                record: record.clone(),
                replayed: true,
            });
        }
        let head = head_of(known);
        expected.require(stream, head.as_ref())?;
        let salt = evidence_salt(self.rng.as_ref());
        let record = EvidenceRecord::new(stream, head.as_ref(), evidence, salt)?;
        let records = streams.entry(stream.clone()).or_default();
        records.push(record.clone());
        Ok(Appended {
            record,
            replayed: false,
        })
    }

    async fn evidence(&self, id: &EvidenceId) -> StoreResult<Option<EvidenceRecord>> {
        let streams = locked(&self.streams);
        let mut records = streams.values().flatten();
        Ok(records.find(|record| record.id == *id).cloned())
    }

    async fn list(
        &self,
        stream: &EvidenceStream,
        after: u64,
        limit: u32,
    ) -> StoreResult<Vec<EvidenceRecord>> {
        let streams = locked(&self.streams);
        let records = streams.get(stream).into_iter().flatten();
        let later = records.filter(|record| record.number > after);
        Ok(later.take(limit as usize).cloned().collect())
    }

    async fn head(&self, stream: &EvidenceStream) -> StoreResult<Option<StreamHead>> {
        Ok(head_of(locked(&self.streams).get(stream)))
    }

    async fn streams(&self) -> StoreResult<Vec<StreamHead>> {
        let streams = locked(&self.streams);
        let heads = streams.values().map(|records| head_of(Some(records)));
        Ok(heads.flatten().collect())
    }

    async fn erase(&self, what: Erasure, reason: ForgetReason, at: Timestamp) -> StoreResult<u64> {
        let mut streams = locked(&self.streams);
        if let Erasure::Records(ids) = &what {
            let mut known = ids.iter().map(|id| {
                let is_there = |record: &EvidenceRecord| record.id == *id;
                (id, streams.values().flatten().any(is_there))
            });
            if let Some((id, _)) = known.find(|(_, is_there)| !is_there) {
                return Err(StoreError::NotFound {
                    what: format!("evidence {id}"),
                });
            }
        }
        let is_meant = |record: &EvidenceRecord| match &what {
            Erasure::Records(ids) => ids.contains(&record.id),
            Erasure::Streams(streams) => streams.contains(&record.stream),
        };
        let mut erased = 0;
        for record in streams.values_mut().flatten() {
            if is_meant(record) && !record.is_erased() {
                *record = record.clone().erased(reason, at);
                erased += 1;
            }
        }
        Ok(erased)
    }

    async fn verify(&self) -> StoreResult<EvidenceCheck> {
        let mut check = EvidenceCheck::default();
        for records in locked(&self.streams).values() {
            check.look_at(records);
        }
        Ok(check)
    }
}
