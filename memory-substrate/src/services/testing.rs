//! Calls for tests.

use std::pin::Pin;
use std::sync::Arc;

use memory_core::provenance::{Authority, Channel};
use memory_core::services::{Call, CallControl, CallScope, Requester};

#[derive(Debug)]
struct Control {
    cancelled: bool,
}

impl CallControl for Control {
    fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    fn remaining_ms(&self) -> u64 {
        1_000
    }

    fn yield_now(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    fn token(&self) -> u64 {
        1
    }
}

/// Returns a call of somebody who may read these channels.
pub(crate) fn call(authority: Authority, channels: &[&str]) -> Call {
    let scope = CallScope {
        requester: Requester {
            authority,
            ..Requester::default()
        },
        channels: channels.iter().map(|name| Channel::parse(name)).collect(),
        conversation: "talk".to_owned(),
        turn: 1,
        ..CallScope::default()
    };
    Call::new(Arc::new(scope), Arc::new(Control { cancelled: false }))
}

/// Returns a call of the owner.
pub(crate) fn owner() -> Call {
    call(Authority::Owner, &[])
}

/// Returns a call nobody waits for any more.
pub(crate) fn cancelled() -> Call {
    Call::new(
        Arc::new(owner().scope().clone()),
        Arc::new(Control { cancelled: true }),
    )
}
