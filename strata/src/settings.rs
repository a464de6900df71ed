//! The settings in force, looked at again whenever a turn begins.
//!
//! The files are a few lines long, so comparing their whole text costs less than a service call and cannot be fooled by
//! a time stamp that did not move. A file that cannot be read as TOML changes nothing: the last good settings stay in
//! force, with a notice, because falling back to defaults could mean another tier. For the same reason a slip at a switch
//! of the tier leaves that switch as it was.

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

use self::switches::GoodSwitches;

mod switches;

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
    /// Whether the switches of the tier may be written down.
    records: bool,
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
    settings: Settings,
    good: GoodSwitches,
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

/// What the files, the environment and the flags come to.
#[derive(Clone, Debug)]
struct Settings {
    config: Arc<Config>,
    warnings: Arc<Vec<ConfigWarning>>,
    unsettled: Arc<Vec<&'static str>>,
}

/// The settings as a turn uses them.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    pub(crate) config: Arc<Config>,
    pub(crate) warnings: Arc<Vec<ConfigWarning>>,
    /// The switches of the tier that a fault may have taken out of the files, and that are as they were before it.
    pub(crate) unsettled: Arc<Vec<&'static str>>,
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
        notices.extend(
            self.tier_is_kept()
                .map(|message| notice("tier_switch_faulty", message)),
        );
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

    /// Returns what to say when a fault in the files is at a switch of the tier.
    pub(crate) fn tier_is_kept(&self) -> Option<String> {
        if self.unsettled.is_empty() {
            return None;
        }
        let keys: Vec<String> = self
            .unsettled
            .iter()
            .map(|key| format!("`{key}`"))
            .collect();
        Some(format!(
            "the settings have a fault at a switch of the tier, so {} and with it tier `{}` stay as they last were; \
             `strata tier set` repairs it",
            keys.join(", "),
            self.config.tier()
        ))
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
            records: false,
        }
    }

    /// Returns this source for a process that may write: it writes down what the switches of the tier are.
    pub(crate) fn recording(self) -> Self {
        Self {
            records: true,
            ..self
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

    /// Reads the texts. Switches that a fault took out of them are as they were, and what the others are is learnt.
    fn load(&self, texts: &Texts, good: &mut GoodSwitches) -> Result<Settings, StrataError> {
        let stored = Layers {
            home: texts.home.clone(),
            assistant: texts.assistant.clone(),
            ..Layers::default()
        };
        let (config, warnings) = Config::load(&stored)?;
        good.learn(&config, &switches::unsettled(&config, &warnings));
        if self.records {
            good.write(&self.workspace);
        }
        let layers = self.layers_of(texts.home.clone(), texts.assistant.clone());
        let (mut config, mut warnings) = Config::load(&layers)?;
        let unsettled = switches::unsettled(&config, &warnings);
        if !unsettled.is_empty() {
            (config, warnings) = Config::load(&kept(layers, &unsettled, good))?;
        }
        Ok(Settings {
            config: Arc::new(config),
            warnings: Arc::new(warnings),
            unsettled: Arc::new(unsettled),
        })
    }
}

/// Returns layers in which these switches are as they were, as far as that is known.
fn kept(mut layers: Layers, unsettled: &[&'static str], good: &GoodSwitches) -> Layers {
    for key in unsettled {
        if let Some(value) = good.get(key) {
            layers.flags.insert((*key).to_owned(), value.to_string());
        }
    }
    layers
}

impl LiveSettings {
    /// Reads the settings for the first time; there is nothing to fall back to yet, so a broken file is an error. Blocks.
    pub(crate) fn open(source: SettingsSource) -> Result<Self, StrataError> {
        let texts = source.texts()?;
        let mut good = GoodSwitches::read(&source.workspace);
        let settings = source.load(&texts, &mut good)?;
        let loaded = Loaded {
            texts,
            settings,
            good,
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

    /// Writes the assistant's file, and what the switches of the tier are with it. Blocks.
    pub(crate) fn write(&self, text: &str) -> Result<(), StrataError> {
        self.source.write(text)?;
        self.look();
        self.lock().good.write(&self.source.workspace);
        Ok(())
    }

    /// Reads the files as they are now, with the switches that are as they were before a fault. Blocks.
    pub(crate) fn layers_in_force(&self) -> Result<Layers, StrataError> {
        let loaded = self.lock();
        let layers = self.source.layers()?;
        Ok(kept(layers, &loaded.settings.unsettled, &loaded.good))
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
            Ok(texts) => match self.source.load(&texts, &mut loaded.good) {
                Ok(settings) => {
                    let configured = settings.config.tier();
                    let faulty = settings.unsettled.join(" ");
                    tracing::info!(assistant = %self.source.workspace.id(), %configured, faulty, "settings changed");
                    loaded.texts = texts;
                    loaded.settings = settings;
                    loaded.broken = None;
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
            config: Arc::clone(&self.settings.config),
            warnings: Arc::clone(&self.settings.warnings),
            unsettled: Arc::clone(&self.settings.unsettled),
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
    fn a_slip_at_a_switch_never_changes_the_tier() {
        let root = tempfile::tempdir().unwrap();
        let (settings, workspace) = open(root.path());
        for slip in ["live = \"yes\"", "lvie = true", "live = 1"] {
            workspace
                .write_config(&format!("[memory.v3]\n{slip}\n"))
                .unwrap();
            let seen = settings.look();
            assert_eq!(seen.config.tier(), Tier::V3, "{slip}");
            let notices = seen.notices();
            assert_eq!(notices[0].code, "tier_switch_faulty", "{notices:?}");
            assert!(notices[0].message.contains("`v3`"), "{notices:?}");
            assert!(
                notices[1].message.contains("tier is now `v3`"),
                "{notices:?}"
            );
        }
        // Another switch of the same file still counts.
        let text = "[memory]\nenabled = false\n[memory.v3]\nlive = \"yes\"\n";
        workspace.write_config(text).unwrap();
        assert_eq!(settings.look().config.tier(), Tier::Off);
        workspace
            .write_config("[memory.v3]\nlive = false\n")
            .unwrap();
        let seen = settings.look();
        assert_eq!((seen.config.tier(), seen.notices().len()), (Tier::V2, 0));
    }

    #[test]
    fn a_program_that_starts_after_the_slip_goes_by_what_was_written_down() {
        let root = tempfile::tempdir().unwrap();
        let (settings, workspace) = open(root.path());
        let source = settings.source().clone();
        workspace
            .write_config("[memory.v3]\nlive = \"yes\"\n")
            .unwrap();
        let reopened = |source: SettingsSource| LiveSettings::open(source).unwrap().in_force();
        let seen = reopened(source.clone());
        assert_eq!(seen.config.tier(), Tier::V2, "nothing was written down");
        assert!(seen.tier_is_kept().is_some());

        workspace
            .write_config("[memory.v3]\nlive = true\n")
            .unwrap();
        reopened(source.clone());
        assert_eq!(
            GoodSwitches::read(&workspace),
            GoodSwitches::default(),
            "a reader writes nothing"
        );
        reopened(source.clone().recording());
        workspace
            .write_config("[memory.v3]\nlive = \"yes\"\n")
            .unwrap();
        assert_eq!(reopened(source.clone()).config.tier(), Tier::V3);

        // An edit is written down by whoever made it.
        let settings = LiveSettings::open(source.clone()).unwrap();
        settings.write("[memory.v2]\nenabled = false\n").unwrap();
        workspace
            .write_config("[memory.v2]\nenabled = 0\n")
            .unwrap();
        assert_eq!(reopened(source).config.tier(), Tier::V1);
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
