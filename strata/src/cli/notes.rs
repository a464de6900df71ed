//! `init`, `ingest`, `remember`, `forget`, `reindex`: everything that puts something into a memory or takes it out.

use std::path::PathBuf;

use serde_json::json;
use strata::{
    Access, Authority, Channel, ErrorKind, IngestAction, IngestOptions, IngestReport, IngestSource,
    InitOptions, Origin, RememberInput, StrataError, SyncReport, cause_chain, parse_manifest,
};

use super::args::{ForgetArgs, IngestArgs, InitArgs, RememberArgs};
use super::output::{Exit, Failure, Lines, Report, Style};
use super::progress::Progress;
use super::{Session, argument_or_input};

/// Creates a workspace.
pub(crate) async fn init(session: &Session, args: InitArgs) -> Result<Report, Failure> {
    let zone = args.time_zone.unwrap_or_else(local_zone);
    let options = InitOptions {
        time_zone: Some(zone.clone()),
    };
    let root = session.strata()?.init(session.id(), options).await?;
    // The home's own file and the environment have a say in it too.
    let configured = session.assistant(Access::ReadOnly).await?.config().tier();
    let text = format!(
        "created `{}`, time zone {zone}; tier {configured} is configured, none serves yet\nnext: `strata ingest ~/notes`, then `strata context \"…\"`",
        root.display()
    );
    let data = json!({
        "assistant": session.id(),
        "path": root,
        "configured": configured,
        "serving": null,
        "time_zone": zone,
    });
    Ok(Report::done(data, text))
}

/// Returns the name of this computer's time zone; it is only a suggestion that `init` writes down.
fn local_zone() -> String {
    jiff::tz::TimeZone::system()
        .iana_name()
        .unwrap_or("UTC")
        .to_owned()
}

/// Reads notes.
pub(crate) async fn ingest(session: &Session, args: IngestArgs) -> Result<Report, Failure> {
    let sources = sources(&args)?;
    let options = IngestOptions {
        overwrite: args.overwrite,
        dry_run: args.dry_run,
        origin: Origin::UserFile,
        authority: Authority::Owner,
    };
    let assistant = session.listening_assistant().await?;
    let progress = Progress::new(session);
    let mut reports = Vec::new();
    for source in sources {
        let done = assistant
            .ingest(source, options, &mut |at| progress.engine(&at))
            .await;
        match done {
            Ok((pages, index)) => reports.push((pages, Ok(index))),
            Err(StrataError::NotIndexed { report, source }) => {
                // What follows would fail alike, and is not read for that.
                reports.push((*report, Err(cause_chain(source.as_ref()).join(": "))));
                break;
            }
            Err(error) => {
                progress.finish();
                assistant.close().await;
                return Err(error.into());
            }
        }
    }
    progress.finish();
    assistant.close().await;
    let mut text = Lines::default();
    let mut warnings = Vec::new();
    let mut partly = false;
    for (pages, index) in &reports {
        partly |= describe(
            pages,
            index.as_ref().map_err(String::as_str),
            session.console.style,
            &mut text,
            &mut warnings,
        );
    }
    let data = reports
        .iter()
        .map(|(pages, index)| {
            json!({
                "report": pages,
                "index": index.as_ref().ok().map(sync_data),
                "index_error": index.as_ref().err(),
            })
        })
        .collect();
    let exit = if partly { Exit::Partly } else { Exit::Done };
    Ok(Report::done(data, text.finish()).warn(warnings).exit(exit))
}

fn sources(args: &IngestArgs) -> Result<Vec<IngestSource>, Failure> {
    let mut sources = Vec::new();
    if let Some(file) = &args.manifest {
        let text = if file.as_os_str() == "-" {
            argument_or_input("-".to_owned())?
        } else {
            let read = |source| StrataError::Io {
                action: "read",
                path: file.clone(),
                source,
            };
            std::fs::read_to_string(file).map_err(read)?
        };
        let pages = parse_manifest(&text).map_err(StrataError::from)?;
        sources.push(IngestSource::Manifest(pages));
    }
    for path in &args.paths {
        if path.as_os_str() == "-" {
            let name = args.name.clone().unwrap_or_else(|| "stdin.md".to_owned());
            sources.push(IngestSource::Text {
                name,
                text: argument_or_input("-".to_owned())?,
            });
            continue;
        }
        let absolute = std::path::absolute(path).map_err(Failure::Stream)?;
        sources.push(source(absolute, args.memory_folder)?);
    }
    Ok(sources)
}

fn source(path: PathBuf, memory_folder: bool) -> Result<IngestSource, Failure> {
    if path.is_dir() {
        return Ok(if memory_folder {
            IngestSource::MemoryFolder(path)
        } else {
            IngestSource::Folder(path)
        });
    }
    if path.is_file() {
        return Ok(IngestSource::File(path));
    }
    Err(Failure::new(
        ErrorKind::NotFound,
        format!(
            "`{}` is neither a folder nor a file: check the path",
            path.display()
        ),
    ))
}

/// Describes what became of a source and returns whether something is left to do.
fn describe(
    pages: &IngestReport,
    index: Result<&SyncReport, &str>,
    style: Style,
    text: &mut Lines,
    warnings: &mut Vec<String>,
) -> bool {
    let mut partly = pages.invalid > 0 || pages.skipped > 0;
    partly |= index.is_err() || index.is_ok_and(|index| index.stopped);
    for page in &pages.pages {
        let name = &page.original_name;
        for fault in &page.faults {
            partly = true;
            warnings.push(format!(
                "{name}:{}:{}: {}",
                fault.line, fault.column, fault.message
            ));
        }
        warnings.extend(
            page.warnings
                .iter()
                .map(|warning| format!("{name}: {warning}")),
        );
        match page.action {
            IngestAction::SkippedExists => {
                warnings.push(format!(
                    "{name}: is there with other content, left alone; `--overwrite` replaces it"
                ));
            }
            IngestAction::Invalid => {
                let reason = page.error.as_deref().unwrap_or("cannot be read");
                warnings.push(format!("{name}: {reason}"));
            }
            IngestAction::Written | IngestAction::Unchanged => {}
        }
    }
    for file in &pages.files {
        if file.action == IngestAction::SkippedExists {
            partly = true;
            warnings.push(format!(
                "{}: is there with other content, left alone; `--overwrite` replaces it",
                file.path
            ));
        }
        if let Some(error) = &file.error {
            partly = true;
            warnings.push(format!("{}: {error}", file.path));
        }
    }
    let would = if pages.dry_run {
        "would write"
    } else {
        "wrote"
    };
    let mut parts = vec![
        format!("{would} {}", written(pages)),
        format!("unchanged {}", pages.unchanged),
    ];
    for (number, what) in [
        (pages.skipped, "left alone"),
        (pages.invalid, "unusable"),
        (pages.other_files, "not Markdown"),
    ] {
        parts.extend((number > 0).then(|| format!("{what} {number}")));
    }
    text.push(format!("{} {}", style.green("ingested:"), parts.join(", ")));
    match index {
        Ok(_) if pages.dry_run => {}
        Ok(index) => text.push(indexed(index, style)),
        Err(reason) => {
            text.push(format!("{} nothing", style.red("indexed:")));
            warnings.push(format!(
                "the index could not be written, so what was ingested is found by words only: {reason}; `strata \
                 reindex` makes the index anew"
            ));
        }
    }
    partly
}

pub(super) fn indexed(index: &SyncReport, style: Style) -> String {
    let mut parts = vec![
        format!(
            "{} of {}",
            count(index.sections, "section"),
            count(index.pages, "page")
        ),
        format!("{} embedded", index.embedded),
        format!("{} reused", index.reused),
    ];
    parts.extend((index.removed > 0).then(|| format!("{} removed", index.removed)));
    let without = index.without_vector.len();
    parts.extend((without > 0).then(|| format!("{without} without a vector")));
    if index.stopped {
        parts.push("stopped early: the same command again goes on".to_owned());
    }
    format!("{} {}", style.green("indexed:"), parts.join(", "))
}

pub(super) fn sync_data(index: &SyncReport) -> serde_json::Value {
    json!({
        "pages": index.pages,
        "sections": index.sections,
        "embedded": index.embedded,
        "reused": index.reused,
        "removed": index.removed,
        "stopped": index.stopped,
        "without_vector": index.without_vector,
    })
}

/// Says how much was written, pages and other files apart.
fn written(report: &IngestReport) -> String {
    let pages = report
        .pages
        .iter()
        .filter(|page| page.action == IngestAction::Written)
        .count();
    let files = report
        .files
        .iter()
        .filter(|file| file.action == IngestAction::Written)
        .count();
    if files == 0 {
        count(pages, "page")
    } else {
        format!(
            "{} and {}",
            count(pages, "page"),
            count(files, "other file")
        )
    }
}

pub(super) fn count(number: usize, what: &str) -> String {
    if number == 1 {
        format!("1 {what}")
    } else {
        format!("{number} {what}s")
    }
}

/// Adds one entry to the buffer.
pub(crate) async fn remember(session: &Session, args: RememberArgs) -> Result<Report, Failure> {
    let text = argument_or_input(args.text)?;
    if text.trim().is_empty() {
        return Err(Failure::new(
            ErrorKind::Usage,
            "there is nothing to remember: the text is blank",
        ));
    }
    let input = RememberInput {
        texts: vec![text],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    };
    let strata = session.strata()?;
    let receipt = strata.remember(session.id(), input, args.key).await?;
    let mut lines = Lines::default();
    let mut warnings = Vec::new();
    if let Some(note) = &receipt.left {
        lines.push(format!("{} {note}", session.console.style.green("left:")));
        warnings.push(
            "another process writes to this memory and takes no requests: the note is safe, and is remembered when \
             that process has ended and the next one writes"
                .to_owned(),
        );
    }
    for entry in &receipt.entries {
        let what = if entry.duplicate {
            "known already:"
        } else {
            "remembered:"
        };
        lines.push(format!(
            "{} {}",
            session.console.style.green(what),
            entry.id
        ));
    }
    warnings.extend(receipt.findings.iter().map(ToString::to_string));
    Ok(Report::done(json!(receipt), lines.finish()).warn(warnings))
}

/// Takes one entry out of the buffer.
pub(crate) async fn forget(session: &Session, args: ForgetArgs) -> Result<Report, Failure> {
    let assistant = session.assistant(Access::ReadWrite).await?;
    let receipt = assistant.forget(&args.id).await?;
    let mut lines = Lines::default();
    let what = if receipt.was_forgotten() {
        "forgotten already:"
    } else {
        "forgotten:"
    };
    lines.push(format!(
        "{} {}",
        session.console.style.green(what),
        receipt.id
    ));
    for (done, place) in [
        (receipt.entry_removed, "taken out of `memory/buffer.md`"),
        (receipt.item_forgotten, "taken out of the items"),
    ] {
        if done {
            lines.push(format!("  {place}"));
        }
    }
    let mut warnings = Vec::new();
    if let Some(archive) = &receipt.archive {
        lines.push(format!(
            "  kept in `{archive}`, the record of what was said"
        ));
    }
    for page in &receipt.cited_by {
        warnings.push(format!("page `{page}` cites it and was left as it is"));
    }
    if receipt.edited_meanwhile {
        warnings.push(
            "the entry was edited at this very moment and stays in `memory/buffer.md`, where no prompt takes it from"
                .to_owned(),
        );
    }
    let exit = if receipt.edited_meanwhile {
        Exit::Partly
    } else {
        Exit::Done
    };
    Ok(Report::done(json!(receipt), lines.finish())
        .warn(warnings)
        .exit(exit))
}

/// Rebuilds the index.
pub(crate) async fn reindex(session: &Session) -> Result<Report, Failure> {
    let assistant = session.listening_assistant().await?;
    let progress = Progress::new(session);
    let done = assistant.reindex(&mut |at| progress.sync(at)).await;
    progress.finish();
    assistant.close().await;
    let report = done?;
    let exit = if report.stopped {
        Exit::Partly
    } else {
        Exit::Done
    };
    let text = indexed(&report, session.console.style);
    let warnings = report
        .without_vector
        .iter()
        .map(|section| format!("`{section}` could not be embedded"))
        .collect::<Vec<_>>();
    Ok(Report::done(sync_data(&report), text)
        .warn(warnings)
        .exit(exit))
}
