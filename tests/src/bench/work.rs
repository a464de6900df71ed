//! Background work: what filing a full batch takes, by rules and with a model that answers at once, how many jobs the queue
//! gets through, and how far a schedule is off its hours.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use memory_core::env::{Clock as _, ManualClock, SeededRng, SystemClock};
use memory_core::job::{Job, NewJob, Resolution, Unless};
use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::schedule::{Situation, begun, consolidation};
use memory_core::time::Timestamp;
use memory_core::wire::job as name;
use memory_substrate::consolidate::{Agent, ConsolidateOptions, RunCause, RunOutcome, RunReport};
use memory_substrate::embed::SeededEmbedder;
use memory_substrate::jobs::{JobHandler, Stop, Worker, WorkerOptions};
use memory_substrate::llm::{LlmSettings, Patience, Wire, connect};
use serde_json::{Value, json};
use strata::{EmbedderChoice, RememberInput};

use self::scripted::{Asked, Reply, ScriptedServer};
use crate::host::TempHost;
use crate::measure::{Figure, percentile};

#[expect(
    dead_code,
    reason = "not everything that the server can do is needed here"
)]
#[path = "../../../memory-substrate/src/llm/scripted.rs"]
mod scripted;

/// Notes of a full batch.
const BATCH: usize = 150;
/// Batches of each way.
const CYCLES: usize = 7;
/// Jobs that are asked for and done.
const JOBS: u32 = 2_000;
/// Days of the schedule.
const DAYS: i64 = 30;

/// Measures everything there is to measure.
pub async fn run() -> Result<Vec<Figure>> {
    let mut figures = cycles(None).await?;
    for (label, wire) in [("openai", Wire::OpenAi), ("anthropic", Wire::Anthropic)] {
        figures.extend(cycles(Some((label, wire))).await?);
    }
    figures.extend(queue().await?);
    figures.push(drift());
    Ok(figures)
}

/// Files batches, by rules or with a model.
async fn cycles(wire: Option<(&str, Wire)>) -> Result<Vec<Figure>> {
    let embedder = EmbedderChoice::Given(Arc::new(SeededEmbedder::default()));
    let host = TempHost::new(embedder).await?;
    let store = host.assistant.store().await?;
    let options = ConsolidateOptions {
        cause: RunCause::Manual,
        dry_run: false,
        most_entries: Some(u32::try_from(BATCH)?),
        longest_page: 5_000,
    };
    let server = ScriptedServer::start(Box::new(diligent())).await;
    let agent = match wire {
        Some((_, wire)) => {
            let settings = LlmSettings {
                wire,
                model: "scripted".to_owned(),
                base_url: Some(server.base_url()),
                key: None,
                concurrency: 1,
                patience: Patience::default(),
            };
            let (client, _) = connect(&settings, Arc::new(SystemClock))?;
            Some(Agent {
                client,
                prompt: None,
            })
        }
        None => None,
    };
    let label = wire.map_or("rules", |(label, _)| label);
    let (mut times, mut last) = (Vec::new(), None::<RunReport>);
    for cycle in 0..CYCLES {
        for number in 0..BATCH {
            let input = RememberInput {
                texts: vec![format!(
                    "Person {} Number said the number {number} in round {cycle}.",
                    number % 20
                )],
                origin: Origin::UserDirect,
                authority: Authority::Owner,
                channel: Channel::Global,
            };
            host.assistant.remember(input).await?;
        }
        let start = Instant::now();
        let stop = Stop::default();
        let ran = store.consolidate_with(options.clone(), agent.as_ref(), &stop);
        let report = ran.await?;
        times.push(start.elapsed());
        ensure!(
            report.outcome == RunOutcome::Installed,
            "a run failed: {:?}",
            report.problems
        );
        ensure!(
            report.filed.len() == BATCH,
            "only {} were filed",
            report.filed.len()
        );
        last = Some(report);
    }
    let mut figures = vec![
        Figure::millis(format!("cycle_{label}_p50"), percentile(&mut times, 0.5)),
        Figure::millis(format!("cycle_{label}_max"), percentile(&mut times, 1.0)),
    ];
    if let Some(report) = last.filter(|_| wire.is_some()) {
        let asked: usize = server
            .asked()
            .iter()
            .rev()
            .take(usize::try_from(report.usage.calls)?)
            .map(|asked| asked.body.to_string().len())
            .sum();
        figures.push(count(
            format!("cycle_{label}_calls"),
            report.usage.calls,
            "calls",
        ));
        // The scripted server counts no tokens, so what was sent is told in bytes; four of them are about a token.
        figures.push(count(format!("cycle_{label}_sent"), asked as u64, "bytes"));
    }
    Ok(figures)
}

/// Answers as a model that files each note with its person, sixty calls an answer, and is done.
fn diligent() -> impl FnMut(&Asked) -> Reply + Send {
    const CALLS: usize = 60;
    let (mut waiting, mut seen) = (Vec::<(String, String)>::new(), Vec::<String>::new());
    move |asked| {
        let new = notes(&asked.body);
        let is_new = |note: &&(String, String)| !seen.contains(&note.0);
        let fresh: Vec<_> = new.iter().filter(is_new).cloned().collect();
        seen.extend(fresh.iter().map(|(note, _)| note.clone()));
        waiting.extend(fresh);
        if waiting.is_empty() {
            return Reply::Calls(vec![("done".to_owned(), json!({}))]);
        }
        let now = waiting.drain(..waiting.len().min(CALLS));
        Reply::Calls(
            now.map(|(note, title)| ("file".to_owned(), json!({"note": note, "title": title})))
                .collect(),
        )
    }
}

/// Returns the notes that a request names, each with the first three words of its text.
fn notes(body: &Value) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    collect(body, &mut texts);
    let lines = texts.iter().flat_map(|text| text.lines());
    lines
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|line| {
            let text = line["text"].as_str()?;
            let title: Vec<&str> = text.split(' ').take(3).collect();
            Some((line["note"].as_str()?.to_owned(), title.join(" ")))
        })
        .collect()
}

fn collect<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, texts)),
        Value::Object(parts) => parts.values().for_each(|part| collect(part, texts)),
        _ => {}
    }
}

/// A job that is done at once.
#[derive(Debug, Default)]
struct Nothing(AtomicU64);

#[async_trait]
impl JobHandler for Nothing {
    async fn run(&self, _job: &Job, _stop: &Stop) -> Resolution {
        self.0.fetch_add(1, Ordering::Relaxed);
        Resolution::Completed
    }
}

/// Asks for jobs and does them.
async fn queue() -> Result<Vec<Figure>> {
    let host = TempHost::new(EmbedderChoice::None).await?;
    let store = host.assistant.store().await?;
    let done = Arc::new(Nothing::default());
    let handler: Arc<dyn JobHandler> = done.clone();
    let worker = Worker::new(WorkerOptions {
        state: Arc::clone(store.state()),
        clock: Arc::new(SystemClock),
        rng: Arc::new(SeededRng::new(1)),
        handlers: HashMap::from([(name::REBUILD_INDEX.to_owned(), handler)]),
        schedules: Vec::new(),
    });
    let start = Instant::now();
    for number in 0..JOBS {
        let new = NewJob {
            kind: name::REBUILD_INDEX.to_owned(),
            payload: format!("{{\"number\":{number}}}"),
            run_after: Timestamp::from_millis(0),
            unless: Unless::Never,
        };
        store.enqueue(new).await?;
    }
    let asked = start.elapsed();
    let start = Instant::now();
    while worker.drain().await? > 0 {}
    let did = start.elapsed();
    ensure!(
        done.0.load(Ordering::Relaxed) == u64::from(JOBS),
        "not all jobs were done"
    );
    let rate = |time: Duration| f64::from(JOBS) / time.as_secs_f64();
    Ok(vec![
        Figure::new("queue_enqueue", rate(asked), "jobs/s"),
        Figure::new("queue_claim_and_finish", rate(did), "jobs/s"),
    ])
}

/// Returns how far the last of a month of consolidations is off its hour, if the schedule is looked at once a minute, and up
/// to a minute late.
fn drift() -> Figure {
    const HOURS: u32 = 8;
    let clock = ManualClock::default();
    let (begin, rng) = (clock.now(), SeededRng::new(7));
    let mut last_run = None;
    let mut runs = 0;
    while clock.now().as_millis() - begin.as_millis() < DAYS * 24 * 3_600_000 {
        let late = i64::try_from(memory_core::env::Rng::next_u64(&rng) % 60_000).unwrap_or(0);
        clock.advance_millis(60_000 + late);
        let now = clock.now();
        let decision = consolidation(&Situation {
            now,
            last_run,
            interval_hours: HOURS,
            lines: 20,
            touched: Some(now),
            most_lines: None,
            is_active: false,
            failures: None,
        });
        if decision.begins_anew {
            last_run = Some(begun(last_run, HOURS, now));
        }
        runs += i64::from(decision.runs);
    }
    let due = last_run.map_or(0, |last| {
        last.as_millis() - begin.as_millis() - (runs - 1) * i64::from(HOURS) * 3_600_000
    });
    #[expect(clippy::cast_precision_loss, reason = "minutes of a month")]
    let seconds = due as f64 / 1e3;
    Figure::new("schedule_drift_in_a_month", seconds, "s")
}

fn count(name: String, value: u64, unit: &str) -> Figure {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    Figure::new(name, value as f64, unit)
}
