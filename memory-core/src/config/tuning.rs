//! Resolves the substrate's tuning, the one place where overrides and their twins meet.
//!
//! The substrate outlived the tier whose table first held its tuning. Its own table therefore has no defaults: a key
//! in it that is present, `none` included, beats its twin under `memory.v2`, and an absent one leaves the twin in
//! force.

use std::fmt;

use super::layers::{Setting, Settings};
use super::typed::{self, SubstrateTuning};

/// An override and the key it beats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Twin {
    /// The field of the tuning.
    field: &'static str,
    /// The key that beats the other when present.
    pub(crate) key: &'static str,
    /// The key that applies otherwise.
    pub(crate) fallback: &'static str,
    /// Whether tier v2 reads the other key itself, so that both can be in force at once.
    pub(crate) read_by_v2: bool,
}

macro_rules! twin {
    ($field:literal) => {
        twin!($field, $field, false)
    };
    ($field:literal, $fallback:literal, $read_by_v2:literal) => {
        Twin {
            field: $field,
            key: concat!("memory.substrate.", $field),
            fallback: concat!("memory.v2.", $fallback),
            read_by_v2: $read_by_v2,
        }
    };
}

/// All overrides.
pub(crate) const TWINS: [Twin; 15] = [
    twin!("sweep_enabled"),
    twin!("dense_weight"),
    twin!("sparse_weight"),
    twin!("min_sparse_spread"),
    twin!("full_sparse_spread"),
    twin!("bm25_k1"),
    twin!("bm25_b"),
    twin!("consolidation_interval_hours"),
    twin!("consolidation_max_buffer_lines"),
    twin!("consolidation_max_entries_per_run"),
    twin!("max_page_chars"),
    twin!("consolidation_prompt_path"),
    twin!("spread_k", "k", true),
    twin!("spread_hops", "hops", true),
    twin!("ann_candidate_limit", "ann_candidate_limit", true),
];

/// Returns the tuning that applies.
pub(crate) fn resolve_substrate_tuning(settings: &Settings) -> SubstrateTuning {
    let mut object = serde_json::Map::new();
    for twin in TWINS {
        let value = settings
            .value(twin.key)
            .or_else(|| settings.value(twin.fallback));
        if let Some(value) = value {
            object.insert(twin.field.to_owned(), value.to_json());
        }
    }
    typed::from_json(serde_json::Value::Object(object))
}

/// An override that stands in the way of a key of `memory.v2`.
#[derive(Clone, Debug, PartialEq)]
pub struct Shadow {
    /// Whether tier v2 still reads the key itself.
    pub split: bool,
    /// The key that was asked for.
    pub key: &'static str,
    /// The key that beats it.
    pub by: &'static str,
    /// The value of that key.
    pub value: super::Value,
}

impl fmt::Display for Shadow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, by, value, .. } = self;
        if self.split {
            write!(
                formatter,
                "Split: tier v2 reads `{key}`, everything else reads `{by}` (`{value}`)"
            )
        } else {
            write!(
                formatter,
                "Shadowed: `{by}` (`{value}`) is used everywhere, `{key}` has no effect"
            )
        }
    }
}

/// Returns the override that stands in the way of a key, with the setting that holds it.
pub(crate) fn shadow<'a>(settings: &'a Settings, key: &str) -> Option<(Shadow, &'a Setting)> {
    let twin = TWINS.iter().find(|twin| twin.fallback == key)?;
    let setting = settings.written(twin.key)?;
    let shadow = Shadow {
        split: twin.read_by_v2,
        key: twin.fallback,
        by: twin.key,
        value: setting.value.clone(),
    };
    Some((shadow, setting))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::fixtures::load;
    use crate::config::{Config, schema};

    #[test]
    fn twins_cover_the_substrate_table_and_take_the_same_values() {
        let mut keys: Vec<&str> = schema::KEYS
            .iter()
            .map(|spec| spec.key)
            .filter(|key| schema::is_below(key, "memory.substrate"))
            .collect();
        let mut covered: Vec<&str> = TWINS.iter().map(|twin| twin.key).collect();
        keys.sort_unstable();
        covered.sort_unstable();
        assert_eq!(keys, covered);
        for twin in TWINS {
            let own = schema::find(twin.key).expect("listed above");
            let other = schema::find(twin.fallback).expect("every override has a twin");
            assert_eq!(
                (own.kind, own.nullable),
                (other.kind, other.nullable),
                "{}",
                twin.key
            );
            assert_eq!(own.default, None, "{}", twin.key);
            assert!(other.default.is_some(), "{}", twin.key);
        }
    }
    #[test]
    fn an_override_is_in_force_when_present_even_as_none() {
        let (config, warnings) = load(
            "[memory.v2]\nk = 0.1\nhops = 5\nconsolidation_max_buffer_lines = 7\n\
             [memory.substrate]\nspread_k = 0.9\nconsolidation_max_buffer_lines = 'none'\n",
        );
        assert_eq!(warnings, []);
        let tuning = &config.memory.substrate;
        assert_eq!((tuning.spread_k, tuning.spread_hops), (0.9, 5));
        assert_eq!(tuning.consolidation_max_buffer_lines, None);
        assert_eq!((config.memory.v2.k, config.memory.v2.hops), (0.1, 5));
        assert_eq!(
            Config::default().memory.substrate,
            SubstrateTuning {
                sweep_enabled: false,
                dense_weight: 0.85,
                sparse_weight: 0.15,
                min_sparse_spread: 0.2,
                full_sparse_spread: 0.5,
                bm25_k1: 1.2,
                bm25_b: 0.4,
                consolidation_interval_hours: 8,
                consolidation_max_buffer_lines: Some(100),
                consolidation_max_entries_per_run: Some(150),
                max_page_chars: 5000,
                consolidation_prompt_path: None,
                spread_k: 0.5,
                spread_hops: 2,
                ann_candidate_limit: None,
            }
        );
    }
}
