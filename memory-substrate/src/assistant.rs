//! One assistant's memory on this machine, opened: files, state, index and the image that turns read.
//!
//! Opening never waits for a model or a rebuild. Whatever the index lacks is read from the files and found by keyword
//! at once; vectors and rows follow in [`AssistantStore::sync`]. Two locks keep this apart: a short one for taking in
//! what changed, and a long one for the index, which no turn ever waits for.

mod open;
mod refresh;
mod report;
mod watch;
mod work;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use memory_core::embed::Embedder;
use memory_core::env::{Clock, Ids};
use memory_core::predicates::Tier;
use memory_core::services::{Capability, Notice, Services, Severity};
use memory_core::store::{StoreError, StoreResult};
use memory_core::text::slug::Slug;
use tokio::sync::Mutex;

use self::open::{choose, notice};
use self::watch::Watch;
use crate::blocking;
use crate::error::SubstrateResult;
use crate::index::{IndexHome, LanceIndex};
use crate::pages::{FilePages, PageIndex, PageIndexer};
use crate::remember::{RememberInput, RememberReceipt, Rememberer};
use crate::services::{NoticeBoard, PkbSearch, Serving, Shared, services};
use crate::snapshot::Snapshot;
use crate::state::SqliteState;
use crate::sync::{differences, read_segment};
use crate::workspace::{Workspace, WriterLock};

pub use self::refresh::RefreshReport;
pub use self::report::{EngineStats, IntegrityReport};
pub use self::work::{EngineProgress, OnProgress};

/// With more changed pages than this a turn does not wait for their vectors.
const EMBEDDED_IN_A_TURN: usize = 16;

/// Whether an assistant is opened for writing.
#[derive(Debug)]
pub enum OpenMode {
    /// As the one writer; the lock is held as long as the store lives.
    ReadWrite(WriterLock),
    /// Beside a writer or without one. Changed pages are found, but nothing is written.
    ReadOnly,
}

/// What an assistant is opened with.
#[derive(Debug)]
pub struct OpenOptions {
    /// Its directory.
    pub workspace: Workspace,
    /// Whether to write.
    pub mode: OpenMode,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Makes identifiers.
    pub ids: Arc<dyn Ids>,
    /// The model; `None` for search by keyword only.
    pub embedder: Option<Arc<dyn Embedder>>,
}

/// One assistant's memory, opened. Cloning shares it.
#[derive(Clone, Debug)]
pub struct AssistantStore {
    engine: Arc<Engine>,
}

#[derive(Debug)]
struct Engine {
    shared: Arc<Shared>,
    indexer: PageIndexer,
    home: IndexHome,
    rememberer: Rememberer,
    /// Held while what changed is taken in; never for long.
    watch: Mutex<Watch>,
    /// The index in use.
    index: ArcSwapOption<LanceIndex>,
    /// Held while rows are made and written.
    indexing: Mutex<()>,
    maintenance_error: std::sync::Mutex<Option<String>>,
    /// Pages whose rows in the index, or whose vectors, are not those of their files.
    waiting: std::sync::Mutex<BTreeSet<Slug>>,
    /// Kept for as long as anything may write.
    _lock: Option<WriterLock>,
}

impl AssistantStore {
    /// Opens an assistant. Fails only when its files or its state cannot be read; everything that is derived is worked
    /// around, and the notices say so.
    pub async fn open(options: OpenOptions) -> StoreResult<(Self, Vec<Notice>)> {
        let OpenOptions {
            workspace,
            mode,
            clock,
            ids,
            embedder,
        } = options;
        let (writable, lock) = match mode {
            OpenMode::ReadWrite(lock) => (true, Some(lock)),
            OpenMode::ReadOnly => (false, None),
        };
        let (path, state_clock) = (workspace.state_path(), clock.clone());
        let state = blocking::run(move || {
            if writable {
                SqliteState::open(&path, &*state_clock)
            } else {
                SqliteState::open_read_only(&path)
            }
        })
        .await?;
        let state = Arc::new(state);
        let files = FilePages::new(workspace.fs().clone(), workspace.concepts_dir());
        let indexer = PageIndexer::new(files.clone(), state.clone(), clock.clone());
        let home = IndexHome::new(workspace.fs().clone(), workspace.index_dir());

        let pages = indexer.refresh(&Arc::default()).await?.index;
        let chosen = choose(&home, embedder.as_deref(), writable).await;
        let notices = NoticeBoard::default();
        chosen
            .notices
            .into_iter()
            .for_each(|notice| notices.post(notice));
        let (snapshot, behind) = completed(&files, &pages, chosen.snapshot).await?;
        let works = (writable && chosen.index.is_some()) || snapshot.dims() > 0;

        let rememberer = Rememberer::new(workspace.clone(), state.clone(), clock.clone(), ids);
        let pkb = PkbSearch::new(
            workspace.fs().clone(),
            workspace.pkb_dir(),
            workspace.index_dir().join("pkb-vectors.json"),
        );
        let shared = Arc::new(Shared {
            workspace,
            state,
            files,
            clock,
            embedder,
            serving: ArcSwap::from_pointee(Serving::new(pages, Arc::new(snapshot))),
            notices,
            pkb,
            writable,
        });
        let engine = Engine {
            shared,
            indexer,
            home,
            rememberer,
            // The first turn looks at everything once more and stamps the folders then.
            watch: Mutex::default(),
            index: ArcSwapOption::new(chosen.index),
            indexing: Mutex::default(),
            maintenance_error: std::sync::Mutex::default(),
            waiting: std::sync::Mutex::new(if works {
                behind.into_iter().collect()
            } else {
                BTreeSet::new()
            }),
            _lock: lock,
        };
        let store = Self {
            engine: Arc::new(engine),
        };
        if writable {
            let replayed = store
                .engine
                .rememberer
                .replay()
                .await
                .map_err(into_store_error)?;
            if replayed > 0 {
                tracing::info!(
                    replayed,
                    "writes that an interruption had left unapplied were applied"
                );
            }
        }
        store.tell_what_waits();
        let notices = store.take_notices();
        Ok((store, notices))
    }

    /// Returns the directory.
    pub fn workspace(&self) -> &Workspace {
        &self.engine.shared.workspace
    }

    /// Returns the state.
    pub fn state(&self) -> &Arc<SqliteState> {
        &self.engine.shared.state
    }

    /// Returns the pages as of the last [`refresh`](Self::refresh).
    pub fn pages(&self) -> Arc<PageIndex> {
        self.engine.shared.serving.load().pages.clone()
    }

    /// Returns the image that searches read.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.engine.shared.serving.load().snapshot.clone()
    }

    /// Returns the model.
    pub fn embedder(&self) -> Option<&Arc<dyn Embedder>> {
        self.engine.shared.embedder.as_ref()
    }

    /// Returns whether this process is the writer.
    pub fn is_writable(&self) -> bool {
        self.engine.shared.writable
    }

    /// Returns the services of a tier: what its row allows and its manifest asked for.
    pub fn services(&self, tier: Tier, asked: &[Capability]) -> Services {
        services(&self.engine.shared, tier, asked)
    }

    /// Returns what was to be told since the last call, each state once.
    pub fn take_notices(&self) -> Vec<Notice> {
        self.engine.shared.notices.take()
    }

    /// Remembers texts: durable when this returns, and read with the buffer from then on.
    pub async fn remember(
        &self,
        input: RememberInput,
        zone: &str,
    ) -> SubstrateResult<RememberReceipt> {
        self.engine.rememberer.remember(input, zone).await
    }

    fn require_writable(&self) -> StoreResult<()> {
        if self.is_writable() {
            Ok(())
        } else {
            Err(StoreError::BadRequest {
                reason: "this assistant was opened for reading only".to_owned(),
            })
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeSet<Slug>> {
        self.engine
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts how many pages wait for the index when no turn will take them along.
    fn tell_what_waits(&self) {
        let waiting = self.waiting().len();
        if waiting > EMBEDDED_IN_A_TURN {
            self.engine.shared.notices.post(notice(
                "index_behind",
                Severity::Info,
                format!("{waiting} pages are found by keyword only until they have been indexed"),
            ));
        } else if waiting == 0 {
            self.engine.shared.notices.resolve("index_behind");
        }
    }
}

/// Returns an image with every page as its file says, and the pages it lacked.
async fn completed(
    files: &FilePages,
    pages: &Arc<PageIndex>,
    snapshot: Snapshot,
) -> StoreResult<(Snapshot, Vec<Slug>)> {
    let behind = differences(pages, &snapshot);
    if behind.is_empty() {
        return Ok((snapshot, behind));
    }
    let wanted = behind
        .iter()
        .filter_map(|slug| pages.get(slug))
        .cloned()
        .collect();
    let (dims, known) = (snapshot.dims(), Arc::new(snapshot));
    let part = read_segment(files, wanted, dims, known.clone()).await?;
    Ok((known.replaced(&behind, part), behind))
}

fn into_store_error(error: crate::error::SubstrateError) -> StoreError {
    match error {
        crate::error::SubstrateError::Store(error) => error,
        error => StoreError::engine("opening the assistant", error),
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
