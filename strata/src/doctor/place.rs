//! Checks of the workspace itself: folder, lock, settings, database.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;

use memory_core::config::Config;
use memory_core::store::StoreError;
use memory_core::time::is_known_zone;
use memory_substrate::blocking;
use memory_substrate::state::SqliteState;
use memory_substrate::workspace::{AssistantId, Workspace};

use super::{DoctorReport, Finding};
use crate::error::StrataError;
use crate::options::StrataOptions;
use crate::settings::{LiveSettings, SettingsSource};

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
        let holder = holder(&workspace.lock_path());
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

/// Returns who holds the writer's lock, leaving the file as it is.
///
/// Only a shared lock is asked for, and let go at once: taking the writer's own would turn away a writer that starts, and
/// put this program's name into the file.
fn holder(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| None),
        Err(TryLockError::WouldBlock) => {
            let said = io::read_to_string(&file).unwrap_or_default();
            Ok(Some(described(&said)))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns what a holder wrote into the lock's file about itself.
fn described(said: &str) -> String {
    let said: serde_json::Value = serde_json::from_str(said).unwrap_or_default();
    match (said["pid"].as_u64(), said["command"].as_str()) {
        (Some(pid), Some(command)) => format!("process {pid} (`{command}`) is writing to it"),
        _ => "another process is writing to it".to_owned(),
    }
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
        Ok(state) => state.check().await,
        Err(error) => Err(error),
    };
    match checked {
        Ok(()) => report.ok("state", "the database is sound"),
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
