//! Exact search by cosine similarity over the snapshot's vectors.

use memory_core::services::SectionHit;

use super::Snapshot;
use super::matrix::Probe;
use super::postings::narrow;
use super::top::{Scored, Top};
use super::visibility::Visibility;

impl Snapshot {
    /// Returns the sections nearest to a vector by cosine similarity, best first, ties by section. Sections without a
    /// vector are never found.
    ///
    /// One scan over the rounded vectors finds a similarity that enough sections surely reach; every section that may
    /// reach it within its own error bound is then scored exactly.
    pub fn dense_search(
        &self,
        vector: &[f32],
        limit: usize,
        visibility: &Visibility,
    ) -> Vec<SectionHit> {
        if limit == 0 || visibility.is_nothing() || vector.len() != self.dims {
            return Vec::new();
        }
        let Some(probe) = Probe::new(vector) else {
            return Vec::new();
        };
        let mut surely = Top::new(&self.parts, limit);
        let mut maybe: Vec<(f32, u32, u32)> = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            let seen = part.seen_by(visibility);
            let number = narrow(number);
            part.segment.vectors.scan(&probe, |row, score, error| {
                if score + error >= surely.floor() && seen.contains(row) {
                    maybe.push((score + error, number, narrow(row)));
                    surely.add(Scored {
                        score: score - error,
                        part: number,
                        row: narrow(row),
                    });
                }
            });
        }
        let reached = surely.finish();
        let floor = if reached.len() < limit {
            f32::NEG_INFINITY
        } else {
            reached
                .last()
                .map_or(f32::NEG_INFINITY, |scored| scored.score)
        };
        let mut top = Top::new(&self.parts, limit);
        for (_, part, row) in maybe.into_iter().filter(|(best, _, _)| *best >= floor) {
            let score = self.parts[part as usize]
                .segment
                .vectors
                .similarity(row as usize, &probe);
            top.add(Scored { score, part, row });
        }
        self.hits(top)
    }
}
