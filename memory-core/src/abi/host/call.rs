//! The calls an instance has in flight, and the object by which it asks about one.
//!
//! A call gets a number of this registry while it lasts. A service is asked with that number and uses the call found
//! here, so neither a changed scope nor the number of a call that is over has any effect.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use abi_stable::erased_types::TD_Opaque;
use abi_stable::std_types::RArc;
use async_ffi::FfiFuture;
use futures_util::FutureExt as _;

use crate::abi::convert::Cross as _;
use crate::abi::services::{CallControl, CallControl_TO};
use crate::abi::tier;
use crate::services::Call;

/// The calls of one instance.
#[derive(Debug, Default)]
pub(super) struct CallRegistry {
    calls: Mutex<HashMap<u64, InFlight>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct InFlight {
    call: Call,
    abandoned: Arc<AtomicBool>,
}

impl CallRegistry {
    /// Registers a call for as long as the returned value lives.
    pub(super) fn enter(self: &Arc<Self>, call: &Call) -> Entered {
        let token = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let abandoned = Arc::new(AtomicBool::new(false));
        let in_flight = InFlight {
            call: call.clone(),
            abandoned: Arc::clone(&abandoned),
        };
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(token, in_flight);
        Entered {
            registry: Arc::clone(self),
            token,
            abandoned,
        }
    }

    /// Returns the call behind a number, if it is in flight.
    pub(super) fn get(&self, token: u64) -> Option<Call> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&token)
            .map(|found| found.call.clone())
    }

    /// Returns how many calls are in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Tells every call in flight that its caller gave up.
    pub(super) fn abandon(&self) {
        for in_flight in self
            .calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
        {
            in_flight.abandoned.store(true, Ordering::Relaxed);
        }
    }
}

/// A registered call.
pub(super) struct Entered {
    registry: Arc<CallRegistry>,
    token: u64,
    abandoned: Arc<AtomicBool>,
}

impl Entered {
    /// Returns what crosses the border for this call.
    pub(super) fn to_border(&self, call: &Call) -> tier::Call {
        let control = Control {
            call: call.clone(),
            token: self.token,
            abandoned: Arc::clone(&self.abandoned),
        };
        tier::Call {
            scope: call.scope().clone().into_abi(),
            control: CallControl_TO::from_ptr(RArc::new(control), TD_Opaque),
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let call = self
            .registry
            .calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.token);
        drop(call);
    }
}

/// What a plugin holds of a call.
struct Control {
    call: Call,
    token: u64,
    abandoned: Arc<AtomicBool>,
}

impl CallControl for Control {
    fn is_cancelled(&self) -> bool {
        // A call that cannot be asked is as good as over.
        self.abandoned.load(Ordering::Relaxed) || contained(true, || self.call.is_cancelled())
    }

    fn remaining_ms(&self) -> u64 {
        if self.abandoned.load(Ordering::Relaxed) {
            0
        } else {
            contained(0, || self.call.remaining_ms())
        }
    }

    fn token(&self) -> u64 {
        self.token
    }

    fn yield_now(&self) -> FfiFuture<()> {
        let control = Arc::clone(self.call.control());
        let yielding = async move { control.yield_now().await };
        FfiFuture::new(
            std::panic::AssertUnwindSafe(yielding)
                .catch_unwind()
                .map(drop),
        )
    }
}

/// Runs a piece of the host and answers with a substitute if it panics, because a panic must not reach the border.
pub(super) fn contained<T>(substitute: T, work: impl FnOnce() -> T) -> T {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(substitute)
}
