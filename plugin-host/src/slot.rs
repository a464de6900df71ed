//! What serves one assistant, and how it is replaced while turns go on.
//!
//! The slot holds one pointer. A newcomer is loaded, made and asked for its health while the old instance serves; then the
//! pointer is switched, and the old one is drained in the background. If the newcomer does not come up, nothing has
//! changed; if it takes long, turns go on with what serves. What is configured and what serves are two facts, and the
//! status tells both: when the configured plugin cannot serve, the instance of the same tier that did before stays, or the
//! newest good build of that tier comes back, and never another tier.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use memory_core::predicates::Tier;
use memory_core::services::Services;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::build::Build;
use crate::drain::{Drained, drain};
use crate::error::{LoadError, SlotError};
use crate::host::{BuildIncidents, PluginHost};
use crate::metrics::{ChangeCounters, ChangeMetrics, add};
use crate::pinned::PinnedTurn;

pub(crate) use self::active::{Active, Lease};
use self::dwell::Dwell;
use self::good::GoodBuilds;
pub use self::newcomer::Newcomer;
use self::refusals::Refusals;
pub use self::status::{Pending, Serving, SlotStatus};
pub use self::wish::{Begun, Change, Outcome, Wanted};

mod active;
mod dwell;
mod follow;
mod good;
mod newcomer;
mod raise;
mod refusals;
mod status;
mod wish;

/// Threads of one slot that may load and make instances at once, those included that nobody waits for any more. When
/// settings change faster than they end, the later ones wait, and most are not wanted any more when it is their turn.
const LOADING_AT_ONCE: usize = 8;

/// What serves one assistant.
#[derive(Debug)]
pub struct Slot(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    host: Arc<PluginHost>,
    assistant: String,
    current: ArcSwapOption<Active>,
    /// Never held while anything is waited for.
    planning: Mutex<Planning>,
    told: Mutex<Told>,
    loading: Arc<Semaphore>,
    counters: Arc<ChangeCounters>,
}

#[derive(Debug, Default)]
struct Planning {
    generation: u64,
    newcomers: u64,
    coming: Option<Newcomer>,
    refusals: Refusals,
    good: GoodBuilds,
    dwell: Dwell,
}

impl Planning {
    /// Lets what is coming up go: it is not wanted any more.
    fn let_go(&mut self) {
        if let Some(coming) = self.coming.take() {
            coming.let_go();
        }
    }

    /// Returns whether a newcomer is the one that is wanted now.
    fn awaits(&self, number: u64) -> bool {
        self.coming
            .as_ref()
            .is_some_and(|coming| coming.number() == number)
    }
}

#[derive(Debug)]
struct Told {
    /// What is configured.
    wanted: Wanted,
    /// Why that does not serve.
    problem: Option<Arc<LoadError>>,
    pending: Option<Pending>,
    /// Every tier that was ever configured.
    followed: BTreeSet<Tier>,
}

impl Slot {
    pub(crate) fn new(
        host: Arc<PluginHost>,
        assistant: String,
        counters: Arc<ChangeCounters>,
    ) -> Self {
        Self(Arc::new(Inner {
            host,
            assistant,
            current: ArcSwapOption::empty(),
            planning: Mutex::default(),
            told: Mutex::new(Told {
                wanted: Wanted::off(),
                problem: None,
                pending: None,
                followed: BTreeSet::new(),
            }),
            loading: Arc::new(Semaphore::new(LOADING_AT_ONCE)),
            counters,
        }))
    }

    /// Returns what is configured and what serves.
    pub fn status(&self) -> SlotStatus {
        let inner = &*self.0;
        let coming = inner.planning().coming.as_ref().map(|newcomer| {
            let wanted = newcomer.wanted();
            wanted.plugin.clone()
        });
        let serving = inner.current.load().as_ref().map(|active| active.serving());
        let told = inner.told();
        SlotStatus {
            configured: told.wanted.tier,
            serving,
            problem: told.problem.clone(),
            pending: told.pending.clone(),
            coming,
            warnings: inner.host.warnings(),
        }
    }

    /// Returns what was counted since the slot was made.
    pub fn metrics(&self) -> ChangeMetrics {
        self.0.counters.snapshot()
    }

    /// Returns what went wrong in the builds of this process that are of a tier this slot has followed; those without any
    /// are left out.
    pub fn incidents(&self) -> Vec<BuildIncidents> {
        let mut builds = self.0.host.incidents();
        let told = self.0.told();
        builds.retain(|build| told.followed.contains(&build.tier));
        drop(told);
        builds
    }

    /// Pins what serves now for one turn, of whichever tier it is: while a newcomer of another tier comes up, the old one
    /// still serves. The turn tells its tier.
    pub fn pin(&self) -> Result<PinnedTurn, SlotError> {
        let lease = Lease::take(&self.0.current).ok_or(SlotError::Empty)?;
        Ok(PinnedTurn::new(Arc::clone(&self.0.host), lease))
    }

    /// Begins to make a wish come true, and waits for nothing. Cheap when it is true already, so it belongs at the start
    /// of every turn.
    pub fn begin(&self, wanted: &Wanted, services: &Services) -> Begun {
        self.0.host.follow_log_level();
        self.0.follow(wanted, services)
    }

    /// Makes a wish come true if it can be, and waits for that as long as a turn should.
    pub async fn ensure(&self, wanted: &Wanted, services: &Services) -> Change {
        match self.begin(wanted, services) {
            Begun::Settled(change) => change,
            Begun::Coming(newcomer) => settle(&newcomer, newcomer.patience()).await,
        }
    }

    /// Begins to make a new instance even if the same is serving, and waits for nothing. The wish for no tier is followed as
    /// ever.
    pub fn begin_reload(&self, wanted: &Wanted, services: &Services) -> Begun {
        self.0.reload(wanted, services)
    }

    /// Makes a new instance even if the same is serving, for instance because a new build was installed. Waits until it
    /// serves or is refused, or another wish comes.
    pub async fn reload(&self, wanted: &Wanted, services: &Services) -> Change {
        match self.begin_reload(wanted, services) {
            Begun::Settled(change) => change,
            Begun::Coming(newcomer) => settle(&newcomer, Duration::MAX).await,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.planning().let_go();
    }
}

/// Waits for a newcomer and returns what became of it. The change itself goes to whoever asks first.
async fn settle(newcomer: &Newcomer, patience: Duration) -> Change {
    if tokio::time::timeout(patience, newcomer.ended())
        .await
        .is_err()
    {
        return Change::without_newcomer(Outcome::Coming);
    }
    let otherwise = || {
        Change::without_newcomer(if newcomer.is_let_go() {
            Outcome::Superseded
        } else {
            Outcome::Unchanged
        })
    };
    newcomer.take_change().unwrap_or_else(otherwise)
}

impl Inner {
    fn planning(&self) -> MutexGuard<'_, Planning> {
        self.planning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a wish is true.
    fn serves(&self, wanted: &Wanted) -> bool {
        match self.current.load().as_ref() {
            None => wanted.tier == Tier::Off && self.told().wanted.tier == Tier::Off,
            Some(active) => {
                active.wanted.is_same(wanted)
                    && !active.fallback
                    && active.build().quarantine().is_none()
            }
        }
    }

    /// Returns whether something serves a tier that may go on doing so.
    fn serves_well(&self, tier: Tier) -> bool {
        let current = self.current.load();
        current
            .as_ref()
            .is_some_and(|active| may_serve(tier, active.build()))
    }

    fn switch(&self, newcomer: Option<Arc<Active>>) -> Option<JoinHandle<Drained>> {
        let old = self.current.swap(newcomer)?;
        let (host, counters) = (Arc::clone(&self.host), Arc::clone(&self.counters));
        Some(self.host.handle().spawn(drain(host, counters, old)))
    }

    /// Makes nothing serve.
    fn empty(&self, planning: &mut Planning) -> Change {
        planning.dwell.clear();
        self.count(|counters| &counters.emptied);
        Change {
            drain: self.switch(None),
            ..Change::without_newcomer(Outcome::Emptied)
        }
    }

    fn count(&self, counter: impl Fn(&ChangeCounters) -> &AtomicU64) {
        add(counter(&self.counters), 1);
        add(counter(self.host.changes()), 1);
    }

    fn tell(&self, wanted: &Wanted, problem: Option<Arc<LoadError>>) {
        let mut told = self.told();
        told.wanted = wanted.clone();
        told.problem = problem;
        told.pending = None;
        told.followed.insert(wanted.tier);
    }

    /// Tells that something is done about a wish. What was wrong with this very wish is told until it is known whether it
    /// still is; what was wrong with another is not.
    fn tell_begun(&self, wanted: &Wanted, pending: Option<Pending>) {
        let mut told = self.told();
        if !told.wanted.is_same(wanted) {
            told.problem = None;
        }
        told.wanted = wanted.clone();
        told.pending = pending;
        told.followed.insert(wanted.tier);
    }

    /// Logs what was decided, so that the log tells which instance served when.
    fn say(&self, change: &Change) {
        let configured = self.told().wanted.tier;
        let current = self.current.load();
        let serving = current.as_ref().map(|active| active.serving());
        let serving = serving.as_ref();
        tracing::info!(
            assistant = %self.assistant,
            %configured,
            serving = %serving.map_or(Tier::Off, |serving| serving.tier),
            plugin = serving.map(|serving| serving.plugin.as_str()),
            version = serving.map(|serving| serving.version.as_str()),
            sha256 = serving.map(|serving| serving.sha256.as_str()),
            generation = serving.map(|serving| serving.generation),
            outcome = ?change.outcome,
            total_us = change.timings.map(|timings| timings.total().as_micros()),
            "what serves was decided anew"
        );
    }
}

/// Returns whether a build may serve a tier: it is of that tier and not quarantined.
fn may_serve(tier: Tier, build: &Build) -> bool {
    build.manifest().tier == tier && build.quarantine().is_none()
}
