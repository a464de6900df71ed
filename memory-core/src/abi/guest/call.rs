//! A call of the host as the tier sees it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::abi::convert::{BadValue, Cross as _};
use crate::abi::services::{CallControl_TO, Shared};
use crate::abi::tier;
use crate::services::{Call, CallControl, CallScope};

/// Deadline and cancellation, asked of the host each time.
struct RemoteControl(CallControl_TO<'static, Shared>);

impl CallControl for RemoteControl {
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn remaining_ms(&self) -> u64 {
        self.0.remaining_ms()
    }

    fn yield_now(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.0.yield_now())
    }

    fn token(&self) -> u64 {
        self.0.token()
    }
}

/// Returns the call as tiers are written against it.
pub(super) fn from_border(call: tier::Call) -> Result<Call, BadValue> {
    let scope = CallScope::from_abi(call.scope)?;
    Ok(Call::new(
        Arc::new(scope),
        Arc::new(RemoteControl(call.control)),
    ))
}
