//! One assistant's memory on this machine, opened: files, state, index and the image that turns read.
//!
//! Opening never waits for a model or a rebuild. Whatever the index lacks is read from the files and found by keyword
//! at once; vectors and rows follow in [`AssistantStore::sync`]. Two locks keep this apart: a short one for taking in
//! what changed, and a long one for the index, which no turn ever waits for.

mod open;
mod reconcile;
mod refresh;
mod report;
mod upkeep;
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
use memory_core::time::Timestamp;
use tokio::sync::Mutex;

use self::open::choose;
pub(crate) use self::open::notice;
use self::watch::Watch;
use crate::blocking;
use crate::error::SubstrateResult;
use crate::evidence::Recorder;
use crate::index::{IndexHome, LanceIndex};
use crate::oplog::{OverlayFs, WriteConflict, WriteContext};
use crate::pages::{FilePages, PageIndex, PageIndexer};
use crate::remember::{ForgetReceipt, RememberInput, RememberReceipt};
use crate::services::{NoticeBoard, PkbSearch, Serving, Shared, services};
use crate::snapshot::Snapshot;
use crate::state::SqliteState;
use crate::sync::{differences, read_segment};
use crate::workspace::{Workspace, WriterLock};
use crate::writer::Writer;

pub use self::reconcile::{OnReconcile, ReconcileProgress, ReconcileReport, ReconcileStep};
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
    /// As the one writer, whose writing side is open already.
    Writer(Writer),
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
    /// Absent when the assistant was opened for reading only. It holds the lock for as long as anything may write.
    writer: Option<Writer>,
    /// Held while what changed is taken in; never for long.
    watch: Mutex<Watch>,
    /// The index in use.
    index: ArcSwapOption<LanceIndex>,
    /// Held while rows are made and written.
    indexing: Mutex<()>,
    /// Held while entries are filed.
    consolidating: Mutex<()>,
    /// Pages whose rows in the index, or whose vectors, are not those of their files.
    waiting: std::sync::Mutex<BTreeSet<Slug>>,
    /// How many were taken out of those and are being indexed.
    in_work: std::sync::atomic::AtomicUsize,
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
        // What is derived is not written by operations, so its files are used as they are.
        let (plain, index_dir) = (workspace.fs().clone(), workspace.index_dir());
        let side = open_side(workspace, mode, clock.clone(), ids).await?;
        let Side {
            workspace,
            state,
            writer,
        } = side;
        let home = IndexHome::new(plain, index_dir, state.clone());
        let writable = writer.is_some();
        let files = writer.as_ref().map_or_else(
            || FilePages::new(workspace.fs().clone(), workspace.concepts_dir()),
            FilePages::of_writer,
        );
        let indexer = PageIndexer::new(files.clone(), state.clone(), clock.clone());

        let pages = indexer.refresh(&Arc::default()).await?.index;
        let chosen = choose(&home, embedder.as_deref(), writable).await;
        let notices = NoticeBoard::default();
        chosen
            .notices
            .into_iter()
            .for_each(|notice| notices.post(notice));
        let (snapshot, behind) = completed(&files, &pages, chosen.snapshot).await?;
        let works = (writable && chosen.index.is_some()) || snapshot.dims() > 0;

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
            writer,
            // The first turn looks at everything once more and stamps the folders then.
            watch: Mutex::default(),
            index: ArcSwapOption::new(chosen.index),
            indexing: Mutex::default(),
            consolidating: Mutex::default(),
            in_work: std::sync::atomic::AtomicUsize::default(),
            waiting: std::sync::Mutex::new(if works {
                behind.into_iter().collect()
            } else {
                BTreeSet::new()
            }),
        };
        let store = Self {
            engine: Arc::new(engine),
        };
        store.tell_what_waits();
        store.tell_what_was_recovered();
        let notices = store.take_notices();
        Ok((store, notices))
    }

    /// Returns the directory.
    pub fn workspace(&self) -> &Workspace {
        &self.engine.shared.workspace
    }

    /// Returns the page files, which may be changed if the assistant was opened for writing.
    pub fn files(&self) -> &FilePages {
        &self.engine.shared.files
    }

    /// Returns the state.
    pub fn state(&self) -> &Arc<SqliteState> {
        &self.engine.shared.state
    }

    /// Returns what records turns as evidence, which only an assistant opened for writing has.
    pub fn recorder(&self) -> StoreResult<&Recorder> {
        Ok(self.writer()?.recorder())
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
        self.writer()?.rememberer().remember(input, zone).await
    }

    /// Remembers texts on somebody's behalf. With a key the same request may be repeated and is kept once.
    pub async fn remember_as(
        &self,
        input: RememberInput,
        zone: &str,
        context: WriteContext,
    ) -> SubstrateResult<RememberReceipt> {
        self.writer()?
            .rememberer()
            .remember_as(input, zone, context)
            .await
    }

    /// Returns the index in use.
    pub(crate) fn current_index(&self) -> Option<Arc<LanceIndex>> {
        self.engine.index.load_full()
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> Timestamp {
        self.engine.shared.clock.now()
    }

    /// Takes an entry out of the buffer and its item's content away, for the owner.
    pub async fn forget(&self, id: &str, context: WriteContext) -> SubstrateResult<ForgetReceipt> {
        self.writer()?.rememberer().forget(id, context).await
    }

    /// Returns the writing side, which only an assistant opened for writing has.
    pub(crate) fn writer(&self) -> StoreResult<&Writer> {
        self.engine.writer.as_ref().ok_or_else(reading_only)
    }

    /// Returns what is held while entries are filed.
    pub(crate) fn consolidating(&self) -> &Mutex<()> {
        &self.engine.consolidating
    }

    /// Tells something, once for each state.
    pub(crate) fn post(&self, notice: Notice) {
        self.engine.shared.notices.post(notice);
    }

    fn require_writable(&self) -> StoreResult<()> {
        self.writer().map(drop)
    }

    /// Posts which acknowledged writes met an edit, and that the disk failed.
    fn tell_what_was_recovered(&self) {
        let Some(writer) = &self.engine.writer else {
            return;
        };
        let notices = &self.engine.shared.notices;
        for conflict in &writer.recovery().conflicts {
            notices.post(notice(
                &format!("write_conflict_{}", conflict.operation),
                Severity::Warning,
                told(conflict),
            ));
        }
        for (name, reason) in &writer.recovery().spool.refused {
            notices.post(notice(
                &format!("note_refused_{name}"),
                Severity::Warning,
                format!("the note `{name}` could not be kept and was moved to `spool/refused` ({reason})"),
            ));
        }
        if let Some(loss) = &writer.recovery().loss {
            notices.post(notice("state_lost", Severity::Error, loss.message()));
        }
        if let Some(refusal) = writer.refusal() {
            notices.post(notice("read_only", Severity::Error, refusal.to_string()));
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeSet<Slug>> {
        self.engine
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many pages are not in the index as they are, those that are being indexed among them.
    fn pages_to_index(&self) -> usize {
        let waiting = self.waiting();
        waiting.len()
            + self
                .engine
                .in_work
                .load(std::sync::atomic::Ordering::Relaxed)
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

/// Files and state of an assistant, opened for writing or reading.
struct Side {
    workspace: Workspace,
    state: Arc<SqliteState>,
    writer: Option<Writer>,
}

async fn open_side(
    workspace: Workspace,
    mode: OpenMode,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
) -> StoreResult<Side> {
    blocking::run(move || {
        let writer = match mode {
            OpenMode::ReadWrite(lock) => Writer::open(&workspace, lock, clock, ids)?,
            OpenMode::Writer(writer) => writer,
            OpenMode::ReadOnly => {
                let state = Arc::new(SqliteState::open_read_only(&workspace.state_path())?);
                let overlay = OverlayFs::stored(
                    workspace.root().to_owned(),
                    workspace.fs().clone(),
                    state.clone(),
                );
                return Ok(Side {
                    workspace: workspace.with_fs(Arc::new(overlay)),
                    state,
                    writer: None,
                });
            }
        };
        Ok(Side {
            workspace: writer.workspace().clone(),
            state: writer.state().clone(),
            writer: Some(writer),
        })
    })
    .await
}

fn reading_only() -> StoreError {
    StoreError::BadRequest {
        reason: "this assistant was opened for reading only".to_owned(),
    }
}

/// Says what became of a write that met an edit.
fn told(conflict: &WriteConflict) -> String {
    match &conflict.copy {
        Some(copy) => format!(
            "`{}` was edited while it was being written: it was left as it is, and the other text is in `{copy}`",
            conflict.path
        ),
        None => format!(
            "`{}` was edited while it was being deleted, so it was kept",
            conflict.path
        ),
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
