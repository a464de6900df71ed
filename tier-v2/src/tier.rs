//! The tier itself: one instance for one assistant.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory_core::predicates::Tier;
use memory_core::provenance::Trust;
use memory_core::services::{
    Call, Capability, Kv, KvScope, Log, LogKind, LogRow, Pages, Residency, Sections, ServiceError,
    Services,
};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::tier::{
    Block, CommitBook, CommitToken, ExplainedCandidate, Explanation, MemoryTier, Placement,
    ShownSection, TierError, TierEvent, TierHealth, TierManifest, TierStats, TurnPlan, TurnRequest,
};
use memory_core::wire;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::activation::{self, Searches, Similarities, Similarity};
use crate::render;
use crate::settings::{self, CHARACTER_CAP, Settings};
use crate::spread::{self, Links};

/// Key under which a conversation's activation is kept.
const ACTIVATION_KEY: &str = "activation";

/// Identifier of the block.
const BLOCK_ID: &str = "memory-v2";

/// Its position among the blocks before a message: above the static ones.
const BLOCK_ORDER: i32 = 29;

/// Shows the pages that are most active.
pub struct ActivationTier {
    settings: Settings,
    searches: Searches,
    pages: Arc<dyn Pages>,
    sections: Arc<dyn Sections>,
    residency: Arc<dyn Residency>,
    kv: Arc<dyn Kv>,
    log: Option<Arc<dyn Log>>,
    waiting: CommitBook<Pending>,
    turns: AtomicU64,
    degraded: AtomicU64,
}

/// What is written once a turn's block was attached.
#[derive(Clone)]
struct Pending {
    shown: Vec<ShownSection>,
    log: LogRow,
}

impl AsRef<[ShownSection]> for Pending {
    fn as_ref(&self) -> &[ShownSection] {
        &self.shown
    }
}

/// One turn's activations, most active first.
struct Activated {
    ranked: Vec<(Slug, f64)>,
    own: BTreeMap<Slug, f64>,
    before: Similarity,
    degraded: Vec<String>,
}

/// A conversation's activation as it is kept between turns.
///
/// What a turn began with stays beside what it came to, so that a turn that is begun again decays nothing twice.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    turn: u64,
    before: Similarity,
    after: Similarity,
}

impl fmt::Debug for ActivationTier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ActivationTier")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl MemoryTier for ActivationTier {
    fn manifest() -> TierManifest {
        TierManifest {
            id: env!("CARGO_PKG_NAME").to_owned(),
            tier: Tier::V2,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            requires: vec![
                Capability::Pages,
                Capability::Sections,
                Capability::Lexical,
                Capability::Residency,
                Capability::Kv,
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
            searches: Searches {
                lexical: services
                    .lexical
                    .ok_or_else(|| missing(Capability::Lexical))?,
                dense: services.dense,
            },
            pages: services.pages.ok_or_else(|| missing(Capability::Pages))?,
            sections: services
                .sections
                .ok_or_else(|| missing(Capability::Sections))?,
            residency: services
                .residency
                .ok_or_else(|| missing(Capability::Residency))?,
            kv: services.kv.ok_or_else(|| missing(Capability::Kv))?,
            log: services.log,
            waiting: CommitBook::default(),
            turns: AtomicU64::new(0),
            degraded: AtomicU64::new(0),
        })
    }

    async fn begin_turn(&self, call: &Call, request: TurnRequest) -> Result<TurnPlan, TierError> {
        let mut activated = self.activate(call, &request).await?;
        let resident = self.resident(call, &request).await?;
        let top = &activated.ranked[..activated.ranked.len().min(self.settings.v2.top_k as usize)];
        let (already, fresh): (Vec<_>, Vec<_>) = top
            .iter()
            .cloned()
            .partition(|(slug, _)| resident.contains(slug));
        let (pieces, shown) = self.read(call, &fresh).await?;
        self.keep(call, &activated)
            .await
            .or_else(|error| match error {
                // A read-only turn keeps nothing, and that is no fault.
                ServiceError::Unavailable { .. } => Ok(()),
                error => Err(error),
            })?;

        self.turns.fetch_add(1, Ordering::Relaxed);
        if !activated.degraded.is_empty() {
            self.degraded.fetch_add(1, Ordering::Relaxed);
        }
        let pool_size = u32::try_from(activated.ranked.len()).unwrap_or(u32::MAX);
        let mut blocks = Vec::new();
        if !pieces.is_empty() {
            let pending = Pending {
                shown: shown.clone(),
                log: activation_row(&activated, &shown),
            };
            blocks.push(Block {
                id: BLOCK_ID.to_owned(),
                tag: wire::tag::MEMORY.to_owned(),
                placement: Placement::Prepend,
                order: BLOCK_ORDER,
                priority: 100,
                mandatory: false,
                persistence_key: Some(wire::metadata::INJECTED_BLOCK.to_owned()),
                text: render::block(&pieces),
                variants: Vec::new(),
                minimum_tokens: 0,
                commit: Some(self.waiting.issue(call, pending)),
                shows: shown,
            });
        }
        Ok(TurnPlan {
            blocks,
            pool_size,
            already_resident: already
                .into_iter()
                .map(|(slug, _)| SectionId::lead(slug))
                .collect(),
            degraded: std::mem::take(&mut activated.degraded),
        })
    }

    async fn commit(
        &self,
        call: &Call,
        token: CommitToken,
        message: String,
    ) -> Result<(), TierError> {
        let attaching = self.waiting.attach(call, &*self.residency, &token, message);
        if let (Some(pending), Some(log)) = (attaching.await?, &self.log) {
            log.append(call, vec![pending.log]).await?;
        }
        Ok(())
    }

    async fn discard(&self, _call: &Call, token: CommitToken) -> Result<(), TierError> {
        self.waiting.take(&token);
        Ok(())
    }

    async fn on_event(&self, call: &Call, event: TierEvent) -> Result<(), TierError> {
        if event.empties_context() {
            // What was active stays active.
            self.residency.clear(call).await?;
        } else if event == TierEvent::Delete {
            let key = ACTIVATION_KEY.to_owned();
            self.kv.put(call, KvScope::Conversation, key, None).await?;
        }
        Ok(())
    }

    async fn explain(&self, call: &Call, request: TurnRequest) -> Result<Explanation, TierError> {
        let activated = self.activate(call, &request).await?;
        let resident = self.resident(call, &request).await?;
        let top_k = self.settings.v2.top_k as usize;
        let fresh: Vec<(Slug, f64)> = activated
            .ranked
            .iter()
            .take(top_k)
            .filter(|(slug, _)| !resident.contains(slug))
            .cloned()
            .collect();
        // What has nothing to show, or no room, is not shown by the turn either.
        let (_, shown) = self.read(call, &fresh).await?;
        let shown: HashSet<&Slug> = shown.iter().map(|shown| &shown.section.slug).collect();
        let candidates = activated
            .ranked
            .iter()
            .enumerate()
            .map(|(rank, (slug, activation))| ExplainedCandidate {
                slug: slug.clone(),
                section: Some(SectionId::lead(slug.clone())),
                lanes: vec![(
                    "own".to_owned(),
                    settings::single(activated.own.get(slug).copied().unwrap_or(0.0)),
                )],
                fused: settings::single(*activation),
                outcome: if rank >= top_k {
                    "over_cap"
                } else if resident.contains(slug) {
                    "resident"
                } else if shown.contains(slug) {
                    "selected"
                } else {
                    "not_selected"
                }
                .to_owned(),
            })
            .collect();
        Ok(Explanation {
            candidates,
            notes: activated.degraded,
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
        let pages = self.pages.count(call).await?;
        Ok(TierHealth {
            ok: true,
            detail: format!("{pages} pages"),
        })
    }
}

impl ActivationTier {
    async fn activate(&self, call: &Call, request: &TurnRequest) -> Result<Activated, TierError> {
        let now = self.pages.now_text(call).await?;
        let reply = request.previous_reply.as_deref().unwrap_or_default();
        let similarities = self
            .searches
            .similarities(&self.settings, call, &request.user_message, reply, &now)
            .await?;
        let before = self.before(call).await?;
        let before = self.visible(call, before, &similarities).await?;
        let own = activation::own(&self.settings, &before, &similarities);
        let slugs: Vec<Slug> = own.keys().cloned().collect();
        let outgoing = self.pages.links(call, slugs.clone()).await?;
        let links: Links = slugs
            .into_iter()
            .zip(outgoing)
            .map(|(slug, links)| (slug, links.into_iter().map(|link| link.target).collect()))
            .collect();
        let spread = spread::spread(
            &own,
            &links,
            self.settings.substrate.spread_k,
            self.settings.substrate.spread_hops,
        );
        let mut ranked: Vec<_> = spread
            .into_iter()
            .filter(|(_, activation)| *activation > self.settings.v2.epsilon)
            .collect();
        ranked.sort_by(|left, right| {
            right
                .1
                .total_cmp(&left.1)
                .then_with(|| left.0.cmp(&right.0))
        });
        let degraded = similarities
            .dense_missing
            .map(|reason| format!("dense_unavailable: {reason}"))
            .into_iter()
            .collect();
        Ok(Activated {
            ranked,
            own,
            before,
            degraded,
        })
    }

    /// Returns what was active when this turn began. An unreadable value counts as nothing.
    async fn before(&self, call: &Call) -> Result<Similarity, TierError> {
        let kept = self
            .kv
            .get(call, KvScope::Conversation, ACTIVATION_KEY.to_owned())
            .await?;
        let kept: Kept = kept
            .and_then(|json| serde_json::from_str(&json).ok())
            .unwrap_or_default();
        Ok(if kept.turn == call.scope().turn {
            kept.before
        } else {
            kept.after
        })
    }

    /// Leaves out pages that this requester may not see: another one may have made them active in this conversation.
    ///
    /// What a search of this very call found needs no second look.
    async fn visible(
        &self,
        call: &Call,
        mut before: Similarity,
        similarities: &Similarities,
    ) -> Result<Similarity, TierError> {
        let found = |slug: &Slug| {
            [
                &similarities.user,
                &similarities.assistant,
                &similarities.now,
            ]
            .iter()
            .any(|similarity| similarity.contains_key(slug))
        };
        let unsure: Vec<Slug> = before.keys().filter(|slug| !found(slug)).cloned().collect();
        if unsure.is_empty() {
            return Ok(before);
        }
        // A page that can be seen has a lead at least.
        let sections = self.sections.of_pages(call, unsure.clone()).await?;
        let mut sections = sections.into_iter();
        for slug in unsure {
            if sections.next().is_none_or(|sections| sections.is_empty()) {
                before.remove(&slug);
            }
        }
        Ok(before)
    }

    async fn keep(&self, call: &Call, activated: &Activated) -> Result<(), ServiceError> {
        let kept = Kept {
            turn: call.scope().turn,
            before: activated.before.clone(),
            after: activated.ranked.iter().cloned().collect(),
        };
        let json = serde_json::to_string(&kept).map_err(|error| ServiceError::Failed {
            reason: error.to_string(),
        })?;
        self.kv
            .put(
                call,
                KvScope::Conversation,
                ACTIVATION_KEY.to_owned(),
                Some(json),
            )
            .await
    }

    /// Returns the pages whose lead, or whole, is in context.
    async fn resident(
        &self,
        call: &Call,
        request: &TurnRequest,
    ) -> Result<HashSet<Slug>, TierError> {
        if request.context_lost {
            return Ok(HashSet::new());
        }
        let active = self.residency.active(call).await?;
        Ok(active
            .into_iter()
            .filter(|entry| entry.section.as_ref().is_none_or(SectionId::is_lead))
            .map(|entry| entry.slug)
            .collect())
    }

    async fn read(
        &self,
        call: &Call,
        chosen: &[(Slug, f64)],
    ) -> Result<(Vec<String>, Vec<ShownSection>), TierError> {
        if chosen.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let slugs: Vec<Slug> = chosen.iter().map(|(slug, _)| slug.clone()).collect();
        let leads = slugs
            .iter()
            .map(|slug| SectionId::lead(slug.clone()))
            .collect();
        let pages = self.pages.read(call, slugs).await?;
        let leads = self.sections.texts(call, leads).await?;
        let (mut pieces, mut shown) = (Vec::new(), Vec::new());
        let mut room = CHARACTER_CAP;
        for (((slug, activation), page), lead) in chosen.iter().zip(pages).zip(leads) {
            // A summary carries no trust of its own: it is trusted as the lead it stands for.
            let lead = lead.filter(|lead| lead.entry.trust == Trust::Trusted);
            let (Some(page), Some(lead)) = (page, lead) else {
                continue;
            };
            let Some(piece) = render::page(&page, Some(&lead.text)) else {
                continue;
            };
            let length = piece.chars().count();
            if length > room {
                break;
            }
            room -= length;
            shown.push(ShownSection {
                section: SectionId::lead(slug.clone()),
                lane: "activation".to_owned(),
                score: settings::single(*activation),
                bytes: piece.len() as u64,
            });
            pieces.push(piece);
        }
        Ok((pieces, shown))
    }
}

fn activation_row(activated: &Activated, shown: &[ShownSection]) -> LogRow {
    let pages: Vec<_> = activated
        .ranked
        .iter()
        .map(|(slug, value)| {
            json!({
                "slug": slug,
                "activation": value,
                "own": activated.own.get(slug),
                "shown": shown.iter().any(|shown| shown.section.slug == *slug),
            })
        })
        .collect();
    LogRow {
        kind: LogKind::Activation,
        slug: None,
        body: json!({ "pages": pages }).to_string(),
    }
}
