//! A new instance of the tier that serves, because somebody asks for one.
//!
//! What serves is not compared with the plugin folder at every turn: a host that runs keeps the build it has, whatever is
//! installed meanwhile. Whoever installed a newer build says so here.

use std::sync::PoisonError;

use memory_core::predicates::Tier;
use memory_core::services::Capability;
use plugin_host::Newcomer;

use super::{Assistant, Engine, TierStatus};
use crate::error::StrataError;

impl Assistant {
    /// Makes a new instance of the configured tier, from the plugin that is installed now, and returns what serves then.
    ///
    /// Turns that run are finished by the instance that began them, and the next ones get the new one. If it cannot come up,
    /// what served before goes on serving, and the status says why; an instance whose plugin is not trusted any more stops
    /// serving. Nothing happens while memory is off. A build that is loaded stays loaded for the life of the process.
    pub async fn reload_tier(&self) -> Result<TierStatus, StrataError> {
        if self.look().await?.config.tier() != Tier::Off {
            let engine = self.engine().await?;
            if let Some(newcomer) = self.begin_reload(engine) {
                newcomer.ended().await;
            }
        }
        self.tier_status().await
    }
    fn begin_reload(&self, engine: &Engine) -> Option<Newcomer> {
        // No turn decides meanwhile what serves, and then the newest settings are what counts.
        let _deciding = engine
            .deciding
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let config = self.settings.in_force().config;
        let services = engine.store.services(config.tier(), &Capability::ALL);
        let services = engine.stopwatches.wrap(services);
        engine.desk.reload(&config, &services)
    }
}
