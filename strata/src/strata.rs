//! Strata itself: the assistants of one home folder, the plugins and the model they share.

use std::path::PathBuf;
use std::sync::Arc;

use memory_core::config;
use memory_substrate::backup::{self, RestoreOptions, Restored};
use memory_substrate::blocking;
use memory_substrate::remember::{RememberInput, RememberReceipt};
use memory_substrate::state::SqliteState;
use memory_substrate::workspace::{AssistantId, Workspace};
use plugin_host::Metrics;

use crate::assistant::{Access, Assistant, keep};
use crate::doctor::{self, DoctorOptions, DoctorReport, Opened, Subject};
use crate::embedding::Embedding;
use crate::error::StrataError;
use crate::options::{SocketUse, StrataOptions};
use crate::plugins::{KeyTrusted, PluginReport, Plugins, Signed, Trusted};
use crate::settings::{LiveSettings, SettingsSource};
use crate::zones;

/// What a new assistant starts with.
#[derive(Clone, Debug, Default)]
pub struct InitOptions {
    /// Time zone in which dates are shown and written; `None` means UTC.
    pub time_zone: Option<String>,
}

/// The assistants of one home folder.
#[derive(Debug)]
pub struct Strata {
    options: Arc<StrataOptions>,
    plugins: Arc<Plugins>,
    embedding: Embedding,
}

impl Strata {
    /// Opens a home folder. Nothing is created and nothing heavy is loaded yet. Must be called inside a tokio runtime.
    pub fn open(options: StrataOptions) -> Result<Self, StrataError> {
        let plugins = Plugins::open(&options)?;
        let embedding = Embedding::choose(&options);
        Ok(Self {
            options: Arc::new(options),
            plugins: Arc::new(plugins),
            embedding,
        })
    }

    /// Returns what this was opened with.
    pub fn options(&self) -> &StrataOptions {
        &self.options
    }

    /// Creates an assistant on tier v3 and returns its folder. One that exists is left alone and is an error.
    pub async fn init(&self, id: &str, init: InitOptions) -> Result<PathBuf, StrataError> {
        let zone = init.time_zone.unwrap_or_else(|| "UTC".to_owned());
        zones::check(&zone)?;
        let text = config::init_text(&zone)?;
        let (id, options) = (AssistantId::new(id)?, Arc::clone(&self.options));
        blocking::run(move || {
            let workspace = Workspace::create(&options.home, &id, &text, Arc::clone(&options.fs))?;
            // A reader must find the database; only a writer makes one.
            let state = SqliteState::open(&workspace.state_path(), &*options.clock)?;
            drop(state);
            drop(LiveSettings::open(
                SettingsSource::new(&options, workspace.clone()).recording(),
            )?);
            Ok(workspace.root().to_owned())
        })
        .await
    }

    /// Returns the assistants of this home, sorted.
    pub async fn assistants(&self) -> Result<Vec<String>, StrataError> {
        let options = Arc::clone(&self.options);
        blocking::run(move || {
            let ids = Workspace::list(&options.home, options.fs.as_ref())?;
            Ok(ids.iter().map(ToString::to_string).collect())
        })
        .await
    }

    /// Opens an assistant.
    pub async fn assistant(&self, id: &str, access: Access) -> Result<Assistant, StrataError> {
        let workspace = self.workspace(id).await?;
        let options = Arc::clone(&self.options);
        self.open_assistant(options, workspace, access).await
    }

    async fn workspace(&self, id: &str) -> Result<Workspace, StrataError> {
        let (id, options) = (AssistantId::new(id)?, Arc::clone(&self.options));
        blocking::run(move || {
            Ok(Workspace::open(
                &options.home,
                &id,
                Arc::clone(&options.fs),
            )?)
        })
        .await
    }

    async fn open_assistant(
        &self,
        options: Arc<StrataOptions>,
        workspace: Workspace,
        access: Access,
    ) -> Result<Assistant, StrataError> {
        let plugins = Arc::clone(&self.plugins);
        Assistant::open(options, plugins, &self.embedding, workspace, access).await
    }

    /// Keeps a note whoever has the assistant open, and waits a few seconds at most: where nobody takes it, it is left
    /// for the next writer, and the receipt says so. The same key again is the same note.
    pub async fn remember(
        &self,
        id: &str,
        input: RememberInput,
        key: Option<String>,
    ) -> Result<RememberReceipt, StrataError> {
        let workspace = self.workspace(id).await?;
        let mut options = StrataOptions::clone(&self.options);
        if options.socket == SocketUse::Listen {
            // It is over sooner than anybody could hand in a request.
            options.socket = SocketUse::Ask;
        }
        let opened = self.open_assistant(Arc::new(options), workspace.clone(), Access::ReadWrite);
        match opened.await {
            Ok(assistant) => assistant.keep(input, key).await,
            Err(error) if error.is_locked() => {
                keep::leave(&self.options, &workspace, input, key).await
            }
            Err(error) => Err(error),
        }
    }

    /// Returns every plugin in the plugin folder, checked up to the point where its code would run.
    pub async fn plugins(&self) -> Result<Vec<PluginReport>, StrataError> {
        self.plugins.reports().await
    }

    /// Adds a plugin's checksum to the user's allow-list. `plugin` is an identifier, a manifest or a library.
    pub async fn trust_plugin(&self, plugin: PathBuf) -> Result<Trusted, StrataError> {
        self.plugins.trust(plugin, &self.options).await
    }

    /// Adds a key to the user's allow-list: 64 hexadecimal digits, a name for it, and the plugins it may sign if not all.
    pub async fn trust_key(
        &self,
        key: String,
        id: String,
        plugins: Option<Vec<String>>,
    ) -> Result<KeyTrusted, StrataError> {
        self.plugins
            .trust_key(key, id, plugins, &self.options)
            .await
    }

    /// Signs a plugin with the key in a file. `plugin` is an identifier, a manifest or a library.
    pub async fn sign_plugin(
        &self,
        plugin: PathBuf,
        key_file: PathBuf,
    ) -> Result<Signed, StrataError> {
        self.plugins.sign(plugin, key_file, &self.options).await
    }

    /// Returns what is wrong with the allow-lists, a line each. What the sound ones trust is not affected.
    pub async fn plugin_warnings(&self) -> Result<Vec<String>, StrataError> {
        self.plugins.warnings().await
    }

    /// Returns what was counted of the plugins of this process since it began: calls and their ends by method, times,
    /// panics, loads, swaps and drains.
    pub fn plugin_metrics(&self) -> Metrics {
        self.plugins.metrics()
    }

    /// Makes an assistant from a backup. One of that name is an error unless it is to be replaced, and is kept then.
    pub async fn restore(
        &self,
        id: &str,
        backup: PathBuf,
        restore: RestoreOptions,
    ) -> Result<Restored, StrataError> {
        let (id, options) = (AssistantId::new(id)?, Arc::clone(&self.options));
        blocking::run(move || {
            let now = options.clock.now();
            Ok(backup::restore(&options.home, &id, &backup, restore, now)?)
        })
        .await
    }

    /// Checks everything about an assistant and repairs nothing.
    pub async fn doctor(
        &self,
        id: &str,
        options: DoctorOptions,
    ) -> Result<DoctorReport, StrataError> {
        let subject = Subject {
            options: &self.options,
            plugins: &self.plugins,
            opened: Opened::ForThis(self),
        };
        doctor::examine(subject, id, options).await
    }
}
