//! What can happen to a conversation between turns.
//!
//! The host's own rows follow first, because they must be right whichever tier serves, or none; then the serving tier is
//! told, for what it keeps beside them.

use memory_core::store::{ForkExtent, StoreError, TurnTree as _};
use memory_core::tier::TierEvent;
use serde::{Deserialize, Serialize};

use super::{Assistant, conversation};
use crate::error::StrataError;

/// Something that happened to a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationEvent {
    /// History was compacted: nothing that was injected is in context any more.
    Compaction,
    /// History was cleaned by the user.
    Clean,
    /// The conversation went back to a message. What was injected counts as gone, so it may be shown again.
    Rewind {
        /// The last message that is still visible.
        message: String,
    },
    /// The conversation was copied. The new one must not have any messages yet.
    Fork {
        /// The new conversation.
        conversation: String,
        /// Whether the whole history was taken along, and with it what is in context.
        full: bool,
    },
    /// The conversation was deleted: every row that belongs to it goes, and what its evidence says is erased.
    Delete,
}

impl Assistant {
    /// Forgets what is in the context of every conversation, because all of them were cleared. What was said stays.
    pub async fn clear_conversations(&self) -> Result<(), StrataError> {
        self.writable("clear conversations")?;
        if self.clear_there().await? {
            return Ok(());
        }
        self.look().await?;
        let engine = self.engine().await?;
        engine.store.state().clear_conversations().await?;
        if let Some(pinned) = self.decide(engine).await.pinned {
            let call = self.quiet_call("event");
            let answer = pinned.on_event(&call, TierEvent::ClearAll).await;
            self.noted(engine, pinned.serving(), answer).await?;
        }
        Ok(())
    }

    /// Takes note of something that happened to a conversation.
    pub async fn on_event(
        &self,
        conversation: &str,
        event: ConversationEvent,
    ) -> Result<(), StrataError> {
        self.writable("take note of an event")?;
        let copy = match &event {
            ConversationEvent::Fork { conversation, .. } => conversation,
            _ => conversation,
        };
        if conversation.trim().is_empty() || copy.trim().is_empty() {
            let reason = "a conversation has a blank identifier: name it".to_owned();
            return Err(StoreError::BadRequest { reason }.into());
        }
        if self.event_there(conversation, &event).await? {
            return Ok(());
        }
        self.look().await?;
        let engine = self.engine().await?;
        let state = engine.store.state();
        match &event {
            ConversationEvent::Compaction | ConversationEvent::Clean => {
                self.forget_context(engine, conversation).await?;
            }
            ConversationEvent::Rewind { message } => {
                conversation::go_back(state, conversation, message).await?;
                self.forget_context(engine, conversation).await?;
            }
            ConversationEvent::Delete => {
                let now = self.options.clock.now();
                let recorder = engine.store.recorder()?;
                let removed = recorder.delete_conversation(conversation, now).await?;
                tracing::info!(conversation, rows = removed.total(), "conversation deleted");
            }
            ConversationEvent::Fork {
                conversation: copy,
                full: true,
            } => {
                let now = self.options.clock.now();
                state
                    .fork_conversation(conversation, copy, ForkExtent::Full, now)
                    .await?;
            }
            ConversationEvent::Fork { full: false, .. } => {}
        }
        if let Some(pinned) = self.decide(engine).await.pinned {
            let call = self.conversation_call("event", conversation.to_owned());
            let answer = pinned.on_event(&call, event.into()).await;
            self.noted(engine, pinned.serving(), answer).await?;
        }
        Ok(())
    }
}

impl From<ConversationEvent> for TierEvent {
    fn from(event: ConversationEvent) -> Self {
        match event {
            ConversationEvent::Compaction => Self::Compaction,
            ConversationEvent::Clean => Self::Clean,
            ConversationEvent::Rewind { message } => Self::Rewind { message },
            ConversationEvent::Fork { conversation, full } => Self::Fork { conversation, full },
            ConversationEvent::Delete => Self::Delete,
        }
    }
}
