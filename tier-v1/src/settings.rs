//! The settings of tier v1, of which it uses none yet and checks all that are its own.
//!
//! A complaint names the key: whoever reads `BAD_CONFIG` must know where to look.

use memory_core::config::{HandedSettings, RetrievalConfig};
use memory_core::predicates::Tier;
use memory_core::tier::TierError;

/// Checks the settings from the JSON that the host resolved.
pub(crate) fn check(config: &str) -> Result<(), TierError> {
    let settings = HandedSettings::parse(config)?;
    settings.key::<Tier>("tier")?;
    settings.key::<String>("time_zone")?;
    settings.key::<RetrievalConfig>("retrieval")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use memory_core::config::Config;
    use serde_json::Value;

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
