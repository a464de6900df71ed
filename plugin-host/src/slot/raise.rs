//! Bringing a newcomer up, and finding what stands in for one that does not come.
//!
//! Each step looks first whether the newcomer is still the one that is wanted. One that is not is let go.

use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use memory_core::abi::ErrorCode;
use memory_core::services::Services;

use super::good::Good;
use super::newcomer::Arrival;
use super::{Active, Change, Inner, Outcome, Planning, Wanted, may_serve};
use crate::build::Build;
use crate::error::LoadError;
use crate::host::{Instance, Source};

/// Why an instance is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// The wish has changed.
    Wish,
    /// Somebody asked for a new instance.
    Reload,
    /// The wish cannot be fulfilled.
    StandIn,
}

/// Brings a newcomer up, or something that stands in for it.
pub(super) async fn raise(
    slot: Arc<Inner>,
    arrival: Arrival,
    wanted: Wanted,
    services: Services,
    errand: Errand,
) {
    let number = arrival.number;
    // Whoever is not wanted any more must not keep others waiting, however long its library takes. Its thread is watched.
    let change = tokio::select! {
        biased;
        () = arrival.let_go() => None,
        change = slot.bring(number, &wanted, &services, errand) => change,
    };
    let change = change.unwrap_or_else(|| Change::without_newcomer(Outcome::Superseded));
    {
        let mut planning = slot.planning();
        if planning.awaits(number) {
            planning.coming = None;
        }
    }
    arrival.end(change);
}

impl Inner {
    /// Returns what became of a newcomer; `None` when it is not wanted any more.
    async fn bring(
        &self,
        number: u64,
        wanted: &Wanted,
        services: &Services,
        errand: Errand,
    ) -> Option<Change> {
        if errand == Errand::StandIn {
            return self.stand_in(number, wanted, services).await;
        }
        let source = Source::Named(wanted.plugin.clone());
        match self.make(source, wanted, services).await {
            Ok(instance) => {
                let mut planning = self.awaited(number)?;
                planning.refusals.forget(wanted);
                planning.good.note(instance.guest.build(), wanted);
                self.tell(wanted, None);
                Some(self.install(&mut planning, wanted, instance, errand))
            }
            Err(error) => {
                tracing::warn!(assistant = %self.assistant, tier = %wanted.tier, %error, "the configured tier cannot serve");
                self.note_refusal(number, wanted, error, errand)?;
                self.stand_in(number, wanted, services).await
            }
        }
    }

    /// Remembers that a wish was refused, and tells of it; `None` when the newcomer is not wanted any more.
    fn note_refusal(
        &self,
        number: u64,
        wanted: &Wanted,
        error: LoadError,
        errand: Errand,
    ) -> Option<()> {
        let (error, now) = (Arc::new(error), Instant::now());
        let mut planning = self.awaited(number)?;
        planning.refusals.note(wanted, now, Arc::clone(&error));
        if errand == Errand::Wish {
            // To try costs as much as to change.
            planning.dwell.note(now, self.host.limits().dwell_changes);
        }
        self.tell(wanted, Some(error));
        Some(())
    }

    /// Returns the plan if a newcomer is still wanted.
    fn awaited(&self, number: u64) -> Option<MutexGuard<'_, Planning>> {
        Some(self.planning()).filter(|planning| planning.awaits(number))
    }

    async fn make(
        &self,
        source: Source,
        wanted: &Wanted,
        services: &Services,
    ) -> Result<Instance, LoadError> {
        let (assistant, config) = (&self.assistant, &wanted.config);
        let place = Arc::clone(&self.loading).acquire_owned().await;
        let place = place.expect("nobody closes the semaphore of a slot");
        let made = self
            .host
            .bring_up(assistant, wanted.tier, source, config, services, place)
            .await;
        match &made {
            Ok(_) => self.count(|counters| &counters.loads),
            Err(_) => self.count(|counters| &counters.refusals),
        }
        made
    }

    /// Finds what may serve instead: the same tier, or nothing.
    async fn stand_in(&self, number: u64, wanted: &Wanted, services: &Services) -> Option<Change> {
        let current = self.current.load_full();
        if current.is_some_and(|active| self.may_stay(wanted, active.build())) {
            self.count(|counters| &counters.kept);
            let change = Change::without_newcomer(Outcome::KeptPrevious);
            self.say(&change);
            return Some(change);
        }
        // Turns go without memory meanwhile, so the search ends even if there are more.
        let end = Instant::now() + self.host.limits().create;
        let good = self.awaited(number)?.good.of(wanted.tier);
        for good in good {
            if Instant::now() >= end {
                tracing::warn!(assistant = %self.assistant, tier = %wanted.tier, "no good build stood in in time");
                break;
            }
            if let Some((settings, instance)) = self.revive(&good, wanted, services).await {
                let mut planning = self.awaited(number)?;
                return Some(self.install(&mut planning, &settings, instance, Errand::StandIn));
            }
        }
        let mut planning = self.awaited(number)?;
        let change = self.empty(&mut planning);
        self.say(&change);
        Some(change)
    }

    /// Returns whether what serves may go on serving although something else is wanted.
    fn may_stay(&self, wanted: &Wanted, build: &Build) -> bool {
        may_serve(wanted.tier, build) && !self.host.is_revoked(build)
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
            match self.make(source, settings, services).await {
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
        errand: Errand,
    ) -> Change {
        planning.generation += 1;
        let replaced = self.current.load_full();
        let same_tier =
            replaced.is_some_and(|old| !old.fallback && old.build().manifest().tier == wanted.tier);
        match errand {
            Errand::Wish if same_tier => {
                planning
                    .dwell
                    .note(Instant::now(), self.host.limits().dwell_changes);
            }
            // A reload was asked for by somebody who knows what it costs; a stand-in is needed.
            Errand::Reload | Errand::StandIn if same_tier => {}
            Errand::Wish | Errand::Reload | Errand::StandIn => planning.dwell.clear(),
        }
        if errand != Errand::StandIn && !same_tier {
            // They were of another tier, and worth another try when it is wanted again.
            planning.refusals.clear();
        }
        let fallback = errand == Errand::StandIn;
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
        let change = Change {
            outcome,
            timings: Some(instance.timings),
            drain: self.switch(Some(Arc::new(active))),
        };
        // While nobody can switch again, so that the log names each instance that ever served.
        self.say(&change);
        change
    }
}
