//! What a person may want to mend in their pages, in one look. Nothing is changed, and no tier has to be on for it.

use memory_core::store::StoreResult;
use memory_core::text::citation::without_marks;
use memory_core::text::frontmatter::Frontmatter;
use memory_core::text::links::Dangling;
use memory_core::text::slug::Slug;
use serde::Serialize;

use super::{FilePages, PageIndex};

/// What is wrong with pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PagesReport {
    /// How many pages there are.
    pub pages: usize,
    /// How many links lead from one to another.
    pub links: usize,
    /// Links that lead nowhere.
    pub dangling: Vec<UnresolvedLink>,
    /// Links that may mean several pages, and therefore lead nowhere.
    pub ambiguous: Vec<UnresolvedLink>,
    /// Pages whose text is longer than the settings say a page should be.
    pub oversized: Vec<LongPage>,
    /// Places that could not be understood as they were meant. The page is there all the same.
    pub faults: Vec<PageFault>,
    /// Files that could not be read, with the reason.
    pub unreadable: Vec<(String, String)>,
}

/// A link that does not lead to a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnresolvedLink {
    /// The page it stands in.
    pub from: Slug,
    /// What it says.
    pub target: String,
    /// The pages it may mean.
    pub candidates: Vec<Slug>,
}

/// A page that is longer than it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LongPage {
    /// The page.
    pub slug: Slug,
    /// Characters of its text, frontmatter not counted.
    pub characters: usize,
}

/// A place in a page that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageFault {
    /// The file, below the folder of pages.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong with it and what that means.
    pub message: String,
}

impl PagesReport {
    /// Returns whether there is nothing to mend.
    pub fn is_clean(&self) -> bool {
        self.dangling.is_empty()
            && self.ambiguous.is_empty()
            && self.oversized.is_empty()
            && self.faults.is_empty()
            && self.unreadable.is_empty()
    }
}

/// Looks at every page. `longest` is how many characters a page should have at most. It blocks.
pub(crate) fn validate(
    files: &FilePages,
    index: &PageIndex,
    longest: usize,
) -> StoreResult<PagesReport> {
    let unresolved = |links: &[Dangling]| -> Vec<UnresolvedLink> {
        links
            .iter()
            .map(|link| UnresolvedLink {
                from: link.from.clone(),
                target: link.target.clone(),
                candidates: link.candidates.clone(),
            })
            .collect()
    };
    let mut report = PagesReport {
        pages: index.len(),
        dangling: unresolved(index.dangling()),
        ambiguous: unresolved(index.ambiguous()),
        unreadable: index.unreadable().to_vec(),
        ..PagesReport::default()
    };
    for page in index.pages() {
        report.links += index.resolved_links(&page.slug).len();
        // Bytes are at least as many as characters, so most pages need not be read for it.
        if page.bytes <= longest as u64 {
            continue;
        }
        let Some(stored) = files.read_blocking(&page.slug)? else {
            continue;
        };
        let text = String::from_utf8_lossy(&stored.bytes);
        let body = Frontmatter::parse(&text).body();
        // Marks are no part of what a page says.
        let characters = without_marks(&text[body]).chars().count();
        if characters > longest {
            report.oversized.push(LongPage {
                slug: page.slug.clone(),
                characters,
            });
        }
    }
    for (page, fault) in index.faults() {
        report.faults.push(PageFault {
            path: page.path.clone(),
            line: fault.line,
            column: fault.column,
            message: fault.message.clone(),
        });
    }
    Ok(report)
}
