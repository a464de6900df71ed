//! Which pages an entry is near to in meaning, and how near is near.
//!
//! A similarity means nothing by itself: each embedding space has its own. So it is held against what sections have in
//! common that have nothing to do with each other, measured on this very memory.

use std::collections::BTreeMap;

use memory_core::embed::Embedder;
use memory_core::text::slug::Slug;

use super::batch::Entry;
use crate::pages::PageIndex;
use crate::snapshot::{Snapshot, Visibility};

/// Sections looked at for one entry.
const SECTIONS: usize = 24;

/// Pages of which each is paired with each other one. So many give some two thousand pairs.
const PAGES: usize = 64;

/// For each entry the pages near to it, best first, and the similarities of pages that have nothing in common.
#[derive(Clone, Debug, Default)]
pub(super) struct Nearness {
    pub(super) pages: Vec<Vec<(Slug, f32)>>,
    pub(super) background: Vec<f32>,
}

/// Looks for the pages that entries are near to. Without a model there are none.
pub(super) async fn look(
    entries: &[Entry],
    embedder: Option<&dyn Embedder>,
    snapshot: &Snapshot,
    index: &PageIndex,
) -> Nearness {
    let nothing = |reason: &str| {
        tracing::debug!(reason, "entries are filed without a model");
        Nearness {
            pages: vec![Vec::new(); entries.len()],
            background: Vec::new(),
        }
    };
    let Some(embedder) = embedder.filter(|embedder| embedder.dims() == snapshot.dims()) else {
        return nothing("there is none of this index");
    };
    let texts = entries.iter().map(|entry| entry.content.clone()).collect();
    let vectors = match embedder.embed(texts).await {
        Ok(vectors) if vectors.rows() == entries.len() && vectors.dims == snapshot.dims() => {
            vectors
        }
        Ok(_) => return nothing("other vectors came back than were asked for"),
        // The other rules need no model.
        Err(error) => return nothing(&error.to_string()),
    };
    let near = |(number, entry): (usize, &Entry)| {
        let sight = Visibility::channels([entry.channel.clone()]);
        let mut best: BTreeMap<Slug, f32> = BTreeMap::new();
        for hit in snapshot.dense_search(vectors.row(number), SECTIONS, &sight) {
            let is_fitting = index
                .get(&hit.id.slug)
                .is_some_and(|page| page.channel == entry.channel);
            if is_fitting {
                let score = best.entry(hit.id.slug).or_insert(f32::NEG_INFINITY);
                *score = score.max(hit.score);
            }
        }
        let mut pages: Vec<(Slug, f32)> = best.into_iter().collect();
        pages.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        pages
    };
    Nearness {
        pages: entries.iter().enumerate().map(near).collect(),
        background: background(snapshot, index),
    }
}

/// Returns how similar the sections of different pages are, for pages spread over the whole memory.
fn background(snapshot: &Snapshot, index: &PageIndex) -> Vec<f32> {
    let step = index.len().div_ceil(PAGES).max(1);
    let vectors: Vec<&[f32]> = index
        .pages()
        .iter()
        .step_by(step)
        .filter_map(|page| {
            let mut sections = page.sections.iter();
            sections.find_map(|section| snapshot.vector_of(&section.id, &section.hash))
        })
        .collect();
    let mut similarities = Vec::new();
    for (number, left) in vectors.iter().enumerate() {
        for right in &vectors[number + 1..] {
            similarities.push(cosine(left, right));
        }
    }
    similarities
}

fn cosine(left: &[f32], right: &[f32]) -> f32 {
    let dot = |left: &[f32], right: &[f32]| -> f32 {
        left.iter()
            .zip(right)
            .map(|(left, right)| left * right)
            .sum()
    };
    let length = (dot(left, left) * dot(right, right)).sqrt();
    if length > 0.0 {
        dot(left, right) / length
    } else {
        0.0
    }
}
