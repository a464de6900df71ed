//! What this tier is told to do wrong.

use memory_core::tier::TierError;
use serde_json::Value;

/// The configuration.
#[derive(Debug)]
pub(crate) struct Config {
    /// The rule to break; empty for none.
    pub(crate) rule: String,
    /// Most notes shown in a turn.
    pub(crate) notes: usize,
}

impl Config {
    /// Reads the configuration.
    pub(crate) fn parse(text: &str) -> Result<Self, TierError> {
        let bad = |reason: &str| TierError::BadConfig {
            reason: reason.to_owned(),
        };
        let value: Value = serde_json::from_str(text).map_err(|_| bad("not JSON"))?;
        let rule = match value.get("break") {
            None => String::new(),
            Some(Value::String(rule)) => rule.clone(),
            Some(_) => return Err(bad("key `break` must be a text")),
        };
        let notes = match value.get("notes") {
            None => 3,
            Some(notes) => match notes.as_u64().and_then(|notes| usize::try_from(notes).ok()) {
                Some(notes) => notes,
                None if rule == "bad-config" => {
                    return Err(TierError::Internal {
                        reason: "something is wrong somewhere".to_owned(),
                    });
                }
                None => return Err(bad("key `notes` must be a number")),
            },
        };
        Ok(Self { rule, notes })
    }
}
