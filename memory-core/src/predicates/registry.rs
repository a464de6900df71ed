//! The tiers that this build has: one row each, and the only place that names them.
//!
//! A tier is removed by deleting its folder and its row. Settings, capabilities, tests and the demonstration ask this
//! table, so nothing else has to be edited. What stays are the names in [`Tier`] and the switches of the predicates: they
//! stand in people's files and in stored rows, which outlive an engine. A file that configures a removed tier keeps its
//! meaning; nothing serves, and [`RemovedTier`] says what to set.

use std::fmt::Write as _;

use thiserror::Error;

use super::Tier;

/// A tier that this build has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierRow {
    /// The tier.
    pub tier: Tier,
    /// Name of its crate, which is the plugin that serves it unless the settings name another.
    pub plugin: &'static str,
    /// Whether it reads concept pages; one that does not reads the personal knowledge base.
    pub reads_pages: bool,
}

/// A table of tiers.
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    rows: &'static [TierRow],
}

/// The tiers of this build.
// One line a tier, because a removal deletes exactly that line.
#[rustfmt::skip]
pub const BUILT: Registry = Registry::new(&[
    TierRow { tier: Tier::V1, plugin: "tier-v1", reads_pages: false },
    TierRow { tier: Tier::V2, plugin: "tier-v2", reads_pages: true },
    TierRow { tier: Tier::V3, plugin: "tier-v3", reads_pages: true },
]);

impl Registry {
    /// Returns a table of these rows.
    pub const fn new(rows: &'static [TierRow]) -> Self {
        Self { rows }
    }

    /// Returns the rows, oldest generation first.
    pub const fn rows(self) -> &'static [TierRow] {
        self.rows
    }

    /// Returns the row of a tier; `off` has none, and a tier that was removed has none.
    pub const fn row(self, tier: Tier) -> Option<&'static TierRow> {
        let mut index = 0;
        while index < self.rows.len() {
            if self.rows[index].tier as u8 == tier as u8 {
                return Some(&self.rows[index]);
            }
            index += 1;
        }
        None
    }

    /// Tells whether a tier can be configured: it is `off` or has a row.
    pub const fn has(self, tier: Tier) -> bool {
        matches!(tier, Tier::Off) || self.row(tier).is_some()
    }

    /// Returns an error unless a tier can be configured.
    pub fn require(self, tier: Tier) -> Result<(), RemovedTier> {
        if self.has(tier) {
            return Ok(());
        }
        let others = Tier::ALL.into_iter().filter(|other| self.has(*other));
        Err(RemovedTier {
            tier,
            others: others.collect(),
        })
    }
}

/// A tier was removed from this build, and nothing stands in for it. Report it to whoever can change the settings.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "tier `{tier}` was removed from this build and no other stands in for it: {}",
    advice(others)
)]
pub struct RemovedTier {
    /// The tier.
    pub tier: Tier,
    /// What can be configured instead, oldest generation first.
    pub others: Vec<Tier>,
}

/// Says what to set: the newest tier first, because that is where a removal wants people to go.
fn advice(others: &[Tier]) -> String {
    let mut text = String::new();
    for (index, tier) in others.iter().rev().enumerate() {
        let before = match index {
            0 => "set ",
            _ if index + 1 == others.len() => " or ",
            _ => ", ",
        };
        write!(text, "{before}`{tier}`").expect("writing to a string does not fail");
    }
    text + " with `strata tier set`"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rustfmt::skip]
    const SMALL: Registry = Registry::new(&[
        TierRow { tier: Tier::V1, plugin: "one", reads_pages: false },
        TierRow { tier: Tier::V3, plugin: "three", reads_pages: true },
    ]);

    #[test]
    fn a_row_is_found_by_its_tier_and_a_removed_one_is_not() {
        assert_eq!(SMALL.row(Tier::V3).map(|row| row.plugin), Some("three"));
        assert_eq!(SMALL.row(Tier::V2), None);
        assert_eq!(SMALL.row(Tier::Off), None);
        let there = Tier::ALL.map(|tier| SMALL.has(tier));
        assert_eq!(there, [true, true, false, true]);
    }

    #[test]
    fn a_removed_tier_says_what_to_set() {
        assert_eq!(SMALL.require(Tier::Off), Ok(()));
        assert_eq!(SMALL.require(Tier::V1), Ok(()));
        let text = SMALL.require(Tier::V2).map_err(|error| error.to_string());
        let expected = "tier `v2` was removed from this build and no other stands in for it: set `v3`, `v1` or `off` with \
                        `strata tier set`";
        assert_eq!(text, Err(expected.to_owned()));
    }

    #[test]
    fn the_rows_of_this_build_are_in_order_and_name_each_tier_once() {
        let tiers: Vec<Tier> = BUILT.rows().iter().map(|row| row.tier).collect();
        let mut sorted = tiers.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(tiers, sorted);
        assert!(!tiers.contains(&Tier::Off));
        for row in BUILT.rows() {
            assert_eq!(row.plugin, format!("tier-{}", row.tier));
        }
    }
}
