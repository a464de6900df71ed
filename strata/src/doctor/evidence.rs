//! Whether the evidence is what was recorded, and whether all of it is where it belongs.

use memory_core::store::{EvidenceStore as _, StoreResult};
use memory_substrate::blocking;
use memory_substrate::evidence::{EvidenceBacklog, EvidenceJournal, backlog_of};
use memory_substrate::state::SqliteState;
use memory_substrate::workspace::Workspace;

use super::{DoctorReport, Finding};

/// Most faults that are named one by one.
const NAMED: usize = 3;

/// Reads all evidence and follows its chains.
pub(super) async fn examine(workspace: &Workspace, report: &mut DoctorReport) {
    let fs = workspace.fs().clone();
    let journal = EvidenceJournal::read_only(fs, workspace.evidence_dir());
    match journal.verify().await {
        Ok(check) if check.faults.is_empty() => report.ok(
            "evidence",
            format!(
                "{} records in {} streams, {} of them erased, every chain whole",
                check.records, check.streams, check.erased
            ),
        ),
        Ok(check) => {
            let mut named: Vec<String> = check
                .faults
                .iter()
                .take(NAMED)
                .map(|fault| format!("{}: {}", fault.place, fault.reason))
                .collect();
            if let Some(more) = check
                .faults
                .len()
                .checked_sub(NAMED)
                .filter(|more| *more > 0)
            {
                named.push(format!("and {more} more"));
            }
            report.add(
                "evidence",
                Finding::Problem,
                named.join("; "),
                Some("restore the folder `evidence` from a backup; what can be read goes on being used"),
            );
        }
        Err(error) => report.failed("evidence", &error, None),
    }
    // A database that cannot be read is reported by its own check.
    if let Ok(backlog) = waiting(workspace).await
        && backlog != EvidenceBacklog::default()
    {
        let severity = if backlog.refused > 0 {
            Finding::Warning
        } else {
            Finding::Info
        };
        let evidence = format!(
            "{} records are safe and not in the journal yet, {} were refused for good",
            backlog.waiting, backlog.refused
        );
        report.add("evidence.waiting", severity, evidence, None);
    }
}

async fn waiting(workspace: &Workspace) -> StoreResult<EvidenceBacklog> {
    let path = workspace.state_path();
    let state = blocking::run(move || SqliteState::open_read_only(&path)).await?;
    backlog_of(&state).await
}
