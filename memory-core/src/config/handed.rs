//! The settings as a tier is handed them: one JSON object, read key by key.
//!
//! A tier reads the keys it uses and no others, so that what a newer host adds does no harm. A complaint always names the
//! key: whoever reads `BAD_CONFIG` must know where to look.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tier::TierError;

/// The settings that a host handed a tier at `create`.
#[derive(Clone, Debug, PartialEq)]
pub struct HandedSettings(Value);

impl HandedSettings {
    /// Parses what `create` was given.
    pub fn parse(config: &str) -> Result<Self, TierError> {
        let parsed = serde_json::from_str(config);
        parsed.map(Self).map_err(|error| TierError::BadConfig {
            reason: format!("the settings are not JSON: {error}"),
        })
    }

    /// Reads one key. A missing one reads as null, which only an `Option` takes.
    pub fn key<T: DeserializeOwned>(&self, name: &str) -> Result<T, TierError> {
        let value = self.0.get(name).unwrap_or(&Value::Null);
        T::deserialize(value).map_err(|error| TierError::BadConfig {
            reason: format!("key `{name}`: {error}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint<T>(read: Result<T, TierError>) -> String {
        match read {
            Err(TierError::BadConfig { reason }) => reason,
            Err(other) => panic!("must be refused as bad configuration: {other}"),
            Ok(_) => panic!("must be refused"),
        }
    }

    #[test]
    fn a_complaint_names_the_key() {
        let settings = HandedSettings::parse(r#"{"notes":3,"newer":[]}"#).expect("JSON");
        assert_eq!(settings.key::<u32>("notes").expect("there"), 3);
        assert_eq!(settings.key::<Option<u32>>("none").expect("optional"), None);
        assert!(complaint(settings.key::<u32>("none")).starts_with("key `none`: "));
        assert!(complaint(settings.key::<String>("notes")).starts_with("key `notes`: "));
        assert!(complaint(HandedSettings::parse("{")).starts_with("the settings are not JSON: "));
        let nothing = HandedSettings::parse("7").expect("JSON");
        assert!(complaint(nothing.key::<u32>("notes")).starts_with("key `notes`: "));
    }
}
