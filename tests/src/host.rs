//! A host for measurements: a home in a temporary folder, and calls of the owner.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use memory_core::embed::Embedder;
use memory_core::provenance::Authority;
use memory_core::services::{Call, CallControl, CallScope, Requester};
use strata::{Access, Assistant, EmbedderChoice, InitOptions, Strata, StrataOptions};
use tempfile::TempDir;

/// An open assistant in a home of its own, which goes away with it.
#[derive(Debug)]
pub struct TempHost {
    /// The assistant.
    pub assistant: Assistant,
    /// The home's strata.
    pub strata: Strata,
    /// The folder of everything.
    pub folder: TempDir,
}

/// The assistant's name.
pub const ASSISTANT: &str = "measured";

impl TempHost {
    /// Makes a home with one assistant.
    pub async fn new(embedder: EmbedderChoice) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("strata-")
            .tempdir()
            .context("cannot make a temporary folder")?;
        let strata = open(home_in(folder.path()), embedder)?;
        strata
            .init(
                ASSISTANT,
                InitOptions {
                    time_zone: Some("UTC".to_owned()),
                },
            )
            .await?;
        let assistant = strata.assistant(ASSISTANT, Access::ReadWrite).await?;
        Ok(Self {
            assistant,
            strata,
            folder,
        })
    }

    /// Closes the assistant and returns the folder, which still goes away by itself.
    pub fn closed(self) -> TempDir {
        self.folder
    }
}

/// Returns where the home is in a host's folder.
pub fn home_in(folder: &Path) -> PathBuf {
    folder.join("home")
}

/// How long anything may take on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_mins(1);

/// Opens a home with the plugins of this checkout, for whom a slow machine is no fault.
pub fn open(home: PathBuf, embedder: EmbedderChoice) -> Result<Strata> {
    let mut options = StrataOptions::from_environment(
        std::env::vars().collect(),
        Some(home),
        Some(plugin_folder()),
    )?;
    options.embedder = embedder;
    options.tier_deadline = PATIENCE;
    options.write_patience = PATIENCE;
    Ok(Strata::open(options)?)
}

/// Returns the folder with this checkout's plugins.
pub fn plugin_folder() -> PathBuf {
    std::env::var_os("STRATA_PLUGIN_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/plugins")),
        PathBuf::from,
    )
}

/// Returns a provided embedder as a choice.
pub fn given(embedder: impl Embedder + 'static) -> EmbedderChoice {
    EmbedderChoice::Given(Arc::new(embedder))
}

struct Unlimited;

impl CallControl for Unlimited {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn remaining_ms(&self) -> u64 {
        u64::MAX
    }

    fn yield_now(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    fn token(&self) -> u64 {
        0
    }
}

/// Returns a call of the owner, without a deadline.
pub fn owner_call(conversation: &str) -> Call {
    let scope = CallScope {
        requester: Requester {
            principal: None,
            authority: Authority::Owner,
            consumer: "measure".to_owned(),
        },
        conversation: conversation.to_owned(),
        turn: 1,
        ..CallScope::default()
    };
    Call::new(Arc::new(scope), Arc::new(Unlimited))
}
