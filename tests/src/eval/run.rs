//! Asking every method every question of a set.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::ops::ControlFlow;

use anyhow::{Context as _, Result, bail, ensure};
use memory_core::predicates::Tier;
use memory_core::services::{Call, Capability, LexicalQuery, SectionHit, Services};
use memory_core::text::page::Page;
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use strata::{EmbedderChoice, IngestOptions, IngestSource, TurnInput};

use super::metrics::{LARGEST_K, Measures, mean, measure, paired};
use super::report::Row;
use super::set::{Corpus, EvalSet, Unit};
use crate::host::{TempHost, owner_call};

/// Sections that the plain methods rank.
const DEPTH: u32 = 200;

/// Damping of the plain fusion.
const RRF_K: f64 = 60.0;

/// The methods, in the order of the report. The first is what the others are held against.
pub const METHODS: [&str; 4] = ["BM25", "dense", "RRF", "tier-v3"];

/// Runs a set and returns a row a method.
pub async fn run(set: &EvalSet, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>> {
    let mut measured: [Vec<Measures>; METHODS.len()] = Default::default();
    for corpus in &set.corpora {
        progress(&format!(
            "{}: {} ({} pages)",
            set.name,
            corpus.name,
            corpus.pages.len()
        ));
        let size = corpus.size(set.unit);
        ensure!(
            size > LARGEST_K,
            "`{}` has {size} units, and measuring the first {LARGEST_K} of them would say nothing: use a larger corpus",
            corpus.name
        );
        run_corpus(set.unit, corpus, &mut measured).await?;
    }
    let [bm25, ..] = &measured;
    Ok(METHODS
        .iter()
        .zip(&measured)
        .map(|(method, measures)| {
            let against = |field: fn(&Measures) -> f64| {
                let left: Vec<f64> = measures.iter().map(field).collect();
                let right: Vec<f64> = bm25.iter().map(field).collect();
                (*method != METHODS[0]).then(|| paired(&left, &right))
            };
            Row {
                set: set.name.clone(),
                method: (*method).to_owned(),
                n: measures.len(),
                measures: mean(measures),
                recall_5_against_bm25: against(|measures| measures.recall_5),
                ndcg_10_against_bm25: against(|measures| measures.ndcg_10),
            }
        })
        .collect())
}

async fn run_corpus(
    unit: Unit,
    corpus: &Corpus,
    measured: &mut [Vec<Measures>; METHODS.len()],
) -> Result<()> {
    let host = TempHost::new(EmbedderChoice::Auto).await?;
    let folder = host.folder.path().join("pages");
    fs::create_dir_all(&folder)?;
    let mut units = Units::default();
    for page in &corpus.pages {
        fs::write(folder.join(format!("{}.md", page.name)), &page.text)?;
        let slug = Slug::from_path(&page.name);
        if unit == Unit::Section {
            let sections = Page::parse(&slug, &page.text).sections;
            ensure!(
                sections.len() == page.units.len() + 1,
                "page `{}` was not cut into its turns",
                page.name
            );
            for (section, name) in sections.into_iter().skip(1).zip(&page.units) {
                units.sections.insert(section.id, name.clone());
            }
        }
        units.pages.insert(slug, page.name.clone());
    }
    ensure!(
        units.pages.len() == corpus.pages.len(),
        "two pages of `{}` share a slug",
        corpus.name
    );
    let (report, _) = host
        .assistant
        .ingest(
            IngestSource::Folder(folder),
            IngestOptions::default(),
            &mut |_| ControlFlow::Continue(()),
        )
        .await?;
    ensure!(
        report.written == corpus.pages.len(),
        "{} of {} pages were ingested",
        report.written,
        corpus.pages.len()
    );

    let store = host.assistant.store().await?;
    let services = store.services(Tier::V3, &[Capability::Lexical, Capability::Dense]);
    for (number, question) in corpus.questions.iter().enumerate() {
        let conversation = format!("question-{number}");
        let call = owner_call(&conversation);
        let lexical = lexical(&services, &call, &question.text).await?;
        let dense = dense(&services, &call, &question.text).await?;
        let fused = reciprocal_rank_fusion(&lexical, &dense);
        let explained = host
            .assistant
            .explain(TurnInput::owner(conversation, question.text.clone()))
            .await?;
        let tier = explained
            .candidates
            .into_iter()
            .filter_map(|candidate| candidate.section)
            .collect();
        for (measured, ranking) in measured.iter_mut().zip([lexical, dense, fused, tier]) {
            measured.push(measure(&units.named(unit, &ranking), &question.gold));
        }
    }
    Ok(())
}

/// The names of what is ranked.
#[derive(Default)]
struct Units {
    pages: BTreeMap<Slug, String>,
    sections: BTreeMap<SectionId, String>,
}

impl Units {
    /// Returns a ranking of sections as a ranking of units, without repeats.
    fn named(&self, unit: Unit, ranking: &[SectionId]) -> Vec<String> {
        let mut seen = HashSet::new();
        ranking
            .iter()
            .filter_map(|id| match unit {
                Unit::Page => self.pages.get(&id.slug),
                Unit::Section => self.sections.get(id),
            })
            .filter(|name| seen.insert(*name))
            .cloned()
            .collect()
    }
}

async fn lexical(services: &Services, call: &Call, text: &str) -> Result<Vec<SectionId>> {
    let lexical = services
        .lexical
        .as_ref()
        .context("the host offers no lexical search")?;
    let query = LexicalQuery {
        text: text.to_owned(),
        head_weight: 1.0,
        body_weight: 1.0,
        k1: 1.2,
        b: 0.75,
        limit: DEPTH,
        best_per_page: false,
    };
    Ok(ids(lexical.search(call, query).await?))
}

async fn dense(services: &Services, call: &Call, text: &str) -> Result<Vec<SectionId>> {
    let Some(dense) = &services.dense else {
        bail!("the host offers no dense search")
    };
    let vector = dense
        .embed(call, vec![text.to_owned()])
        .await
        .context("an evaluation needs the embedding model: run `cargo xtask setup`")?;
    Ok(ids(dense.search(call, vector, DEPTH).await?))
}

fn ids(hits: Vec<SectionHit>) -> Vec<SectionId> {
    hits.into_iter().map(|hit| hit.id).collect()
}

fn reciprocal_rank_fusion(first: &[SectionId], second: &[SectionId]) -> Vec<SectionId> {
    let mut scores: BTreeMap<&SectionId, f64> = BTreeMap::new();
    for ranking in [first, second] {
        let mut rank = RRF_K;
        for id in ranking {
            rank += 1.0;
            *scores.entry(id).or_default() += 1.0 / rank;
        }
    }
    let mut fused: Vec<(&SectionId, f64)> = scores.into_iter().collect();
    fused.sort_by(|left, right| right.1.total_cmp(&left.1).then_with(|| left.0.cmp(right.0)));
    fused.into_iter().map(|(id, _)| id.clone()).collect()
}
