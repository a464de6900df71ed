//! Language models: what one is asked, and what comes back.
//!
//! Only values and the trait are here. Retries, limits, the form of an answer and the wire are for whoever implements or wraps
//! it, so that everything that asks a model can be tested against a script.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// What is asked of a model in one call.
#[derive(Clone, Debug, PartialEq)]
pub struct LlmRequest {
    /// What asks, in the words of [`crate::wire::call_site`]: for logs, limits and the account of tokens.
    pub call_site: String,
    /// What the model is told before the conversation, in order.
    pub system: Vec<SystemPart>,
    /// The conversation, oldest first.
    pub messages: Vec<LlmMessage>,
    /// What the model may call.
    pub tools: Vec<ToolSpec>,
    /// The form of the answer, if it has one.
    pub form: Option<AnswerForm>,
    /// Tokens of the answer at most.
    pub max_tokens: u32,
    /// How long everything may take, retries included.
    pub timeout: Duration,
}

/// A part of what a model is told before the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemPart {
    /// The text.
    pub text: String,
    /// Whether everything up to here is the same from call to call, so that a provider may keep it.
    pub is_cached: bool,
}

/// One message of a conversation with a model.
#[derive(Clone, Debug, PartialEq)]
pub enum LlmMessage {
    /// What it is asked.
    User(String),
    /// What it said.
    Assistant {
        /// Its words; empty when it only called something.
        text: String,
        /// What it called.
        calls: Vec<ToolCall>,
    },
    /// What its calls came to, one for each.
    Results(Vec<ToolResult>),
}

/// Something that a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name: letters, digits and `_`.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its arguments, an object.
    pub schema: Value,
}

/// A call that a model made.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Which call it is, for its result.
    pub id: String,
    /// What is called.
    pub name: String,
    /// With what.
    pub arguments: Value,
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The call.
    pub id: String,
    /// What came back.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
}

/// The form that an answer must have.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerForm {
    /// Its name: letters, digits and `_`.
    pub name: String,
    /// Its JSON schema: an object that requires every property and takes no other.
    pub schema: Value,
}

/// What a model answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LlmAnswer {
    /// Its words.
    pub text: String,
    /// What it calls.
    pub calls: Vec<ToolCall>,
    /// Whether it was cut off at the most tokens.
    pub is_cut: bool,
    /// What it cost, all tries together.
    pub usage: Usage,
}

/// Tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Calls that were answered.
    pub calls: u64,
    /// Tokens read, those from a cache included.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
    /// Tokens read that came from a cache.
    pub cached: u64,
}

impl Usage {
    /// Returns the sum of two.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached: self.cached.saturating_add(other.cached),
        }
    }
}

/// Why a model did not answer. No variant carries a key or the text of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LlmError {
    /// The account is out of credit or blocked. Wait long, and tell the operator.
    #[error("the model's account does not pay for this: {reason}")]
    Billing {
        /// What the provider said.
        reason: String,
    },
    /// The provider is asked too much. Try again later.
    #[error("the model's provider is asked too often: {reason}")]
    RateLimited {
        /// What the provider said.
        reason: String,
        /// When to ask again, if it said so.
        retry_after: Option<Duration>,
    },
    /// The provider cannot be reached or is broken. Try again later.
    #[error("the model cannot be reached: {reason}")]
    Unavailable {
        /// What went wrong.
        reason: String,
        /// When to ask again, if that is known.
        retry_after: Option<Duration>,
    },
    /// Time was up. Try again later, or give it more.
    #[error("the model did not answer within {} s", .after.as_secs())]
    TimedOut {
        /// How long it was waited for.
        after: Duration,
    },
    /// The provider refuses this very request, for instance the key or the name of the model. Change the settings.
    #[error("the model's provider refuses the request: {reason}")]
    Refused {
        /// What the provider said.
        reason: String,
    },
    /// What came back has not the form that was asked for, even after it was told so.
    #[error("the model's answer cannot be used: {reason}")]
    BadAnswer {
        /// What is wrong with it.
        reason: String,
    },
}

impl LlmError {
    /// Returns whether the same request may work later without anybody doing something.
    pub const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::RateLimited { .. } | Self::Unavailable { .. } | Self::TimedOut { .. }
        )
    }

    /// Returns when to ask again, if the provider said so.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Unavailable { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }
}

/// Asks a language model. Dropping the future of a call ends it.
#[async_trait]
pub trait LlmClient: Send + Sync + fmt::Debug {
    /// Returns the name of the model, for people.
    fn model(&self) -> &str;

    /// Asks once, with whatever retries the implementation makes.
    async fn complete(&self, request: LlmRequest) -> Result<LlmAnswer, LlmError>;
}
