//! Why a plugin was not loaded, and why a slot does not serve: one line for whoever has to fix it.

use std::io;

use memory_core::abi::ErrorCode;
use memory_core::abi::host::TierCallError;
use memory_core::predicates::Tier;
use memory_core::predicates::registry::RemovedTier;
use thiserror::Error;

use crate::incident::Quarantine;
use crate::step::Step;

/// A plugin was refused. Nothing that served before has changed.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The tier was removed from this build. Configure another one.
    #[error(transparent)]
    Removed(#[from] RemovedTier),
    /// No manifest in the folder has this identifier. Build or install the plugin, or correct the configuration.
    #[error(
        "plugin `{plugin}`: there is no such plugin in `{folder}`; build or install it, or correct `[plugins]`"
    )]
    Unknown {
        /// The identifier that was asked for.
        plugin: String,
        /// The folder that was searched.
        folder: String,
    },
    /// No plugin folder is known. Set one.
    #[error("plugin `{plugin}`: no plugin folder is set; name one with `STRATA_PLUGIN_DIR`")]
    NoFolder {
        /// The identifier that was asked for.
        plugin: String,
    },
    /// The plugin folder cannot be read. Correct its path or rights.
    #[error("plugin folder `{folder}` cannot be read")]
    Folder {
        /// The folder.
        folder: String,
        /// What the system said.
        source: io::Error,
    },
    /// A manifest cannot be read. Correct its rights.
    #[error("plugin manifest `{file}` cannot be read")]
    ReadManifest {
        /// The manifest's file name.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// A manifest is wrong. Build the plugin again.
    #[error("plugin manifest `{file}`: {reason}")]
    Manifest {
        /// The manifest's file name.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// The allow-list cannot be read. Correct its rights.
    #[error("allow-list `{file}` cannot be read")]
    ReadAllowList {
        /// The list's path.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The allow-list is wrong. Correct it by hand.
    #[error("allow-list `{file}`: {reason}")]
    AllowList {
        /// The list's path.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// The plugin serves another tier than the one it was chosen for. Correct the configuration.
    #[error("plugin `{plugin}`: it serves tier `{found}`, not `{wanted}`; correct `[plugins]`")]
    WrongTier {
        /// The plugin.
        plugin: String,
        /// The tier it was chosen for.
        wanted: Tier,
        /// The tier it serves.
        found: Tier,
    },
    /// The library cannot be read. Correct its rights or build it again.
    #[error("plugin `{plugin}`: cannot read the library `{file}`")]
    Read {
        /// The plugin.
        plugin: String,
        /// The library's file name.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// What the manifest names is not a file. Install the plugin again.
    #[error("plugin `{plugin}`: the library `{file}` is {what}, not a file")]
    NotAFile {
        /// The plugin.
        plugin: String,
        /// The library's file name.
        file: String,
        /// What it is.
        what: &'static str,
    },
    /// The library has another length than its manifest says. Copy or build it again.
    #[error(
        "plugin `{plugin}`: the library has {found} bytes, its manifest says {expected}; it was cut short or replaced"
    )]
    Length {
        /// The plugin.
        plugin: String,
        /// The length in the manifest.
        expected: u64,
        /// The length on disk.
        found: u64,
    },
    /// The library is not the one its manifest speaks of. Build it again.
    #[error("plugin `{plugin}`: sha256 {found} is not the one in its manifest, {expected}")]
    Hash {
        /// The plugin.
        plugin: String,
        /// The hash in the manifest.
        expected: String,
        /// The hash of the library.
        found: String,
    },
    /// Nobody has said that this library is trusted. Review it, then trust it.
    #[error(
        "plugin `{plugin}`: sha256 {sha256} is not on the allow-list; if you trust it, run `strata plugins trust {plugin}`"
    )]
    NotAllowed {
        /// The plugin.
        plugin: String,
        /// The library's hash.
        sha256: String,
    },
    /// A signature is there and does not make the plugin trusted. Install it again, or trust the key that signed it.
    #[error("plugin `{plugin}`: {reason}")]
    Signature {
        /// The plugin.
        plugin: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A build that could serve again is not trusted any more. Trust it, or install another.
    #[error("plugin `{plugin}`: build {sha256} is loaded, but not trusted any more")]
    Revoked {
        /// The plugin.
        plugin: String,
        /// The library's hash.
        sha256: String,
    },
    /// The private copy cannot be written. Correct the staging folder's rights or free some space.
    #[error("plugin `{plugin}`: cannot stage the library in `{folder}`")]
    Stage {
        /// The plugin.
        plugin: String,
        /// The staging folder.
        folder: String,
        /// What the system said.
        source: io::Error,
    },
    /// This process has loaded too many different builds. Restart it.
    #[error(
        "plugin `{plugin}`: {limit} different builds are loaded already, and none is ever unloaded; restart the host"
    )]
    TooManyBuilds {
        /// The plugin.
        plugin: String,
        /// The limit.
        limit: usize,
    },
    /// The system's loader refused the file. It is no library for this machine.
    #[error("plugin `{plugin}`: the dynamic loader refused it: {reason}")]
    Open {
        /// The plugin.
        plugin: String,
        /// What the loader said.
        reason: String,
    },
    /// The library has no header, or one that cannot be used. It is not a plugin for this host.
    #[error("plugin `{plugin}`: {reason}")]
    Header {
        /// The plugin.
        plugin: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The library was built for another version of the border. Build it again, or upgrade the host.
    #[error("plugin `{plugin}`: built for memory-core ABI {found}, this host speaks {host}")]
    Version {
        /// The plugin.
        plugin: String,
        /// The version of the plugin.
        found: String,
        /// The version of the host.
        host: String,
    },
    /// The two sides disagree on the layout of something that crosses. Build the plugin from this host's sources.
    #[error("plugin `{plugin}`: interface differs at `{place}`: host {host}, plugin {found}")]
    Layout {
        /// The plugin.
        plugin: String,
        /// The method and the field at which the sides part.
        place: String,
        /// What the host has there.
        host: String,
        /// What the plugin has there.
        found: String,
    },
    /// The library and its manifest contradict each other. Build the plugin again.
    #[error(
        "plugin `{plugin}`: its manifest says `{key}` is `{sidecar}`, the library says `{library}`"
    )]
    ManifestDiffers {
        /// The plugin.
        plugin: String,
        /// The key.
        key: &'static str,
        /// The manifest's value.
        sidecar: String,
        /// The library's value.
        library: String,
    },
    /// A panic in the library would end the process. Build it with `panic = "unwind"`.
    #[error(
        "plugin `{plugin}`: it was built with panic strategy `{strategy}`; build it with `unwind`"
    )]
    PanicStrategy {
        /// The plugin.
        plugin: String,
        /// The strategy.
        strategy: String,
    },
    /// It needs a capability that its tier may not have. Report it to the plugin's author.
    #[error("plugin `{plugin}`: requires `{capability}`, which tier `{tier}` may not have")]
    NotForTier {
        /// The plugin.
        plugin: String,
        /// The capability.
        capability: String,
        /// The tier.
        tier: Tier,
    },
    /// It needs a capability that this assistant does not have. Configure the assistant or choose another plugin.
    #[error(
        "plugin `{plugin}`: requires `{capability}`, which assistant `{assistant}` does not have"
    )]
    NotOffered {
        /// The plugin.
        plugin: String,
        /// The capability.
        capability: String,
        /// The assistant.
        assistant: String,
    },
    /// The library could not prepare itself. Report it to the plugin's author.
    #[error("plugin `{plugin}`: init failed ({code}): {message}")]
    Init {
        /// The plugin.
        plugin: String,
        /// What kind of failure.
        code: ErrorCode,
        /// What happened.
        message: String,
    },
    /// The system gives it no threads. May be retried.
    #[error("plugin `{plugin}`: its threads cannot be started")]
    Threads {
        /// The plugin.
        plugin: String,
        /// What the system said.
        source: io::Error,
    },
    /// No instance could be made. With `BAD_CONFIG`, correct the configuration; otherwise report it.
    #[error("plugin `{plugin}`: create failed ({code}): {message}")]
    Create {
        /// The plugin.
        plugin: String,
        /// What kind of failure.
        code: ErrorCode,
        /// What happened.
        message: String,
    },
    /// Loading or making an instance took too long. May be retried.
    #[error("plugin `{plugin}`: {step} did not finish within {limit_ms} ms")]
    Late {
        /// The plugin.
        plugin: String,
        /// Where it is.
        step: Step,
        /// The limit.
        limit_ms: u64,
    },
    /// The new instance says that it cannot serve, or could not be asked.
    #[error("plugin `{plugin}`: health check failed: {reason}")]
    Unhealthy {
        /// The plugin.
        plugin: String,
        /// What it said.
        reason: String,
    },
    /// The new instance did not answer. May be retried.
    #[error("plugin `{plugin}`: health check timed out after {limit_ms} ms")]
    HealthTimeout {
        /// The plugin.
        plugin: String,
        /// The limit.
        limit_ms: u64,
    },
    /// This build panicked too often or blocks a thread, and is not used for now. Install another build, or restart the host.
    #[error("plugin `{plugin}`: this build {reason} and is quarantined; install another build")]
    Quarantined {
        /// The plugin.
        plugin: String,
        /// Hash of the build's library.
        sha256: String,
        /// Why.
        reason: Quarantine,
    },
}

impl LoadError {
    pub(crate) fn init(plugin: &str, error: TierCallError) -> Self {
        Self::Init {
            plugin: plugin.to_owned(),
            code: error.code,
            message: error.message,
        }
    }

    pub(crate) fn create(plugin: &str, error: TierCallError) -> Self {
        Self::Create {
            plugin: plugin.to_owned(),
            code: error.code,
            message: error.message,
        }
    }
}

/// Comparison by text, which is all that a test or a change of state needs: causes of the system have no other.
impl PartialEq for LoadError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

/// The plugin machinery could not start. Report it; nothing can be loaded.
#[derive(Debug, Error)]
pub enum HostError {
    /// What the machinery is to run on cannot be had.
    #[error("the plugin runtime cannot be started")]
    Runtime {
        /// What the system said.
        source: io::Error,
    },
    /// A limit makes no sense. Correct it.
    #[error("the plugin limit `{limit}` must be {range}")]
    Limit {
        /// Its name.
        limit: &'static str,
        /// What it may be.
        range: String,
    },
}

/// A call to a slot failed. The turn goes on without memory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SlotError {
    /// Nothing serves. The slot's status says why.
    #[error("no tier is serving")]
    Empty,
    /// The plugin failed. The code says how.
    #[error("plugin `{plugin}`: `{method}` failed ({code}): {message}")]
    Call {
        /// The plugin.
        plugin: String,
        /// The method.
        method: &'static str,
        /// What kind of failure.
        code: ErrorCode,
        /// What happened.
        message: String,
    },
}

impl SlotError {
    /// Returns the kind of failure, when a plugin failed.
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Empty => None,
            Self::Call { code, .. } => Some(*code),
        }
    }
}
