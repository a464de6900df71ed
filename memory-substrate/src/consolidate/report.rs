//! What is told of a run, when it ends and whenever it is asked for later.

use memory_core::llm::Usage;
use memory_core::schedule::FailureKind;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::state::runs::RunRow;

/// What a run is made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsolidateOptions {
    /// What starts it.
    pub cause: RunCause,
    /// Whether to say what would be done and to do nothing.
    pub dry_run: bool,
    /// Entries it takes; all without a value.
    pub most_entries: Option<u32>,
    /// Characters that a page's text has at most.
    pub longest_page: u32,
}

/// What starts a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunCause {
    /// Somebody asked for it.
    Manual,
    /// Its time had come, or the buffer was full.
    Automatic,
    /// Somebody saved something.
    Remember,
}

impl RunCause {
    /// Returns the name as it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Automatic => "automatic",
            Self::Remember => "remember",
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Entries were filed.
    Installed,
    /// There was nothing that could be filed.
    Nothing,
    /// It failed, and nothing was changed.
    Failed,
}

impl RunOutcome {
    /// Returns the name as it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Nothing => "nothing",
            Self::Failed => "failed",
        }
    }
}

/// Where an entry was filed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiledEntry {
    /// The entry.
    pub entry: String,
    /// The page that states it now.
    pub page: Slug,
    /// Why there.
    pub why: String,
}

/// An entry that stays in the buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldEntry {
    /// The entry; its first words when it has no id.
    pub entry: String,
    /// Why.
    pub why: String,
}

/// What a run changed in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageChange {
    /// The file, relative to the assistant's folder.
    pub path: String,
    /// Whether it is new.
    pub is_new: bool,
    /// The change, in the unified format.
    pub diff: String,
}

/// Two statements that may not both be so. Nobody decides that but a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunDoubt {
    /// The entry.
    pub entry: String,
    /// The page that says something else.
    pub page: Slug,
    /// What it says.
    pub statement: String,
    /// Why they may not both be so.
    pub why: String,
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    /// Its identifier; empty for one that was only tried.
    pub id: String,
    /// How it ended.
    pub outcome: RunOutcome,
    /// What decided where entries go: `rules` or `model`.
    pub filer: String,
    /// Which model that was.
    #[serde(default)]
    pub model: Option<String>,
    /// What the model cost.
    #[serde(default)]
    pub usage: Usage,
    /// Of which kind a failure is.
    #[serde(default)]
    pub fault: Option<FailureKind>,
    /// The operation by which it is taken back.
    pub operation: Option<String>,
    /// The entries that were filed.
    pub filed: Vec<FiledEntry>,
    /// The entries that stay in the buffer.
    pub held: Vec<HeldEntry>,
    /// How many more wait for the next run.
    pub deferred: usize,
    /// The files that were changed.
    pub pages: Vec<PageChange>,
    /// What a person has to decide.
    pub doubts: Vec<RunDoubt>,
    /// Why it failed.
    pub problems: Vec<String>,
    /// How often it was made again because somebody was faster.
    pub again: u32,
}

impl RunReport {
    pub(super) fn new(filer: &str) -> Self {
        Self {
            id: String::new(),
            outcome: RunOutcome::Nothing,
            filer: filer.to_owned(),
            model: None,
            usage: Usage::default(),
            fault: None,
            operation: None,
            filed: Vec::new(),
            held: Vec::new(),
            deferred: 0,
            pages: Vec::new(),
            doubts: Vec::new(),
            problems: Vec::new(),
            again: 0,
        }
    }
}

/// A run that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRun {
    /// Its identifier.
    pub id: String,
    /// What started it.
    pub cause: String,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// What it did.
    pub report: RunReport,
}

impl PastRun {
    /// A record that cannot be read hides no other: what it did stands in the history all the same.
    pub(super) fn of(row: RunRow) -> Self {
        let report = serde_json::from_str(&row.report).unwrap_or_else(|error| RunReport {
            id: row.id.clone(),
            outcome: if row.operation.is_some() {
                RunOutcome::Installed
            } else {
                RunOutcome::Failed
            },
            operation: row.operation.clone(),
            problems: vec![format!("the record of this run cannot be read: {error}")],
            ..RunReport::new(&row.filer)
        });
        Self {
            id: row.id,
            cause: row.cause,
            started: row.started,
            ended: row.ended,
            report,
        }
    }
}
