//! The beginning of a turn: from a message to an injection.
//!
//! Every step may fail and none may fail the turn. A step that fails leaves a notice, and the turn goes on with what is
//! there: a stale index still answers, a tier that is missing still leaves the static text, and a workspace that cannot
//! be read leaves an empty injection.

use std::sync::Arc;
use std::time::Instant;

use memory_core::abi::ErrorCode;
use memory_core::config::Config;
use memory_core::predicates::Tier;
use memory_core::provenance::Authority;
use memory_core::services::{CallScope, Notice, Requester, Severity};
use memory_core::store::StoreError;
use memory_core::tier::{Block, CommitToken, Explanation, TurnPlan, TurnRequest};

use super::beside::{Begun, TurnHome};
use super::conversation::{self, Place};
use super::decide::Decided;
use super::finish::Progress;
use super::{Assistant, Engine, call, info, plan};
use crate::error::{StrataError, cause_chain};
use crate::incidents::Incident;
use crate::layout;
use crate::plugins::Pinned;
use crate::turn::{InjectedSection, Injection, Timings, TurnInput, TurnTrace};

/// What is needed to finish a turn.
#[derive(Debug)]
pub(crate) struct PendingTurn {
    pub(super) input: TurnInput,
    /// Whether this turn leaves any trace in the stores.
    pub(super) recorded: bool,
    /// Where the message stands, once that is known.
    pub(super) place: Option<Place>,
    /// The instance that chose the blocks; it alone can commit them.
    pub(super) pinned: Option<Pinned>,
    /// What to commit, by block; a token of no block is committed in any case.
    pub(super) tokens: Vec<(String, CommitToken)>,
    /// How far its recording has come.
    pub(super) progress: tokio::sync::Mutex<Progress>,
    /// Which process can finish it.
    pub(super) home: TurnHome,
}

impl Assistant {
    /// Chooses what a message is shown with. Records nothing but the tier's own working state.
    ///
    /// This never fails: whatever goes wrong, the result says so in its notices and holds what could be had.
    pub async fn begin_turn(&self, input: TurnInput) -> Injection {
        let started = Instant::now();
        let home = match self.begin_there(&input).await {
            Begun::Here(home) => home,
            Begun::There(injection) => return *injection,
        };
        let looked = self.look().await;
        let settings = looked
            .as_ref()
            .map_or_else(|_| self.settings.in_force(), Clone::clone);
        let config = Arc::clone(&settings.config);
        let mut injection = empty(input, &config);
        injection.pending.home = home;
        injection.notices.extend(settings.notices());
        if let Err(error) = &looked {
            injection.fail("settings_unreadable", error);
        }
        self.fill(&mut injection, &config).await;
        injection.trace.timings.total = started.elapsed();
        let trace = &injection.trace;
        let serving = trace.serving.as_ref();
        if injection.pending.recorded {
            self.served
                .count(trace.configured, serving.map(|serving| serving.tier));
        }
        tracing::debug!(
            conversation = %trace.conversation,
            turn = trace.turn,
            configured = %trace.configured,
            serving = %serving.map_or(Tier::Off, |serving| serving.tier),
            plugin = serving.map(|serving| serving.plugin.as_str()),
            sha256 = serving.map(|serving| serving.sha256.as_str()),
            sections = trace.sections.len(),
            tokens = trace.used_tokens,
            notices = injection.notices.len(),
            total_us = trace.timings.total.as_micros(),
            "turn begun"
        );
        injection
    }

    /// Explains what `begin_turn` would choose for a message, and why. Records nothing.
    pub async fn explain(&self, input: TurnInput) -> Result<Explanation, StrataError> {
        let config = self.look().await?.config;
        if let Err(reason) = input.check() {
            return Err(StoreError::BadRequest { reason }.into());
        }
        if input.authority == Authority::None || config.tier() == Tier::Off {
            return Ok(Explanation::default());
        }
        let engine = self.engine().await?;
        engine.store.refresh().await?;
        let Decided {
            config,
            pinned,
            reason,
        } = self.decide(engine).await;
        let Some(pinned) = pinned else {
            let reason = reason.unwrap_or_else(|| "memory was switched off".to_owned());
            return Err(StrataError::NotServing { reason });
        };
        let place = conversation::locate(engine.store.state(), &*self.options.ids, &input).await?;
        let call = self.call(scope(&input, &place, "explain"));
        let request = self.request(&config, &input, &place);
        let answer = pinned.explain(&call, request).await;
        Ok(self.noted(engine, pinned.serving(), answer).await?)
    }

    async fn fill(&self, injection: &mut Injection, config: &Config) {
        let input = injection.pending.input.clone();
        if input.authority == Authority::None {
            injection.note(
                "no_authority",
                Severity::Info,
                "the speaker has no authority, so nothing is shown".to_owned(),
            );
            return;
        }
        if let Err(reason) = input.check() {
            injection.note("bad_request", Severity::Error, reason);
            return;
        }
        injection.pending.recorded = true;
        if config.tier() == Tier::Off {
            // The tier that may have served until now is let go.
            if let Some(engine) = self.opened() {
                drop(self.decide(engine).await);
            }
            return;
        }
        self.embedding.warm();
        let engine = match self.engine().await {
            Ok(engine) => engine,
            Err(error) => return injection.fail("memory_unavailable", &error),
        };
        injection.notices.extend(engine.take_opening());
        match engine.store.refresh().await {
            Ok(report) if report.waiting > 0 => engine.sync_in_background(),
            Ok(_) => {}
            Err(error) => injection.fail("refresh_failed", &error),
        }
        let place =
            match conversation::locate(engine.store.state(), &*self.options.ids, &input).await {
                Ok(place) => place,
                Err(error) => return injection.fail("memory_unavailable", &error),
            };
        injection.trace.turn = place.turn;
        injection.trace.message.clone_from(&place.message);
        if engine.store.is_writable()
            && let Err(error) = conversation::stand_on_branch(engine.store.state(), &input).await
        {
            injection.fail("branch_failed", &error);
        }

        let decided = self.decide(engine).await;
        let config = Arc::clone(&decided.config);
        injection.trace.configured = config.tier();
        let mut blocks = self.ask_tier(injection, engine, decided, &place).await;
        match info::block(&engine.store, &config, &input, self.options.clock.now()).await {
            Ok(info) => {
                for error in &info.unreadable {
                    let error = cause_chain(error).join(": ");
                    let message = format!("left out of what is always shown: {error}");
                    injection.note("static_info_incomplete", Severity::Warning, message);
                }
                blocks.extend(info.block);
            }
            Err(error) => injection.fail("static_info_failed", &error),
        }
        injection.pending.place = Some(place);
        self.place_blocks(injection, engine, blocks).await;
        injection.notices.extend(engine.store.take_notices());
    }

    /// Returns the blocks of the configured tier, or none and a notice.
    async fn ask_tier(
        &self,
        injection: &mut Injection,
        engine: &Engine,
        decided: Decided,
        place: &Place,
    ) -> Vec<Block> {
        let Decided {
            config,
            pinned,
            reason,
        } = decided;
        if let Some(reason) = reason {
            let (code, severity) = match pinned {
                Some(_) => ("tier_is_older", Severity::Warning),
                None => ("tier_not_serving", Severity::Error),
            };
            injection.note(code, severity, reason);
        }
        let Some(pinned) = pinned else {
            return Vec::new();
        };
        let serving = pinned.serving().clone();
        injection.trace.serving = Some(serving.clone());
        let input = &injection.pending.input;
        let call = self.call(scope(input, place, "prompt"));
        let request = self.request(&config, input, place);
        let stopwatch = engine.stopwatches.start(&call);
        let started = Instant::now();
        let answer = pinned.begin_turn(&call, request).await;
        injection.trace.timings.tier = started.elapsed();
        injection.trace.timings.embedding = stopwatch.read();
        injection.pending.pinned = Some(pinned);
        let plan = match self.noted(engine, &serving, answer).await {
            Ok(plan) => plan,
            Err(error) => {
                let timed_out = error.code() == Some(ErrorCode::DEADLINE);
                let code = if timed_out {
                    "tier_timed_out"
                } else {
                    "tier_failed"
                };
                injection.fail(code, &error);
                return Vec::new();
            }
        };
        if let Err(reason) = plan::check(&plan) {
            let incident = Incident::malformed(&serving, &reason, self.options.clock.now());
            engine.incidents.note(engine.store.state(), incident).await;
            let plugin = &serving.plugin;
            let message =
                format!("plugin `{plugin}`: `begin_turn` gave a malformed answer: {reason}");
            injection.note("tier_malformed", Severity::Error, message);
            let tokens = plan.blocks.into_iter().filter_map(|block| block.commit);
            self.give_up(engine, &injection.pending, place, tokens.collect())
                .await;
            return Vec::new();
        }
        injection.accept(plan)
    }

    async fn place_blocks(&self, injection: &mut Injection, engine: &Engine, blocks: Vec<Block>) {
        let laid = layout::lay_out(blocks, injection.trace.budget_tokens);
        injection.trace.used_tokens = laid.used_tokens;
        for block in &laid.blocks {
            injection
                .trace
                .sections
                .extend(block.shows.iter().map(|shown| InjectedSection {
                    section: shown.section.clone(),
                    lane: shown.lane.clone(),
                    score: shown.score,
                    bytes: shown.bytes,
                    block: block.id.clone(),
                }));
        }
        for dropped in &laid.dropped {
            let message = format!(
                "block `{}` was left out to keep within {} tokens: it {}",
                dropped.id, injection.trace.budget_tokens, dropped.reason
            );
            injection.note("block_dropped", Severity::Warning, message);
        }
        injection.trace.dropped = laid.dropped;
        injection.blocks = laid.blocks;
        injection.pending.tokens = laid.tokens;
        if laid.used_tokens > injection.trace.budget_tokens {
            let message = format!(
                "the blocks that must be shown cost {} tokens, {} more than allowed",
                laid.used_tokens,
                laid.used_tokens - injection.trace.budget_tokens
            );
            injection.note("over_budget", Severity::Warning, message);
        }
        if let Some(place) = &injection.pending.place {
            self.give_up(engine, &injection.pending, place, laid.discarded)
                .await;
        }
    }

    fn request(&self, config: &Config, input: &TurnInput, place: &Place) -> TurnRequest {
        let zone = &config.time_zone;
        let now = input.event_time.unwrap_or_else(|| self.options.clock.now());
        TurnRequest {
            user_message: place.text.clone(),
            previous_reply: place.previous_reply.clone(),
            recent: place.recent.clone(),
            situation: format!("{} ({zone})", now.civil_minute(zone)),
            context_lost: input.context_lost,
        }
    }
}

impl Injection {
    fn note(&mut self, code: &str, severity: Severity, message: String) {
        self.notices.push(Notice {
            code: code.to_owned(),
            severity,
            message,
        });
    }

    fn fail(&mut self, code: &str, error: &(dyn std::error::Error + 'static)) {
        self.note(code, Severity::Error, cause_chain(error).join(": "));
    }

    /// Takes over what a tier said beside its blocks, and returns the blocks.
    fn accept(&mut self, plan: TurnPlan) -> Vec<Block> {
        self.trace.pool_size = plan.pool_size;
        self.trace.already_resident = plan.already_resident;
        self.trace.degraded = plan.degraded;
        plan.blocks
    }
}

/// Returns an injection of nothing.
pub(super) fn empty(input: TurnInput, config: &Config) -> Injection {
    Injection {
        blocks: Vec::new(),
        trace: TurnTrace {
            conversation: input.conversation.clone(),
            turn: 0,
            message: input.message_id.clone().unwrap_or_default(),
            configured: config.tier(),
            serving: None,
            sections: Vec::new(),
            already_resident: Vec::new(),
            pool_size: 0,
            dropped: Vec::new(),
            budget_tokens: config.memory.retrieval.max_inject_tokens as usize,
            used_tokens: 0,
            degraded: Vec::new(),
            timings: Timings::default(),
        },
        notices: Vec::new(),
        pending: PendingTurn {
            input,
            recorded: false,
            place: None,
            pinned: None,
            tokens: Vec::new(),
            progress: tokio::sync::Mutex::default(),
            home: TurnHome::Here,
        },
    }
}

/// Returns the scope in which a turn's services are called.
pub(super) fn scope(input: &TurnInput, place: &Place, consumer: &str) -> CallScope {
    CallScope {
        requester: Requester {
            principal: input.principal.clone(),
            authority: input.authority,
            consumer: consumer.to_owned(),
        },
        channels: call::channels(input),
        as_of: input.as_of,
        known_at: input.known_at,
        conversation: input.conversation.clone(),
        turn: place.turn,
        trace_parent: input.trace_parent.clone(),
    }
}
