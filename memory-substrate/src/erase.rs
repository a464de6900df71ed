//! Making a text unrecoverable from an assistant's folder, and proving it.
//!
//! Deleting leaves copies: old versions, logs, free pages of the database, files of the index. So what was asked for is
//! deleted, everything that was made from it is deleted or made again, and then every byte of the folder is searched.
//! What the owner wrote elsewhere in the same words is not touched; it is named, and so is whatever else remains.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use memory_core::item::{
    Actor, Change as ItemChange, Commit, ForgetReason, Operation, OperationKey,
};
use memory_core::provenance::{Authority, Origin};
use memory_core::store::{Expected, IndexStore as _, ItemStore as _, StoreError, StoreResult};
use memory_core::text::buffer;
use memory_core::text::slug::Slug;
use serde::{Deserialize, Serialize};

use crate::assistant::AssistantStore;
use crate::blocking;
use crate::consolidate;
use crate::entries::{content_of, without};
use crate::error::store_io;
use crate::oplog::{Change, OperationKind, Part, Plan, Request, WriteContext};
use crate::pages::{FilePages, hash_bytes};
use crate::remember::forget_record;
use crate::state::{SqliteState, erase as rows, history};
use crate::sync::OnSync;
use crate::workspace::{Workspace, read_bytes_or_empty};
use crate::writer::Writer;

use self::pending::Pending;
pub(crate) use self::scan::Needles;
use self::scan::files_below;

pub(crate) mod pending;
mod scan;

/// What is to be erased.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EraseTarget {
    /// A page, with every version of it that is kept.
    Page(Slug),
    /// An entry of the buffer and the archive, by its identifier.
    Entry(String),
    /// A conversation.
    Conversation(String),
}

impl fmt::Display for EraseTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page(slug) => write!(formatter, "the page `{slug}`"),
            Self::Entry(id) => write!(formatter, "the entry `{id}`"),
            Self::Conversation(id) => write!(formatter, "the conversation `{id}`"),
        }
    }
}

/// What was erased and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EraseReport {
    /// What was removed, a line each.
    pub removed: Vec<String>,
    /// Where the same words still stand, because the owner wrote them there too or because it cannot be written.
    pub remains: Vec<String>,
    /// How many files were searched afterwards. Lines shorter than twelve bytes are not looked for: they stand anywhere.
    pub files: usize,
    /// How many of their bytes.
    pub bytes: u64,
}

impl EraseReport {
    /// Returns whether nothing is left.
    pub const fn is_clean(&self) -> bool {
        self.remains.is_empty()
    }

    fn removed(&mut self, count: usize, what: &str) {
        if count > 0 {
            self.removed.push(format!("{count} {what}"));
        }
    }
}

/// By what copies of something are known.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Trace {
    texts: Vec<String>,
    /// Hashes of its versions.
    versions: Vec<String>,
    /// What stands beside it and nowhere else.
    mark: Option<String>,
}

impl Trace {
    fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.versions.is_empty() && self.mark.is_none()
    }

    fn add(&mut self, more: Self) {
        self.texts.extend(more.texts);
        self.versions.extend(more.versions);
        self.mark = self.mark.take().or(more.mark);
    }
}

/// Returns what an erasure that did not come to its end was to erase.
pub fn interrupted(workspace: &Workspace) -> StoreResult<Option<EraseTarget>> {
    Ok(pending::load(workspace)?.map(|pending| pending.target))
}

impl AssistantStore {
    /// Makes something unrecoverable from this assistant's folder. What lies outside, such as backups, is not reached.
    ///
    /// If it is interrupted, the same again goes on from there; until then nothing else is erased.
    pub async fn erase(
        &self,
        target: EraseTarget,
        progress: &mut OnSync<'_>,
    ) -> StoreResult<EraseReport> {
        let writer = self.writer()?.clone();
        let mut report = EraseReport::default();
        // What others left to be kept comes first, so that it is among what is looked at and not in a file beside.
        let drained = writer.clone();
        blocking::run(move || {
            crate::spool::drain(drained.workspace(), &drained.rememberer())
                .map_err(|error| StoreError::engine("keep notes that were left", error))
                .map(drop)
        })
        .await?;
        let begun = self.begin_erasure(&writer, &target).await?;
        let trace = begun.trace;
        let wanted = Needles::of_lines(trace.texts.iter().map(String::as_str));
        report.remains.extend(not_looked_for(&trace.texts));
        report
            .remains
            .extend(replaced_copies(writer.workspace().root()));
        let mut unfinished = false;
        if begun.taken_out {
            if self.trace_of(&writer, &target).await.is_ok() {
                report.remains.push(format!(
                    "{target}, which was made anew since and is left alone"
                ));
            }
        } else {
            self.take_out(&writer, &target, &mut report).await?;
            unfinished = self.settle_erasure(&writer, &mut report).await?;
            if !unfinished {
                let (workspace, record) = (
                    writer.workspace().clone(),
                    Pending {
                        target: target.clone(),
                        trace: trace.clone(),
                        taken_out: true,
                    },
                );
                blocking::run(move || pending::store(&workspace, &record)).await?;
            }
        }
        self.look(true).await?;

        let place = writer.workspace().clone();
        let (needles, shared) = blocking::run(move || apart(&place, wanted)).await?;
        let needles = Arc::new(needles);
        self.forget_items(&needles, &mut report).await?;
        let (state, of, place) = (
            writer.state().clone(),
            needles.clone(),
            writer.workspace().clone(),
        );
        let (loose, copies) = blocking::run(move || {
            let loose = state.write_blocking(|transaction| rows::loose_rows(transaction, &of))?;
            let copies = remove_copies(&place, &of, &trace)?;
            state.compact()?;
            Ok::<_, StoreError>((loose, copies))
        })
        .await?;
        report.removed(loose, "rows of logs and caches");
        report.removed(copies, "old versions and copies");
        if !matches!(target, EraseTarget::Conversation(_)) {
            let stopped = self.reindex_alone(progress).await?.stopped;
            unfinished |= stopped;
            if stopped {
                report
                    .remains
                    .push("the old index, until the same is erased again".to_owned());
            } else {
                report.removed.push("the index it was in".to_owned());
            }
        }
        report.remains.extend(shared);
        self.search(&needles, &mut report).await?;
        if !matches!(target, EraseTarget::Conversation(_)) {
            for path in self.other_indexes().await? {
                report.remains.push(format!(
                    "`{}`, an index that could not be removed",
                    path.display()
                ));
            }
        }
        if !unfinished {
            blocking::run(move || pending::clear(writer.workspace())).await?;
        }
        Ok(report)
    }

    /// Finds out what must not be found afterwards, and writes it down before anything is deleted.
    async fn begin_erasure(&self, writer: &Writer, target: &EraseTarget) -> StoreResult<Pending> {
        let workspace = writer.workspace().clone();
        let begun = blocking::run(move || pending::load(&workspace)).await?;
        let mut pending = match begun {
            Some(begun) if begun.target == *target && begun.taken_out => return Ok(begun),
            Some(begun) if begun.target == *target => begun,
            Some(begun) => {
                return Err(StoreError::Conflict {
                    what: "what is being erased".to_owned(),
                    expected: format!("{target}"),
                    found: format!(
                        "{}, whose erasure was interrupted: erase that once more first",
                        begun.target
                    ),
                });
            }
            None => Pending {
                target: target.clone(),
                trace: Trace::default(),
                taken_out: false,
            },
        };
        match self.trace_of(writer, target).await {
            Ok(now) => pending.trace.add(now),
            // It was deleted right before the interruption.
            Err(StoreError::NotFound { .. }) if !pending.trace.is_empty() => {}
            Err(error) => return Err(error),
        }
        let workspace = writer.workspace().clone();
        blocking::run(move || {
            pending::store(&workspace, &pending)?;
            Ok(pending)
        })
        .await
    }

    /// Brings what was taken out into its files, and returns whether some of it could not be.
    async fn settle_erasure(&self, writer: &Writer, report: &mut EraseReport) -> StoreResult<bool> {
        let writer = writer.clone();
        let settled = blocking::run(move || writer.log().settle()).await?;
        if settled.left > 0 {
            report.remains.push(format!(
                "{} writes could not be brought into their files yet, and hold it until then: erase it once more",
                settled.left
            ));
        }
        Ok(settled.left > 0)
    }

    /// Returns what must not be found afterwards.
    async fn trace_of(&self, writer: &Writer, target: &EraseTarget) -> StoreResult<Trace> {
        let (writer, target, pages) = (writer.clone(), target.clone(), self.files().clone());
        blocking::run(move || match &target {
            EraseTarget::Page(slug) => {
                let path = pages.place_of(slug)?;
                let paths = writer
                    .state()
                    .read_blocking(|connection| rows::paths_of(connection, &path))?;
                let mut trace = versions(&writer, &paths)?;
                if let Some(page) = pages.read_blocking(slug)? {
                    trace.texts.push(lossy(&page.bytes));
                    trace.versions.push(page.hash);
                }
                if trace.texts.is_empty() {
                    return Err(not_found(&target.to_string()));
                }
                Ok(trace)
            }
            EraseTarget::Entry(id) => {
                let found = entry_files(writer.workspace(), id)?;
                if found.is_empty() {
                    return Err(not_found(&target.to_string()));
                }
                let mut texts = Vec::new();
                for (_, bytes) in &found {
                    let places = buffer::find_entries(bytes, id).into_iter();
                    texts.extend(places.map(|place| content_of(&bytes[place])));
                }
                Ok(Trace {
                    texts,
                    versions: Vec::new(),
                    mark: Some(format!("^m-{id}")),
                })
            }
            EraseTarget::Conversation(id) => {
                let texts = writer
                    .state()
                    .read_blocking(|connection| rows::messages(connection, id))?;
                if texts.is_empty() {
                    return Err(not_found(&target.to_string()));
                }
                Ok(Trace {
                    texts,
                    ..Trace::default()
                })
            }
        })
        .await
    }

    /// Deletes what was asked for.
    async fn take_out(
        &self,
        writer: &Writer,
        target: &EraseTarget,
        report: &mut EraseReport,
    ) -> StoreResult<()> {
        let context = WriteContext::new("erase", Origin::UserDirect, Authority::Owner);
        match target {
            EraseTarget::Page(slug) => {
                let path = self.files().place_of(slug)?;
                match self.files().delete_as(slug, Expected::Any, context).await {
                    // Only old versions of it were left.
                    Ok(()) | Err(StoreError::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
                let (writer, of) = (writer.clone(), slug.clone());
                let known = blocking::run(move || {
                    writer.settle()?;
                    writer.state().write_blocking(|transaction| {
                        let paths = rows::paths_of(transaction, &path)?;
                        rows::page(transaction, &of, &paths)
                    })
                })
                .await?;
                report.removed.push(target.to_string());
                report.removed(known, "records of it");
            }
            EraseTarget::Entry(id) => {
                let (writer, of, pages) = (writer.clone(), id.clone(), self.files().clone());
                blocking::run(move || remove_entry(&writer, &pages, &of, context)).await?;
                report.removed.push(target.to_string());
            }
            EraseTarget::Conversation(id) => {
                let recorder = writer.recorder();
                let rows = recorder.delete_conversation(id, self.now()).await?;
                recorder.settle().await?;
                report.removed.push(target.to_string());
                let count = usize::try_from(rows.total()).unwrap_or(usize::MAX);
                report.removed(count, "rows of it");
            }
        }
        Ok(())
    }

    async fn forget_items(
        &self,
        needles: &Arc<Needles>,
        report: &mut EraseReport,
    ) -> StoreResult<()> {
        let (state, of) = (self.state().clone(), needles.clone());
        let items = blocking::run({
            let state = state.clone();
            move || state.read_blocking(|connection| rows::items_with(connection, &of))
        })
        .await?;
        let mut operations = Vec::new();
        for item in items {
            let Some(now) = state.item_state(&item).await? else {
                continue;
            };
            let key = format!("erase:{item}:{}", now.revision());
            operations.push(Operation {
                key: OperationKey::parse(&key)
                    .map_err(|error| StoreError::engine("name an erasure", error))?,
                item,
                expected: Some(now.revision()),
                change: ItemChange::Forget {
                    reason: ForgetReason::Erased,
                },
                citations: Some(Vec::new()),
            });
        }
        if operations.is_empty() {
            return Ok(());
        }
        report.removed(operations.len(), "items that state it");
        let commit = Commit {
            actor: Actor::Owner("erase".to_owned()),
            at: self.now(),
            expected_head: None,
            operations,
        };
        state
            .commit_items(commit)
            .await
            .map(drop)
            .map_err(StoreError::from)
    }

    /// Searches everything there is.
    async fn search(&self, needles: &Arc<Needles>, report: &mut EraseReport) -> StoreResult<()> {
        if needles.is_empty() {
            return Ok(());
        }
        let (workspace, state, of) = (
            self.workspace().clone(),
            self.state().clone(),
            needles.clone(),
        );
        let (files, bytes, mut remains) =
            blocking::run(move || search_files(&workspace, &state, &of)).await?;
        // The index's files are packed, so its rows are read as they are served.
        if let Some(index) = self.current_index() {
            for row in index.all_rows().await? {
                let texts = [&row.text, &row.title, &row.heading];
                if texts.iter().any(|text| needles.are_in(text.as_bytes())) {
                    remains.push(format!("section `{}` of the index", row.id));
                }
            }
        }
        (report.files, report.bytes) = (files, bytes);
        report.remains.extend(remains);
        Ok(())
    }
}

/// Says so when no line of something is long enough to be told from other text, so that nobody takes it for searched.
fn not_looked_for(texts: &[String]) -> Option<String> {
    let lines = texts.iter().flat_map(|text| text.lines()).map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty()).peekable();
    let is_short = lines.peek().is_some() && lines.all(|line| line.len() < scan::SHORTEST);
    is_short.then(|| {
        format!(
            "its words were not searched for: no line has {} bytes",
            scan::SHORTEST
        )
    })
}

/// Returns the memories that a restore put aside: they are whole copies, and nothing of them is touched.
fn replaced_copies(root: &Path) -> Vec<String> {
    let (Some(folder), Some(id)) = (root.parent(), root.file_name()) else {
        return Vec::new();
    };
    let id = id.to_string_lossy();
    let (replaced, restoring) = (format!("{id}.replaced-"), format!(".restoring-{id}"));
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            return vec![format!(
                "whatever a restore put aside in `{}`, which cannot be listed: {error}",
                folder.display()
            )];
        }
    };
    entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(&replaced) || name.starts_with(&restoring)
        })
        .map(|entry| format!("`{}`, which a restore put aside", entry.path().display()))
        .collect()
}

fn search_files(
    workspace: &Workspace,
    state: &SqliteState,
    needles: &Needles,
) -> StoreResult<(usize, u64, Vec<String>)> {
    let (root, record) = (workspace.root(), pending::path_of(workspace));
    let mut remains = state.read_blocking(|connection| rows::places(connection, needles))?;
    let (mut files, mut bytes) = (0, 0);
    for path in files_below(root).map_err(store_io("list", root))? {
        // It holds what is looked for, and goes when that is done.
        if path == record {
            continue;
        }
        let holds = match needles.are_in_file(&path) {
            Ok(holds) => holds,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(store_io("search", &path)(error)),
        };
        files += 1;
        bytes += std::fs::metadata(&path).map_or(0, |found| found.len());
        if holds {
            let below = path.strip_prefix(root).unwrap_or(&path);
            // A message that stays is in the database's file too, and was named.
            let is_database = below.to_string_lossy().starts_with("state.db");
            if !is_database || remains.is_empty() {
                remains.push(format!("`{}`", below.display()));
            }
        }
    }
    Ok((files, bytes, remains))
}

/// Separates what the owner also wrote elsewhere, which stays, from what must not be found any more. Returns the latter,
/// and where the former stands.
fn apart(workspace: &Workspace, wanted: Needles) -> StoreResult<(Needles, Vec<String>)> {
    let (mut held, mut places) = (Vec::new(), Vec::new());
    for folder in [workspace.memory_dir(), workspace.skills_dir()] {
        for path in files_below(&folder).map_err(store_io("list", &folder))? {
            let bytes = std::fs::read(&path).map_err(store_io("read", &path))?;
            let found = wanted.all_in(&bytes);
            if !found.is_empty() {
                let below = path.strip_prefix(workspace.root()).unwrap_or(&path);
                places.push(format!("the same words in `{}`", below.display()));
                held.extend(found);
            }
        }
    }
    Ok((wanted.without(&held), places))
}

/// Returns the versions of some files that are kept.
fn versions(writer: &Writer, paths: &[String]) -> StoreResult<Trace> {
    let hashes = writer.state().read_blocking(|connection| {
        let mut hashes = Vec::new();
        for path in paths {
            hashes.extend(history::hashes_of(connection, path)?);
        }
        Ok(hashes)
    })?;
    let mut texts = Vec::new();
    for hash in &hashes {
        let kept = writer
            .log()
            .old_version(hash)
            .map_err(|error| StoreError::engine("read old versions", error))?;
        texts.extend(kept.map(|bytes| lossy(&bytes)));
    }
    Ok(Trace {
        texts,
        versions: hashes,
        mark: None,
    })
}

/// Returns the files that have an entry, relative to the assistant's folder.
fn entry_files(workspace: &Workspace, id: &str) -> StoreResult<Vec<(String, Vec<u8>)>> {
    let archive = workspace.archive_dir();
    let mut paths = vec![workspace.buffer_path()];
    paths.extend(files_below(&archive).map_err(store_io("list", &archive))?);
    let mut found = Vec::new();
    for path in paths {
        let bytes = read_bytes_or_empty(workspace.fs().as_ref(), &path)?;
        if !buffer::find_entries(&bytes, id).is_empty() {
            let below = path.strip_prefix(workspace.root()).unwrap_or(&path);
            let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
            found.push((parts.join("/"), bytes));
        }
    }
    Ok(found)
}

/// Takes an entry out of buffer and archive, and out of the pages and views where it was put since.
fn remove_entry(
    writer: &Writer,
    pages: &FilePages,
    id: &str,
    context: WriteContext,
) -> StoreResult<()> {
    writer.settle()?;
    // The order of these two is that of every other write of pages.
    let turn = pages.take_turn()?;
    let request = Request {
        kind: OperationKind::Write,
        context,
        hash: hash_bytes(format!("erase {id}").as_bytes()),
        at: writer.clock().now(),
    };
    let (workspace, operation) = (writer.workspace().clone(), writer.ids().next_id());
    let (ids, at, planning) = ([id.to_owned()], request.at, pages.clone());
    writer.log().commit(request, move |connection| {
        let parts = entry_files(&workspace, &ids[0])?
            .into_iter()
            .map(|(path, base)| Part {
                path,
                change: Change::Write {
                    content: without(&base, |id| ids.iter().any(|entry| entry == id)),
                    base: Some(base),
                    merged: false,
                },
                origin: None,
            });
        let mut parts: Vec<Part> = parts.collect();
        parts.extend(consolidate::without_entry(
            connection, &planning, &workspace, &ids[0],
        )?);
        forget_record(connection, &ids[0], "erase", (ForgetReason::Erased, at))?;
        Ok(Plan {
            id: operation,
            outcome: (),
            parts,
        })
    })?;
    writer.settle()?;
    drop(turn);
    // While the entry stands anywhere its record says who may see it.
    if entry_files(writer.workspace(), id)?.is_empty() {
        let id = id.to_owned();
        writer
            .state()
            .write_blocking(|transaction| history::forget_entry(transaction, &id))?;
    }
    Ok(())
}

/// Removes old versions, notes that were refused, and copies of the database that hold what is to be erased.
fn remove_copies(workspace: &Workspace, needles: &Needles, trace: &Trace) -> StoreResult<usize> {
    let mark = Needles::of(trace.mark.as_deref());
    let root = workspace.root();
    let mut candidates = Vec::new();
    for folder in [
        workspace.blobs_dir(),
        workspace.spool_dir().join(crate::spool::REFUSED),
    ] {
        candidates.extend(files_below(&folder).map_err(store_io("list", &folder))?);
    }
    for entry in workspace.fs().list(root).map_err(store_io("list", root))? {
        let is_copy = |name: &str| name.contains(".backup") || name.contains(".damaged-");
        if entry.name.starts_with("state.db.") && is_copy(&entry.name) {
            candidates.push(root.join(entry.name));
        }
    }
    let mut removed = 0;
    for path in candidates {
        let holds = |texts: &Needles| texts.are_in_file(&path).map_err(store_io("search", &path));
        if is_version(&path, &trace.versions) || holds(needles)? || holds(&mark)? {
            workspace
                .fs()
                .remove(&path)
                .map_err(store_io("remove", &path))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Returns whether a file is the kept version of one of these hashes, whose first letters name its folder.
fn is_version(path: &Path, hashes: &[String]) -> bool {
    let part =
        |path: Option<&std::ffi::OsStr>| path.map(|part| part.to_string_lossy().into_owned());
    let folder = part(path.parent().and_then(Path::file_name));
    let hash = folder
        .zip(part(path.file_name()))
        .map(|(folder, name)| folder + &name);
    hash.is_some_and(|hash| hashes.contains(&hash))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn not_found(what: &str) -> StoreError {
    StoreError::NotFound {
        what: what.to_owned(),
    }
}

#[cfg(test)]
mod tests;
