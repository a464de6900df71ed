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

    let core = optional(
        services.pages.core(call).await,
        "core_unavailable",
        &mut degraded,
    )?;
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
        let failed = needle.is_err() && dense.is_err();
        for (lane, name, found) in [
            (Lane::Needle, "lexical_unavailable", needle),
            (Lane::Dense, "dense_unavailable", dense),
        ] {
            match found {
                Ok(hits) => {
                    let count = hits.len();
                    let ranking = ranking(hits);
                    if ranking.len() < count {
                        degraded.push(format!("{name}: some scores are no numbers"));
                    }
                    pool.add(lane, ranking);
                }
                Err(ServiceError::Cancelled) => return Err(TierError::Cancelled),
                // With neither finder there is nothing to choose from.
                Err(error) if failed => return Err(error.into()),
                Err(error) => degraded.push(format!("{name}: {error}")),
            }
        }
    }

    let fresh = services.pages.freshest(call, settings.fresh).await;
    let fresh = optional(fresh, "fresh_unavailable", &mut degraded)?;
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

/// Returns what a standing list holds, or nothing and a word on why: no list is worth a turn without memory.
fn optional<T>(
    answer: ServiceResult<Vec<T>>,
    name: &str,
    degraded: &mut Vec<String>,
) -> Result<Vec<T>, TierError> {
    match answer {
        Err(ServiceError::Cancelled) => Err(TierError::Cancelled),
        Err(error) => {
            degraded.push(format!("{name}: {error}"));
            Ok(Vec::new())
        }
        Ok(list) => Ok(list),
    }
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

/// Returns what a search found, best first. A score that is no number says nothing, and could not be told to anybody.
fn ranking(hits: Vec<SectionHit>) -> Vec<(SectionId, f32)> {
    let found = hits.into_iter().filter(|hit| hit.score.is_finite());
    found.map(|hit| (hit.id, hit.score)).collect()
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

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use async_trait::async_trait;
    use memory_core::embed::SpaceId;
    use memory_core::services::{
        CallControl, CallScope, DenseSpace, PageEntry, PageLink, PageText,
    };

    use super::*;

    /// A host with one page, in which the finders fail on request.
    struct Host {
        lexical_fails: bool,
        dense_fails: bool,
    }

    fn broken<T>() -> ServiceResult<T> {
        Err(ServiceError::Failed {
            reason: "planted".to_owned(),
        })
    }

    fn hit(score: f32) -> Vec<SectionHit> {
        let id = SectionId::lead(Slug::from_title("page"));
        vec![SectionHit { id, score }]
    }

    #[async_trait]
    impl Pages for Host {
        async fn count(&self, _call: &Call) -> ServiceResult<u32> {
            Ok(1)
        }
        async fn freshest(&self, _call: &Call, _limit: u32) -> ServiceResult<Vec<PageEntry>> {
            Ok(Vec::new())
        }
        async fn core(&self, _call: &Call) -> ServiceResult<Vec<Slug>> {
            Ok(Vec::new())
        }
        async fn read(
            &self,
            _call: &Call,
            _slugs: Vec<Slug>,
        ) -> ServiceResult<Vec<Option<PageText>>> {
            Ok(Vec::new())
        }
        async fn links(
            &self,
            _call: &Call,
            _slugs: Vec<Slug>,
        ) -> ServiceResult<Vec<Vec<PageLink>>> {
            Ok(Vec::new())
        }
        async fn now_text(&self, _call: &Call) -> ServiceResult<String> {
            Ok(String::new())
        }
    }

    #[async_trait]
    impl Lexical for Host {
        async fn search(
            &self,
            _call: &Call,
            _query: LexicalQuery,
        ) -> ServiceResult<Vec<SectionHit>> {
            if self.lexical_fails {
                broken()
            } else {
                Ok(hit(3.0))
            }
        }
        async fn idf(&self, _call: &Call, _text: String) -> ServiceResult<Vec<(String, f32)>> {
            Ok(Vec::new())
        }
    }

    #[async_trait]
    impl Dense for Host {
        async fn space(&self, _call: &Call) -> ServiceResult<DenseSpace> {
            Ok(DenseSpace {
                space: SpaceId::new("test"),
                dims: 1,
            })
        }
        async fn embed(&self, _call: &Call, _texts: Vec<String>) -> ServiceResult<Vec<f32>> {
            if self.dense_fails {
                broken()
            } else {
                Ok(vec![1.0])
            }
        }
        async fn search(
            &self,
            _call: &Call,
            _vector: Vec<f32>,
            _limit: u32,
        ) -> ServiceResult<Vec<SectionHit>> {
            Ok(hit(0.5))
        }
    }

    struct Still;

    impl CallControl for Still {
        fn is_cancelled(&self) -> bool {
            false
        }
        fn remaining_ms(&self) -> u64 {
            1_000
        }
        fn yield_now(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::ready(()))
        }
        fn token(&self) -> u64 {
            1
        }
    }

    fn check(lexical_fails: bool, dense_fails: bool) -> Result<Ranked, TierError> {
        let host = Arc::new(Host {
            lexical_fails,
            dense_fails,
        });
        let services = LaneServices {
            pages: host.clone(),
            lexical: host.clone(),
            dense: Some(host),
        };
        let settings = Settings {
            needle: 10,
            dense: 10,
            fresh: 10,
        };
        let call = Call::new(Arc::new(CallScope::default()), Arc::new(Still));
        let request = TurnRequest {
            user_message: "where is the page".to_owned(),
            ..TurnRequest::default()
        };
        let mut running = pin!(run(&services, &settings, &call, &request));
        match running
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    #[test]
    fn scores_that_are_no_numbers_are_left_out() {
        let hits = [f32::NAN, 2.0, f32::INFINITY].into_iter().flat_map(hit);
        assert_eq!(ranking(hits.collect()).len(), 1);
    }

    #[test]
    fn one_finder_never_takes_the_other_down() {
        let whole = check(false, false).expect("both finders answer");
        assert!(whole.degraded.is_empty());
        assert_eq!(whole.candidates[0].found_by.len(), 2);
        for (lexical_fails, dense_fails, named) in [
            (true, false, "lexical_unavailable"),
            (false, true, "dense_unavailable"),
        ] {
            let ranked = check(lexical_fails, dense_fails).expect("one finder is enough");
            assert_eq!(ranked.candidates.len(), 1);
            assert!(
                ranked.degraded[0].starts_with(named),
                "{:?}",
                ranked.degraded
            );
        }
        check(true, true).expect_err("without any finder there is nothing to choose from");
    }
}
