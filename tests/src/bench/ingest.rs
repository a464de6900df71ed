//! What the real model costs, and what the rest of an ingest adds to it.

use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::{Context as _, Result};
use memory_core::embed::Embedder as _;
use memory_core::text::page::Page;
use memory_core::text::slug::Slug;
use memory_substrate::embed::{LocalEmbedder, Provisioned};
use strata::{EmbedderChoice, IngestOptions, IngestSource, TurnInput};

use crate::corpus::Maker;
use crate::host::TempHost;
use crate::measure::{Figure, percentile, resident_megabytes};

/// Pages that are embedded with the real model.
const PAGES: usize = 200;

/// Queries that are embedded one by one.
const QUERIES: usize = 100;

/// Measures the embedder alone and an ingest with it.
pub async fn run() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let maker = Maker::new(7);
    let texts: Vec<String> = (0..PAGES)
        .flat_map(|number| {
            Page::parse(
                &Slug::from_title(&format!("page-{number}")),
                &maker.page(number),
            )
            .sections
        })
        .map(|section| section.text())
        .collect();

    let provisioned = Provisioned::from_env(|name| std::env::var_os(name))
        .context("this benchmark needs the embedding model: run `cargo xtask setup`")?;
    let start = Instant::now();
    let embedder = LocalEmbedder::load(provisioned).await?;
    figures.push(Figure::millis("model_load", start.elapsed()));
    embedder
        .embed(texts.iter().take(32).cloned().collect())
        .await?;
    let start = Instant::now();
    let vectors = embedder.embed(texts.clone()).await?;
    let alone = f64::from(u32::try_from(vectors.rows())?) / start.elapsed().as_secs_f64();
    figures.push(Figure::new("embedder_alone", alone, "sections/s"));
    let mut queries = Vec::new();
    for _ in 0..QUERIES {
        let question = maker.question();
        let start = Instant::now();
        embedder.embed(vec![question]).await?;
        queries.push(start.elapsed());
    }
    figures.push(Figure::millis(
        "query_embedding_p50",
        percentile(&mut queries, 0.5),
    ));
    figures.push(Figure::millis(
        "query_embedding_p95",
        percentile(&mut queries, 0.95),
    ));
    drop(embedder);

    let host = TempHost::new(EmbedderChoice::Auto).await?;
    let folder = host.folder.path().join("made");
    Maker::new(7).folder(&folder, PAGES)?;
    host.assistant.warm().await?;
    let start = Instant::now();
    let (_, synced) = host
        .assistant
        .ingest(
            IngestSource::Folder(folder),
            IngestOptions::default(),
            &mut |_| ControlFlow::Continue(()),
        )
        .await?;
    let took = start.elapsed().as_secs_f64();
    let sections = f64::from(u32::try_from(synced.sections)?);
    figures.push(Figure::new(
        "ingest_with_model",
        f64::from(u32::try_from(PAGES)?) / took,
        "pages/s",
    ));
    figures.push(Figure::new(
        "ingest_with_model_sections",
        sections / took,
        "sections/s",
    ));
    figures.push(Figure::new(
        "ingest_against_embedder_alone",
        sections / took / alone,
        "ratio",
    ));
    let mut turns = Vec::new();
    for number in 0..QUERIES {
        let question = maker.question();
        let start = Instant::now();
        let injection = host
            .assistant
            .begin_turn(TurnInput::owner(format!("conversation-{number}"), question))
            .await;
        turns.push(start.elapsed());
        drop(injection);
    }
    figures.push(Figure::millis(
        "begin_turn_with_model_p50",
        percentile(&mut turns, 0.5),
    ));
    figures.push(Figure::millis(
        "begin_turn_with_model_p95",
        percentile(&mut turns, 0.95),
    ));
    figures.push(Figure::new(
        "resident_with_model",
        resident_megabytes(),
        "MB",
    ));
    Ok(figures)
}
