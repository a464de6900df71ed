//! Residency, logs, small state and messages: the capabilities that rest on `state.db`.
//!
//! Conversation, turn, tier and time are set here and never by the tier, so one tier cannot write in another's name.

use async_trait::async_trait;
use memory_core::services::{
    Call, Kv, KvScope, Log, LogKind, LogRow, Message, Messages, Residency, Resident, ResidentEntry,
    ServiceError, ServiceResult,
};
use memory_core::store::{StateStore as _, TurnTree as _};

use super::{Host, admit, failed};

fn conversation(call: &Call) -> ServiceResult<&str> {
    let conversation = call.scope().conversation.as_str();
    if conversation.is_empty() {
        Err(ServiceError::BadRequest {
            reason: "the call belongs to no conversation".to_owned(),
        })
    } else {
        Ok(conversation)
    }
}

#[async_trait]
impl Residency for Host {
    async fn active(&self, call: &Call) -> ServiceResult<Vec<ResidentEntry>> {
        if admit(call)?.is_nothing() {
            return Ok(Vec::new());
        }
        self.shared
            .state
            .resident(conversation(call)?)
            .await
            .map_err(failed)
    }

    async fn record(
        &self,
        call: &Call,
        message: String,
        shown: Vec<Resident>,
    ) -> ServiceResult<()> {
        self.shared.require_writable()?;
        let now = self.shared.clock.now();
        let conversation = conversation(call)?;
        self.shared
            .state
            .record_resident(conversation, &message, self.tier, shown, now)
            .await
            .map_err(failed)
    }

    async fn clear(&self, call: &Call) -> ServiceResult<()> {
        self.shared.require_writable()?;
        self.shared
            .state
            .clear_resident(conversation(call)?)
            .await
            .map_err(failed)
    }
}

#[async_trait]
impl Log for Host {
    async fn append(&self, call: &Call, rows: Vec<LogRow>) -> ServiceResult<()> {
        self.shared.require_writable()?;
        let now = self.shared.clock.now();
        let (conversation, turn) = (conversation(call)?, call.scope().turn);
        self.shared
            .state
            .append_log(conversation, turn, self.tier, rows, now)
            .await
            .map_err(failed)
    }

    async fn newest(&self, call: &Call, kind: LogKind, limit: u32) -> ServiceResult<Vec<LogRow>> {
        if admit(call)?.is_nothing() {
            return Ok(Vec::new());
        }
        self.shared
            .state
            .newest_log(conversation(call)?, kind, limit)
            .await
            .map_err(failed)
    }
}

#[async_trait]
impl Kv for Host {
    async fn get(&self, call: &Call, scope: KvScope, key: String) -> ServiceResult<Option<String>> {
        let owner = owner(call, scope)?;
        self.shared
            .state
            .kv_get(self.tier.as_str(), scope, owner, &key)
            .await
            .map_err(failed)
    }

    async fn put(
        &self,
        call: &Call,
        scope: KvScope,
        key: String,
        value: Option<String>,
    ) -> ServiceResult<()> {
        self.shared.require_writable()?;
        let owner = owner(call, scope)?;
        self.shared
            .state
            .kv_put(self.tier.as_str(), scope, owner, &key, value)
            .await
            .map_err(failed)
    }
}

fn owner(call: &Call, scope: KvScope) -> ServiceResult<&str> {
    match scope {
        KvScope::Conversation => conversation(call),
        KvScope::Assistant => Ok(""),
    }
}

#[async_trait]
impl Messages for Host {
    async fn recent(&self, call: &Call, limit: u32) -> ServiceResult<Vec<Message>> {
        if admit(call)?.is_nothing() {
            return Ok(Vec::new());
        }
        let nodes = self
            .shared
            .state
            .recent_in_conversation(conversation(call)?, limit)
            .await
            .map_err(failed)?;
        Ok(nodes
            .into_iter()
            .map(|node| Message {
                id: node.id,
                role: node.role,
                text: node.text,
                at: node.event_time,
            })
            .collect())
    }
}
