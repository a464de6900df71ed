//! A loaded library's functions in standard types.

use std::fmt;
use std::sync::Arc;

use crate::abi::convert::Cross as _;
use crate::abi::error::{AbiError, ErrorCode};
use crate::abi::module::TierModuleRef;
use crate::abi::types::Manifest;
use crate::predicates::Tier;
use crate::services::Services;

use super::call::CallRegistry;
use super::log::{self, LogSink};
use super::services::{self, Spawner};
use super::tier::{GuestTier, TierCallError};

/// What a library says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginManifest {
    /// Identifier of the plugin.
    pub id: String,
    /// The tier it serves.
    pub tier: Tier,
    /// Its own version.
    pub version: String,
    /// The border version it was built with.
    pub abi: String,
    /// The oldest Rust it was built for.
    pub rust_version: String,
    /// What a panic does in it: `unwind` or `abort`.
    pub panic_strategy: String,
    /// Names of the capabilities without which it cannot serve.
    pub requires: Vec<String>,
    /// Names of the capabilities it uses when they are there.
    pub uses: Vec<String>,
}

impl PluginManifest {
    fn from_border(manifest: Manifest) -> Result<Self, AbiError> {
        Ok(Self {
            id: manifest.id.into_string(),
            tier: Tier::from_abi(manifest.tier)?,
            version: manifest.version.into_string(),
            abi: manifest.abi.into_string(),
            rust_version: manifest.rust_version.into_string(),
            panic_strategy: manifest.panic_strategy.into_string(),
            requires: Vec::from_abi(manifest.requires)?,
            uses: Vec::from_abi(manifest.uses)?,
        })
    }
}

/// The functions of one loaded library. Libraries are never unloaded, so a copy stays good for the life of the process.
#[derive(Clone, Copy)]
pub struct PluginModule(TierModuleRef);

impl fmt::Debug for PluginModule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PluginModule")
    }
}

impl PluginModule {
    pub(in crate::abi) const fn new(module: TierModuleRef) -> Self {
        Self(module)
    }

    /// Returns what the library says of itself.
    pub fn manifest(self) -> Result<PluginManifest, TierCallError> {
        let manifest = self.0.manifest()().into_result();
        manifest
            .and_then(PluginManifest::from_border)
            .map_err(TierCallError::from)
    }

    /// Prepares the library. To be called once, before any instance is made.
    pub fn init(self, sink: Arc<dyn LogSink>) -> Result<(), TierCallError> {
        self.0.init()(log::to_border(sink))
            .into_result()
            .map_err(TierCallError::from)
    }

    /// Tells the library the most verbose level anybody listens to.
    pub fn set_max_level(self, level: u32) {
        self.0.set_max_level()(level);
    }

    /// Makes an instance. May take as long as the tier's own set-up does, so it belongs on a blocking thread.
    pub fn create(
        self,
        services: Services,
        spawner: Arc<dyn Spawner>,
        config: &str,
    ) -> Result<GuestTier, TierCallError> {
        let calls = Arc::new(CallRegistry::default());
        let handed = services::to_border(services, Arc::clone(&calls), spawner);
        let object = self.0.create()(handed, config.into())
            .into_result()
            .map_err(TierCallError::from)?;
        if object.is_ready() {
            Ok(GuestTier::new(object, calls))
        } else {
            Err(TierCallError::new(
                ErrorCode::INTERNAL,
                "the new instance does not take calls",
            ))
        }
    }
}
