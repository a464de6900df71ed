//! What a swap costs, idle and while turns run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use memory_core::tier::TurnRequest;

use super::Bench;
use crate::host::owner_call;
use crate::measure::{Figure, percentile};

/// Swaps that are timed.
const SWAPS: usize = 100;

/// Swaps that are timed while turns run.
const SWAPS_UNDER_LOAD: usize = 30;

/// Turns in flight at any time.
const CALLERS: usize = 16;

/// Measures the time from a wish to the switch, and of the drain after it.
pub(super) async fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let slot = Arc::new(bench.machinery("staging-swap")?.slot("bench"));
    bench.load(&slot, "before").await?;
    let mut idle = Vec::new();
    for number in 0..SWAPS {
        let start = Instant::now();
        bench.load(&slot, &format!("idle-{number}")).await?;
        idle.push(start.elapsed());
    }

    let (stop, served) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| {
            let (slot, stop, served) = (Arc::clone(&slot), Arc::clone(&stop), Arc::clone(&served));
            tokio::spawn(async move {
                let call = owner_call(&format!("c{number}"));
                while !stop.load(Ordering::Relaxed) {
                    let turn = slot.pin()?;
                    let request = TurnRequest {
                        user_message: "what is there?".to_owned(),
                        ..TurnRequest::default()
                    };
                    turn.begin_turn(&call, request).await?;
                    served.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    let (mut loaded, mut drains): (Vec<Duration>, Vec<Duration>) = Default::default();
    for number in 0..SWAPS_UNDER_LOAD {
        let start = Instant::now();
        let wanted = bench.wanted(&format!("loaded-{number}"));
        let change = slot.ensure(&wanted, &bench.services).await;
        loaded.push(start.elapsed());
        let drained = change.drain.context("nothing was replaced")?.await?;
        ensure!(
            drained.abandoned == 0,
            "{} turns were abandoned",
            drained.abandoned
        );
        drains.push(drained.waited);
    }
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller
            .await?
            .context("a call failed while tiers were swapped")?;
    }
    #[expect(clippy::cast_precision_loss, reason = "there are a few thousand turns")]
    let served = served.load(Ordering::Relaxed) as f64;
    Ok(vec![
        Figure::millis("swap_idle_p50", percentile(&mut idle, 0.5)),
        Figure::millis("swap_idle_p95", percentile(&mut idle, 0.95)),
        Figure::millis("swap_under_load_p50", percentile(&mut loaded, 0.5)),
        Figure::millis("swap_under_load_p95", percentile(&mut loaded, 0.95)),
        Figure::millis("drain_of_16_calls_p50", percentile(&mut drains, 0.5)),
        Figure::millis("drain_of_16_calls_p95", percentile(&mut drains, 0.95)),
        Figure::new("turns_served_while_swapping", served, "turns"),
    ])
}
