//! One assistant's folder: where everything is, how it comes to be, and who may write to it.
//!
//! Every path is spelled here and nowhere else. The configuration is the last file that creation writes, so a folder
//! without one is a creation that was interrupted, and running it again completes it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use memory_core::env::{EntryKind, Fs};
use memory_core::store::StoreResult;

use crate::error::{SubstrateError, SubstrateResult, store_io};

pub(crate) use self::lock::PATIENCE;
pub use self::lock::{LockHolder, WriterLock};

mod lock;

/// Name of the file that a writer locks.
pub(crate) const LOCK: &str = "LOCK";

const LONGEST_ID: usize = 64;

/// Names an assistant. It is also the name of a folder, so it is one plain segment on every file system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssistantId(String);

impl AssistantId {
    /// Returns the name if it is one: lower-case letters, digits, `-` and `_`, starting with a letter or digit, and none
    /// that Windows keeps for a device.
    pub fn new(id: &str) -> SubstrateResult<Self> {
        let refuse = |reason| {
            Err(SubstrateError::InvalidId {
                id: id.to_owned(),
                reason,
            })
        };
        if id.len() > LONGEST_ID {
            return refuse("it is longer than 64 characters");
        }
        if !id
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
        {
            return refuse("use lower-case letters, digits, `-` and `_` only");
        }
        if !id.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            return refuse("start it with a letter or digit");
        }
        if is_device(id) {
            return refuse("Windows keeps that name for a device, so no folder there can have it");
        }
        Ok(Self(id.to_owned()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether Windows keeps a name for a device, whatever ending it has.
fn is_device(name: &str) -> bool {
    let port = name
        .strip_prefix("com")
        .or_else(|| name.strip_prefix("lpt"));
    matches!(name, "aux" | "con" | "nul" | "prn")
        || port.is_some_and(|port| matches!(port.as_bytes(), [b'0'..=b'9']))
}

impl fmt::Display for AssistantId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Returns the folder that holds all assistants, from a copy of the environment.
///
/// `STRATA_HOME` wins, then the data folder of the XDG base directories. Relative values are ignored, as that
/// specification asks, because they would mean another store in every working directory; for `STRATA_HOME`, which a
/// person set on purpose, a relative value is an error.
pub fn home_dir(environment: &BTreeMap<String, String>) -> SubstrateResult<PathBuf> {
    let value = |name: &str| {
        environment
            .get(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(home) = value("STRATA_HOME") {
        return if home.is_absolute() {
            Ok(home)
        } else {
            Err(SubstrateError::Refused {
                reason: format!(
                    "`STRATA_HOME` is `{}`, which is not an absolute path",
                    home.display()
                ),
            })
        };
    }
    let data = value("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| {
        value("HOME")
            .filter(|path| path.is_absolute())
            .map(|home| home.join(".local/share"))
    });
    data.map(|data| data.join("strata"))
        .ok_or_else(|| SubstrateError::Refused {
            reason: "there is no home folder; set `STRATA_HOME` to an absolute path".to_owned(),
        })
}

/// One assistant's folder.
#[derive(Clone, Debug)]
pub struct Workspace {
    id: AssistantId,
    root: PathBuf,
    fs: Arc<dyn Fs>,
}

impl Workspace {
    /// Creates an assistant's folder with this configuration text.
    pub fn create(
        home: &Path,
        id: &AssistantId,
        config_text: &str,
        fs: Arc<dyn Fs>,
    ) -> SubstrateResult<Self> {
        let workspace = Self {
            id: id.clone(),
            root: root_of(home, id),
            fs,
        };
        if workspace.is_complete()? {
            return Err(SubstrateError::AlreadyExists {
                what: format!("the assistant `{id}`"),
                path: workspace.root,
            });
        }
        for directory in [
            workspace.concepts_dir(),
            workspace.archive_dir(),
            workspace.skills_dir(),
            workspace.blobs_dir(),
            workspace.index_dir(),
            workspace.imports_dir(),
            workspace.spool_dir(),
        ] {
            workspace
                .fs
                .create_dir_all(&directory)
                .map_err(SubstrateError::io("create", &directory))?;
        }
        workspace.write_config(config_text)?;
        Ok(workspace)
    }

    /// Opens an existing assistant's folder. Creates nothing.
    pub fn open(home: &Path, id: &AssistantId, fs: Arc<dyn Fs>) -> SubstrateResult<Self> {
        let workspace = Self {
            id: id.clone(),
            root: root_of(home, id),
            fs,
        };
        if workspace.is_complete()? {
            Ok(workspace)
        } else {
            Err(SubstrateError::NoSuchAssistant {
                id: id.to_string(),
                path: workspace.root,
            })
        }
    }

    /// Returns the assistants of a home, sorted by name.
    pub fn list(home: &Path, fs: &dyn Fs) -> SubstrateResult<Vec<AssistantId>> {
        let directory = assistants_of(home);
        let entries = match fs.list(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(SubstrateError::io("list", &directory)(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let Ok(id) = AssistantId::new(&entry.name) else {
                continue;
            };
            let config = config_of(&root_of(home, &id));
            if entry.kind == EntryKind::Directory && is_file(fs, &config)? {
                found.push(id);
            }
        }
        found.sort();
        Ok(found)
    }

    /// Returns the assistant's name.
    pub fn id(&self) -> &AssistantId {
        &self.id
    }

    /// Returns the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the file operations this workspace uses.
    pub fn fs(&self) -> &Arc<dyn Fs> {
        &self.fs
    }

    /// Returns the path of the configuration.
    pub fn config_path(&self) -> PathBuf {
        config_of(&self.root)
    }

    /// Returns the folder that a person reads and edits.
    pub fn memory_dir(&self) -> PathBuf {
        self.root.join("memory")
    }

    /// Returns the folder of the concept pages.
    pub fn concepts_dir(&self) -> PathBuf {
        self.memory_dir().join("concepts")
    }

    /// Returns the folder of the daily copies of the buffer.
    pub fn archive_dir(&self) -> PathBuf {
        self.memory_dir().join("archive")
    }

    /// Returns the folder of the personal knowledge base.
    pub fn pkb_dir(&self) -> PathBuf {
        self.memory_dir().join("pkb")
    }

    /// Returns the path of the intake buffer.
    pub fn buffer_path(&self) -> PathBuf {
        self.memory_dir().join("buffer.md")
    }

    /// Returns the path of the essentials view.
    pub fn essentials_path(&self) -> PathBuf {
        self.memory_dir().join("essentials.md")
    }

    /// Returns the path of the core view, the few lines that every conversation begins with.
    pub fn core_path(&self) -> PathBuf {
        self.memory_dir().join("core.md")
    }

    /// Returns the path of the threads view.
    pub fn threads_path(&self) -> PathBuf {
        self.memory_dir().join("threads.md")
    }

    /// Returns the path of the recent view.
    pub fn recent_path(&self) -> PathBuf {
        self.memory_dir().join("recent.md")
    }

    /// Returns the path of the curated list of core pages.
    pub fn core_pages_path(&self) -> PathBuf {
        self.memory_dir().join("core-pages.md")
    }

    /// Returns the folder of the skills.
    pub fn skills_dir(&self) -> PathBuf {
        self.root.join("skills")
    }

    /// Returns the path of the state database.
    pub fn state_path(&self) -> PathBuf {
        self.root.join("state.db")
    }

    /// Returns the folder of the evidence.
    pub fn evidence_dir(&self) -> PathBuf {
        self.root.join("evidence")
    }

    /// Returns the folder of old versions.
    pub fn blobs_dir(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// Returns the folder of the index, which may be deleted at any time.
    pub fn index_dir(&self) -> PathBuf {
        self.root.join("index")
    }

    /// Returns the folder of imports.
    pub fn imports_dir(&self) -> PathBuf {
        self.root.join("imports")
    }

    /// Returns the folder where hooks drop what they captured.
    pub fn spool_dir(&self) -> PathBuf {
        self.root.join("spool")
    }

    /// Returns the folder for what is there only while somebody writes.
    pub fn run_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Returns the path of the writer's lock.
    pub fn lock_path(&self) -> PathBuf {
        self.root.join(LOCK)
    }

    /// Returns the path of the file that says that there is a state database.
    pub(crate) fn state_mark_path(&self) -> PathBuf {
        self.root.join("state.mark")
    }

    /// Returns the path of the disk space kept in reserve.
    pub fn reserve_path(&self) -> PathBuf {
        self.blobs_dir().join("reserve")
    }

    /// Returns the same folder with other file operations.
    pub(crate) fn with_fs(&self, fs: Arc<dyn Fs>) -> Self {
        Self { fs, ..self.clone() }
    }

    /// Reads the configuration's text.
    pub fn read_config(&self) -> SubstrateResult<String> {
        let path = self.config_path();
        let bytes = self
            .fs
            .read(&path)
            .map_err(SubstrateError::io("read", &path))?;
        String::from_utf8(bytes).map_err(|error| {
            SubstrateError::io("read", &path)(io::Error::new(
                io::ErrorKind::InvalidData,
                error.utf8_error(),
            ))
        })
    }

    /// Replaces the configuration's text.
    pub fn write_config(&self, text: &str) -> SubstrateResult<()> {
        let path = self.config_path();
        self.fs
            .write(&path, text.as_bytes())
            .map_err(SubstrateError::io("write", &path))
    }

    /// Reads the curated list of core pages; empty when there is none.
    pub fn core_pages_text(&self) -> StoreResult<String> {
        read_text_or_empty(self.fs.as_ref(), &self.core_pages_path())
    }

    /// Takes the writer's lock, waiting a few seconds for another writer to end. It blocks. The command is shown to
    /// whoever finds the lock held.
    pub fn lock(&self, command: &str) -> SubstrateResult<WriterLock> {
        self.lock_within(command, PATIENCE)
    }

    /// Takes the writer's lock, waiting no longer than this for another writer to end. It blocks.
    pub fn lock_within(&self, command: &str, patience: Duration) -> SubstrateResult<WriterLock> {
        WriterLock::take(&self.lock_path(), command, patience)
    }

    /// Returns what the lock's file says of a holder, who may be gone. It asks for no lock, so it is in nobody's way.
    pub fn said_of_lock(&self) -> SubstrateResult<Option<LockHolder>> {
        WriterLock::said(&self.lock_path())
    }

    /// Returns who holds the writer's lock, as it said itself; `None` when nobody writes.
    pub fn lock_holder(&self) -> SubstrateResult<Option<LockHolder>> {
        WriterLock::holder(&self.lock_path())
    }

    fn is_complete(&self) -> SubstrateResult<bool> {
        is_file(self.fs.as_ref(), &self.config_path())
    }
}

/// Reads a text file, lossily, as the empty text when it does not exist.
pub(crate) fn read_text_or_empty(fs: &dyn Fs, path: &Path) -> StoreResult<String> {
    Ok(String::from_utf8(read_bytes_or_empty(fs, path)?)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Reads a file, as empty when it does not exist.
pub(crate) fn read_bytes_or_empty(fs: &dyn Fs, path: &Path) -> StoreResult<Vec<u8>> {
    match fs.read(path) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(store_io("read", path)(error)),
    }
}

fn is_file(fs: &dyn Fs, path: &Path) -> SubstrateResult<bool> {
    match fs.info(path) {
        Ok(info) => Ok(info.kind == EntryKind::File),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(SubstrateError::io("look at", path)(error)),
    }
}

fn assistants_of(home: &Path) -> PathBuf {
    home.join("assistants")
}

/// Returns where an assistant's folder is or would be.
pub(crate) fn root_of(home: &Path, id: &AssistantId) -> PathBuf {
    assistants_of(home).join(id.as_str())
}

fn config_of(root: &Path) -> PathBuf {
    root.join("assistant.toml")
}

#[cfg(test)]
mod tests {
    use memory_core::store::StoreError;

    use super::*;
    use crate::fs::RealFs;

    fn id(name: &str) -> AssistantId {
        AssistantId::new(name).expect("a good name")
    }

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn names_are_single_plain_segments() {
        for good in ["a", "kiwi-2", "0_x", "a--b", "com", "con-1", "com10"] {
            assert_eq!(id(good).as_str(), good);
        }
        let long = "a".repeat(65);
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "a\\b",
            "A",
            "é",
            "-a",
            "a b",
            "con",
            "lpt1",
            long.as_str(),
        ] {
            assert!(
                matches!(AssistantId::new(bad), Err(SubstrateError::InvalidId { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn the_home_folder_comes_from_the_given_environment_only() {
        let home = |pairs: &[(&str, &str)]| home_dir(&environment(pairs));
        assert_eq!(
            home(&[("STRATA_HOME", "/s"), ("HOME", "/h")]).expect("set"),
            PathBuf::from("/s")
        );
        assert_eq!(
            home(&[("XDG_DATA_HOME", "/d"), ("HOME", "/h")]).expect("set"),
            PathBuf::from("/d/strata")
        );
        let from_home = home(&[("XDG_DATA_HOME", "rel"), ("HOME", "/h")]).expect("set");
        assert_eq!(from_home, PathBuf::from("/h/.local/share/strata"));
        assert!(home(&[("STRATA_HOME", "rel"), ("HOME", "/h")]).is_err());
        assert!(home(&[]).is_err());
    }

    #[test]
    fn a_workspace_is_created_once_opened_and_listed() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let fs: Arc<dyn Fs> = Arc::new(RealFs);
        assert!(
            Workspace::list(home.path(), fs.as_ref())
                .expect("list")
                .is_empty()
        );
        assert!(matches!(
            Workspace::open(home.path(), &id("kiwi"), Arc::clone(&fs)),
            Err(SubstrateError::NoSuchAssistant { .. })
        ));
        let made = Workspace::create(home.path(), &id("kiwi"), "# config\n", Arc::clone(&fs))
            .expect("create");
        assert!(made.concepts_dir().is_dir());
        assert!(matches!(
            Workspace::create(home.path(), &id("kiwi"), "", Arc::clone(&fs)),
            Err(SubstrateError::AlreadyExists { .. })
        ));
        assert_eq!(made.read_config().expect("config"), "# config\n");
        Workspace::create(home.path(), &id("ada"), "", Arc::clone(&fs)).expect("create");
        assert_eq!(
            Workspace::list(home.path(), fs.as_ref()).expect("list"),
            [id("ada"), id("kiwi")]
        );
        Workspace::open(home.path(), &id("kiwi"), fs).expect("open");
    }

    #[test]
    fn an_interrupted_creation_is_completed() {
        let home = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir_all(home.path().join("assistants/kiwi/memory"))
            .expect("a half-made folder");
        let fs: Arc<dyn Fs> = Arc::new(RealFs);
        assert!(
            Workspace::list(home.path(), fs.as_ref())
                .expect("list")
                .is_empty()
        );
        Workspace::create(home.path(), &id("kiwi"), "", fs).expect("create completes it");
    }

    #[test]
    fn one_writer_at_a_time_and_the_other_learns_who() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let workspace =
            Workspace::create(home.path(), &id("kiwi"), "", Arc::new(RealFs)).expect("create");
        let mut held = workspace.lock("strata serve").expect("free");
        match workspace.lock_within("strata ingest", Duration::ZERO) {
            Err(SubstrateError::Store(StoreError::Locked { holder })) => {
                assert!(holder.contains("strata serve"), "{holder}");
                assert!(holder.contains(&std::process::id().to_string()), "{holder}");
            }
            other => panic!("expected the lock to be held, got {other:?}"),
        }
        let holder = workspace.lock_holder().expect("read").expect("held");
        assert_eq!(
            (holder.pid, holder.command.as_str()),
            (std::process::id(), "strata serve")
        );
        assert!(holder.since.is_some() && holder.socket.is_none());
        held.announce(Path::new("/run/kiwi")).expect("announced");
        let holder = workspace.lock_holder().expect("read").expect("held");
        assert_eq!(holder.socket.as_deref(), Some(Path::new("/run/kiwi")));
        let waiting = {
            let workspace = workspace.clone();
            std::thread::spawn(move || {
                workspace.lock_within("strata ingest", Duration::from_mins(1))
            })
        };
        drop(held);
        let lock = waiting.join().expect("no panic").expect("its turn comes");
        drop(lock);
        assert_eq!(workspace.lock_holder().expect("read"), None);
    }
}
