//! A writer in a temporary folder, for tests.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memory_core::env::{CountingIds, Fs, ManualClock};
use memory_core::time::Timestamp;

use super::Writer;
use crate::workspace::{AssistantId, Workspace};

/// Creates an assistant's folder and opens it with these file operations.
pub(crate) fn create(home: &Path, fs: Arc<dyn Fs>) -> Writer {
    let id = AssistantId::new("kiwi").expect("a good name");
    let workspace = Workspace::create(home, &id, "", fs).expect("create");
    open(&workspace)
}

/// Opens an assistant's folder.
pub(crate) fn open(workspace: &Workspace) -> Writer {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let lock = workspace.lock("test").expect("nobody else writes");
    let clock = ManualClock::at(Timestamp::from_millis(5));
    // Operations keep their identifiers, so those of the next writer must be others.
    let ids = CountingIds::new(format!("i{}x", OPENED.fetch_add(1, Ordering::Relaxed)));
    Writer::open(workspace, lock, Arc::new(clock), Arc::new(ids)).expect("open")
}
