//! Chooses the embedder and loads it late.
//!
//! Loading the model takes half a second, which most commands never need, and which must not be thrown away when the
//! turn that first needed it runs into its deadline. So its space is known at once, the weights are read when the first
//! text is embedded, and that happens in a task of its own.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::config::Config;
use memory_core::embed::{EmbedError, Embedder, SpaceId, Vectors};
use memory_core::services::{Notice, Severity};
use memory_substrate::embed::{LocalEmbedder, Provisioned, provision};
use tokio::sync::OnceCell;

use crate::options::{EmbedderChoice, StrataOptions};

pub(crate) use self::timed::Stopwatches;
use self::timed::Timed;

mod timed;

/// Name in the settings of the model that the set-up provisions.
const PROVISIONED_MODEL: &str = "all-MiniLM-L6-v2";

/// What text is embedded with, and why with nothing if so.
#[derive(Clone, Debug)]
pub(crate) struct Embedding {
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) missing: Option<Notice>,
    local: Option<LazyLocal>,
}

impl Embedding {
    /// Returns the embedder that the options choose. Looks at the sizes of a few files, and loads nothing.
    pub(crate) fn choose(options: &StrataOptions) -> Self {
        match &options.embedder {
            EmbedderChoice::None => Self {
                embedder: None,
                missing: None,
                local: None,
            },
            EmbedderChoice::Given(embedder) => Self {
                embedder: Some(Arc::new(Timed {
                    inner: Arc::clone(embedder),
                })),
                missing: None,
                local: None,
            },
            EmbedderChoice::Auto => match find(options) {
                Ok(provisioned) => {
                    let local = LazyLocal::new(provisioned);
                    let embedder = Arc::new(Timed {
                        inner: Arc::new(local.clone()),
                    });
                    Self {
                        embedder: Some(embedder),
                        missing: None,
                        local: Some(local),
                    }
                }
                Err(error) => Self {
                    embedder: None,
                    missing: Some(missing(&error.to_string())),
                    local: None,
                },
            },
        }
    }

    /// Returns this embedding as an assistant's settings want it.
    pub(crate) fn for_settings(&self, config: &Config) -> Self {
        let wanted = &config.memory.embeddings;
        if self.local.is_some() && wanted.model != PROVISIONED_MODEL {
            let reason = format!(
                "the settings name the model `{}`, only `{PROVISIONED_MODEL}` is provisioned",
                wanted.model
            );
            return Self {
                embedder: None,
                missing: Some(missing(&reason)),
                local: None,
            }
            .softened(wanted.required);
        }
        self.clone().softened(wanted.required)
    }

    /// Starts to load the model if it is not there, so that it is when it is needed.
    pub(crate) fn warm(&self) {
        if let Some(local) = self
            .local
            .clone()
            .filter(|local| local.0.model.get().is_none())
        {
            drop(tokio::spawn(async move { local.model().await.map(drop) }));
        }
    }

    fn softened(mut self, required: bool) -> Self {
        if let Some(notice) = self.missing.as_mut().filter(|_| !required) {
            notice.severity = Severity::Info;
        }
        self
    }
}

fn missing(reason: &str) -> Notice {
    let message = format!("search goes by words only: {reason}");
    Notice {
        code: "dense_unavailable".to_owned(),
        severity: Severity::Warning,
        message,
    }
}

/// Returns the provisioned model, or which file is missing.
pub(crate) fn find(options: &StrataOptions) -> Result<Provisioned, provision::ProvisionError> {
    let runtime = options
        .environment
        .get(provision::RUNTIME_VARIABLE)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from);
    let cache_dir = options
        .cache_dir
        .as_deref()
        .ok_or(provision::ProvisionError::NoCacheFolder)?;
    Provisioned::find(cache_dir, runtime)
}

/// The provisioned model, loaded with the first text.
#[derive(Clone, Debug)]
struct LazyLocal(Arc<Lazy>);

#[derive(Debug)]
struct Lazy {
    provisioned: Provisioned,
    model: OnceCell<LocalEmbedder>,
}

impl LazyLocal {
    fn new(provisioned: Provisioned) -> Self {
        Self(Arc::new(Lazy {
            provisioned,
            model: OnceCell::new(),
        }))
    }

    async fn model(&self) -> Result<&LocalEmbedder, EmbedError> {
        if self.0.model.get().is_none() {
            // A task of its own goes on loading when the turn that waits here is cancelled.
            let lazy = Arc::clone(&self.0);
            let load = async move {
                let provisioned = lazy.provisioned.clone();
                lazy.model
                    .get_or_try_init(|| LocalEmbedder::load(provisioned))
                    .await
                    .map(drop)
            };
            let loaded = tokio::spawn(load).await;
            loaded.map_err(|error| EmbedError::Failed {
                reason: format!("loading the model was interrupted: {error}"),
            })??;
        }
        self.0.model.get().ok_or_else(|| EmbedError::Failed {
            reason: "the model is not there after loading it".to_owned(),
        })
    }
}

#[async_trait]
impl Embedder for LazyLocal {
    fn space(&self) -> &SpaceId {
        &self.0.provisioned.space
    }

    fn dims(&self) -> usize {
        self.0.provisioned.dims
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vectors, EmbedError> {
        self.model().await?.embed(texts).await
    }
}

#[cfg(test)]
mod tests {
    use memory_core::config::Layers;

    use super::*;

    #[test]
    fn a_missing_model_is_a_notice_and_how_loud_is_a_setting() {
        let embedding = Embedding::choose(&StrataOptions::new("/nowhere"));
        assert!(embedding.embedder.is_none());
        let severity = |text: &str| {
            let (config, _) = Config::load(&Layers::of_assistant(text)).unwrap();
            embedding.for_settings(&config).missing.unwrap().severity
        };
        assert_eq!(severity(""), Severity::Warning);
        assert_eq!(
            severity("[memory.embeddings]\nrequired = false\n"),
            Severity::Info
        );
    }
}
