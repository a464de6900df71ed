//! What happens to an instance after it was replaced: wait, tell it to stop, wait once more, give up waiting.
//!
//! Giving up is safe because a library is never unloaded: calls that still run and turns that may still be committed keep
//! their instance alive, and it is shut down when the last of them lets go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::host::PluginHost;
use crate::metrics::{ChangeCounters, add};
use crate::slot::Active;

/// How the drain of a replaced instance went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// How long its turns were waited for.
    pub waited: Duration,
    /// Turns that still held it when the waiting ended.
    pub abandoned: usize,
}

/// Drains an instance. Whoever holds it last shuts it down by letting go.
pub(crate) async fn drain(
    host: Arc<PluginHost>,
    counters: Arc<ChangeCounters>,
    old: Arc<Active>,
) -> Drained {
    let start = Instant::now();
    let limits = host.limits();
    let mut abandoned = 0;
    if tokio::time::timeout(limits.drain, old.idle())
        .await
        .is_err()
    {
        old.guest.tier().abandon();
        if tokio::time::timeout(limits.grace, old.idle())
            .await
            .is_err()
        {
            abandoned = old.leases();
        }
    }
    for counters in [&*counters, host.changes()] {
        add(&counters.drains, 1);
        add(
            &counters.abandoned_turns,
            u64::try_from(abandoned).unwrap_or(u64::MAX),
        );
    }
    if abandoned > 0 {
        let plugin = &old.build().manifest().id;
        tracing::warn!(
            plugin,
            generation = old.generation,
            abandoned,
            "turns still hold a replaced instance"
        );
    }
    Drained {
        waited: start.elapsed(),
        abandoned,
    }
}
