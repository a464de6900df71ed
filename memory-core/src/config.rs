//! Configuration: one assistant's settings, read in layers and handed out typed.
//!
//! Settings are a table of keys ([`schema`]); everything else here derives from it. Nothing is read from the disk or
//! from the environment in this module: callers hand in texts and get values, warnings and new texts back, which
//! keeps every rule testable and lets the host decide when to look again. A setting that is unknown or wrong costs a
//! warning and never more than itself; a file that is not TOML is an error, because its silence could mean another
//! tier.

use sha2::{Digest as _, Sha256};

use crate::predicates::registry::BUILT;
use crate::predicates::{Tier, memory_tier};

mod check;
mod edit;
#[cfg(test)]
mod fixtures;
mod handed;
mod layers;
mod nearest;
mod reader;
mod report;
pub mod schema;
mod text;
mod tuning;
mod typed;
mod value;

pub use edit::{Got, get, init_text, set, set_tier, unset};
pub use handed::HandedSettings;
pub use layers::Layers;
pub use nearest::suggest;
pub use reader::variable;
pub use report::{ConfigError, ConfigSetError, ConfigWarning, Origin, Place, WarningKind};
pub use schema::KeySpec;
pub use tuning::Shadow;
pub use typed::{
    EdgeConfig, EmbeddingsConfig, EntityConfig, FreshSetConfig, GateConfig, HotSetConfig,
    LearnedEdgesConfig, LlmConfig, MemoryConfig, PluginsConfig, PoolLogConfig, PruneConfig,
    RerankConfig, RetrievalConfig, RouterConfig, SegmentationConfig, SubstrateTuning, TierConfig,
    V2Config, V3Config,
};
pub use value::{Kind, NONE, Value};

use layers::Settings;

/// The settings of one assistant.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Name of the time zone in which dates are shown and written; the host resolves it.
    pub time_zone: String,
    /// Which plugin serves which tier.
    pub plugins: PluginsConfig,
    /// The language model.
    pub llm: LlmConfig,
    /// Everything about memory.
    pub memory: MemoryConfig,
    settings: Settings,
}

/// One line of the list of settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    /// The key, what it takes and what it does.
    pub spec: &'static KeySpec,
    /// The value that applies; none for an override that nobody wrote.
    pub value: Option<&'a Value>,
    /// Where the value comes from.
    pub origin: Origin,
    /// The position in that file.
    pub place: Option<Place>,
}

impl Config {
    /// Reads the layers.
    ///
    /// An error means that a file is not TOML; keep the settings that are in force.
    pub fn load(layers: &Layers) -> Result<(Self, Vec<ConfigWarning>), ConfigError> {
        let (settings, warnings) = layers::merge(layers)?;
        Ok((Self::resolve(settings), warnings))
    }

    fn resolve(settings: Settings) -> Self {
        let time_zone = settings.value("time_zone").map(Value::to_string);
        Self {
            time_zone: time_zone.expect("the time zone has a default"),
            plugins: typed::table(&settings, "plugins"),
            llm: typed::table(&settings, "llm"),
            memory: MemoryConfig::resolve(&settings),
            settings,
        }
    }

    /// Returns the tier that is configured.
    pub const fn tier(&self) -> Tier {
        memory_tier(self.memory.switches())
    }

    /// Returns all settings in the order of the reference, for display.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        schema::KEYS.iter().map(|spec| entry(&self.settings, spec))
    }

    /// Returns what a tier is told: its own settings and those that tiers share, and no switch.
    pub fn tier_config(&self, tier: Tier) -> TierConfig {
        let memory = &self.memory;
        let reads_pages = BUILT.row(tier).is_some_and(|row| row.reads_pages);
        TierConfig {
            tier,
            time_zone: self.time_zone.clone(),
            retrieval: memory.retrieval.clone(),
            substrate: reads_pages.then(|| memory.substrate.clone()),
            v2: (tier == Tier::V2).then(|| memory.v2.clone()),
            v3: (tier == Tier::V3).then(|| memory.v3.clone()),
        }
    }

    /// Returns [`Self::tier_config`] as JSON.
    pub fn tier_config_json(&self, tier: Tier) -> serde_json::Value {
        typed::to_json(&self.tier_config(tier))
    }

    /// Returns the fingerprint of what a tier is told; a tier is created anew when it changes.
    pub fn digest(&self, tier: Tier) -> String {
        let mut canonical = String::new();
        write_canonical(&self.tier_config_json(tier), &mut canonical);
        let mut hex = String::with_capacity(64);
        for byte in Sha256::digest(canonical.as_bytes()) {
            for digit in [byte >> 4, byte & 15] {
                hex.extend(char::from_digit(digit.into(), 16));
            }
        }
        hex
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::resolve(Settings::default())
    }
}

fn entry<'a>(settings: &'a Settings, spec: &'static KeySpec) -> Entry<'a> {
    let written = settings.written(spec.key);
    Entry {
        spec,
        value: settings.value(spec.key),
        origin: written.map_or(Origin::Default, |setting| setting.origin),
        place: written.and_then(|setting| setting.place),
    }
}

/// Writes JSON with sorted keys.
///
/// The order in which the JSON library keeps keys depends on a feature that any crate in a build can switch on, and a
/// digest must not.
fn write_canonical(value: &serde_json::Value, out: &mut String) {
    use serde_json::Value as Json;
    match value {
        Json::Object(object) => {
            let mut names: Vec<_> = object.keys().collect();
            names.sort_unstable();
            out.push('{');
            for (index, name) in names.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Json::from(name.as_str()).to_string());
                out.push(':');
                write_canonical(&object[name], out);
            }
            out.push('}');
        }
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::fixtures::{check_warnings, load};
    use super::*;

    #[test]
    fn an_empty_file_gives_the_defaults_and_tier_v2() {
        let config = check_warnings("", &[]);
        assert_eq!(config, Config::default());
        assert_eq!(config.tier(), Tier::V2);
        assert_eq!(config.time_zone, "UTC");
        for tier in Tier::ALL {
            let plugin = BUILT.row(tier).map(|row| row.plugin);
            assert_eq!(config.plugins.id(tier), plugin);
        }
        assert_eq!(config.memory.v3.gate.dense_threshold, None);
        assert!(
            config
                .entries()
                .all(|entry| entry.origin == Origin::Default)
        );
    }

    #[test]
    fn a_tier_is_told_its_own_settings_and_no_switch() {
        let config = Config::default();
        for (tier, expected) in [
            (Tier::Off, "retrieval tier time_zone"),
            (Tier::V1, "retrieval tier time_zone"),
            (Tier::V2, "retrieval substrate tier time_zone v2"),
            (Tier::V3, "retrieval substrate tier time_zone v3"),
        ] {
            if !BUILT.has(tier) {
                continue;
            }
            let json = config.tier_config_json(tier);
            let mut names: Vec<_> = json
                .as_object()
                .expect("an object")
                .keys()
                .cloned()
                .collect();
            names.sort_unstable();
            assert_eq!(names.join(" "), expected);
            let text = json.to_string();
            assert!(!text.contains("\"live\""), "{text}");
            let back: TierConfig = serde_json::from_str(&text).expect("as written");
            assert_eq!(back, config.tier_config(tier));
        }
    }

    #[test]
    fn the_digest_follows_what_the_tier_is_told() {
        let before = Config::default();
        let (after, _) = load("memory.v3.live = true\nmemory.v3.needleK = 5\nplugins.v3 = 'other'");
        assert_eq!(before.digest(Tier::V2), after.digest(Tier::V2));
        assert_ne!(before.digest(Tier::V3), after.digest(Tier::V3));
        assert_ne!(before.digest(Tier::V2), before.digest(Tier::V3));
        // Pinned, because it is compared across builds: the digest of `Tier::Off` with all defaults.
        assert_eq!(
            before.digest(Tier::Off),
            "fd4f42afce3e313941412ccd8941108575fd09219f283bc62c75858540bf905a"
        );
    }

    #[test]
    fn a_file_that_names_the_plugin_of_a_removed_tier_earns_no_warning() {
        for tier in Tier::ALL {
            let key = format!("plugins.{tier}");
            if schema::find(&key).is_none() {
                assert_eq!(tier, Tier::Off);
                continue;
            }
            let config = check_warnings(&format!("{key} = 'mine'"), &[]);
            let expected = BUILT.row(tier).map(|_| "mine");
            assert_eq!(config.plugins.id(tier), expected);
        }
    }

    #[test]
    fn canonical_json_does_not_depend_on_the_order_of_keys() {
        let mut out = String::new();
        let value = serde_json::json!({"b": [1, {"z": null, "a": "x\"y"}], "a": 0.5});
        write_canonical(&value, &mut out);
        assert_eq!(out, r#"{"a":0.5,"b":[1,{"a":"x\"y","z":null}]}"#);
    }
}
