//! What a turn costs, cold and warm, at a number of pages.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use memory_core::embed::Embedder as _;
use memory_substrate::embed::SeededEmbedder;
use strata::{Access, IngestOptions, IngestSource, TurnEnd, TurnInput};

use super::size_label;
use crate::corpus::{Maker, SECTIONS};
use crate::host::{ASSISTANT, TempHost, given, home_in, open};
use crate::measure::{Figure, percentile, resident_megabytes};

/// First argument of the measuring process.
pub const PROBE: &str = "--probe";

/// Turns that are timed.
const TURNS: usize = 300;

/// Turns before them.
const WARM_UP: usize = 20;

/// Turns of one conversation.
const CONVERSATION: usize = 10;

/// Measures ingest, index, a restart and turns over that many pages with seeded vectors.
pub async fn run(pages: usize) -> Result<Vec<Figure>> {
    let label = size_label(pages);
    let mut figures = Vec::new();
    let maker = Maker::new(pages as u64);
    let host = TempHost::new(given(SeededEmbedder::default())).await?;
    let folder = host.folder.path().join("made");
    maker.folder(&folder, pages)?;

    let start = Instant::now();
    let (report, synced) = host
        .assistant
        .ingest(
            IngestSource::Folder(folder),
            IngestOptions::default(),
            &mut |_| ControlFlow::Continue(()),
        )
        .await?;
    let took = start.elapsed();
    ensure!(
        report.written == pages && synced.sections == pages * SECTIONS,
        "not every section was indexed"
    );
    figures.push(Figure::new(
        format!("ingest_seeded_{label}"),
        rate(pages, took),
        "pages/s",
    ));
    let stats = host.assistant.stats().await?.engine;
    if let Some(index) = stats.index {
        figures.push(Figure::new(
            format!("index_files_{label}"),
            number(index.files),
            "files",
        ));
        figures.push(Figure::new(
            format!("index_bytes_{label}"),
            number(index.bytes) / 1e6,
            "MB",
        ));
        figures.push(Figure::new(
            format!("index_rows_{label}"),
            number(index.rows),
            "rows",
        ));
    }

    // A process of its own, as after a restart: what ingest left in this one's memory must not count. The operating
    // system's file cache is warm, as it is after an upgrade.
    let folder = host.closed();
    let output = Command::new(std::env::current_exe()?)
        .arg(PROBE)
        .arg(folder.path())
        .arg(&label)
        .output()
        .context("cannot start the measuring process")?;
    ensure!(
        output.status.success(),
        "the measuring process failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let probed: Vec<Figure> = serde_json::from_slice(&output.stdout)?;
    figures.extend(probed);
    Ok(figures)
}

/// Measures a start and turns in a folder that [`run`] made.
pub async fn probe(folder: &Path, label: &str) -> Result<Vec<Figure>> {
    let figure = |name: &str, value: Duration| Figure::millis(format!("{name}_{label}"), value);
    let mut figures = Vec::new();
    let maker = Maker::new(1);
    let start = Instant::now();
    let strata = open(home_in(folder), given(SeededEmbedder::default()))?;
    let assistant = strata.assistant(ASSISTANT, Access::ReadWrite).await?;
    let injection = assistant
        .begin_turn(TurnInput::owner("cold", maker.question()))
        .await;
    figures.push(figure("cold_start_to_first_injection", start.elapsed()));
    ensure!(
        !injection.blocks.is_empty(),
        "the first turn brought nothing: {:?}",
        injection.notices
    );
    drop(injection);
    figures.push(Figure::new(
        format!("resident_after_start_{label}"),
        resident_megabytes(),
        "MB",
    ));

    let embedder = SeededEmbedder::default();
    let (mut begins, mut embeddings, mut attaches, mut ends) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for turn in 0..WARM_UP + TURNS {
        let question = maker.question();
        let start = Instant::now();
        embedder.embed(vec![question.clone()]).await?;
        let embedding = start.elapsed();
        let conversation = format!("conversation-{}", turn / CONVERSATION);
        let start = Instant::now();
        let injection = assistant
            .begin_turn(TurnInput::owner(conversation, question))
            .await;
        let begin = start.elapsed();
        ensure!(
            injection.trace.degraded.is_empty(),
            "a turn was degraded: {:?}",
            injection.trace.degraded
        );
        let start = Instant::now();
        assistant.attached(&injection).await?;
        let attach = start.elapsed();
        let start = Instant::now();
        assistant
            .end_turn(&injection, TurnEnd::reply("Noted."))
            .await?;
        if turn >= WARM_UP {
            ends.push(start.elapsed());
            begins.push(begin);
            attaches.push(attach);
            embeddings.push(embedding);
        }
    }
    for (name, times) in [
        ("begin_turn_with_seeded_embedding", &mut begins),
        ("seeded_embedding", &mut embeddings),
        ("attached", &mut attaches),
        ("end_turn", &mut ends),
    ] {
        figures.push(figure(&format!("{name}_p50"), percentile(times, 0.5)));
        figures.push(figure(&format!("{name}_p95"), percentile(times, 0.95)));
    }
    figures.push(Figure::new(
        format!("resident_after_turns_{label}"),
        resident_megabytes(),
        "MB",
    ));
    Ok(figures)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of pages, files and bytes of an index"
)]
fn number(count: u64) -> f64 {
    count as f64
}

fn rate(count: usize, took: Duration) -> f64 {
    number(count as u64) / took.as_secs_f64()
}
