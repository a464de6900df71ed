//! The tier itself: one instance for one assistant.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory_core::predicates::Tier;
use memory_core::provenance::Trust;
use memory_core::services::{
    Call, Capability, Log, LogKind, LogRow, Residency, Sections, ServiceError, Services,
};
use memory_core::text::section::SectionId;
use memory_core::tier::{
    Block, CommitBook, CommitToken, ExplainedCandidate, Explanation, MemoryTier, Placement,
    ShownSection, TierError, TierEvent, TierHealth, TierManifest, TierStats, TurnPlan, TurnRequest,
};
use memory_core::wire;
use serde_json::json;

use crate::candidates::Candidate;
use crate::lanes::{self, LaneServices, Ranked};
use crate::render;
use crate::select::{self, Choice, Outcome};
use crate::settings::{CHARACTER_CAP, Settings};

/// Shows the sections that fit a turn.
pub struct SectionTier {
    settings: Settings,
    lanes: LaneServices,
    sections: Arc<dyn Sections>,
    residency: Arc<dyn Residency>,
    log: Option<Arc<dyn Log>>,
    waiting: CommitBook<Vec<ShownSection>>,
    turns: AtomicU64,
    degraded: AtomicU64,
}

impl fmt::Debug for SectionTier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SectionTier")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl MemoryTier for SectionTier {
    fn manifest() -> TierManifest {
        TierManifest {
            id: env!("CARGO_PKG_NAME").to_owned(),
            tier: Tier::V3,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            requires: vec![
                Capability::Pages,
                Capability::Sections,
                Capability::Lexical,
                Capability::Residency,
            ],
            uses: vec![Capability::Dense, Capability::Log],
        }
    }

    fn create(services: Services, config: &str) -> Result<Self, TierError> {
        let missing = |capability: Capability| ServiceError::NotOffered {
            capability: capability.name().to_owned(),
        };
        Ok(Self {
            settings: Settings::parse(config)?,
            lanes: LaneServices {
                pages: services.pages.ok_or_else(|| missing(Capability::Pages))?,
                lexical: services
                    .lexical
                    .ok_or_else(|| missing(Capability::Lexical))?,
                dense: services.dense,
            },
            sections: services
                .sections
                .ok_or_else(|| missing(Capability::Sections))?,
            residency: services
                .residency
                .ok_or_else(|| missing(Capability::Residency))?,
            log: services.log,
            waiting: CommitBook::default(),
            turns: AtomicU64::new(0),
            degraded: AtomicU64::new(0),
        })
    }

    async fn begin_turn(&self, call: &Call, request: TurnRequest) -> Result<TurnPlan, TierError> {
        let Ranked {
            candidates,
            core,
            mut degraded,
        } = lanes::run(&self.lanes, &self.settings, call, &request).await?;
        let resident = self.resident(call, &request).await?;
        let mut choice = select::choose(&candidates, &core, &resident);
        let (pieces, shown) = self.read(call, &candidates, &mut choice).await?;

        self.turns.fetch_add(1, Ordering::Relaxed);
        if let Some(log) = &self.log
            && let Err(error) = log.append(call, vec![audit(&candidates, &choice)]).await
        {
            // A read-only turn has no log to write to, and that is no fault.
            if !matches!(error, ServiceError::Unavailable { .. }) {
                degraded.push(format!("log_failed: {error}"));
            }
        }
        if !degraded.is_empty() {
            self.degraded.fetch_add(1, Ordering::Relaxed);
        }

        let pool_size = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
        let already_resident = choice
            .resident
            .iter()
            .map(|at| candidates[*at].id.clone())
            .collect();
        let mut blocks = Vec::new();
        if !pieces.is_empty() {
            blocks.push(Block {
                id: wire::block::V3_MEMORY.to_owned(),
                tag: wire::tag::MEMORY.to_owned(),
                placement: Placement::AfterMemoryPrefix,
                order: wire::order::V3_MEMORY,
                priority: 100,
                mandatory: false,
                persistence_key: Some(wire::metadata::V3_INJECTED_BLOCK.to_owned()),
                text: render::block(&pieces),
                variants: Vec::new(),
                minimum_tokens: 0,
                commit: Some(self.waiting.issue(call, shown.clone())),
                shows: shown,
            });
        }
        Ok(TurnPlan {
            blocks,
            pool_size,
            already_resident,
            degraded,
        })
    }

    async fn commit(
        &self,
        call: &Call,
        token: CommitToken,
        message: String,
    ) -> Result<(), TierError> {
        let attaching = self.waiting.attach(call, &*self.residency, &token, message);
        if let (Some(shown), Some(log)) = (attaching.await?, &self.log) {
            let rows = shown.iter().map(ShownSection::selection);
            log.append(call, rows.collect()).await?;
        }
        Ok(())
    }

    async fn discard(&self, _call: &Call, token: CommitToken) -> Result<(), TierError> {
        self.waiting.take(&token);
        Ok(())
    }

    async fn on_event(&self, call: &Call, event: TierEvent) -> Result<(), TierError> {
        // The host owns residency: it copies and purges the rows of a conversation itself.
        if event.empties_context() {
            self.residency.clear(call).await?;
        }
        Ok(())
    }

    async fn explain(&self, call: &Call, request: TurnRequest) -> Result<Explanation, TierError> {
        let Ranked {
            candidates,
            core,
            degraded,
        } = lanes::run(&self.lanes, &self.settings, call, &request).await?;
        let resident = self.resident(call, &request).await?;
        let mut choice = select::choose(&candidates, &core, &resident);
        self.read(call, &candidates, &mut choice).await?;
        let candidates = candidates
            .into_iter()
            .zip(choice.outcomes)
            .map(|(candidate, outcome)| ExplainedCandidate {
                slug: candidate.id.slug.clone(),
                lanes: candidate
                    .found_by
                    .iter()
                    .map(|(lane, score, _)| (lane.name().to_owned(), *score))
                    .collect(),
                section: Some(candidate.id),
                fused: candidate.fused,
                outcome: outcome.name().to_owned(),
            })
            .collect();
        Ok(Explanation {
            candidates,
            notes: degraded,
        })
    }

    async fn stats(&self, _call: &Call) -> Result<TierStats, TierError> {
        Ok(TierStats {
            turns: self.turns.load(Ordering::Relaxed),
            committed_sections: self.waiting.attached(),
            degraded_turns: self.degraded.load(Ordering::Relaxed),
        })
    }

    async fn health(&self, call: &Call) -> Result<TierHealth, TierError> {
        let pages = self.lanes.pages.count(call).await?;
        Ok(TierHealth {
            ok: true,
            detail: format!("{pages} pages"),
        })
    }
}

impl SectionTier {
    /// Returns the sections that are in context. A page that another tier showed whole covers all its sections.
    async fn resident(
        &self,
        call: &Call,
        request: &TurnRequest,
    ) -> Result<HashSet<SectionId>, TierError> {
        if request.context_lost {
            return Ok(HashSet::new());
        }
        let active = self.residency.active(call).await?;
        let whole: Vec<_> = active
            .iter()
            .filter(|entry| entry.section.is_none())
            .map(|entry| entry.slug.clone())
            .collect();
        let mut resident: HashSet<SectionId> = active
            .into_iter()
            .filter_map(|entry| entry.section)
            .collect();
        if !whole.is_empty() {
            let pages = self.sections.of_pages(call, whole).await?;
            resident.extend(pages.into_iter().flatten().map(|entry| entry.id));
        }
        Ok(resident)
    }

    /// Reads the chosen texts and drops from the choice what is gone or does not fit.
    async fn read(
        &self,
        call: &Call,
        candidates: &[Candidate],
        choice: &mut Choice,
    ) -> Result<(Vec<String>, Vec<ShownSection>), TierError> {
        let core = choice.core.len();
        let chosen: Vec<usize> = choice.core.iter().chain(&choice.found).copied().collect();
        if chosen.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let ids = chosen.iter().map(|at| candidates[*at].id.clone()).collect();
        let texts = self.sections.texts(call, ids).await?;
        let (mut pieces, mut shown) = (Vec::new(), Vec::new());
        let mut room = CHARACTER_CAP;
        for (place, (at, text)) in chosen.into_iter().zip(texts).enumerate() {
            // A host hands out no untrusted text, and none is shown if it does.
            let Some(text) = text.filter(|text| text.entry.trust == Trust::Trusted) else {
                choice.outcomes[at] = Outcome::NotSelected;
                continue;
            };
            let piece = render::section(&text);
            if place >= core {
                // The first finding is always shown: a section is at most as long as the cap itself.
                let length = piece.chars().count();
                if length > room && room < CHARACTER_CAP {
                    choice.outcomes[at] = Outcome::OverCap;
                    continue;
                }
                room = room.saturating_sub(length);
            }
            let (lane, score) = candidates[at].owner();
            shown.push(ShownSection {
                section: candidates[at].id.clone(),
                lane: lane.name().to_owned(),
                score,
                bytes: piece.len() as u64,
            });
            pieces.push(piece);
        }
        Ok((pieces, shown))
    }
}

/// Returns the row that says what the whole pool was and what became of it.
fn audit(candidates: &[Candidate], choice: &Choice) -> LogRow {
    let pool: Vec<_> = candidates
        .iter()
        .zip(&choice.outcomes)
        .map(|(candidate, outcome)| {
            let lanes: Vec<_> = candidate
                .found_by
                .iter()
                .map(|(lane, score, rank)| json!([lane.name(), score, rank]))
                .collect();
            json!({
                "section": candidate.id,
                "lanes": lanes,
                "fused": candidate.fused,
                "outcome": outcome.name(),
            })
        })
        .collect();
    LogRow {
        kind: LogKind::PoolAudit,
        slug: None,
        body: json!({ "pool": pool }).to_string(),
    }
}
