//! The worker, without waiting for anything: handlers tell when they begin, and wait for whoever lets them go on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memory_core::env::{Clock as _, ManualClock, SeededRng};
use memory_core::job::{JobStatus, NewJob, Unless};
use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::wire::{checkpoint, job as name};
use tokio::sync::Semaphore;

use super::*;
use crate::assistant::AssistantStore;
use crate::assistant::testing::{Fixture, runtime};
use crate::consolidate::{ConsolidateOptions, RunCause};
use crate::remember::RememberInput;
use crate::state::checkpoints;

/// A handler that tells when it begins, and ends when it is let.
#[derive(Debug)]
struct Gate {
    begun: Semaphore,
    let_go: Semaphore,
    ended: AtomicUsize,
}

impl Gate {
    fn new(open: usize) -> Arc<Self> {
        Arc::new(Self {
            begun: Semaphore::new(0),
            let_go: Semaphore::new(open),
            ended: AtomicUsize::new(0),
        })
    }

    async fn has_begun(&self) {
        self.begun.acquire().await.expect("open").forget();
    }
}

#[async_trait]
impl JobHandler for Gate {
    async fn run(&self, job: &Job, stop: &Stop) -> Resolution {
        self.begun.add_permits(1);
        assert!(!job.payload.contains("panic"), "boom");
        let stopped = tokio::select! {
            () = stop.wait() => true,
            permit = self.let_go.acquire() => {
                permit.expect("open").forget();
                false
            }
        };
        if stopped {
            // There is something to put away first.
            self.let_go.acquire().await.expect("open").forget();
        }
        self.ended.fetch_add(1, Ordering::SeqCst);
        if stopped {
            Resolution::Stopped
        } else {
            Resolution::Completed
        }
    }
}

/// A schedule that counts how often it was looked at.
#[derive(Debug, Default)]
struct Count {
    ticks: AtomicUsize,
    told: Semaphore2,
}

#[derive(Debug)]
struct Semaphore2(Semaphore);

impl Default for Semaphore2 {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

#[async_trait]
impl Schedule for Count {
    async fn tick(&self, _now: Timestamp) -> StoreResult<()> {
        self.ticks.fetch_add(1, Ordering::SeqCst);
        self.told.0.add_permits(1);
        Ok(())
    }
}

fn worker(
    store: &AssistantStore,
    clock: &Arc<ManualClock>,
    handlers: Vec<(&str, Arc<dyn JobHandler>)>,
    schedules: Vec<Arc<dyn Schedule>>,
) -> Worker {
    let handlers: HashMap<String, Arc<dyn JobHandler>> = handlers
        .into_iter()
        .map(|(kind, handler)| (kind.to_owned(), handler))
        .collect();
    Worker::new(WorkerOptions {
        state: Arc::clone(store.state()),
        clock: clock.clone(),
        rng: Arc::new(SeededRng::new(1)),
        handlers,
        schedules,
    })
}

async fn ask(store: &AssistantStore, kind: &str, payload: &str) -> String {
    let new = NewJob {
        kind: kind.to_owned(),
        payload: payload.to_owned(),
        run_after: store.now(),
        unless: Unless::Never,
    };
    store.enqueue(new).await.expect("asked for").0
}

async fn status(store: &AssistantStore, id: &str) -> JobStatus {
    let jobs = store.jobs(100).await.expect("listed");
    let job = jobs.into_iter().find(|job| job.id == id);
    job.expect("it is there").status
}

#[test]
fn a_long_model_job_delays_no_embedding_and_no_schedule() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let (slow, quick) = (Gate::new(0), Gate::new(100));
        let count = Arc::new(Count::default());
        let handlers: Vec<(&str, Arc<dyn JobHandler>)> = vec![
            (name::CONSOLIDATE, slow.clone()),
            (name::EMBED_CONCEPT_PAGE, quick.clone()),
        ];
        let worker = worker(&store, &fixture.clock, handlers, vec![count.clone()]);
        let long = ask(&store, name::CONSOLIDATE, "{}").await;
        worker.start();
        slow.has_begun().await;
        count.told.0.acquire().await.expect("open").forget();
        for minute in 0..10 {
            fixture.clock.advance_millis(60_000);
            let embedded = ask(&store, name::EMBED_CONCEPT_PAGE, "{}").await;
            worker.wake();
            quick.has_begun().await;
            count.told.0.acquire().await.expect("open").forget();
            // Let go of by the handler, and noted a moment later.
            while status(&store, &embedded).await != JobStatus::Completed {
                tokio::task::yield_now().await;
            }
            assert_eq!(
                status(&store, &long).await,
                JobStatus::Running,
                "minute {minute}"
            );
        }
        assert!(count.ticks.load(Ordering::SeqCst) >= 10);
        slow.let_go.add_permits(1);
        worker.close().await;
        assert_eq!(slow.ended.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_job_that_is_cancelled_is_let_go_only_when_its_work_has_ended() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let slow = Gate::new(0);
        let handlers: Vec<(&str, Arc<dyn JobHandler>)> = vec![(name::CONSOLIDATE, slow.clone())];
        let worker = worker(&store, &fixture.clock, handlers, Vec::new());
        let (first, second) = (
            ask(&store, name::CONSOLIDATE, "{}").await,
            ask(&store, name::CONSOLIDATE, "{}").await,
        );
        worker.start();
        slow.has_begun().await;
        assert_eq!(
            store.cancel_job(&first).await.expect("asked"),
            JobStatus::Running
        );
        assert!(worker.stop_job(&first));
        assert!(!worker.stop_job(&second), "it has not begun");
        // It is still putting things away, and nothing else of its lane begins.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(slow.ended.load(Ordering::SeqCst), 0);
        assert_eq!(status(&store, &first).await, JobStatus::Running);
        assert_eq!(status(&store, &second).await, JobStatus::Pending);
        slow.let_go.add_permits(1);
        slow.has_begun().await;
        assert_eq!(slow.ended.load(Ordering::SeqCst), 1);
        assert_eq!(status(&store, &first).await, JobStatus::Cancelled);
        slow.let_go.add_permits(1);
        worker.close().await;
        assert_eq!(slow.ended.load(Ordering::SeqCst), 2);
        assert_ne!(status(&store, &second).await, JobStatus::Running);
    });
}

#[test]
fn what_fails_costs_itself_only() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let gate = Gate::new(100);
        let handlers: Vec<(&str, Arc<dyn JobHandler>)> = vec![(name::CONSOLIDATE, gate.clone())];
        let worker = worker(&store, &fixture.clock, handlers, Vec::new());
        let panics = ask(&store, name::CONSOLIDATE, "{\"panic\":true}").await;
        let unknown = ask(&store, "unheard_of", "{}").await;
        let retired = ask(&store, "conversation_analyze", "{}").await;
        let good = ask(&store, name::CONSOLIDATE, "{}").await;
        assert_eq!(worker.drain().await.expect("done"), 4);
        for (id, expected) in [
            (&panics, JobStatus::Failed),
            (&unknown, JobStatus::Failed),
            (&retired, JobStatus::Completed),
            (&good, JobStatus::Completed),
        ] {
            assert_eq!(status(&store, id).await, expected, "{id}");
        }
        let jobs = store.jobs(100).await.expect("listed");
        let error = |id: &String| {
            let job = jobs.iter().find(|job| job.id == *id).expect("there");
            job.last_error.clone().unwrap_or_default()
        };
        assert_eq!(error(&panics), "it panicked: boom");
        assert_eq!(error(&unknown), "nobody here knows how to do `unheard_of`");
        let counts = store.job_counts().await.expect("counted");
        assert_eq!((counts.failed, counts.completed), (2, 2));
        assert_eq!(
            store.retry_job(&panics).await.expect("again"),
            JobStatus::Pending
        );
        assert!(store.cancel_job("nothing").await.is_err());
    });
}

fn settings() -> ConsolidateSettings {
    ConsolidateSettings {
        interval_hours: 8,
        most_lines: Some(20),
        options: ConsolidateOptions {
            cause: RunCause::Automatic,
            dry_run: false,
            most_entries: Some(150),
            longest_page: 5_000,
        },
        agent: None,
    }
}

async fn say(store: &AssistantStore, number: usize) {
    let input = RememberInput {
        texts: vec![format!("Nora said the number {number}.")],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    };
    store.remember(input, "UTC").await.expect("remembered");
}

#[test]
fn consolidation_runs_by_itself_when_it_is_due() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let consolidation = Arc::new(Consolidation::new(
            store.clone(),
            Arc::new(|| Some(settings())),
        ));
        let handlers: Vec<(&str, Arc<dyn JobHandler>)> =
            vec![(name::CONSOLIDATE, consolidation.clone())];
        let worker = worker(&store, &fixture.clock, handlers, vec![consolidation]);
        let runs = async || store.runs(10).await.expect("listed").len();
        // The first look begins the interval, as too little waits.
        say(&store, 0).await;
        assert_eq!(worker.drain().await.expect("done"), 0);
        for number in 1..19 {
            say(&store, number).await;
        }
        fixture.clock.advance_millis(60 * 60 * 1000);
        assert_eq!(
            (worker.drain().await.expect("done"), runs().await),
            (0, 0),
            "not yet"
        );
        // It is full.
        say(&store, 19).await;
        assert_eq!((worker.drain().await.expect("done"), runs().await), (1, 1));
        assert_eq!((worker.drain().await.expect("done"), runs().await), (0, 1));
        // Its time has come, after a long while once.
        for number in 20..32 {
            say(&store, number).await;
        }
        fixture.clock.advance_millis(90 * 60 * 60 * 1000);
        assert_eq!((worker.drain().await.expect("done"), runs().await), (1, 2));
        assert_eq!((worker.drain().await.expect("done"), runs().await), (0, 2));
    });
}

#[test]
fn after_a_failure_it_waits() {
    runtime(async {
        let fixture = Fixture::new();
        let store = fixture.open().await;
        let consolidation = Arc::new(Consolidation::new(
            store.clone(),
            Arc::new(|| Some(settings())),
        ));
        let handlers: Vec<(&str, Arc<dyn JobHandler>)> =
            vec![(name::CONSOLIDATE, consolidation.clone())];
        let worker = worker(
            &store,
            &fixture.clock,
            handlers,
            vec![consolidation.clone()],
        );
        for number in 0..12 {
            say(&store, number).await;
        }
        store
            .note_failures(Some(memory_core::schedule::FailureKind::Transient))
            .await;
        assert_eq!(worker.drain().await.expect("done"), 0);
        let began = store.state().read_blocking(|connection| {
            checkpoints::instant(connection, checkpoint::CONSOLIDATE_LAST_RUN)
        });
        assert_eq!(began.expect("read"), None, "the interval goes on");
        fixture.clock.advance_millis(5 * 60 * 1000);
        assert_eq!(worker.drain().await.expect("done"), 1);
        let began = store.state().read_blocking(|connection| {
            checkpoints::get(connection, checkpoint::CONSOLIDATE_FAILURE_STATE)
        });
        assert_eq!(
            began.expect("read"),
            None,
            "a good run ends the row of failures"
        );
        assert_eq!(fixture.clock.now(), store.now());
    });
}
