//! Signing plugins: making a key, and putting a signature beside a manifest.
//!
//! Only a plugin whose library is the one its manifest speaks of is signed; whether this machine trusts it does not matter,
//! because the signature is for others.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_substrate::blocking;
use plugin_host::{LoadError, SigningKey, signature_path};

use super::trust::write;
use super::{PluginError, Plugins, Signed};
use crate::error::StrataError;
use crate::options::StrataOptions;

impl Plugins {
    /// Signs a plugin with the key in a file.
    pub(crate) async fn sign(
        &self,
        plugin: PathBuf,
        key_file: PathBuf,
        options: &Arc<StrataOptions>,
    ) -> Result<Signed, StrataError> {
        let find = self.finder(plugin)?;
        let options = Arc::clone(options);
        blocking::run(move || {
            let key = SigningKey::read(&key_file).map_err(PluginError::from)?;
            let verified = find()?;
            match verified.result {
                // What is not trusted here, or was signed badly before, may be signed all the same.
                Ok(()) | Err(LoadError::NotAllowed { .. } | LoadError::Signature { .. }) => {}
                Err(error) => return Err(PluginError::from(error).into()),
            }
            let signature = signature_path(&verified.candidate.manifest);
            let text = key.sign_candidate(&verified.candidate);
            write(&options, &signature, text.as_bytes())?;
            Ok(Signed {
                id: verified.candidate.sidecar.id,
                signature,
                key: key.public().to_string(),
            })
        })
        .await
    }
}

/// Makes a signing key in a new file and returns the public key that belongs to it.
pub fn make_signing_key(file: &Path) -> Result<String, PluginError> {
    let key = SigningKey::generate()?;
    key.write_new(file)?;
    Ok(key.public().to_string())
}
