//! The text formats of a workspace: one parser and one writer each, all pure functions over text.
//!
//! A format has exactly one owner here, so that a page, a link or a buffer entry means the same thing to the
//! indexer, the tiers, the prompt and the command line. Nothing in this module reads or writes a file, and no
//! parser fails on a person's text: what cannot be understood is kept as it is and reported as a [`fault`].
//!
//! Ranges are byte ranges into the text that was handed in. Characters are Unicode scalar values.

pub mod block;
pub mod buffer;
pub mod citation;
pub mod core_pages;
pub mod fault;
pub mod frontmatter;
pub mod links;
pub mod memory_block;
pub mod origin_date;
pub mod page;
pub mod prompt_file;
pub mod section;
pub mod slug;

pub(crate) mod digest;
mod outline;
mod yaml;

/// Joins the words of `text` with single blanks, so that a name fits on one line.
fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Returns the form under which two spellings of a name count as the same: NFC, lower case, single blanks.
///
/// Lower-casing runs between two normalisations because it can produce sequences that compose.
pub(crate) fn fold_name(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization as _;

    let lower = text.nfc().collect::<String>().to_lowercase();
    one_line(&lower.nfc().collect::<String>())
}
