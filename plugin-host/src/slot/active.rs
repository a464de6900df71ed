//! The instance that serves, and holds on it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;

use crate::build::{Build, Guest};

use super::status::Serving;
use super::wish::Wanted;

/// One instance that serves or served. It is shut down when the last hold on it is gone.
pub(crate) struct Active {
    pub(crate) guest: Guest,
    pub(crate) wanted: Wanted,
    pub(crate) generation: u64,
    /// It stands in for a wish that could not be fulfilled.
    pub(super) fallback: bool,
    leases: AtomicUsize,
    idle: Notify,
}

impl fmt::Debug for Active {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plugin = &self.build().manifest().id;
        formatter
            .debug_struct("Active")
            .field("plugin", plugin)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl Active {
    pub(super) fn new(guest: Guest, wanted: Wanted, generation: u64, fallback: bool) -> Self {
        Self {
            guest,
            wanted,
            generation,
            fallback,
            leases: AtomicUsize::new(0),
            idle: Notify::new(),
        }
    }

    pub(crate) const fn build(&self) -> &Arc<Build> {
        self.guest.build()
    }

    pub(crate) fn leases(&self) -> usize {
        self.leases.load(Ordering::SeqCst)
    }

    /// Waits until no turn holds the instance any more.
    pub(crate) async fn idle(&self) {
        loop {
            let notified = self.idle.notified();
            if self.leases() == 0 {
                return;
            }
            notified.await;
        }
    }

    pub(super) fn serving(&self) -> Serving {
        let manifest = self.build().manifest();
        Serving {
            tier: manifest.tier,
            plugin: manifest.id.clone(),
            version: manifest.version.clone(),
            sha256: self.build().sha256().to_owned(),
            digest: self.wanted.digest.clone(),
            generation: self.generation,
        }
    }
}

/// A hold on an instance, counted.
#[derive(Debug)]
pub(crate) struct Lease(pub(crate) Arc<Active>);

impl Lease {
    pub(super) fn take(current: &ArcSwapOption<Active>) -> Option<Self> {
        loop {
            let active = current.load_full()?;
            active.leases.fetch_add(1, Ordering::SeqCst);
            let lease = Self(active);
            // Looked at again after it was counted: either the switch came later and its drain sees this lease, or it came
            // before and the newcomer is taken instead.
            if current
                .load()
                .as_ref()
                .is_some_and(|now| Arc::ptr_eq(now, &lease.0))
            {
                return Some(lease);
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.0.leases.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
