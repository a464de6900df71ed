//! What a host decides before it opens Strata.
//!
//! Everything that two runs could differ in comes in here: folders, environment, clock, ids, the embedder. Nothing below
//! reads the process's environment or its time, which is why a demo or a test can repeat a run byte for byte.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory_core::embed::Embedder;
use memory_core::env::{Clock, Fs, Ids, SystemClock};
use memory_core::llm::LlmClient;
use memory_substrate::embed::provision;
use memory_substrate::fs::RealFs;
use memory_substrate::workspace;

use crate::error::StrataError;
use crate::ids::UuidIds;
use crate::plugins::{PluginSearch, PluginSource};

/// Which embedder turns text into vectors.
#[derive(Clone, Debug, Default)]
pub enum EmbedderChoice {
    /// The model that the set-up provisioned; without one, search goes by words and a notice says so.
    #[default]
    Auto,
    /// None: search goes by words.
    None,
    /// This one, for instance a stand-in for tests.
    Given(Arc<dyn Embedder>),
}

/// Which language model is asked in the background.
#[derive(Clone, Debug, Default)]
pub enum LlmChoice {
    /// The one that the settings name; none unless they name one.
    #[default]
    Auto,
    /// None: whatever a model could do is done by rules, or not at all.
    None,
    /// This one, for instance a stand-in for tests.
    Given(Arc<dyn LlmClient>),
}

/// What processes of one user that have the same assistant open may do for one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SocketUse {
    /// Nothing: whoever comes while another one writes is told so.
    Off,
    /// This one hands its requests to one that writes, and takes none when it writes itself.
    Ask,
    /// It does both.
    #[default]
    Listen,
}

/// Everything a host decides before it opens Strata.
#[derive(Clone)]
pub struct StrataOptions {
    /// Folder below which the assistants live.
    pub home: PathBuf,
    /// Where tier plugins come from and which of them are trusted.
    pub plugins: PluginSource,
    /// Folder with the provisioned model; `None` when there is none, and then [`EmbedderChoice::Auto`] finds no model.
    pub cache_dir: Option<PathBuf>,
    /// The environment, for settings given as variables.
    pub environment: BTreeMap<String, String>,
    /// Settings given on the command line, by dotted key.
    pub flags: BTreeMap<String, String>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Makes identifiers.
    pub ids: Arc<dyn Ids>,
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// Turns text into vectors.
    pub embedder: EmbedderChoice,
    /// Files notes into pages, if there is one.
    pub llm: LlmChoice,
    /// How long a tier may take for one turn. What it has not answered by then is not injected.
    pub tier_deadline: Duration,
    /// How long a write waits for a process that holds the assistant and takes no requests.
    pub write_patience: Duration,
    /// Whether requests are handed from process to process.
    pub socket: SocketUse,
}

impl StrataOptions {
    /// Returns options for a home folder: real clock and ids, no plugins, no model.
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            plugins: PluginSource::default(),
            cache_dir: None,
            environment: BTreeMap::new(),
            flags: BTreeMap::new(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(UuidIds),
            fs: Arc::new(RealFs),
            embedder: EmbedderChoice::default(),
            llm: LlmChoice::default(),
            tier_deadline: Duration::from_secs(3),
            write_patience: Duration::from_secs(3),
            socket: SocketUse::default(),
        }
    }

    /// Returns options as an installed program finds them: home, cache folder and plugins by the usual rules.
    ///
    /// `home` and `plugins` win over the environment.
    pub fn from_environment(
        environment: BTreeMap<String, String>,
        home: Option<PathBuf>,
        plugins: Option<PathBuf>,
    ) -> Result<Self, StrataError> {
        let home = match home {
            Some(home) => std::path::absolute(&home).map_err(|source| StrataError::Io {
                action: "resolve",
                path: home.clone(),
                source,
            })?,
            None => workspace::home_dir(&environment)?,
        };
        let variable = |name: &str| environment.get(name).map(OsString::from);
        let cache_dir = provision::cache_root(variable);
        let named = environment
            .get("STRATA_PLUGIN_DIR")
            .filter(|value| !value.is_empty())
            .map(PathBuf::from);
        let plugins = PluginSource::search(&PluginSearch {
            given: plugins.or(named),
            home: home.clone(),
            executable: std::env::current_exe().ok(),
            current_dir: std::env::current_dir().ok(),
            cache_dir: cache_dir.clone(),
        });
        Ok(Self {
            plugins,
            cache_dir,
            environment,
            ..Self::new(home)
        })
    }
}

impl fmt::Debug for StrataOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may hold secrets of other programs.
        formatter
            .debug_struct("StrataOptions")
            .field("home", &self.home)
            .field("plugins", &self.plugins)
            .field("cache_dir", &self.cache_dir)
            .field("flags", &self.flags)
            .field("embedder", &self.embedder)
            .field("llm", &self.llm)
            .field("tier_deadline", &self.tier_deadline)
            .field("write_patience", &self.write_patience)
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}
