//! The settings of tier v2, with the numbers that are not settings.

use memory_core::config::{SubstrateTuning, TierConfig, V2Config};
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
        let bad = |reason: String| TierError::BadConfig { reason };
        let config: TierConfig =
            serde_json::from_str(config).map_err(|error| bad(error.to_string()))?;
        Ok(Self {
            v2: config
                .v2
                .ok_or_else(|| bad("the settings of tier v2 are missing".to_owned()))?,
            substrate: config
                .substrate
                .ok_or_else(|| bad("the substrate's settings are missing".to_owned()))?,
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
