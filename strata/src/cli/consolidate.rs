//! `consolidate` and `runs`: filing the buffer into pages, and what runs did.

use serde_json::json;
use strata::{Access, ErrorKind, PastRun, RunCause, RunOutcome, RunReport};

use super::Session;
use super::args::{ConsolidateArgs, RunsCommand};
use super::notes::count;
use super::output::{Exit, Failure, Lines, Report, columns};
use super::repair;

/// Files the oldest entries of the buffer.
pub(crate) async fn consolidate(
    session: &Session,
    args: ConsolidateArgs,
) -> Result<Report, Failure> {
    let assistant = session.listening_assistant().await?;
    let done = assistant.consolidate(RunCause::Manual, args.dry_run).await;
    assistant.close().await;
    let report = done?;
    let mut text = Lines::default();
    summary(session, &report, args.dry_run, &mut text);
    if args.dry_run {
        diffs(&report, &mut text);
    }
    let exit = if report.outcome == RunOutcome::Failed {
        Exit::Partly
    } else {
        Exit::Done
    };
    Ok(Report::done(json!(report), text.finish())
        .warn(report.problems.clone())
        .exit(exit))
}

/// Lists runs, shows one, or takes one back.
pub(crate) async fn runs(session: &Session, command: RunsCommand) -> Result<Report, Failure> {
    match command {
        RunsCommand::List { limit } => list(session, limit).await,
        RunsCommand::Show { run } => show(session, &run).await,
        RunsCommand::Undo { run } => {
            let past = find(session, &run).await?;
            let Some(operation) = past.report.operation else {
                let message =
                    format!("run `{run}` changed nothing, so there is nothing to take back");
                return Err(Failure::new(ErrorKind::Conflict, message));
            };
            repair::take_back(session, &operation).await
        }
    }
}

async fn list(session: &Session, limit: u32) -> Result<Report, Failure> {
    let assistant = session.assistant(Access::ReadOnly).await?;
    let runs = assistant.runs(limit).await?;
    let row = |run: &PastRun| {
        vec![
            run.id.clone(),
            run.started.civil_minute("UTC"),
            run.cause.clone(),
            run.report.filer.clone(),
            run.report.outcome.as_str().to_owned(),
            entries(run.report.filed.len()),
            count(run.report.pages.len(), "file"),
        ]
    };
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    let mut text = Lines::default();
    for line in columns(&rows) {
        text.push(line);
    }
    if runs.is_empty() {
        text.push("no run has been made yet: `strata consolidate` makes one");
    }
    Ok(Report::done(json!({ "runs": runs }), text.finish()))
}

async fn show(session: &Session, id: &str) -> Result<Report, Failure> {
    let run = find(session, id).await?;
    let mut text = Lines::default();
    summary(session, &run.report, false, &mut text);
    diffs(&run.report, &mut text);
    Ok(Report::done(json!(run), text.finish()))
}

async fn find(session: &Session, id: &str) -> Result<PastRun, Failure> {
    let assistant = session.assistant(Access::ReadOnly).await?;
    assistant.run(id).await?.ok_or_else(|| {
        let message = format!("there is no run `{id}`: `strata runs list` names them");
        Failure::new(ErrorKind::NotFound, message)
    })
}

/// Says what a run did, a line for each entry.
fn summary(session: &Session, report: &RunReport, dry_run: bool, text: &mut Lines) {
    let style = session.console.style;
    let files = report.pages.len();
    text.push(match (report.outcome, dry_run) {
        (RunOutcome::Failed, _) => format!(
            "{} the result was refused and nothing was changed",
            style.red("failed:")
        ),
        (RunOutcome::Nothing, _) => "nothing to file".to_owned(),
        (RunOutcome::Installed, true) => format!(
            "{} {} in {}",
            style.green("would file:"),
            entries(report.filed.len()),
            count(files, "file")
        ),
        (RunOutcome::Installed, false) => format!(
            "{} {} in {}; `strata runs undo {}` takes it back",
            style.green("filed:"),
            entries(report.filed.len()),
            count(files, "file"),
            report.id
        ),
    });
    for filed in &report.filed {
        text.push(format!(
            "  ^m-{} on {} ({})",
            filed.entry, filed.page, filed.why
        ));
    }
    for held in &report.held {
        text.push(format!(
            "{} ^m-{} stays in the buffer: {}",
            style.yellow("kept:"),
            held.entry,
            held.why
        ));
    }
    for doubt in &report.doubts {
        text.push(format!(
            "{} ^m-{} and `{}` on {}: {}",
            style.yellow("to decide:"),
            doubt.entry,
            doubt.statement,
            doubt.page,
            doubt.why
        ));
    }
    for problem in &report.problems {
        text.push(format!("{} {problem}", style.red("refused:")));
    }
    if report.deferred > 0 {
        text.push(format!("{} for the next run", entries(report.deferred)));
    }
}

/// Counts entries, in words.
pub(super) fn entries(number: usize) -> String {
    match number {
        1 => "1 entry".to_owned(),
        _ => format!("{number} entries"),
    }
}

fn diffs(report: &RunReport, text: &mut Lines) {
    for page in &report.pages {
        text.push("");
        let new = if page.is_new { " (new)" } else { "" };
        text.push(format!("{}{new}", page.path));
        // The first two lines of a patch name files that there are not.
        for line in page.diff.lines().skip(2) {
            text.push(line);
        }
    }
}
