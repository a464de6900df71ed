//! Checks everything about an assistant and repairs nothing.
//!
//! The parts are examined one by one, each without relying on the ones before it, because a check is needed most when
//! something else is broken. Every finding carries its evidence and, where there is one, the command that helps.

use serde::Serialize;

use crate::assistant::{Access, Assistant};
use crate::error::{StrataError, cause_chain};
use crate::options::StrataOptions;
use crate::plugins::Plugins;
use crate::strata::Strata;

mod evidence;
mod incidents;
mod index;
mod llm;
mod place;
mod plugins;

/// What an examination looks at.
#[derive(Clone, Copy, Debug, Default)]
pub struct DoctorOptions {
    /// Whether the model is loaded and its files are read whole, which takes a second.
    pub deep: bool,
    /// Whether the language model is asked, which costs a few tokens.
    pub llm: bool,
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// As it should be.
    Ok,
    /// Good to know.
    Info,
    /// Degraded, or the owner's own text needs a look.
    Warning,
    /// Damaged or not usable.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Stable name of the check, such as `index.rows`.
    pub id: &'static str,
    /// How serious the finding is.
    pub severity: Finding,
    /// What was found.
    pub evidence: String,
    /// What helps.
    pub fix: Option<String>,
}

/// Everything that was looked at, in the order in which it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// The checks.
    pub checks: Vec<Check>,
}

impl DoctorReport {
    /// Returns the most serious finding.
    pub fn worst(&self) -> Finding {
        self.checks
            .iter()
            .map(|check| check.severity)
            .max()
            .unwrap_or(Finding::Ok)
    }

    fn add(
        &mut self,
        id: &'static str,
        severity: Finding,
        evidence: impl Into<String>,
        fix: Option<&str>,
    ) {
        self.checks.push(Check {
            id,
            severity,
            evidence: evidence.into(),
            fix: fix.map(str::to_owned),
        });
    }

    /// Adds what was found, an entry each, and how much there is beyond so many.
    fn list(
        &mut self,
        id: &'static str,
        severity: Finding,
        found: Vec<String>,
        fix: &str,
        most: usize,
    ) {
        let rest = found.len().saturating_sub(most);
        for evidence in found.into_iter().take(most) {
            self.add(id, severity, evidence, Some(fix));
        }
        if rest > 0 {
            self.add(id, severity, format!("and {rest} more"), Some(fix));
        }
    }

    fn ok(&mut self, id: &'static str, evidence: impl Into<String>) {
        self.add(id, Finding::Ok, evidence, None);
    }

    fn failed(
        &mut self,
        id: &'static str,
        error: &(dyn std::error::Error + 'static),
        fix: Option<&str>,
    ) {
        self.add(id, Finding::Problem, cause_chain(error).join(": "), fix);
    }
}

/// What is examined, and with what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) options: &'a StrataOptions,
    pub(crate) plugins: &'a Plugins,
    pub(crate) opened: Opened<'a>,
}

/// How the stores of the assistant are come by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Opened<'a> {
    /// Opened for reading: another process may be serving.
    ForThis(&'a Strata),
    /// Those of the assistant that is serving, and with them what really serves.
    Serving(&'a Assistant),
}

/// Examines an assistant. Only a workspace that does not exist is an error.
pub(crate) async fn examine(
    subject: Subject<'_>,
    id: &str,
    options: DoctorOptions,
) -> Result<DoctorReport, StrataError> {
    let mut report = DoctorReport::default();
    let workspace = place::workspace(subject.options, id, &mut report).await?;
    let config = place::settings(subject.options, &workspace, &mut report).await;
    place::state(&workspace, &mut report).await;
    evidence::examine(&workspace, &mut report).await;
    plugins::model(subject.options, config.as_deref(), options, &mut report).await;
    llm::examine(subject.options, config.as_deref(), options, &mut report).await;
    plugins::folder(subject.options, subject.plugins, &mut report).await;
    incidents::recent(subject.options, &workspace, config.as_deref(), &mut report).await;
    match subject.opened {
        Opened::Serving(assistant) => index::stores(assistant, true, &mut report).await,
        Opened::ForThis(_) if config.is_none() => report.add(
            "stores",
            Finding::Info,
            "not examined: the settings cannot be read",
            None,
        ),
        Opened::ForThis(strata) => match strata.assistant(id, Access::ReadOnly).await {
            Ok(assistant) => index::stores(&assistant, false, &mut report).await,
            Err(error) => report.failed("stores", &error, None),
        },
    }
    Ok(report)
}
