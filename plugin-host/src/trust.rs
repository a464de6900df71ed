//! The decision whether a plugin is trusted, and by what.
//!
//! It is made on the manifest that was read and the hash that was computed, never on a second look at the disk. A
//! signature that is there must fit as soon as the operator lists any key, even if the hash is listed too: one that does
//! not fit means that somebody changed what somebody else signed.

use memory_core::abi::host::PluginManifest;
use serde::Serialize;

use crate::allow::{AllowList, TrustedKey};
use crate::error::LoadError;
use crate::registry::Candidate;
use crate::signature::{Detached, PublicKey};

/// By what a plugin is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Trust {
    /// Its hash is on the allow-list.
    Hash,
    /// A listed key signed its manifest.
    Key {
        /// The name the list gives the key.
        id: String,
        /// The key.
        key: String,
    },
}

/// What the operator's files trust, and what is wrong with those that cannot be read.
#[derive(Debug, Default)]
pub struct Trusted {
    /// What the readable files say, together.
    pub list: AllowList,
    /// What is wrong with the others. What only they trust is not trusted.
    pub faults: Vec<LoadError>,
}

impl Trusted {
    /// Returns by what a candidate is trusted. Its library must have been found to have the hash in its manifest.
    pub(crate) fn decide(&self, candidate: &Candidate) -> Result<Trust, LoadError> {
        let sidecar = &candidate.sidecar;
        let refused = |reason: String| LoadError::Signature {
            plugin: sidecar.id.clone(),
            reason,
        };
        let listed = self.list.allows(&sidecar.id, &sidecar.sha256);
        let keys = self.list.keys();
        let mut out_of_scope = None;
        if !keys.is_empty()
            && let Some(signature) = Detached::beside(&candidate.manifest).map_err(refused)?
        {
            let fitting = || {
                keys.iter()
                    .filter(|key| signature.fits(&key.ed25519, &candidate.text))
            };
            if let Some(key) = fitting().find(|key| key.may_sign(&sidecar.id)) {
                return Ok(Trust::Key {
                    id: key.id.clone(),
                    key: key.ed25519.to_string(),
                });
            }
            let Some(key) = fitting().next() else {
                let known: Vec<PublicKey> = keys.iter().map(|key| key.ed25519).collect();
                return Err(refused(signature.misfit(&known, &candidate.text)));
            };
            out_of_scope = Some(key.id.clone());
        }
        if listed {
            return Ok(Trust::Hash);
        }
        if let Some(id) = out_of_scope {
            return Err(refused(format!(
                "key `{id}`, which signed it, is not trusted for this plugin"
            )));
        }
        // A list that cannot be read may well be the one that trusts it.
        Err(match self.faults.first() {
            Some(fault) => again(fault),
            None => LoadError::NotAllowed {
                plugin: sidecar.id.clone(),
                sha256: sidecar.sha256.clone(),
            },
        })
    }

    /// Returns whether a build that is loaded already is still trusted.
    pub(crate) fn still(&self, manifest: &PluginManifest, sha256: &str, trust: &Trust) -> bool {
        let signed = |listed: &TrustedKey| {
            listed.may_sign(&manifest.id)
                && matches!(trust, Trust::Key { key, .. } if *key == listed.ed25519.to_string())
        };
        self.list.allows(&manifest.id, sha256) || self.list.keys().iter().any(signed)
    }
}

/// Returns the fault of an allow file once more, as the reason why a plugin is not trusted.
fn again(fault: &LoadError) -> LoadError {
    match fault {
        LoadError::AllowList { file, reason } => LoadError::AllowList {
            file: file.clone(),
            reason: reason.clone(),
        },
        LoadError::ReadAllowList { file, source } => LoadError::AllowList {
            file: file.clone(),
            reason: format!("it cannot be read: {source}"),
        },
        other => LoadError::AllowList {
            file: String::new(),
            reason: other.to_string(),
        },
    }
}
