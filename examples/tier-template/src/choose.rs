//! The ranking: notes that share words with the message, the fresher the better.
//!
//! This is the part to replace. It is a pure function, so it can be tested without a host and gives the same answer to
//! the same question, which prompt caches and people who ask "why this one?" both need.

use std::collections::HashMap;

use memory_core::services::{PageEntry, SectionHit};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

/// After so many days a note counts half.
const HALF_LIFE_DAYS: f64 = 90.0;

/// What is worth less than this share of the best note is not shown: it shares but the small words.
const FLOOR: f32 = 0.4;

const DAY_MS: f64 = 86_400_000.0;

/// A note that could be shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// The section it is.
    pub(crate) id: SectionId,
    /// How well its words match; the scale belongs to the lexical service.
    pub(crate) words: f32,
    /// What the words are worth at its age.
    pub(crate) score: f32,
}

/// Ranks what the search found, best first; equals are ordered by section, so that no order depends on chance.
///
/// `now` may be missing, because a clock is only used and not required; then age is counted from the freshest page.
pub(crate) fn rank(
    hits: Vec<SectionHit>,
    fresh: &[PageEntry],
    now: Option<Timestamp>,
) -> Vec<Candidate> {
    let newest = fresh.iter().map(|page| page.fresh_at).max();
    let Some(now) = now.or(newest) else {
        return Vec::new();
    };
    let fresh_at: HashMap<&Slug, Timestamp> = fresh
        .iter()
        .map(|page| (&page.slug, page.fresh_at))
        .collect();
    let mut ranked: Vec<Candidate> = Vec::new();
    for hit in hits {
        // A score that is no number orders nothing. A section counts once, whatever a service says.
        let known = ranked.iter().any(|candidate| candidate.id == hit.id);
        let Some(fresh_at) = fresh_at.get(&hit.id.slug).filter(|_| !known) else {
            continue;
        };
        if hit.score.is_finite() {
            ranked.push(Candidate {
                score: hit.score * worth(*fresh_at, now),
                words: hit.score,
                id: hit.id,
            });
        }
    }
    ranked.sort_by(|left, right| {
        right
            .score
            .total_cmp(&left.score)
            .then_with(|| left.id.cmp(&right.id))
    });
    if let Some(best) = ranked.first().map(|candidate| candidate.score) {
        ranked.retain(|candidate| candidate.score >= FLOOR * best);
    }
    ranked
}

/// Returns what a note of this date is worth, from 1 for a new one downwards. A date in the future counts as new.
fn worth(fresh_at: Timestamp, now: Timestamp) -> f32 {
    let age_ms = now.as_millis().saturating_sub(fresh_at.as_millis()).max(0);
    #[expect(
        clippy::cast_precision_loss,
        reason = "an age in days needs no more than 53 bits of milliseconds"
    )]
    let days = age_ms as f64 / DAY_MS;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a factor between 0 and 1 needs no more than single precision"
    )]
    let worth = 0.5_f64.powf(days / HALF_LIFE_DAYS) as f32;
    worth
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    fn page(name: &str, day: i64) -> PageEntry {
        let at = Timestamp::from_millis(day * DAY);
        PageEntry {
            slug: Slug::from_title(name),
            title: name.to_owned(),
            modified_at: at,
            fresh_at: at,
            sections: 1,
        }
    }

    fn hit(name: &str, score: f32) -> SectionHit {
        SectionHit {
            id: SectionId::lead(Slug::from_title(name)),
            score,
        }
    }

    fn names(ranked: &[Candidate]) -> Vec<&str> {
        ranked
            .iter()
            .map(|candidate| candidate.id.slug.as_str())
            .collect()
    }

    #[test]
    fn age_halves_what_words_are_worth() {
        let fresh = [page("new", 180), page("old", 90), page("ancient", 0)];
        let hits = vec![hit("ancient", 5.0), hit("old", 3.0), hit("new", 1.4)];
        let ranked = rank(hits, &fresh, None);
        assert_eq!(names(&ranked), ["old", "new", "ancient"]);
        let weak = vec![hit("old", 3.0), hit("new", 0.5)];
        assert_eq!(names(&rank(weak, &fresh, None)), ["old"]);
        assert!((ranked[0].score - 1.5).abs() < 1e-6, "{ranked:?}");
        let later = Some(Timestamp::from_millis(270 * DAY));
        let ranked = rank(vec![hit("new", 1.0)], &fresh, later);
        assert!((ranked[0].score - 0.5).abs() < 1e-6, "{ranked:?}");
    }

    #[test]
    fn nonsense_of_a_service_does_no_harm() {
        let fresh = [page("a", 0), page("b", 0)];
        let hits = vec![
            hit("b", 1.0),
            hit("a", 1.0),
            hit("a", 2.0),
            hit("b", f32::NAN),
            hit("unknown", 9.0),
        ];
        assert_eq!(names(&rank(hits, &fresh, None)), ["a", "b"]);
        assert!(rank(vec![hit("a", 1.0)], &[], None).is_empty());
    }
}
