//! The keys that Strata reads, each with a method of its own, so that no caller spells a key.
//!
//! Texts are trimmed here, and a text of blanks is none.

use super::{Frontmatter, trimmed};
use crate::text::origin_date;

impl Frontmatter {
    fn words(&self, key: &str) -> Option<&str> {
        self.text(key)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    }

    /// Returns the page's title.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.words("title")
    }

    /// Returns the slug that the page asks for, unchecked.
    #[must_use]
    pub fn slug(&self) -> Option<&str> {
        self.words("slug")
    }

    /// Returns the one-line description.
    #[must_use]
    pub fn summary(&self) -> Option<&str> {
        self.words("summary")
    }

    /// Returns the main page that this one belongs to.
    #[must_use]
    pub fn main(&self) -> Option<&str> {
        self.words("main")
    }

    /// Returns the sort of page; `index` marks a hub.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        self.words("kind")
    }

    /// Returns the status mark.
    #[must_use]
    pub fn status(&self) -> Option<&str> {
        self.words("status")
    }

    /// Returns the live state in one line.
    #[must_use]
    pub fn current(&self) -> Option<&str> {
        self.words("current")
    }

    /// Returns the mark of where the page came from.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.words("source")
    }

    /// Returns the channel that the page belongs to.
    #[must_use]
    pub fn channel(&self) -> Option<&str> {
        self.words("channel")
    }

    /// Returns the date of the content as it is written.
    #[must_use]
    pub fn origin_date_text(&self) -> Option<&str> {
        self.words("origin_date")
    }

    /// Returns the date of the content in milliseconds since 1970 UTC, if it is one we read.
    #[must_use]
    pub fn origin_date(&self) -> Option<i64> {
        origin_date::parse(self.origin_date_text()?)
    }

    /// Returns the other names of the page, from `aliases` and `alias`.
    #[must_use]
    pub fn aliases(&self) -> Vec<String> {
        let mut names = self.list("aliases");
        names.append(&mut self.list("alias"));
        names
    }

    /// Returns the tags, without a leading `#`.
    #[must_use]
    pub fn tags(&self) -> Vec<String> {
        self.list("tags")
            .iter()
            .filter_map(|tag| trimmed(tag.trim_start_matches('#')))
            .collect()
    }

    /// Returns the annotated links as they are written.
    #[must_use]
    pub fn links(&self) -> Vec<String> {
        self.items("links")
    }

    /// Returns the targets of the directed edges.
    #[must_use]
    pub fn edges(&self) -> Vec<String> {
        self.list("edges")
    }

    /// Returns the leaves of the topic tree.
    #[must_use]
    pub fn leaves(&self) -> Vec<String> {
        self.list("leaves")
    }

    /// Returns the attached files.
    #[must_use]
    pub fn ref_files(&self) -> Vec<String> {
        self.items("ref_files")
    }

    /// Returns the referenced addresses.
    #[must_use]
    pub fn ref_urls(&self) -> Vec<String> {
        self.items("ref_urls")
    }
}
