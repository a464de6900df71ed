//! Work that nobody waits for: the jobs of an assistant, and who does them.
//!
//! Whichever process writes to an assistant can do its jobs. A host that runs for long starts that once; whoever has no such
//! host asks now and then for whatever is due.

use std::collections::HashMap;
use std::sync::Arc;

use memory_core::config::Config;
use memory_core::job::{Job, JobStatus};
use memory_core::predicates::{Tier, uses_concept_page_memory};
use memory_core::text::buffer;
use memory_core::wire::job as name;
use memory_substrate::blocking;
use memory_substrate::consolidate::{ConsolidateOptions, PastRun, RunCause};
use memory_substrate::jobs::{
    ConsolidateSettings, Consolidation, JobCounts, JobHandler, Worker, WorkerOptions,
};
use memory_substrate::random::SystemRng;
use memory_substrate::workspace::Workspace;
use serde::Serialize;

use super::beside::{Request, go_on};
use super::consolidate::agent;
use super::route::Route;
use super::{Assistant, Engine};
use crate::error::StrataError;
use crate::model::LiveModel;
use crate::settings::LiveSettings;
use crate::socket::Operation;

/// How an assistant's memory stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryStatus {
    /// The configured tier.
    pub tier: Tier,
    /// Pages.
    pub pages: usize,
    /// Sections that can be found.
    pub sections: usize,
    /// Pages that wait to be indexed.
    pub waiting: usize,
    /// Entries that stand in the buffer.
    pub entries: usize,
    /// The last consolidation.
    pub last_run: Option<PastRun>,
    /// The jobs.
    pub jobs: JobCounts,
}

impl Assistant {
    /// Returns how the memory stands: what there is, what waits, and what was done last.
    pub async fn status(&self) -> Result<MemoryStatus, StrataError> {
        let tier = self.look().await?.config.tier();
        let store = &self.engine().await?.store;
        let stats = store.stats().await?;
        let path = self.workspace.buffer_path();
        let fs = Arc::clone(store.workspace().fs());
        let buffer = blocking::run(move || match fs.read(&path) {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(StrataError::Io {
                action: "read",
                path,
                source,
            }),
        })
        .await?;
        let text = String::from_utf8_lossy(&buffer).into_owned();
        let groups = buffer::split(&text);
        Ok(MemoryStatus {
            tier,
            pages: stats.pages,
            sections: stats.sections,
            waiting: stats.waiting,
            entries: groups
                .iter()
                .filter(|group| group.opening.is_some())
                .count(),
            last_run: store.runs(1).await?.into_iter().next(),
            jobs: store.job_counts().await?,
        })
    }

    /// Begins to do this assistant's jobs beside everything else, until it is closed. Returns whether this process does them:
    /// while another one writes, they are for that one.
    pub async fn start_work(&self) -> Result<bool, StrataError> {
        self.writable("work")?;
        if let Route::There(_) = self.route(self.options.write_patience).await? {
            return Ok(false);
        }
        self.worker().await?.start();
        Ok(true)
    }

    /// Does whatever is due, and returns how many jobs that were.
    pub async fn work(&self) -> Result<usize, StrataError> {
        self.writable("work")?;
        let request = Request::repeatable("work", Operation::Work);
        if let Some(done) = self.hand_over(request, &(), &mut go_on).await? {
            return Ok(done);
        }
        Ok(self.worker().await?.drain().await?)
    }

    /// Returns the newest jobs, newest first.
    pub async fn jobs(&self, limit: u32) -> Result<Vec<Job>, StrataError> {
        Ok(self.engine().await?.store.jobs(limit).await?)
    }

    /// Returns how many jobs there are of each status.
    pub async fn job_counts(&self) -> Result<JobCounts, StrataError> {
        Ok(self.engine().await?.store.job_counts().await?)
    }

    /// Cancels a job that waits, and asks one that is at work to end. Returns how far it has come then.
    pub async fn cancel_job(&self, id: &str) -> Result<JobStatus, StrataError> {
        self.writable("cancel a job")?;
        let request = Request::repeatable("cancel a job", Operation::CancelJob);
        if let Some(status) = self.hand_over(request, &id, &mut go_on).await? {
            return Ok(status);
        }
        let engine = self.engine().await?;
        let status = engine.store.cancel_job(id).await?;
        if let Some(worker) = engine.worker.get() {
            worker.stop_job(id);
        }
        Ok(status)
    }

    /// Has a job tried again that failed or was cancelled. Returns how far it has come then.
    pub async fn retry_job(&self, id: &str) -> Result<JobStatus, StrataError> {
        self.writable("retry a job")?;
        let request = Request::repeatable("retry a job", Operation::RetryJob);
        if let Some(status) = self.hand_over(request, &id, &mut go_on).await? {
            return Ok(status);
        }
        let engine = self.engine().await?;
        let status = engine.store.retry_job(id).await?;
        if let Some(worker) = engine.worker.get() {
            worker.wake();
        }
        Ok(status)
    }

    /// Returns the worker of this process, which writes.
    async fn worker(&self) -> Result<&Worker, StrataError> {
        self.embedding.warm();
        let engine = self.engine().await?;
        let settings = Arc::clone(&self.settings);
        let (model, workspace) = (Arc::clone(&self.model), self.workspace.clone());
        let worker = engine
            .worker
            .get_or_init(|| worker(engine, &self.options, settings, model, workspace));
        Ok(worker)
    }
}

fn worker(
    engine: &Engine,
    options: &crate::options::StrataOptions,
    settings: Arc<LiveSettings>,
    model: Arc<LiveModel>,
    workspace: Workspace,
) -> Worker {
    let settings = Arc::new(move || {
        let config = settings.look().config;
        let mut settings = consolidation(&config)?;
        settings.agent = match agent(&model, &workspace, &config) {
            Ok(agent) => agent,
            Err(error) => {
                // Notes wait until it is there: whoever chose a model does not want rules instead.
                tracing::warn!(error = %error, "there is no model, so nothing is consolidated");
                return None;
            }
        };
        Some(settings)
    });
    let consolidation = Arc::new(Consolidation::new(engine.store.clone(), settings));
    let handler: Arc<dyn JobHandler> = consolidation.clone();
    Worker::new(WorkerOptions {
        state: Arc::clone(engine.store.state()),
        clock: Arc::clone(&options.clock),
        rng: Arc::new(SystemRng),
        handlers: HashMap::from([(name::CONSOLIDATE.to_owned(), handler)]),
        schedules: vec![consolidation],
    })
}

/// Returns what the settings say of consolidation; nothing where there are no concept pages.
fn consolidation(config: &Config) -> Option<ConsolidateSettings> {
    let substrate = &config.memory.substrate;
    uses_concept_page_memory(config.memory.switches()).then_some(ConsolidateSettings {
        interval_hours: substrate.consolidation_interval_hours,
        most_lines: substrate.consolidation_max_buffer_lines,
        options: ConsolidateOptions {
            cause: RunCause::Automatic,
            dry_run: false,
            most_entries: substrate.consolidation_max_entries_per_run,
            longest_page: substrate.max_page_chars,
        },
        agent: None,
    })
}
