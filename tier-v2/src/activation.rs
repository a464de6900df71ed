//! A page's own activation: how near it is to what is being said, and what it kept from before.
//!
//! similarity(text, page) = clamp(wd · max(0, cosine) + ws · bm25 / best bm25), the best section speaking for its page;
//! own = clamp(d · before + cu · sim(user) + ca · sim(assistant) + cn · sim(now)).

use std::collections::BTreeMap;
use std::sync::Arc;

use memory_core::services::{
    Call, Dense, Lexical, LexicalQuery, SectionHit, ServiceError, ServiceResult,
};
use memory_core::text::slug::Slug;

use crate::settings::{self, HEAD_WEIGHT, SEARCH_LIMIT, Settings};

/// What the searches run on.
pub(crate) struct Searches {
    pub(crate) lexical: Arc<dyn Lexical>,
    pub(crate) dense: Option<Arc<dyn Dense>>,
}

/// Pages and their similarity to one text.
pub(crate) type Similarity = BTreeMap<Slug, f64>;

/// The similarities of one turn.
#[derive(Debug, Default)]
pub(crate) struct Similarities {
    pub(crate) user: Similarity,
    pub(crate) assistant: Similarity,
    pub(crate) now: Similarity,
    /// Why the dense half is missing, when it is.
    pub(crate) dense_missing: Option<String>,
}

impl Searches {
    /// Scores every page against the three texts. A blank text scores nothing and asks nothing.
    pub(crate) async fn similarities(
        &self,
        settings: &Settings,
        call: &Call,
        user: &str,
        assistant: &str,
        now: &str,
    ) -> ServiceResult<Similarities> {
        let mut result = Similarities::default();
        let texts = [user, assistant, now];
        let vectors = match self.embed(call, &texts).await {
            Ok(vectors) => vectors,
            Err(ServiceError::Cancelled) => return Err(ServiceError::Cancelled),
            Err(error) => {
                result.dense_missing = Some(error.to_string());
                vec![None; texts.len()]
            }
        };
        let mut scored = Vec::with_capacity(texts.len());
        for (text, vector) in texts.into_iter().zip(vectors) {
            let near = match self.nearest(call, vector).await {
                Ok(near) => near,
                Err(ServiceError::Cancelled) => return Err(ServiceError::Cancelled),
                Err(error) => {
                    result.dense_missing.get_or_insert(error.to_string());
                    Vec::new()
                }
            };
            scored.push(self.similarity(settings, call, text, near).await?);
        }
        let mut scored = scored.into_iter();
        result.user = scored.next().unwrap_or_default();
        result.assistant = scored.next().unwrap_or_default();
        result.now = scored.next().unwrap_or_default();
        Ok(result)
    }

    /// Embeds the texts that are not blank, each by itself: a host remembers the vector of a text it has just seen, and
    /// the now-text seldom changes between turns.
    async fn embed(&self, call: &Call, texts: &[&str]) -> ServiceResult<Vec<Option<Vec<f32>>>> {
        let Some(dense) = &self.dense else {
            return Err(ServiceError::NotOffered {
                capability: "dense".to_owned(),
            });
        };
        let mut vectors = Vec::with_capacity(texts.len());
        for text in texts {
            vectors.push(match text.trim() {
                "" => None,
                _ => Some(dense.embed(call, vec![(*text).to_owned()]).await?),
            });
        }
        Ok(vectors)
    }

    /// Returns what is near to a text by meaning; a text without a vector is near to nothing.
    async fn nearest(
        &self,
        call: &Call,
        vector: Option<Vec<f32>>,
    ) -> ServiceResult<Vec<SectionHit>> {
        match (&self.dense, vector) {
            (Some(dense), Some(vector)) => dense.search(call, vector, SEARCH_LIMIT).await,
            _ => Ok(Vec::new()),
        }
    }

    async fn similarity(
        &self,
        settings: &Settings,
        call: &Call,
        text: &str,
        near: Vec<SectionHit>,
    ) -> ServiceResult<Similarity> {
        if text.trim().is_empty() {
            return Ok(Similarity::new());
        }
        let query = LexicalQuery {
            text: text.to_owned(),
            head_weight: HEAD_WEIGHT,
            body_weight: 1.0,
            k1: settings::single(settings.substrate.bm25_k1),
            b: settings::single(settings.substrate.bm25_b),
            limit: SEARCH_LIMIT,
            best_per_page: true,
        };
        let hits = self.lexical.search(call, query).await?;
        let best = hits.iter().map(|hit| hit.score).fold(0.0_f32, f32::max);
        let mut halves: BTreeMap<Slug, (f64, f64)> = BTreeMap::new();
        if best > 0.0 {
            for hit in hits {
                let half = &mut halves.entry(hit.id.slug).or_default().1;
                *half = half.max(f64::from(hit.score / best));
            }
        }
        for hit in near {
            let half = &mut halves.entry(hit.id.slug).or_default().0;
            *half = half.max(f64::from(hit.score.max(0.0)));
        }
        let (dense_weight, sparse_weight) = (
            settings.substrate.dense_weight,
            settings.substrate.sparse_weight,
        );
        Ok(halves
            .into_iter()
            .map(|(slug, (dense, sparse))| {
                (
                    slug,
                    dense_weight
                        .mul_add(dense, sparse_weight * sparse)
                        .clamp(0.0, 1.0),
                )
            })
            .collect())
    }
}

/// Returns every candidate's own activation.
pub(crate) fn own(
    settings: &Settings,
    before: &Similarity,
    similarities: &Similarities,
) -> BTreeMap<Slug, f64> {
    let v2 = &settings.v2;
    let parts = [
        (v2.d, before),
        (v2.c_user, &similarities.user),
        (v2.c_assistant, &similarities.assistant),
        (v2.c_now, &similarities.now),
    ];
    let mut own: BTreeMap<Slug, f64> = BTreeMap::new();
    for (weight, similarity) in parts {
        for (slug, value) in similarity {
            *own.entry(slug.clone()).or_default() += weight * value;
        }
    }
    for value in own.values_mut() {
        *value = value.clamp(0.0, 1.0);
    }
    own
}
