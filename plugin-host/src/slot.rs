//! What serves one assistant, and how it is replaced while turns go on.
//!
//! The slot holds one pointer. A newcomer is loaded, made and asked for its health while the old instance serves; then the
//! pointer is switched, and the old one is drained in the background. If the newcomer does not come up, nothing has
//! changed. What is configured and what serves are two facts, and the status tells both: when the configured plugin
//! cannot serve, the instance of the same tier that did before stays, or the newest good build of that tier comes back, and
//! never another tier.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use memory_core::abi::ErrorCode;
use memory_core::predicates::Tier;
use memory_core::services::Services;
use tokio::task::JoinHandle;

use crate::build::Build;
use crate::drain::{Drained, drain};
use crate::error::{LoadError, SlotError};
use crate::host::{BuildIncidents, Instance, PluginHost, Source};
use crate::metrics::{ChangeCounters, ChangeMetrics, add};
use crate::pinned::PinnedTurn;

pub(crate) use self::active::{Active, Lease};
use self::dwell::Dwell;
use self::good::{Good, GoodBuilds};
pub use self::status::{Pending, Serving, SlotStatus};
pub use self::wish::{Change, Outcome, Wanted};

mod active;
mod dwell;
mod good;
mod status;
mod wish;

#[derive(Debug, Default)]
struct Planning {
    generation: u64,
    refused: Option<(Wanted, Instant)>,
    good: GoodBuilds,
    dwell: Dwell,
}

/// Why an instance is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The wish has changed.
    Wish,
    /// Somebody asked for a new instance.
    Reload,
    /// The wish cannot be fulfilled.
    StandIn,
}

#[derive(Debug)]
struct Told {
    configured: Tier,
    problem: Option<Arc<LoadError>>,
    pending: Option<Pending>,
}

/// What serves one assistant.
#[derive(Debug)]
pub struct Slot {
    host: Arc<PluginHost>,
    assistant: String,
    current: ArcSwapOption<Active>,
    planning: tokio::sync::Mutex<Planning>,
    told: Mutex<Told>,
    counters: Arc<ChangeCounters>,
}

impl Slot {
    pub(crate) fn new(
        host: Arc<PluginHost>,
        assistant: String,
        counters: Arc<ChangeCounters>,
    ) -> Self {
        Self {
            host,
            assistant,
            current: ArcSwapOption::empty(),
            planning: tokio::sync::Mutex::default(),
            told: Mutex::new(Told {
                configured: Tier::Off,
                problem: None,
                pending: None,
            }),
            counters,
        }
    }

    /// Returns what is configured and what serves.
    pub fn status(&self) -> SlotStatus {
        let serving = self.current.load().as_ref().map(|active| active.serving());
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        SlotStatus {
            configured: told.configured,
            serving,
            problem: told.problem.clone(),
            pending: told.pending.clone(),
            warnings: self.host.warnings(),
        }
    }

    /// Returns what was counted since the slot was made.
    pub fn metrics(&self) -> ChangeMetrics {
        self.counters.snapshot()
    }

    /// Returns what went wrong in the builds of this process; those without any are left out.
    pub fn incidents(&self) -> Vec<BuildIncidents> {
        self.host.incidents()
    }

    /// Pins what serves now for one turn.
    pub fn pin(&self) -> Result<PinnedTurn, SlotError> {
        let lease = Lease::take(&self.current).ok_or(SlotError::Empty)?;
        Ok(PinnedTurn::new(Arc::clone(&self.host), lease))
    }

    /// Makes a wish come true if it can be. Cheap when it is true already, so it belongs at the start of every turn.
    pub async fn ensure(&self, wanted: &Wanted, services: &Services) -> Change {
        self.host.follow_log_level();
        if self.serves(wanted) && self.is_settled() {
            return Change::without_newcomer(Outcome::Unchanged);
        }
        let mut planning = self.planning.lock().await;
        let refused = planning
            .refused
            .as_ref()
            .filter(|(refused, _)| refused.is_same(wanted))
            .map(|(_, at)| *at);
        if self.serves(wanted) {
            // What was refused or postponed is not wanted any more. A refused reload of this same wish remains a problem.
            if refused.is_none() {
                planning.refused = None;
                self.tell(wanted.tier, None);
            } else {
                self.tell_pending(None);
            }
            return Change::without_newcomer(Outcome::Unchanged);
        }
        if wanted.tier == Tier::Off {
            planning.refused = None;
            planning.dwell.clear();
            self.tell(wanted.tier, None);
            self.count(|counters| &counters.emptied);
            return Change {
                drain: self.switch(None),
                ..Change::without_newcomer(Outcome::Emptied)
            };
        }
        if refused.is_some_and(|at| at.elapsed() < self.host.limits().retry) {
            // What stands in for it may have gone bad since, and that is no reason to wait.
            let current = self.current.load_full();
            if current.is_none_or(|active| may_serve(wanted.tier, active.build())) {
                return Change::without_newcomer(Outcome::Unchanged);
            }
            return self.stand_in(&mut planning, wanted, services).await;
        }
        if let Some(pending) = self.must_wait(&planning, wanted) {
            self.tell_pending(Some(pending));
            self.count(|counters| &counters.postponed);
            return Change::without_newcomer(Outcome::Postponed);
        }
        self.replace(&mut planning, wanted, services, Reason::Wish)
            .await
    }

    /// Makes a new instance even if the same is serving, for instance because a new build was installed.
    pub async fn reload(&self, wanted: &Wanted, services: &Services) -> Change {
        let mut planning = self.planning.lock().await;
        self.replace(&mut planning, wanted, services, Reason::Reload)
            .await
    }

    fn serves(&self, wanted: &Wanted) -> bool {
        match self.current.load().as_ref() {
            None => wanted.tier == Tier::Off && self.configured() == Tier::Off,
            Some(active) => {
                active.wanted.is_same(wanted)
                    && !active.fallback
                    && active.build().quarantine().is_none()
            }
        }
    }

    fn configured(&self) -> Tier {
        self.told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .configured
    }

    /// Returns whether there is nothing to tell about what serves.
    fn is_settled(&self) -> bool {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.problem.is_none() && told.pending.is_none()
    }

    /// Returns the change that a wish would be, if it has to wait: it stays within the tier that serves well, and there
    /// were too many such changes.
    fn must_wait(&self, planning: &Planning, wanted: &Wanted) -> Option<Pending> {
        let limits = self.host.limits();
        let current = self.current.load_full()?;
        let serves_well = !current.fallback && may_serve(wanted.tier, current.build());
        let waits = planning
            .dwell
            .waits(Instant::now(), limits.dwell_changes, limits.dwell_window);
        (serves_well && waits).then(|| Pending {
            plugin: wanted.plugin.clone(),
            digest: wanted.digest.clone(),
            changes: limits.dwell_changes,
            window: limits.dwell_window,
        })
    }

    async fn bring_up(
        &self,
        source: Source,
        wanted: &Wanted,
        services: &Services,
    ) -> Result<Instance, LoadError> {
        let (assistant, config) = (&self.assistant, &wanted.config);
        let made = self
            .host
            .bring_up(assistant, wanted.tier, source, config, services)
            .await;
        match &made {
            Ok(_) => self.count(|counters| &counters.loads),
            Err(_) => self.count(|counters| &counters.refusals),
        }
        made
    }

    async fn replace(
        &self,
        planning: &mut Planning,
        wanted: &Wanted,
        services: &Services,
        reason: Reason,
    ) -> Change {
        let source = Source::Named(wanted.plugin.clone());
        match self.bring_up(source, wanted, services).await {
            Ok(instance) => {
                planning.refused = None;
                planning.good.note(instance.guest.build(), wanted);
                self.tell(wanted.tier, None);
                self.install(planning, wanted, instance, reason)
            }
            Err(error) => {
                tracing::warn!(assistant = %self.assistant, tier = %wanted.tier, %error, "the configured tier cannot serve");
                planning.refused = Some((wanted.clone(), Instant::now()));
                self.tell(wanted.tier, Some(Arc::new(error)));
                self.stand_in(planning, wanted, services).await
            }
        }
    }

    /// Finds what may serve instead: the same tier, or nothing.
    async fn stand_in(
        &self,
        planning: &mut Planning,
        wanted: &Wanted,
        services: &Services,
    ) -> Change {
        let current = self.current.load_full();
        if current.is_some_and(|active| self.may_stay(wanted.tier, active.build())) {
            self.count(|counters| &counters.kept);
            return Change::without_newcomer(Outcome::KeptPrevious);
        }
        for good in planning.good.of(wanted.tier) {
            if let Some((settings, instance)) = self.revive(&good, wanted, services).await {
                return self.install(planning, &settings, instance, Reason::StandIn);
            }
        }
        planning.dwell.clear();
        self.count(|counters| &counters.emptied);
        Change {
            drain: self.switch(None),
            ..Change::without_newcomer(Outcome::Emptied)
        }
    }

    /// Returns whether what serves may go on serving although something else is wanted.
    fn may_stay(&self, tier: Tier, build: &Build) -> bool {
        may_serve(tier, build) && !self.host.is_revoked(build)
    }

    /// Makes an instance of a good build if it can be, and returns it with the wish whose settings it has.
    async fn revive(
        &self,
        good: &Good,
        wanted: &Wanted,
        services: &Services,
    ) -> Option<(Wanted, Instance)> {
        // The settings of now may be the very fault, or too new for this build. Those it served with before are good.
        for settings in [wanted, &good.wanted] {
            if !may_serve(wanted.tier, &good.build) {
                return None;
            }
            let source = Source::Loaded(Arc::clone(&good.build));
            match self.bring_up(source, settings, services).await {
                Ok(instance) => return Some((settings.clone(), instance)),
                Err(error) => {
                    let sha256 = good.build.sha256();
                    tracing::warn!(assistant = %self.assistant, sha256, %error, "a good build cannot stand in");
                    if !matches!(
                        error,
                        LoadError::Create {
                            code: ErrorCode::BAD_CONFIG,
                            ..
                        }
                    ) {
                        return None;
                    }
                }
            }
        }
        None
    }

    fn install(
        &self,
        planning: &mut Planning,
        wanted: &Wanted,
        instance: Instance,
        reason: Reason,
    ) -> Change {
        planning.generation += 1;
        let replaced = self.current.load_full();
        let same_tier =
            replaced.is_some_and(|old| !old.fallback && old.build().manifest().tier == wanted.tier);
        match reason {
            Reason::Wish if same_tier => {
                planning
                    .dwell
                    .note(Instant::now(), self.host.limits().dwell_changes);
            }
            // A reload was asked for by somebody who knows what it costs; a stand-in is needed.
            Reason::Reload | Reason::StandIn if same_tier => {}
            Reason::Wish | Reason::Reload | Reason::StandIn => planning.dwell.clear(),
        }
        let fallback = reason == Reason::StandIn;
        let outcome = if fallback {
            self.count(|counters| &counters.fallbacks);
            Outcome::FellBack
        } else {
            self.count(|counters| &counters.switches);
            Outcome::Switched
        };
        let active = Active::new(
            instance.guest,
            wanted.clone(),
            planning.generation,
            fallback,
        );
        Change {
            outcome,
            timings: Some(instance.timings),
            drain: self.switch(Some(Arc::new(active))),
        }
    }

    fn switch(&self, newcomer: Option<Arc<Active>>) -> Option<JoinHandle<Drained>> {
        let old = self.current.swap(newcomer)?;
        let (host, counters) = (Arc::clone(&self.host), Arc::clone(&self.counters));
        Some(self.host.handle().spawn(drain(host, counters, old)))
    }

    fn count(&self, counter: impl Fn(&ChangeCounters) -> &AtomicU64) {
        add(counter(&self.counters), 1);
        add(counter(self.host.changes()), 1);
    }

    fn tell(&self, configured: Tier, problem: Option<Arc<LoadError>>) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Told {
            configured,
            problem,
            pending: None,
        };
    }

    fn tell_pending(&self, pending: Option<Pending>) {
        self.told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pending = pending;
    }
}

/// Returns whether a build may serve a tier: it is of that tier and not quarantined.
fn may_serve(tier: Tier, build: &Build) -> bool {
    build.manifest().tier == tier && build.quarantine().is_none()
}
