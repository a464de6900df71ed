//! One turn's hold on the instance that began it.
//!
//! A turn is begun, attached and committed in separate calls, and the slot may switch in between. What an instance issued
//! only that instance can commit, so the hold is taken once per turn and kept for all of it.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use memory_core::abi::ErrorCode;
use memory_core::abi::host::{GuestTier, TierCallError};
use memory_core::predicates::Tier;
use memory_core::services::Call;
use memory_core::text::block::Tag;
use memory_core::tier::{
    CommitToken, Explanation, TierEvent, TierHealth, TierStats, TurnPlan, TurnRequest,
};

use crate::error::SlotError;
use crate::host::PluginHost;
use crate::method::Method;
use crate::slot::Lease;

/// An instance, held for one turn.
#[derive(Debug)]
pub struct PinnedTurn {
    host: Arc<PluginHost>,
    lease: Arc<Lease>,
}

impl PinnedTurn {
    pub(crate) fn new(host: Arc<PluginHost>, lease: Lease) -> Self {
        Self {
            host,
            lease: Arc::new(lease),
        }
    }

    /// Returns the tier.
    pub fn tier(&self) -> Tier {
        self.lease.0.build().manifest().tier
    }

    /// Returns the plugin.
    pub fn plugin(&self) -> &str {
        &self.lease.0.build().manifest().id
    }

    /// Returns the number of the instance in its slot.
    pub fn generation(&self) -> u64 {
        self.lease.0.generation
    }

    /// Returns whether the instance takes calls: the cheapest call over the border there is, for timing it.
    pub fn is_ready(&self) -> bool {
        self.lease.0.guest.tier().is_ready()
    }

    /// Returns the instance's counters, asked on the caller's own thread: a call over the border without the way to the
    /// plugin's threads and back, for timing it. Not for serving, because nothing contains it if it blocks.
    pub async fn stats_here(&self, call: &Call) -> Result<TierStats, SlotError> {
        let answer = self.lease.0.guest.tier().stats(call).await;
        answer.map_err(|error| self.failed(Method::Stats, error.code, error.message))
    }

    /// Selects and renders the turn's blocks.
    pub async fn begin_turn(
        &self,
        call: &Call,
        request: TurnRequest,
    ) -> Result<TurnPlan, SlotError> {
        let plan = self
            .run(Method::BeginTurn, call, |tier, call| async move {
                tier.begin_turn(&call, request).await
            })
            .await?;
        check_plan(&plan).map_err(|reason| {
            self.lease
                .0
                .build()
                .note_nonsense(Method::BeginTurn, &reason);
            self.failed(Method::BeginTurn, ErrorCode::INTERNAL, reason)
        })?;
        Ok(plan)
    }

    /// Records that what a token stands for was attached to a message.
    pub async fn commit(
        &self,
        call: &Call,
        token: CommitToken,
        message: String,
    ) -> Result<(), SlotError> {
        self.run(Method::Commit, call, |tier, call| async move {
            tier.commit(&call, token, message).await
        })
        .await
    }

    /// Forgets what a token stands for.
    pub async fn discard(&self, call: &Call, token: CommitToken) -> Result<(), SlotError> {
        self.run(Method::Discard, call, |tier, call| async move {
            tier.discard(&call, token).await
        })
        .await
    }

    /// Tells of something that happened.
    pub async fn on_event(&self, call: &Call, event: TierEvent) -> Result<(), SlotError> {
        self.run(Method::OnEvent, call, |tier, call| async move {
            tier.on_event(&call, event).await
        })
        .await
    }

    /// Explains what the turn would get and why.
    pub async fn explain(
        &self,
        call: &Call,
        request: TurnRequest,
    ) -> Result<Explanation, SlotError> {
        self.run(Method::Explain, call, |tier, call| async move {
            tier.explain(&call, request).await
        })
        .await
    }

    /// Returns the instance's counters.
    pub async fn stats(&self, call: &Call) -> Result<TierStats, SlotError> {
        self.run(Method::Stats, call, |tier, call| async move {
            tier.stats(&call).await
        })
        .await
    }

    /// Tells whether the instance can serve.
    pub async fn health(&self, call: &Call) -> Result<TierHealth, SlotError> {
        self.run(Method::Health, call, |tier, call| async move {
            tier.health(&call).await
        })
        .await
    }

    async fn run<T, F>(
        &self,
        method: Method,
        call: &Call,
        work: impl FnOnce(Arc<GuestTier>, Call) -> F + Send,
    ) -> Result<T, SlotError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, TierCallError>> + Send + 'static,
    {
        // Whoever does not wait any more is not worth the plugin's time, and what is not begun is nobody's fault.
        if call.is_cancelled() {
            let message = "the caller gave up before it began".to_owned();
            return Err(self.failed(method, ErrorCode::CANCELLED, message));
        }
        let limit = self
            .host
            .limits()
            .call
            .min(Duration::from_millis(call.remaining_ms()));
        let active = &self.lease.0;
        let work = work(Arc::clone(active.guest.tier()), call.clone());
        // The call holds the instance too: it may outlive this turn if the plugin does not let itself be cancelled.
        let lease = Arc::clone(&self.lease);
        let held = async move {
            let answer = work.await;
            drop(lease);
            answer
        };
        let answer = active.build().run(method, limit, held).await;
        answer.map_err(|error| self.failed(method, error.code, error.message))
    }

    fn failed(&self, method: Method, code: ErrorCode, message: String) -> SlotError {
        SlotError::Call {
            plugin: self.plugin().to_owned(),
            method: method.name(),
            code,
            message,
        }
    }
}

/// Returns what a plan must not contain, because a host would put it into a prompt.
fn check_plan(plan: &TurnPlan) -> Result<(), String> {
    let mut ids = BTreeSet::new();
    for block in &plan.blocks {
        if Tag::parse(&block.tag).is_none() {
            return Err(format!(
                "block `{}` has tag `{}`, which is none of ours",
                block.id, block.tag
            ));
        }
        if !ids.insert(block.id.as_str()) {
            return Err(format!("two blocks have the id `{}`", block.id));
        }
    }
    Ok(())
}
