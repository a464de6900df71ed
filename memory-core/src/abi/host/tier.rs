//! A tier instance as the host calls it: the methods of a tier in standard types.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use abi_stable::std_types::RResult;
use futures_util::FutureExt as _;
use thiserror::Error;

use crate::abi::convert::Cross;
use crate::abi::error::{AbiError, ErrorCode};
use crate::abi::module::TierObject;
use crate::abi::services::Reply;
use crate::services::Call;
use crate::tier::{
    CommitToken, Explanation, TierEvent, TierHealth, TierStats, TurnPlan, TurnRequest,
};

use super::call::CallRegistry;

/// A call into a plugin failed. The code says whether a retry, a report or another configuration helps.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{code}: {message}")]
pub struct TierCallError {
    /// What kind of failure.
    pub code: ErrorCode,
    /// What happened, the causes included.
    pub message: String,
}

impl TierCallError {
    /// Returns a failure that the host itself found.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<AbiError> for TierCallError {
    fn from(error: AbiError) -> Self {
        let mut message = error.message.into_string();
        for cause in error.causes {
            message.push_str(": ");
            message.push_str(&cause);
        }
        Self {
            code: error.code,
            message,
        }
    }
}

/// One instance of a tier in a loaded library.
///
/// Every method may be called from any thread and in parallel. A future that is dropped cancels its call.
pub struct GuestTier {
    object: TierObject,
    calls: Arc<CallRegistry>,
}

impl fmt::Debug for GuestTier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GuestTier")
            .field("in_flight", &self.calls.in_flight())
            .finish_non_exhaustive()
    }
}

async fn finish<T: Cross>(reply: Reply<T::Abi>) -> Result<T, TierCallError> {
    // The kit lets no panic out, so this catches only what a library without the kit would do.
    let result: RResult<T::Abi, AbiError> = AssertUnwindSafe(reply)
        .catch_unwind()
        .await
        .map_err(|_| TierCallError::new(ErrorCode::PANICKED, "the plugin panicked in a poll"))?;
    let value = result.into_result().map_err(TierCallError::from)?;
    T::from_abi(value).map_err(|bad| TierCallError::new(ErrorCode::INTERNAL, bad.to_string()))
}

impl GuestTier {
    pub(super) fn new(object: TierObject, calls: Arc<CallRegistry>) -> Self {
        Self { object, calls }
    }

    /// Returns whether the instance takes calls. The cheapest call there is, for timing the border.
    pub fn is_ready(&self) -> bool {
        self.object.is_ready()
    }

    /// Returns how many calls are in flight.
    pub fn in_flight(&self) -> usize {
        self.calls.in_flight()
    }

    /// Tells every call in flight that its caller gave up. Later calls are not affected.
    pub fn abandon(&self) {
        self.calls.abandon();
    }

    /// Selects and renders a turn's blocks.
    pub async fn begin_turn(
        &self,
        call: &Call,
        request: TurnRequest,
    ) -> Result<TurnPlan, TierCallError> {
        let entered = self.calls.enter(call);
        finish(
            self.object
                .begin_turn(entered.to_border(call), request.into_abi()),
        )
        .await
    }

    /// Records that what a token stands for was attached to a message.
    pub async fn commit(
        &self,
        call: &Call,
        token: CommitToken,
        message: String,
    ) -> Result<(), TierCallError> {
        let entered = self.calls.enter(call);
        finish(self.object.commit(
            entered.to_border(call),
            token.into_abi(),
            message.into_abi(),
        ))
        .await
    }

    /// Forgets what a token stands for.
    pub async fn discard(&self, call: &Call, token: CommitToken) -> Result<(), TierCallError> {
        let entered = self.calls.enter(call);
        finish(
            self.object
                .discard(entered.to_border(call), token.into_abi()),
        )
        .await
    }

    /// Tells of something that happened.
    pub async fn on_event(&self, call: &Call, event: TierEvent) -> Result<(), TierCallError> {
        let entered = self.calls.enter(call);
        finish(
            self.object
                .on_event(entered.to_border(call), event.into_abi()),
        )
        .await
    }

    /// Explains what a turn would get and why.
    pub async fn explain(
        &self,
        call: &Call,
        request: TurnRequest,
    ) -> Result<Explanation, TierCallError> {
        let entered = self.calls.enter(call);
        finish(
            self.object
                .explain(entered.to_border(call), request.into_abi()),
        )
        .await
    }

    /// Returns the counters.
    pub async fn stats(&self, call: &Call) -> Result<TierStats, TierCallError> {
        let entered = self.calls.enter(call);
        finish(self.object.stats(entered.to_border(call))).await
    }

    /// Tells whether the instance can serve.
    pub async fn health(&self, call: &Call) -> Result<TierHealth, TierCallError> {
        let entered = self.calls.enter(call);
        finish(self.object.health(entered.to_border(call))).await
    }

    /// Drops the tier behind the border. May block, and calls in flight keep the tier alive until they end.
    pub fn shutdown(&self) -> Result<(), TierCallError> {
        self.object
            .shutdown()
            .into_result()
            .map_err(TierCallError::from)
    }
}
