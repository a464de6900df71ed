//! Frontmatter: the block of keys at the top of a page, read without ever failing and without typing anything.
//!
//! The block is the text between a `---` in the first line (a byte-order mark may stand before it) and the next
//! line that is `---` or `...`. Values we read as text are the text that was written: `no`, `1.10`, `2024-01-05`,
//! `null` and `~` are those very words; only a key with nothing after it has no value. A block that cannot be read
//! costs its keys and never the page: the body is read, and a [`Fault`] says where the block is broken.
//!
//! A leading `---` may also be a rule. So the whole file is body when the block is never closed, when it does not
//! hold keys, or when it is broken and does not even look like keys: rather index a broken block as prose than
//! lose prose as a broken block.

mod edit;
mod fence;
mod keys;

use std::ops::Range;

pub use edit::{SetKeyError, Value, render, set_key};

use super::fault::{Fault, FaultKind};
use super::origin_date;
use super::yaml::{self, Block, Node};
use fence::Fences;

/// Keys that Strata reads, and the only ones that it ever writes.
pub const KNOWN_KEYS: &[&str] = &[
    "title",
    "slug",
    "aliases",
    "alias",
    "tags",
    "links",
    "edges",
    "summary",
    "main",
    "kind",
    "status",
    "current",
    "source",
    "origin_date",
    "channel",
    "ref_files",
    "ref_urls",
    "leaves",
];

/// Known keys that hold lists; the others hold text.
const LIST_KEYS: &[&str] = &[
    "aliases",
    "alias",
    "tags",
    "links",
    "edges",
    "ref_files",
    "ref_urls",
    "leaves",
];

/// Holds the keys of a page and where its body begins.
#[derive(Clone, Debug, Default)]
pub struct Frontmatter {
    block: Option<Range<usize>>,
    yaml: Range<usize>,
    body: Range<usize>,
    keys: Block,
    faults: Vec<Fault>,
}

impl Frontmatter {
    /// Reads the block at the top of `source`.
    #[must_use]
    pub fn parse(source: &str) -> Self {
        let start = if source.starts_with('\u{feff}') {
            '\u{feff}'.len_utf8()
        } else {
            0
        };
        let mut page = Self {
            body: start..source.len(),
            ..Self::default()
        };
        let Some(fences) = Fences::find(source, start) else {
            return page;
        };
        let Fences {
            yaml,
            closing: Some(closing),
        } = fences
        else {
            let message =
                "the `---` in the first line is never closed, the whole file is read as body";
            page.faults
                .push(Fault::at(source, start, FaultKind::UnclosedFence, message));
            return page;
        };
        let text = &source[yaml.clone()];
        match yaml::parse(text) {
            Ok(keys) => page.keys = keys,
            Err(error) => {
                let offset = yaml.start + error.offset;
                if error.kind == FaultKind::NotFrontmatter || !fence::looks_like_keys(text) {
                    let message = if error.kind == FaultKind::NotFrontmatter {
                        error.message
                    } else {
                        format!(
                            "{} (it does not look like keys and is read as body)",
                            error.message
                        )
                    };
                    page.faults.push(Fault::at(
                        source,
                        offset,
                        FaultKind::NotFrontmatter,
                        message,
                    ));
                    return page;
                }
                page.faults
                    .push(Fault::at(source, offset, error.kind, error.message));
            }
        }
        page.block = Some(start..closing.end);
        page.body = closing.end..source.len();
        page.yaml = yaml;
        page.check_values(source);
        page
    }

    /// Reports known keys whose value has another shape than we read.
    fn check_values(&mut self, source: &str) {
        let mut faults = Vec::new();
        for entry in &self.keys.entries {
            let Some(key) = KNOWN_KEYS.iter().find(|known| **known == entry.key) else {
                continue;
            };
            let mut report = |offset: usize, kind, message| {
                faults.push(Fault::at(source, self.yaml.start + offset, kind, message));
            };
            let place = entry.key_span.start;
            match &entry.value.value {
                yaml::Value::Empty => {}
                yaml::Value::Text { text, .. } => {
                    if *key == "origin_date" && origin_date::parse(text).is_none() {
                        let message = format!(
                            "`{text}` is not a date of the form `2024-01-31`, it is not used"
                        );
                        report(place, FaultKind::BadDate, message);
                    }
                }
                yaml::Value::List { items, .. } if LIST_KEYS.contains(key) => {
                    if items.iter().any(holds_map) {
                        let message = format!("an item of `{key}` is not text, it is not used");
                        report(place, FaultKind::WrongType, message);
                    }
                }
                yaml::Value::List { .. } | yaml::Value::Map(_) => {
                    let message = format!("the value of `{key}` is not text, it is not used");
                    report(place, FaultKind::WrongType, message);
                }
            }
        }
        self.faults.append(&mut faults);
    }

    /// Returns the range of the whole block with its fences, if the page has one.
    #[must_use]
    pub fn block(&self) -> Option<Range<usize>> {
        self.block.clone()
    }

    /// Returns the range of the YAML between the fences, if the page has a block.
    #[must_use]
    pub fn yaml(&self) -> Option<Range<usize>> {
        self.block.as_ref().map(|_| self.yaml.clone())
    }

    /// Returns the range of the body; a byte-order mark belongs to neither.
    #[must_use]
    pub fn body(&self) -> Range<usize> {
        self.body.clone()
    }

    /// Returns what is wrong with the block.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Returns the keys of the block, known or not, as they are ordered in the file.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.entries.iter().map(|entry| entry.key.as_str())
    }

    /// Returns whether the block has the key, with or without a value.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.node(key).is_some()
    }

    /// Returns the text of a key as it is written, without quotes; no text for lists, maps and empty values.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match &self.node(key)?.value {
            yaml::Value::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Returns the items of a key that holds short labels.
    ///
    /// A single text is cut at commas, or read as a JSON list if it is one. Items are trimmed and never empty.
    #[must_use]
    pub fn list(&self, key: &str) -> Vec<String> {
        let Some(text) = self.text(key) else {
            return self.items(key);
        };
        if let Some(items) = json_list(text) {
            return items;
        }
        text.split([',', '\n']).filter_map(trimmed).collect()
    }

    /// Returns the items of a key that holds phrases; a single text is cut at line ends only.
    #[must_use]
    pub fn items(&self, key: &str) -> Vec<String> {
        let mut out = Vec::new();
        match self.node(key).map(|node| &node.value) {
            Some(yaml::Value::Text { text, .. }) => {
                if let Some(items) = json_list(text) {
                    return items;
                }
                out.extend(text.lines().filter_map(trimmed));
            }
            Some(yaml::Value::List { items, .. }) => {
                for item in items {
                    flatten(item, &mut out);
                }
            }
            _ => {}
        }
        out
    }

    fn node(&self, key: &str) -> Option<&Node> {
        self.keys
            .entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.value)
    }
}

fn holds_map(node: &Node) -> bool {
    match &node.value {
        yaml::Value::Map(_) => true,
        yaml::Value::List { items, .. } => items.iter().any(holds_map),
        yaml::Value::Empty | yaml::Value::Text { .. } => false,
    }
}

/// Collects the texts of a list; `[[name]]` without quotes is a list in a list and gives its name.
fn flatten(node: &Node, out: &mut Vec<String>) {
    match &node.value {
        yaml::Value::Text { text, .. } => out.extend(trimmed(text)),
        yaml::Value::List { items, .. } => {
            for item in items {
                flatten(item, out);
            }
        }
        yaml::Value::Empty | yaml::Value::Map(_) => {}
    }
}

/// Reads a list that some tool stored as JSON inside a string.
fn json_list(text: &str) -> Option<Vec<String>> {
    let text = text.trim();
    if !text.starts_with('[') {
        return None;
    }
    let items: Vec<String> = serde_json::from_str(text).ok()?;
    Some(items.iter().filter_map(|item| trimmed(item)).collect())
}

fn trimmed(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(yaml: &str) -> Frontmatter {
        Frontmatter::parse(&format!("---\n{yaml}\n---\nbody\n"))
    }

    #[test]
    fn texts_are_texts() {
        for (yaml, expected) in [
            ("title: 2024-01-05", Some("2024-01-05")),
            ("title: 1.10", Some("1.10")),
            ("title: no", Some("no")),
            ("title: null", Some("null")),
            ("title: ~", Some("~")),
            ("title: 'a: b'", Some("a: b")),
            ("title:\tx", Some("x")),
            ("title: \"  \"", None),
            ("title:", None),
            ("other: x", None),
        ] {
            let page = page(yaml);
            assert_eq!(page.title(), expected, "{yaml}");
            assert!(page.faults().is_empty(), "{yaml}");
        }
    }

    #[test]
    fn lists_come_in_four_spellings() {
        for yaml in [
            "tags: a, b",
            "tags: [a, b]",
            "tags:\n  - a\n  - b",
            "tags:\n- '#a'\n- b",
            "tags: '[\"a\", \"b\"]'",
            "tags: |\n  a\n  b",
        ] {
            assert_eq!(page(yaml).tags(), ["a", "b"], "{yaml}");
        }
        assert_eq!(page("tags: '[\"security\"'").tags(), ["[\"security\""]);
        assert_eq!(page("aliases: [x]\nalias: y").aliases(), ["x", "y"]);
        assert_eq!(
            page("links:\n- [[Some Page]]\n- a — b, c").links(),
            ["Some Page", "a — b, c"]
        );
        assert_eq!(page("links: a — b, c").links(), ["a — b, c"]);
    }

    #[test]
    fn a_broken_block_costs_its_keys_and_not_the_body() {
        for (yaml, kind, line, column) in [
            ("description: \"abc \"def\" ghi\"", FaultKind::Yaml, 2, 20),
            ("key: `C:\\agent\\x`", FaultKind::Yaml, 2, 6),
            ("title: *Italic*", FaultKind::Yaml, 2, 8),
            ("list:\n- [[wikilink]]suffix", FaultKind::Yaml, 3, 15),
            ("title:\n\tb: c", FaultKind::Yaml, 3, 2),
            ("title: a\ntitle: b", FaultKind::DuplicateKey, 3, 1),
        ] {
            let source = format!("---\n{yaml}\n---\nbody\n");
            let page = Frontmatter::parse(&source);
            let fault = &page.faults()[0];
            assert_eq!((fault.kind, fault.line), (kind, line), "{yaml}: {fault}");
            assert_eq!(fault.column, column, "{yaml}: {fault}");
            assert_eq!(&source[page.body()], "body\n");
            assert_eq!(page.keys().count(), 0);
        }
        let valid = page("description: \"contains a left double quote “\"");
        assert!(valid.faults().is_empty());
    }

    #[test]
    fn a_rule_at_the_top_is_not_frontmatter() {
        for (source, kind) in [
            ("---\n", FaultKind::UnclosedFence),
            ("---", FaultKind::UnclosedFence),
            ("---\nSome prose.\n", FaultKind::UnclosedFence),
            ("---\nSome prose.\n---\nmore\n", FaultKind::NotFrontmatter),
            ("---\n\n- a\n- b\n---\nmore\n", FaultKind::NotFrontmatter),
            (
                "---\nA day: it was long: very.\nWe went to the sea\n\n---\n",
                FaultKind::NotFrontmatter,
            ),
            (
                "---\n<<<<<<< HEAD\ntitle: a\n=======\ntitle: b\n>>>>>>> x\n---\n",
                FaultKind::NotFrontmatter,
            ),
        ] {
            let page = Frontmatter::parse(source);
            assert_eq!(
                page.faults().first().map(|fault| fault.kind),
                Some(kind),
                "{source:?}"
            );
            assert_eq!(
                (page.block(), page.body()),
                (None, 0..source.len()),
                "{source:?}"
            );
        }
        for source in ["", "text\n---\n", " ---\na: b\n---\n", "----\na: b\n---\n"] {
            let page = Frontmatter::parse(source);
            assert!(
                page.faults().is_empty() && page.block().is_none(),
                "{source:?}"
            );
        }
    }

    #[test]
    fn fences_bom_and_line_ends() {
        for (source, title, body) in [
            (
                "\u{feff}---\r\ntitle: é\r\n---\r\nbody\r\n",
                Some("é"),
                "body\r\n",
            ),
            ("---\ntitle: a\n...\nbody", Some("a"), "body"),
            ("---\n---\nbody", None, "body"),
            ("---\n\n---\nbody", None, "body"),
            ("---  \ntitle: a\n---\t\nbody", Some("a"), "body"),
            ("---\ntitle: a\n---", Some("a"), ""),
            ("\u{feff}body", None, "body"),
        ] {
            let page = Frontmatter::parse(source);
            assert!(page.faults().is_empty(), "{source:?}");
            assert_eq!(
                (page.title(), &source[page.body()]),
                (title, body),
                "{source:?}"
            );
        }
    }

    #[test]
    fn too_much_is_a_fault() {
        let big = page(&format!("title: a\nx: \"{}\"", "y".repeat(1 << 20)));
        assert_eq!(big.faults()[0].kind, FaultKind::OverBudget);
        assert_eq!(big.body().len(), 5);
    }

    #[test]
    fn a_value_of_another_shape_costs_only_its_key() {
        let page = page(
            "title: [a]\ntags: {a: b}\nlinks:\n- a: b\n- c\norigin_date: 03/04/2025\nsummary: s\nx: {y: z}",
        );
        let kinds: Vec<_> = page
            .faults()
            .iter()
            .map(|fault| (fault.kind, fault.line))
            .collect();
        assert_eq!(
            kinds,
            [
                (FaultKind::WrongType, 2),
                (FaultKind::WrongType, 3),
                (FaultKind::WrongType, 4),
                (FaultKind::BadDate, 7)
            ]
        );
        assert_eq!(
            (page.title(), page.summary(), page.origin_date()),
            (None, Some("s"), None)
        );
        assert_eq!(page.links(), ["c"]);
        assert!(page.tags().is_empty() && page.contains("tags"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn never_panics(source in "(\u{feff})?(---\r?\n)?[a-e:\\[\\]{}&*!|>'\"%@`#, \t\r\n-]{0,80}(\n---\n)?\\PC{0,20}") {
            let page = Frontmatter::parse(&source);
            prop_assert!(source.get(page.body()).is_some());
            for key in KNOWN_KEYS {
                drop((page.list(key), page.items(key), page.text(key)));
            }
        }
    }
}
