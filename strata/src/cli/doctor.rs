//! `doctor`: checks everything, and repairs only when it is asked to.

use serde_json::json;
use strata::{DoctorOptions, Finding};

use super::Session;
use super::args::DoctorArgs;
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
        .doctor(session.id(), DoctorOptions { deep: args.deep })
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
    let exit = if report.worst() == Finding::Problem {
        Exit::Damage
    } else {
        Exit::Done
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
