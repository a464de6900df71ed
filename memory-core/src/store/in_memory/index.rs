//! Index rows in a map, searched one by one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;

use async_trait::async_trait;

use super::locked;
use crate::store::{IndexRow, IndexSpace, IndexStats, IndexStore, StoreError, StoreResult};
use crate::text::section::SectionId;
use crate::text::slug::Slug;

/// How soon another occurrence of a term counts less.
const SATURATION: f32 = 1.2;

/// A section index in memory.
#[derive(Debug)]
pub struct InMemoryIndex {
    space: IndexSpace,
    rows: Mutex<BTreeMap<SectionId, IndexRow>>,
}

impl InMemoryIndex {
    /// Returns an empty index of a space.
    pub fn new(space: IndexSpace) -> Self {
        Self {
            space,
            rows: Mutex::default(),
        }
    }

    fn dims(&self) -> usize {
        usize::try_from(self.space.dims).unwrap_or(0)
    }

    fn check(&self, pages: &BTreeSet<Slug>, rows: &[IndexRow]) -> StoreResult<()> {
        let refuse = |reason| Err(StoreError::BadRequest { reason });
        let mut known = BTreeSet::new();
        for row in rows {
            if !pages.contains(&row.id.slug) {
                return refuse(format!("`{}` is of a page that is not replaced", row.id));
            }
            if !known.insert(&row.id) {
                return refuse(format!("`{}` is given twice", row.id));
            }
            let length = row.vector.as_ref().map(Vec::len);
            if self.dims() > 0 && length.is_some_and(|length| length != self.dims()) {
                return refuse(format!("the vector of `{}` has another length", row.id));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl IndexStore for InMemoryIndex {
    fn space(&self) -> &IndexSpace {
        &self.space
    }

    async fn replace_pages(&self, pages: Vec<Slug>, rows: Vec<IndexRow>) -> StoreResult<()> {
        let pages = BTreeSet::from_iter(pages);
        self.check(&pages, &rows)?;
        let mut kept = locked(&self.rows);
        kept.retain(|id, _| !pages.contains(&id.slug));
        for mut row in rows {
            if self.space.dims == 0 {
                row.vector = None;
            }
            kept.insert(row.id.clone(), row);
        }
        Ok(())
    }

    async fn all_rows(&self) -> StoreResult<Vec<IndexRow>> {
        Ok(locked(&self.rows).values().cloned().collect())
    }

    async fn search_vector(
        &self,
        vector: &[f32],
        limit: u32,
    ) -> StoreResult<Vec<(SectionId, f32)>> {
        if self.space.dims == 0 || vector.len() != self.dims() {
            return Err(StoreError::BadRequest {
                reason: format!(
                    "a vector of {} numbers for an index of {}",
                    vector.len(),
                    self.space.dims
                ),
            });
        }
        let rows = locked(&self.rows);
        let near = |row: &IndexRow| Some((row.id.clone(), cosine(row.vector.as_ref()?, vector)));
        Ok(best(rows.values().filter_map(near).collect(), limit))
    }

    async fn search_terms(&self, terms: &str, limit: u32) -> StoreResult<Vec<(SectionId, f32)>> {
        let wanted: BTreeSet<&str> = terms.split_whitespace().collect();
        let rows = locked(&self.rows);
        let counted: Vec<(&SectionId, HashMap<&str, f32>)> = rows
            .values()
            .map(|row| (&row.id, occurrences(row, &wanted)))
            .collect();
        let total = as_score(rows.len());
        let weight = |term: &str| {
            let holders = counted
                .iter()
                .filter(|(_, counts)| counts.contains_key(term));
            let holders = as_score(holders.count());
            (1.0 + (total - holders + 0.5) / (holders + 0.5)).ln()
        };
        let weights: HashMap<&str, f32> = wanted.iter().map(|term| (*term, weight(term))).collect();
        let score = |counts: &HashMap<&str, f32>| {
            // In the terms' order, so that equal sections get equal scores.
            let parts = wanted.iter().filter_map(|term| {
                let count = counts.get(term)?;
                Some(weights[term] * count * (SATURATION + 1.0) / (count + SATURATION))
            });
            parts.sum::<f32>()
        };
        let found = counted
            .iter()
            .filter(|(_, counts)| !counts.is_empty())
            .map(|(id, counts)| ((*id).clone(), score(counts)));
        Ok(best(found.collect(), limit))
    }

    async fn maintain(&self) -> StoreResult<()> {
        Ok(())
    }

    async fn stats(&self) -> StoreResult<IndexStats> {
        Ok(IndexStats {
            rows: locked(&self.rows).len() as u64,
            ..IndexStats::default()
        })
    }
}

fn occurrences<'a>(row: &'a IndexRow, wanted: &BTreeSet<&str>) -> HashMap<&'a str, f32> {
    let mut counts = HashMap::new();
    let terms = row.head_terms.split_whitespace();
    for term in terms.chain(row.body_terms.split_whitespace()) {
        if wanted.contains(term) {
            *counts.entry(term).or_default() += 1.0;
        }
    }
    counts
}

fn best(mut found: Vec<(SectionId, f32)>, limit: u32) -> Vec<(SectionId, f32)> {
    found.sort_by(|left, right| {
        let by_score = right.1.total_cmp(&left.1);
        by_score.then_with(|| left.0.cmp(&right.0))
    });
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    found
}

fn cosine(left: &[f32], right: &[f32]) -> f32 {
    let dot = |left: &[f32], right: &[f32]| left.iter().zip(right).map(|(l, r)| l * r).sum::<f32>();
    let lengths = dot(left, left).sqrt() * dot(right, right).sqrt();
    if lengths > 0.0 {
        dot(left, right) / lengths
    } else {
        0.0
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "scores order a few thousand rows, where this is exact"
)]
fn as_score(count: usize) -> f32 {
    count as f32
}
