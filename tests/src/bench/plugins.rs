//! What the plugin border costs: sizes, loading by step, a call.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context as _, Result};
use memory_core::config::{Config, Layers};
use memory_core::predicates::Tier;
use memory_core::predicates::registry::{BUILT, TierRow};
use memory_core::services::Capability;
use memory_substrate::embed::SeededEmbedder;
use plugin_host::{HostOptions, LoadTimings, PluginHost, Wanted};
use tokio::runtime::Handle;

use crate::host::{TempHost, given, owner_call, plugin_folder};
use crate::measure::{Figure, percentile};

/// Calls timed together, because one is shorter than the clock can tell.
const CALLS: u32 = 1_000_000;

/// Instances made to time a load.
const LOADS: usize = 15;

/// Measures sizes, loading and calls.
pub async fn run() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let host = TempHost::new(given(SeededEmbedder::default())).await?;
    let store = host.assistant.store().await?;
    for TierRow { tier, plugin, .. } in BUILT.rows() {
        let (tier, name) = (*tier, (*plugin).to_owned());
        let library = plugin_folder().join(format!("lib{}.so", name.replace('-', "_")));
        let bytes = std::fs::metadata(&library)
            .with_context(|| format!("no `{}`", library.display()))?
            .len();
        figures.push(Figure::new(
            format!("plugin_size_{tier}"),
            kilobytes(bytes),
            "kB",
        ));

        let config = Config::load(&Layers::default())
            .map(|(config, _)| config)
            .unwrap_or_default();
        let mut loads = Vec::new();
        for load in 0..LOADS {
            // A machinery of its own loads the library anew; only the operating system remembers it.
            let machinery = machinery(&host, load)?;
            let slot = machinery.slot(format!("bench-{load}"));
            let wanted = Wanted {
                tier,
                plugin: name.clone(),
                config: config.tier_config_json(tier).to_string(),
                digest: format!("{load}"),
            };
            let services = store.services(tier, &Capability::ALL);
            let change = slot.ensure(&wanted, &services).await;
            let problem = slot.status().problem;
            loads.push(
                change
                    .timings
                    .with_context(|| format!("`{name}` did not load: {problem:?}"))?,
            );
            if load + 1 == LOADS {
                let pinned = slot.pin()?;
                let start = Instant::now();
                for _ in 0..CALLS {
                    black_box(black_box(&pinned).is_ready());
                }
                let each = start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS);
                figures.push(Figure::new(format!("abi_call_{tier}"), each, "ns"));
                let call = owner_call("bench");
                let start = Instant::now();
                for _ in 0..200 {
                    pinned.stats(&call).await?;
                }
                let each = start.elapsed().as_secs_f64() * 1e6 / 200.0;
                figures.push(Figure::new(
                    format!("abi_async_call_with_thread_hop_{tier}"),
                    each,
                    "us",
                ));
            }
        }
        figures.extend(by_step(tier, &loads));
    }
    Ok(figures)
}

fn machinery(host: &TempHost, number: usize) -> Result<std::sync::Arc<PluginHost>> {
    let folder = plugin_folder();
    let allow = folder.with_file_name("plugins.allow.toml");
    Ok(PluginHost::start(
        HostOptions {
            folder: Some(folder),
            allow_files: vec![allow],
            staging: host.folder.path().join(format!("staging-{number}")),
            ..HostOptions::default()
        },
        Handle::current(),
    )?)
}

fn by_step(tier: Tier, loads: &[LoadTimings]) -> Vec<Figure> {
    type Step = (&'static str, fn(&LoadTimings) -> std::time::Duration);
    let steps: [Step; 10] = [
        ("read_and_hash", |load| load.read),
        ("stage", |load| load.stage),
        ("dlopen", |load| load.open),
        ("header", |load| load.header),
        ("layout_check", |load| load.layout),
        ("root_module", |load| load.root),
        ("manifest_and_init", |load| load.init),
        ("create", |load| load.create),
        ("health", |load| load.health),
        ("total", LoadTimings::total),
    ];
    steps
        .into_iter()
        .map(|(name, step)| {
            let mut times: Vec<_> = loads.iter().map(step).collect();
            Figure::millis(
                format!("load_{tier}_{name}_p50"),
                percentile(&mut times, 0.5),
            )
        })
        .collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a plugin has a few megabytes at most"
)]
fn kilobytes(bytes: u64) -> f64 {
    bytes as f64 / 1e3
}
