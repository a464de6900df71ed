//! Checks everything about an assistant and repairs nothing.
//!
//! The parts are examined one by one, each without relying on the ones before it, because a check is needed most when
//! something else is broken. Every finding carries its evidence and, where there is one, the command that helps.

use serde::Serialize;

use crate::error::{StrataError, cause_chain};
use crate::strata::Strata;

mod index;
mod place;
mod plugins;

/// What an examination looks at.
#[derive(Clone, Copy, Debug, Default)]
pub struct DoctorOptions {
    /// Whether the model is loaded and its files are read whole, which takes a second.
    pub deep: bool,
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

/// Examines an assistant. Only a workspace that does not exist is an error.
pub(crate) async fn examine(
    strata: &Strata,
    id: &str,
    options: DoctorOptions,
) -> Result<DoctorReport, StrataError> {
    let mut report = DoctorReport::default();
    let workspace = place::workspace(strata, id, &mut report).await?;
    let config = place::settings(strata, &workspace, &mut report).await;
    place::state(&workspace, &mut report).await;
    plugins::model(strata, config.as_ref(), options, &mut report).await;
    plugins::folder(strata, &mut report).await;
    index::stores(strata, id, config.is_some(), &mut report).await;
    Ok(report)
}
