//! Long-term memory for an AI assistant, as a host embeds it.
//!
//! [`Strata`] is a home folder with its plugins and its model, [`Assistant`] is one memory in it. A turn has three steps:
//! [`Assistant::begin_turn`] chooses blocks, [`Assistant::attached`] says that they really went into the prompt,
//! [`Assistant::end_turn`] hands in the reply. The first of them never fails, because an assistant that has lost its
//! memory for a moment should still answer; what went wrong stands in the injection's notices.
//!
//! Which tier chooses is derived from the settings and asked nowhere else. The settings are looked at whenever a turn
//! begins, so a change holds from the next turn on, and a turn that is running ends with the tier that began it.
//!
//! ```no_run
//! use strata::{Access, InitOptions, Strata, StrataOptions, TurnEnd, TurnInput};
//!
//! # async fn host() -> Result<(), strata::StrataError> {
//! let environment = std::env::vars().collect();
//! let strata = Strata::open(StrataOptions::from_environment(environment, None, None)?)?;
//! strata.init("ada", InitOptions::default()).await?;
//! let assistant = strata.assistant("ada", Access::ReadWrite).await?;
//!
//! let message = "What did we decide about backups?";
//! let injection = assistant.begin_turn(TurnInput::owner("conversation-1", message)).await;
//! let prompt = injection.prompt(message);
//! assistant.attached(&injection).await?;
//! let reply = format!("(what a model answers to {} bytes)", prompt.len());
//! assistant.end_turn(&injection, TurnEnd::reply(reply)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Limitations
//!
//! Calls need a multi-threaded tokio runtime with time and I/O. One process writes to an assistant at a time; others hand
//! it their requests over a local socket, where the system has those. No model is called: nothing is summarised, judged
//! or rewritten.

mod assistant;
mod doctor;
mod embedding;
mod error;
mod ids;
mod incidents;
mod layout;
mod model;
mod options;
mod plugins;
mod settings;
mod socket;
mod strata;
mod turn;
mod zones;

pub use assistant::{
    Access, Assistant, AssistantStats, ConversationEvent, MemoryStatus, ServedTurns, TierStatus,
};
pub use doctor::{Check, DoctorOptions, DoctorReport, Finding};
pub use error::{ErrorKind, RemoteCause, StrataError, cause_chain};
pub use ids::UuidIds;
pub use incidents::{Incident, IncidentKind};
pub use options::{EmbedderChoice, LlmChoice, SocketUse, StrataOptions};
pub use plugins::{
    ALLOW_FILE, KeyTrusted, PluginError, PluginReport, PluginSearch, PluginSource, PluginState,
    Serving, Signed, Trusted, make_signing_key,
};
pub use settings::HOME_FILE;
pub use strata::{InitOptions, Strata};
pub use turn::{
    DroppedBlock, InjectedBlock, InjectedSection, Injection, MAIN_BRANCH, Timings, TurnEnd,
    TurnIds, TurnInput, TurnTrace,
};

// What the calls above take and return.
pub use memory_core::config::{Config, ConfigWarning};
pub use memory_core::job::{Job, JobStatus, Lane};
pub use memory_core::llm::{LlmClient, LlmError};
pub use memory_core::predicates::Tier;
pub use memory_core::provenance::{Authority, Channel, Origin};
pub use memory_core::services::{Notice, Severity};
pub use memory_core::tier::{Explanation, Placement, ShownSection};
pub use memory_core::time::Timestamp;
pub use memory_substrate::assistant::{
    AssistantStore, EngineProgress, EngineStats, IntegrityReport, ReconcileProgress,
    ReconcileReport, ReconcileStep,
};
pub use memory_substrate::backup::{BackupReport, RestoreOptions, Restored};
pub use memory_substrate::consolidate::{
    FiledEntry, HeldEntry, PageChange, PastRun, RunCause, RunDoubt, RunOutcome, RunReport,
};
pub use memory_substrate::erase::{EraseReport, EraseTarget};
pub use memory_substrate::ingest::{
    IngestAction, IngestOptions, IngestReport, IngestSource, IngestedPage, ManifestPage,
    PlacedFile, parse_manifest,
};
pub use memory_substrate::jobs::JobCounts;
pub use memory_substrate::pages::{LongPage, PageFault, PagesReport, UnresolvedLink};
pub use memory_substrate::remember::{ForgetReceipt, RememberInput, RememberReceipt};
pub use memory_substrate::screen::{Finding as ScreenFinding, FindingClass};
pub use memory_substrate::state::PastOperation;
pub use memory_substrate::sync::{SyncProgress, SyncReport};
pub use memory_substrate::undo::UndoReport;
pub use plugin_host::{BuildMetrics, Metrics, SlotMetrics, Trust};
