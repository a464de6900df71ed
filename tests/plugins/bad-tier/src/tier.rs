//! The tier: a small one that is right, with the place of each fault marked by the rule it breaks.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory_core::predicates::Tier;
use memory_core::provenance::{Authority, Trust};
use memory_core::services::{
    Call, Capability, Kv, KvScope, Lexical, LexicalQuery, Log, LogKind, LogRow, Pages, Residency,
    Resident, SectionHit, SectionText, Sections, ServiceError, ServiceResult, Services,
};
use memory_core::text::block::{self, Tag};
use memory_core::text::memory_block;
use memory_core::text::section::SectionId;
use memory_core::tier::{
    Block, CommitBook, CommitToken, ExplainedCandidate, Explanation, MemoryTier, Placement,
    ShownSection, TierError, TierEvent, TierHealth, TierManifest, TierStats, TurnPlan, TurnRequest,
};

use crate::config::Config;
use crate::faults::{self, Bomb, Kept, SHARED, locked};

const TOPIC_KEY: &str = "topic";

/// The tier.
pub(crate) struct BadTier {
    config: Config,
    /// Every other instance that is told to answers in another order.
    number: u64,
    pages: Arc<dyn Pages>,
    sections: Arc<dyn Sections>,
    lexical: Arc<dyn Lexical>,
    residency: Arc<dyn Residency>,
    log: Option<Arc<dyn Log>>,
    kv: Option<Arc<dyn Kv>>,
    own_book: CommitBook<Vec<ShownSection>>,
    kept: Kept,
    turns: AtomicU64,
    committed: AtomicU64,
    degraded: AtomicU64,
}

/// What a turn would show.
struct Chosen {
    candidates: Vec<(SectionHit, &'static str)>,
    texts: Vec<(SectionText, f32)>,
    /// The text of a section that is not chosen.
    spare: Option<SectionText>,
    degraded: Vec<String>,
}

impl fmt::Debug for BadTier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BadTier")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Drop for BadTier {
    fn drop(&mut self) {
        self.config.panic_in("drop");
    }
}

#[async_trait]
impl MemoryTier for BadTier {
    fn manifest() -> TierManifest {
        TierManifest {
            id: "bad-tier".to_owned(),
            tier: Tier::V3,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            requires: vec![
                Capability::Pages,
                Capability::Sections,
                Capability::Lexical,
                Capability::Residency,
            ],
            uses: vec![Capability::Log, Capability::Kv],
        }
    }

    fn create(services: Services, config: &str) -> Result<Self, TierError> {
        let config = Config::parse(config)?;
        config.panic_in("create");
        let missing = |capability: Capability| {
            TierError::from(ServiceError::NotOffered {
                capability: capability.name().to_owned(),
            })
        };
        if config.rule == "capabilities" && services.kv.is_none() {
            return Err(missing(Capability::Kv));
        }
        let pages = services.pages.ok_or_else(|| missing(Capability::Pages))?;
        if config.rule == "lets-go" {
            std::mem::forget(Arc::clone(&pages));
        }
        Ok(Self {
            number: if config.rule == "same-answer" {
                faults::number()
            } else {
                0
            },
            config,
            pages,
            sections: services
                .sections
                .ok_or_else(|| missing(Capability::Sections))?,
            lexical: services
                .lexical
                .ok_or_else(|| missing(Capability::Lexical))?,
            residency: services
                .residency
                .ok_or_else(|| missing(Capability::Residency))?,
            log: services.log,
            kv: services.kv,
            own_book: CommitBook::default(),
            kept: Kept::default(),
            turns: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            degraded: AtomicU64::new(0),
        })
    }

    async fn begin_turn(&self, call: &Call, request: TurnRequest) -> Result<TurnPlan, TierError> {
        self.config.panic_in("begin_turn");
        let bomb = Bomb(&self.config);
        if self.breaks("never-panics") {
            call.yield_now().await;
            self.config.panic_in("poll");
        }
        if self.breaks("deadline") && call.remaining_ms() < 60 {
            faults::block_the_thread();
        }
        if self.breaks("odd-requests") && request.user_message.is_empty() {
            return Err(TierError::Internal {
                reason: "an empty message".to_owned(),
            });
        }
        locked(&self.kept.message).clone_from(&request.user_message);
        *locked(&self.kept.call) = Some(call.clone());
        let mut chosen = self.choose(call, &request).await?;
        let audit = LogRow {
            kind: LogKind::PoolAudit,
            slug: None,
            body: "{}".to_owned(),
        };
        self.write_log(call, vec![audit], &mut chosen.degraded)
            .await?;
        if self.breaks("begin-records-nothing") {
            let rows = chosen
                .texts
                .iter()
                .map(|(text, _)| selection(&text.entry.id));
            self.write_log(call, rows.collect(), &mut chosen.degraded)
                .await?;
        }
        self.turns.fetch_add(1, Ordering::Relaxed);
        if !chosen.degraded.is_empty() {
            self.degraded.fetch_add(1, Ordering::Relaxed);
        }
        let resident = chosen
            .candidates
            .iter()
            .filter(|(_, outcome)| *outcome == "resident");
        let already_resident = resident.map(|(hit, _)| hit.id.clone()).collect();
        std::mem::forget(bomb);
        Ok(TurnPlan {
            pool_size: u32::try_from(chosen.candidates.len()).unwrap_or(u32::MAX),
            already_resident,
            degraded: chosen.degraded.clone(),
            blocks: self.block(call, chosen).into_iter().collect(),
        })
    }

    async fn commit(
        &self,
        call: &Call,
        token: CommitToken,
        mut message: String,
    ) -> Result<(), TierError> {
        self.config.panic_in("commit");
        let book = self.book();
        let taken = if self.breaks("commit-can-be-repeated") {
            book.take(&token)
        } else {
            book.get(&token)
        };
        let Some(shown) = taken else {
            return Ok(());
        };
        if self.breaks("commit-records") {
            message.push('x');
        }
        let resident: Vec<Resident> = shown
            .iter()
            .map(|shown| Resident {
                slug: shown.section.slug.clone(),
                section: Some(shown.section.clone()),
                bytes: shown.bytes,
            })
            .collect();
        self.residency.record(call, message, resident).await?;
        let counts = match self.config.rule.as_str() {
            "commit-can-be-repeated" | "commit-counts-once" => true,
            _ => book.take(&token).is_some(),
        };
        if counts {
            self.committed
                .fetch_add(shown.len() as u64, Ordering::Relaxed);
        }
        if self.breaks("lost-context-is-free") {
            let mut seen = locked(&self.kept.seen);
            let own = seen.entry(call.scope().conversation.clone()).or_default();
            own.extend(shown.into_iter().map(|shown| shown.section));
        }
        if let Some(kv) = &self.kv {
            let topic = Some("the roastery in Leith".to_owned());
            // Without its topic a follow-up finds less, and that is all.
            kv.put(call, KvScope::Conversation, TOPIC_KEY.to_owned(), topic)
                .await
                .ok();
        }
        Ok(())
    }

    async fn discard(&self, _call: &Call, token: CommitToken) -> Result<(), TierError> {
        self.config.panic_in("discard");
        if !self.breaks("discard-forgets") {
            self.book().take(&token);
        }
        Ok(())
    }

    async fn on_event(&self, call: &Call, event: TierEvent) -> Result<(), TierError> {
        self.config.panic_in("on_event");
        match event {
            TierEvent::Delete => {
                locked(&self.kept.seen).remove(&call.scope().conversation);
                if let Some(kv) = &self.kv
                    && !self.breaks("delete-forgets")
                {
                    kv.put(call, KvScope::Conversation, TOPIC_KEY.to_owned(), None)
                        .await?;
                }
            }
            TierEvent::ClearAll => locked(&self.kept.seen).clear(),
            TierEvent::Fork { .. } if self.breaks("fork-keeps") => {
                self.residency.clear(call).await?
            }
            TierEvent::MemoryOff if self.breaks("events-are-answered") => {
                return Err(TierError::Internal {
                    reason: "it would rather not".to_owned(),
                });
            }
            _ => {}
        }
        Ok(())
    }

    async fn explain(&self, call: &Call, request: TurnRequest) -> Result<Explanation, TierError> {
        self.config.panic_in("explain");
        *locked(&self.kept.call) = Some(call.clone());
        let chosen = self.choose(call, &request).await?;
        if self.breaks("explain-records-nothing")
            && let Some(kv) = &self.kv
        {
            let put = kv.put(
                call,
                KvScope::Assistant,
                "explained".to_owned(),
                Some(String::new()),
            );
            put.await.ok();
        }
        if self.breaks("stats-count") {
            self.turns.fetch_add(1, Ordering::Relaxed);
        }
        let mut candidates: Vec<ExplainedCandidate> = chosen
            .candidates
            .into_iter()
            .map(|(hit, outcome)| ExplainedCandidate {
                slug: hit.id.slug.clone(),
                section: Some(hit.id),
                lanes: vec![("words".to_owned(), hit.score)],
                fused: hit.score,
                outcome: outcome.to_owned(),
            })
            .collect();
        if self.breaks("explain-agrees")
            && let Some(first) = candidates.first_mut()
        {
            "not_selected".clone_into(&mut first.outcome);
        }
        Ok(Explanation {
            candidates,
            notes: chosen.degraded,
        })
    }

    async fn stats(&self, _call: &Call) -> Result<TierStats, TierError> {
        self.config.panic_in("stats");
        Ok(TierStats {
            turns: self.turns.load(Ordering::Relaxed),
            committed_sections: self.committed.load(Ordering::Relaxed),
            degraded_turns: self.degraded.load(Ordering::Relaxed),
        })
    }

    async fn health(&self, call: &Call) -> Result<TierHealth, TierError> {
        self.config.panic_in("health");
        let pages = self.pages.count(call).await;
        if pages.is_err() && self.breaks("health") {
            self.kept.pages_failed.store(true, Ordering::Relaxed);
        }
        let pages = pages?;
        Ok(TierHealth {
            ok: !self.kept.pages_failed.load(Ordering::Relaxed),
            detail: format!("{pages} pages"),
        })
    }
}

impl BadTier {
    fn breaks(&self, rule: &str) -> bool {
        self.config.rule == rule
    }

    fn book(&self) -> &CommitBook<Vec<ShownSection>> {
        if self.breaks("instances-apart") {
            &SHARED
        } else {
            &self.own_book
        }
    }

    /// Returns the call to ask services with.
    fn call_for(&self, own: &Call) -> Call {
        let newest = locked(&self.kept.call).clone();
        newest
            .filter(|_| self.breaks("call-is-passed"))
            .unwrap_or_else(|| own.clone())
    }

    async fn choose(&self, call: &Call, request: &TurnRequest) -> Result<Chosen, TierError> {
        let mut degraded = Vec::new();
        let text = self.search_text(call, request, &mut degraded).await?;
        let hits = self.search(call, text).await;
        if hits.is_err() && self.breaks("recovers") {
            self.kept.lexical_failed.store(true, Ordering::Relaxed);
        }
        if self.kept.lexical_failed.load(Ordering::Relaxed) {
            degraded.push("lexical_unavailable".to_owned());
        }
        let hits = hits?;
        let call = &self.call_for(call);
        let resident = self.resident(call, request).await?;
        if hits.is_empty() && call.scope().requester.authority != Authority::Owner {
            return Ok(self.remembered(degraded));
        }

        let mut candidates: Vec<(SectionHit, &'static str)> = Vec::new();
        for (rank, hit) in hits.into_iter().enumerate() {
            let is_resident = resident.iter().any(|(slug, section)| match section {
                Some(section) => *section == hit.id,
                None => *slug == hit.id.slug,
            });
            let outcome = match (rank < self.config.notes, is_resident) {
                (true, true) => "resident",
                (true, false) => "selected",
                (false, _) => "over_cap",
            };
            candidates.push((hit, outcome));
        }
        let wanted: Vec<usize> = (0..candidates.len())
            .filter(|at| candidates[*at].1 == "selected")
            .collect();
        let ids = wanted
            .iter()
            .map(|at| candidates[*at].0.id.clone())
            .collect();
        let answers = self.sections.texts(call, ids).await?;
        let mut texts = Vec::new();
        for (place, at) in wanted.into_iter().enumerate() {
            let answer = if self.breaks("nonsense-does-no-harm") {
                answers[place].clone()
            } else {
                answers.get(place).cloned().flatten()
            };
            let trusted = |text: &SectionText| {
                text.entry.trust == Trust::Trusted || self.breaks("untrusted-stays-out")
            };
            match answer.filter(trusted) {
                Some(text) => texts.push((text, candidates[at].0.score)),
                None => candidates[at].1 = "not_selected",
            }
        }
        let spare = self.spare(call, &candidates).await?;
        if self.breaks("requesters-apart") && call.scope().requester.authority == Authority::Owner {
            *locked(&self.kept.owners) = texts.iter().map(|(text, _)| text.clone()).collect();
        }
        Ok(Chosen {
            candidates,
            texts,
            spare,
            degraded,
        })
    }

    /// Returns what the owner was shown last, for somebody who may see nothing; empty unless that rule is broken.
    fn remembered(&self, degraded: Vec<String>) -> Chosen {
        let texts: Vec<_> = locked(&self.kept.owners)
            .iter()
            .map(|text| (text.clone(), 1.0))
            .collect();
        let candidate = |(text, score): &(SectionText, f32)| {
            let hit = SectionHit {
                id: text.entry.id.clone(),
                score: *score,
            };
            (hit, "selected")
        };
        Chosen {
            candidates: texts.iter().map(candidate).collect(),
            texts,
            spare: None,
            degraded,
        }
    }

    async fn search_text(
        &self,
        call: &Call,
        request: &TurnRequest,
        degraded: &mut Vec<String>,
    ) -> Result<String, TierError> {
        let message = request.user_message.clone();
        let is_follow_up = message.chars().count() < 24;
        let (true, Some(kv)) = (is_follow_up, &self.kv) else {
            return Ok(message);
        };
        match kv
            .get(call, KvScope::Conversation, TOPIC_KEY.to_owned())
            .await
        {
            Ok(topic) => Ok(format!("{message} {}", topic.unwrap_or_default())),
            Err(ServiceError::Cancelled) => Err(TierError::Cancelled),
            Err(error) => {
                if !self.breaks("degraded-is-named") {
                    degraded.push(format!("kv_unavailable: {error}"));
                }
                Ok(message)
            }
        }
    }

    async fn search(&self, call: &Call, text: String) -> ServiceResult<Vec<SectionHit>> {
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let query = LexicalQuery {
            text,
            head_weight: 2.0,
            body_weight: 1.0,
            k1: 1.2,
            b: 0.75,
            limit: 40,
            best_per_page: false,
        };
        loop {
            let hits = self.lexical.search(call, query.clone()).await;
            if self.breaks("cancellation") && hits == Err(ServiceError::Cancelled) {
                call.yield_now().await;
                continue;
            }
            let mut seen = HashSet::new();
            let hits = hits?.into_iter().filter(|hit| hit.score.is_finite());
            return Ok(hits.filter(|hit| seen.insert(hit.id.clone())).collect());
        }
    }

    async fn resident(
        &self,
        call: &Call,
        request: &TurnRequest,
    ) -> Result<Vec<(memory_core::text::slug::Slug, Option<SectionId>)>, TierError> {
        let mut resident = Vec::new();
        if !request.context_lost {
            let active = self.residency.active(call).await;
            let active = if self.breaks("failures-are-typed") {
                active.expect("residency always answers")
            } else {
                active?
            };
            let counts = |tier| tier == Tier::V3 || !self.breaks("nothing-twice");
            let active = active.into_iter().filter(|entry| counts(entry.tier));
            resident.extend(active.map(|entry| (entry.slug, entry.section)));
        }
        let seen = locked(&self.kept.seen);
        let own = seen.get(&call.scope().conversation).into_iter().flatten();
        resident.extend(own.map(|id| (id.slug.clone(), Some(id.clone()))));
        Ok(resident)
    }

    /// Returns the text of a section that was not chosen, when it is to be slipped into the block.
    async fn spare(
        &self,
        call: &Call,
        candidates: &[(SectionHit, &'static str)],
    ) -> Result<Option<SectionText>, TierError> {
        let over = candidates
            .iter()
            .find(|(_, outcome)| *outcome == "over_cap");
        match over.filter(|_| self.breaks("shows-what-it-claims")) {
            None => Ok(None),
            Some((hit, _)) => {
                let texts = self.sections.texts(call, vec![hit.id.clone()]).await?;
                Ok(texts.into_iter().next().flatten())
            }
        }
    }

    async fn write_log(
        &self,
        call: &Call,
        rows: Vec<LogRow>,
        degraded: &mut Vec<String>,
    ) -> Result<(), TierError> {
        let Some(log) = &self.log else {
            return Ok(());
        };
        match log.append(&self.call_for(call), rows).await {
            Ok(()) => Ok(()),
            Err(ServiceError::Cancelled) => Err(TierError::Cancelled),
            Err(ServiceError::Unavailable { .. }) if !self.breaks("read-only-turn") => Ok(()),
            Err(error) => {
                degraded.push(format!("log_failed: {error}"));
                Ok(())
            }
        }
    }

    fn block(&self, call: &Call, chosen: Chosen) -> Option<Block> {
        let mut texts = chosen.texts;
        if texts.is_empty() {
            return None;
        }
        if self.number % 2 == 1 {
            texts.reverse();
        }
        if let (Some(spare), Some((last, _))) = (chosen.spare, texts.last_mut()) {
            last.text.push('\n');
            last.text.push_str(&spare.text);
        }
        let full: Vec<String> = texts
            .iter()
            .map(|(text, _)| self.render(text, usize::MAX))
            .collect();
        let mut short: Vec<String> = texts
            .iter()
            .map(|(text, _)| self.render(text, 60))
            .collect();
        if self.breaks("variants-still-show") {
            short.pop();
        }
        let shows: Vec<ShownSection> = texts
            .iter()
            .zip(&full)
            .map(|((text, score), piece)| ShownSection {
                section: text.entry.id.clone(),
                lane: "words".to_owned(),
                score: *score,
                bytes: piece.len() as u64,
            })
            .collect();
        let preamble = self.preamble();
        let text = memory_block::render(&preamble, &full);
        let short = memory_block::render(&preamble, &short);
        // What was slipped in is not in the short form, and that is another fault.
        let is_shorter = short.len() < text.len() && !self.breaks("shows-what-it-claims");
        Some(Block {
            id: "bad-tier".to_owned(),
            tag: "memory".to_owned(),
            placement: Placement::AfterMemoryPrefix,
            order: 1_000,
            priority: 100,
            mandatory: false,
            persistence_key: Some("memoryV3InjectedBlock".to_owned()),
            variants: if is_shorter { vec![short] } else { Vec::new() },
            text,
            minimum_tokens: if self.breaks("blocks-are-valid") {
                u32::MAX
            } else {
                0
            },
            commit: Some(self.book().issue(call, shows.clone())),
            shows,
        })
    }

    fn preamble(&self) -> String {
        let mut preamble = "Notes:".to_owned();
        if self.breaks("parallel-turns") {
            let message = locked(&self.kept.message).clone();
            let letters = message.chars().filter(char::is_ascii_alphabetic);
            preamble.extend(letters.take(60));
        }
        preamble
    }

    fn render(&self, text: &SectionText, characters: usize) -> String {
        let id = &text.entry.id;
        let body: String = text.text.chars().take(characters).collect();
        let body = format!("{}\n{body}", text.page_title);
        if self.breaks("page-text-is-data") {
            return format!(
                "{}\n{}",
                memory_block::header(&id.slug, &text.entry.heading),
                body.trim_end()
            );
        }
        let heading = block::escape_closing(Tag::Memory, &text.entry.heading);
        let body = block::escape_closing(Tag::Memory, &body);
        memory_block::render_section(&id.slug, &heading, &body)
    }
}

fn selection(id: &SectionId) -> LogRow {
    LogRow {
        kind: LogKind::Selection,
        slug: Some(id.slug.clone()),
        body: "{}".to_owned(),
    }
}
