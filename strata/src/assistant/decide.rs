//! The one decision of a turn: which settings hold, and what serves.
//!
//! Turns begin at once while somebody edits the settings, so two of them may have read different ones. If each made its
//! own wish come true, an older wish could come after a newer one and switch back. Decisions are therefore taken one
//! after the other, each by the newest settings that anybody has read, and what serves is held before the next is taken.
//! Nothing is waited for while one is taken: a turn that has to wait for a plugin to come up decides anew afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use memory_core::config::Config;
use memory_core::predicates::Tier;
use memory_core::services::Capability;
use memory_core::tier::{TierEvent, TierStats};
use memory_substrate::assistant::EngineStats;
use plugin_host::{LoadError, Newcomer, SlotError};
use serde::Serialize;

use super::{Assistant, Engine};
use crate::error::{StrataError, cause_chain};
use crate::incidents::Incident;
use crate::plugins::{Followed, Pin, Pinned, Serving};

/// What was decided.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) config: Arc<Config>,
    pub(super) pinned: Option<Pinned>,
    /// Why what serves is not what it should be.
    pub(super) reason: Option<String>,
}

impl Decided {
    pub(super) fn serving(&self) -> Option<Serving> {
        self.pinned.as_ref().map(|pinned| pinned.serving().clone())
    }
}

/// Which tier should serve and which one does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TierStatus {
    /// The tier the settings configure.
    pub configured: Tier,
    /// The plugin that serves; `None` when none does.
    pub serving: Option<Serving>,
    /// Why what serves is not what it should be.
    pub reason: Option<String>,
}

/// Turns begun since the assistant was opened, by what served them. Each is counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServedTurns {
    /// Turns that a tier served, by the tier; under [`Tier::Off`], turns begun while memory was off.
    pub by_tier: BTreeMap<Tier, u64>,
    /// Turns that nothing served although memory was on.
    pub unserved: u64,
}

/// Counters of an assistant.
#[derive(Clone, Debug)]
pub struct AssistantStats {
    /// Which tier should serve and which one does.
    pub tier: TierStatus,
    /// Which tiers have served.
    pub turns: ServedTurns,
    /// The stores' counters.
    pub engine: EngineStats,
    /// The serving instance's counters, which start at zero with each instance; `None` when none serves or it did not
    /// answer.
    pub tier_stats: Option<TierStats>,
}

/// What came of one look at the settings.
enum Decision {
    /// The settings, why they cannot be followed, what serves, and what is waited for.
    Made((Arc<Config>, Option<Arc<LoadError>>, Pin, Option<String>)),
    /// A plugin is coming up, and there is time for it.
    Awaits(Newcomer),
}

/// How often one turn waits for plugins to come up. Settings that change faster than that are for the next turn.
const WAITS: u32 = 32;

/// How long one turn has waited for plugins to come up, all of them together, and how often.
#[derive(Debug, Default)]
struct Waited {
    time: Duration,
    times: u32,
}

impl Waited {
    fn is_over(&self, newcomer: &Newcomer) -> bool {
        self.time >= newcomer.patience() || self.times >= WAITS
    }

    async fn wait(&mut self, newcomer: &Newcomer) {
        let start = Instant::now();
        let left = newcomer.patience().saturating_sub(self.time);
        self.times += 1;
        let ended = tokio::time::timeout(left, newcomer.ended()).await;
        self.time = match ended {
            Ok(()) => self.time + start.elapsed(),
            // Exactly, so that what is over is over.
            Err(_) => newcomer.patience(),
        };
    }
}

/// Counts turns.
#[derive(Debug, Default)]
pub(super) struct TurnCounters {
    by_tier: [AtomicU64; Tier::ALL.len()],
    unserved: AtomicU64,
}

impl TurnCounters {
    pub(super) fn count(&self, configured: Tier, serving: Option<Tier>) {
        let served_by = match (configured, serving) {
            (_, Some(tier)) => Some(tier),
            (Tier::Off, None) => Some(Tier::Off),
            (_, None) => None,
        };
        let counter = Tier::ALL
            .iter()
            .zip(&self.by_tier)
            .find(|(tier, _)| Some(**tier) == served_by)
            .map_or(&self.unserved, |(_, counter)| counter);
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> ServedTurns {
        ServedTurns {
            by_tier: Tier::ALL
                .into_iter()
                .zip(&self.by_tier)
                .map(|(tier, counter)| (tier, counter.load(Ordering::Relaxed)))
                .collect(),
            unserved: self.unserved.load(Ordering::Relaxed),
        }
    }
}

impl Assistant {
    /// Returns which tier should serve and which one does, making it serve if need be.
    pub async fn tier_status(&self) -> Result<TierStatus, StrataError> {
        Ok(self.decided_status().await?.0)
    }

    /// Returns the counters.
    pub async fn stats(&self) -> Result<AssistantStats, StrataError> {
        let (tier, pinned) = self.decided_status().await?;
        let engine = self.engine().await?;
        let mut tier_stats = None;
        if let Some(pinned) = pinned {
            let answer = pinned.stats(&self.quiet_call("stats")).await;
            tier_stats = self.noted(engine, pinned.serving(), answer).await.ok();
        }
        Ok(AssistantStats {
            tier,
            turns: self.served.read(),
            engine: engine.store.stats().await?,
            tier_stats,
        })
    }

    async fn decided_status(&self) -> Result<(TierStatus, Option<Pinned>), StrataError> {
        let config = self.look().await?.config;
        if config.tier() == Tier::Off && self.opened().is_none() {
            let status = TierStatus {
                configured: Tier::Off,
                serving: None,
                reason: None,
            };
            return Ok((status, None));
        }
        let decided = self.decide(self.engine().await?).await;
        let status = TierStatus {
            configured: decided.config.tier(),
            serving: decided.serving(),
            reason: decided.reason,
        };
        Ok((status, decided.pinned))
    }

    /// Makes the tier that the newest settings configure serve, and holds it.
    pub(super) async fn decide(&self, engine: &Engine) -> Decided {
        let mut waited = Waited::default();
        let (config, problem, pin, waiting) = loop {
            let newcomer = match self.decide_now(engine, &waited) {
                Decision::Made(made) => break made,
                Decision::Awaits(newcomer) => newcomer,
            };
            waited.wait(&newcomer).await;
        };
        let tier = config.tier();
        let mut reason = problem
            .as_ref()
            .map(|error| cause_chain(error.as_ref()).join(": "))
            .or(waiting);
        let pinned = match pin {
            Pin::Held(pinned) => Some(pinned),
            Pin::Nothing => None,
            Pin::Another => {
                reason.get_or_insert_with(|| format!("tier {tier} does not serve yet"));
                None
            }
        };
        let (state, now) = (engine.store.state(), self.options.clock.now());
        let seen = engine.desk.incidents();
        engine.incidents.note_seen(state, seen, now).await;
        match &problem {
            Some(error) => self.note_problem(engine, &config, error).await,
            None if pinned.is_some() => engine.incidents.recovered(),
            None => {}
        }
        Decided {
            config,
            pinned,
            reason,
        }
    }

    /// Decides by the newest settings, unless there is something to wait for and time for it.
    fn decide_now(&self, engine: &Engine, waited: &Waited) -> Decision {
        let _deciding = engine
            .deciding
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Not what the caller has read: whoever was here before may know better.
        let config = self.settings.in_force().config;
        let tier = config.tier();
        if tier == Tier::Off {
            self.say_memory_is_off(engine);
        }
        let Followed { newcomer, problem } = engine.follow(&config);
        match newcomer.filter(|newcomer| !waited.is_over(newcomer)) {
            Some(newcomer) => Decision::Awaits(newcomer),
            None => Decision::Made((
                config,
                problem,
                engine.desk.pin(tier),
                engine.desk.waiting(),
            )),
        }
    }

    /// Tells the instance that has served until now that memory was switched off. Nobody waits for its answer; the hold
    /// on it delays its end until it has given one.
    fn say_memory_is_off(&self, engine: &Engine) {
        let serving = Tier::ALL
            .into_iter()
            .find_map(|tier| engine.desk.pin(tier).held());
        if let Some(pinned) = serving {
            let call = self.quiet_call("event");
            drop(tokio::spawn(async move {
                if let Err(error) = pinned.on_event(&call, TierEvent::MemoryOff).await {
                    tracing::warn!(%error, "the tier could not be told that memory was switched off");
                }
            }));
        }
    }

    async fn note_problem(&self, engine: &Engine, config: &Config, error: &LoadError) {
        let tier = config.tier();
        let plugin = config.plugins.id(tier).unwrap_or_default();
        let incident = Incident::refused(tier, plugin, error, self.options.clock.now());
        engine.incidents.note(engine.store.state(), incident).await;
    }

    /// Writes down that a call of a plugin failed, if it did, and returns the answer.
    pub(super) async fn noted<T>(
        &self,
        engine: &Engine,
        serving: &Serving,
        answer: Result<T, SlotError>,
    ) -> Result<T, SlotError> {
        if let Err(error) = &answer {
            let incident = Incident::of_call(serving, error, self.options.clock.now());
            if let Some(incident) = incident {
                engine.incidents.note(engine.store.state(), incident).await;
            }
        }
        answer
    }
}

impl Engine {
    /// Begins to make the configured tier serve if it does not.
    fn follow(&self, config: &Arc<Config>) -> Followed {
        let services = self
            .stopwatches
            .wrap(self.store.services(config.tier(), &Capability::ALL));
        self.desk.follow(config, &services)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_is_counted_under_what_served_it() {
        let counters = TurnCounters::default();
        counters.count(Tier::V3, Some(Tier::V3));
        counters.count(Tier::V3, Some(Tier::V3));
        counters.count(Tier::Off, None);
        counters.count(Tier::V2, None);
        let counted = counters.read();
        assert_eq!(counted.unserved, 1);
        let expected = [(Tier::Off, 1), (Tier::V1, 0), (Tier::V2, 0), (Tier::V3, 2)];
        assert_eq!(counted.by_tier, BTreeMap::from(expected));
    }
}
