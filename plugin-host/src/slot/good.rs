//! The builds that came up well in a slot, remembered for the day the configured one cannot serve.
//!
//! More than the last one is kept, because the last one may be of another tier or be the very build that went bad.

use std::sync::Arc;

use memory_core::predicates::Tier;

use super::Wanted;
use crate::build::Build;

/// Builds remembered for each tier; whoever goes through more in one process has other troubles.
const BUILDS_PER_TIER: usize = 8;

/// A build and the wish it last fulfilled.
#[derive(Clone, Debug)]
pub(super) struct Good {
    pub(super) build: Arc<Build>,
    pub(super) wanted: Wanted,
}

/// The good builds of a slot, newest first and each once.
#[derive(Debug, Default)]
pub(super) struct GoodBuilds(Vec<Good>);

impl GoodBuilds {
    /// Remembers a build as the newest of its tier.
    pub(super) fn note(&mut self, build: &Arc<Build>, wanted: &Wanted) {
        self.0.retain(|good| good.build.sha256() != build.sha256());
        let newest = Good {
            build: Arc::clone(build),
            wanted: wanted.clone(),
        };
        self.0.insert(0, newest);
        let mut of_tier = 0;
        self.0.retain(|good| {
            of_tier += usize::from(good.wanted.tier == wanted.tier);
            good.wanted.tier != wanted.tier || of_tier <= BUILDS_PER_TIER
        });
    }

    /// Returns the builds of a tier, newest first.
    pub(super) fn of(&self, tier: Tier) -> Vec<Good> {
        let of_tier = self.0.iter().filter(|good| good.wanted.tier == tier);
        of_tier.cloned().collect()
    }
}
