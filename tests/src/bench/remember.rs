//! What an acknowledged note costs beside a bare flushed commit on the same disk, alone and handed in through the socket,
//! and what a rebuilt index does, in a memory of some size.

use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::{Result, ensure};
use memory_core::env::SystemClock;
use memory_core::provenance::{Authority, Channel, Origin};
use memory_substrate::embed::SeededEmbedder;
use memory_substrate::state::SqliteState;
use strata::{Access, IngestOptions, IngestSource, RememberInput};

use super::size_label;
use crate::corpus::{Maker, SECTIONS};
use crate::host::{ASSISTANT, TempHost, given};
use crate::measure::{Figure, folder_megabytes, percentile, resident_megabytes};

/// Notes and commits that are timed.
const ROUNDS: usize = 100;

/// Measures all of it in a memory of that many pages with seeded vectors.
pub async fn run(pages: usize) -> Result<Vec<Figure>> {
    let label = size_label(pages);
    let host = TempHost::new(given(SeededEmbedder::default())).await?;
    let folder = host.folder.path().join("made");
    Maker::new(pages as u64).folder(&folder, pages)?;
    let source = IngestSource::Folder(folder);
    let (report, _) = host
        .assistant
        .ingest(source, IngestOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .await?;
    ensure!(report.written == pages, "not every page was taken in");

    let bare = SqliteState::open(&host.folder.path().join("bare.db"), &SystemClock)?;
    // It finds the lock held, so it asks the one that holds it.
    let beside = host.strata.assistant(ASSISTANT, Access::ReadWrite).await?;
    let (mut commits, mut notes, mut handed) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let start = Instant::now();
        bare.put_meta("round", Some(round.to_string())).await?;
        commits.push(start.elapsed());
        let input = note(format!("The kettle number {round} is descaled on Mondays."));
        let start = Instant::now();
        host.assistant.remember(input).await?;
        notes.push(start.elapsed());
        let input = note(format!("The kettle number {round} is filled on Fridays."));
        let start = Instant::now();
        beside.remember(input).await?;
        handed.push(start.elapsed());
    }
    let mut figures = Vec::new();
    for (name, times) in [
        ("bare_flushed_commit", &mut commits),
        ("remember", &mut notes),
        ("remember_through_socket", &mut handed),
    ] {
        for (percent, share) in [("p50", 0.5), ("p95", 0.95)] {
            let name = format!("{name}_{label}_{percent}");
            figures.push(Figure::millis(name, percentile(times, share)));
        }
    }

    let start = Instant::now();
    let rebuilt = host
        .assistant
        .reindex(&mut |_| ControlFlow::Continue(()))
        .await?;
    ensure!(
        rebuilt.sections >= pages * SECTIONS,
        "not every section was indexed anew"
    );
    let name = format!("reindex_seeded_{label}");
    figures.push(Figure::new(name, start.elapsed().as_secs_f64(), "s"));
    let root = host.assistant.workspace().root();
    let disk = folder_megabytes(root)?;
    figures.push(Figure::new(format!("disk_{label}"), disk, "MB"));
    let resident = resident_megabytes();
    figures.push(Figure::new(format!("resident_{label}"), resident, "MB"));
    Ok(figures)
}

fn note(text: String) -> RememberInput {
    RememberInput {
        texts: vec![text],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    }
}
