//! An assistant's settings: shown and changed.
//!
//! A change needs no lock: it replaces one small file in one step, and whoever has the assistant open notices at its
//! next turn.

use std::sync::Arc;

use memory_core::config::{self, Config, ConfigWarning, Got, Layers};
use memory_core::predicates::Tier;
use memory_core::services::Notice;
use memory_substrate::blocking;

use super::Assistant;
use crate::error::StrataError;
use crate::zones;

/// Key of the time zone, of which more is asked than its form when somebody sets it.
const TIME_ZONE: &str = "time_zone";

impl Assistant {
    /// Returns the settings in force.
    pub fn config(&self) -> Arc<Config> {
        self.settings.in_force().config
    }

    /// Returns what the settings in force left out, and why.
    pub fn config_warnings(&self) -> Arc<Vec<ConfigWarning>> {
        self.settings.in_force().warnings
    }

    /// Returns the switches of the tier that a fault in the settings may have taken out of them, and that are as they
    /// last were.
    pub fn config_kept(&self) -> Arc<Vec<&'static str>> {
        self.settings.in_force().unsettled
    }

    /// Returns what the owner should know about the settings in force, the most serious first.
    pub fn config_notices(&self) -> Vec<Notice> {
        self.settings.in_force().notices()
    }

    /// Returns one setting as it applies.
    pub async fn config_get(&self, key: &str) -> Result<Got, StrataError> {
        let key = key.to_owned();
        self.with_layers(move |layers| Ok(config::get(layers, &key)?))
            .await
    }

    /// Changes settings in the assistant's own file, several at once when there are several.
    pub async fn config_set(
        &self,
        assignments: Vec<(String, String)>,
    ) -> Result<Vec<ConfigWarning>, StrataError> {
        for (_, zone) in assignments.iter().filter(|(key, _)| key == TIME_ZONE) {
            zones::check(zone)?;
        }
        self.edit(move |layers| {
            let pairs: Vec<(&str, &str)> = assignments
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect();
            Ok(config::set(layers, &pairs)?)
        })
        .await
    }

    /// Removes settings from the assistant's own file, so that the layers below apply.
    pub async fn config_unset(&self, keys: Vec<String>) -> Result<Vec<ConfigWarning>, StrataError> {
        self.edit(move |layers| {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            Ok(config::unset(layers, &keys)?)
        })
        .await
    }

    /// Changes the settings so that a tier is configured. The next turn follows.
    pub async fn set_tier(&self, tier: Tier) -> Result<Vec<ConfigWarning>, StrataError> {
        self.edit(move |layers| Ok(config::set_tier(layers, tier)?))
            .await
    }

    async fn edit(
        &self,
        change: impl FnOnce(&Layers) -> Result<(String, Vec<ConfigWarning>), StrataError>
        + Send
        + 'static,
    ) -> Result<Vec<ConfigWarning>, StrataError> {
        let settings = Arc::clone(&self.settings);
        blocking::run(move || {
            let source = settings.source();
            let (text, warnings) = change(&source.layers()?)?;
            settings.write(&text)?;
            Ok(warnings)
        })
        .await
    }

    async fn with_layers<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Layers) -> Result<T, StrataError> + Send + 'static,
    ) -> Result<T, StrataError> {
        let settings = Arc::clone(&self.settings);
        blocking::run(move || work(&settings.layers_in_force()?)).await
    }
}
