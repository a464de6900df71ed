//! The settings of tier v1, of which it uses none yet and checks all that are its own.
//!
//! A complaint names the key: whoever reads `BAD_CONFIG` must know where to look.

use memory_core::config::RetrievalConfig;
use memory_core::predicates::Tier;
use memory_core::tier::TierError;
use serde_json::Value;

/// Checks the settings from the JSON that the host resolved.
pub(crate) fn check(config: &str) -> Result<(), TierError> {
    let settings: Value = serde_json::from_str(config).map_err(|error| TierError::BadConfig {
        reason: format!("the settings are not JSON: {error}"),
    })?;
    key(&settings, "tier", serde_json::from_value::<Tier>)?;
    key(&settings, "time_zone", serde_json::from_value::<String>)?;
    key(
        &settings,
        "retrieval",
        serde_json::from_value::<RetrievalConfig>,
    )?;
    Ok(())
}

/// Reads one key of the settings. A missing key reads as null, which no setting is.
fn key<T>(
    settings: &Value,
    name: &str,
    read: fn(Value) -> serde_json::Result<T>,
) -> Result<T, TierError> {
    let value = settings.get(name).cloned().unwrap_or_default();
    read(value).map_err(|error| TierError::BadConfig {
        reason: format!("key `{name}`: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use memory_core::config::Config;

    use super::*;

    #[test]
    fn a_complaint_names_the_key() {
        let mut settings = Config::default().tier_config_json(Tier::V1);
        check(&settings.to_string()).expect("the defaults are good");
        settings["retrieval"] = Value::Null;
        let complaint = check(&settings.to_string()).expect_err("a bad key");
        assert!(
            complaint.to_string().contains("key `retrieval`"),
            "{complaint}"
        );
        assert!(check("{").is_err());
    }
}
