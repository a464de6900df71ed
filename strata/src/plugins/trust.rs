//! Trusting a plugin: its checksum goes onto the user's own allow-list.
//!
//! Only a library that is the one its manifest speaks of can be trusted; anything else would put a checksum on the list
//! that nobody has seen.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_substrate::blocking;
use plugin_host::{
    AllowEntry, AllowList, HostOptions, LoadError, PluginHost, SIDECAR_SUFFIX, Verified,
};
use tokio::runtime::Handle;

use super::{ALLOW_FILE, PluginError, PluginReport, PluginState, Plugins, Trusted, report};
use crate::error::StrataError;
use crate::options::StrataOptions;

impl Plugins {
    /// Adds a plugin's checksum to the user's own allow-list, if the plugin is sound.
    pub(crate) async fn trust(
        &self,
        plugin: PathBuf,
        options: &Arc<StrataOptions>,
    ) -> Result<Trusted, StrataError> {
        let runtime = Handle::try_current().map_err(|_| PluginError::NoRuntime)?;
        let (host, host_options) = (Arc::clone(&self.host), self.options.clone());
        let allow_file = self
            .source
            .allow_files
            .first()
            .cloned()
            .unwrap_or_else(|| options.home.join(ALLOW_FILE));
        let options = Arc::clone(options);
        blocking::run(move || {
            let report = match named_file(&plugin) {
                Some((folder, manifest_or_library)) => {
                    let elsewhere = PluginHost::start(
                        HostOptions {
                            folder: Some(folder),
                            ..host_options
                        },
                        runtime,
                    )
                    .map_err(PluginError::from)?;
                    find_file(&elsewhere, &manifest_or_library)?
                }
                None => find_id(&host, &plugin.to_string_lossy())?,
            };
            let (Some(sha256), PluginState::Trusted | PluginState::NotTrusted { .. }) =
                (report.sha256, &report.state)
            else {
                // Asked again for the error itself: a report has only its text.
                return Err(PluginError::NotAPlugin { path: plugin }.into());
            };
            let added = report.state != PluginState::Trusted;
            if added {
                let mut list = AllowList::read(&allow_file).map_err(PluginError::from)?;
                let today = options.clock.now().utc_date();
                list.trust(AllowEntry {
                    id: report.id.clone(),
                    sha256: sha256.clone(),
                    note: format!("trusted with `strata plugins trust` on {today}"),
                });
                options
                    .fs
                    .write(&allow_file, list.render().as_bytes())
                    .map_err(|source| StrataError::Io {
                        action: "write",
                        path: allow_file.clone(),
                        source,
                    })?;
            }
            Ok(Trusted {
                id: report.id,
                sha256,
                allow_file,
                added,
            })
        })
        .await
    }
}

/// Returns the folder and the path of a file that was named, `None` when an identifier was.
fn named_file(plugin: &Path) -> Option<(PathBuf, PathBuf)> {
    let absolute = std::path::absolute(plugin).ok()?;
    let is_path = plugin.components().count() > 1 || absolute.is_file();
    is_path.then(|| Some((absolute.parent()?.to_owned(), absolute.clone())))?
}

fn find_file(host: &PluginHost, path: &Path) -> Result<PluginReport, PluginError> {
    for verified in host.verify()? {
        match verified {
            Ok(verified)
                if verified.candidate.manifest == path || verified.candidate.library == path =>
            {
                return sound(verified);
            }
            Err(error)
                if path.to_string_lossy().ends_with(SIDECAR_SUFFIX) && names(&error, path) =>
            {
                return Err(error.into());
            }
            Ok(_) | Err(_) => {}
        }
    }
    Err(PluginError::NotAPlugin {
        path: path.to_owned(),
    })
}

/// Returns whether an error is about this manifest.
fn names(error: &LoadError, path: &Path) -> bool {
    match error {
        LoadError::Manifest { file, .. } | LoadError::ReadManifest { file, .. } => path
            .file_name()
            .is_some_and(|name| name.to_string_lossy() == file.as_str()),
        _ => false,
    }
}

fn find_id(host: &PluginHost, id: &str) -> Result<PluginReport, PluginError> {
    let wanted = host.registry().find(id)?;
    for verified in host.verify()?.into_iter().flatten() {
        if verified.candidate == wanted {
            return sound(verified);
        }
    }
    Err(PluginError::NotAPlugin {
        path: wanted.manifest,
    })
}

/// Returns the report of a plugin whose library is the one its manifest speaks of, trusted or not.
fn sound(verified: Verified) -> Result<PluginReport, PluginError> {
    match verified.result {
        Err(error) if !matches!(error, LoadError::NotAllowed { .. }) => Err(error.into()),
        _ => Ok(report(verified)),
    }
}
