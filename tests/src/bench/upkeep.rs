//! What thousands of single writes leave of the index: files, bytes, and whether either grows.
//!
//! Every write is a note and a touched page, each by itself, which is what fills such an index with small files. The same
//! again must leave it as large as it was.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use memory_core::provenance::{Authority, Channel, Origin};
use memory_substrate::embed::SeededEmbedder;
use strata::{Assistant, EmbedderChoice, IngestOptions, IngestSource, RememberInput};

use crate::corpus::Maker;
use crate::host::TempHost;
use crate::measure::{Figure, percentile};

/// Notes and touched pages of each half.
const WRITES: usize = 5_000;
/// Pages that are there and are touched in turn.
const PAGES: usize = 500;
/// Writes between two looks at the size.
const BETWEEN_LOOKS: usize = 25;

/// Writes twice as often, and measures each half.
pub async fn run() -> Result<Vec<Figure>> {
    let embedder = EmbedderChoice::Given(std::sync::Arc::new(SeededEmbedder::default()));
    let host = TempHost::new(embedder).await?;
    let source = host.folder.path().join("source");
    Maker::new(1).folder(&source, PAGES)?;
    let options = IngestOptions {
        overwrite: false,
        dry_run: false,
        origin: Origin::UserFile,
        authority: Authority::Owner,
    };
    let source = IngestSource::Folder(source);
    let mut go_on = |_| ControlFlow::Continue(());
    host.assistant.ingest(source, options, &mut go_on).await?;
    let pages = pages_of(&host.assistant).await?;
    let mut figures = Vec::new();
    for half in ["first", "second"] {
        let mut most = (0, 0);
        let mut times = Vec::new();
        for number in 0..WRITES {
            let page = &pages[number % pages.len()];
            times.push(write(&host.assistant, half, number, page).await?);
            if number % BETWEEN_LOOKS == 0 {
                let (files, bytes) = size(&host.assistant).await?;
                most = (most.0.max(files), most.1.max(bytes));
            }
        }
        let (files, bytes) = size(&host.assistant).await?;
        for (what, value, unit) in [
            ("most_files", most.0, "files"),
            ("most_bytes", most.1, "bytes"),
            ("files", files, "files"),
            ("bytes", bytes, "bytes"),
        ] {
            figures.push(count(format!("upkeep_{half}_{what}"), value, unit));
        }
        for (name, share) in [("p50", 0.5), ("p95", 0.95)] {
            let time = percentile(&mut times, share);
            figures.push(Figure::millis(format!("upkeep_{half}_write_{name}"), time));
        }
    }
    let source: u64 = pages
        .iter()
        .map(|page| std::fs::metadata(page).map_or(0, |page| page.len()))
        .sum();
    let rows = host
        .assistant
        .store()
        .await?
        .stats()
        .await?
        .index
        .map_or(0, |index| index.rows);
    figures.push(count(
        "upkeep_budget_bytes".to_owned(),
        10 * source + 4096 * rows,
        "bytes",
    ));
    Ok(figures)
}

async fn pages_of(assistant: &Assistant) -> Result<Vec<std::path::PathBuf>> {
    let store = assistant.store().await?;
    let folder = store.files().folder().to_owned();
    let index = store.pages();
    Ok(index
        .pages()
        .iter()
        .map(|page| folder.join(&page.path))
        .collect())
}

async fn write(assistant: &Assistant, half: &str, number: usize, page: &Path) -> Result<Duration> {
    let start = Instant::now();
    let input = RememberInput {
        texts: vec![format!(
            "The kettle of the {half} half, number {number}, is descaled."
        )],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    };
    assistant.remember(input).await?;
    let text = std::fs::read_to_string(page)?;
    let (text, _) = text.split_once("\n## Touched").unwrap_or((&text, ""));
    std::fs::write(
        page,
        format!("{text}\n## Touched\n\nIn the {half} half, number {number}.\n"),
    )?;
    let store = assistant.store().await?;
    // Large folders are not looked at whole each time, so the first looks may find nothing.
    for _ in 0..100 {
        if store.refresh().await?.changed > 0 {
            return Ok(start.elapsed());
        }
    }
    anyhow::bail!("the edit of `{}` was not noticed", page.display())
}

async fn size(assistant: &Assistant) -> Result<(u64, u64)> {
    let stats = assistant.store().await?.stats().await?;
    let index = stats.index.context("there is an index")?;
    Ok((index.files, index.bytes))
}

fn count(name: String, value: u64, unit: &str) -> Figure {
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of files and bytes are far below 2^52"
    )]
    Figure::new(name, value as f64, unit)
}
