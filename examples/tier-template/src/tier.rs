//! The tier itself: one instance serves one assistant, for all its conversations and everybody who asks.
//!
//! A turn has three parts. `begin_turn` chooses and renders, and records nothing. The host then fits all blocks into its
//! budget and attaches what fits. Only after that it calls `commit`, or `discard` when the block was left out.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory_core::env::Clock;
use memory_core::predicates::Tier;
use memory_core::provenance::Trust;
use memory_core::services::{
    Call, Capability, Kv, KvScope, Lexical, LexicalQuery, Pages, Residency, Sections, ServiceError,
    Services,
};
use memory_core::text::section::SectionId;
use memory_core::tier::{
    Block, CommitBook, CommitToken, ExplainedCandidate, Explanation, MemoryTier, Placement,
    ShownSection, TierError, TierEvent, TierHealth, TierManifest, TierStats, TurnPlan, TurnRequest,
};
use memory_core::wire;

use crate::choose::{self, Candidate};
use crate::render::{self, Piece};
use crate::settings::Settings;

/// Identifier of the block, unique among the blocks of a turn.
const BLOCK_ID: &str = "fresh-notes";

/// The lane that traces name: which way a note was found. This tier has one way.
const LANE: &str = "words";

/// How many of the freshest pages are looked at.
const FRESH_PAGES: u32 = 200;

/// How many sections the word search may bring.
const HITS: u32 = 50;

/// Most notes shown in a turn.
const NOTES: usize = 6;

/// A message shorter than this is taken for a follow-up, such as "and when is that?".
const FOLLOW_UP_CHARACTERS: usize = 24;

/// Key under which the last message that brought notes is kept, for follow-ups.
const TOPIC_KEY: &str = "topic";

/// Shows the freshest notes that share words with the message.
pub struct FreshNotes {
    settings: Settings,
    // Required: without them there is no instance.
    pages: Arc<dyn Pages>,
    sections: Arc<dyn Sections>,
    lexical: Arc<dyn Lexical>,
    residency: Arc<dyn Residency>,
    // Used: there or absent.
    kv: Option<Arc<dyn Kv>>,
    clock: Option<Arc<dyn Clock>>,
    /// What was rendered and waits for its commit.
    waiting: CommitBook<Pending>,
    turns: AtomicU64,
    degraded: AtomicU64,
}

/// What is written once a block was really attached.
#[derive(Clone, Debug)]
struct Pending {
    shown: Vec<ShownSection>,
    /// The message, when it is worth keeping as the topic of follow-ups.
    topic: Option<String>,
}

/// Lets the book record what was shown.
impl AsRef<[ShownSection]> for Pending {
    fn as_ref(&self) -> &[ShownSection] {
        &self.shown
    }
}

/// What a turn would show, and what became of every candidate.
struct Chosen {
    candidates: Vec<(Candidate, Outcome)>,
    pieces: Vec<Piece>,
    shown: Vec<ShownSection>,
    degraded: Vec<String>,
}

/// What became of a candidate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Selected,
    Resident,
    OverCap,
    NotSelected,
}

impl Outcome {
    /// Returns the word that explanations use; hosts know these four.
    const fn name(self) -> &'static str {
        match self {
            Self::Selected => "selected",
            Self::Resident => "resident",
            Self::OverCap => "over_cap",
            Self::NotSelected => "not_selected",
        }
    }
}

impl fmt::Debug for FreshNotes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FreshNotes")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl MemoryTier for FreshNotes {
    fn manifest() -> TierManifest {
        TierManifest {
            // By this name `[plugins] v3 = "…"` chooses it, so it is the crate's name and nobody else's.
            id: env!("CARGO_PKG_NAME").to_owned(),
            tier: Tier::V3,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            // The same lists as in `Cargo.toml`; a difference is a load error. Ask for no more than is used: each is
            // something that can be missing.
            requires: vec![
                Capability::Pages,
                Capability::Sections,
                Capability::Lexical,
                Capability::Residency,
            ],
            uses: vec![Capability::Kv, Capability::Clock],
        }
    }

    fn create(services: Services, config: &str) -> Result<Self, TierError> {
        // A host hands out every required service or makes no instance, so these errors are for hosts that do not.
        let missing = |capability: Capability| ServiceError::NotOffered {
            capability: capability.name().to_owned(),
        };
        Ok(Self {
            settings: Settings::parse(config)?,
            pages: services.pages.ok_or_else(|| missing(Capability::Pages))?,
            sections: services
                .sections
                .ok_or_else(|| missing(Capability::Sections))?,
            lexical: services
                .lexical
                .ok_or_else(|| missing(Capability::Lexical))?,
            residency: services
                .residency
                .ok_or_else(|| missing(Capability::Residency))?,
            kv: services.kv,
            clock: services.clock,
            waiting: CommitBook::default(),
            turns: AtomicU64::new(0),
            degraded: AtomicU64::new(0),
        })
    }

    async fn begin_turn(&self, call: &Call, request: TurnRequest) -> Result<TurnPlan, TierError> {
        let chosen = self.choose(call, &request).await?;
        self.turns.fetch_add(1, Ordering::Relaxed);
        if !chosen.degraded.is_empty() {
            self.degraded.fetch_add(1, Ordering::Relaxed);
        }

        let pool_size = u32::try_from(chosen.candidates.len()).unwrap_or(u32::MAX);
        let resident = chosen
            .candidates
            .iter()
            .filter(|(_, outcome)| *outcome == Outcome::Resident);
        let already_resident = resident
            .map(|(candidate, _)| candidate.id.clone())
            .collect();
        // An event of the log carries the plugin's name by itself. Log numbers, never a person's words.
        tracing::debug!(pool_size, shown = chosen.shown.len(), "chosen");
        let blocks = self
            .block(call, &request, &chosen.pieces, chosen.shown)
            .into_iter()
            .collect();
        Ok(TurnPlan {
            blocks,
            pool_size,
            already_resident,
            degraded: chosen.degraded,
        })
    }

    async fn commit(
        &self,
        call: &Call,
        token: CommitToken,
        message: String,
    ) -> Result<(), TierError> {
        // Records what the token stands for as seen, and counts it. A commit that fails here can be repeated, because the
        // token is given up only after that.
        let attaching = self.waiting.attach(call, &*self.residency, &token, message);
        // Unknown, or used already: nothing to do. The host may repeat a commit whose answer it never saw.
        let Some(pending) = attaching.await? else {
            return Ok(());
        };
        if let (Some(kv), Some(topic)) = (&self.kv, pending.topic) {
            let key = TOPIC_KEY.to_owned();
            let put = kv.put(call, KvScope::Conversation, key, Some(topic)).await;
            // What was attached is recorded. A lost topic costs one follow-up and is no reason to fail.
            if let Err(error) = put {
                tracing::warn!(%error, "the topic of follow-ups was not kept");
            }
        }
        Ok(())
    }

    async fn discard(&self, _call: &Call, token: CommitToken) -> Result<(), TierError> {
        self.waiting.take(&token);
        Ok(())
    }

    async fn on_event(&self, call: &Call, event: TierEvent) -> Result<(), TierError> {
        match event {
            // What this tier keeps of a conversation goes away with it.
            TierEvent::Delete => {
                if let Some(kv) = &self.kv {
                    kv.put(call, KvScope::Conversation, TOPIC_KEY.to_owned(), None)
                        .await?;
                }
            }
            // What is in context is known by residency alone, and that is the host's: it has followed already. A tier with
            // a memory of its own would have to adjust it here.
            TierEvent::Compaction
            | TierEvent::Clean
            | TierEvent::Rewind { .. }
            | TierEvent::Fork { .. }
            | TierEvent::ClearAll
            | TierEvent::MemoryOff => {}
        }
        Ok(())
    }

    async fn explain(&self, call: &Call, request: TurnRequest) -> Result<Explanation, TierError> {
        // The very same choice as in `begin_turn`, so an explanation cannot differ from what it explains.
        let chosen = self.choose(call, &request).await?;
        let candidates = chosen
            .candidates
            .into_iter()
            .map(|(candidate, outcome)| ExplainedCandidate {
                slug: candidate.id.slug.clone(),
                section: Some(candidate.id),
                lanes: vec![(LANE.to_owned(), candidate.words)],
                fused: candidate.score,
                outcome: outcome.name().to_owned(),
            })
            .collect();
        Ok(Explanation {
            candidates,
            notes: chosen.degraded,
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
        // Asks for something cheap that needs the index. The host waits for this before the instance may serve.
        let pages = self.pages.count(call).await?;
        Ok(TierHealth {
            ok: true,
            detail: format!("{pages} pages"),
        })
    }
}

impl FreshNotes {
    /// Chooses and renders, and records nothing.
    ///
    /// A service this tier cannot do without ends the turn with its error (`?`): the host then serves the turn without
    /// memory and says why. Cancellation comes as such an error too, so nothing more needs to be done to stop early.
    async fn choose(&self, call: &Call, request: &TurnRequest) -> Result<Chosen, TierError> {
        let mut degraded = Vec::new();
        let candidates = self.candidates(call, request, &mut degraded).await?;
        let resident = self.resident(call, request, &candidates).await?;

        // What is in context keeps its place among the best, so that a repeated question does not push weaker notes in.
        let mut candidates: Vec<(Candidate, Outcome)> = candidates
            .into_iter()
            .enumerate()
            .map(|(rank, candidate)| {
                let outcome = if rank >= NOTES {
                    Outcome::OverCap
                } else if resident.contains(&candidate.id) {
                    Outcome::Resident
                } else {
                    Outcome::Selected
                };
                (candidate, outcome)
            })
            .collect();

        let selected: Vec<SectionId> = candidates
            .iter()
            .filter(|(_, outcome)| *outcome == Outcome::Selected)
            .map(|(candidate, _)| candidate.id.clone())
            .collect();
        let (mut pieces, mut shown) = (Vec::new(), Vec::new());
        if !selected.is_empty() {
            let texts = self.sections.texts(call, selected).await?;
            let mut texts = texts.into_iter();
            let mut room = self.settings.characters;
            for (candidate, outcome) in &mut candidates {
                if *outcome != Outcome::Selected {
                    continue;
                }
                // A note may be gone since it was indexed, and untrusted text is never put into a prompt.
                let text = texts.next().flatten();
                let Some(text) = text.filter(|text| text.entry.trust == Trust::Trusted) else {
                    *outcome = Outcome::NotSelected;
                    continue;
                };
                let piece = render::note(&text);
                let length = piece.full.chars().count();
                // The best note is shown at any length: the ledger has its shorter form.
                if length > room && !shown.is_empty() {
                    *outcome = Outcome::OverCap;
                    continue;
                }
                room = room.saturating_sub(length);
                shown.push(ShownSection {
                    section: candidate.id.clone(),
                    lane: LANE.to_owned(),
                    score: candidate.score,
                    bytes: piece.full.len() as u64,
                });
                pieces.push(piece);
            }
        }
        Ok(Chosen {
            candidates,
            pieces,
            shown,
            degraded,
        })
    }

    /// Asks the host for notes that share words with the message, and ranks them.
    async fn candidates(
        &self,
        call: &Call,
        request: &TurnRequest,
        degraded: &mut Vec<String>,
    ) -> Result<Vec<Candidate>, TierError> {
        let message = request.user_message.trim();
        if message.is_empty() {
            return Ok(Vec::new());
        }
        let mut text = message.to_owned();
        if is_follow_up(message)
            && let Some(topic) = self.topic(call, degraded).await?
        {
            text = format!("{message}\n{topic}");
        }
        let fresh = self.pages.freshest(call, FRESH_PAGES).await?;
        let query = LexicalQuery {
            text,
            // The head of a section is its page's title and its heading: words there say more.
            head_weight: 2.0,
            body_weight: 1.0,
            k1: 1.2,
            b: 0.75,
            limit: HITS,
            best_per_page: false,
        };
        let hits = self.lexical.search(call, query).await?;
        let now = self.clock.as_ref().map(|clock| clock.now());
        Ok(choose::rank(hits, &fresh, now))
    }

    /// Returns the last message that brought notes. Without it a follow-up finds less, which is said and is no failure.
    async fn topic(
        &self,
        call: &Call,
        degraded: &mut Vec<String>,
    ) -> Result<Option<String>, TierError> {
        let Some(kv) = &self.kv else {
            return Ok(None);
        };
        match kv
            .get(call, KvScope::Conversation, TOPIC_KEY.to_owned())
            .await
        {
            Ok(topic) => Ok(topic),
            Err(ServiceError::Cancelled) => Err(TierError::Cancelled),
            Err(error) => {
                degraded.push(format!("kv_unavailable: {error}"));
                Ok(None)
            }
        }
    }

    /// Returns which candidates are in context. A page that was shown whole, by whichever tier, covers its sections.
    async fn resident(
        &self,
        call: &Call,
        request: &TurnRequest,
        candidates: &[Candidate],
    ) -> Result<HashSet<SectionId>, TierError> {
        // The host has just lost its history, so whatever residency still says is not in context any more.
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
        Ok(candidates
            .iter()
            .map(|candidate| candidate.id.clone())
            .filter(is_resident)
            .collect())
    }

    /// Makes the block, or none when there is nothing new to show.
    fn block(
        &self,
        call: &Call,
        request: &TurnRequest,
        pieces: &[Piece],
        shown: Vec<ShownSection>,
    ) -> Option<Block> {
        if pieces.is_empty() {
            return None;
        }
        let (text, variants) = render::block(pieces);
        let message = request.user_message.trim();
        let pending = Pending {
            shown: shown.clone(),
            topic: (!is_follow_up(message)).then(|| message.to_owned()),
        };
        Some(Block {
            id: BLOCK_ID.to_owned(),
            // One of the tags hosts know; another one is refused.
            tag: wire::tag::MEMORY.to_owned(),
            placement: Placement::AfterMemoryPrefix,
            order: wire::order::V3_MEMORY,
            // When the budget is short, the ledger serves larger priorities first and takes the largest form that fits.
            priority: 100,
            mandatory: false,
            // The host keeps the block with its message under this name, so that the prompt's past stays as it was.
            persistence_key: Some(wire::metadata::V3_INJECTED_BLOCK.to_owned()),
            text,
            variants,
            minimum_tokens: 0,
            commit: Some(self.waiting.issue(call, pending)),
            shows: shown,
        })
    }
}

/// Returns whether a message is too short to stand by itself.
fn is_follow_up(message: &str) -> bool {
    message.chars().count() < FOLLOW_UP_CHARACTERS
}

#[cfg(test)]
mod tests;
