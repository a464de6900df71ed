//! `work`, `jobs` and `status`: what goes on beside everything else.

use serde_json::json;
use strata::{Access, Job};

use super::Session;
use super::args::JobsCommand;
use super::consolidate::entries;
use super::notes::count;
use super::output::{Failure, Lines, Report, columns};

/// Jobs that are shown.
const SHOWN: u32 = 50;

/// Does whatever is due.
pub(crate) async fn work(session: &Session) -> Result<Report, Failure> {
    let assistant = session.listening_assistant().await?;
    let done = assistant.work().await;
    let counts = assistant.job_counts().await;
    assistant.close().await;
    let (done, counts) = (done?, counts?);
    let mut text = Lines::default();
    text.push(if done == 0 {
        "nothing was due".to_owned()
    } else {
        format!("{} done", count(done, "job"))
    });
    let warnings = if counts.failed > 0 {
        let failed = usize::try_from(counts.failed).unwrap_or(usize::MAX);
        vec![format!(
            "{} failed: see `strata jobs list`",
            count(failed, "job")
        )]
    } else {
        Vec::new()
    };
    Ok(Report::done(json!({ "done": done, "jobs": counts }), text.finish()).warn(warnings))
}

/// Lists jobs, or changes one.
pub(crate) async fn jobs(session: &Session, command: JobsCommand) -> Result<Report, Failure> {
    let (status, id) = match command {
        JobsCommand::List => return list(session).await,
        JobsCommand::Retry { job } => {
            let assistant = session.assistant(Access::ReadWrite).await?;
            (assistant.retry_job(&job).await?, job)
        }
        JobsCommand::Cancel { job } => {
            let assistant = session.assistant(Access::ReadWrite).await?;
            (assistant.cancel_job(&job).await?, job)
        }
    };
    let text = format!("job {id} is {}\n", status.as_str());
    Ok(Report::done(json!({ "job": id, "status": status }), text))
}

async fn list(session: &Session) -> Result<Report, Failure> {
    let assistant = session.assistant(Access::ReadOnly).await?;
    let jobs = assistant.jobs(SHOWN).await?;
    let row = |job: &Job| {
        vec![
            job.id.clone(),
            job.kind.clone(),
            job.status.as_str().to_owned(),
            job.run_after.civil_minute("UTC"),
            job.last_error.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = jobs.iter().map(row).collect();
    let mut text = Lines::default();
    for line in columns(&rows) {
        text.push(line);
    }
    if jobs.is_empty() {
        text.push("no job was ever asked for");
    }
    Ok(Report::done(json!({ "jobs": jobs }), text.finish()))
}

/// Says how the memory stands.
pub(crate) async fn status(session: &Session) -> Result<Report, Failure> {
    let assistant = session.assistant(Access::ReadOnly).await?;
    let status = assistant.status().await?;
    let mut text = Lines::default();
    let last = status.last_run.as_ref().map_or_else(
        || "never".to_owned(),
        |run| {
            format!(
                "{} ({}, {})",
                run.started.civil_minute("UTC"),
                run.report.outcome.as_str(),
                entries(run.report.filed.len())
            )
        },
    );
    let rows = [
        ("tier", status.tier.to_string()),
        ("pages", status.pages.to_string()),
        ("sections", status.sections.to_string()),
        ("pages not indexed yet", status.waiting.to_string()),
        ("entries in the buffer", status.entries.to_string()),
        ("last consolidation", last),
        (
            "jobs",
            format!(
                "{} waiting, {} at work, {} failed",
                status.jobs.pending, status.jobs.running, status.jobs.failed
            ),
        ),
    ];
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    for line in columns(&rows) {
        text.push(line);
    }
    Ok(Report::done(json!(status), text.finish()))
}
