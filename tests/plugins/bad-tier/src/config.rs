//! What this tier is told to do wrong.

use memory_core::config::HandedSettings;
use memory_core::tier::TierError;

/// The configuration.
#[derive(Debug)]
pub(crate) struct Config {
    /// The rule to break; empty for none.
    pub(crate) rule: String,
    /// Where to panic, when that is the rule to break.
    pub(crate) place: String,
    /// Most notes shown in a turn.
    pub(crate) notes: usize,
}

impl Config {
    /// Panics if this is the place where it is to.
    pub(crate) fn panic_in(&self, place: &str) {
        assert!(
            self.rule != "never-panics" || self.place != place,
            "told to panic in {place}"
        );
    }

    /// Reads the configuration.
    pub(crate) fn parse(text: &str) -> Result<Self, TierError> {
        let settings = HandedSettings::parse(text)?;
        let rule: Option<String> = settings.key("break")?;
        let place: Option<String> = settings.key("in")?;
        let rule = rule.unwrap_or_default();
        let notes = settings.key::<Option<usize>>("notes");
        if notes.is_err() && rule == "bad-config" {
            return Err(TierError::Internal {
                reason: "something is wrong somewhere".to_owned(),
            });
        }
        Ok(Self {
            place: place.unwrap_or_else(|| "drop".to_owned()),
            notes: notes?.unwrap_or(3),
            rule,
        })
    }
}
