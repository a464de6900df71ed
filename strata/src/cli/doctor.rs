//! `doctor`: checks everything, repairs nothing.

use serde_json::json;
use strata::{DoctorOptions, Finding};

use super::Session;
use super::args::DoctorArgs;
use super::output::{Exit, Failure, Lines, Report};

pub(crate) async fn run(session: &Session, args: DoctorArgs) -> Result<Report, Failure> {
    let report = session
        .strata()?
        .doctor(session.id(), DoctorOptions { deep: args.deep })
        .await?;
    let style = session.console.style;
    let mut text = Lines::default();
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
    let data = json!({
        "checks": report.checks,
        "problems": count(Finding::Problem),
        "warnings": count(Finding::Warning),
    });
    Ok(Report::done(data, text.finish()).exit(exit))
}
