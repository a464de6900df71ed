//! Plugins as the façade uses them: found, trusted, and one desk for each assistant at which its tier serves.

use std::path::PathBuf;
use std::sync::Arc;

use memory_core::predicates::Tier;
use memory_substrate::blocking;
use memory_substrate::blocking::BlockingError;
use plugin_host::{
    HostError, HostOptions, KeyError, Limits, LoadError, Metrics, PluginHost, Trust, Verified,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::runtime::Handle;

use crate::error::{ErrorKind, StrataError, cause_chain};
use crate::options::StrataOptions;

pub(crate) use self::desk::{Followed, Pin, Pinned, TierDesk};
pub use self::signing::make_signing_key;
pub use self::source::{ALLOW_FILE, PluginSearch, PluginSource};

mod desk;
mod signing;
mod source;
mod trust;

/// Why a plugin, or the machinery for plugins, cannot be used.
#[derive(Debug, Error)]
pub enum PluginError {
    /// A plugin was refused. Report it.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The machinery could not start. Report it.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A signing key cannot be made or read. Report it.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What was given as a key is none. Correct it.
    #[error("`{key}` is not a public key: {reason}")]
    NotAPublicKey {
        /// What was given.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no tokio runtime to work in. Open Strata inside one.
    #[error("there is no async runtime here: open Strata inside a tokio runtime")]
    NoRuntime,
    /// A file is neither a plugin's manifest nor its library. Name another file, or a plugin's identifier.
    #[error("`{}` is neither the manifest nor the library of a plugin", path.display())]
    NotAPlugin {
        /// The file.
        path: PathBuf,
    },
}

impl PluginError {
    /// Returns how a caller should react.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Load(error) => match error {
                LoadError::Unknown { .. } | LoadError::NoFolder { .. } => ErrorKind::NotFound,
                LoadError::NotAllowed { .. } | LoadError::Signature { .. } => {
                    ErrorKind::NotPermitted
                }
                LoadError::Length { .. } | LoadError::Hash { .. } | LoadError::NotAFile { .. } => {
                    ErrorKind::Damaged
                }
                _ => ErrorKind::Failed,
            },
            Self::Host(_) => ErrorKind::Unavailable,
            Self::Key(error) => match error {
                KeyError::Exposed { .. } => ErrorKind::NotPermitted,
                KeyError::NotAKey { .. } => ErrorKind::Usage,
                KeyError::Random { .. } | KeyError::Write { .. } | KeyError::Read { .. } => {
                    ErrorKind::Failed
                }
            },
            Self::NoRuntime | Self::NotAPublicKey { .. } => ErrorKind::Usage,
            Self::NotAPlugin { .. } => ErrorKind::NotFound,
        }
    }
}

impl PluginError {
    /// Returns what a person can do about it, when more can be said than follows from its kind.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Load(LoadError::NoFolder { .. }) => Some(
                "build them with `cargo xtask build-plugins` or name a folder with `--plugins`",
            ),
            Self::Load(LoadError::NotAllowed { .. }) => {
                Some("`strata plugins trust` adds it, if you know where it came from")
            }
            Self::Load(_) | Self::NotAPlugin { .. } => {
                Some("`strata plugins list` shows what is there")
            }
            Self::Key(_) | Self::NotAPublicKey { .. } => {
                Some("`strata plugins keygen FILE` makes a key and prints its public half")
            }
            Self::Host(_) | Self::NoRuntime => None,
        }
    }
}

impl From<BlockingError> for PluginError {
    fn from(error: BlockingError) -> Self {
        let source = std::io::Error::other(error);
        Self::Host(HostError::Runtime { source })
    }
}

/// The plugin that serves a tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// The tier.
    pub tier: Tier,
    /// The plugin.
    pub plugin: String,
    /// The plugin's own version.
    pub version: String,
    /// Checksum of the library.
    pub sha256: String,
}

/// A plugin of the folder, checked up to the point where its code would run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PluginReport {
    /// Its identifier, or the name of a manifest that cannot be read.
    pub id: String,
    /// The tier it serves; `None` when its manifest cannot be read.
    pub tier: Option<Tier>,
    /// Version of the interface it was built for.
    pub abi: Option<String>,
    /// Path of the library.
    pub library: Option<PathBuf>,
    /// Checksum in its manifest.
    pub sha256: Option<String>,
    /// Whether it could be loaded.
    pub state: PluginState,
    /// By what it is trusted, when it is.
    pub trust: Option<Trust>,
}

/// Whether a plugin could be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum PluginState {
    /// Sound, and trusted by its checksum or by a signature.
    Trusted,
    /// Sound, and not trusted.
    NotTrusted {
        /// One line on that.
        reason: String,
    },
    /// Not sound.
    Refused {
        /// One line on why.
        reason: String,
    },
}

/// What trusting a plugin came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trusted {
    /// The plugin.
    pub id: String,
    /// Its checksum.
    pub sha256: String,
    /// The allow-list that was written.
    pub allow_file: PathBuf,
    /// Whether it was not trusted before.
    pub added: bool,
}

/// What trusting a key came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyTrusted {
    /// What the list calls the key.
    pub id: String,
    /// The key.
    pub key: String,
    /// The plugins it is trusted for; `None` for all of them.
    pub plugins: Option<Vec<String>>,
    /// The allow-list that was written.
    pub allow_file: PathBuf,
    /// Whether it was not trusted before.
    pub added: bool,
}

/// What signing a plugin came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signed {
    /// The plugin.
    pub id: String,
    /// The file of the signature.
    pub signature: PathBuf,
    /// The key by which it can be checked.
    pub key: String,
}

/// The plugins of a home folder.
#[derive(Debug)]
pub(crate) struct Plugins {
    host: Arc<PluginHost>,
    source: PluginSource,
    options: HostOptions,
}

impl Plugins {
    /// Starts the machinery. Loads nothing.
    pub(crate) fn open(options: &StrataOptions) -> Result<Self, PluginError> {
        let runtime = Handle::try_current().map_err(|_| PluginError::NoRuntime)?;
        let source = options.plugins.clone();
        let defaults = Limits::default();
        let limits = Limits {
            call: defaults.call.max(options.tier_deadline),
            // A turn waits for its tier as long as it waits for its tier's answer.
            arrival: options.tier_deadline,
            ..defaults
        };
        let host_options = HostOptions {
            folder: source.directory.clone(),
            allow_files: source.allow_files.clone(),
            staging: source.staging.clone(),
            limits,
        };
        let host = PluginHost::start(host_options.clone(), runtime)?;
        Ok(Self {
            host,
            source,
            options: host_options,
        })
    }

    /// Returns the desk at which the tier of an assistant serves.
    pub(crate) fn desk(&self, assistant: &str) -> TierDesk {
        TierDesk::new(self.host.slot(assistant))
    }

    /// Returns every plugin of the folder, checked up to the point where its code would run.
    pub(crate) async fn reports(&self) -> Result<Vec<PluginReport>, StrataError> {
        let host = Arc::clone(&self.host);
        Ok(blocking::run(move || verify(&host)).await?)
    }

    /// Returns what was counted since the start.
    pub(crate) fn metrics(&self) -> Metrics {
        self.host.metrics()
    }

    /// Returns what is wrong with the allow-lists, a line each. What the sound ones trust is not affected.
    pub(crate) async fn warnings(&self) -> Result<Vec<String>, StrataError> {
        let host = Arc::clone(&self.host);
        let warnings = move || {
            host.trusted();
            Ok::<_, PluginError>(host.warnings())
        };
        Ok(blocking::run(warnings).await?)
    }
}

fn verify(host: &PluginHost) -> Result<Vec<PluginReport>, PluginError> {
    let reports = host.verify()?.into_iter().map(|verified| match verified {
        Ok(verified) => report(verified),
        Err(error) => {
            let id = match &error {
                LoadError::Manifest { file, .. } | LoadError::ReadManifest { file, .. } => {
                    file.clone()
                }
                _ => "?".to_owned(),
            };
            let state = PluginState::Refused {
                reason: cause_chain(&error).join(": "),
            };
            PluginReport {
                id,
                tier: None,
                abi: None,
                library: None,
                sha256: None,
                state,
                trust: None,
            }
        }
    });
    Ok(reports.collect())
}

fn report(verified: Verified) -> PluginReport {
    let state = match &verified.result {
        Ok(()) => PluginState::Trusted,
        Err(error @ LoadError::NotAllowed { .. }) => PluginState::NotTrusted {
            reason: error.to_string(),
        },
        Err(error) => PluginState::Refused {
            reason: cause_chain(error).join(": "),
        },
    };
    let sidecar = verified.candidate.sidecar;
    PluginReport {
        id: sidecar.id,
        tier: Some(sidecar.tier),
        abi: Some(sidecar.abi),
        library: Some(verified.candidate.library),
        sha256: Some(sidecar.sha256),
        state,
        trust: verified.trust,
    }
}
