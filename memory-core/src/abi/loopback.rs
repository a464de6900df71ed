//! Both sides of the border in one process, without a library between them.
//!
//! What a real library adds is tested where libraries are loaded. Here the runtime is a list of futures, so that it can be
//! seen which work was started and which was dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;

use super::error::ErrorCode;
use super::guest::private;
use super::host::{GuestTier, PluginModule, Spawner, TierCallError};
use crate::predicates::Tier;
use crate::services::{
    Call, CallControl, CallScope, Capability, PageEntry, PageLink, PageText, Pages, ServiceResult,
    Services,
};
use crate::text::slug::Slug;
use crate::tier::{
    CommitToken, Explanation, MemoryTier, TierError, TierEvent, TierHealth, TierManifest,
    TierStats, TurnPlan, TurnRequest,
};

/// A tier that counts the pages, and can be told to count them for a call that is over.
#[derive(Debug)]
struct Counter {
    services: Services,
    first: Mutex<Option<Call>>,
}

#[async_trait]
impl MemoryTier for Counter {
    fn manifest() -> TierManifest {
        TierManifest {
            id: "counter".to_owned(),
            tier: Tier::V3,
            version: "1.2.3".to_owned(),
            requires: vec![Capability::Pages],
            uses: Vec::new(),
        }
    }

    fn create(services: Services, config: &str) -> Result<Self, TierError> {
        if config == "bad" {
            return Err(TierError::BadConfig {
                reason: "it is bad".to_owned(),
            });
        }
        Ok(Self {
            services,
            first: Mutex::new(None),
        })
    }

    async fn begin_turn(&self, call: &Call, request: TurnRequest) -> Result<TurnPlan, TierError> {
        let pages = self.services.pages.as_ref().expect("pages were handed out");
        let first = self
            .first
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| call.clone())
            .clone();
        let call = if request.context_lost { &first } else { call };
        let pool_size = pages.count(call).await?;
        Ok(TurnPlan {
            pool_size,
            degraded: vec![call.scope().conversation.clone()],
            ..TurnPlan::default()
        })
    }

    async fn commit(
        &self,
        _call: &Call,
        _token: CommitToken,
        _message: String,
    ) -> Result<(), TierError> {
        Ok(())
    }

    async fn discard(&self, _call: &Call, _token: CommitToken) -> Result<(), TierError> {
        Ok(())
    }

    async fn on_event(&self, _call: &Call, _event: TierEvent) -> Result<(), TierError> {
        Ok(())
    }

    async fn explain(&self, _call: &Call, _request: TurnRequest) -> Result<Explanation, TierError> {
        Ok(Explanation::default())
    }

    async fn stats(&self, call: &Call) -> Result<TierStats, TierError> {
        if call.is_cancelled() {
            Err(TierError::Cancelled)
        } else {
            Ok(TierStats::default())
        }
    }

    async fn health(&self, _call: &Call) -> Result<TierHealth, TierError> {
        Ok(TierHealth {
            ok: true,
            detail: String::new(),
        })
    }
}

/// Pages that answer only when they may, and notice when nobody waits any more.
#[derive(Default)]
struct SlowPages {
    open: AtomicBool,
    dropped: Arc<AtomicUsize>,
}

struct CountsDrop(Arc<AtomicUsize>);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Pages for SlowPages {
    async fn count(&self, call: &Call) -> ServiceResult<u32> {
        let _guard = CountsDrop(Arc::clone(&self.dropped));
        while !self.open.load(Ordering::SeqCst) {
            call.yield_now().await;
        }
        Ok(u32::try_from(call.scope().turn).unwrap_or(u32::MAX))
    }

    async fn freshest(&self, _call: &Call, _limit: u32) -> ServiceResult<Vec<PageEntry>> {
        Ok(Vec::new())
    }

    async fn core(&self, _call: &Call) -> ServiceResult<Vec<Slug>> {
        Ok(Vec::new())
    }

    async fn read(&self, _call: &Call, _slugs: Vec<Slug>) -> ServiceResult<Vec<Option<PageText>>> {
        Ok(Vec::new())
    }

    async fn links(&self, _call: &Call, _slugs: Vec<Slug>) -> ServiceResult<Vec<Vec<PageLink>>> {
        Ok(Vec::new())
    }

    async fn now_text(&self, _call: &Call) -> ServiceResult<String> {
        Ok(String::new())
    }
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The runtime of these tests.
#[derive(Default)]
struct Queue(Mutex<Vec<Work>>);

impl Spawner for Queue {
    fn spawn(&self, work: Work) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(work);
    }
}

impl Queue {
    fn poll_all(&self) {
        let mut context = Context::from_waker(Waker::noop());
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.retain_mut(|work| work.as_mut().poll(&mut context).is_pending());
    }
}

struct Control(AtomicBool);

impl CallControl for Control {
    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn remaining_ms(&self) -> u64 {
        1_000
    }

    fn yield_now(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut yielded = false;
        Box::pin(std::future::poll_fn(move |_| {
            if std::mem::replace(&mut yielded, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }))
    }

    fn token(&self) -> u64 {
        77
    }
}

struct Bench {
    tier: GuestTier,
    pages: Arc<SlowPages>,
    queue: Arc<Queue>,
}

impl Bench {
    fn new() -> Self {
        let (pages, queue) = (Arc::new(SlowPages::default()), Arc::new(Queue::default()));
        let services = Services {
            pages: Some(Arc::clone(&pages) as Arc<dyn Pages>),
            ..Services::default()
        };
        let spawner = Arc::clone(&queue) as Arc<dyn Spawner>;
        let tier = module().create(services, spawner, "").expect("made");
        Self { tier, pages, queue }
    }

    /// Drives a call and the runtime in turns until the call is answered.
    fn finish<T>(
        &self,
        call: impl Future<Output = Result<T, TierCallError>>,
    ) -> Result<T, TierCallError> {
        let mut call = std::pin::pin!(call);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..1_000 {
            if let Poll::Ready(answer) = call.as_mut().poll(&mut context) {
                return answer;
            }
            self.queue.poll_all();
        }
        panic!("the call is never answered");
    }
}

fn module() -> PluginModule {
    PluginModule::new(private::module::<Counter>())
}

fn call(turn: u64) -> Call {
    let scope = CallScope {
        conversation: "c1".to_owned(),
        turn,
        ..CallScope::default()
    };
    Call::new(Arc::new(scope), Arc::new(Control(AtomicBool::new(false))))
}

#[test]
fn a_manifest_and_a_bad_configuration_cross() {
    let manifest = module().manifest().expect("a manifest");
    assert_eq!(
        (
            manifest.id.as_str(),
            manifest.tier,
            manifest.version.as_str()
        ),
        ("counter", Tier::V3, "1.2.3")
    );
    assert_eq!(
        (manifest.abi.as_str(), manifest.requires),
        (super::VERSION, vec!["pages".to_owned()])
    );
    assert_eq!(manifest.panic_strategy, "unwind");

    let refused = module()
        .create(Services::default(), Arc::new(Queue::default()), "bad")
        .expect_err("refused");
    assert_eq!(refused.to_string(), "BAD_CONFIG: it is bad");
}

#[test]
fn a_service_is_awaited_and_sees_the_host_s_own_scope() {
    let bench = Bench::new();
    bench.pages.open.store(true, Ordering::SeqCst);
    let call = call(5);
    let plan = bench
        .finish(bench.tier.begin_turn(&call, TurnRequest::default()))
        .expect("a plan");
    assert_eq!((plan.pool_size, plan.degraded), (5, vec!["c1".to_owned()]));
    assert_eq!(bench.tier.in_flight(), 0);
}

#[test]
fn a_call_that_is_over_opens_no_service() {
    let bench = Bench::new();
    bench.pages.open.store(true, Ordering::SeqCst);
    bench
        .finish(bench.tier.begin_turn(&call(1), TurnRequest::default()))
        .expect("a plan");
    let request = TurnRequest {
        context_lost: true,
        ..TurnRequest::default()
    };
    let error = bench
        .finish(bench.tier.begin_turn(&call(2), request))
        .expect_err("the first call is over");
    assert_eq!(error.code, ErrorCode::BAD_REQUEST);
    assert!(
        error
            .message
            .contains("`pages` was asked for a call that is over"),
        "{}",
        error.message
    );
}

#[test]
fn dropping_a_call_drops_the_work_of_its_services() {
    let bench = Bench::new();
    let call = call(1);
    let mut turn = Box::pin(bench.tier.begin_turn(&call, TurnRequest::default()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(turn.as_mut().poll(&mut context).is_pending());
    bench.queue.poll_all();
    assert_eq!(
        (
            bench.tier.in_flight(),
            bench.pages.dropped.load(Ordering::SeqCst)
        ),
        (1, 0)
    );
    drop(turn);
    bench.queue.poll_all();
    assert_eq!(
        (
            bench.tier.in_flight(),
            bench.pages.dropped.load(Ordering::SeqCst)
        ),
        (0, 1)
    );
}

#[test]
fn a_runtime_that_drops_its_work_is_told_to_the_tier() {
    let bench = Bench::new();
    let call = call(1);
    let mut turn = Box::pin(bench.tier.begin_turn(&call, TurnRequest::default()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(turn.as_mut().poll(&mut context).is_pending());
    bench.queue.0.lock().expect("not poisoned").clear();
    let Poll::Ready(Err(error)) = turn.as_mut().poll(&mut context) else {
        panic!("an error was expected")
    };
    assert_eq!(error.code, ErrorCode::UNAVAILABLE);
}

#[test]
fn abandoning_reaches_calls_in_flight_only() {
    let bench = Bench::new();
    let slow = call(1);
    let mut turn = Box::pin(bench.tier.begin_turn(&slow, TurnRequest::default()));
    assert!(
        turn.as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    bench.tier.abandon();
    assert!(bench.finish(bench.tier.stats(&call(2))).is_ok());
}

#[test]
fn a_shut_down_instance_takes_no_calls() {
    let bench = Bench::new();
    assert!(bench.tier.is_ready());
    bench.tier.shutdown().expect("it shuts down");
    assert!(!bench.tier.is_ready());
    let error = bench
        .finish(bench.tier.stats(&call(1)))
        .expect_err("it is gone");
    assert_eq!(
        (error.code, error.message.as_str()),
        (ErrorCode::UNAVAILABLE, "the instance was shut down")
    );
}
