//! The tier itself: one instance for one assistant.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory_core::predicates::Tier;
use memory_core::services::{
    Call, Capability, Log, Pkb, PkbHit, Residency, ServiceError, Services,
};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::tier::{
    Block, CommitBook, CommitToken, ExplainedCandidate, Explanation, MemoryTier, Placement,
    ShownSection, TierError, TierEvent, TierHealth, TierManifest, TierStats, TurnPlan, TurnRequest,
};
use memory_core::wire;

use crate::render;
use crate::settings;

/// Most chunks a message brings.
const CHUNK_CAP: usize = 3;

/// How many files a search looks at.
const SEARCH_LIMIT: u32 = 8;

/// Shows a personal knowledge base.
pub struct KnowledgeBaseTier {
    pkb: Arc<dyn Pkb>,
    residency: Arc<dyn Residency>,
    log: Option<Arc<dyn Log>>,
    waiting: CommitBook<Vec<ShownSection>>,
    turns: AtomicU64,
}

/// Something that could be shown.
struct Part {
    id: SectionId,
    lane: &'static str,
    score: f32,
    text: String,
}

impl fmt::Debug for KnowledgeBaseTier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("KnowledgeBaseTier")
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl MemoryTier for KnowledgeBaseTier {
    fn manifest() -> TierManifest {
        TierManifest {
            id: env!("CARGO_PKG_NAME").to_owned(),
            tier: Tier::V1,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            requires: vec![Capability::Pkb, Capability::Residency],
            uses: vec![Capability::Log],
        }
    }

    fn create(services: Services, config: &str) -> Result<Self, TierError> {
        let missing = |capability: Capability| ServiceError::NotOffered {
            capability: capability.name().to_owned(),
        };
        settings::check(config)?;
        Ok(Self {
            pkb: services.pkb.ok_or_else(|| missing(Capability::Pkb))?,
            residency: services
                .residency
                .ok_or_else(|| missing(Capability::Residency))?,
            log: services.log,
            waiting: CommitBook::default(),
            turns: AtomicU64::new(0),
        })
    }

    async fn begin_turn(&self, call: &Call, request: TurnRequest) -> Result<TurnPlan, TierError> {
        let parts = self.candidates(call, &request).await?;
        let resident = self.resident(call, &request, &parts).await?;
        let pool_size = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        let (already, fresh): (Vec<Part>, Vec<Part>) = parts
            .into_iter()
            .partition(|part| resident.contains(&part.id));
        self.turns.fetch_add(1, Ordering::Relaxed);

        let mut blocks = Vec::new();
        if !fresh.is_empty() {
            let shown: Vec<ShownSection> = fresh
                .iter()
                .map(|part| ShownSection {
                    section: part.id.clone(),
                    lane: part.lane.to_owned(),
                    score: part.score,
                    bytes: part.text.len() as u64,
                })
                .collect();
            let texts: Vec<String> = fresh.into_iter().map(|part| part.text).collect();
            blocks.push(Block {
                id: wire::block::PKB_CONTEXT.to_owned(),
                tag: wire::tag::KNOWLEDGE_BASE.to_owned(),
                placement: Placement::AfterMemoryPrefix,
                order: wire::order::PKB_CONTEXT,
                priority: 100,
                mandatory: false,
                persistence_key: Some(wire::metadata::PKB_CONTEXT_BLOCK.to_owned()),
                text: render::inner(&texts),
                variants: Vec::new(),
                minimum_tokens: 0,
                commit: Some(self.waiting.issue(call, shown.clone())),
                shows: shown,
            });
        }
        Ok(TurnPlan {
            blocks,
            pool_size,
            already_resident: already.into_iter().map(|part| part.id).collect(),
            degraded: Vec::new(),
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
        if event.empties_context() {
            self.residency.clear(call).await?;
        }
        Ok(())
    }

    async fn explain(&self, call: &Call, request: TurnRequest) -> Result<Explanation, TierError> {
        let parts = self.candidates(call, &request).await?;
        let resident = self.resident(call, &request, &parts).await?;
        let candidates = parts
            .into_iter()
            .map(|part| ExplainedCandidate {
                slug: part.id.slug.clone(),
                lanes: vec![(part.lane.to_owned(), part.score)],
                fused: part.score,
                outcome: if resident.contains(&part.id) {
                    "resident"
                } else {
                    "selected"
                }
                .to_owned(),
                section: Some(part.id),
            })
            .collect();
        Ok(Explanation {
            candidates,
            notes: Vec::new(),
        })
    }

    async fn stats(&self, _call: &Call) -> Result<TierStats, TierError> {
        Ok(TierStats {
            turns: self.turns.load(Ordering::Relaxed),
            committed_sections: self.waiting.attached(),
            degraded_turns: 0,
        })
    }

    async fn health(&self, call: &Call) -> Result<TierHealth, TierError> {
        let files = self.pkb.always_shown(call).await?.len();
        Ok(TierHealth {
            ok: true,
            detail: format!("{files} files always shown"),
        })
    }
}

impl KnowledgeBaseTier {
    /// Returns the files that are always shown, then the best chunks of the others, best first, each once.
    async fn candidates(&self, call: &Call, request: &TurnRequest) -> Result<Vec<Part>, TierError> {
        let always = self.pkb.always_shown(call).await?;
        let hits = if request.user_message.trim().is_empty() {
            Vec::new()
        } else {
            self.pkb
                .search(call, request.user_message.clone(), SEARCH_LIMIT)
                .await?
        };
        let found = hits
            .iter()
            // A score that is no number says nothing, and could not be told to anybody.
            .filter(|hit| hit.fused.is_finite())
            .filter(|hit| always.iter().all(|file| file.path != hit.path))
            .take(CHUNK_CAP)
            .map(|hit| Part {
                id: chunk_id(&hit.path, hit.chunk),
                lane: lane(hit),
                score: hit.fused,
                text: render::part(&hit.path, &hit.text),
            });
        let always = always.iter().map(|file| Part {
            id: chunk_id(&file.path, 0),
            lane: "always",
            score: 1.0,
            text: render::part(&file.path, &file.text),
        });
        let mut seen = HashSet::new();
        Ok(always
            .chain(found)
            .filter(|part| seen.insert(part.id.clone()))
            .collect())
    }

    /// Returns which parts are in context. What was shown as a whole, by whichever tier, covers its chunks.
    async fn resident(
        &self,
        call: &Call,
        request: &TurnRequest,
        parts: &[Part],
    ) -> Result<HashSet<SectionId>, TierError> {
        if request.context_lost {
            return Ok(HashSet::new());
        }
        let active = self.residency.active(call).await?;
        let is_resident = |id: &SectionId| {
            active.iter().any(|entry| match &entry.section {
                Some(section) => section == id,
                None => entry.slug == id.slug,
            })
        };
        Ok(parts
            .iter()
            .map(|part| part.id.clone())
            .filter(is_resident)
            .collect())
    }
}

/// Returns the identity of a chunk. The folder keeps it apart from every concept page.
fn chunk_id(path: &str, chunk: u32) -> SectionId {
    SectionId {
        chunk,
        ..SectionId::lead(Slug::from_path(&format!("pkb/{path}")))
    }
}

fn lane(hit: &PkbHit) -> &'static str {
    match (hit.dense, hit.lexical) {
        (Some(_), Some(_)) => "hybrid",
        (Some(_), None) => "dense",
        (None, _) => "lexical",
    }
}
