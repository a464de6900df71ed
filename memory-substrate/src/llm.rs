//! The language model, as far as somebody configured one: its wire, its limits, and the form of its answers.
//!
//! Nothing here is asked of anybody unless the settings name a provider. Keys come from the environment of the process and
//! stand in no file, no message and no log.

mod account;
mod breaker;
mod client;
mod convert;
mod fault;
mod form;
mod patient;
mod probe;
#[cfg(test)]
pub(crate) mod scripted;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use memory_core::env::Clock;
use memory_core::llm::{LlmClient, LlmError};

pub use self::account::Account;
pub use self::form::ask_json;
pub use self::patient::{Patience, Patient};
pub use self::probe::{Probe, probe};

use self::client::GenaiClient;

/// Whose wire a model speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Chat completions, as `OpenAI` has them and most local servers.
    OpenAi,
    /// Messages, as Anthropic has them.
    Anthropic,
}

/// A key to a provider. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Returns a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(…)")
    }
}

/// How a model is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlmSettings {
    /// Whose wire it speaks.
    pub wire: Wire,
    /// Its name with the provider.
    pub model: String,
    /// Where it is, if not with the provider itself, such as `http://127.0.0.1:11434/v1/`.
    pub base_url: Option<String>,
    /// The key, if it takes one.
    pub key: Option<Key>,
    /// Calls at the same time, at most.
    pub concurrency: usize,
    /// How calls are tried again.
    pub patience: Patience,
}

/// Returns a client for a model, and the account of what it costs. Nothing is asked of it yet.
pub fn connect(
    settings: &LlmSettings,
    clock: Arc<dyn Clock>,
) -> Result<(Arc<dyn LlmClient>, Arc<Account>), LlmError> {
    let client = GenaiClient::new(settings)?;
    let account = Arc::new(Account::default());
    let patient = Patient::new(
        Arc::new(client),
        settings.concurrency,
        settings.patience,
        clock,
        Arc::clone(&account),
    );
    Ok((Arc::new(patient), account))
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(30),
            tries: 4,
        }
    }
}

#[cfg(test)]
mod tests;
