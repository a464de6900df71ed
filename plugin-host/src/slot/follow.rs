//! Following a wish: what is to be done about it now, without waiting for anything.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::predicates::Tier;
use memory_core::services::Services;

use super::newcomer::Newcomer;
use super::raise::{Errand, raise};
use super::{Begun, Change, Inner, Outcome, Pending, Planning, Wanted, may_serve};

impl Inner {
    pub(super) fn follow(self: &Arc<Self>, wanted: &Wanted, services: &Services) -> Begun {
        if self.serves(wanted) && self.is_settled() {
            return Begun::settled(Outcome::Unchanged);
        }
        let mut planning = self.planning();
        if let Some(coming) = &planning.coming {
            if coming.wanted().is_same(wanted) && !coming.is_over() {
                if self.serves(wanted) {
                    // Another instance of the same is coming up, and no turn needs it.
                    return Begun::settled(Outcome::Unchanged);
                }
                return Begun::Coming(coming.clone().with_patience(self.patience(wanted)));
            }
            planning.let_go();
        }
        let limits = self.host.limits();
        let refused = planning
            .refusals
            .reason(wanted, Instant::now(), limits.retry);
        if self.serves(wanted) {
            // What was refused or postponed is not wanted any more. A refused reload of this same wish remains a problem.
            self.tell(wanted, refused);
            return Begun::settled(Outcome::Unchanged);
        }
        if wanted.tier == Tier::Off {
            planning.refusals.clear();
            self.tell(wanted, None);
            let change = self.empty(&mut planning);
            self.say(&change);
            return Begun::Settled(change);
        }
        if let Some(problem) = refused {
            self.tell(wanted, Some(problem));
            return self.stay_refused(&mut planning, wanted, services);
        }
        if let Some(pending) = self.must_wait(&planning, wanted) {
            self.tell_begun(wanted, Some(pending));
            self.count(|counters| &counters.postponed);
            return Begun::settled(Outcome::Postponed);
        }
        Begun::Coming(self.send_for(&mut planning, wanted, services, Errand::Wish))
    }

    pub(super) fn reload(self: &Arc<Self>, wanted: &Wanted, services: &Services) -> Begun {
        if wanted.tier == Tier::Off {
            return self.follow(wanted, services);
        }
        let mut planning = self.planning();
        Begun::Coming(self.send_for(&mut planning, wanted, services, Errand::Reload))
    }

    /// Returns whether there is nothing to tell about what serves, and nothing under way.
    fn is_settled(&self) -> bool {
        let told = self.told();
        let nothing_to_tell = told.problem.is_none() && told.pending.is_none();
        drop(told);
        nothing_to_tell && self.planning().coming.is_none()
    }

    /// Leaves things as they are for a wish that was refused a moment ago, unless what stands in has gone bad since.
    fn stay_refused(
        self: &Arc<Self>,
        planning: &mut Planning,
        wanted: &Wanted,
        services: &Services,
    ) -> Begun {
        let current = self.current.load_full();
        if current.is_none_or(|active| may_serve(wanted.tier, active.build())) {
            return Begun::settled(Outcome::Unchanged);
        }
        Begun::Coming(self.send_for(planning, wanted, services, Errand::StandIn))
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

    /// Sends for an instance, which comes up in a task of its own.
    fn send_for(
        self: &Arc<Self>,
        planning: &mut Planning,
        wanted: &Wanted,
        services: &Services,
        errand: Errand,
    ) -> Newcomer {
        self.tell_begun(wanted, None);
        planning.let_go();
        planning.newcomers += 1;
        let patience = self.patience(wanted);
        let (newcomer, arrival) = Newcomer::new(planning.newcomers, wanted.clone(), patience);
        planning.coming = Some(newcomer.clone());
        let task = raise(
            Arc::clone(self),
            arrival,
            wanted.clone(),
            services.clone(),
            errand,
        );
        drop(self.host.handle().spawn(task));
        newcomer
    }

    fn patience(&self, wanted: &Wanted) -> Duration {
        let limits = self.host.limits();
        if self.serves_well(wanted.tier) {
            limits.patience
        } else {
            limits.arrival
        }
    }
}

impl Begun {
    const fn settled(outcome: Outcome) -> Self {
        Self::Settled(Change::without_newcomer(outcome))
    }
}
