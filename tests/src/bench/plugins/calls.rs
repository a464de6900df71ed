//! What a call over the border costs.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;

use super::Bench;
use crate::host::owner_call;
use crate::measure::Figure;

/// Calls timed together, because one is shorter than the clock can tell.
const CALLS: u32 = 1_000_000;

/// Calls of which each has a future, timed together.
const FUTURES: u32 = 100_000;

/// Calls that go to the plugin's threads and back, timed together.
const HOPS: u32 = 2_000;

/// Measures the cheapest call, one with a guarded future, and one with the way to the plugin's threads and back.
pub(super) async fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let tier = bench.tier;
    let slot = bench
        .machinery(&format!("staging-calls-{tier}"))?
        .slot("bench");
    bench.load(&slot, "calls").await?;
    let pinned = slot.pin()?;
    let call = owner_call("bench");

    let start = Instant::now();
    for _ in 0..CALLS {
        black_box(black_box(&pinned).is_ready());
    }
    let ready = start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS);

    let start = Instant::now();
    for _ in 0..FUTURES {
        black_box(pinned.stats_here(&call).await?);
    }
    let future = start.elapsed().as_secs_f64() * 1e9 / f64::from(FUTURES);

    let start = Instant::now();
    for _ in 0..HOPS {
        pinned.stats(&call).await?;
    }
    let hop = start.elapsed().as_secs_f64() * 1e6 / f64::from(HOPS);
    Ok(vec![
        Figure::new(format!("abi_call_{tier}"), ready, "ns"),
        // `stats` converts its counters to JSON and back; the rest is the future and its guards.
        Figure::new(format!("abi_guarded_future_stats_{tier}"), future, "ns"),
        Figure::new(format!("abi_async_call_with_thread_hop_{tier}"), hop, "us"),
    ])
}
