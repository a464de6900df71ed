//! Guards against panics: none may leave the library.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use abi_stable::std_types::{RErr, ROk, RResult};
use async_ffi::FfiFuture;

use crate::abi::error::{AbiError, ErrorCode};
use crate::abi::services::Reply;

use super::panics;

/// Runs something and turns its panic into an error.
pub(super) fn guard<T>(work: impl FnOnce() -> Result<T, AbiError>) -> Result<T, AbiError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(payload) => Err(panics::contained(payload)),
    }
}

/// Runs something and swallows its panic; the hook has logged it.
pub(super) fn guard_unit(work: impl FnOnce()) {
    let contained = guard(|| {
        work();
        Ok(())
    });
    // The error says only what the hook has already told the host.
    drop(contained);
}

/// Starts an answer: what `start` returns is polled and dropped under guard.
pub(super) fn reply<T, F>(start: impl FnOnce() -> Result<F, AbiError>) -> Reply<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, AbiError>> + Send + 'static,
{
    match guard(start) {
        Ok(future) => FfiFuture::new(Guarded {
            future: Some(Box::pin(future)),
        }),
        Err(error) => FfiFuture::new(std::future::ready(RErr(error))),
    }
}

/// A future whose polls and whose drop cannot panic.
struct Guarded<F> {
    future: Option<Pin<Box<F>>>,
}

impl<T, F: Future<Output = Result<T, AbiError>>> Future for Guarded<F> {
    type Output = RResult<T, AbiError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.future.as_mut() else {
            return Poll::Ready(RErr(AbiError::new(
                ErrorCode::INTERNAL,
                "a finished call was polled again",
            )));
        };
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(Ok(value))) => Poll::Ready(ROk(value)),
            Ok(Poll::Ready(Err(error))) => Poll::Ready(RErr(error)),
            Err(payload) => {
                let error = panics::contained(payload);
                let broken = self.future.take();
                guard_unit(move || drop(broken));
                Poll::Ready(RErr(error))
            }
        }
    }
}

impl<F> Drop for Guarded<F> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            guard_unit(move || drop(future));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Waker;

    use super::*;

    struct PanicsOnDrop(Arc<AtomicBool>);

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
            panic!("dropped badly");
        }
    }

    fn poll_once<T>(reply: &mut Reply<T>) -> Poll<RResult<T, AbiError>> {
        Pin::new(reply).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_panic_while_starting_polling_or_dropping_becomes_an_error() {
        let mut started = reply::<(), std::future::Ready<_>>(|| panic!("at start"));
        let Poll::Ready(RErr(error)) = poll_once(&mut started) else {
            panic!("an error was expected")
        };
        assert_eq!(error.code, ErrorCode::PANICKED);
        assert!(error.message.contains("at start"), "{}", error.message);

        let mut polled = reply::<(), _>(|| Ok(async { panic!("in poll {}", 7) }));
        let Poll::Ready(RErr(error)) = poll_once(&mut polled) else {
            panic!("an error was expected")
        };
        assert!(error.message.contains("in poll 7"), "{}", error.message);

        let dropped = Arc::new(AtomicBool::new(false));
        let bomb = PanicsOnDrop(Arc::clone(&dropped));
        let mut waiting = reply::<(), _>(move || {
            Ok(async move {
                let _bomb = bomb;
                std::future::pending::<()>().await;
                Ok(())
            })
        });
        assert!(poll_once(&mut waiting).is_pending());
        drop(waiting);
        assert!(dropped.load(Ordering::SeqCst));
    }
}
