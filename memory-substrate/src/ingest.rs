//! Taking finished pages in: a folder, a file, a text, a program's manifest, or a whole memory folder.
//!
//! Bytes are copied as they are; only the file's name changes, because it becomes the slug. One bad file costs that file and
//! nothing else. Files are taken in by operations of many at a time, each acknowledged whole by one commit that also
//! records how they came in. Where a page is replaced, the record of lower trust is there while it happens, so that no
//! bytes are ever trusted for the sake of others.

use std::path::PathBuf;
use std::sync::Arc;

use memory_core::env::{Clock, Ids};
use memory_core::provenance::{Authority, Origin, Trust, trust_of};
use memory_core::store::PageOrigin;
use memory_core::text::fault::Fault;
use memory_core::text::slug::Slug;
use serde::{Deserialize, Serialize};

use crate::error::{SubstrateError, SubstrateResult};
use crate::oplog::{OpLog, OperationKind, Part, Plan, Request, WriteConflict, WriteContext};
use crate::pages::FilePages;
use crate::state::{SqliteState, ops, origins};
use crate::workspace::Workspace;
use crate::writer::Writer;

pub use self::manifest::{ManifestPage, parse as parse_manifest};

mod manifest;
mod place;
mod source;
mod views;

/// What to take in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IngestSource {
    /// Every visible markdown file below a folder, such as an Obsidian vault.
    Folder(PathBuf),
    /// One file.
    File(PathBuf),
    /// A text under a name, which is a slug or a title.
    Text {
        /// The name.
        name: String,
        /// The text.
        text: String,
    },
    /// Pages that a program has made and named. Each gets the slug it names, or is invalid.
    Manifest(Vec<ManifestPage>),
    /// A folder laid out like an assistant's `memory`: pages in `concepts/`, views and knowledge base beside it.
    MemoryFolder(PathBuf),
}

impl IngestSource {
    /// Returns the same with paths that do not depend on the folder a process stands in.
    pub fn absolute(self) -> SubstrateResult<Self> {
        let whole = |path: PathBuf| {
            std::path::absolute(&path).map_err(SubstrateError::io("look for", &path))
        };
        Ok(match self {
            Self::Folder(path) => Self::Folder(whole(path)?),
            Self::File(path) => Self::File(whole(path)?),
            Self::MemoryFolder(path) => Self::MemoryFolder(whole(path)?),
            Self::Text { .. } | Self::Manifest(_) => self,
        })
    }
}

/// How to take it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestOptions {
    /// Whether a page that came from the same place with other content is replaced.
    pub overwrite: bool,
    /// Whether to report only what would be done.
    pub dry_run: bool,
    /// How the text got here.
    pub origin: Origin,
    /// With whose authority.
    pub authority: Authority,
}

impl Default for IngestOptions {
    fn default() -> Self {
        Self {
            overwrite: false,
            dry_run: false,
            origin: Origin::UserFile,
            authority: Authority::Owner,
        }
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct IngestProgress<'a> {
    /// Files done.
    pub done: usize,
    /// Files in all.
    pub total: usize,
    /// The file just done.
    pub name: &'a str,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IngestAction {
    /// It was written, or would be.
    Written,
    /// It is there already, byte for byte.
    Unchanged,
    /// Another version of it is there, which was kept.
    SkippedExists,
    /// It could not be taken in.
    Invalid,
}

/// What became of one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedPage {
    /// The page; `None` when it got no name.
    pub slug: Option<Slug>,
    /// The name it had, relative to what was ingested.
    pub original_name: String,
    /// What was done.
    pub action: IngestAction,
    /// What the user should know, one sentence each.
    pub warnings: Vec<String>,
    /// What is wrong with the text, with places.
    pub faults: Vec<Fault>,
    /// Where its frontmatter says that it is from.
    pub source: Option<String>,
    /// The date that its frontmatter says its content is from.
    pub origin_date: Option<String>,
    /// Why it is invalid.
    pub error: Option<String>,
}

/// What became of a view or a file of the knowledge base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedFile {
    /// Its path below `memory`.
    pub path: String,
    /// What was done.
    pub action: IngestAction,
    /// Why it is invalid.
    pub error: Option<String>,
}

/// What became of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestReport {
    /// Every page, in the order of names.
    pub pages: Vec<IngestedPage>,
    /// Views and files of the knowledge base.
    pub files: Vec<PlacedFile>,
    /// Files that were written, or would be.
    pub written: usize,
    /// Files that were there already.
    pub unchanged: usize,
    /// Files of which another version was kept.
    pub skipped: usize,
    /// Files that could not be taken in.
    pub invalid: usize,
    /// Files that are no markdown, and links, which are not followed.
    pub other_files: usize,
    /// Whether nothing was really written.
    pub dry_run: bool,
}

impl IngestedPage {
    fn invalid(original_name: String, error: Option<String>) -> Self {
        Self {
            slug: None,
            original_name,
            action: IngestAction::Invalid,
            warnings: Vec::new(),
            faults: Vec::new(),
            source: None,
            origin_date: None,
            error,
        }
    }
}

impl IngestReport {
    fn count(&mut self) {
        let actions: Vec<IngestAction> = self
            .pages
            .iter()
            .map(|page| page.action)
            .chain(self.files.iter().map(|file| file.action))
            .collect();
        let number = |wanted| actions.iter().filter(|action| **action == wanted).count();
        self.written = number(IngestAction::Written);
        self.unchanged = number(IngestAction::Unchanged);
        self.skipped = number(IngestAction::SkippedExists);
        self.invalid = number(IngestAction::Invalid);
    }
}

/// Most files in one operation.
const MOST_FILES: usize = 200;

/// Most bytes in one operation, which is held in memory and once more in the state database until it is applied.
const MOST_BYTES: usize = 8 << 20;

/// Takes pages in for one assistant. It does not touch the index.
#[derive(Clone, Debug)]
pub struct Ingester {
    workspace: Workspace,
    pages: FilePages,
    state: Arc<SqliteState>,
    log: OpLog,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Ingester {
    /// Returns an ingester for an assistant, over its pages.
    pub fn new(writer: &Writer, pages: FilePages) -> Self {
        Self {
            workspace: writer.workspace().clone(),
            pages,
            state: Arc::clone(writer.state()),
            log: writer.log().clone(),
            clock: Arc::clone(writer.clock()),
            ids: Arc::clone(writer.ids()),
        }
    }

    /// Writes files in one operation and returns which of them met an edit. The caller has the pages' turn.
    fn write(
        &self,
        parts: Vec<Part>,
        options: IngestOptions,
    ) -> SubstrateResult<Vec<WriteConflict>> {
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let request = Request {
            kind: OperationKind::Ingest,
            context: WriteContext::new("ingest", options.origin, options.authority),
            hash: String::new(),
            at: self.clock.now(),
        };
        let id = self.ids.next_id();
        let operation = id.clone();
        self.log.commit(request, move |connection| {
            let meanwhile: Vec<PageOrigin> = parts
                .iter()
                .filter_map(|part| part.origin.as_ref()?.meanwhile().cloned())
                .collect();
            origins::put(connection, &meanwhile)?;
            Ok(Plan {
                id,
                outcome: (),
                parts,
            })
        })?;
        self.log.settle()?;
        Ok(self
            .state
            .read_blocking(|connection| ops::conflicts(connection, &operation))?)
    }

    /// Takes a source in on the calling thread, which may block.
    ///
    /// The same source again changes nothing. An error means that the source or the workspace cannot be used at all;
    /// what is wrong with single files is in the report.
    pub fn run(
        &self,
        source: &IngestSource,
        options: IngestOptions,
        progress: &mut dyn FnMut(IngestProgress<'_>),
    ) -> SubstrateResult<IngestReport> {
        let trust = permitted(options)?;
        let mut found = source::find(source)?;
        let mut report = IngestReport {
            other_files: found.other_files,
            dry_run: options.dry_run,
            ..IngestReport::default()
        };
        let files = std::mem::take(&mut found.files);
        report.pages = place::place(self, files, options, progress)?;
        report.pages.append(&mut found.unusable);
        report
            .pages
            .sort_by(|left, right| left.original_name.cmp(&right.original_name));
        if let IngestSource::MemoryFolder(folder) = source {
            views::place(self, folder, options, trust, &mut report)?;
        }
        report.count();
        Ok(report)
    }
}

/// Returns the trust that ingested text will have, or refuses what may not become a page.
fn permitted(options: IngestOptions) -> SubstrateResult<Trust> {
    match trust_of(options.origin, options.authority) {
        Some(verdict) if verdict.beyond_evidence => Ok(verdict.trust),
        _ => Err(SubstrateError::Refused {
            reason: format!(
                "text of origin `{:?}` under authority `{:?}` may be kept as evidence only",
                options.origin, options.authority
            ),
        }),
    }
}

#[cfg(test)]
mod tests;
