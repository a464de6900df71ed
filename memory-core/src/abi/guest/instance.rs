//! A tier behind the border: each method converts, calls the author's code under guard, and converts back.

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};

use abi_stable::std_types::{RResult, RString};

use crate::abi::convert::Cross;
use crate::abi::error::{AbiError, ErrorCode};
use crate::abi::services::Reply;
use crate::abi::tier::{self as border, Tier};
use crate::abi::types;
use crate::services::Call;
use crate::tier::{CommitToken, MemoryTier, TierEvent, TurnRequest};

use super::call;
use super::guard::{guard, guard_unit, reply};

/// One assistant's tier. Calls in flight share it, so it lives until the last of them has ended.
pub(super) struct Instance<T> {
    tier: RwLock<Option<Arc<T>>>,
}

impl<T: MemoryTier> Instance<T> {
    pub(super) fn new(tier: T) -> Self {
        Self {
            tier: RwLock::new(Some(Arc::new(tier))),
        }
    }

    fn start<A, F>(
        &self,
        call: border::Call,
        work: impl FnOnce(Arc<T>, Call) -> F + Send,
    ) -> Reply<A::Abi>
    where
        A: Cross<Abi: Send + 'static> + Send + 'static,
        F: Future<Output = Result<A, AbiError>> + Send + 'static,
    {
        reply(move || {
            let tier = self
                .tier
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            let tier = tier.ok_or_else(|| {
                AbiError::new(ErrorCode::UNAVAILABLE, "the instance was shut down")
            })?;
            let call = call::from_border(call)?;
            let work = work(tier, call);
            Ok(async move { work.await.map(A::into_abi) })
        })
    }
}

impl<T: MemoryTier> Tier for Instance<T> {
    fn is_ready(&self) -> bool {
        guard(|| {
            Ok(self
                .tier
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .is_some())
        })
        .unwrap_or(false)
    }

    fn begin_turn(
        &self,
        call: border::Call,
        request: types::TurnRequest,
    ) -> Reply<types::TurnPlan> {
        self.start(call, move |tier, call| async move {
            let request = TurnRequest::from_abi(request)?;
            Ok(tier.begin_turn(&call, request).await?)
        })
    }

    fn commit(&self, call: border::Call, token: RString, message: RString) -> Reply<()> {
        self.start(call, move |tier, call| async move {
            Ok(tier
                .commit(
                    &call,
                    CommitToken(token.into_string()),
                    message.into_string(),
                )
                .await?)
        })
    }

    fn discard(&self, call: border::Call, token: RString) -> Reply<()> {
        self.start(call, move |tier, call| async move {
            Ok(tier
                .discard(&call, CommitToken(token.into_string()))
                .await?)
        })
    }

    fn on_event(&self, call: border::Call, event: RString) -> Reply<()> {
        self.start(call, move |tier, call| async move {
            let event = TierEvent::from_abi(event)?;
            Ok(tier.on_event(&call, event).await?)
        })
    }

    fn explain(&self, call: border::Call, request: types::TurnRequest) -> Reply<RString> {
        self.start(call, move |tier, call| async move {
            let request = TurnRequest::from_abi(request)?;
            Ok(tier.explain(&call, request).await?)
        })
    }

    fn stats(&self, call: border::Call) -> Reply<RString> {
        self.start(call, move |tier, call| async move {
            Ok(tier.stats(&call).await?)
        })
    }

    fn health(&self, call: border::Call) -> Reply<RString> {
        self.start(call, move |tier, call| async move {
            Ok(tier.health(&call).await?)
        })
    }

    fn shutdown(&self) -> RResult<(), AbiError> {
        guard(|| {
            let tier = self
                .tier
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            drop(tier);
            Ok(())
        })
        .into()
    }
}

impl<T> Drop for Instance<T> {
    fn drop(&mut self) {
        let tier = self
            .tier
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        guard_unit(move || drop(tier));
    }
}
