//! The best few of many scored rows, in an order that does not depend on how rows are spread over segments.

use std::cmp::Ordering;

use super::part::Part;
use super::segment::compare;

/// A row with its score.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored {
    pub(crate) score: f32,
    pub(crate) part: u32,
    pub(crate) row: u32,
}

/// Keeps the best rows by score, ties by section.
#[derive(Debug)]
pub(crate) struct Top<'a> {
    parts: &'a [Part],
    limit: usize,
    floor: f32,
    kept: Vec<Scored>,
}

impl<'a> Top<'a> {
    /// Returns an empty collection for that many rows.
    pub(crate) fn new(parts: &'a [Part], limit: usize) -> Self {
        Self {
            parts,
            limit,
            floor: f32::NEG_INFINITY,
            kept: Vec::with_capacity(limit.min(1_024) * 2 + 64),
        }
    }

    /// Returns the score below which a row cannot be kept any more.
    pub(crate) const fn floor(&self) -> f32 {
        self.floor
    }

    /// Considers a row.
    pub(crate) fn add(&mut self, scored: Scored) {
        if self.limit == 0 || scored.score < self.floor {
            return;
        }
        self.kept.push(scored);
        if self.kept.len() >= self.limit.saturating_mul(2).saturating_add(64) {
            self.cut();
        }
    }

    /// Returns the best rows, best first.
    pub(crate) fn finish(mut self) -> Vec<Scored> {
        if self.limit > 0 && self.kept.len() > self.limit {
            self.cut();
        }
        let parts = self.parts;
        self.kept
            .sort_unstable_by(|left, right| order(parts, left, right));
        self.kept
    }

    fn cut(&mut self) {
        let parts = self.parts;
        self.kept
            .select_nth_unstable_by(self.limit - 1, |left, right| order(parts, left, right));
        self.kept.truncate(self.limit);
        self.floor = self
            .kept
            .iter()
            .fold(f32::INFINITY, |floor, scored| floor.min(scored.score));
    }
}

fn order(parts: &[Part], left: &Scored, right: &Scored) -> Ordering {
    right.score.total_cmp(&left.score).then_with(|| {
        compare(
            (&parts[left.part as usize].segment, left.row as usize),
            (&parts[right.part as usize].segment, right.row as usize),
        )
    })
}
