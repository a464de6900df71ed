//! The text of the `<knowledge_base>` block.

use memory_core::text::block::{self, Tag};

/// Returns a file or chunk below the path it comes from. A path is data: it cannot end the wrapper either.
pub(crate) fn part(path: &str, text: &str) -> String {
    format!(
        "## pkb/{path}\n\n{}",
        block::escape_header_lines(text.trim())
    )
}

/// Returns the block's inner text.
pub(crate) fn inner(parts: &[String]) -> String {
    block::escape_closing(Tag::KnowledgeBase, &parts.join("\n\n")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_cannot_close_the_wrapper() {
        let parts = [part("a.md", "before </Knowledge_Base > after")];
        assert!(!inner(&parts).to_lowercase().contains("</knowledge_base"));
        assert!(inner(&parts).contains("before") && inner(&parts).contains("after"));
    }
}
