//! The error of the façade.
//!
//! A host and the command line both have to react to failures, so every error also has a kind that says how: the exit
//! codes of the command line are a table over kinds, and another surface can have its own table over the same ones.

use std::io;
use std::path::PathBuf;

use memory_core::config::{ConfigError, ConfigSetError};
use memory_core::embed::EmbedError;
use memory_core::llm::LlmError;
use memory_core::store::StoreError;
use memory_substrate::blocking::BlockingError;
use memory_substrate::error::SubstrateError;
use memory_substrate::ingest::IngestReport;
use plugin_host::SlotError;
use thiserror::Error;

use crate::plugins::PluginError;
use crate::zones;

pub use memory_core::causes::cause_chain;

/// Why a call of the façade failed. Turns never fail: they end with an injection and a notice.
#[derive(Debug, Error)]
pub enum StrataError {
    /// A store or the workspace refused or failed. React as the inner error says.
    #[error(transparent)]
    Substrate(#[from] SubstrateError),
    /// A settings file is not readable. Report it with its place; nothing was changed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A setting could not be shown or changed. Report it; nothing was changed.
    #[error(transparent)]
    Setting(#[from] ConfigSetError),
    /// A plugin was refused, or the plugin folder is not usable. Report it.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// A call into the tier failed. Report it; the stores are as they were.
    #[error(transparent)]
    Tier(#[from] SlotError),
    /// No tier serves, so the question cannot be answered. Report the reason.
    #[error("no tier serves: {reason}")]
    NotServing {
        /// Why.
        reason: String,
    },
    /// The assistant was opened for reading only. Open it for writing.
    #[error("this assistant is open for reading only, so `{action}` is not possible")]
    ReadOnly {
        /// What was asked for.
        action: &'static str,
    },
    /// The process that writes to the assistant failed to do what was handed to it. React by its kind.
    #[error("{message}")]
    Remote {
        /// What happened there.
        message: String,
        /// How to react.
        kind: ErrorKind,
        /// What a person can do.
        advice: Option<String>,
        /// Why it happened.
        #[source]
        source: Option<RemoteCause>,
    },
    /// The process that writes went away before it answered. Look whether it was done before asking again.
    #[error(
        "the process that writes to this assistant went away before it answered, so `{action}` may have been done or not"
    )]
    Unanswered {
        /// What was asked for.
        action: &'static str,
    },
    /// The model could not be used although it was asked for. Report it; searching by words still works.
    #[error("embedding failed")]
    Embedding(#[from] EmbedError),
    /// The language model that the settings name cannot be used. See the settings below `llm`.
    #[error("the language model cannot be used")]
    Model(#[from] LlmError),
    /// A time zone has a name nobody knows. Ask for another.
    #[error("unknown time zone `{zone}`: {}", zones::advice(.suggestion.as_deref()))]
    UnknownTimeZone {
        /// The name that was given.
        zone: String,
        /// A name that is near it.
        suggestion: Option<String>,
    },
    /// Pages were taken in and the index could not follow: they are found by words only. Report both.
    #[error("the pages were written, but not the index: they are found by words only")]
    NotIndexed {
        /// What was taken in.
        report: Box<IngestReport>,
        /// Why the index could not follow.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file system failed outside the stores. Report it; may be retried once the cause is gone.
    #[error("could not {action} `{}`", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Why something failed in another process.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct RemoteCause {
    message: String,
    #[source]
    source: Option<Box<Self>>,
}

impl RemoteCause {
    /// Returns causes, each the reason of the one before; `None` when there are none.
    pub(crate) fn chain(causes: impl DoubleEndedIterator<Item = String>) -> Option<Self> {
        causes.rev().fold(None, |source, message| {
            let source = source.map(Box::new);
            Some(Self { message, source })
        })
    }
}

/// How a caller should react to an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It did not work, and no other kind says it better.
    Failed,
    /// The request itself is wrong.
    Usage,
    /// What was named does not exist.
    NotFound,
    /// A precondition does not hold.
    Conflict,
    /// It is not permitted.
    NotPermitted,
    /// Something that is needed is busy or absent; later it may work.
    Unavailable,
    /// Stored data is not what it should be.
    Damaged,
}

impl ErrorKind {
    /// Returns the stable name used in machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::NotPermitted => "not_permitted",
            Self::Unavailable => "unavailable",
            Self::Damaged => "damaged",
        }
    }

    /// Returns the kind of a name; one that is not known is that of any failure.
    pub(crate) fn named(name: &str) -> Self {
        [
            Self::Usage,
            Self::NotFound,
            Self::Conflict,
            Self::NotPermitted,
            Self::Unavailable,
            Self::Damaged,
        ]
        .into_iter()
        .find(|kind| kind.name() == name)
        .unwrap_or(Self::Failed)
    }
}

impl StrataError {
    /// Returns how a caller should react.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Substrate(error) => substrate_kind(error),
            Self::Config(_) | Self::Tier(_) | Self::NotIndexed { .. } => ErrorKind::Failed,
            Self::Setting(error) => match error {
                ConfigSetError::UnknownKey { .. } => ErrorKind::NotFound,
                ConfigSetError::BadValue { .. } | ConfigSetError::Removed(_) => ErrorKind::Usage,
                ConfigSetError::Contradiction { .. } | ConfigSetError::NotATable { .. } => {
                    ErrorKind::Conflict
                }
                ConfigSetError::File(_) => ErrorKind::Failed,
            },
            Self::Plugin(error) => error.kind(),
            Self::NotServing { .. }
            | Self::Embedding(_)
            | Self::Model(_)
            | Self::Unanswered { .. } => ErrorKind::Unavailable,
            Self::ReadOnly { .. } => ErrorKind::Conflict,
            Self::Remote { kind, .. } => *kind,
            Self::UnknownTimeZone { .. } => ErrorKind::Usage,
            Self::Io { source, .. } => io_kind(source),
        }
    }
}

impl StrataError {
    /// Returns what a person can do about it, when more can be said than follows from its kind.
    pub fn advice(&self) -> Option<&str> {
        match self {
            Self::Substrate(error) => substrate_advice(error),
            Self::Config(_) => Some("repair the file at that place; nothing was changed"),
            Self::Setting(error) => match error {
                ConfigSetError::UnknownKey { .. } => {
                    Some("`strata config show` lists all settings; nothing was changed")
                }
                ConfigSetError::File(_) => {
                    Some("repair the file at that place; nothing was changed")
                }
                ConfigSetError::BadValue { .. }
                | ConfigSetError::Contradiction { .. }
                | ConfigSetError::NotATable { .. }
                | ConfigSetError::Removed(_) => Some("nothing was changed"),
            },
            Self::Plugin(error) => error.advice(),
            Self::Tier(_) | Self::NotServing { .. } => {
                Some("`strata tier show` and `strata plugins verify` say more")
            }
            Self::UnknownTimeZone { .. } => {
                Some("names are those of the IANA database; nothing was changed")
            }
            Self::NotIndexed { .. } => {
                Some("`strata doctor` says what is wrong, `strata reindex` makes the index anew")
            }
            Self::Io { .. } => Some("check the path, and who may read and write there"),
            Self::Embedding(_) => Some("`strata doctor --deep` checks the model"),
            Self::Model(_) => {
                Some("see the settings below `llm`; `strata doctor --llm` asks the model")
            }
            Self::Remote { advice, .. } => advice.as_deref(),
            Self::Unanswered { .. } => Some("look whether it was done before asking again"),
            Self::ReadOnly { .. } => None,
        }
    }
}

impl StrataError {
    /// Returns whether it failed only because another process writes.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(
            self,
            Self::Substrate(SubstrateError::Store(StoreError::Locked { .. }))
        )
    }
}

impl From<StoreError> for StrataError {
    fn from(error: StoreError) -> Self {
        Self::Substrate(error.into())
    }
}

impl From<BlockingError> for StrataError {
    fn from(error: BlockingError) -> Self {
        Self::Substrate(error.into())
    }
}

fn substrate_kind(error: &SubstrateError) -> ErrorKind {
    match error {
        SubstrateError::Store(error) => match error {
            StoreError::NotFound { .. } => ErrorKind::NotFound,
            StoreError::Conflict { .. } => ErrorKind::Conflict,
            StoreError::Locked { .. } | StoreError::ReadOnly { .. } => ErrorKind::Unavailable,
            StoreError::Damaged { .. } => ErrorKind::Damaged,
            StoreError::BadRequest { .. } => ErrorKind::Usage,
            StoreError::Newer { .. } | StoreError::Engine { .. } => ErrorKind::Failed,
        },
        SubstrateError::Io { source, .. } => io_kind(source),
        SubstrateError::InvalidId { .. } => ErrorKind::Usage,
        SubstrateError::AlreadyExists { .. } => ErrorKind::Conflict,
        SubstrateError::NoSuchAssistant { .. } => ErrorKind::NotFound,
        SubstrateError::Refused { .. } => ErrorKind::NotPermitted,
    }
}

fn substrate_advice(error: &SubstrateError) -> Option<&'static str> {
    match error {
        SubstrateError::Store(error) => match error {
            StoreError::Locked { .. } => {
                Some("wait until that process is done, or stop it; `strata doctor` names it too")
            }
            StoreError::Newer { .. } => Some("use the newer program; nothing was changed"),
            // Nothing else that is damaged can be restored: the index can be made anew.
            StoreError::Damaged { what, .. } if what.contains("state database") => {
                Some("restore `state.db` from a backup; pages and settings are not in it")
            }
            StoreError::NotFound { what } if what.ends_with("state.db") => Some(
                "restore `state.db` from a backup, or begin a new one with any command that writes, such as \
                 `strata remember`",
            ),
            // Its own text says what to do.
            StoreError::ReadOnly { .. }
            | StoreError::Damaged { .. }
            | StoreError::NotFound { .. }
            | StoreError::Conflict { .. }
            | StoreError::BadRequest { .. }
            | StoreError::Engine { .. } => None,
        },
        SubstrateError::NoSuchAssistant { .. } => {
            Some("`--assistant` and `--home` name another one")
        }
        SubstrateError::AlreadyExists { .. } => {
            Some("it was left as it is; `--assistant` and `--home` name another one")
        }
        SubstrateError::InvalidId { .. } => Some("choose another name with `--assistant`"),
        SubstrateError::Io { .. } => Some("check the path, and who may read and write there"),
        SubstrateError::Refused { .. } => None,
    }
}

fn io_kind(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::NotPermitted,
        _ => ErrorKind::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_an_io_error_says_how_to_react() {
        let inner = io::Error::new(io::ErrorKind::PermissionDenied, "denied");
        let error = StrataError::Io {
            action: "read",
            path: "/x".into(),
            source: inner,
        };
        assert_eq!(error.kind(), ErrorKind::NotPermitted);
    }

    #[test]
    fn advice_fits_what_happened() {
        let advice = |error: StoreError| {
            let error = StrataError::from(error);
            error.advice().unwrap_or_default().to_owned()
        };
        let locked = advice(StoreError::Locked {
            holder: "pid 1".to_owned(),
        });
        assert!(locked.contains("stop it"), "{locked}");
        let damaged = advice(StoreError::Damaged {
            what: "the state database".to_owned(),
            reason: String::new(),
        });
        assert!(
            damaged.contains("backup") && !damaged.contains("reindex"),
            "{damaged}"
        );
        let missing = advice(StoreError::NotFound {
            what: "/h/assistants/ada/state.db".to_owned(),
        });
        assert!(missing.contains("state.db"), "{missing}");
    }

    #[test]
    fn kinds_follow_the_inner_error() {
        let locked = StrataError::from(StoreError::Locked {
            holder: "pid 1".to_owned(),
        });
        assert_eq!(locked.kind(), ErrorKind::Unavailable);
        let missing = StrataError::from(StoreError::NotFound {
            what: "x".to_owned(),
        });
        assert_eq!(
            (missing.kind(), missing.kind().name()),
            (ErrorKind::NotFound, "not_found")
        );
    }
}
