//! One assistant, open: what a host talks to.
//!
//! Opening takes the writer's lock and reads the settings, no more. The stores, the snapshot and the tier are opened by
//! the first call that needs them, so that adding a note does not wait for an index and a fault in one of them is a
//! fault of that call. From then on they stay open for as long as the assistant does.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memory_core::services::Notice;
use memory_substrate::assistant::{AssistantStore, EngineProgress, OpenMode, OpenOptions};
use memory_substrate::blocking;
use memory_substrate::ingest::{IngestOptions, IngestReport, IngestSource};
use memory_substrate::remember::{RememberInput, RememberReceipt};
use memory_substrate::sync::{SyncProgress, SyncReport};
use memory_substrate::workspace::{Workspace, WriterLock};
use memory_substrate::writer::Writer;
use tokio::sync::OnceCell;

use crate::doctor::{self, DoctorOptions, DoctorReport, Opened, Subject};
use crate::embedding::{Embedding, Stopwatches};
use crate::error::StrataError;
use crate::incidents::IncidentBook;
use crate::options::StrataOptions;
use crate::plugins::{Plugins, TierDesk};
use crate::settings::{InForce, LiveSettings, SettingsSource};

use self::decide::TurnCounters;

pub(crate) use self::begin::PendingTurn;
pub use self::decide::{AssistantStats, ServedTurns, TierStatus};
pub use self::events::ConversationEvent;

mod begin;
mod call;
mod config;
mod conversation;
mod decide;
mod events;
mod finish;
mod info;
mod plan;
mod reload;
mod repair;

/// What an assistant is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing; one process at a time.
    ReadWrite,
    /// Reading only: nothing is recorded, and a process that writes is not disturbed.
    ReadOnly,
}

/// One assistant, open.
pub struct Assistant {
    options: Arc<StrataOptions>,
    plugins: Arc<Plugins>,
    workspace: Workspace,
    access: Access,
    settings: Arc<LiveSettings>,
    embedding: Embedding,
    /// The writing side as far as it is open; held while it is opened.
    writing: tokio::sync::Mutex<Writing>,
    engine: OnceCell<Engine>,
    served: TurnCounters,
}

/// How far the writing side is open.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "an assistant has one, and it is never moved about"
)]
enum Writing {
    /// Not at all: the assistant is for reading only, or opening failed and let the lock go.
    Closed,
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
            .field("open", &self.engine.initialized())
            .finish_non_exhaustive()
    }
}

impl Assistant {
    /// Opens a workspace that exists. Blocks.
    pub(crate) fn open(
        options: Arc<StrataOptions>,
        plugins: Arc<Plugins>,
        embedding: &Embedding,
        workspace: Workspace,
        access: Access,
    ) -> Result<Self, StrataError> {
        let writing = match access {
            Access::ReadWrite => Writing::Locked(workspace.lock("strata")?),
            Access::ReadOnly => Writing::Closed,
        };
        let mut source = SettingsSource::new(&options, workspace.clone());
        if access == Access::ReadWrite {
            source = source.recording();
        }
        let settings = LiveSettings::open(source)?;
        let embedding = embedding.for_settings(&settings.in_force().config);
        Ok(Self {
            options,
            plugins,
            workspace,
            access,
            settings: Arc::new(settings),
            embedding,
            writing: tokio::sync::Mutex::new(writing),
            engine: OnceCell::new(),
            served: TurnCounters::default(),
        })
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

    /// Adds entries to the buffer and to the archive of the day. They are durable when this returns.
    pub async fn remember(&self, input: RememberInput) -> Result<RememberReceipt, StrataError> {
        self.writable("remember")?;
        let zone = self.look().await?.config.time_zone.clone();
        // A note needs neither the index nor a model.
        let writer = self.writer().await?;
        Ok(writer.rememberer().remember(input, &zone).await?)
    }

    /// Embeds and writes everything that still waits for the index.
    pub async fn sync(
        &self,
        progress: &mut (dyn FnMut(SyncProgress) -> ControlFlow<()> + Send),
    ) -> Result<SyncReport, StrataError> {
        self.writable("bring the index up to date")?;
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
        self.engine
            .get()
            .map_or_else(Vec::new, Engine::take_opening)
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

    /// Returns the writing side, opening it if need be.
    async fn writer(&self) -> Result<Writer, StrataError> {
        let mut writing = self.writing.lock().await;
        let lock = match std::mem::replace(&mut *writing, Writing::Closed) {
            Writing::Open(writer) => {
                *writing = Writing::Open(writer.clone());
                return Ok(writer);
            }
            Writing::Locked(lock) => lock,
            Writing::Closed => self.workspace.lock("strata")?,
        };
        let workspace = self.workspace.clone();
        let (clock, ids) = (
            Arc::clone(&self.options.clock),
            Arc::clone(&self.options.ids),
        );
        let writer = blocking::run(move || {
            Writer::open(&workspace, lock, clock, ids).map_err(StrataError::from)
        })
        .await?;
        *writing = Writing::Open(writer.clone());
        Ok(writer)
    }

    async fn engine(&self) -> Result<&Engine, StrataError> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        self.engine
            .get_or_try_init(|| Box::pin(self.open_engine()))
            .await
    }

    async fn open_engine(&self) -> Result<Engine, StrataError> {
        let mode = match self.access {
            Access::ReadOnly => OpenMode::ReadOnly,
            Access::ReadWrite => OpenMode::Writer(self.writer().await?),
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
        let store = self.store.clone();
        drop(tokio::spawn(async move {
            let _running = running;
            if let Err(error) = store.sync(&mut |_| ControlFlow::Continue(())).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the index could not be brought up to date"
                );
            }
        }));
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
