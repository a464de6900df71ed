//! The redo records of evidence: what was acknowledged and is not known to be in the evidence store.
//!
//! A turn becomes part of the tree and evidence in one transaction, so that neither is ever there without the other, and
//! so does the deletion of a conversation with the erasure of what it said.

use memory_core::item::{ForgetReason, OperationKey};
use memory_core::provenance::{Trust, trust_of};
use memory_core::store::{
    ConversationRows, EvidenceKind, EvidenceStream, NewEvidence, Requester, StoreError,
    StoreResult, TurnNode, content_hash,
};
use memory_core::time::Timestamp;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::sql::{damaged, sql};
use super::{purge, turns};

/// What is to be done to the evidence store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Redo {
    /// A record is added to a stream.
    Append {
        /// The stream.
        stream: EvidenceStream,
        /// The record.
        evidence: Box<NewEvidence>,
    },
    /// What was said in a conversation is erased, on every branch.
    EraseSession {
        /// The conversation.
        session: String,
        /// Why.
        reason: ForgetReason,
        /// When it was asked for.
        at: Timestamp,
    },
}

/// Makes the messages of a turn part of the tree, and records them as evidence. The first is the one that began it.
pub(crate) fn end_turn(connection: &Connection, messages: &[TurnNode]) -> StoreResult<()> {
    let mut stored = Vec::with_capacity(messages.len());
    for message in messages {
        turns::put(connection, message)?;
        // As it is stored: a repeated request must make the same record, and an earlier one may have stored it.
        stored.extend(turns::get(connection, &message.id)?);
    }
    match evidence_of(stored)? {
        Some((stream, evidence)) => {
            let evidence = Box::new(evidence);
            add(connection, &Redo::Append { stream, evidence })
        }
        None => Ok(()),
    }
}

/// Removes everything of a conversation, and has what it said erased from the evidence.
pub(crate) fn delete_conversation(
    connection: &Connection,
    conversation: &str,
    at: Timestamp,
) -> StoreResult<ConversationRows> {
    let removed = purge::delete(connection, conversation)?;
    // What was refused for good is still there to be looked at, and says what was said.
    connection
        .execute(
            "DELETE FROM evidence_redo WHERE fault IS NOT NULL \
             AND json_extract(change, '$.append.stream.session.session') = ?1",
            [conversation],
        )
        .map_err(sql("delete a conversation"))?;
    let redo = Redo::EraseSession {
        session: conversation.to_owned(),
        reason: ForgetReason::SourceDeleted,
        at,
    };
    add(connection, &redo)?;
    Ok(removed)
}

/// Returns the evidence of a turn: what was said, without what was shown beside it.
fn evidence_of(mut messages: Vec<TurnNode>) -> StoreResult<Option<(EvidenceStream, NewEvidence)>> {
    for message in &mut messages {
        message.attached_blocks.clear();
    }
    let ids: Vec<&str> = messages.iter().map(|message| message.id.as_str()).collect();
    // A turn without a reply that gets one later is another record, because the first one is never changed.
    let name = serde_json::to_vec(&ids)
        .map_err(|error| StoreError::engine("record a turn as evidence", error))?;
    let content = json!({ "messages": &messages }).to_string();
    let learnt = messages.iter().map(|message| message.ingestion_time).max();
    let (Some(first), Some(ingestion_time)) = (messages.into_iter().next(), learnt) else {
        return Ok(None);
    };
    let key = OperationKey::parse(&format!("turn-{}", content_hash(&name)))
        .map_err(|error| StoreError::engine("record a turn as evidence", error))?;
    let stream = EvidenceStream::Session {
        session: first.conversation,
        branch: first.branch,
    };
    let evidence = NewEvidence {
        key,
        kind: EvidenceKind::Turn,
        event_time: first.event_time,
        ingestion_time,
        origin: first.origin,
        authority: first.authority,
        trust: trust_of(first.origin, first.authority)
            .map_or(Trust::Untrusted, |verdict| verdict.trust),
        channel: first.channel,
        requester: Requester {
            principal: first.principal,
            speaker: first.speaker,
            agent: first.agent,
        },
        content,
    };
    Ok(Some((stream, evidence)))
}

fn add(connection: &Connection, redo: &Redo) -> StoreResult<()> {
    let change = serde_json::to_string(redo)
        .map_err(|error| StoreError::engine("record evidence", error))?;
    connection
        .prepare_cached("INSERT INTO evidence_redo (change) VALUES (?1)")
        .and_then(|mut statement| statement.execute([change]))
        .map(drop)
        .map_err(sql("record evidence"))
}

/// Returns what is still to be done, oldest first.
pub(crate) fn open(connection: &Connection) -> StoreResult<Vec<(i64, Redo)>> {
    let rows: Vec<(i64, String)> = connection
        .prepare_cached("SELECT seq, change FROM evidence_redo WHERE fault IS NULL ORDER BY seq")
        .and_then(|mut statement| {
            statement
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
        .map_err(sql("read evidence that waits"))?;
    let redo = |(seq, change): (i64, String)| {
        let change = serde_json::from_str(&change)
            .map_err(|error| damaged(&format!("redo record {seq} of evidence: {error}")))?;
        Ok((seq, change))
    };
    rows.into_iter().map(redo).collect()
}

/// Takes note of what was done, and of what was refused for good.
pub(crate) fn close(
    connection: &Connection,
    done: &[i64],
    refused: &[(i64, String)],
) -> StoreResult<()> {
    for seq in done {
        connection
            .prepare_cached("DELETE FROM evidence_redo WHERE seq = ?1")
            .and_then(|mut statement| statement.execute([seq]))
            .map_err(sql("note that evidence is kept"))?;
    }
    for (seq, fault) in refused {
        connection
            .prepare_cached("UPDATE evidence_redo SET fault = ?2 WHERE seq = ?1")
            .and_then(|mut statement| statement.execute(params![seq, fault]))
            .map_err(sql("note that evidence was refused"))?;
    }
    Ok(())
}

/// Returns how many redo records wait, and how many were refused for good.
pub(crate) fn backlog(connection: &Connection) -> StoreResult<(u64, u64)> {
    let counts: (i64, i64) = connection
        .query_row(
            "SELECT count(*) FILTER (WHERE fault IS NULL), count(fault) FROM evidence_redo",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .map_err(sql("count evidence that waits"))?;
    Ok((counts.0.unsigned_abs(), counts.1.unsigned_abs()))
}
