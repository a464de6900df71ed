//! One run, from the buffer to the record of what it did.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use memory_core::provenance::{Authority, Origin};
use memory_core::schedule::{FailureKind, Failures};
use memory_core::services::Severity;
use memory_core::store::{StoreError, StoreResult};
use memory_core::text::citation::marks;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;
use memory_core::wire::checkpoint;

use super::agent::{Agent, Made, asked};
use super::batch::{Batch, Entry};
use super::check::{self, About, Bench, Keeping};
use super::filing::Filing;
use super::install::{Install, NewText, NewView, changed};
use super::near::{self, Nearness};
use super::report::{
    ConsolidateOptions, FiledEntry, HeldEntry, PageChange, PastRun, RunDoubt, RunOutcome, RunReport,
};
use super::stage::Stage;
use super::{rules, views};
use crate::assistant::{AssistantStore, notice};
use crate::blocking;
use crate::jobs::{Stop, failures};
use crate::oplog::{OperationKind, Plan, Request, WriteContext};
use crate::pages::{LARGEST_PAGE, PageIndex, hash_bytes};
use crate::state::checkpoints;
use crate::state::runs::{self, RunEntry, RunRow};
use crate::sync::{SyncProgress, describe};
use crate::workspace::read_bytes_or_empty;

/// How often a run is made again because somebody was faster.
const MOST_TRIES: u32 = 3;

/// How often a result is made again without what stood in its way.
const MOST_REFUSALS: usize = 8;

impl Outcome {
    /// Makes it that of a run that somebody stopped.
    fn stopped(&mut self) {
        self.install = None;
        self.entries.clear();
        let report = &mut self.report;
        report.outcome = RunOutcome::Failed;
        report.problems = vec!["it was stopped".to_owned()];
        report.filed.clear();
        report.pages.clear();
        report.doubts.clear();
    }
}

/// What decides where entries go.
enum Filer {
    /// The rules, with what is near to each entry.
    Rules(Nearness),
    /// A model of this name, with what it made.
    Model(String, Made),
}

impl Filer {
    const fn name(&self) -> &'static str {
        match self {
            Self::Rules(_) => "rules",
            Self::Model(..) => "model",
        }
    }
}

/// What a run worked out, before any of it is written.
struct Outcome {
    report: RunReport,
    install: Option<Install>,
    entries: Vec<RunEntry>,
}

impl AssistantStore {
    /// Files the oldest entries of the buffer into pages. Either all that the report says has been done when this returns,
    /// or nothing was changed.
    pub async fn consolidate(&self, options: ConsolidateOptions) -> StoreResult<RunReport> {
        self.consolidate_with(options, None, &Stop::default()).await
    }

    /// Does the same with a model that decides where entries go; by rules without one. A run that is stopped changes nothing.
    pub async fn consolidate_with(
        &self,
        options: ConsolidateOptions,
        agent: Option<&Agent>,
        stop: &Stop,
    ) -> StoreResult<RunReport> {
        self.writer()?;
        let Ok(_running) = self.consolidating().try_lock() else {
            return Err(StoreError::Locked {
                holder: "another consolidation is at work; ask again when it has ended".to_owned(),
            });
        };
        let started = self.now();
        let mut again = 0;
        loop {
            let tried = match self.work_out(&options, agent, stop).await {
                Ok(mut worked) => {
                    worked.report.again = again;
                    if options.dry_run {
                        return Ok(worked.report);
                    }
                    if stop.is_set() {
                        worked.stopped();
                    }
                    self.install(&options, started, worked).await
                }
                Err(error) => Err(error),
            };
            match tried {
                Err(StoreError::Conflict { what, .. }) if again + 1 < MOST_TRIES => {
                    again += 1;
                    tracing::info!(
                        what,
                        again,
                        "somebody was faster, a consolidation is made again"
                    );
                }
                Ok(report) => {
                    if !stop.is_set() || report.outcome == RunOutcome::Installed {
                        self.note_run(&report).await;
                    }
                    if report.outcome == RunOutcome::Installed {
                        self.follow(&report, stop).await;
                    }
                    return Ok(report);
                }
                Err(error) => {
                    if !options.dry_run {
                        self.note_failures(Some(FailureKind::Transient)).await;
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Notes how a run ended, because failures make the next one wait. One that left a buffer as it was is a failure too.
    async fn note_run(&self, report: &RunReport) {
        let failed = match report.outcome {
            RunOutcome::Installed => None,
            RunOutcome::Nothing if !self.has_waiting().await => return,
            RunOutcome::Nothing => Some(FailureKind::Transient),
            RunOutcome::Failed => Some(report.fault.unwrap_or(FailureKind::Transient)),
        };
        self.note_failures(failed).await;
    }

    /// Returns whether something stands in the buffer.
    async fn has_waiting(&self) -> bool {
        let workspace = self.workspace().clone();
        let read = blocking::run(move || {
            read_bytes_or_empty(workspace.fs().as_ref(), &workspace.buffer_path())
        });
        !read.await.unwrap_or_default().trim_ascii().is_empty()
    }

    pub(crate) async fn note_failures(&self, failed: Option<FailureKind>) {
        let (state, now) = (Arc::clone(self.state()), self.now());
        let noted = blocking::run(move || {
            state.write_unflushed_blocking(|transaction| {
                let before = failures(transaction)?;
                if failed.is_none() && before.is_none() {
                    return Ok(());
                }
                let text = failed
                    .map(|kind| serde_json::to_string(&Failures::and(before, kind, now)))
                    .transpose()
                    .map_err(|error| StoreError::engine("note a failure", error))?;
                let key = checkpoint::CONSOLIDATE_FAILURE_STATE;
                checkpoints::put(transaction, key, text.as_deref(), now)
            })
        })
        .await;
        if let Err(error) = noted {
            tracing::warn!(%error, "how a consolidation ended could not be noted");
        }
    }

    /// Returns the newest runs, newest first.
    pub async fn runs(&self, limit: u32) -> StoreResult<Vec<PastRun>> {
        let state = Arc::clone(self.state());
        blocking::run(move || {
            let rows = state.read_blocking(|connection| runs::newest(connection, limit))?;
            Ok(rows.into_iter().map(PastRun::of).collect())
        })
        .await
    }

    /// Returns a run; `None` when there was none of this name.
    pub async fn run(&self, id: &str) -> StoreResult<Option<PastRun>> {
        let (state, id) = (Arc::clone(self.state()), id.to_owned());
        blocking::run(move || {
            let row = state.read_blocking(|connection| runs::get(connection, &id))?;
            Ok(row.map(PastRun::of))
        })
        .await
    }

    /// Works a run out on what the files say now.
    async fn work_out(
        &self,
        options: &ConsolidateOptions,
        agent: Option<&Agent>,
        stop: &Stop,
    ) -> StoreResult<Outcome> {
        self.look(true).await?;
        let (index, snapshot) = (self.pages(), self.snapshot());
        let (files, state) = (self.files().clone(), Arc::clone(self.state()));
        let workspace = self.workspace().clone();
        let pages = Arc::clone(&index);
        let most = options.most_entries.map(|most| most as usize);
        let (batch, staged) = blocking::run(move || {
            let path = workspace.buffer_path();
            let buffer = read_bytes_or_empty(workspace.fs().as_ref(), &path)?;
            let batch = state.read_blocking(|connection| Batch::take(connection, &buffer, most))?;
            let staged = if batch.entries.is_empty() {
                Stage::default()
            } else {
                Stage::read(&files, &pages, LARGEST_PAGE)?
            };
            Ok::<_, StoreError>((batch, staged))
        })
        .await?;
        let embedder = self.embedder().map(AsRef::as_ref);
        let nearness = near::look(&batch.entries, embedder, &snapshot, &index).await;
        let staged = Arc::new(staged);
        let plan = match agent {
            Some(agent) => {
                let entries = batch.entries.clone();
                let longest = options.longest_page as usize;
                let asked =
                    asked::ask(agent, stop, entries, nearness, (&staged, &index), longest).await?;
                Filer::Model(agent.client.model().to_owned(), asked)
            }
            None => Filer::Rules(nearness),
        };
        let (options, at) = (options.clone(), self.now());
        let id = self.writer()?.ids().next_id();
        let workspace = self.workspace().clone();
        let state = Arc::clone(self.state());
        blocking::run(move || {
            let work = Work {
                options: &options,
                index: &index,
                stage: &staged,
            };
            let views = views::Files::read(&workspace, &state)?;
            Ok(work.outcome(&batch, plan, views, (id, at)))
        })
        .await
    }

    /// Installs what a run worked out and records it, both in one operation.
    async fn install(
        &self,
        options: &ConsolidateOptions,
        started: Timestamp,
        worked: Outcome,
    ) -> StoreResult<RunReport> {
        let Outcome {
            mut report,
            install,
            entries,
        } = worked;
        let Some(install) = install else {
            if report.outcome == RunOutcome::Failed {
                self.record(options, started, &report).await?;
            }
            return Ok(report);
        };
        let (writer, files) = (self.writer()?.clone(), self.files().clone());
        let (operation, ended) = (writer.ids().next_id(), install.at.max(started));
        report.operation = Some(operation.clone());
        let row = row_of(options, &report, (started, ended))?;
        blocking::run(move || {
            // The order of these two is that of every other write of pages.
            let turn = files.take_turn()?;
            let context = WriteContext::new("consolidation", Origin::UserDirect, Authority::Owner);
            let request = Request {
                kind: OperationKind::Write,
                context,
                hash: hash_bytes(row.id.as_bytes()),
                at: ended,
            };
            let workspace = writer.workspace().clone();
            let Some(buffer) = writer.log().relative(&workspace.buffer_path()) else {
                return Err(changed("memory/buffer.md"));
            };
            let planning = files.clone();
            let taken: usize = writer.log().commit(request, move |connection| {
                let parts = install.plan(connection, &planning, &workspace, &buffer)?;
                views::remember(connection, &install.views)?;
                runs::add(connection, &row, &entries)?;
                Ok(Plan {
                    id: operation,
                    outcome: install.filed.len(),
                    parts,
                })
            })?;
            tracing::debug!(taken, "entries were filed");
            // They are filed for every reader even if a file cannot be written yet.
            if let Err(error) = writer.log().settle() {
                tracing::warn!(%error, "a consolidation is safe but could not be brought into its files");
            }
            drop(turn);
            Ok(report)
        })
        .await
    }

    /// Records a run that changed nothing.
    async fn record(
        &self,
        options: &ConsolidateOptions,
        started: Timestamp,
        report: &RunReport,
    ) -> StoreResult<()> {
        let row = row_of(options, report, (started, self.now().max(started)))?;
        let state = Arc::clone(self.state());
        blocking::run(move || state.write_blocking(|transaction| runs::add(transaction, &row, &[])))
            .await
    }

    /// Takes in what a run has written, so that it is found at once and by meaning. What fails here is made good by the next
    /// turn or sync: the run is done.
    async fn follow(&self, report: &RunReport, stop: &Stop) {
        self.tell_of_doubts(report);
        let mut go_on = |_: SyncProgress| {
            if stop.is_set() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let taken = match self.look(true).await {
            Ok(_) => self.sync(&mut go_on).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            tracing::warn!(
                error = describe(&error),
                "what was filed is not in the index yet"
            );
        }
    }

    fn tell_of_doubts(&self, report: &RunReport) {
        if report.doubts.is_empty() {
            return;
        }
        self.post(notice(
            &format!("run_doubts_{}", report.id),
            Severity::Info,
            format!(
                "{} statements may contradict what pages say; see `strata runs show {}`",
                report.doubts.len(),
                report.id
            ),
        ));
    }
}

fn row_of(
    options: &ConsolidateOptions,
    report: &RunReport,
    (started, ended): (Timestamp, Timestamp),
) -> StoreResult<RunRow> {
    let text =
        serde_json::to_string(report).map_err(|error| StoreError::engine("record a run", error))?;
    Ok(RunRow {
        id: report.id.clone(),
        cause: options.cause.as_str().to_owned(),
        filer: report.filer.clone(),
        started,
        ended,
        outcome: report.outcome.as_str().to_owned(),
        operation: report.operation.clone(),
        report: text,
    })
}

/// What one try works on.
struct Work<'a> {
    options: &'a ConsolidateOptions,
    index: &'a PageIndex,
    stage: &'a Stage,
}

impl Work<'_> {
    fn outcome(
        &self,
        batch: &Batch,
        plan: Filer,
        views: views::Files,
        (id, at): (String, Timestamp),
    ) -> Outcome {
        let mut report = RunReport::new(plan.name());
        report.deferred = batch.deferred;
        report.held = batch
            .held
            .iter()
            .map(|held| HeldEntry {
                entry: held.id.clone(),
                why: held.why.to_owned(),
            })
            .collect();
        let nothing = |report| Outcome {
            report,
            install: None,
            entries: Vec::new(),
        };
        if batch.entries.is_empty() {
            return nothing(report);
        }
        if !self.options.dry_run {
            report.id = id;
        }
        let made = match plan {
            Filer::Rules(nearness) => self.filed(&batch.entries, &nearness, &mut report),
            Filer::Model(model, made) => self.taken_over(&batch.entries, model, made, &mut report),
        };
        let Some((filing, taken)) = made else {
            return nothing(report);
        };
        self.tell(&filing, &mut report);
        if report.filed.is_empty() {
            if !report.problems.is_empty() {
                report.outcome = RunOutcome::Failed;
            }
            return nothing(report);
        }
        report.outcome = RunOutcome::Installed;
        let places: BTreeMap<&str, &Slug> = report
            .filed
            .iter()
            .map(|filed| (filed.entry.as_str(), &filed.page))
            .collect();
        let blocks: BTreeMap<&str, Option<String>> = filing
            .routes
            .iter()
            .map(|route| (route.entry.as_str(), route.block.clone()))
            .collect();
        let relied: BTreeMap<&Slug, &str> = report
            .filed
            .iter()
            .filter(|filed| !filing.pages.contains_key(&filed.page))
            .filter_map(|filed| Some((&filed.page, &*self.stage.pages.get(&filed.page)?.hash)))
            .collect();
        let relied = relied
            .into_iter()
            .map(|(slug, hash)| (slug.clone(), hash.to_owned()))
            .collect();
        let filed: Vec<(Entry, Slug)> = taken
            .iter()
            .filter_map(|entry| {
                let page = places.get(entry.id.as_str())?;
                Some((entry.clone(), (*page).clone()))
            })
            .collect();
        let entries = filed
            .iter()
            .map(|(entry, _)| RunEntry {
                entry: entry.id.clone(),
                text: String::from_utf8_lossy(&entry.bytes).into_owned(),
                block: blocks.get(entry.id.as_str()).cloned().flatten(),
            })
            .collect();
        let views = views.made(self.index, self.stage, &filing, &filed, at);
        report.pages.extend(views.iter().map(|view| PageChange {
            path: view.path.clone(),
            is_new: view.base.is_none(),
            diff: diff(view),
        }));
        let moved = self.moved(&filing, &filed);
        let parents = filing.parents;
        let pages = filing.pages.into_iter().map(|(slug, text)| NewText {
            base: self.stage.pages.get(&slug).map(|page| page.hash.clone()),
            slug,
            text,
        });
        let install = Install {
            run: report.id.clone(),
            pages: pages.collect(),
            views,
            filed,
            relied,
            moved,
            parents,
            at,
        };
        Outcome {
            report,
            install: Some(install),
            entries,
        }
    }

    /// Files entries and looks at the result. What stands in its way stays in the buffer, so that one entry never keeps the
    /// others waiting; `None` when even then the result may not be installed.
    fn filed(
        &self,
        entries: &[Entry],
        nearness: &Nearness,
        report: &mut RunReport,
    ) -> Option<(Filing, Vec<Entry>)> {
        let mut taken: Vec<(usize, Entry)> = entries.iter().cloned().enumerate().collect();
        for _ in 0..MOST_REFUSALS {
            let batch: Vec<Entry> = taken.iter().map(|(_, entry)| entry.clone()).collect();
            let near = |(number, _): &(usize, Entry)| {
                nearness.pages.get(*number).cloned().unwrap_or_default()
            };
            let nearness = Nearness {
                pages: taken.iter().map(near).collect(),
                background: nearness.background.clone(),
            };
            let bench = Bench {
                stage: self.stage,
                index: self.index,
                entries: &batch,
                longest: self.options.longest_page as usize,
                keeping: Keeping::InPlace,
            };
            let filing = rules::by_rules(&bench, &nearness);
            let problems = check::problems(&bench, &filing);
            if problems.is_empty() {
                return Some((filing, batch));
            }
            let stands_in_the_way = |entry: &Entry| {
                let page = filing
                    .routes
                    .iter()
                    .find(|route| route.entry == entry.id)
                    .and_then(|route| route.page.as_ref());
                problems.iter().find(|problem| match &problem.about {
                    About::Entry(id) => *id == entry.id,
                    About::Page(slug) => Some(slug) == page,
                })
            };
            let before = taken.len();
            taken.retain(|(_, entry)| {
                let problem = stands_in_the_way(entry);
                report.held.extend(problem.map(|problem| HeldEntry {
                    entry: entry.id.clone(),
                    why: format!("what was made of it was refused: {}", problem.text),
                }));
                problem.is_none()
            });
            if taken.is_empty() {
                break;
            }
            if taken.len() == before {
                report.problems = problems.into_iter().map(|problem| problem.text).collect();
                report.outcome = RunOutcome::Failed;
                return None;
            }
        }
        None
    }

    /// Takes over what a model made, if it holds.
    fn taken_over(
        &self,
        entries: &[Entry],
        model: String,
        made: Made,
        report: &mut RunReport,
    ) -> Option<(Filing, Vec<Entry>)> {
        report.model = Some(model);
        report.usage = made.usage;
        report.fault = made.fault();
        report.problems = made.faults.iter().map(ToString::to_string).collect();
        let bench = Bench {
            stage: self.stage,
            index: self.index,
            entries,
            longest: self.options.longest_page as usize,
            keeping: Keeping::Anywhere,
        };
        let problems = check::problems(&bench, &made.filing);
        if problems.is_empty() {
            return Some((made.filing, entries.to_vec()));
        }
        let problems = problems.into_iter().map(|problem| problem.text);
        report.problems.extend(problems);
        report.outcome = RunOutcome::Failed;
        None
    }

    /// Returns the items that a page stated before and another one states now: item, old page, new page.
    fn moved(&self, filing: &Filing, filed: &[(Entry, Slug)]) -> Vec<(String, Slug, Slug)> {
        let mut before: BTreeMap<&str, &Slug> = BTreeMap::new();
        for slug in filing.pages.keys() {
            for mark in self
                .stage
                .pages
                .get(slug)
                .into_iter()
                .flat_map(|page| marks(&page.text))
            {
                before.insert(mark.id, slug);
            }
        }
        let mut moved = Vec::new();
        for (slug, text) in &filing.pages {
            for mark in marks(text) {
                let is_new = filed.iter().any(|(entry, _)| entry.id == mark.id);
                match before.get(mark.id) {
                    Some(old) if *old != slug && !is_new => {
                        moved.push((mark.id.to_owned(), (*old).clone(), slug.clone()));
                    }
                    _ => {}
                }
            }
        }
        moved
    }

    fn tell(&self, filing: &Filing, report: &mut RunReport) {
        for route in &filing.routes {
            match &route.page {
                Some(page) => report.filed.push(FiledEntry {
                    entry: route.entry.clone(),
                    page: page.clone(),
                    why: route.why.clone(),
                }),
                None => report.held.push(HeldEntry {
                    entry: route.entry.clone(),
                    why: route.why.clone(),
                }),
            }
        }
        for (slug, text) in &filing.pages {
            let base = self.stage.pages.get(slug).map(|page| page.text.as_str());
            let path = self
                .index
                .get(slug)
                .map_or_else(|| slug.to_relative_path(), |page| page.path.clone());
            report.pages.push(PageChange {
                path: format!("memory/concepts/{path}"),
                is_new: base.is_none(),
                diff: diffy::create_patch(base.unwrap_or_default(), text).to_string(),
            });
        }
        report.doubts = filing
            .doubts
            .iter()
            .map(|doubt| RunDoubt {
                entry: doubt.entry.clone(),
                page: doubt.page.clone(),
                statement: doubt.statement.clone(),
                why: doubt.why.clone(),
            })
            .collect();
    }
}

fn diff(view: &NewView) -> String {
    let base = view.base.as_deref().unwrap_or_default();
    diffy::create_patch(&String::from_utf8_lossy(base), &view.text).to_string()
}
