//! A place for one value that one task leaves and another waits for.
//!
//! It is all that is needed to wait for work on another runtime, and keeps this crate free of any runtime's channels.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

struct State<T> {
    value: Option<T>,
    closed: bool,
    waker: Option<Waker>,
}

/// The end that leaves the value. Dropping it without one closes the slot.
pub(super) struct Giver<T>(Arc<Mutex<State<T>>>);

/// The end that waits; `None` when the giver went away.
pub(super) struct Taker<T>(Arc<Mutex<State<T>>>);

/// Returns both ends.
pub(super) fn slot<T>() -> (Giver<T>, Taker<T>) {
    let state = Arc::new(Mutex::new(State {
        value: None,
        closed: false,
        waker: None,
    }));
    (Giver(Arc::clone(&state)), Taker(state))
}

impl<T> Giver<T> {
    pub(super) fn give(self, value: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).value = Some(value);
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        let waker = state.waker.take();
        drop(state);
        // Woken outside the lock: a waker belongs to somebody else and may do anything.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Taker<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = context.waker().clone();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Poll::Ready(state.value.take());
        }
        let previous = state.waker.replace(waker);
        drop(state);
        drop(previous);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_arrives_and_a_lost_giver_closes() {
        let mut context = Context::from_waker(Waker::noop());
        let (giver, mut taker) = slot();
        assert!(Pin::new(&mut taker).poll(&mut context).is_pending());
        giver.give(7);
        assert_eq!(
            Pin::new(&mut taker).poll(&mut context),
            Poll::Ready(Some(7))
        );

        let (giver, mut taker) = slot::<u8>();
        drop(giver);
        assert_eq!(Pin::new(&mut taker).poll(&mut context), Poll::Ready(None));
    }
}
