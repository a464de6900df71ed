//! The switches that choose the tier, as the files last said them without a fault.
//!
//! A slip anywhere in a settings file costs that one setting, which falls back to its default. At a switch of the tier
//! that would be another tier, so there what was said last stays in force. It is also written down, because a program
//! that starts after the slip has seen nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use memory_core::config::{Config, ConfigWarning, Origin, Value, schema};
use memory_core::env::Fs;
use memory_substrate::workspace::Workspace;

/// Name of the file in the assistant's folder.
const FILE: &str = "tier-switches.json";

/// What each switch was last set to. A switch of which nothing is known is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GoodSwitches(BTreeMap<&'static str, bool>);

impl GoodSwitches {
    /// Returns what was written down. A file that says nothing sensible says nothing.
    pub(super) fn read(workspace: &Workspace) -> Self {
        let bytes = workspace.fs().read(&path(workspace)).unwrap_or_default();
        let said: BTreeMap<String, bool> = serde_json::from_slice(&bytes).unwrap_or_default();
        let known = keys().filter_map(|key| Some((key, *said.get(key)?)));
        Self(known.collect())
    }

    /// Writes this down unless it is written already. Failing to is no reason to fail anything else.
    pub(super) fn write(&self, workspace: &Workspace) {
        if self.0.is_empty() || Self::read(workspace) == *self {
            return;
        }
        let text = serde_json::to_string_pretty(&self.0).unwrap_or_default() + "\n";
        let path = path(workspace);
        if let Err(error) = write(workspace.fs().as_ref(), &path, text.as_bytes()) {
            tracing::warn!(%error, path = %path.display(), "the switches of the tier could not be written down");
        }
    }

    /// Takes over what the files say without a fault.
    pub(super) fn learn(&mut self, stored: &Config, unsettled: &[&'static str]) {
        for entry in stored.entries().filter(|entry| entry.spec.is_switch()) {
            let key = entry.spec.key;
            if let Some(Value::Bool(value)) = entry.value
                && !unsettled.contains(&key)
            {
                self.0.insert(key, *value);
            }
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<bool> {
        self.0.get(key).copied()
    }
}

/// Returns the switches that a fault in a file may have taken out of it.
pub(super) fn unsettled(config: &Config, warnings: &[ConfigWarning]) -> Vec<&'static str> {
    let in_files = |warning: &&ConfigWarning| {
        warning.tier.is_some() && matches!(warning.origin, Origin::Home | Origin::Assistant)
    };
    let faults: Vec<&ConfigWarning> = warnings.iter().filter(in_files).collect();
    config
        .entries()
        .filter(|entry| entry.spec.is_switch())
        .filter(|entry| {
            // What is written in the faulty file or in a layer above it applies whatever the fault was about.
            let may_be_meant = |fault: &&&ConfigWarning| {
                concerns(fault, entry.spec.key) && entry.origin < fault.origin
            };
            faults.iter().any(|fault| may_be_meant(&fault))
        })
        .map(|entry| entry.spec.key)
        .collect()
}

/// Tells whether a fault is about a key or a table it is in.
fn concerns(fault: &ConfigWarning, key: &str) -> bool {
    let about = fault.suggestion.as_deref().unwrap_or(&fault.key);
    key.strip_prefix(about)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn keys() -> impl Iterator<Item = &'static str> {
    schema::KEYS
        .iter()
        .filter(|spec| spec.is_switch())
        .map(|spec| spec.key)
}

fn path(workspace: &Workspace) -> PathBuf {
    workspace.root().join(FILE)
}

fn write(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    fs.write(path, bytes)
}

#[cfg(test)]
mod tests {
    use memory_core::config::Layers;

    use super::*;

    #[track_caller]
    fn check(home: &str, assistant: &str, expected: &[&str]) {
        let layers = Layers {
            home: Some(home.to_owned()),
            ..Layers::of_assistant(assistant)
        };
        let (config, warnings) = Config::load(&layers).unwrap();
        let short: Vec<&str> = unsettled(&config, &warnings)
            .into_iter()
            .filter_map(|key| key.strip_prefix("memory."))
            .collect();
        assert_eq!(short, expected, "{warnings:?}");
    }

    #[test]
    fn only_what_a_fault_may_have_taken_out_is_unsettled() {
        check("", "[memory.v3]\nlive = true", &[]);
        check("", "[memory.v3]\nlive = 'yes'", &["v3.live"]);
        check("", "[memory.v3]\nlvie = true", &["v3.live"]);
        check("", "[memory.v3]\nlvie = true\nlive = false", &[]);
        check("", "memory = true", &["enabled", "v2.enabled", "v3.live"]);
        check(
            "",
            "[memroy.v3]\nlive = true",
            &["enabled", "v2.enabled", "v3.live"],
        );
        check("", "[memory.v3]\nneedleK = 'many'", &[]);
        check(
            "[memory.v3]\nlive = true",
            "[memory.v3]\nlive = 1",
            &["v3.live"],
        );
        check("[memory.v3]\nlive = 1", "[memory.v3]\nlive = true", &[]);
    }
}
