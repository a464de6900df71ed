//! The thread that plugins run on.
//!
//! Plugin code is polled on a small runtime of its own, so that a tier that computes for long slows other tiers down but
//! never the server. A future that blocks its thread cannot be cancelled at all; when one overstays its deadline the
//! thread is given up and a new one takes its place, a limited number of times.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use memory_core::abi::ErrorCode;
use memory_core::abi::host::{Spawner, TierCallError};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;

/// Threads that may be given up before plugins are no longer called.
const MAX_REPLACED: u32 = 16;

/// Runs plugin code.
#[derive(Debug)]
pub(crate) struct PluginRuntime {
    worker: ArcSwap<Worker>,
    replaced: AtomicU32,
    host: Handle,
    grace: Duration,
}

#[derive(Debug)]
struct Worker {
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Worker {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("strata-plugin")
            .build()?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Its thread may be stuck for good, and must not be waited for.
            runtime.shutdown_background();
        }
    }
}

impl PluginRuntime {
    pub(crate) fn start(host: Handle, grace: Duration) -> io::Result<Self> {
        let worker = ArcSwap::from_pointee(Worker::start()?);
        Ok(Self {
            worker,
            replaced: AtomicU32::new(0),
            host,
            grace,
        })
    }

    /// Returns the host's own runtime.
    pub(crate) const fn host(&self) -> &Handle {
        &self.host
    }

    /// Runs a call on the plugin thread and waits for it within a limit.
    pub(crate) async fn run<T, F>(
        self: &Arc<Self>,
        limit: Duration,
        call: F,
    ) -> Result<T, TierCallError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, TierCallError>> + Send + 'static,
    {
        if self.replaced.load(Ordering::Relaxed) > MAX_REPLACED {
            let message = "too many plugin threads hang; restart the host";
            return Err(TierCallError::new(ErrorCode::UNAVAILABLE, message));
        }
        let worker = self.worker.load_full();
        let task = worker.handle.spawn(call);
        let cancel = CancelOnDrop(task.abort_handle());
        let result = tokio::time::timeout(limit, task).await;
        match result {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.is_panic() => Err(TierCallError::new(
                ErrorCode::PANICKED,
                "the call panicked outside the plugin's guards",
            )),
            Ok(Err(_)) => Err(TierCallError::new(
                ErrorCode::CANCELLED,
                "the plugin's thread was given up",
            )),
            Err(_) => {
                cancel.0.abort();
                self.watch(&worker, cancel.0.clone());
                Err(TierCallError::new(
                    ErrorCode::DEADLINE,
                    format!("no answer within {} ms", limit.as_millis()),
                ))
            }
        }
    }

    /// Gives a thread up if a call that was cancelled on it does not end.
    fn watch(self: &Arc<Self>, worker: &Arc<Worker>, task: AbortHandle) {
        let runtime = Arc::clone(self);
        let worker = Arc::clone(worker);
        self.host.spawn(async move {
            tokio::time::sleep(runtime.grace).await;
            let stuck = !task.is_finished() && Arc::ptr_eq(&runtime.worker.load(), &worker);
            if !stuck {
                return;
            }
            runtime.replaced.fetch_add(1, Ordering::Relaxed);
            match Worker::start() {
                Ok(fresh) => {
                    runtime.worker.store(Arc::new(fresh));
                    tracing::error!("a plugin blocks its thread and ignores its deadline; the thread was given up");
                }
                Err(error) => tracing::error!(%error, "a plugin blocks its thread, and no other can be started"),
            }
        });
    }
}

/// Cancels a call whose caller went away.
struct CancelOnDrop(AbortHandle);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs the work of services on the host's own runtime.
#[derive(Debug)]
pub(crate) struct HostSpawner(pub(crate) Handle);

impl Spawner for HostSpawner {
    fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        // The work reports its own result, and is cancelled by its own means.
        drop(self.0.spawn(work));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_stuck_thread_is_replaced() {
        let grace = Duration::from_millis(20);
        let runtime = Arc::new(PluginRuntime::start(Handle::current(), grace).expect("started"));
        let (release, stuck) = mpsc::channel::<()>();
        let blocked = runtime.run(Duration::from_millis(20), async move {
            let _ = stuck.recv();
            Ok(())
        });
        assert_eq!(
            blocked.await.expect_err("blocked").code,
            ErrorCode::DEADLINE
        );
        // Until the thread is given up a call may time out; afterwards it is answered while the first still blocks.
        let mut answer = Err(TierCallError::new(ErrorCode::DEADLINE, ""));
        while answer.is_err() {
            answer = runtime
                .run(Duration::from_millis(50), async { Ok(7) })
                .await;
        }
        assert_eq!(answer, Ok(7));
        drop(release);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_panic_is_an_error() {
        let runtime =
            Arc::new(PluginRuntime::start(Handle::current(), Duration::ZERO).expect("started"));
        let answer: Result<(), _> = runtime
            .run(Duration::from_mins(1), async { panic!("let out") })
            .await;
        assert_eq!(answer.expect_err("panicked").code, ErrorCode::PANICKED);
        assert_eq!(
            runtime.run(Duration::from_mins(1), async { Ok(7) }).await,
            Ok(7)
        );
    }
}
