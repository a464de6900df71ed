//! Calls with a deadline and a way to cancel them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use memory_core::services::{Call, CallControl, CallScope};

static TOKENS: AtomicU64 = AtomicU64::new(0);

/// Deadline and cancellation of one call, kept by whoever made it.
#[derive(Debug)]
pub struct TurnControl {
    deadline: Instant,
    cancelled: AtomicBool,
    token: u64,
}

impl TurnControl {
    /// Tells the call that its caller gave up.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// Returns a call of a scope that must be answered within a limit, and its control.
pub fn new_call(scope: CallScope, limit: Duration) -> (Call, Arc<TurnControl>) {
    let control = Arc::new(TurnControl {
        deadline: Instant::now() + limit,
        cancelled: AtomicBool::new(false),
        token: TOKENS.fetch_add(1, Ordering::Relaxed) + 1,
    });
    (
        Call::new(
            Arc::new(scope),
            Arc::clone(&control) as Arc<dyn CallControl>,
        ),
        control,
    )
}

impl CallControl for TurnControl {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }

    fn remaining_ms(&self) -> u64 {
        if self.cancelled.load(Ordering::Relaxed) {
            return 0;
        }
        u64::try_from(
            self.deadline
                .saturating_duration_since(Instant::now())
                .as_millis(),
        )
        .unwrap_or(u64::MAX)
    }

    fn yield_now(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Yield { yielded: false })
    }

    fn token(&self) -> u64 {
        self.token
    }
}

/// Waits for exactly one turn of whatever runtime polls it, so it does not matter which one does.
struct Yield {
    yielded: bool,
}

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_ends_by_its_deadline_or_by_its_caller() {
        let (call, control) = new_call(CallScope::default(), Duration::from_hours(1));
        assert!(!call.is_cancelled());
        assert!(call.remaining_ms() > 3_000_000);
        control.cancel();
        assert!(call.is_cancelled());
        assert_eq!(call.remaining_ms(), 0);

        let (late, _) = new_call(CallScope::default(), Duration::ZERO);
        assert!(late.is_cancelled());
        assert_eq!(late.remaining_ms(), 0);
        assert_ne!(late.control().token(), call.control().token());
    }
}
