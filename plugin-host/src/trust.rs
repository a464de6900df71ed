//! The decision whether a plugin is trusted, and by what.
//!
//! It is made on the manifest that was read and the hash that was computed, never on a second look at the disk. A
//! signature that is there must fit as soon as the operator lists any key, even if the hash is listed too: one that does
//! not fit means that somebody changed what somebody else signed.

use std::io;

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
        Err(self.refusal(LoadError::NotAllowed {
            plugin: sidecar.id.clone(),
            sha256: sidecar.sha256.clone(),
        }))
    }

    /// Returns an error unless a build that is loaded already is still trusted.
    pub(crate) fn check_still(
        &self,
        manifest: &PluginManifest,
        sha256: &str,
        trust: &Trust,
    ) -> Result<(), LoadError> {
        if self.still(manifest, sha256, trust) {
            return Ok(());
        }
        Err(self.refusal(LoadError::Revoked {
            plugin: manifest.id.clone(),
            sha256: sha256.to_owned(),
        }))
    }

    /// Returns why something is not trusted: a list that cannot be read may well be the one that trusts it.
    fn refusal(&self, otherwise: LoadError) -> LoadError {
        self.faults.first().map_or(otherwise, again)
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
        LoadError::ReadAllowList { file, source } => LoadError::ReadAllowList {
            file: file.clone(),
            source: io::Error::new(source.kind(), source.to_string()),
        },
        other => LoadError::AllowList {
            file: String::new(),
            reason: other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use memory_core::causes::with_causes;
    use memory_core::predicates::Tier;

    use super::*;
    use crate::allow::AllowEntry;

    const SHA256: &str = "0a0a";

    fn manifest() -> PluginManifest {
        PluginManifest {
            id: "tier-v3".to_owned(),
            tier: Tier::V3,
            version: "0.1.0".to_owned(),
            abi: "1.0.0".to_owned(),
            rust_version: "1.95".to_owned(),
            panic_strategy: "unwind".to_owned(),
            requires: Vec::new(),
            uses: Vec::new(),
        }
    }

    fn check_still(trusted: &Trusted) -> Result<(), String> {
        let checked = trusted.check_still(&manifest(), SHA256, &Trust::Hash);
        checked.map_err(|error| with_causes(&error))
    }

    #[test]
    fn a_build_is_revoked_only_where_every_list_can_be_read() {
        let mut trusted = Trusted::default();
        assert_eq!(
            check_still(&trusted),
            Err("plugin `tier-v3`: build 0a0a is loaded, but not trusted any more".to_owned())
        );
        trusted.faults.push(LoadError::ReadAllowList {
            file: "/a".to_owned(),
            source: io::Error::new(io::ErrorKind::PermissionDenied, "denied"),
        });
        assert_eq!(
            check_still(&trusted),
            Err("allow-list `/a` cannot be read: denied".to_owned())
        );
        trusted.faults[0] = LoadError::AllowList {
            file: "/a".to_owned(),
            reason: "not TOML".to_owned(),
        };
        assert_eq!(
            check_still(&trusted),
            Err("allow-list `/a`: not TOML".to_owned())
        );
        trusted.list.trust(AllowEntry {
            id: "tier-v3".to_owned(),
            sha256: SHA256.to_owned(),
            note: String::new(),
        });
        assert_eq!(check_still(&trusted), Ok(()), "another list trusts it");
    }
}
