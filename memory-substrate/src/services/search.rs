//! Dense and lexical search over the snapshot.

use async_trait::async_trait;
use memory_core::services::{
    Call, Dense, DenseSpace, Lexical, LexicalQuery, SectionHit, ServiceError, ServiceResult,
};

use super::{Host, admit, not_embedded};
use crate::segment;
use crate::snapshot::TermSearch;

#[async_trait]
impl Dense for Host {
    async fn space(&self, _call: &Call) -> ServiceResult<DenseSpace> {
        let embedder = self.shared.dense_model()?;
        Ok(DenseSpace {
            space: embedder.space().clone(),
            dims: u32::try_from(embedder.dims()).unwrap_or(u32::MAX),
        })
    }

    async fn embed(&self, call: &Call, texts: Vec<String>) -> ServiceResult<Vec<f32>> {
        admit(call)?;
        let embedder = self.shared.dense_model()?;
        let vectors = embedder
            .embed(texts)
            .await
            .map_err(|error| not_embedded(&error))?;
        Ok(vectors.data)
    }

    async fn search(
        &self,
        call: &Call,
        vector: Vec<f32>,
        limit: u32,
    ) -> ServiceResult<Vec<SectionHit>> {
        let visibility = admit(call)?;
        let dims = self.shared.dense_model()?.dims();
        if vector.len() != dims {
            return Err(ServiceError::BadRequest {
                reason: format!("a vector of {} numbers for a space of {dims}", vector.len()),
            });
        }
        let serving = self.shared.serving.load_full();
        Ok(serving.snapshot.dense_search(
            &vector,
            usize::try_from(limit).unwrap_or(usize::MAX),
            &visibility,
        ))
    }
}

#[async_trait]
impl Lexical for Host {
    async fn search(&self, call: &Call, query: LexicalQuery) -> ServiceResult<Vec<SectionHit>> {
        let visibility = admit(call)?;
        check_numbers(&query)?;
        let terms = segment::analyze(&query.text);
        let search = TermSearch {
            terms: &terms,
            head_weight: query.head_weight,
            body_weight: query.body_weight,
            k1: query.k1,
            b: query.b,
            limit: usize::try_from(query.limit).unwrap_or(usize::MAX),
            best_per_page: query.best_per_page,
        };
        let serving = self.shared.serving.load_full();
        Ok(serving.snapshot.lexical_search(&search, &visibility))
    }

    async fn idf(&self, call: &Call, text: String) -> ServiceResult<Vec<(String, f32)>> {
        if admit(call)?.is_nothing() {
            return Ok(Vec::new());
        }
        let snapshot = self.shared.serving.load_full().snapshot.clone();
        let mut known = std::collections::HashSet::new();
        let terms = segment::analyze(&text)
            .into_iter()
            .filter(|term| known.insert(term.clone()));
        Ok(terms
            .map(|term| (snapshot.idf(&term), term))
            .map(|(idf, term)| (term, idf))
            .collect())
    }
}

fn check_numbers(query: &LexicalQuery) -> ServiceResult<()> {
    let positive = |value: f32| value.is_finite() && value >= 0.0;
    if positive(query.head_weight)
        && positive(query.body_weight)
        && positive(query.k1)
        && (0.0..=1.0).contains(&query.b)
    {
        Ok(())
    } else {
        Err(ServiceError::BadRequest {
            reason: "weights and k1 must not be negative, b must be 0 to 1".to_owned(),
        })
    }
}
