//! The pool of one turn: every section a lane surfaced, with what each lane said of it.

use std::collections::BTreeMap;

use memory_core::text::section::SectionId;

/// Lanes, in the order in which they own a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    Core,
    Needle,
    Dense,
    Fresh,
}

impl Lane {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Needle => "needle",
            Self::Dense => "dense",
            Self::Fresh => "fresh",
        }
    }
}

/// One section of the pool.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) id: SectionId,
    /// Lane, its own score, and the rank it gave, from 0.
    pub(crate) found_by: Vec<(Lane, f32, usize)>,
    pub(crate) fused: f32,
}

impl Candidate {
    /// Returns the lane that owns the candidate and that lane's score.
    pub(crate) fn owner(&self) -> (Lane, f32) {
        let first = self.found_by.iter().min_by_key(|(lane, _, _)| *lane);
        first.map_or((Lane::Needle, 0.0), |(lane, score, _)| (*lane, *score))
    }

    /// Returns whether a finder, and not only a standing list, surfaced it.
    pub(crate) fn has_finder(&self) -> bool {
        self.found_by
            .iter()
            .any(|(lane, _, _)| matches!(lane, Lane::Needle | Lane::Dense))
    }

    pub(crate) fn is_core(&self) -> bool {
        self.found_by.iter().any(|(lane, _, _)| *lane == Lane::Core)
    }
}

/// The pool while lanes are added to it.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    by_section: BTreeMap<SectionId, Candidate>,
}

impl Pool {
    /// Adds one lane's ranking, best first.
    pub(crate) fn add(&mut self, lane: Lane, ranking: impl IntoIterator<Item = (SectionId, f32)>) {
        for (rank, (id, score)) in ranking.into_iter().enumerate() {
            let candidate = self
                .by_section
                .entry(id.clone())
                .or_insert_with(|| Candidate {
                    id,
                    found_by: Vec::new(),
                    fused: 0.0,
                });
            candidate.found_by.push((lane, score, rank));
        }
    }

    /// Notes a standing list that only counts for pages a finder surfaced.
    pub(crate) fn note_pages(
        &mut self,
        lane: Lane,
        rank_of_page: impl Fn(&SectionId) -> Option<usize>,
    ) {
        for candidate in self.by_section.values_mut() {
            if let Some(rank) = rank_of_page(&candidate.id).filter(|_| candidate.has_finder()) {
                candidate.found_by.push((lane, 0.0, rank));
            }
        }
    }

    pub(crate) fn into_candidates(self) -> Vec<Candidate> {
        self.by_section.into_values().collect()
    }
}
