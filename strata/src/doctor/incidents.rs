//! What plugins did in the last day that they should not have, as the host that saw it wrote it down.
//!
//! The examination may run in another process than the host, where the same plugin may behave.

use memory_core::config::Config;
use memory_substrate::blocking;
use memory_substrate::state::SqliteState;
use memory_substrate::workspace::Workspace;

use super::{DoctorReport, Finding};
use crate::incidents::{self, Incident, IncidentKind};
use crate::options::StrataOptions;

/// How far back is looked, in milliseconds.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Lists the incidents of the last day.
pub(super) async fn recent(
    options: &StrataOptions,
    workspace: &Workspace,
    config: Option<&Config>,
    report: &mut DoctorReport,
) {
    let path = workspace.state_path();
    let start = options.clock.now().plus_millis(-DAY_MS);
    let read = async {
        let state = blocking::run(move || SqliteState::open_read_only(&path)).await?;
        incidents::since(&state, start).await
    };
    // A database that cannot be read is a finding of its own.
    let Ok(found) = read.await else { return };
    if found.is_empty() {
        report.ok("plugins.incidents", "no plugin misbehaved within a day");
    }
    let zone = config.map_or("UTC", |config| config.time_zone.as_str());
    for incident in found {
        report.add(
            "plugins.incidents",
            Finding::Warning,
            evidence(&incident, zone),
            Some(fix(incident.kind)),
        );
    }
}

fn evidence(incident: &Incident, zone: &str) -> String {
    let build = incident
        .sha256
        .as_ref()
        .map_or_else(String::new, |sha256| format!(", sha256 {sha256}"));
    let method = incident
        .method
        .as_ref()
        .map_or_else(String::new, |method| format!(" in `{method}`"));
    format!(
        "{}: plugin `{}` (tier {}{build}) {}{method}: {}",
        incident.at.civil_minute(zone),
        incident.plugin,
        incident.tier,
        incident.kind.described(),
        incident.reason
    )
}

fn fix(kind: IncidentKind) -> &'static str {
    match kind {
        IncidentKind::Refused => "`strata plugins verify` checks every plugin",
        IncidentKind::Quarantined => {
            "put another build of the plugin in its place and `strata plugins trust` it; this one is tried again when its \
             panics are ten minutes old, or by a host that starts anew if it blocked a thread"
        }
        IncidentKind::Panicked
        | IncidentKind::TimedOut
        | IncidentKind::Malformed
        | IncidentKind::Blocked
        | IncidentKind::Flooded
        | IncidentKind::Failed => {
            "tell the plugin's author; until there is another build, `strata tier set` can choose another tier"
        }
    }
}
