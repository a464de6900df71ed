//! Rules between settings that belong together.
//!
//! A rule names all keys it is about, so that a repair puts exactly those back and leaves the rest of the table alone.

use super::layers::Settings;
use super::value::Value;

/// How far a sum of weights may be from 1; exactly this much is too far.
const TOLERANCE: f64 = 0.001;
/// Keeps the rounding of binary fractions from deciding a sum that is exactly at the tolerance.
const ROUNDING: f64 = 1e-9;

const ACTIVATION: [&str; 4] = [
    "memory.v2.d",
    "memory.v2.c_user",
    "memory.v2.c_assistant",
    "memory.v2.c_now",
];
const V2_WEIGHTS: [&str; 2] = ["memory.v2.dense_weight", "memory.v2.sparse_weight"];
const SUBSTRATE_WEIGHTS: [&str; 2] = [
    "memory.substrate.dense_weight",
    "memory.substrate.sparse_weight",
];

/// Pairs of which the first must be below the second.
const BELOW: [[&str; 2]; 2] = [
    [
        "memory.v3.prune.targetResidentBytes",
        "memory.v3.prune.maxResidentBytes",
    ],
    [
        "memory.segmentation.overlapTokens",
        "memory.segmentation.targetTokens",
    ],
];

/// Settings that cannot all hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction {
    /// All settings of the rule.
    pub(crate) keys: Vec<&'static str>,
    /// The settings to put back.
    pub(crate) blamed: Vec<&'static str>,
    /// How they contradict each other.
    pub(crate) message: String,
}

/// Returns all contradictions between the settings.
pub(crate) fn contradictions(settings: &Settings) -> Vec<Contradiction> {
    let mut found = Vec::new();
    found.extend(sum_is_one(settings, &ACTIVATION, &ACTIVATION));
    found.extend(weights(settings));
    for [small, large] in BELOW {
        let value = |key| settings.value(key).and_then(Value::as_int);
        if let (Some(low), Some(high)) = (value(small), value(large))
            && low >= high
        {
            found.push(Contradiction {
                keys: vec![small, large],
                blamed: vec![small, large],
                message: format!("`{small}` ({low}) must be below `{large}` ({high})"),
            });
        }
    }
    found
}

/// Checks the weights of meaning and words.
///
/// The three cases exclude each other: both overrides, none, or exactly one, which is then mixed with the other's
/// twin. Each blames only the keys that its author wrote.
fn weights(settings: &Settings) -> Option<Contradiction> {
    let overridden = SUBSTRATE_WEIGHTS.map(|key| settings.written(key).is_some());
    match overridden {
        [true, true] => sum_is_one(settings, &SUBSTRATE_WEIGHTS, &SUBSTRATE_WEIGHTS),
        [false, false] => sum_is_one(settings, &V2_WEIGHTS, &V2_WEIGHTS),
        [true, false] => sum_is_one(
            settings,
            &[SUBSTRATE_WEIGHTS[0], V2_WEIGHTS[1]],
            &SUBSTRATE_WEIGHTS[..1],
        ),
        [false, true] => sum_is_one(
            settings,
            &[V2_WEIGHTS[0], SUBSTRATE_WEIGHTS[1]],
            &SUBSTRATE_WEIGHTS[1..],
        ),
    }
}

fn sum_is_one(
    settings: &Settings,
    terms: &[&'static str],
    blamed: &[&'static str],
) -> Option<Contradiction> {
    let value = |key: &&str| settings.value(key).and_then(Value::as_float);
    let sum: f64 = terms.iter().filter_map(value).sum();
    if (sum - 1.0).abs() < TOLERANCE - ROUNDING {
        return None;
    }
    let names: Vec<String> = terms.iter().map(|key| format!("`{key}`")).collect();
    Some(Contradiction {
        keys: terms.to_vec(),
        blamed: blamed.to_vec(),
        message: format!("{} must sum to 1, they sum to {sum:.4}", names.join(", ")),
    })
}

/// Tells whether a key is part of a rule.
#[cfg(test)]
pub(crate) fn is_bound(key: &str) -> bool {
    ACTIVATION
        .iter()
        .chain(&V2_WEIGHTS)
        .chain(&SUBSTRATE_WEIGHTS)
        .chain(BELOW.iter().flatten())
        .any(|bound| *bound == key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::fixtures::{check_warnings, load};
    use crate::config::{Config, WarningKind};

    #[test]
    fn defaults_do_not_contradict_each_other() {
        assert_eq!(contradictions(&Settings::default()), []);
    }

    #[test]
    fn weights_that_do_not_sum_to_one_go_back_together() {
        let config = check_warnings(
            "[memory.v2]\nd = 0.4\ntop_k = 7",
            &[
                "assistant settings, line 2, column 1: `memory.v2.d`, `memory.v2.c_user`, `memory.v2.c_assistant`, \
                 `memory.v2.c_now` must sum to 1, they sum to 1.1000; their defaults are used",
            ],
        );
        assert_eq!((config.memory.v2.d, config.memory.v2.top_k), (0.3, 7));
    }

    #[test]
    fn a_deviation_of_a_thousandth_is_already_too_much() {
        for (dense, valid) in [
            ("0.8509", true),
            ("0.8491", true),
            ("0.851", false),
            ("0.849", false),
        ] {
            let (_, warnings) = load(&format!("memory.v2.dense_weight = {dense}"));
            assert_eq!(warnings.is_empty(), valid, "{dense}");
        }
    }

    #[test]
    fn each_case_of_the_twin_weights_blames_its_own_keys() {
        let weights = |config: &Config| {
            (
                config.memory.substrate.dense_weight,
                config.memory.substrate.sparse_weight,
            )
        };
        let config = check_warnings(
            "memory.substrate.dense_weight = 0.7",
            &[
                "assistant settings, line 1, column 18: `memory.substrate.dense_weight`, `memory.v2.sparse_weight` must \
                 sum to 1, they sum to 0.8500; their defaults are used",
            ],
        );
        assert_eq!(weights(&config), (0.85, 0.15));
        let config = check_warnings(
            "[memory.substrate]\ndense_weight = 0.7\nsparse_weight = 0.2\n[memory.v2]\ndense_weight = 0.5\nsparse_weight = 0.5",
            &[
                "assistant settings, line 2, column 1: `memory.substrate.dense_weight`, `memory.substrate.sparse_weight` \
                 must sum to 1, they sum to 0.9000; their defaults are used",
            ],
        );
        assert_eq!(weights(&config), (0.5, 0.5));
        // Both overrides are in force, so the pair below them is not looked at.
        let config = check_warnings(
            "[memory.substrate]\ndense_weight = 0.7\nsparse_weight = 0.3\n[memory.v2]\ndense_weight = 0.1",
            &[],
        );
        assert_eq!(weights(&config), (0.7, 0.3));
        let config = check_warnings(
            "[memory.v2]\ndense_weight = 0.7\nsparse_weight = 0.1\n[memory.substrate]\nsparse_weight = 0.3",
            &[],
        );
        assert_eq!(weights(&config), (0.7, 0.3));
        // A lone override that does not fit goes first, and what is left is judged again.
        let (config, warnings) =
            load("[memory.v2]\ndense_weight = 0.7\n[memory.substrate]\nsparse_weight = 0.1");
        assert_eq!(warnings.len(), 2);
        assert_eq!(weights(&config), (0.85, 0.15));
    }

    #[test]
    fn limits_stay_in_order() {
        let (config, warnings) = load(
            "[memory.v3.prune]\nmaxResidentBytes = 1000\n[memory.segmentation]\noverlapTokens = 60\ntargetTokens = 60",
        );
        assert_eq!(warnings.len(), 2);
        assert!(
            warnings
                .iter()
                .all(|warning| warning.kind == WarningKind::Contradiction)
        );
        assert_eq!(config.memory.v3.prune, Config::default().memory.v3.prune);
        assert_eq!(
            config.memory.segmentation,
            Config::default().memory.segmentation
        );
    }
}
