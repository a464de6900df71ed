//! Writers in temporary folders, for tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memory_core::env::{Clock, CountingIds, EntryKind, Fs, ManualClock};
use memory_core::time::Timestamp;

use super::Writer;
use crate::fs::RealFs;
use crate::fs::faulty::{Faults, FaultyFs};
use crate::state::SqliteState;
use crate::workspace::{AssistantId, Workspace};

/// When every test happens: 2026-11-30 23:30 in UTC.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_796_081_400_000);

/// Creates an assistant's folder and opens it with these file operations.
pub(crate) fn create(home: &Path, fs: Arc<dyn Fs>) -> Writer {
    open(&workspace(home, fs))
}

/// Creates an assistant's folder.
pub(crate) fn workspace(home: &Path, fs: Arc<dyn Fs>) -> Workspace {
    let id = AssistantId::new("kiwi").expect("a good name");
    Workspace::create(home, &id, "", fs).expect("create")
}

/// Opens an assistant's folder.
pub(crate) fn open(workspace: &Workspace) -> Writer {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let lock = workspace.lock("test").expect("nobody else writes");
    // Operations keep their identifiers, so those of the next writer must be others.
    let ids = CountingIds::new(format!("i{}x", OPENED.fetch_add(1, Ordering::Relaxed)));
    Writer::open(workspace, lock, clock(), Arc::new(ids)).expect("open")
}

/// Opens an assistant's folder on a disk that fails, making identifiers with a prefix.
pub(crate) fn open_faulty(workspace: &Workspace, faults: &Faults, prefix: &str) -> Writer {
    let lock = workspace.lock("test").expect("nobody else writes");
    let clock = clock();
    let state = SqliteState::open_faulty(&workspace.state_path(), clock.as_ref(), faults.clone());
    let ids = Arc::new(CountingIds::new(prefix));
    let workspace = workspace.with_fs(Arc::new(FaultyFs(faults.clone())));
    let state = Arc::new(state.expect("open"));
    Writer::over(&workspace, state, Some(lock), clock, ids).expect("open")
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::at(NOW))
}

/// Returns a temporary folder on the fastest disk there is: what is tested here is order, not the disk.
pub(crate) fn fast_folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.expect("a temporary folder")
}

/// The files below a folder with their bytes.
pub(crate) type Tree = BTreeMap<String, Vec<u8>>;

/// Reads every file below a folder.
pub(crate) fn tree(fs: &dyn Fs, folder: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut folders: Vec<(PathBuf, String)> = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for entry in fs.list(&folder).expect("list") {
            let (path, name) = (folder.join(&entry.name), format!("{prefix}{}", entry.name));
            match entry.kind {
                EntryKind::Directory => folders.push((path, format!("{name}/"))),
                EntryKind::File => {
                    tree.insert(name, fs.read(&path).expect("read"));
                }
                EntryKind::Other => {}
            }
        }
    }
    tree
}

/// Copies every file below a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("list") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a kind").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// Returns the names of every temporary file below a folder.
pub(crate) fn temporaries(folder: &Path) -> Vec<String> {
    let names = tree(&RealFs, folder).into_keys();
    names
        .filter(|name| name.contains(crate::fs::TEMPORARY_MARK))
        .collect()
}
