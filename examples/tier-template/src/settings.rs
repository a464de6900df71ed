//! What this tier reads of the settings a host hands it.
//!
//! A host gives each tier the settings of the tier it serves as one JSON object. Only the keys that are used are read
//! here, so keys that a newer host adds do no harm; but what is read is checked, and a complaint names the key, because
//! `BAD_CONFIG` without a key sends a person searching.

use memory_core::config::HandedSettings;
use memory_core::tier::TierError;
use serde::Deserialize;

/// Most characters (Unicode scalars) shown in a turn, whatever the budget is.
const CHARACTER_CAP: usize = 6_000;

/// The settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Most characters shown in a turn.
    pub(crate) characters: usize,
}

/// The part of the settings that says what may be injected.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Retrieval {
    max_inject_tokens: u32,
}

impl Settings {
    /// Reads the settings from the JSON that the host resolved.
    pub(crate) fn parse(config: &str) -> Result<Self, TierError> {
        let settings = HandedSettings::parse(config)?;
        let retrieval: Retrieval = settings.key("retrieval")?;
        // The ledger of the host measures exactly. This only keeps the tier from rendering what cannot fit: a token is
        // about four characters.
        let affordable = retrieval.max_inject_tokens as usize * 4;
        Ok(Self {
            characters: CHARACTER_CAP.min(affordable),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(config: &str) -> String {
        match Settings::parse(config) {
            Err(TierError::BadConfig { reason }) => reason,
            other => panic!("must be refused as bad configuration: {other:?}"),
        }
    }

    #[test]
    fn a_complaint_names_the_key() {
        assert!(complaint("{").contains("not JSON"));
        assert!(complaint("{}").contains("`retrieval`"));
        assert!(complaint(r#"{"retrieval":{}}"#).contains("maxInjectTokens"));
        assert!(complaint(r#"{"retrieval":{"maxInjectTokens":"x"}}"#).contains("`retrieval`"));
        let settings = Settings::parse(r#"{"retrieval":{"maxInjectTokens":100},"tier":"v3"}"#);
        assert_eq!(settings.expect("these are good").characters, 400);
    }
}
