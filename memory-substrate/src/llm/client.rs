//! One try of one call, over genai.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
use memory_core::llm::{LlmAnswer, LlmClient, LlmError, LlmRequest};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use super::{Key, LlmSettings, Wire, convert, fault};

/// Where the providers are.
const OPENAI: &str = "https://api.openai.com/v1/";
const ANTHROPIC: &str = "https://api.anthropic.com/v1/";

/// What servers are told that take any key.
const NO_KEY: &str = "none";

/// A model over its wire.
pub(super) struct GenaiClient {
    client: Client,
    wire: Wire,
    model: String,
    base_url: String,
    key: Option<Key>,
}

impl fmt::Debug for GenaiClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GenaiClient")
            .field("wire", &self.wire)
            .field("model", &self.model)
            .field("base_url", &self.base_url)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl GenaiClient {
    pub(super) fn new(settings: &LlmSettings) -> Result<Self, LlmError> {
        let given = settings.base_url.as_deref().unwrap_or(match settings.wire {
            Wire::OpenAi => OPENAI,
            Wire::Anthropic => ANTHROPIC,
        });
        let base_url = format!("{}/", given.trim_end_matches('/'));
        let is_here = is_safe(&base_url, settings.key.is_some())?;
        // A redirection would take the key to whoever is named there.
        let mut web = reqwest::Client::builder()
            .tls_backend_preconfigured(tls()?)
            .redirect(reqwest::redirect::Policy::none());
        if is_here {
            web = web.no_proxy();
        }
        let web = web.build().map_err(|_| LlmError::Refused {
            reason: "no connection can be made from this machine".to_owned(),
        })?;
        Ok(Self {
            client: Client::builder()
                .with_reqwest(web)
                .build()
                .map_err(|_| LlmError::Refused {
                    reason: "the client of the model cannot be set up".to_owned(),
                })?,
            wire: settings.wire,
            model: settings.model.clone(),
            base_url,
            key: settings.key.clone(),
        })
    }

    fn target(&self) -> ServiceTarget {
        let kind = match self.wire {
            Wire::OpenAi => AdapterKind::OpenAI,
            Wire::Anthropic => AdapterKind::Anthropic,
        };
        let key = self.key.as_ref().map_or(NO_KEY, Key::expose);
        ServiceTarget {
            endpoint: Endpoint::from_owned(self.base_url.as_str()),
            auth: AuthData::from_single(key),
            model: ModelIden::new(kind, self.model.as_str()),
        }
    }
}

/// Refuses an address to which a key would go in the clear. Returns whether it is on this machine.
fn is_safe(address: &str, has_key: bool) -> Result<bool, LlmError> {
    let refused = |reason: String| LlmError::Refused { reason };
    let url = reqwest::Url::parse(address)
        .map_err(|error| refused(format!("`{address}` is no address: {error}")))?;
    let is_here = url.host_str().is_some_and(|host| {
        let host = host.trim_matches(['[', ']']);
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    });
    match url.scheme() {
        "https" => Ok(is_here),
        "http" if is_here || !has_key => Ok(is_here),
        "http" => Err(refused(format!(
            "`{address}` is reached without encryption, and a key is sent only with it: use https"
        ))),
        other => Err(refused(format!("`{other}` is neither http nor https"))),
    }
}

/// Returns the TLS that LanceDB uses too, with the certificates that the machine trusts.
fn tls() -> Result<ClientConfig, LlmError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some of the certificates that this machine trusts cannot be read");
    }
    // Without any, servers on this machine are still reached, by plain HTTP.
    let (taken, left) = roots.add_parsable_certificates(found.certs);
    tracing::debug!(taken, left, "certificates");
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| LlmError::Refused {
            reason: format!("TLS cannot be set up: {error}"),
        })?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[async_trait]
impl LlmClient for GenaiClient {
    fn model(&self) -> &str {
        &self.model
    }

    async fn complete(&self, request: LlmRequest) -> Result<LlmAnswer, LlmError> {
        let options = convert::options(&request);
        let (after, asked) = (request.timeout, convert::request(request, self.wire));
        let call = self.client.exec_chat(self.target(), asked, Some(&options));
        match tokio::time::timeout(after, call).await {
            Ok(Ok(answer)) => Ok(convert::answer(answer)),
            Ok(Err(error)) => Err(fault::of(&error, self.key.as_ref())),
            Err(_) => Err(LlmError::TimedOut { after }),
        }
    }
}
