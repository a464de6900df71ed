//! What the world keeps: residency, logs, values, messages and notices.

use std::sync::PoisonError;

use async_trait::async_trait;
use memory_core::services::{
    Call, Capability, Kv, KvScope, Log, LogKind, LogRow, Message, Messages, Notice, Notices,
    Residency, Resident, ResidentEntry, Role, ServiceResult,
};
use memory_core::time::Timestamp;

use super::{huge, reads, spoilt, unknown, writes};
use crate::world::{Nonsense, World};

#[async_trait]
impl Residency for World {
    async fn active(&self, call: &Call) -> ServiceResult<Vec<ResidentEntry>> {
        let nonsense = self
            .gate(call, reads(Capability::Residency, "residency.active", ""))
            .await?;
        if self.is_empty(Capability::Residency) {
            return Ok(Vec::new());
        }
        let mut active = self.resident(&call.scope().conversation);
        if nonsense.is_some() {
            active.push(ResidentEntry {
                slug: unknown(),
                section: None,
                message: String::new(),
                tier: self.tier,
                bytes: u64::MAX,
                at: Timestamp::from_millis(i64::MIN),
            });
        }
        Ok(spoilt(active, nonsense))
    }

    async fn record(
        &self,
        call: &Call,
        message: String,
        shown: Vec<Resident>,
    ) -> ServiceResult<()> {
        let question = writes(Capability::Residency, "residency.record");
        self.gate(call, question).await?;
        let conversation = &call.scope().conversation;
        let at = memory_core::env::Clock::now(self);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for shown in shown {
            // As in a real host: the same thing on the same message is one row.
            let known = kept.resident.iter().any(|(of, entry)| {
                of == conversation
                    && entry.message == message
                    && entry.slug == shown.slug
                    && entry.section == shown.section
            });
            if !known {
                let entry = ResidentEntry {
                    slug: shown.slug,
                    section: shown.section,
                    message: message.clone(),
                    tier: self.tier,
                    bytes: shown.bytes,
                    at,
                };
                kept.resident.push((conversation.clone(), entry));
            }
        }
        Ok(())
    }

    async fn clear(&self, call: &Call) -> ServiceResult<()> {
        let question = writes(Capability::Residency, "residency.clear");
        self.gate(call, question).await?;
        self.forget_context(&call.scope().conversation);
        Ok(())
    }
}

#[async_trait]
impl Log for World {
    async fn append(&self, call: &Call, rows: Vec<LogRow>) -> ServiceResult<()> {
        self.gate(call, writes(Capability::Log, "log.append"))
            .await?;
        let conversation = &call.scope().conversation;
        let rows = rows.into_iter().map(|row| (conversation.clone(), row));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.rows.extend(rows);
        Ok(())
    }

    async fn newest(&self, call: &Call, kind: LogKind, limit: u32) -> ServiceResult<Vec<LogRow>> {
        let nonsense = self
            .gate(call, reads(Capability::Log, "log.newest", ""))
            .await?;
        if self.is_empty(Capability::Log) {
            return Ok(Vec::new());
        }
        let conversation = &call.scope().conversation;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let own = kept.rows.iter().rev();
        let own = own.filter(|(of, row)| of == conversation && row.kind == kind);
        let mut rows: Vec<LogRow> = own
            .map(|(_, row)| row.clone())
            .take(limit as usize)
            .collect();
        if nonsense == Some(Nonsense::Texts) {
            rows.push(LogRow {
                kind,
                slug: None,
                body: "this is no JSON".to_owned(),
            });
        }
        Ok(spoilt(rows, nonsense))
    }
}

#[async_trait]
impl Kv for World {
    async fn get(&self, call: &Call, scope: KvScope, key: String) -> ServiceResult<Option<String>> {
        let nonsense = self.gate(call, reads(Capability::Kv, "kv.get", "")).await?;
        if self.is_empty(Capability::Kv) {
            return Ok(None);
        }
        if nonsense.is_some() {
            return Ok(Some("{\"this\": is no JSON".to_owned()));
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kept.values.get(&(Self::owner(call, scope), key)).cloned())
    }

    async fn put(
        &self,
        call: &Call,
        scope: KvScope,
        key: String,
        value: Option<String>,
    ) -> ServiceResult<()> {
        self.gate(call, writes(Capability::Kv, "kv.put")).await?;
        let key = (Self::owner(call, scope), key);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match value {
            Some(value) => kept.values.insert(key, value),
            None => kept.values.remove(&key),
        };
        Ok(())
    }
}

#[async_trait]
impl Messages for World {
    async fn recent(&self, call: &Call, limit: u32) -> ServiceResult<Vec<Message>> {
        let nonsense = self
            .gate(call, reads(Capability::Messages, "messages.recent", ""))
            .await?;
        if self.is_empty(Capability::Messages) || limit == 0 {
            return Ok(Vec::new());
        }
        let text = "Good morning.";
        let message = Message {
            id: "before".to_owned(),
            role: Role::Assistant,
            text: match nonsense {
                Some(Nonsense::Texts) => huge(text),
                _ => text.to_owned(),
            },
            at: Timestamp::from_millis(0),
        };
        Ok(spoilt(vec![message], nonsense))
    }
}

#[async_trait]
impl Notices for World {
    async fn post(&self, call: &Call, _notice: Notice) -> ServiceResult<()> {
        let question = writes(Capability::Notices, "notices.post");
        self.gate(call, question).await.map(drop)
    }
}
