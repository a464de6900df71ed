//! Field-weighted BM25 over the snapshot.
//!
//! A term counts by its weighted occurrences in head and body, a section's length is weighted the same way, and the
//! statistics are those of all live sections, so the scores do not depend on how sections are spread over segments.

use std::collections::HashSet;

use memory_core::services::SectionHit;

use super::Snapshot;
use super::part::Part;
use super::top::{Scored, Top};
use super::visibility::Visibility;

/// A search for sections that share terms with a text.
#[derive(Clone, Debug, PartialEq)]
pub struct TermSearch<'a> {
    /// The text's terms; repetitions do not count.
    pub terms: &'a [String],
    /// Weight of a term in the head.
    pub head_weight: f32,
    /// Weight of a term in the body.
    pub body_weight: f32,
    /// Term-frequency saturation.
    pub k1: f32,
    /// Length normalisation, 0 to 1.
    pub b: f32,
    /// Most hits to return.
    pub limit: usize,
    /// Whether only the best section of each page counts.
    pub best_per_page: bool,
}

impl Snapshot {
    /// Returns the sections that share terms with a text, best first, ties by section.
    pub fn lexical_search(
        &self,
        search: &TermSearch<'_>,
        visibility: &Visibility,
    ) -> Vec<SectionHit> {
        let sections = self.section_count();
        if sections == 0 || search.limit == 0 || visibility.is_nothing() {
            return Vec::new();
        }
        let mut known = HashSet::new();
        let terms: Vec<(&str, f32)> = search
            .terms
            .iter()
            .filter(|term| known.insert(term.as_str()))
            .filter_map(|term| {
                let frequency = self.document_frequency(term);
                (frequency > 0).then(|| (term.as_str(), inverse_frequency(sections, frequency)))
            })
            .collect();
        let average = self.average_length(search);
        let mut top = Top::new(&self.parts, search.limit);
        for (number, part) in self.parts.iter().enumerate() {
            let scores = score(part, &terms, search, average);
            collect(
                &mut top,
                number,
                part,
                &scores,
                search.best_per_page,
                visibility,
            );
        }
        self.hits(top)
    }

    /// Returns the inverse document frequency of a term over all sections; an unknown term gets the largest value.
    pub fn idf(&self, term: &str) -> f32 {
        inverse_frequency(self.section_count(), self.document_frequency(term))
    }

    fn document_frequency(&self, term: &str) -> usize {
        self.parts
            .iter()
            .map(|part| part.document_frequency(term))
            .sum()
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "an average needs no more"
    )]
    fn average_length(&self, search: &TermSearch<'_>) -> f32 {
        let head: u64 = self.parts.iter().map(|part| part.head_terms).sum();
        let body: u64 = self.parts.iter().map(|part| part.body_terms).sum();
        let total = f64::from(search.head_weight) * head as f64
            + f64::from(search.body_weight) * body as f64;
        (total / self.section_count() as f64) as f32
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "counts far below 2^52"
)]
pub(crate) fn inverse_frequency(sections: usize, frequency: usize) -> f32 {
    let (sections, frequency) = (sections as f64, frequency as f64);
    ((sections - frequency + 0.5) / (frequency + 0.5)).ln_1p() as f32
}

/// Returns every row's score.
fn score(part: &Part, terms: &[(&str, f32)], search: &TermSearch<'_>, average: f32) -> Vec<f32> {
    let segment = &part.segment;
    let mut scores = vec![0.0_f32; segment.rows.len()];
    if average <= 0.0 {
        return scores;
    }
    let fixed = search.k1 * (1.0 - search.b);
    let per_length = search.k1 * search.b / average;
    #[expect(
        clippy::cast_precision_loss,
        reason = "a section has at most some thousand terms"
    )]
    let norms: Vec<f32> = segment
        .lengths
        .iter()
        .map(|length| {
            let weighted =
                search.head_weight * length.head as f32 + search.body_weight * length.body as f32;
            fixed + per_length * weighted
        })
        .collect();
    for (term, inverse) in terms {
        let gain = inverse * (search.k1 + 1.0);
        for posting in segment.postings.of(term) {
            let frequency = search.head_weight * f32::from(posting.head)
                + search.body_weight * f32::from(posting.body);
            let row = posting.row as usize;
            if frequency > 0.0 {
                scores[row] += gain * frequency / (frequency + norms[row]);
            }
        }
    }
    scores
}

fn collect(
    top: &mut Top<'_>,
    number: usize,
    part: &Part,
    scores: &[f32],
    best_per_page: bool,
    visibility: &Visibility,
) {
    let seen = part.seen_by(visibility);
    let part_number = super::postings::narrow(number);
    let mut open: Option<(u32, Scored)> = None;
    for (row, score) in scores.iter().enumerate() {
        if *score <= 0.0 || *score < top.floor() || !seen.contains(row) {
            continue;
        }
        let found = Scored {
            score: *score,
            part: part_number,
            row: super::postings::narrow(row),
        };
        if !best_per_page {
            top.add(found);
            continue;
        }
        // A page's rows lie together, so the best one is known when the next page begins.
        let page = part.segment.rows[row].page;
        match &mut open {
            Some((open_page, best)) if *open_page == page => {
                if found.score > best.score {
                    *best = found;
                }
            }
            _ => {
                if let Some((_, best)) = open.replace((page, found)) {
                    top.add(best);
                }
            }
        }
    }
    if let Some((_, best)) = open {
        top.add(best);
    }
}
