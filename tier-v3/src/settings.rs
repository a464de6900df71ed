//! The settings of tier v3, with the numbers that are not settings.
//!
//! Numbers that only make sense together with this code are constants here and not keys of the configuration.

use memory_core::config::{HandedSettings, V3Config};
use memory_core::tier::TierError;

/// Damping of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009).
pub(crate) const FUSION_K: f32 = 60.0;

/// Weight of a term in a section's head: page title, heading and date.
pub(crate) const HEAD_WEIGHT: f32 = 2.5;

/// Weight of a term in a section's body.
pub(crate) const BODY_WEIGHT: f32 = 1.0;

/// Term-frequency saturation of the lexical finder.
pub(crate) const K1: f32 = 1.5;

/// Length normalisation of the lexical finder.
pub(crate) const B: f32 = 0.75;

/// Most core pages shown in a turn.
pub(crate) const CORE_CAP: usize = 6;

/// Most sections the finders may add in a turn.
pub(crate) const SECTION_CAP: usize = 8;

/// Most characters (Unicode scalars) the finders may add in a turn.
pub(crate) const CHARACTER_CAP: usize = 6_000;

/// Weight of the fresh lane in fusion: enough to order equals, too little to lift a page nobody asked for.
pub(crate) const FRESH_WEIGHT: f32 = 0.02;

/// How many candidates each lane may bring; 0 switches a lane off.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) needle: u32,
    pub(crate) dense: u32,
    pub(crate) fresh: u32,
}

impl Settings {
    /// Reads the settings from the JSON that the host resolved.
    pub(crate) fn parse(config: &str) -> Result<Self, TierError> {
        let settings = HandedSettings::parse(config)?;
        let v3: V3Config = settings.key("v3")?;
        Ok(Self {
            needle: v3.needle_k,
            dense: v3.dense_k,
            fresh: v3.fresh_set.k,
        })
    }
}

#[cfg(test)]
mod tests {
    use memory_core::config::Config;
    use memory_core::predicates::Tier;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_complaint_names_the_key() {
        let mut settings = Config::default().tier_config_json(Tier::V3);
        Settings::parse(&settings.to_string()).expect("the defaults are good");
        settings["v3"] = Value::Null;
        let complaint = Settings::parse(&settings.to_string()).expect_err("a bad key");
        assert!(complaint.to_string().contains("key `v3`"), "{complaint}");
        assert!(Settings::parse("{").is_err());
    }
}
