//! The language model that the settings name, set up when it is first needed and anew when they change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memory_core::config::LlmConfig;
use memory_core::env::Clock;
use memory_core::llm::{LlmClient, LlmError};
use memory_substrate::llm::{Key, LlmSettings, Patience, Wire, connect};

use crate::options::{LlmChoice, StrataOptions};

/// A model, as far as there is one.
pub(crate) type Model = Result<Option<Arc<dyn LlmClient>>, LlmError>;

/// Sets the model up and keeps it.
#[derive(Debug)]
pub(crate) struct LiveModel {
    choice: LlmChoice,
    clock: Arc<dyn Clock>,
    environment: Environment,
    made: Mutex<Option<(LlmConfig, Model)>>,
}

/// The variables of the process; some of them are keys.
struct Environment(BTreeMap<String, String>);

impl std::fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Environment(…)")
    }
}

impl LiveModel {
    pub(crate) fn new(options: &StrataOptions) -> Self {
        Self {
            choice: options.llm.clone(),
            clock: Arc::clone(&options.clock),
            environment: Environment(options.environment.clone()),
            made: Mutex::default(),
        }
    }

    /// Returns the model that the settings name; none when they name none. The first time reads the certificates of the
    /// machine, so it blocks.
    pub(crate) fn client(&self, config: &LlmConfig) -> Model {
        match &self.choice {
            LlmChoice::None => return Ok(None),
            LlmChoice::Given(client) => return Ok(Some(Arc::clone(client))),
            LlmChoice::Auto => {}
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, model)) = made.as_ref()
            && of == config
        {
            return model.clone();
        }
        let model = self.set_up(config);
        *made = Some((config.clone(), model.clone()));
        model
    }

    fn set_up(&self, config: &LlmConfig) -> Model {
        let Some(provider) = &config.provider else {
            return Ok(None);
        };
        let refused = |reason: String| LlmError::Refused { reason };
        let wire = match provider.as_str() {
            "openai" => Wire::OpenAi,
            "anthropic" => Wire::Anthropic,
            other => return Err(refused(format!("`{other}` is no provider"))),
        };
        let Some(model) = config.model.clone() else {
            return Err(refused(
                "no model is named: set `llm.model`, for instance with `strata config set`"
                    .to_owned(),
            ));
        };
        let key = match &config.key_variable {
            None => None,
            Some(name) => match self.environment.0.get(name).map(|key| key.trim()) {
                Some(key) if !key.is_empty() => Some(Key::new(key)),
                _ => {
                    return Err(refused(format!(
                        "the environment variable `{name}`, which is to hold the key, is not set"
                    )));
                }
            },
        };
        if key.is_none() && config.base_url.is_none() {
            return Err(refused(format!(
                "`{provider}` wants a key: set `llm.keyVariable` to the environment variable that holds it"
            )));
        }
        let settings = LlmSettings {
            wire,
            model,
            base_url: config.base_url.clone(),
            key,
            concurrency: config.concurrency as usize,
            patience: Patience::default(),
        };
        let (client, _) = connect(&settings, Arc::clone(&self.clock))?;
        let longest = Duration::from_secs(u64::from(config.timeout_seconds));
        Ok(Some(Arc::new(Limited { client, longest })))
    }
}

/// Gives no answer longer than the settings say.
#[derive(Debug)]
struct Limited {
    client: Arc<dyn LlmClient>,
    longest: Duration,
}

#[async_trait::async_trait]
impl LlmClient for Limited {
    fn model(&self) -> &str {
        self.client.model()
    }

    async fn complete(
        &self,
        mut request: memory_core::llm::LlmRequest,
    ) -> Result<memory_core::llm::LlmAnswer, LlmError> {
        request.timeout = request.timeout.min(self.longest);
        self.client.complete(request).await
    }
}
