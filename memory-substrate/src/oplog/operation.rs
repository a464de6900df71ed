//! An operation: what is to be done to which files, on whose behalf.
//!
//! It holds everything that is needed to do it again from nothing, because that is what a crash makes of it: the bytes
//! before, for telling whether somebody else was faster, and the bytes after.

use memory_core::provenance::{Authority, Origin, Trust};
use memory_core::store::PageOrigin;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::state::origins;

/// On whose behalf something is written, and under which key it may be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteContext {
    /// Who writes, such as a surface or an agent.
    pub actor: String,
    /// The session it belongs to, when there is one.
    pub session: Option<String>,
    /// The caller's name for this very request: the same key again returns the first result and writes nothing.
    pub key: Option<String>,
    /// How the text got here.
    pub origin: Origin,
    /// With whose authority.
    pub authority: Authority,
}

impl WriteContext {
    /// Returns the context of an actor that writes text of some origin.
    pub fn new(actor: impl Into<String>, origin: Origin, authority: Authority) -> Self {
        Self {
            actor: actor.into(),
            session: None,
            key: None,
            origin,
            authority,
        }
    }

    /// Returns the same context with a key.
    #[must_use]
    pub fn with_key(self, key: impl Into<String>) -> Self {
        Self {
            key: Some(key.into()),
            ..self
        }
    }

    /// Returns the same context in a session.
    #[must_use]
    pub fn in_session(self, session: impl Into<String>) -> Self {
        Self {
            session: Some(session.into()),
            ..self
        }
    }

    /// Returns the context of the program itself, acting for the owner.
    pub(crate) fn host() -> Self {
        Self::new("strata", Origin::UserDirect, Authority::Owner)
    }
}

/// What kind of request an operation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OperationKind {
    /// Entries were remembered.
    Remember,
    /// A page was written.
    Write,
    /// A page was deleted.
    Delete,
    /// A page was renamed.
    Rename,
    /// Files were ingested.
    Ingest,
    /// An entry was forgotten.
    Forget,
}

/// Who asks for an operation and how to tell the request from others.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) kind: OperationKind,
    pub(crate) context: WriteContext,
    /// Names the request's content.
    pub(crate) hash: String,
    pub(crate) at: Timestamp,
}

/// What a request comes to.
#[derive(Debug)]
pub(crate) struct Plan<T> {
    /// The operation's identifier.
    pub(crate) id: String,
    /// What the caller is told, now and whenever the request is repeated.
    pub(crate) outcome: T,
    pub(crate) parts: Vec<Part>,
}

/// An operation that was committed and is not known to be in all its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) seq: i64,
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    /// What is still to do, with its number.
    pub(crate) parts: Vec<(u32, Part)>,
}

/// What an operation does to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The file, relative to the assistant's folder, with forward slashes.
    pub(crate) path: String,
    pub(crate) change: Change,
    pub(crate) origin: Option<OriginChange>,
}

impl Part {
    /// Returns every path that the part may change.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        let target = match &self.change {
            Change::Rename { to, .. } => Some(to.as_str()),
            _ => None,
        };
        std::iter::once(self.path.as_str()).chain(target)
    }
}

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The whole file is replaced or created.
    Write {
        /// The bytes before; `None` when there was no file.
        base: Option<Vec<u8>>,
        content: Vec<u8>,
        /// Whether the content is already a merge of what was to be written with an edit, which is the base then.
        merged: bool,
    },
    /// Buffer entries are added at the end. The header opens a file that is still empty.
    Append { header: String, content: String },
    /// Buffer entries are taken out, wherever they stand by then. These are their bytes, one after the other.
    Remove { entries: Vec<u8> },
    /// The file goes away.
    Delete { base: Vec<u8> },
    /// The file gets another path.
    Rename { to: String, content: Vec<u8> },
}

/// How the record of a page's origin follows what becomes of its file.
///
/// While it is not known whether the old or the new bytes are there, the record says whatever is trusted less.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OriginChange {
    pub(crate) slug: Slug,
    pub(crate) before: Option<PageOrigin>,
    pub(crate) after: Option<PageOrigin>,
}

impl OriginChange {
    /// Returns the change of a page's record; `None` when there is no record and will be none.
    pub(crate) fn of(
        slug: Slug,
        before: Option<PageOrigin>,
        after: Option<PageOrigin>,
    ) -> Option<Self> {
        (before.is_some() || after.is_some()).then_some(Self {
            slug,
            before,
            after,
        })
    }

    /// Returns the record that holds while either the old or the new bytes may be there.
    pub(crate) fn meanwhile(&self) -> Option<&PageOrigin> {
        less_trusted(self.before.as_ref(), self.after.as_ref())
    }
}

/// Returns the record that is trusted less; the second one if they are equal.
pub(crate) fn less_trusted<'a>(
    first: Option<&'a PageOrigin>,
    second: Option<&'a PageOrigin>,
) -> Option<&'a PageOrigin> {
    let trust = |origin: Option<&PageOrigin>| origin.map_or(Trust::Trusted, origins::trust);
    if trust(first) < trust(second) {
        first
    } else {
        second
    }
}

/// What became of one part of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The file is as the operation wants it.
    Done,
    /// The file was edited meanwhile and has both changes now.
    Merged,
    /// The file was edited meanwhile in the same place: it stays, and what was to be written is in a file beside it.
    Conflict { copy: String },
    /// What was to go away was edited meanwhile, so it stays.
    Kept,
}

/// A write that met an edit which could not be merged with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteConflict {
    /// The operation.
    pub operation: String,
    /// The file that somebody edited meanwhile, relative to the assistant's folder. It was left as it is.
    pub path: String,
    /// Where the text that was to be written is; `None` when the file, or an entry of it, was to go and was kept.
    pub copy: Option<String>,
}
