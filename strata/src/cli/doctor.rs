//! `doctor` and `validate`: checks of everything, and of the pages alone. Nothing is repaired unless that is asked for.

use serde_json::json;
use strata::{Access, DoctorOptions, Finding, UnresolvedLink};

use super::Session;
use super::args::DoctorArgs;
use super::notes::count;
use super::output::{Exit, Failure, Lines, Report};
use super::repair;

pub(crate) async fn run(session: &Session, args: DoctorArgs) -> Result<Report, Failure> {
    let repaired = if args.fix {
        Some(repair::fix(session).await?)
    } else {
        None
    };
    let report = session
        .strata()?
        .doctor(
            session.id(),
            DoctorOptions {
                deep: args.deep,
                llm: args.llm,
            },
        )
        .await?;
    let style = session.console.style;
    let mut text = Lines::default();
    if let Some(repaired) = &repaired {
        repair::fixed(session, repaired, &mut text);
    }
    for check in &report.checks {
        let mark = match check.severity {
            Finding::Ok => style.green("ok     "),
            Finding::Info => style.dim("info   "),
            Finding::Warning => style.yellow("warning"),
            Finding::Problem => style.red("problem"),
        };
        text.push(format!("{mark} {}: {}", check.id, check.evidence));
        if let Some(fix) = check
            .fix
            .as_ref()
            .filter(|_| check.severity > Finding::Info)
        {
            text.push(format!("        fix: {fix}"));
        }
    }
    let count = |severity| {
        report
            .checks
            .iter()
            .filter(|check| check.severity == severity)
            .count()
    };
    text.push(format!(
        "{} problems, {} warnings",
        count(Finding::Problem),
        count(Finding::Warning)
    ));
    let exit = match &repaired {
        _ if report.worst() == Finding::Problem => Exit::Damage,
        Some(repaired) if !repaired.is_clean() => Exit::Partly,
        _ => Exit::Done,
    };
    let mut data = json!({
        "checks": report.checks,
        "problems": count(Finding::Problem),
        "warnings": count(Finding::Warning),
    });
    if let Some(repaired) = repaired {
        data["repaired"] = json!(repaired);
    }
    Ok(Report::done(data, text.finish()).exit(exit))
}

/// Lists what there is to mend in the pages.
pub(crate) async fn validate(session: &Session) -> Result<Report, Failure> {
    let assistant = session.assistant(Access::ReadOnly).await?;
    let report = assistant.validate().await?;
    let style = session.console.style;
    let mut text = Lines::default();
    for fault in &report.faults {
        text.push(format!(
            "{} {}:{}:{}: {}",
            style.yellow("fault:"),
            fault.path,
            fault.line,
            fault.column,
            fault.message
        ));
    }
    for (path, reason) in &report.unreadable {
        text.push(format!("{} {path}: {reason}", style.red("unreadable:")));
    }
    for link in report.dangling.iter().chain(&report.ambiguous) {
        text.push(format!("{} {}", style.yellow("link:"), described(link)));
    }
    for page in &report.oversized {
        text.push(format!(
            "{} `{}` has {} characters",
            style.yellow("long:"),
            page.slug,
            page.characters
        ));
    }
    text.push(format!(
        "{}, {} between them{}",
        count(report.pages, "page"),
        count(report.links, "link"),
        if report.is_clean() {
            ", nothing to mend"
        } else {
            ""
        }
    ));
    let exit = if report.is_clean() {
        Exit::Done
    } else {
        Exit::Partly
    };
    Ok(Report::done(json!(report), text.finish()).exit(exit))
}

fn described(link: &UnresolvedLink) -> String {
    let UnresolvedLink {
        from,
        target,
        candidates,
    } = link;
    if candidates.is_empty() {
        return format!("`{target}` in `{from}` leads nowhere");
    }
    let names: Vec<String> = candidates.iter().map(|slug| format!("`{slug}`")).collect();
    format!("`{target}` in `{from}` may mean {}", names.join(" or "))
}
