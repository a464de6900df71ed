//! Checks of the workspace itself: folder, lock, settings, database.

use std::path::Path;
use std::sync::Arc;

use memory_core::config::Config;
use memory_core::store::{ItemStore as _, StoreError};
use memory_core::time::is_known_zone;
use memory_substrate::blocking;
use memory_substrate::erase;
use memory_substrate::state::SqliteState;
use memory_substrate::workspace::{AssistantId, Workspace};

use super::{DoctorReport, Finding};
use crate::error::StrataError;
use crate::options::StrataOptions;
use crate::settings::{LiveSettings, SettingsSource};

/// How many faults of the ledger are listed before the rest is only counted.
const FAULTS_LISTED: usize = 20;

/// Opens the workspace and looks at its folder and its lock.
pub(super) async fn workspace(
    options: &StrataOptions,
    id: &str,
    report: &mut DoctorReport,
) -> Result<Workspace, StrataError> {
    let (id, home, fs) = (
        AssistantId::new(id)?,
        options.home.clone(),
        Arc::clone(&options.fs),
    );
    let (workspace, mode, holder) = blocking::run(move || {
        let workspace = Workspace::open(&home, &id, fs)?;
        let holder = workspace.lock_holder();
        let mode = open_to_others(workspace.root());
        Ok::<_, StrataError>((workspace, mode, holder))
    })
    .await?;
    let root = workspace.root().display().to_string();
    match mode {
        Some(mode) => report.add(
            "workspace.permissions",
            Finding::Warning,
            format!("`{root}` may be read by other users (mode {mode:o})"),
            Some(&format!("chmod 700 '{root}'")),
        ),
        None => report.ok(
            "workspace.permissions",
            format!("`{root}` is the owner's alone"),
        ),
    }
    let of = workspace.clone();
    match blocking::run(move || erase::interrupted(&of)).await {
        Ok(None) => {}
        Ok(Some(target)) => report.add(
            "workspace.erasure",
            Finding::Problem,
            format!("{target} was to be erased and that was interrupted: copies of it may be left"),
            Some("repeat the same `strata erase`, which goes on from there"),
        ),
        Err(error) => report.failed("workspace.erasure", &error, None),
    }
    match holder {
        Ok(None) => report.ok("workspace.lock", "nobody else writes"),
        Ok(Some(holder)) => {
            report.add(
                "workspace.lock",
                Finding::Info,
                format!("in use: {holder}"),
                None,
            );
        }
        Err(error) => report.failed("workspace.lock", &error, None),
    }
    Ok(workspace)
}

/// Returns the mode of a folder that other users may look into.
#[cfg(unix)]
fn open_to_others(root: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(root).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

/// Permissions of other systems are not looked at.
#[cfg(not(unix))]
fn open_to_others(_root: &Path) -> Option<u32> {
    None
}

/// Reads the settings and reports what is wrong in them.
pub(super) async fn settings(
    options: &StrataOptions,
    workspace: &Workspace,
    report: &mut DoctorReport,
) -> Option<Arc<Config>> {
    let source = SettingsSource::new(options, workspace.clone());
    let loaded = blocking::run(move || LiveSettings::open(source)).await;
    let loaded = match loaded {
        Ok(loaded) => loaded.in_force(),
        Err(error) => {
            report.failed(
                "settings",
                &error,
                Some("repair the file by hand; `strata config show` reads it again"),
            );
            return None;
        }
    };
    if let Some(evidence) = loaded.tier_is_kept() {
        report.add(
            "settings.tier",
            Finding::Problem,
            evidence,
            Some("strata tier set"),
        );
    }
    let (config, warnings) = (loaded.config, loaded.warnings);
    for warning in warnings.iter() {
        report.add(
            "settings",
            Finding::Warning,
            warning.to_string(),
            Some("`strata config set` or `unset` the key"),
        );
    }
    if !is_known_zone(&config.time_zone) {
        let evidence = format!(
            "unknown time zone `{}`, times are shown in UTC",
            config.time_zone
        );
        report.add(
            "settings.time_zone",
            Finding::Warning,
            evidence,
            Some("strata config set time_zone Europe/Berlin"),
        );
    }
    if warnings.is_empty() {
        report.ok("settings", "no setting has a fault");
    }
    Some(config)
}

/// Lets the database check itself.
pub(super) async fn state(workspace: &Workspace, report: &mut DoctorReport) {
    let path = workspace.state_path();
    let opened = blocking::run(move || SqliteState::open_read_only(&path)).await;
    let checked = match opened {
        Ok(state) => state.check().await.map(|()| state),
        Err(error) => Err(error),
    };
    match checked {
        Ok(state) => {
            report.ok("state", "the database is sound");
            ledger(&state, report).await;
        }
        Err(error @ StoreError::Newer { .. }) => {
            report.failed("state", &error, Some("use the newer program"));
        }
        Err(error) => {
            report.failed(
                "state",
                &error,
                Some("restore `state.db` from a backup; pages and settings are not in it"),
            );
        }
    }
}

/// Holds every change of an item against the ledger.
async fn ledger(state: &SqliteState, report: &mut DoctorReport) {
    let fix = "restore `state.db` from a backup; what is doubtful is still shown as it stands";
    let check = match state.verify_ledger().await {
        Ok(check) => check,
        Err(error) => return report.failed("state.items", &error, Some(fix)),
    };
    if check.faults.is_empty() {
        let evidence = format!(
            "{} changes of items are as they were written",
            check.operations
        );
        return report.ok("state.items", evidence);
    }
    let faults = check.faults.iter();
    let faults = faults.map(|fault| format!("change {}: {}", fault.sequence, fault.reason));
    report.list(
        "state.items",
        Finding::Problem,
        faults.collect(),
        fix,
        FAULTS_LISTED,
    );
}
