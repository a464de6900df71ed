//! The one place where blocking work leaves the async threads.
//!
//! Disk and SQLite calls stop the thread they run on. Everything that makes such calls passes through here, so that no
//! async worker is ever held up and a panic in such work ends as an error of that one call.

use memory_core::store::StoreError;
use thiserror::Error;

/// Why blocking work did not come to an end.
#[derive(Debug, Error)]
pub enum BlockingError {
    /// The work panicked. Report it; the stores themselves roll back.
    #[error("background work panicked: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },
    /// The runtime is shutting down. Stop.
    #[error("the program is shutting down")]
    ShutDown,
}

impl From<BlockingError> for StoreError {
    fn from(error: BlockingError) -> Self {
        Self::engine("background work", error)
    }
}

/// Runs work that may block on a thread of its own. Must be called inside a tokio runtime.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the module through which blocking work goes"
)]
pub async fn run<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<BlockingError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failure) => match failure.try_into_panic() {
            Ok(payload) => Err(BlockingError::Panicked {
                message: panic_message(payload.as_ref()),
            }
            .into()),
            Err(_) => Err(BlockingError::ShutDown.into()),
        },
    }
}

/// Runs work that may block and of which nobody awaits the end. Outside a tokio runtime it is done at once.
pub(crate) fn detach(work: impl FnOnce() + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}

fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_runtime<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime can be built")
            .block_on(work)
    }

    #[test]
    fn work_returns_its_own_result() {
        let good: Result<u32, StoreError> = on_runtime(run(|| Ok(7)));
        assert_eq!(good.expect("the work succeeds"), 7);
        let bad: Result<u32, StoreError> = on_runtime(run(|| {
            Err(StoreError::NotFound {
                what: "x".to_owned(),
            })
        }));
        assert!(matches!(bad, Err(StoreError::NotFound { .. })));
    }

    #[test]
    fn a_panic_is_an_error_of_that_call() {
        let result: Result<u32, BlockingError> = on_runtime(run(|| panic!("broken {}", 1)));
        match result {
            Err(BlockingError::Panicked { message }) => assert_eq!(message, "broken 1"),
            other => panic!("expected a panic to be reported, got {other:?}"),
        }
    }
}
