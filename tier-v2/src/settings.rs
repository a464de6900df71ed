//! The settings of tier v2, with the numbers that are not settings.

use memory_core::config::{HandedSettings, SubstrateTuning, V2Config};
use memory_core::tier::TierError;

/// Most hits asked of each search; enough that every page with a claim is among the candidates.
pub(crate) const SEARCH_LIMIT: u32 = 200;

/// Most characters (Unicode scalars) shown in a turn.
pub(crate) const CHARACTER_CAP: usize = 6_000;

/// Weight of a term in a section's head when the lexical half is scored.
pub(crate) const HEAD_WEIGHT: f32 = 1.0;

/// What an instance was configured with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) v2: V2Config,
    pub(crate) substrate: SubstrateTuning,
}

impl Settings {
    /// Reads the settings from the JSON that the host resolved.
    pub(crate) fn parse(config: &str) -> Result<Self, TierError> {
        let settings = HandedSettings::parse(config)?;
        Ok(Self {
            v2: settings.key("v2")?,
            substrate: settings.key("substrate")?,
        })
    }
}

/// Returns a value in the single precision that crosses the border.
#[expect(
    clippy::cast_possible_truncation,
    reason = "scores and weights are near one; single precision is plenty"
)]
pub(crate) const fn single(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use memory_core::config::Config;
    use memory_core::predicates::Tier;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_complaint_names_the_key() {
        let mut settings = Config::default().tier_config_json(Tier::V2);
        Settings::parse(&settings.to_string()).expect("the defaults are good");
        settings["substrate"] = Value::Null;
        let complaint = Settings::parse(&settings.to_string()).expect_err("a bad key");
        assert!(
            complaint.to_string().contains("key `substrate`"),
            "{complaint}"
        );
        assert!(Settings::parse("{").is_err());
    }
}
