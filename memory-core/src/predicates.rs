//! The predicates that decide which memory tier and which machinery is on.
//!
//! Every other part of the product asks one of these functions and never looks at the three switches behind them,
//! because the obvious shortcuts are wrong: "not concept pages" is true both for tier v1 and when memory is off. The
//! switches are optional on purpose: an absent switch is not the same as its default, and the comparisons are strict
//! in both directions.
//!
//! What is configured follows from the switches alone, whatever tiers a build has: a file means the same everywhere. Only
//! [`uses_concept_page_memory`] also asks the [`registry`]. With tier v2 goes the switch by which somebody could have
//! memory without concept pages, so without it memory means concept pages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::registry::Registry;

pub mod registry;

/// The three switches from which everything about tiers is derived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TierSwitches {
    /// Whether memory is on at all; absent counts as on.
    pub enabled: Option<bool>,
    /// Whether concept pages with activation are on.
    pub v2_enabled: Option<bool>,
    /// Whether the section engine is live.
    pub v3_live: Option<bool>,
}

/// The engine that selects what is injected; always derived, never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Memory is switched off.
    Off,
    /// The knowledge base and the memory graph.
    V1,
    /// Activation over concept pages.
    V2,
    /// Sections chosen by lanes.
    V3,
}

impl Tier {
    /// All tiers, in the order of their generations.
    pub const ALL: [Self; 4] = [Self::Off, Self::V1, Self::V2, Self::V3];

    /// Returns the exact name used in settings, logs, telemetry and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::V1 => "v1",
            Self::V2 => "v2",
            Self::V3 => "v3",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// The text names no tier. Report it to whoever wrote the text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown tier `{name}`: use `off`, `v1`, `v2` or `v3`")]
pub struct UnknownTier {
    /// The text that was given.
    pub name: String,
}

impl FromStr for Tier {
    type Err = UnknownTier;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|tier| tier.as_str() == name)
            .ok_or_else(|| UnknownTier {
                name: name.to_owned(),
            })
    }
}

/// Tells whether memory is on; only an explicit `false` turns it off.
pub const fn is_memory_enabled(switches: TierSwitches) -> bool {
    !matches!(switches.enabled, Some(false))
}

/// Tells whether the section engine is switched on, without asking whether memory is.
///
/// Callers that need both ask [`is_v3_tier_active`].
pub const fn is_memory_v3_live(switches: TierSwitches) -> bool {
    matches!(switches.v3_live, Some(true))
}

/// Tells whether memory lives in concept pages; guards everything the substrate does.
///
/// In a build without tier v2 this is [`is_memory_enabled`].
pub const fn uses_concept_page_memory(switches: TierSwitches) -> bool {
    has_concept_pages(registry::BUILT, switches)
}

/// Answers [`uses_concept_page_memory`] for a build with these tiers.
const fn has_concept_pages(built: Registry, switches: TierSwitches) -> bool {
    is_memory_enabled(switches) && (!built.has(Tier::V2) || is_switched_to_pages(switches))
}

/// Tells whether a switch asks for a tier that reads concept pages.
const fn is_switched_to_pages(switches: TierSwitches) -> bool {
    is_memory_v3_live(switches) || matches!(switches.v2_enabled, Some(true))
}

/// Tells whether tier v1 is the active one; false when memory is off.
pub const fn is_memory_v1_active(switches: TierSwitches) -> bool {
    is_memory_enabled(switches) && !is_switched_to_pages(switches)
}

/// Tells whether tier v2 selects what is injected.
pub const fn is_v2_injection_engine_active(switches: TierSwitches) -> bool {
    is_memory_enabled(switches)
        && matches!(switches.v2_enabled, Some(true))
        && !is_memory_v3_live(switches)
}

/// Tells whether somebody opted out of v2, also while memory is off.
///
/// Migrations use it to tell an opt-out from a switch that was never written.
pub const fn is_memory_v2_explicitly_disabled(switches: TierSwitches) -> bool {
    matches!(switches.v2_enabled, Some(false))
}

/// Tells whether tier v3 selects what is injected; gates the memory graph too.
pub const fn is_v3_tier_active(switches: TierSwitches) -> bool {
    is_memory_enabled(switches) && is_memory_v3_live(switches)
}

/// Returns the tier that the switches configure.
pub const fn memory_tier(switches: TierSwitches) -> Tier {
    if !is_memory_enabled(switches) {
        Tier::Off
    } else if is_memory_v3_live(switches) {
        Tier::V3
    } else if is_v2_injection_engine_active(switches) {
        Tier::V2
    } else {
        Tier::V1
    }
}

#[cfg(test)]
mod tests {
    use super::registry::TierRow;
    use super::*;

    /// Builds with and without tier v2, whatever this one has.
    #[rustfmt::skip]
    const WITH_V2: Registry = Registry::new(&[TierRow { tier: Tier::V2, plugin: "x", reads_pages: true }]);
    #[rustfmt::skip]
    const WITHOUT_V2: Registry = Registry::new(&[TierRow { tier: Tier::V3, plugin: "x", reads_pages: true }]);

    const U: Option<bool> = None;
    const T: Option<bool> = Some(true);
    const F: Option<bool> = Some(false);

    /// One row: the switches (memory, v2, v3), then which predicates hold, then the tier.
    ///
    /// Predicates by letter: `m` memory on, `c` concept pages where there is a tier v2, `1` v1 active, `2` v2 engine, `x` v2 opted out, `l` v3
    /// live, `3` v3 active.
    type Row = (Option<bool>, Option<bool>, Option<bool>, &'static str, Tier);

    const TABLE: [Row; 27] = [
        (U, U, U, "m1", Tier::V1),
        (U, U, T, "mcl3", Tier::V3),
        (U, U, F, "m1", Tier::V1),
        (U, T, U, "mc2", Tier::V2),
        (U, T, T, "mcl3", Tier::V3),
        (U, T, F, "mc2", Tier::V2),
        (U, F, U, "m1x", Tier::V1),
        (U, F, T, "mcxl3", Tier::V3),
        (U, F, F, "m1x", Tier::V1),
        (T, U, U, "m1", Tier::V1),
        (T, U, T, "mcl3", Tier::V3),
        (T, U, F, "m1", Tier::V1),
        (T, T, U, "mc2", Tier::V2),
        (T, T, T, "mcl3", Tier::V3),
        (T, T, F, "mc2", Tier::V2),
        (T, F, U, "m1x", Tier::V1),
        (T, F, T, "mcxl3", Tier::V3),
        (T, F, F, "m1x", Tier::V1),
        (F, U, U, "", Tier::Off),
        (F, U, T, "l", Tier::Off),
        (F, U, F, "", Tier::Off),
        (F, T, U, "", Tier::Off),
        (F, T, T, "l", Tier::Off),
        (F, T, F, "", Tier::Off),
        (F, F, U, "x", Tier::Off),
        (F, F, T, "xl", Tier::Off),
        (F, F, F, "x", Tier::Off),
    ];

    #[test]
    fn every_row_of_the_truth_table_holds() {
        for (enabled, v2_enabled, v3_live, expected, tier) in TABLE {
            let switches = TierSwitches {
                enabled,
                v2_enabled,
                v3_live,
            };
            let letters: String = [
                ('m', is_memory_enabled(switches)),
                ('c', has_concept_pages(WITH_V2, switches)),
                ('1', is_memory_v1_active(switches)),
                ('2', is_v2_injection_engine_active(switches)),
                ('x', is_memory_v2_explicitly_disabled(switches)),
                ('l', is_memory_v3_live(switches)),
                ('3', is_v3_tier_active(switches)),
            ]
            .into_iter()
            .filter_map(|(letter, holds)| holds.then_some(letter))
            .collect();
            assert_eq!(letters, expected, "{switches:?}");
            assert_eq!(memory_tier(switches), tier, "{switches:?}");
        }
    }

    fn all_switches() -> impl Iterator<Item = TierSwitches> {
        TABLE
            .into_iter()
            .map(|(enabled, v2_enabled, v3_live, _, _)| TierSwitches {
                enabled,
                v2_enabled,
                v3_live,
            })
    }

    #[test]
    fn without_tier_v2_concept_pages_are_memory_itself() {
        for switches in all_switches() {
            let collapsed = has_concept_pages(WITHOUT_V2, switches);
            assert_eq!(collapsed, is_memory_enabled(switches), "{switches:?}");
        }
        // It is a collapse and no coincidence: the builds differ where neither v2 nor v3 is switched on.
        let differ = |switches: &TierSwitches| {
            has_concept_pages(WITH_V2, *switches) != has_concept_pages(WITHOUT_V2, *switches)
        };
        let differing: Vec<TierSwitches> = all_switches().filter(differ).collect();
        assert_eq!(differing.len(), 8);
        assert!(differing.into_iter().all(is_memory_v1_active));
    }

    /// In a build of which tier v2 was removed, this is the proof that the public predicate collapsed.
    #[test]
    fn concept_pages_are_those_of_the_tiers_in_this_build() {
        let expected: fn(TierSwitches) -> bool = match registry::BUILT.row(Tier::V2) {
            Some(_) => |switches| has_concept_pages(WITH_V2, switches),
            None => is_memory_enabled,
        };
        for switches in all_switches() {
            let answer = uses_concept_page_memory(switches);
            assert_eq!(answer, expected(switches), "{switches:?}");
        }
    }

    #[test]
    fn the_table_names_every_combination_once() {
        let mut rows: Vec<_> = TABLE.iter().map(|row| (row.0, row.1, row.2)).collect();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), 27);
    }

    #[test]
    fn exactly_one_engine_is_active_unless_memory_is_off() {
        for (enabled, v2_enabled, v3_live, _, tier) in TABLE {
            let switches = TierSwitches {
                enabled,
                v2_enabled,
                v3_live,
            };
            let active = [
                is_memory_v1_active(switches),
                is_v2_injection_engine_active(switches),
                is_v3_tier_active(switches),
            ];
            let count = active.iter().filter(|active| **active).count();
            assert_eq!(count, usize::from(tier != Tier::Off), "{switches:?}");
        }
    }

    #[test]
    fn tier_names_are_exact_in_every_encoding() {
        for (tier, name) in Tier::ALL.into_iter().zip(["off", "v1", "v2", "v3"]) {
            assert_eq!(tier.to_string(), name);
            assert_eq!(name.parse(), Ok(tier));
            let json = serde_json::to_string(&tier).expect("a tier is a string");
            assert_eq!(json, format!("\"{name}\""));
            assert_eq!(
                serde_json::from_str::<Tier>(&json).expect("as written"),
                tier
            );
        }
        assert!("V3".parse::<Tier>().is_err());
        assert!("".parse::<Tier>().is_err());
    }
}
