//! What the plugin border costs: sizes, loading by step, calls, swaps, memory.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use memory_core::config::{Config, Layers};
use memory_core::predicates::Tier;
use memory_core::predicates::registry::{BUILT, TierRow};
use memory_core::services::{Capability, Services};
use memory_substrate::assistant::AssistantStore;
use memory_substrate::embed::SeededEmbedder;
use plugin_host::{HostOptions, Limits, LoadTimings, PluginHost, Slot, Wanted};
use tokio::runtime::Handle;

use crate::host::{TempHost, given, plugin_folder};
use crate::measure::{Figure, percentile};

mod calls;
mod memory;
mod swap;

/// Instances made to time a load.
const LOADS: usize = 15;

/// Measures sizes, loading, calls, swaps and memory.
pub async fn run() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let host = TempHost::new(given(SeededEmbedder::default())).await?;
    let store = host.assistant.store().await?;
    for row in BUILT.rows() {
        let tier = row.tier;
        let bench = Bench::new(&host, store, row);
        let bytes = std::fs::metadata(bench.library())
            .with_context(|| format!("no `{}`", bench.library().display()))?
            .len();
        figures.push(Figure::new(
            format!("plugin_size_{tier}"),
            kilobytes(bytes),
            "kB",
        ));
        figures.extend(loads(&bench).await?);
        figures.extend(calls::measure(&bench).await?);
    }
    // The newest tier stands for all.
    if let Some(row) = BUILT.rows().last() {
        let bench = Bench::new(&host, store, row);
        figures.extend(swap::measure(&bench).await?);
        figures.extend(memory::measure(&bench).await?);
    }
    Ok(figures)
}

/// What the measurements of one tier need.
struct Bench {
    folder: PathBuf,
    tier: Tier,
    plugin: &'static str,
    config: Config,
    services: Services,
}

impl Bench {
    fn new(host: &TempHost, store: &AssistantStore, row: &TierRow) -> Self {
        let tier = row.tier;
        let config = Config::load(&Layers::default());
        Self {
            folder: host.folder.path().to_owned(),
            tier,
            plugin: row.plugin,
            config: config.map(|(config, _)| config).unwrap_or_default(),
            services: store.services(tier, &Capability::ALL),
        }
    }

    fn plugin(&self) -> String {
        self.plugin.to_owned()
    }

    fn library(&self) -> PathBuf {
        plugin_folder().join(format!("lib{}.so", self.plugin().replace('-', "_")))
    }

    /// Returns a machinery that knows no build yet, over a staging folder of this name.
    fn machinery(&self, staging: &str) -> Result<Arc<PluginHost>> {
        let folder = plugin_folder();
        let allow = folder.with_file_name("plugins.allow.toml");
        self.machinery_over(folder, allow, staging)
    }

    fn machinery_over(
        &self,
        folder: PathBuf,
        allow: PathBuf,
        staging: &str,
    ) -> Result<Arc<PluginHost>> {
        let options = HostOptions {
            folder: Some(folder),
            allow_files: vec![allow],
            staging: self.folder.join(staging),
            limits: Limits {
                builds: usize::MAX,
                // A bench changes settings more often than people do.
                dwell_window: std::time::Duration::ZERO,
                ..Limits::default()
            },
        };
        Ok(PluginHost::start(options, Handle::current())?)
    }

    /// Returns the wish for this tier. Another label is another instance.
    fn wanted(&self, label: &str) -> Wanted {
        Wanted {
            tier: self.tier,
            plugin: self.plugin(),
            config: self.config.tier_config_json(self.tier).to_string(),
            digest: label.to_owned(),
        }
    }

    /// Makes another instance serve, and returns how long each step took.
    async fn load(&self, slot: &Slot, label: &str) -> Result<LoadTimings> {
        let change = slot.ensure(&self.wanted(label), &self.services).await;
        let problem = slot.status().problem;
        change
            .timings
            .with_context(|| format!("`{}` did not load: {problem:?}", self.plugin()))
    }
}

/// Measures a load whose private copy is written, one that finds it, and one of a build that is loaded.
async fn loads(bench: &Bench) -> Result<Vec<Figure>> {
    let (mut first, mut again, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..LOADS {
        // A machinery of its own loads the library anew; only the operating system remembers it.
        let staging = format!("staging-{}-{number}", bench.tier);
        let slot = bench.machinery(&staging)?.slot("bench");
        first.push(bench.load(&slot, "first").await?);
        let slot = bench.machinery(&staging)?.slot("bench");
        again.push(bench.load(&slot, "again").await?);
        known.push(bench.load(&slot, "known").await?);
    }
    let mut figures = by_step(bench.tier, "first", &first);
    figures.extend(by_step(bench.tier, "again", &again));
    figures.extend(by_step(bench.tier, "known", &known));
    Ok(figures)
}

fn by_step(tier: Tier, kind: &str, loads: &[LoadTimings]) -> Vec<Figure> {
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
                format!("load_{kind}_{tier}_{name}_p50"),
                percentile(&mut times, 0.5),
            )
        })
        .filter(|figure| figure.value > 0.0)
        .collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a plugin has a few megabytes at most"
)]
fn kilobytes(bytes: u64) -> f64 {
    bytes as f64 / 1e3
}
