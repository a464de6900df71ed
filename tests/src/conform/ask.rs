//! One question to a tier: who asks what, in which conversation.

use std::time::Duration;

use memory_core::provenance::{Authority, Channel};
use memory_core::services::{Call, CallScope, Requester};
use memory_core::tier::TurnRequest;
use plugin_host::{TurnControl, new_call};
use std::sync::Arc;

use crate::world::Story;

/// A question.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) authority: Authority,
    pub(crate) channels: Vec<Channel>,
    pub(crate) conversation: String,
    pub(crate) turn: u64,
    pub(crate) message: String,
    pub(crate) context_lost: bool,
}

impl Ask {
    /// Returns the owner's first question in a conversation.
    pub(crate) fn owner(conversation: &str) -> Self {
        Self {
            authority: Authority::Owner,
            channels: Vec::new(),
            conversation: conversation.to_owned(),
            turn: 1,
            message: Story::message().to_owned(),
            context_lost: false,
        }
    }

    /// Returns the same question under another authority and with other channels.
    pub(crate) fn by(&self, authority: Authority, channels: &[Channel]) -> Self {
        Self {
            authority,
            channels: channels.to_vec(),
            ..self.clone()
        }
    }

    /// Returns the same question in the next turn.
    pub(crate) fn next(&self) -> Self {
        Self {
            turn: self.turn + 1,
            ..self.clone()
        }
    }

    /// Returns the same question after the host lost its history.
    pub(crate) fn after_loss(&self) -> Self {
        Self {
            context_lost: true,
            ..self.next()
        }
    }

    /// Returns another question in the same conversation.
    pub(crate) fn saying(&self, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..self.clone()
        }
    }

    pub(crate) fn scope(&self) -> CallScope {
        let known = self.authority != Authority::None;
        CallScope {
            requester: Requester {
                principal: known.then(|| "ada".to_owned()),
                authority: self.authority,
                consumer: "conform".to_owned(),
            },
            channels: self.channels.clone(),
            as_of: None,
            known_at: None,
            conversation: self.conversation.clone(),
            turn: self.turn,
            trace_parent: None,
        }
    }

    pub(crate) fn call(&self, limit: Duration) -> (Call, Arc<TurnControl>) {
        new_call(self.scope(), limit)
    }

    pub(crate) fn request(&self) -> TurnRequest {
        TurnRequest {
            user_message: self.message.clone(),
            previous_reply: (self.turn > 1).then(|| "I do not know yet.".to_owned()),
            recent: Vec::new(),
            situation: "2030-01-01 09:00 (UTC)".to_owned(),
            context_lost: self.context_lost,
        }
    }
}
