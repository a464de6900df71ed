//! Trusting a plugin, or whoever signs it: a checksum or a key goes onto the user's own allow-list.
//!
//! Only a library that is the one its manifest speaks of can be trusted; anything else would put a checksum on the list
//! that nobody has seen.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_substrate::blocking;
use plugin_host::{
    AllowEntry, AllowFile, HostOptions, LoadError, PluginHost, PublicKey, SIDECAR_SUFFIX,
    TrustedKey, Verified,
};
use tokio::runtime::Handle;

use super::{
    ALLOW_FILE, KeyTrusted, PluginError, PluginReport, PluginState, Plugins, Trusted, report,
};
use crate::error::StrataError;
use crate::options::StrataOptions;

impl Plugins {
    /// Adds a plugin's checksum to the user's own allow-list, if the plugin is sound.
    pub(crate) async fn trust(
        &self,
        plugin: PathBuf,
        options: &Arc<StrataOptions>,
    ) -> Result<Trusted, StrataError> {
        let allow_file = self.own_allow_file(options);
        let find = self.finder(plugin.clone())?;
        let options = Arc::clone(options);
        blocking::run(move || {
            let report = sound(find()?)?;
            let (Some(sha256), PluginState::Trusted | PluginState::NotTrusted { .. }) =
                (report.sha256, &report.state)
            else {
                // Asked again for the error itself: a report has only its text.
                return Err(PluginError::NotAPlugin { path: plugin }.into());
            };
            let added = report.state != PluginState::Trusted;
            if added {
                let mut list = AllowFile::read(&allow_file).map_err(PluginError::from)?;
                list.trust(AllowEntry {
                    id: report.id.clone(),
                    sha256: sha256.clone(),
                    note: note(&options),
                });
                write(&options, &allow_file, list.text().as_bytes())?;
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

    /// Adds a key to the user's own allow-list, for some plugins or for all of them.
    pub(crate) async fn trust_key(
        &self,
        key: String,
        id: String,
        plugins: Option<Vec<String>>,
        options: &Arc<StrataOptions>,
    ) -> Result<KeyTrusted, StrataError> {
        let allow_file = self.own_allow_file(options);
        let options = Arc::clone(options);
        blocking::run(move || {
            let ed25519 = PublicKey::parse(&key)
                .map_err(|reason| PluginError::NotAPublicKey { key, reason })?;
            let mut list = AllowFile::read(&allow_file).map_err(PluginError::from)?;
            let added = list.trust_key(TrustedKey {
                id: id.clone(),
                ed25519,
                note: note(&options),
                plugins: plugins.clone(),
            });
            if added {
                write(&options, &allow_file, list.text().as_bytes())?;
            }
            Ok(KeyTrusted {
                id,
                key: ed25519.to_string(),
                plugins,
                allow_file,
                added,
            })
        })
        .await
    }

    fn own_allow_file(&self, options: &StrataOptions) -> PathBuf {
        let own = self.source.allow_files.first().cloned();
        own.unwrap_or_else(|| options.home.join(ALLOW_FILE))
    }

    /// Returns what finds a plugin by its identifier, its manifest or its library, whether it is sound or not.
    pub(super) fn finder(
        &self,
        plugin: PathBuf,
    ) -> Result<impl FnOnce() -> Result<Verified, PluginError> + Send + 'static, PluginError> {
        let runtime = Handle::try_current().map_err(|_| PluginError::NoRuntime)?;
        let (host, host_options) = (Arc::clone(&self.host), self.options.clone());
        Ok(move || match named_file(&plugin) {
            Some((folder, manifest_or_library)) => {
                let elsewhere = PluginHost::start(
                    HostOptions {
                        folder: Some(folder),
                        ..host_options
                    },
                    runtime,
                )?;
                find_file(&elsewhere, &manifest_or_library)
            }
            None => find_id(&host, &plugin.to_string_lossy()),
        })
    }
}

fn note(options: &StrataOptions) -> String {
    let today = options.clock.now().utc_date();
    format!("trusted with `strata plugins trust` on {today}")
}

/// Writes a file through the file system of the options.
pub(super) fn write(options: &StrataOptions, path: &Path, bytes: &[u8]) -> Result<(), StrataError> {
    options
        .fs
        .write(path, bytes)
        .map_err(|source| StrataError::Io {
            action: "write",
            path: path.to_owned(),
            source,
        })
}

/// Returns the folder and the path of a file that was named, `None` when an identifier was.
fn named_file(plugin: &Path) -> Option<(PathBuf, PathBuf)> {
    let absolute = std::path::absolute(plugin).ok()?;
    let is_path = plugin.components().count() > 1 || absolute.is_file();
    is_path.then(|| Some((absolute.parent()?.to_owned(), absolute.clone())))?
}

fn find_file(host: &PluginHost, path: &Path) -> Result<Verified, PluginError> {
    for verified in host.verify()? {
        match verified {
            Ok(verified)
                if verified.candidate.manifest == path || verified.candidate.library == path =>
            {
                return Ok(verified);
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

fn find_id(host: &PluginHost, id: &str) -> Result<Verified, PluginError> {
    let wanted = host.registry().find(id)?;
    for verified in host.verify()?.into_iter().flatten() {
        if verified.candidate == wanted {
            return Ok(verified);
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
