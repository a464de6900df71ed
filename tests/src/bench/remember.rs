//! What an acknowledged note costs beside a bare flushed commit on the same disk.

use std::time::Instant;

use anyhow::Result;
use memory_core::env::SystemClock;
use memory_core::provenance::{Authority, Channel, Origin};
use memory_substrate::state::SqliteState;
use strata::{EmbedderChoice, RememberInput};

use crate::host::TempHost;
use crate::measure::{Figure, percentile};

/// Notes and commits that are timed.
const ROUNDS: usize = 100;

/// Measures both on the same temporary folder.
pub async fn run() -> Result<Vec<Figure>> {
    let host = TempHost::new(EmbedderChoice::None).await?;
    let bare = SqliteState::open(&host.folder.path().join("bare.db"), &SystemClock)?;
    let (mut commits, mut notes) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let start = Instant::now();
        bare.put_meta("round", Some(round.to_string())).await?;
        commits.push(start.elapsed());
        let input = RememberInput {
            texts: vec![format!("The kettle number {round} is descaled on Mondays.")],
            origin: Origin::UserDirect,
            authority: Authority::Owner,
            channel: Channel::Global,
        };
        let start = Instant::now();
        host.assistant.remember(input).await?;
        notes.push(start.elapsed());
    }
    let mut figures = Vec::new();
    for (name, times) in [
        ("bare_flushed_commit", &mut commits),
        ("remember", &mut notes),
    ] {
        figures.push(Figure::millis(
            format!("{name}_p50"),
            percentile(times, 0.5),
        ));
        figures.push(Figure::millis(
            format!("{name}_p95"),
            percentile(times, 0.95),
        ));
    }
    Ok(figures)
}
