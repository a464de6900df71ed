//! Consolidation: the entries of the buffer are filed into pages, and nothing is lost on the way.
//!
//! A run takes the oldest entries, has a filer make new texts of the pages, looks at the result itself, and installs it in
//! one operation only if nothing that it read has changed. Whatever else becomes of it, buffer and pages stay as they were.
//! A person who was faster wins: then the run is made again on top of what they did. Every run is recorded with what it
//! changed, and can be taken back.

mod agent;
mod batch;
mod check;
mod filing;
mod install;
mod ledger;
mod near;
mod report;
mod rules;
mod run;
mod stage;
mod undo;
mod views;

pub use self::agent::Agent;
pub use self::report::{
    ConsolidateOptions, FiledEntry, HeldEntry, PageChange, PastRun, RunCause, RunDoubt, RunOutcome,
    RunReport,
};

pub(crate) use self::undo::{take_back, without_entry};
pub(crate) use self::views::restored as view_restored;

#[cfg(test)]
mod tests;
