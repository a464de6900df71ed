//! `doctor --fix`, `rebuild`, `backup`, `restore`, `undo`, `erase`: what is done to a memory as a whole.

use memory_core::text::slug::Slug;
use serde_json::json;
use strata::{
    Access, Assistant, EraseTarget, ErrorKind, IntegrityReport, ReconcileReport, RestoreOptions,
    StrataError,
};

use super::Session;
use super::args::{BackupArgs, EraseArgs, RestoreArgs, UndoArgs};
use super::notes::{count, indexed, sync_data};
use super::output::{Exit, Failure, Lines, Report, columns};
use super::progress::Progress;

/// Repairs what can be made again or finished.
pub(crate) async fn fix(session: &Session) -> Result<ReconcileReport, Failure> {
    let assistant = session.listening_assistant().await?;
    let progress = Progress::new(session);
    let done = assistant.reconcile(&mut |at| progress.repair(at)).await;
    progress.finish();
    assistant.close().await;
    Ok(done?)
}

/// Says what a repair did, a line each.
pub(crate) fn fixed(session: &Session, report: &ReconcileReport, text: &mut Lines) {
    let mut parts = Vec::new();
    let before = &report.before;
    let differed = before.missing + before.stale + before.extra;
    for (number, before, what, after) in [
        (report.applied, "finished ", "write", ""),
        (report.spool.kept, "took in ", "note", ""),
        (report.changed + report.removed, "took in ", "page", ""),
        (differed, "", "section", " differed"),
        (report.followed, "followed up ", "item", ""),
        (
            report.orphans,
            "removed the rows of ",
            "conversation",
            " that does not exist",
        ),
    ] {
        if number > 0 {
            parts.push(format!("{before}{}{after}", count(number, what)));
        }
    }
    if report.rebuilt {
        parts.push("the index was made anew".to_owned());
    }
    if parts.is_empty() {
        parts.push("nothing needed it".to_owned());
    }
    let style = session.console.style;
    text.push(format!("{} {}", style.green("repaired:"), parts.join(", ")));
    if report.index.pages + report.index.removed > 0 {
        text.push(indexed(&report.index, style));
    }
    for conflict in &report.conflicts {
        text.push(match &conflict.copy {
            Some(copy) => format!(
                "{} `{}` was edited meanwhile and stays; what was to be written is in `{copy}`",
                style.yellow("kept:"),
                conflict.path
            ),
            None => format!(
                "{} `{}` was edited meanwhile and stays",
                style.yellow("kept:"),
                conflict.path
            ),
        });
    }
    if report.left > 0 {
        text.push(format!(
            "{} {} could not be brought into files yet; nothing of it is lost",
            style.red("left:"),
            count(report.left, "write")
        ));
    }
    for (file, reason) in &report.spool.refused {
        text.push(format!(
            "{} the note `{file}`: {reason}",
            style.red("left:")
        ));
    }
    for fault in &report.faults {
        text.push(format!("{} {fault}", style.red("left:")));
    }
}

/// Makes everything derived again and compares.
pub(crate) async fn rebuild(session: &Session) -> Result<Report, Failure> {
    let assistant = session.listening_assistant().await?;
    let progress = Progress::new(session);
    let done = assistant.rebuild(&mut |at| progress.sync(at)).await;
    progress.finish();
    let compared = match &done {
        Ok(_) => compare(&assistant).await,
        Err(_) => Ok(IntegrityReport::default()),
    };
    assistant.close().await;
    let (report, compared) = (done?, compared?);
    let exit = match (report.stopped, compared.is_clean()) {
        (true, _) => Exit::Partly,
        (false, true) => Exit::Done,
        (false, false) => Exit::Damage,
    };
    let mut text = Lines::default();
    text.push(indexed(&report, session.console.style));
    text.push(if compared.is_clean() {
        format!(
            "{} agree with the pages",
            count(compared.checked, "section")
        )
    } else {
        "the index does not agree with the pages: `strata doctor` says where".to_owned()
    });
    let data = json!({ "index": sync_data(&report), "compared": compared });
    Ok(Report::done(data, text.finish()).exit(exit))
}

async fn compare(assistant: &Assistant) -> Result<IntegrityReport, StrataError> {
    Ok(assistant.store().await?.integrity().await?)
}

/// Copies the memory into a new folder.
pub(crate) async fn backup(session: &Session, args: BackupArgs) -> Result<Report, Failure> {
    let assistant = session.listening_assistant().await?;
    let done = assistant.back_up(args.to).await;
    assistant.close().await;
    let report = done?;
    let text = format!(
        "{} {} to `{}`, {} bytes, checked",
        session.console.style.green("backed up:"),
        count(report.files, "file"),
        report.path.display(),
        report.bytes
    );
    let warnings = report
        .left_out
        .iter()
        .map(|path| format!("`{path}` is no plain file and was left out"))
        .collect::<Vec<_>>();
    Ok(Report::done(json!(report), text).warn(warnings))
}

/// Makes a memory from a backup.
pub(crate) async fn restore(session: &Session, args: RestoreArgs) -> Result<Report, Failure> {
    let from = std::path::absolute(args.from).map_err(Failure::Stream)?;
    if !from.is_dir() {
        return Err(Failure::new(
            ErrorKind::NotFound,
            format!("`{}` is no folder: check the path", from.display()),
        ));
    }
    let options = RestoreOptions {
        replace: args.replace,
    };
    let report = session
        .strata()?
        .restore(session.id(), from, options)
        .await?;
    let text = format!(
        "{} {} to `{}`, as of {} UTC\nnext: `strata rebuild` makes the index; until then memory is searched by words",
        session.console.style.green("restored:"),
        count(report.files, "file"),
        report.path.display(),
        report.at.civil_minute("UTC")
    );
    let notes = report
        .replaced
        .iter()
        .map(|path| format!("what was there before is kept in `{}`", path.display()))
        .collect::<Vec<_>>();
    Ok(Report::done(json!(report), text).note(notes))
}

/// Lists what was done, or takes an operation back.
pub(crate) async fn undo(session: &Session, args: UndoArgs) -> Result<Report, Failure> {
    let Some(operation) = args.operation else {
        return list(session, args.limit).await;
    };
    take_back(session, &operation).await
}

/// Takes an operation back.
pub(crate) async fn take_back(session: &Session, operation: &str) -> Result<Report, Failure> {
    let assistant = session.assistant(Access::ReadWrite).await?;
    let report = assistant.undo(operation).await?;
    let mut text = Lines::default();
    let style = session.console.style;
    for entry in &report.entries {
        text.push(format!("{} {entry}", style.green("taken out:")));
    }
    for entry in &report.put_back {
        text.push(format!("{} {entry}", style.green("put back:")));
    }
    let met_an_edit = |file: &String| report.conflicts.iter().any(|other| other.path == **file);
    for file in report.files.iter().filter(|file| !met_an_edit(file)) {
        text.push(format!("{} {file}", style.green("as before:")));
    }
    if report.files.is_empty() && report.entries.is_empty() {
        text.push("there was nothing to take back");
    }
    let warnings: Vec<String> = report
        .conflicts
        .iter()
        .map(|conflict| match &conflict.copy {
            Some(copy) => format!(
                "`{}` was changed since and stays; the older text is in `{copy}`",
                conflict.path
            ),
            None => format!("`{}` was changed since and stays", conflict.path),
        })
        .collect();
    let exit = if warnings.is_empty() {
        Exit::Done
    } else {
        Exit::Partly
    };
    Ok(Report::done(json!(report), text.finish())
        .warn(warnings)
        .exit(exit))
}

async fn list(session: &Session, limit: u32) -> Result<Report, Failure> {
    let assistant = session.assistant(Access::ReadOnly).await?;
    let operations = assistant.operations(limit).await?;
    let rows: Vec<Vec<String>> = operations
        .iter()
        .map(|operation| {
            let mut files = operation.files.first().cloned().unwrap_or_default();
            if operation.files.len() > 1 {
                files = format!("{files} and {} more", operation.files.len() - 1);
            }
            vec![
                operation.id.clone(),
                operation.at.civil_minute("UTC"),
                operation.kind.clone(),
                operation.actor.clone(),
                files,
            ]
        })
        .collect();
    let text = if rows.is_empty() {
        "nothing was done to files in the last 30 days".to_owned()
    } else {
        columns(&rows).join("\n")
    };
    Ok(Report::done(json!({ "operations": operations }), text))
}

/// Makes something unrecoverable.
pub(crate) async fn erase(session: &Session, args: EraseArgs) -> Result<Report, Failure> {
    let target = target(&args)?;
    if !args.yes {
        return Err(Failure::new(
            ErrorKind::Usage,
            "nothing was erased: it cannot be taken back, so repeat this with `--yes`",
        ));
    }
    let assistant = session.listening_assistant().await?;
    let progress = Progress::new(session);
    let done = assistant.erase(target, &mut |at| progress.sync(at)).await;
    progress.finish();
    assistant.close().await;
    let report = done?;
    let style = session.console.style;
    let mut text = Lines::default();
    for removed in &report.removed {
        text.push(format!("{} {removed}", style.green("erased:")));
    }
    text.push(format!(
        "searched {}, {} bytes: {}",
        count(report.files, "file"),
        report.bytes,
        if report.is_clean() {
            "nothing is left"
        } else {
            "see the warnings for what is left"
        }
    ));
    let warnings: Vec<String> = report
        .remains
        .iter()
        .map(|place| format!("still there: {place}"))
        .collect();
    let exit = if report.is_clean() {
        Exit::Done
    } else {
        Exit::Partly
    };
    let note = "backups, other copies of your files and what was sent elsewhere are not reached";
    Ok(Report::done(json!(report), text.finish())
        .warn(warnings)
        .note([note.to_owned()])
        .exit(exit))
}

fn target(args: &EraseArgs) -> Result<EraseTarget, Failure> {
    if let Some(page) = &args.page {
        let page = page.strip_suffix(".md").unwrap_or(page);
        return Slug::parse(page).map(EraseTarget::Page).map_err(|error| {
            Failure::new(
                ErrorKind::Usage,
                format!("`{page}` is no page's name: {error}"),
            )
        });
    }
    if let Some(entry) = &args.entry {
        let entry = entry.strip_prefix("^m-").unwrap_or(entry);
        return Ok(EraseTarget::Entry(entry.to_owned()));
    }
    // The grammar asks for one of the three.
    let conversation = args.conversation.clone().unwrap_or_default();
    Ok(EraseTarget::Conversation(conversation))
}
