//! A tier that asks for more than its row allows, and so must never be loaded.

#![forbid(unsafe_code)]

use async_trait::async_trait;
use memory_core::predicates::Tier;
use memory_core::services::{Call, Capability, Services};
use memory_core::tier::{
    CommitToken, Explanation, MemoryTier, TierError, TierEvent, TierHealth, TierManifest,
    TierStats, TurnPlan, TurnRequest,
};

memory_core::export_tier!(Greedy);

/// The tier.
#[derive(Debug)]
struct Greedy;

#[async_trait]
impl MemoryTier for Greedy {
    fn manifest() -> TierManifest {
        TierManifest {
            id: "greedy".to_owned(),
            tier: Tier::V3,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            requires: vec![Capability::Pkb],
            uses: Vec::new(),
        }
    }

    fn create(_services: Services, _config: &str) -> Result<Self, TierError> {
        Ok(Self)
    }

    async fn begin_turn(&self, _call: &Call, _request: TurnRequest) -> Result<TurnPlan, TierError> {
        Ok(TurnPlan::default())
    }

    async fn commit(
        &self,
        _call: &Call,
        _token: CommitToken,
        _message: String,
    ) -> Result<(), TierError> {
        Ok(())
    }

    async fn discard(&self, _call: &Call, _token: CommitToken) -> Result<(), TierError> {
        Ok(())
    }

    async fn on_event(&self, _call: &Call, _event: TierEvent) -> Result<(), TierError> {
        Ok(())
    }

    async fn explain(&self, _call: &Call, _request: TurnRequest) -> Result<Explanation, TierError> {
        Ok(Explanation::default())
    }

    async fn stats(&self, _call: &Call) -> Result<TierStats, TierError> {
        Ok(TierStats::default())
    }

    async fn health(&self, _call: &Call) -> Result<TierHealth, TierError> {
        Ok(TierHealth {
            ok: true,
            detail: String::new(),
        })
    }
}
