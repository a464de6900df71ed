//! What a filer made of a batch: new texts of pages, and where each entry is.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::text::slug::Slug;

/// Where one entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// The entry.
    pub(super) entry: String,
    /// The page that states it; `None` when it stays in the buffer.
    pub(super) page: Option<Slug>,
    /// Why there, in a few words.
    pub(super) why: String,
    /// What was put there for it; nothing when only its mark was.
    pub(super) block: Option<String>,
}

/// Two statements that may not both be so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    /// The entry.
    pub(super) entry: String,
    /// The page that says something else.
    pub(super) page: Slug,
    /// What it says.
    pub(super) statement: String,
    /// Why they may not both be so.
    pub(super) why: String,
}

/// The result of a filer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filing {
    /// New and changed pages, each as a whole.
    pub(super) pages: BTreeMap<Slug, String>,
    /// One route for each entry.
    pub(super) routes: Vec<Route>,
    /// What a person has to decide.
    pub(super) doubts: Vec<Doubt>,
    /// For each new page those from which its text may come, beside what was filed there.
    pub(super) parents: BTreeMap<Slug, BTreeSet<Slug>>,
}
