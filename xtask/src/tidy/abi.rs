//! The tripwire on the plugin border: its document carries the hash of its source, so neither changes unnoticed.

use anyhow::{Context as _, Result};

use super::{File, Finding};
use crate::checkout::Checkout;
use crate::files::{self, Hasher};
use crate::output::note;

/// The module whose text is hashed: its file and its folder.
const MODULE: &str = "memory-core/src/abi";

const DOCUMENT: &str = "docs/abi.md";

const KEY: &str = "abi-sha256: ";

/// Checks that the document names the hash of the module as it is.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else {
        return vec![Finding::fail(
            DOCUMENT,
            "is missing; it describes the border and carries its hash",
        )];
    };
    let actual = hash(files);
    match written(&document.text) {
        None => vec![Finding::fail(
            DOCUMENT,
            format!("has no line `{KEY}<hash>`; `cargo xtask tidy --bless` adds it"),
        )],
        Some(hash) if hash != actual => vec![Finding::fail(
            DOCUMENT,
            format!(
                "names hash {hash}, but `{MODULE}` has {actual}; bring the document up to date with the change \
                 (and memory-core's version, if a release was tagged), then run `cargo xtask tidy --bless`"
            ),
        )],
        Some(_) => Vec::new(),
    }
}

/// Writes the hash into the document.
pub(super) fn bless(checkout: &Checkout, files: &[File]) -> Result<()> {
    let document = files.iter().find(|file| file.path == DOCUMENT);
    let document = document.with_context(|| format!("`{DOCUMENT}` is missing; write it first"))?;
    let blessed = with_hash(&document.text, &hash(files));
    if files::write_atomic(&checkout.root().join(DOCUMENT), blessed.as_bytes())? {
        note(format_args!(
            "tidy: wrote the border's hash into `{DOCUMENT}`"
        ));
    }
    Ok(())
}

/// Returns the hash over paths and content, each with its length, so that moving text between files shows too.
fn hash(files: &[File]) -> String {
    let mut parts: Vec<&File> = files
        .iter()
        .filter(|file| {
            file.path
                .strip_prefix(MODULE)
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
        .collect();
    parts.sort_by(|left, right| left.path.cmp(&right.path));
    let mut hasher = Hasher::default();
    for part in parts {
        for text in [&part.path, &part.text] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
    }
    hasher.finish()
}

fn written(document: &str) -> Option<&str> {
    document
        .lines()
        .find_map(|line| line.strip_prefix(KEY))
        .map(str::trim)
}

fn with_hash(document: &str, hash: &str) -> String {
    let line = format!("{KEY}{hash}");
    if written(document).is_none() {
        return format!("{}\n\n{line}\n", document.trim_end());
    }
    let lines = document.lines().map(|old| {
        if old.starts_with(KEY) {
            line.as_str()
        } else {
            old
        }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::tests::{failures, files};
    use super::{check, hash, with_hash};

    #[test]
    fn blessed_document_passes_and_any_change_is_found() {
        let source = [
            ("memory-core/src/abi/types.rs", "//! a"),
            ("memory-core/src/abi.rs", "//! b"),
        ];
        let blessed = with_hash(
            "# Border\n\nabi-sha256: old\nmore\n",
            &hash(&files(&source)),
        );
        let with = |given: &[(&str, &str)]| {
            let mut all = given.to_vec();
            all.push(("docs/abi.md", &blessed));
            failures(&check(&files(&all))).len()
        };
        assert_eq!(with(&source), 0);
        assert_eq!(
            with(&[source[1], source[0], ("memory-core/src/tier.rs", "//! c")]),
            0
        );
        assert_eq!(
            with(&[("memory-core/src/abi/types.rs", "//! x"), source[1]]),
            1
        );
        assert_eq!(
            with(&[("memory-core/src/abi/kinds.rs", "//! a"), source[1]]),
            1
        );
        assert_eq!(with(&[source[0]]), 1);
        assert!(blessed.starts_with("# Border\n\nabi-sha256: ") && blessed.ends_with("\nmore\n"));
    }

    #[test]
    fn document_and_line_must_be_there() {
        assert_eq!(failures(&check(&files(&[]))), ["docs/abi.md"]);
        assert_eq!(
            failures(&check(&files(&[("docs/abi.md", "text")]))),
            ["docs/abi.md"]
        );
        assert_eq!(with_hash("text\n", "00"), "text\n\nabi-sha256: 00\n");
    }
}
