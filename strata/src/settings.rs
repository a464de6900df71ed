//! The settings in force, looked at again whenever a turn begins.
//!
//! The files are a few lines long, so comparing their whole text costs less than a service call and cannot be fooled by
//! a time stamp that did not move. A file that cannot be read as TOML changes nothing: the last good settings stay in
//! force, with a notice, because falling back to defaults could mean another tier.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use memory_core::config::{Config, ConfigWarning, Layers};
use memory_core::env::Fs;
use memory_core::services::{Notice, Severity};
use memory_core::time::is_known_zone;
use memory_substrate::workspace::Workspace;

use crate::error::{StrataError, cause_chain};
use crate::options::StrataOptions;

/// Name of the file that all assistants of a home share.
pub const HOME_FILE: &str = "strata.toml";

/// Reads an assistant's settings and keeps the last good ones.
#[derive(Debug)]
pub(crate) struct LiveSettings {
    source: SettingsSource,
    loaded: Mutex<Loaded>,
}

/// Where an assistant's settings come from.
#[derive(Clone)]
pub(crate) struct SettingsSource {
    workspace: Workspace,
    home_file: PathBuf,
    fs: Arc<dyn Fs>,
    environment: BTreeMap<String, String>,
    flags: BTreeMap<String, String>,
}

impl std::fmt::Debug for SettingsSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SettingsSource")
            .field("home_file", &self.home_file)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Loaded {
    texts: Texts,
    config: Arc<Config>,
    warnings: Arc<Vec<ConfigWarning>>,
    /// Why the newest texts are not in force.
    broken: Option<String>,
    /// Why the texts could not be read at the last look. Not kept with the texts: it passes when they can be read again,
    /// even if they are the same.
    unreadable: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Texts {
    home: Option<String>,
    assistant: Option<String>,
}

/// The settings as a turn uses them.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    pub(crate) config: Arc<Config>,
    pub(crate) warnings: Arc<Vec<ConfigWarning>>,
    /// Why the newest text is not in force, if it is not.
    pub(crate) broken: Option<String>,
}

impl InForce {
    /// Returns what a host should be told about these settings.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        if let Some(broken) = &self.broken {
            notices.push(notice(
                "settings_broken",
                format!("{broken}; the settings before it stay in force"),
            ));
        }
        for warning in self.warnings.iter() {
            notices.push(notice("settings_warning", warning.to_string()));
        }
        if !is_known_zone(&self.config.time_zone) {
            let zone = &self.config.time_zone;
            notices.push(notice(
                "time_zone_unknown",
                format!("unknown time zone `{zone}`, times are shown in UTC"),
            ));
        }
        notices
    }
}

fn notice(code: &str, message: String) -> Notice {
    Notice {
        code: code.to_owned(),
        severity: Severity::Warning,
        message,
    }
}

impl SettingsSource {
    pub(crate) fn new(options: &StrataOptions, workspace: Workspace) -> Self {
        Self {
            workspace,
            home_file: options.home.join(HOME_FILE),
            fs: Arc::clone(&options.fs),
            environment: options.environment.clone(),
            flags: options.flags.clone(),
        }
    }

    /// Reads the files as they are now. Blocks.
    pub(crate) fn layers(&self) -> Result<Layers, StrataError> {
        let Texts { home, assistant } = self.texts()?;
        Ok(self.layers_of(home, assistant))
    }

    /// Writes the assistant's file. Blocks.
    pub(crate) fn write(&self, text: &str) -> Result<(), StrataError> {
        Ok(self.workspace.write_config(text)?)
    }

    fn texts(&self) -> Result<Texts, StrataError> {
        Ok(Texts {
            home: read_optional(self.fs.as_ref(), &self.home_file)?,
            assistant: Some(self.workspace.read_config()?),
        })
    }

    fn layers_of(&self, home: Option<String>, assistant: Option<String>) -> Layers {
        Layers {
            home,
            assistant,
            environment: self.environment.clone(),
            flags: self.flags.clone(),
        }
    }

    fn load(&self, texts: &Texts) -> Result<(Config, Vec<ConfigWarning>), StrataError> {
        Ok(Config::load(
            &self.layers_of(texts.home.clone(), texts.assistant.clone()),
        )?)
    }
}

impl LiveSettings {
    /// Reads the settings for the first time; there is nothing to fall back to yet, so a broken file is an error. Blocks.
    pub(crate) fn open(source: SettingsSource) -> Result<Self, StrataError> {
        let texts = source.texts()?;
        let (config, warnings) = source.load(&texts)?;
        let loaded = Loaded {
            texts,
            config: Arc::new(config),
            warnings: Arc::new(warnings),
            broken: None,
            unreadable: None,
        };
        Ok(Self {
            source,
            loaded: Mutex::new(loaded),
        })
    }

    /// Returns where the settings come from.
    pub(crate) fn source(&self) -> &SettingsSource {
        &self.source
    }

    /// Returns the settings without looking at the files.
    pub(crate) fn in_force(&self) -> InForce {
        self.lock().in_force()
    }

    /// Looks at the files again and returns the settings. Blocks.
    pub(crate) fn look(&self) -> InForce {
        // Read under the lock, so that of two looks at once the later one is the newer one.
        let mut loaded = self.lock();
        let texts = self.source.texts();
        loaded.unreadable = None;
        match texts {
            Ok(texts) if texts == loaded.texts => {}
            Ok(texts) => match self.source.load(&texts) {
                Ok((config, warnings)) => {
                    tracing::info!(assistant = %self.source.workspace.id(), tier = %config.tier(), "settings changed");
                    *loaded = Loaded {
                        texts,
                        config: Arc::new(config),
                        warnings: Arc::new(warnings),
                        broken: None,
                        unreadable: None,
                    };
                }
                Err(error) => {
                    loaded.texts = texts;
                    loaded.broken = Some(cause_chain(&error).join(": "));
                }
            },
            // Not remembered as seen: the next turn tries again.
            Err(error) => loaded.unreadable = Some(cause_chain(&error).join(": ")),
        }
        loaded.in_force()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loaded {
    fn in_force(&self) -> InForce {
        InForce {
            config: Arc::clone(&self.config),
            warnings: Arc::clone(&self.warnings),
            broken: self.unreadable.as_ref().or(self.broken.as_ref()).cloned(),
        }
    }
}

fn read_optional(fs: &dyn Fs, path: &Path) -> Result<Option<String>, StrataError> {
    match fs.read(path) {
        // Bytes that are not UTF-8 become marks that the TOML parser then reports with their place.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StrataError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use memory_core::config::init_text;
    use memory_core::predicates::Tier;
    use memory_substrate::workspace::AssistantId;

    use super::*;

    fn open(root: &Path) -> (LiveSettings, Workspace) {
        let options = StrataOptions::new(root);
        let id = AssistantId::new("ada").unwrap();
        let text = init_text("UTC").unwrap();
        let workspace = Workspace::create(root, &id, &text, Arc::clone(&options.fs)).unwrap();
        let settings =
            LiveSettings::open(SettingsSource::new(&options, workspace.clone())).unwrap();
        (settings, workspace)
    }

    #[test]
    fn an_edit_is_seen_at_the_next_look() {
        let root = tempfile::tempdir().unwrap();
        let (settings, workspace) = open(root.path());
        assert_eq!(settings.look().config.tier(), Tier::V3);
        workspace
            .write_config("[memory]\nenabled = false\n")
            .unwrap();
        assert_eq!(settings.in_force().config.tier(), Tier::V3);
        assert_eq!(settings.look().config.tier(), Tier::Off);
    }

    #[test]
    fn a_broken_file_keeps_the_last_good_settings_until_it_is_repaired() {
        let root = tempfile::tempdir().unwrap();
        let (settings, workspace) = open(root.path());
        workspace.write_config("[memory\n").unwrap();
        for _ in 0..2 {
            let seen = settings.look();
            assert_eq!(seen.config.tier(), Tier::V3);
            let notices = seen.notices();
            assert_eq!(notices[0].code, "settings_broken");
            assert!(
                notices[0].message.contains("line 1"),
                "{}",
                notices[0].message
            );
        }
        workspace.write_config("").unwrap();
        let seen = settings.look();
        assert_eq!((seen.config.tier(), seen.notices().len()), (Tier::V2, 0));
    }

    #[test]
    fn a_file_that_could_not_be_read_for_a_moment_leaves_no_notice_behind() {
        let root = tempfile::tempdir().unwrap();
        let (settings, workspace) = open(root.path());
        let (file, aside) = (workspace.config_path(), root.path().join("aside"));
        std::fs::rename(&file, &aside).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert_eq!(settings.look().notices()[0].code, "settings_broken");
        std::fs::remove_dir(&file).unwrap();
        std::fs::rename(&aside, &file).unwrap();
        assert!(settings.look().notices().is_empty());

        // What is wrong with the text itself stays said.
        workspace.write_config("[memory\n").unwrap();
        settings.look();
        std::fs::rename(&file, &aside).unwrap();
        settings.look();
        std::fs::rename(&aside, &file).unwrap();
        let notices = settings.look().notices();
        assert!(notices[0].message.contains("line 1"), "{notices:?}");
    }

    #[test]
    fn the_shared_file_lies_below_the_assistants_own() {
        let root = tempfile::tempdir().unwrap();
        let (settings, _) = open(root.path());
        let shared = "time_zone = \"Asia/Tokyo\"\n[memory.v3]\nneedleK = 7\n";
        std::fs::write(root.path().join(HOME_FILE), shared).unwrap();
        let seen = settings.look();
        assert_eq!(seen.config.memory.v3.needle_k, 7);
        assert_eq!(
            seen.config.time_zone, "UTC",
            "`init` wrote it into the assistant's own file"
        );
    }
}
