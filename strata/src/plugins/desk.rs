//! The desk of one assistant: which tier serves there, and how a turn holds on to it.
//!
//! The plugin host keeps the instances; what is added here is the wish, made from the settings, and the description of
//! what serves, which a turn carries in its trace.

use std::sync::{Arc, Mutex, PoisonError};

use memory_core::config::Config;
use memory_core::predicates::Tier;
use memory_core::predicates::registry::BUILT;
use memory_core::services::{Call, Services};
use memory_core::tier::{CommitToken, Explanation, TierEvent, TierStats, TurnPlan, TurnRequest};
use plugin_host::{
    Begun, BuildIncidents, LoadError, Newcomer, PinnedTurn, Slot, SlotError, Wanted,
};

use super::Serving;

/// Where the tier of one assistant serves.
#[derive(Debug)]
pub(crate) struct TierDesk {
    slot: Slot,
    /// The settings of the last wish; making one from them costs a digest.
    wanted: Mutex<Option<(Arc<Config>, Wanted)>>,
}

impl TierDesk {
    pub(super) fn new(slot: Slot) -> Self {
        Self {
            slot,
            wanted: Mutex::new(None),
        }
    }

    /// Begins to make the configured tier serve if it does not, and waits for nothing.
    pub(crate) fn follow(&self, config: &Arc<Config>, services: &Services) -> Followed {
        let wanted = self.wanted(config);
        let newcomer = match self.slot.begin(&wanted, services) {
            Begun::Settled(_) => None,
            Begun::Coming(newcomer) => Some(newcomer),
        };
        // The wish for a tier that was removed is the wish for none, and this is why.
        let problem = if let Err(removed) = BUILT.require(config.tier()) {
            Some(Arc::new(removed.into()))
        } else {
            let status = self.slot.status();
            status.problem.filter(|_| status.configured == wanted.tier)
        };
        Followed { newcomer, problem }
    }

    /// Begins to make a new instance of the configured tier, also when the same serves already; `None` when none is wanted.
    pub(crate) fn reload(&self, config: &Arc<Config>, services: &Services) -> Option<Newcomer> {
        match self.slot.begin_reload(&self.wanted(config), services) {
            Begun::Settled(_) => None,
            Begun::Coming(newcomer) => Some(newcomer),
        }
    }

    /// Returns what the host saw go wrong in the builds of this process.
    pub(crate) fn incidents(&self) -> Vec<BuildIncidents> {
        self.slot.incidents()
    }

    /// Returns what waits, or is waited for, so that what is configured does not serve yet.
    pub(crate) fn waiting(&self) -> Option<String> {
        let status = self.slot.status();
        let coming = status
            .coming
            .map(|plugin| format!("plugin `{plugin}` is still coming up"));
        status.pending.map(|pending| pending.to_string()).or(coming)
    }

    /// Holds what serves a tier for one turn; `None` when that tier is not served.
    pub(crate) fn pin(&self, tier: Tier) -> Pin {
        loop {
            let Ok(turn) = self.slot.pin() else {
                return Pin::Nothing;
            };
            if turn.tier() != tier {
                return Pin::Another;
            }
            // The description is that of the slot, which may switch between the two looks.
            let serving = self
                .slot
                .status()
                .serving
                .filter(|serving| serving.generation == turn.generation());
            if let Some(serving) = serving {
                let serving = Serving {
                    tier: serving.tier,
                    plugin: serving.plugin,
                    version: serving.version,
                    sha256: serving.sha256,
                };
                return Pin::Held(Pinned { turn, serving });
            }
        }
    }

    fn wanted(&self, config: &Arc<Config>) -> Wanted {
        let mut last = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, wanted)) = &*last
            && Arc::ptr_eq(known, config)
        {
            return wanted.clone();
        }
        let tier = config.tier();
        let wanted = match config.plugins.id(tier) {
            None => Wanted::off(),
            Some(plugin) => Wanted {
                tier,
                plugin: plugin.to_owned(),
                config: config.tier_config_json(tier).to_string(),
                digest: config.digest(tier),
            },
        };
        *last = Some((Arc::clone(config), wanted.clone()));
        wanted
    }
}

/// What was begun so that the configured tier serves.
#[derive(Debug)]
pub(crate) struct Followed {
    /// What is coming up, if something is.
    pub(crate) newcomer: Option<Newcomer>,
    /// Why the configured tier cannot serve, if so.
    pub(crate) problem: Option<Arc<LoadError>>,
}

/// What became of pinning a tier.
#[derive(Debug)]
pub(crate) enum Pin {
    /// It serves, and is held.
    Held(Pinned),
    /// Another tier serves: the settings changed in between.
    Another,
    /// Nothing serves.
    Nothing,
}

impl Pin {
    /// Returns what is held.
    pub(crate) fn held(self) -> Option<Pinned> {
        match self {
            Self::Held(pinned) => Some(pinned),
            Self::Another | Self::Nothing => None,
        }
    }
}

/// A tier instance, held for one turn.
#[derive(Debug)]
pub(crate) struct Pinned {
    turn: PinnedTurn,
    serving: Serving,
}

impl Pinned {
    pub(crate) fn serving(&self) -> &Serving {
        &self.serving
    }

    pub(crate) async fn begin_turn(
        &self,
        call: &Call,
        request: TurnRequest,
    ) -> Result<TurnPlan, SlotError> {
        self.turn.begin_turn(call, request).await
    }

    pub(crate) async fn explain(
        &self,
        call: &Call,
        request: TurnRequest,
    ) -> Result<Explanation, SlotError> {
        self.turn.explain(call, request).await
    }

    pub(crate) async fn commit(
        &self,
        call: &Call,
        token: CommitToken,
        message: String,
    ) -> Result<(), SlotError> {
        self.turn.commit(call, token, message).await
    }

    /// Gives tokens up, all of them whatever becomes of one, and returns the first failure. A tier that cannot be told
    /// forgets them by itself in time.
    pub(crate) async fn discard(
        &self,
        call: &Call,
        tokens: Vec<CommitToken>,
    ) -> Result<(), SlotError> {
        let mut outcome = Ok(());
        for token in tokens {
            outcome = outcome.and(self.turn.discard(call, token).await);
        }
        outcome
    }

    pub(crate) async fn on_event(&self, call: &Call, event: TierEvent) -> Result<(), SlotError> {
        self.turn.on_event(call, event).await
    }

    pub(crate) async fn stats(&self, call: &Call) -> Result<TierStats, SlotError> {
        self.turn.stats(call).await
    }
}
