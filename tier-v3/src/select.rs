//! Choosing what is shown from a ranked pool, without a model.
//!
//! Core pages come first up to their cap; then finder hits in rank order until either cap is full. A section that is in
//! context already keeps its place in the ranking, so that a repeated question does not push weaker sections in.

use std::collections::HashSet;

use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;

use crate::candidates::Candidate;
use crate::settings::{CORE_CAP, SECTION_CAP};

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Selected,
    Resident,
    OverCap,
    NotSelected,
}

impl Outcome {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Selected => "selected",
            Self::Resident => "resident",
            Self::OverCap => "over_cap",
            Self::NotSelected => "not_selected",
        }
    }
}

/// The choice for a turn: positions in the pool, in the order of showing, before texts are read.
#[derive(Debug)]
pub(crate) struct Choice {
    /// Core leads that are not in context.
    pub(crate) core: Vec<usize>,
    /// Finder hits that are not in context, in rank order.
    pub(crate) found: Vec<usize>,
    /// Chosen, but in context already.
    pub(crate) resident: Vec<usize>,
    /// The outcome of every candidate, in pool order.
    pub(crate) outcomes: Vec<Outcome>,
}

/// Chooses from a ranked pool.
pub(crate) fn choose(
    candidates: &[Candidate],
    core: &[Slug],
    resident: &HashSet<SectionId>,
) -> Choice {
    let mut outcomes = vec![Outcome::NotSelected; candidates.len()];
    let mut choice = Choice {
        core: Vec::new(),
        found: Vec::new(),
        resident: Vec::new(),
        outcomes: Vec::new(),
    };
    for slug in core.iter().take(CORE_CAP) {
        let lead = SectionId::lead(slug.clone());
        let Some(position) = candidates
            .iter()
            .position(|candidate| candidate.is_core() && candidate.id == lead)
        else {
            continue;
        };
        if outcomes[position] != Outcome::NotSelected {
            // The curated list names it twice.
            continue;
        }
        if resident.contains(&lead) {
            outcomes[position] = Outcome::Resident;
            choice.resident.push(position);
        } else {
            outcomes[position] = Outcome::Selected;
            choice.core.push(position);
        }
    }
    let mut taken = 0;
    for (position, candidate) in candidates.iter().enumerate() {
        if !candidate.has_finder() || outcomes[position] != Outcome::NotSelected {
            continue;
        }
        if taken == SECTION_CAP {
            outcomes[position] = Outcome::OverCap;
            continue;
        }
        taken += 1;
        if resident.contains(&candidate.id) {
            outcomes[position] = Outcome::Resident;
            choice.resident.push(position);
        } else {
            outcomes[position] = Outcome::Selected;
            choice.found.push(position);
        }
    }
    choice.outcomes = outcomes;
    choice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::{Lane, Pool};
    use crate::fusion;

    fn lead(name: &str) -> SectionId {
        SectionId::lead(Slug::from_title(name))
    }

    fn pool(core: &[&str], found: &[&str]) -> Vec<Candidate> {
        let mut pool = Pool::default();
        pool.add(Lane::Core, core.iter().map(|name| (lead(name), 0.0)));
        pool.add(Lane::Needle, found.iter().map(|name| (lead(name), 1.0)));
        let mut candidates = pool.into_candidates();
        fusion::rank(&mut candidates, 0.0);
        candidates
    }

    #[test]
    fn core_comes_first_and_finders_are_capped() {
        let names: Vec<String> = (0..12).map(|number| format!("page {number:02}")).collect();
        let found: Vec<&str> = names.iter().map(String::as_str).collect();
        let candidates = pool(&["who we are"], &found);
        let core = [Slug::from_title("who we are")];
        let choice = choose(&candidates, &core, &HashSet::new());
        assert_eq!(choice.core.len(), 1);
        assert_eq!(choice.found.len(), SECTION_CAP);
        assert_eq!(
            choice
                .outcomes
                .iter()
                .filter(|outcome| **outcome == Outcome::OverCap)
                .count(),
            4
        );
    }

    #[test]
    fn a_core_page_is_shown_once_however_often_it_is_listed() {
        let candidates = pool(&["who we are", "who we are"], &[]);
        let core = [
            Slug::from_title("who we are"),
            Slug::from_title("who we are"),
        ];
        let choice = choose(&candidates, &core, &HashSet::new());
        assert_eq!(choice.core.len(), 1);
    }

    #[test]
    fn what_is_in_context_keeps_its_place_and_is_not_shown_again() {
        let names: Vec<String> = (0..12).map(|number| format!("page {number:02}")).collect();
        let found: Vec<&str> = names.iter().map(String::as_str).collect();
        let candidates = pool(&[], &found);
        let first = choose(&candidates, &[], &HashSet::new());
        let resident: HashSet<SectionId> = first
            .found
            .iter()
            .map(|at| candidates[*at].id.clone())
            .collect();
        let second = choose(&candidates, &[], &resident);
        assert!(
            second.found.is_empty(),
            "a repeated question must show nothing new"
        );
        assert_eq!(second.resident.len(), SECTION_CAP);
    }
}
