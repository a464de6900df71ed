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
        self.lease.0.build.manifest().tier
    }

    /// Returns the plugin.
    pub fn plugin(&self) -> &str {
        &self.lease.0.build.manifest().id
    }

    /// Returns the number of the instance in its slot.
    pub fn generation(&self) -> u64 {
        self.lease.0.generation
    }

    /// Returns whether the instance takes calls: the cheapest call over the border there is, for timing it.
    pub fn is_ready(&self) -> bool {
        self.lease.0.tier.is_ready()
    }

    /// Selects and renders the turn's blocks.
    pub async fn begin_turn(
        &self,
        call: &Call,
        request: TurnRequest,
    ) -> Result<TurnPlan, SlotError> {
        let plan = self
            .run("begin_turn", call, |tier, call| async move {
                tier.begin_turn(&call, request).await
            })
            .await?;
        check_plan(&plan)
            .map_err(|reason| self.failed("begin_turn", ErrorCode::INTERNAL, reason))?;
        Ok(plan)
    }

    /// Records that what a token stands for was attached to a message.
    pub async fn commit(
        &self,
        call: &Call,
        token: CommitToken,
        message: String,
    ) -> Result<(), SlotError> {
        self.run("commit", call, |tier, call| async move {
            tier.commit(&call, token, message).await
        })
        .await
    }

    /// Forgets what a token stands for.
    pub async fn discard(&self, call: &Call, token: CommitToken) -> Result<(), SlotError> {
        self.run("discard", call, |tier, call| async move {
            tier.discard(&call, token).await
        })
        .await
    }

    /// Tells of something that happened.
    pub async fn on_event(&self, call: &Call, event: TierEvent) -> Result<(), SlotError> {
        self.run("on_event", call, |tier, call| async move {
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
        self.run("explain", call, |tier, call| async move {
            tier.explain(&call, request).await
        })
        .await
    }

    /// Returns the instance's counters.
    pub async fn stats(&self, call: &Call) -> Result<TierStats, SlotError> {
        self.run("stats", call, |tier, call| async move {
            tier.stats(&call).await
        })
        .await
    }

    /// Tells whether the instance can serve.
    pub async fn health(&self, call: &Call) -> Result<TierHealth, SlotError> {
        self.run("health", call, |tier, call| async move {
            tier.health(&call).await
        })
        .await
    }

    async fn run<T, F>(
        &self,
        method: &'static str,
        call: &Call,
        work: impl FnOnce(Arc<GuestTier>, Call) -> F + Send,
    ) -> Result<T, SlotError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, TierCallError>> + Send + 'static,
    {
        let limit = self
            .host
            .limits()
            .call
            .min(Duration::from_millis(call.remaining_ms()));
        let work = work(Arc::clone(&self.lease.0.tier), call.clone());
        // The call holds the instance too: it may outlive this turn if the plugin does not let itself be cancelled.
        let lease = Arc::clone(&self.lease);
        let held = async move {
            let answer = work.await;
            drop(lease);
            answer
        };
        self.host.runtime().run(limit, held).await.map_err(|error| {
            if error.code == ErrorCode::PANICKED {
                self.note_panic(method, &error.message);
            }
            self.failed(method, error.code, error.message)
        })
    }

    fn note_panic(&self, method: &'static str, message: &str) {
        let plugin = self.plugin();
        let panics = self
            .lease
            .0
            .build
            .note_panic(self.host.limits().panic_window);
        tracing::error!(
            plugin,
            method,
            message,
            panics,
            "a plugin panicked; the panic was contained"
        );
    }

    fn failed(&self, method: &'static str, code: ErrorCode, message: String) -> SlotError {
        SlotError::Call {
            plugin: self.plugin().to_owned(),
            method,
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
