//! How long a turn waits for the model.
//!
//! The model works for a tier behind two borders, so nobody on the way back knows how long it took. The services that
//! embed are wrapped once per assistant: a wrapped service knows the call it works for, and the embedder below it books
//! its time to that call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use memory_core::embed::{EmbedError, Embedder, SpaceId, Vectors};
use memory_core::services::{
    Call, Dense, DenseSpace, Pkb, PkbFile, PkbHit, SectionHit, ServiceResult, Services,
};

tokio::task_local! {
    /// Nanoseconds that the call which is being worked for has waited for vectors.
    static BOOKED: Arc<AtomicU64>;
}

/// The calls whose waiting is counted, by their number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopwatches(Arc<Mutex<HashMap<u64, Arc<AtomicU64>>>>);

/// Counts for one call, as long as it lives.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    all: Stopwatches,
    token: u64,
    nanos: Arc<AtomicU64>,
}

impl Stopwatches {
    /// Starts to count for a call.
    pub(crate) fn start(&self, call: &Call) -> Stopwatch {
        let (token, nanos) = (call.control().token(), Arc::default());
        self.lock().insert(token, Arc::clone(&nanos));
        Stopwatch {
            all: self.clone(),
            token,
            nanos,
        }
    }

    /// Returns these services with the ones that embed being counted.
    pub(crate) fn wrap(&self, mut services: Services) -> Services {
        let all = || self.clone();
        services.dense = services
            .dense
            .map(|inner| Arc::new(Counted { inner, all: all() }) as Arc<dyn Dense>);
        services.pkb = services
            .pkb
            .map(|inner| Arc::new(Counted { inner, all: all() }) as Arc<dyn Pkb>);
        services
    }

    fn of(&self, call: &Call) -> Arc<AtomicU64> {
        self.lock()
            .get(&call.control().token())
            .cloned()
            .unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<AtomicU64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stopwatch {
    /// Returns how long the call waited for vectors; `None` when it wanted none.
    pub(crate) fn read(&self) -> Option<Duration> {
        let nanos = self.nanos.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.all.lock().remove(&self.token);
    }
}

/// A service that knows for which call it embeds.
struct Counted<T: ?Sized> {
    inner: Arc<T>,
    all: Stopwatches,
}

#[async_trait]
impl Dense for Counted<dyn Dense> {
    async fn space(&self, call: &Call) -> ServiceResult<DenseSpace> {
        self.inner.space(call).await
    }

    async fn embed(&self, call: &Call, texts: Vec<String>) -> ServiceResult<Vec<f32>> {
        BOOKED
            .scope(self.all.of(call), self.inner.embed(call, texts))
            .await
    }

    async fn search(
        &self,
        call: &Call,
        vector: Vec<f32>,
        limit: u32,
    ) -> ServiceResult<Vec<SectionHit>> {
        self.inner.search(call, vector, limit).await
    }
}

#[async_trait]
impl Pkb for Counted<dyn Pkb> {
    async fn always_shown(&self, call: &Call) -> ServiceResult<Vec<PkbFile>> {
        self.inner.always_shown(call).await
    }

    async fn search(&self, call: &Call, text: String, limit: u32) -> ServiceResult<Vec<PkbHit>> {
        BOOKED
            .scope(self.all.of(call), self.inner.search(call, text, limit))
            .await
    }
}

/// An embedder that books its time to the call it works for.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) inner: Arc<dyn Embedder>,
}

#[async_trait]
impl Embedder for Timed {
    fn space(&self) -> &SpaceId {
        self.inner.space()
    }

    fn dims(&self) -> usize {
        self.inner.dims()
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vectors, EmbedError> {
        let started = Instant::now();
        let result = self.inner.embed(texts).await;
        let nanos = u64::try_from(started.elapsed().as_nanos())
            .unwrap_or(u64::MAX)
            .max(1);
        // Indexing embeds for no call.
        if let Ok(booked) = BOOKED.try_with(Arc::clone) {
            booked.fetch_add(nanos, Ordering::Relaxed);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use memory_core::services::CallScope;
    use memory_substrate::embed::SeededEmbedder;
    use plugin_host::new_call;

    use super::*;

    struct Model(Timed);

    #[async_trait]
    impl Dense for Model {
        async fn space(&self, _call: &Call) -> ServiceResult<DenseSpace> {
            Ok(DenseSpace {
                space: self.0.space().clone(),
                dims: 8,
            })
        }
        async fn embed(&self, _call: &Call, texts: Vec<String>) -> ServiceResult<Vec<f32>> {
            Ok(self.0.embed(texts).await.unwrap().data)
        }
        async fn search(
            &self,
            _call: &Call,
            _vector: Vec<f32>,
            _limit: u32,
        ) -> ServiceResult<Vec<SectionHit>> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn time_is_booked_to_the_call_that_embeds() {
        let all = Stopwatches::default();
        let model = Model(Timed {
            inner: Arc::new(SeededEmbedder::new(8)),
        });
        let dense = all
            .wrap(Services {
                dense: Some(Arc::new(model)),
                ..Services::default()
            })
            .dense
            .unwrap();
        let call = || new_call(CallScope::default(), Duration::from_mins(1)).0;
        let (busy, quiet) = (call(), call());
        let watches = (all.start(&busy), all.start(&quiet));
        dense.embed(&busy, vec!["word".to_owned()]).await.unwrap();
        assert!(watches.0.read().is_some());
        assert_eq!(watches.1.read(), None);
        drop(watches);
        assert!(all.lock().is_empty());
    }
}
