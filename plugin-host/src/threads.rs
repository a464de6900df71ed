//! The threads that one build's code runs on.
//!
//! Plugin code never runs on a thread of the host, and every build has threads of its own. So a tier that computes for
//! long slows itself down and nobody else, and a thread that does not come back has one owner, whose it can be held
//! against. There are two of them, because a call that blocks its thread must not cost the calls behind it their answer:
//! they go on on the other. When a thread is lost the build is quarantined, and the turns that were begun on it go on on
//! two fresh threads. That happens a few times and not for ever: when none is left, calls are answered at once with an
//! error, so a build can never take more from the host than these few threads.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use memory_core::abi::ErrorCode;
use memory_core::abi::host::TierCallError;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;

use crate::incident::{IncidentKind, Loss};
use crate::method::Method;
use crate::metrics::Ending;
use crate::panics;
use crate::record::Record;

/// Threads of one pool.
const THREADS: usize = 2;

/// Pools of one build: the first, and those that replace threads that were lost.
const POOLS: usize = 3;

/// Runs the calls of one build.
#[derive(Debug)]
pub(crate) struct Threads {
    pools: Mutex<Vec<Arc<Pool>>>,
    shared: Arc<Shared>,
}

/// What all calls of a build have in common.
#[derive(Debug)]
struct Shared {
    record: Arc<Record>,
    host: Handle,
    grace: Duration,
}

/// Some threads, and how many of them do not come back at the moment.
#[derive(Debug)]
struct Pool {
    runtime: Option<Runtime>,
    handle: Handle,
    blocked: AtomicUsize,
}

impl Pool {
    fn start() -> io::Result<Arc<Self>> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("strata-plugin")
            .build()?;
        Ok(Arc::new(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            blocked: AtomicUsize::new(0),
        }))
    }

    fn blocked(&self) -> usize {
        self.blocked.load(Ordering::SeqCst)
    }

    fn all_blocked(&self) -> bool {
        self.blocked() >= THREADS
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A thread may not come back for good, and must not be waited for.
            runtime.shutdown_background();
        }
    }
}

impl Threads {
    /// Starts the threads of a build. A call that holds its thread for the grace after it was given up is a lost thread.
    pub(crate) fn start(record: Arc<Record>, host: Handle, grace: Duration) -> io::Result<Self> {
        Ok(Self {
            pools: Mutex::new(vec![Pool::start()?]),
            shared: Arc::new(Shared {
                record,
                host,
                // Without any, every call that was given up would look like one that blocks.
                grace: grace.max(Duration::from_millis(1)),
            }),
        })
    }

    /// Returns how many threads do not come back at the moment.
    pub(crate) fn blocked(&self) -> usize {
        self.pools().iter().map(|pool| pool.blocked()).sum()
    }

    fn pools(&self) -> MutexGuard<'_, Vec<Arc<Pool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pool for the next call: one that has lost nothing, a fresh one while there may be more, or one that has
    /// a thread left.
    fn pool(&self) -> Option<Arc<Pool>> {
        let mut pools = self.pools();
        if let Some(whole) = pools.iter().find(|pool| pool.blocked() == 0) {
            return Some(Arc::clone(whole));
        }
        if pools.len() < POOLS {
            match Pool::start() {
                Ok(fresh) => {
                    pools.push(Arc::clone(&fresh));
                    return Some(fresh);
                }
                Err(error) => {
                    let plugin = &self.shared.record.plugin;
                    tracing::warn!(plugin, %error, "the threads that a plugin blocks cannot be replaced");
                }
            }
        }
        pools.iter().find(|pool| !pool.all_blocked()).cloned()
    }

    /// Runs a call and waits for it within a limit.
    pub(crate) async fn run<T, F>(
        &self,
        method: Method,
        limit: Duration,
        call: F,
    ) -> Result<T, TierCallError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, TierCallError>> + Send + 'static,
    {
        let record = &self.shared.record;
        record.methods.begun(method);
        let mut held = Held {
            running: None,
            shared: Arc::clone(&self.shared),
            method,
            begun: Instant::now(),
            ending: Ending::GivenUp,
        };
        let result = if let Some(pool) = self.pool() {
            let handle = pool.handle.clone();
            let place = Arc::new(Place {
                method,
                shared: Arc::clone(&self.shared),
                pool,
                state: Mutex::default(),
            });
            let task = handle.spawn(Polled {
                future: Some(Box::pin(call)),
                place: Arc::clone(&place),
            });
            held.running = Some((task.abort_handle(), place));
            match tokio::time::timeout(limit, task).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) if error.is_panic() => {
                    let message = "the call panicked outside the plugin's guards";
                    record.panicked(method, message);
                    Err(TierCallError::new(ErrorCode::PANICKED, message))
                }
                Ok(Err(_)) => {
                    let message = "the host stopped before the plugin answered";
                    Err(TierCallError::new(ErrorCode::CANCELLED, message))
                }
                Err(_) => {
                    let message = format!("no answer within {} ms", limit.as_millis());
                    record
                        .incidents
                        .note(IncidentKind::Deadline, method.name(), &message);
                    Err(TierCallError::new(ErrorCode::DEADLINE, message))
                }
            }
        } else {
            let reason = record
                .incidents
                .quarantine()
                .map(|reason| format!("this build {reason}"));
            let reason = reason.unwrap_or_else(|| "its calls do not come back".to_owned());
            Err(TierCallError::new(
                ErrorCode::UNAVAILABLE,
                format!("no thread is left for it: {reason}"),
            ))
        };
        held.ending = match &result {
            Ok(_) => Ending::Answered,
            Err(error) => Ending::Failed(error.code),
        };
        result
    }
}

/// The caller's end of a call. Dropping it ends the call, whether it was answered, is late, or nobody waits any more.
struct Held {
    running: Option<(AbortHandle, Arc<Place>)>,
    shared: Arc<Shared>,
    method: Method,
    begun: Instant,
    ending: Ending,
}

impl Drop for Held {
    fn drop(&mut self) {
        let methods = &self.shared.record.methods;
        methods.ended(self.method, self.ending, self.begun.elapsed());
        if let Some((task, place)) = self.running.take()
            && !task.is_finished()
        {
            task.abort();
            // It ends by itself when the call does.
            drop(self.shared.host.spawn(watch(place, task)));
        }
    }
}

/// Waits for a cancelled call to end, and finds that it blocks its thread if it does not.
async fn watch(place: Arc<Place>, task: AbortHandle) {
    let grace = place.shared.grace;
    loop {
        tokio::time::sleep(grace).await;
        if task.is_finished() || place.found_blocked(grace) {
            return;
        }
        if place.pool.all_blocked() {
            // It waits behind those that block, and may wait for ever.
            return;
        }
    }
}

/// Where a call stands: whether a thread is inside of it, and since when.
#[derive(Debug)]
struct Place {
    method: Method,
    shared: Arc<Shared>,
    pool: Arc<Pool>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    inside_since: Option<Instant>,
    /// The loss of its thread, once it was found lost.
    lost: Option<Loss>,
}

impl Place {
    fn enter(self: &Arc<Self>) -> Inside {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.inside_since = Some(Instant::now());
        drop(state);
        Inside(Arc::clone(self))
    }

    /// Holds it against the build if a thread has been inside of this call for so long. It has been cancelled before.
    fn found_blocked(&self, grace: Duration) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let blocked = state
            .inside_since
            .is_some_and(|since| since.elapsed() >= grace);
        if blocked {
            self.pool.blocked.fetch_add(1, Ordering::SeqCst);
            let message = format!(
                "its thread was not given back within {} ms",
                grace.as_millis()
            );
            state.lost = Some(self.shared.record.blocked(self.method, &message));
        }
        blocked
    }
}

/// A thread that is inside of a call.
struct Inside(Arc<Place>);

impl Drop for Inside {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.inside_since = None;
        if let Some(loss) = state.lost.take() {
            // It came back after all, and takes calls again.
            self.0.shared.record.came_back(loss);
            self.0.pool.blocked.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A call as the threads poll and drop it.
struct Polled<F> {
    future: Option<Pin<Box<F>>>,
    place: Arc<Place>,
}

impl<F> Polled<F> {
    fn note(&self, heard: &[String]) {
        for message in heard {
            self.place
                .shared
                .record
                .panicked(self.place.method, message);
        }
    }
}

impl<T, F: Future<Output = Result<T, TierCallError>>> Future for Polled<F> {
    type Output = Result<T, TierCallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let inside = self.place.enter();
        let future = &mut self.future;
        let (polled, heard) = panics::listen(|| {
            let Some(running) = future.as_mut() else {
                return Poll::Pending;
            };
            let polled = running.as_mut().poll(context);
            if polled.is_ready() {
                // What is left of it is the plugin's too, and is dropped while somebody listens.
                *future = None;
            }
            polled
        });
        drop(inside);
        match &polled {
            Poll::Ready(Err(error)) if error.code == ErrorCode::PANICKED => {
                self.note(std::slice::from_ref(&error.message));
            }
            _ => self.note(&heard),
        }
        polled
    }
}

impl<F> Drop for Polled<F> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            let inside = self.place.enter();
            let ((), heard) = panics::listen(|| drop(future));
            drop(inside);
            self.note(&heard);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::*;
    use crate::incident::{Incidents, Quarantine};

    const LONG: Duration = Duration::from_mins(1);
    const SHORT: Duration = Duration::from_millis(20);

    fn threads() -> Arc<Threads> {
        let record = Record::new("probe", Incidents::new(3, Duration::from_mins(10)));
        Arc::new(Threads::start(Arc::new(record), Handle::current(), SHORT).expect("started"))
    }

    fn quarantine(threads: &Threads) -> Option<Quarantine> {
        threads.shared.record.incidents.quarantine()
    }

    /// Returns a call that blocks its thread until the sender goes away.
    fn blocking() -> (
        Sender<()>,
        impl Future<Output = Result<(), TierCallError>> + Send + 'static,
    ) {
        let (release, stuck): (_, Receiver<()>) = mpsc::channel();
        (release, async move {
            let _ = stuck.recv();
            Ok(())
        })
    }

    async fn until(condition: impl Fn() -> bool) {
        while !condition() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_call_that_blocks_is_found_and_others_go_on() {
        let threads = threads();
        let (release, call) = blocking();
        let late = threads
            .run(Method::BeginTurn, SHORT, call)
            .await
            .expect_err("it blocks");
        assert_eq!(late.code, ErrorCode::DEADLINE);
        assert_eq!(
            threads.run(Method::Commit, LONG, async { Ok(7) }).await,
            Ok(7)
        );
        until(|| quarantine(&threads).is_some()).await;
        assert_eq!(
            quarantine(&threads),
            Some(Quarantine::Blocked {
                method: "begin_turn"
            })
        );
        assert_eq!(
            threads.run(Method::Commit, LONG, async { Ok(8) }).await,
            Ok(8)
        );

        drop(release);
        until(|| threads.blocked() == 0).await;
        assert_eq!(quarantine(&threads), None, "it came back");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn when_no_thread_is_left_calls_are_answered_at_once() {
        let threads = threads();
        let mut stuck = Vec::new();
        for lost in 1..=POOLS * THREADS {
            let (release, call) = blocking();
            threads
                .run(Method::Stats, SHORT, call)
                .await
                .expect_err("it blocks");
            stuck.push(release);
            until(|| threads.blocked() == lost).await;
            let pools = threads.pools().len();
            assert!(pools <= POOLS, "{pools}");
            if lost < POOLS * THREADS {
                let answer = threads
                    .run(Method::Commit, LONG, async move { Ok(lost) })
                    .await;
                assert_eq!(answer, Ok(lost), "a lost thread is replaced");
            }
        }
        let refused = threads.run(Method::Commit, LONG, async { Ok(()) }).await;
        assert_eq!(
            refused.expect_err("nobody is left to run it").to_string(),
            "UNAVAILABLE: no thread is left for it: this build blocked its thread in `stats`"
        );
        drop(stuck);
        until(|| threads.blocked() == 0).await;
        let answer = threads.run(Method::Commit, LONG, async { Ok(1) }).await;
        assert_eq!(answer, Ok(1));
        assert_eq!(
            quarantine(&threads),
            Some(Quarantine::Faulty {
                times: POOLS * THREADS,
                method: "stats"
            }),
            "so many times are enough, though each came back"
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_caller_that_goes_away_leaves_nothing_unwatched() {
        let threads = threads();
        let (release, call) = blocking();
        let waiting = threads.run(Method::Explain, LONG, call);
        assert!(
            tokio::time::timeout(SHORT, waiting).await.is_err(),
            "it blocks"
        );
        until(|| quarantine(&threads).is_some()).await;
        let counted = &threads.shared.record.methods.snapshot()["explain"];
        assert_eq!((counted.calls, counted.given_up), (1, 1));
        drop(release);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn waiting_is_not_blocking() {
        let threads = threads();
        for _ in 0..3 {
            let late = threads.run(
                Method::Health,
                SHORT,
                std::future::pending::<Result<(), _>>(),
            );
            assert_eq!(
                late.await.expect_err("it never answers").code,
                ErrorCode::DEADLINE
            );
        }
        assert_eq!(
            threads.run(Method::Health, LONG, async { Ok(7) }).await,
            Ok(7)
        );
        assert_eq!(quarantine(&threads), None);
        assert_eq!(threads.blocked(), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn panics_count_in_answers_in_polls_and_in_drops() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panics::hear("in a drop");
            }
        }
        let threads = threads();
        let told = TierCallError::new(ErrorCode::PANICKED, "in an answer");
        let answer = threads
            .run(Method::Commit, LONG, async move { Err::<(), _>(told) })
            .await;
        assert_eq!(answer.expect_err("panicked").code, ErrorCode::PANICKED);
        let answer: Result<(), _> = threads
            .run(Method::Commit, LONG, async { panic!("let out") })
            .await;
        assert_eq!(answer.expect_err("panicked").code, ErrorCode::PANICKED);
        let dropped = async {
            let _bomb = Bomb;
            std::future::pending::<()>().await;
            Ok(())
        };
        threads
            .run(Method::Stats, SHORT, dropped)
            .await
            .expect_err("it never answers");
        until(|| quarantine(&threads).is_some()).await;
        assert_eq!(
            quarantine(&threads),
            Some(Quarantine::Panicked {
                times: 3,
                method: "stats"
            })
        );
        assert_eq!(threads.shared.record.methods.snapshot()["commit"].panics, 2);
    }
}
