//! What happens to an instance after it was replaced: wait, tell it to stop, wait once more, give up waiting, shut it down.
//!
//! Giving up is safe because a library is never unloaded: calls that still run keep their instance alive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::host::PluginHost;
use crate::slot::Active;

/// How the drain of a replaced instance went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// How long its turns were waited for.
    pub waited: Duration,
    /// Turns that still held it when the waiting ended.
    pub abandoned: usize,
}

/// Drains an instance and shuts it down, the latter only when nothing holds it any more.
pub(crate) async fn drain(host: Arc<PluginHost>, old: Arc<Active>) -> Drained {
    let start = Instant::now();
    let limits = host.limits().clone();
    let mut abandoned = 0;
    if tokio::time::timeout(limits.drain, old.idle())
        .await
        .is_err()
    {
        old.tier.abandon();
        if tokio::time::timeout(limits.grace, old.idle())
            .await
            .is_err()
        {
            abandoned = old.leases();
        }
    }
    let drained = Drained {
        waited: start.elapsed(),
        abandoned,
    };
    if abandoned == 0 {
        shut_down(&old);
    } else {
        let plugin = &old.build.manifest().id;
        tracing::warn!(
            plugin,
            generation = old.generation,
            abandoned,
            "turns still hold a replaced instance"
        );
        // A turn that was begun on it may still be committed; it is shut down when the last of them is over.
        drop(tokio::spawn(async move {
            old.idle().await;
            shut_down(&old);
        }));
    }
    drained
}

/// Shuts an instance down on a thread of its own, for which nobody waits: code of the plugin runs there.
fn shut_down(old: &Arc<Active>) {
    let old = Arc::clone(old);
    let plugin = old.build.manifest().id.clone();
    let work = move || {
        if let Err(error) = old.tier.shutdown() {
            tracing::warn!(plugin = %old.build.manifest().id, %error, "an instance did not shut down cleanly");
        }
    };
    if let Err(error) = std::thread::Builder::new()
        .name("strata-plugin-stop".to_owned())
        .spawn(work)
    {
        tracing::warn!(plugin, %error, "no thread for shutting an instance down; it is dropped instead");
    }
}
