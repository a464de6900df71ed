//! The wishes that were refused a moment ago.
//!
//! Each is remembered until it may be tried again. With only the last one remembered, settings that go back and forth
//! between two bad values would be tried at every turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::wish::Wanted;
use crate::error::LoadError;

/// Wishes remembered; whoever has more of them is held back by the minimum dwell or waits for none.
const REMEMBERED: usize = 16;

/// Refused wishes, the latest last.
#[derive(Debug, Default)]
pub(super) struct Refusals(Vec<Refused>);

#[derive(Debug)]
struct Refused {
    wanted: Wanted,
    at: Instant,
    problem: Arc<LoadError>,
}

impl Refusals {
    /// Remembers a wish.
    pub(super) fn note(&mut self, wanted: &Wanted, at: Instant, problem: Arc<LoadError>) {
        self.forget(wanted);
        self.0.push(Refused {
            wanted: wanted.clone(),
            at,
            problem,
        });
        if self.0.len() > REMEMBERED {
            self.0.remove(0);
        }
    }

    /// Forgets a wish: it was fulfilled.
    pub(super) fn forget(&mut self, wanted: &Wanted) {
        self.0.retain(|refused| !refused.wanted.is_same(wanted));
    }

    /// Forgets all of them: another tier serves, or none is wanted.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns why a wish was refused, if that was so short a time ago that it is not tried again.
    pub(super) fn reason(
        &self,
        wanted: &Wanted,
        now: Instant,
        retry: Duration,
    ) -> Option<Arc<LoadError>> {
        let recent = |at: Instant| now.saturating_duration_since(at) < retry;
        let refused = self
            .0
            .iter()
            .find(|refused| refused.wanted.is_same(wanted) && recent(refused.at))?;
        Some(Arc::clone(&refused.problem))
    }
}

#[cfg(test)]
mod tests {
    use memory_core::predicates::Tier;

    use super::*;

    fn wanted(number: usize) -> Wanted {
        Wanted {
            tier: Tier::V3,
            digest: number.to_string(),
            ..Wanted::off()
        }
    }

    #[test]
    fn each_is_remembered_until_it_may_be_tried_again() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let retry = Duration::from_secs(30);
        let problem = |number: usize| {
            Arc::new(LoadError::Unhealthy {
                plugin: "probe".to_owned(),
                reason: number.to_string(),
            })
        };
        for number in 0..=REMEMBERED {
            refusals.note(&wanted(number), now, problem(number));
        }
        let reason = |refusals: &Refusals, number, at| refusals.reason(&wanted(number), at, retry);
        assert_eq!(reason(&refusals, 0, now), None, "the oldest went");
        assert_eq!(reason(&refusals, 1, now), Some(problem(1)));
        assert_eq!(reason(&refusals, 1, now + retry), None);
        refusals.note(&wanted(1), now + retry, problem(99));
        assert_eq!(reason(&refusals, 1, now + retry), Some(problem(99)));
        refusals.forget(&wanted(1));
        assert_eq!(reason(&refusals, 1, now + retry), None);
        refusals.clear();
        assert_eq!(reason(&refusals, 2, now), None);
    }
}
