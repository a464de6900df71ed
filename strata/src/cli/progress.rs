//! A progress bar on standard error, or nothing.

use std::ops::ControlFlow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use strata::{EngineProgress, ReconcileProgress, ReconcileStep, SyncProgress};

use super::Session;

/// Draws how far a command has come, on a terminal only.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Returns a progress bar for this session.
    pub(crate) fn new(session: &Session) -> Self {
        let bar = if session.console.progress {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
        } else {
            ProgressBar::hidden()
        };
        let style = ProgressStyle::with_template("{msg:10} {bar:30} {pos}/{len} pages  {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar }
    }

    /// Shows how far reading and indexing have come.
    pub(crate) fn engine(&self, progress: &EngineProgress) -> ControlFlow<()> {
        match progress {
            EngineProgress::Reading { done, total, .. } => self.show("reading", *done, *total),
            EngineProgress::Indexing(progress) => return self.sync(*progress),
            EngineProgress::Repairing(progress) => return self.repair(*progress),
        }
        ControlFlow::Continue(())
    }

    /// Shows how far indexing has come.
    pub(crate) fn sync(&self, progress: SyncProgress) -> ControlFlow<()> {
        self.show("indexing", progress.done, progress.total);
        ControlFlow::Continue(())
    }

    /// Shows how far a repair has come.
    pub(crate) fn repair(&self, progress: ReconcileProgress) -> ControlFlow<()> {
        let what = match progress.step {
            ReconcileStep::Files => "files",
            ReconcileStep::Pages => "pages",
            ReconcileStep::Compare => "comparing",
            ReconcileStep::Index => "indexing",
            ReconcileStep::State => "records",
            ReconcileStep::Verify => "verifying",
        };
        self.show(what, progress.done, progress.total);
        ControlFlow::Continue(())
    }

    fn show(&self, what: &'static str, done: usize, total: usize) {
        self.bar.set_message(what);
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
    }

    /// Takes the bar away.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}
