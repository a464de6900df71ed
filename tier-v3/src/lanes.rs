//! Asking the host for each lane's ranking.
//!
//! A finder that cannot answer is left out and named; it never takes the other finder down with it.

use std::collections::HashMap;
use std::sync::Arc;

use memory_core::services::{
    Call, Dense, Lexical, LexicalQuery, Pages, SectionHit, ServiceError, ServiceResult,
};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::tier::{TierError, TurnRequest};

use crate::candidates::{Candidate, Lane, Pool};
use crate::fusion;
use crate::settings::{self, Settings};

/// The services the lanes run on.
pub(crate) struct LaneServices {
    pub(crate) pages: Arc<dyn Pages>,
    pub(crate) lexical: Arc<dyn Lexical>,
    pub(crate) dense: Option<Arc<dyn Dense>>,
}

/// A ranked pool.
#[derive(Debug)]
pub(crate) struct Ranked {
    /// Every candidate, best first.
    pub(crate) candidates: Vec<Candidate>,
    /// Core pages in the order of the curated list.
    pub(crate) core: Vec<Slug>,
    /// What could not be asked.
    pub(crate) degraded: Vec<String>,
}

/// Runs every lane for a request and fuses their rankings.
pub(crate) async fn run(
    services: &LaneServices,
    settings: &Settings,
    call: &Call,
    request: &TurnRequest,
) -> Result<Ranked, TierError> {
    let message = request.user_message.as_str();
    let mut degraded = Vec::new();
    let mut pool = Pool::default();

    let core = services.pages.core(call).await?;
    pool.add(
        Lane::Core,
        core.iter().map(|slug| (SectionId::lead(slug.clone()), 0.0)),
    );

    if !message.trim().is_empty() {
        let (needle, dense) = futures_join(
            needle(services, settings, call, message),
            dense(services, settings, call, message),
        )
        .await;
        pool.add(Lane::Needle, ranking(needle?));
        match dense {
            Ok(hits) => pool.add(Lane::Dense, ranking(hits)),
            Err(ServiceError::Cancelled) => return Err(TierError::Cancelled),
            Err(error) => degraded.push(format!("dense_unavailable: {error}")),
        }
    }

    let fresh = services.pages.freshest(call, settings.fresh).await?;
    let rank_of: HashMap<&Slug, usize> = fresh
        .iter()
        .enumerate()
        .map(|(rank, entry)| (&entry.slug, rank))
        .collect();
    pool.note_pages(Lane::Fresh, |id| rank_of.get(&id.slug).copied());

    let mut candidates = pool.into_candidates();
    fusion::rank(&mut candidates, fusion::dense_weight(message));
    Ok(Ranked {
        candidates,
        core,
        degraded,
    })
}

async fn needle(
    services: &LaneServices,
    settings: &Settings,
    call: &Call,
    message: &str,
) -> ServiceResult<Vec<SectionHit>> {
    if settings.needle == 0 {
        return Ok(Vec::new());
    }
    let query = LexicalQuery {
        text: message.to_owned(),
        head_weight: settings::HEAD_WEIGHT,
        body_weight: settings::BODY_WEIGHT,
        k1: settings::K1,
        b: settings::B,
        limit: settings.needle,
        best_per_page: false,
    };
    services.lexical.search(call, query).await
}

async fn dense(
    services: &LaneServices,
    settings: &Settings,
    call: &Call,
    message: &str,
) -> ServiceResult<Vec<SectionHit>> {
    if settings.dense == 0 {
        return Ok(Vec::new());
    }
    let Some(dense) = &services.dense else {
        return Err(ServiceError::NotOffered {
            capability: "dense".to_owned(),
        });
    };
    let vector = dense.embed(call, vec![message.to_owned()]).await?;
    dense.search(call, vector, settings.dense).await
}

fn ranking(hits: Vec<SectionHit>) -> impl Iterator<Item = (SectionId, f32)> {
    hits.into_iter().map(|hit| (hit.id, hit.score))
}

/// Awaits two futures together, so that the lexical search runs while the message is being embedded.
async fn futures_join<A, B>(
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
) -> (A, B) {
    let mut first = std::pin::pin!(first);
    let mut second = std::pin::pin!(second);
    let (mut first_done, mut second_done) = (None, None);
    std::future::poll_fn(|context| {
        use std::task::Poll;
        if first_done.is_none()
            && let Poll::Ready(value) = first.as_mut().poll(context)
        {
            first_done = Some(value);
        }
        if second_done.is_none()
            && let Poll::Ready(value) = second.as_mut().poll(context)
        {
            second_done = Some(value);
        }
        match (first_done.take(), second_done.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            (first, second) => {
                first_done = first;
                second_done = second;
                Poll::Pending
            }
        }
    })
    .await
}
