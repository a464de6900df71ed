//! One assistant, open: what a host talks to.
//!
//! Opening takes the writer's lock and reads the settings, no more; where another process has the lock, it opens a
//! connection to that one instead, and what writes is done there from then on. The stores, the snapshot and the tier are opened by
//! the first call that needs them, so that adding a note does not wait for an index and a fault in one of them is a
//! fault of that call. From then on they stay open for as long as the assistant does.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use memory_core::provenance::{Authority, Origin};
use memory_core::services::Notice;
use memory_core::store::StoreError;
use memory_substrate::assistant::{AssistantStore, EngineProgress, OpenMode, OpenOptions};
use memory_substrate::blocking;
use memory_substrate::ingest::{IngestOptions, IngestReport, IngestSource};
use memory_substrate::jobs::Worker;
use memory_substrate::oplog::WriteContext;
use memory_substrate::remember::ForgetReceipt;
use memory_substrate::sync::{SyncProgress, SyncReport};
use memory_substrate::workspace::{Workspace, WriterLock};
use memory_substrate::writer::Writer;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use crate::doctor::{self, DoctorOptions, DoctorReport, Opened, Subject};
use crate::embedding::{Embedding, Stopwatches};
use crate::error::StrataError;
use crate::incidents::IncidentBook;
use crate::model::LiveModel;
use crate::options::StrataOptions;
use crate::plugins::{Plugins, TierDesk};
use crate::settings::{InForce, LiveSettings, SettingsSource};
use crate::socket::{Client, Door, Operation};

use self::beside::{Request, go_on};
use self::decide::TurnCounters;
use self::route::Acquired;

pub(crate) use self::begin::PendingTurn;
pub use self::decide::{AssistantStats, ServedTurns, TierStatus};
pub use self::events::ConversationEvent;
pub use self::work::MemoryStatus;

mod begin;
mod beside;
mod call;
mod config;
mod consolidate;
mod conversation;
mod decide;
mod events;
mod finish;
mod guest;
mod info;
pub(crate) mod keep;
mod plan;
mod reload;
mod repair;
mod route;
mod work;

/// What an assistant is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing. One process at a time writes; another one hands it what is to be written, if it can.
    ReadWrite,
    /// Reading only: nothing is recorded, and a process that writes is not disturbed.
    ReadOnly,
}

/// One assistant, open.
pub struct Assistant {
    /// Where other processes hand in what they want written. First, because it is closed before anything else is let go.
    door: Doorway,
    options: Arc<StrataOptions>,
    plugins: Arc<Plugins>,
    workspace: Workspace,
    access: Access,
    settings: Arc<LiveSettings>,
    embedding: Embedding,
    model: Arc<LiveModel>,
    /// The writing side as far as it is open; held while it is opened.
    writing: Arc<tokio::sync::Mutex<Writing>>,
    /// Whether the writing side is this process's.
    here: Arc<AtomicBool>,
    engine: Arc<OnceCell<Engine>>,
    /// What is read with while another process writes.
    reading: Arc<OnceCell<Engine>>,
    served: Arc<TurnCounters>,
}

/// The socket, and whose it is.
#[derive(Debug)]
enum Doorway {
    /// The host's own, which ends with it.
    Own(Arc<Door>),
    /// That of the host whom a request of another process is about.
    Of(Weak<Door>),
}

impl Doorway {
    /// Returns the door, unless the host has let go of it.
    fn get(&self) -> Option<Arc<Door>> {
        match self {
            Self::Own(door) => Some(Arc::clone(door)),
            Self::Of(door) => door.upgrade(),
        }
    }

    fn weak(&self) -> Weak<Door> {
        match self {
            Self::Own(door) => Arc::downgrade(door),
            Self::Of(door) => Weak::clone(door),
        }
    }
}

impl Drop for Doorway {
    fn drop(&mut self) {
        // A request that is being answered may hold the door a moment longer.
        if let Self::Own(door) = self {
            door.shut();
        }
    }
}

/// How far the writing side is open.
#[derive(Debug)]
enum Writing {
    /// Not at all: the assistant is for reading only, or opening failed and let the lock go.
    Closed,
    /// Another process writes, and takes requests.
    Elsewhere(Arc<Client>),
    /// The lock is taken.
    Locked(WriterLock),
    /// Operations can be written.
    Open(Writer),
}

/// What the first call that needs it opens.
#[derive(Debug)]
struct Engine {
    store: AssistantStore,
    desk: TierDesk,
    stopwatches: Stopwatches,
    /// What opening had to say; the next turn passes it on.
    opening: Mutex<Vec<Notice>>,
    syncing: Arc<AtomicBool>,
    /// What brings the index up to date beside the turns, and whether it is to stop.
    background: Mutex<Option<JoinHandle<()>>>,
    stopping: Arc<AtomicBool>,
    /// What does the jobs, once somebody has asked for that.
    worker: std::sync::OnceLock<Worker>,
    /// Held while it is decided what serves a turn.
    deciding: Mutex<()>,
    incidents: IncidentBook,
}

impl fmt::Debug for Assistant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Assistant")
            .field("workspace", &self.workspace)
            .field("access", &self.access)
            .field("open", &self.opened().is_some())
            .finish_non_exhaustive()
    }
}

impl Assistant {
    /// Opens a workspace that exists.
    pub(crate) async fn open(
        options: Arc<StrataOptions>,
        plugins: Arc<Plugins>,
        embedding: &Embedding,
        workspace: Workspace,
        access: Access,
    ) -> Result<Self, StrataError> {
        let acquired = match access {
            Access::ReadWrite => {
                let patience = options.write_patience;
                Some(Box::pin(Acquired::within(patience, &options, &workspace)).await?)
            }
            Access::ReadOnly => None,
        };
        let mut source = SettingsSource::new(&options, workspace.clone());
        if access == Access::ReadWrite {
            source = source.recording();
        }
        let settings = blocking::run(move || LiveSettings::open(source)).await?;
        let embedding = embedding.for_settings(&settings.in_force().config);
        let assistant = Self {
            door: Doorway::Own(Arc::default()),
            model: Arc::new(LiveModel::new(&options)),
            options,
            plugins,
            workspace,
            access,
            settings: Arc::new(settings),
            embedding,
            writing: Arc::new(tokio::sync::Mutex::new(Writing::Closed)),
            here: Arc::default(),
            engine: Arc::default(),
            reading: Arc::default(),
            served: Arc::default(),
        };
        if let Some(acquired) = acquired {
            let mut writing = assistant.writing.lock().await;
            assistant.take(&mut writing, acquired).await?;
        }
        Ok(assistant)
    }

    /// Finishes what other processes have handed in and lets the assistant go.
    ///
    /// Dropping it does the same without waiting: requests that were accepted go on beside the host, as long as its
    /// runtime does.
    pub async fn close(self) {
        if let Some(door) = self.door.get() {
            door.close().await;
        }
        if let Some(engine) = self.engine.get() {
            engine.finish().await;
        }
    }

    /// Returns the assistant's folder.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Returns what the assistant was opened for.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns the stores, opening them if need be. For programs that measure or check the parts.
    pub async fn store(&self) -> Result<&AssistantStore, StrataError> {
        Ok(&self.engine().await?.store)
    }

    /// Opens everything a turn needs, the model included, so that the first turn does not wait for it.
    pub async fn warm(&self) -> Result<(), StrataError> {
        self.look().await?;
        self.embedding.warm();
        let engine = self.engine().await?;
        // A damaged or unfinished index is made again while words are found already, whether or not a turn comes.
        if engine.store.refresh().await?.waiting > 0 {
            engine.sync_in_background();
        }
        drop(self.decide(engine).await);
        Ok(())
    }

    /// Writes notes into the workspace and indexes them. A break of the progress function stops after the page at hand;
    /// the same call again goes on. [`StrataError::NotIndexed`] says what was written although the index could not follow.
    pub async fn ingest(
        &self,
        source: IngestSource,
        options: IngestOptions,
        progress: &mut (dyn FnMut(EngineProgress) -> ControlFlow<()> + Send),
    ) -> Result<(IngestReport, SyncReport), StrataError> {
        self.writable("ingest")?;
        // The process that writes may stand in another folder.
        let source = source.absolute()?;
        if let Some(done) = self.ingest_there(&source, options, progress).await? {
            return Ok(done);
        }
        self.embedding.warm();
        let engine = self.engine().await?;
        let ingesting = engine.store.ingest_and_index(source, options, progress);
        let (report, indexed) = ingesting.await?;
        let fault = match indexed {
            Err(error) => error.into(),
            Ok(_) if !report.dry_run && !engine.has_index().await? => engine.why_no_index().into(),
            Ok(indexed) => return Ok((report, indexed)),
        };
        Err(StrataError::NotIndexed {
            report: Box::new(report),
            source: fault,
        })
    }

    /// Takes one entry out of the buffer, byte for byte, and the content of its item away. The archive of the day, which is
    /// the record of what was said, keeps it.
    ///
    /// Doing it again changes nothing. An entry that a person edited is left alone with its item, and that is an error.
    pub async fn forget(&self, id: &str) -> Result<ForgetReceipt, StrataError> {
        self.writable("forget")?;
        let request = Request::repeatable("forget", Operation::Forget);
        if let Some(receipt) = self.hand_over(request, &id, &mut go_on).await? {
            return Ok(receipt);
        }
        let context = WriteContext::new("strata", Origin::UserDirect, Authority::Owner);
        let writer = self.writer().await?;
        Ok(writer.rememberer().forget(id, context).await?)
    }

    /// Embeds and writes everything that still waits for the index.
    pub async fn sync(
        &self,
        progress: &mut (dyn FnMut(SyncProgress) -> ControlFlow<()> + Send),
    ) -> Result<SyncReport, StrataError> {
        self.writable("bring the index up to date")?;
        if let Some(report) = self.index_there(Operation::Sync, progress).await? {
            return Ok(report);
        }
        self.embedding.warm();
        let store = &self.engine().await?.store;
        store.refresh().await?;
        Ok(store.sync(progress).await?)
    }

    /// Rebuilds the index from the pages beside the one in use, and switches to it when it is complete.
    pub async fn reindex(
        &self,
        progress: &mut (dyn FnMut(SyncProgress) -> ControlFlow<()> + Send),
    ) -> Result<SyncReport, StrataError> {
        self.writable("rebuild the index")?;
        if let Some(report) = self.index_there(Operation::Reindex, progress).await? {
            return Ok(report);
        }
        self.embedding.warm();
        Ok(self.engine().await?.store.reindex(progress).await?)
    }

    /// Checks everything about this assistant, with what really serves in this process, and repairs nothing.
    pub async fn doctor(&self, options: DoctorOptions) -> Result<DoctorReport, StrataError> {
        let subject = Subject {
            options: &self.options,
            plugins: &self.plugins,
            opened: Opened::Serving(self),
        };
        doctor::examine(subject, self.workspace.id().as_str(), options).await
    }

    /// Returns what opening the stores had to say, once; nothing while they are not open.
    pub(crate) fn take_opening(&self) -> Vec<Notice> {
        self.opened().map_or_else(Vec::new, Engine::take_opening)
    }

    /// Looks at the settings again.
    async fn look(&self) -> Result<InForce, StrataError> {
        let settings = Arc::clone(&self.settings);
        blocking::run(move || Ok(settings.look())).await
    }

    /// Returns an error unless the assistant was opened for writing.
    fn writable(&self, action: &'static str) -> Result<(), StrataError> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(StrataError::ReadOnly { action }),
        }
    }

    /// Returns the writing side, opening it if need be. Whoever asks has found that it is here.
    async fn writer(&self) -> Result<Writer, StrataError> {
        let mut writing = self.writing.lock().await;
        let lock = match std::mem::replace(&mut *writing, Writing::Closed) {
            Writing::Open(writer) => {
                *writing = Writing::Open(writer.clone());
                return Ok(writer);
            }
            Writing::Locked(lock) => lock,
            other => {
                *writing = other;
                let holder = "the lock was let go meanwhile: try again".to_owned();
                return Err(StoreError::Locked { holder }.into());
            }
        };
        // Unless it succeeds, the lock is gone with the attempt.
        self.here.store(false, Ordering::Release);
        let workspace = self.workspace.clone();
        let (clock, ids) = (
            Arc::clone(&self.options.clock),
            Arc::clone(&self.options.ids),
        );
        let opened = blocking::run(move || {
            Writer::open(&workspace, lock, clock, ids).map_err(StrataError::from)
        });
        let writer = match opened.await {
            Ok(writer) => writer,
            Err(error) => {
                // Whoever asks here would ask somebody who cannot write.
                if let Some(door) = self.door.get() {
                    door.shut();
                }
                return Err(error);
            }
        };
        *writing = Writing::Open(writer.clone());
        self.here.store(true, Ordering::Release);
        Ok(writer)
    }

    /// Returns what is open of the stores.
    fn opened(&self) -> Option<&Engine> {
        self.stores().get()
    }

    /// Returns the place of the stores: those that write where this process does.
    fn stores(&self) -> &OnceCell<Engine> {
        if self.here.load(Ordering::Acquire) {
            &self.engine
        } else {
            &self.reading
        }
    }

    async fn engine(&self) -> Result<&Engine, StrataError> {
        if self.access == Access::ReadWrite && !self.here.load(Ordering::Acquire) {
            // Perhaps nobody else writes any more.
            drop(self.route(Duration::ZERO).await);
        }
        let here = self.here.load(Ordering::Acquire);
        let stores = if here { &self.engine } else { &self.reading };
        if let Some(engine) = stores.get() {
            return Ok(engine);
        }
        stores
            .get_or_try_init(|| Box::pin(self.open_engine(here)))
            .await
    }

    async fn open_engine(&self, here: bool) -> Result<Engine, StrataError> {
        let mode = if here {
            OpenMode::Writer(self.writer().await?)
        } else {
            OpenMode::ReadOnly
        };
        let (store, mut opening) = AssistantStore::open(OpenOptions {
            workspace: self.workspace.clone(),
            mode,
            clock: Arc::clone(&self.options.clock),
            ids: Arc::clone(&self.options.ids),
            embedder: self.embedding.embedder.clone(),
        })
        .await?;
        opening.extend(self.embedding.missing.clone());
        Ok(Engine {
            desk: self.plugins.desk(self.workspace.id().as_str()),
            stopwatches: Stopwatches::default(),
            store,
            opening: Mutex::new(opening),
            syncing: Arc::new(AtomicBool::new(false)),
            background: Mutex::default(),
            stopping: Arc::default(),
            worker: std::sync::OnceLock::new(),
            deciding: Mutex::default(),
            incidents: IncidentBook::default(),
        })
    }
}

impl Engine {
    /// Returns whether there is an index, or nothing that could be in one.
    async fn has_index(&self) -> Result<bool, StrataError> {
        let stats = self.store.stats().await?;
        Ok(stats.index.is_some() || stats.pages == 0)
    }

    /// Returns why there is no index, as far as opening the stores told.
    fn why_no_index(&self) -> String {
        let opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let told = opening
            .iter()
            .find(|notice| notice.code.starts_with("index_"));
        told.map_or_else(
            || "there is no index of the model in use".to_owned(),
            |notice| notice.message.clone(),
        )
    }

    /// Returns what opening had to say, once.
    fn take_opening(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.opening.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Brings the index up to date beside the turns, one run at a time.
    fn sync_in_background(&self) {
        if !self.store.is_writable() {
            return;
        }
        let Some(running) = Running::start(&self.syncing) else {
            return;
        };
        let (store, stopping) = (self.store.clone(), Arc::clone(&self.stopping));
        let work = tokio::spawn(async move {
            let _running = running;
            let go_on = &mut |_| {
                if stopping.load(Ordering::Relaxed) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            if let Err(error) = store.sync(go_on).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the index could not be brought up to date"
                );
            }
        });
        *self
            .background
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(work);
    }

    /// Stops what goes on beside the turns and waits for its end: it holds the lock. The next to open goes on with it.
    async fn finish(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.get() {
            worker.close().await;
        }
        let work = self
            .background
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(work) = work
            && let Err(error) = work.await
        {
            tracing::warn!(%error, "work on the index did not end in order");
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

/// Says that a run is going on, until it is dropped: a run that panics has ended too.
#[derive(Debug)]
struct Running(Arc<AtomicBool>);

impl Running {
    /// Returns nothing when a run is going on already.
    fn start(flag: &Arc<AtomicBool>) -> Option<Self> {
        (!flag.swap(true, Ordering::SeqCst)).then(|| Self(Arc::clone(flag)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_that_panics_does_not_keep_the_next_from_starting() {
        let flag = Arc::default();
        let running = Running::start(&flag).unwrap();
        assert!(Running::start(&flag).is_none());
        let run = tokio::spawn(async move {
            let _running = running;
            panic!("as a damaged index may make it");
        });
        assert!(run.await.is_err());
        assert!(Running::start(&flag).is_some());
    }
}
