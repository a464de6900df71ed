//! Edits single keys of a page's frontmatter and leaves every other byte alone.
//!
//! Writing the whole block anew would lose the author's order, comments and quoting, so an edit replaces the
//! smallest range that holds the old value. It is then read back: an edit that does not give exactly the wanted
//! value, or that changes any other key or the body, is refused and never returned. That check is what makes
//! editing by lines safe in a language as irregular as YAML.

mod lines;
mod quote;

use std::fmt::Write as _;

use serde_saphyr::granit_parser::ScalarStyle;

use super::{Frontmatter, KNOWN_KEYS, LIST_KEYS, trimmed};
use crate::text::fault::Fault;
use crate::text::yaml::Node;
use lines::Edit;
use quote::{quoted, quoted_item};

/// Holds a value to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// One text, for keys that hold text.
    Text(&'a str),
    /// Items, for keys that hold lists; they are trimmed and empty ones are left out.
    List(&'a [&'a str]),
}

/// Says why a key was not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetKeyError {
    /// The key belongs to the author; do not try again.
    #[error("`{key}` is not a key that Strata writes")]
    NotOurs {
        /// The key.
        key: String,
    },
    /// The key holds a list and a text was given, or the other way round; hand over the other shape.
    #[error("the value for `{key}` has the wrong shape")]
    WrongShape {
        /// The key.
        key: String,
    },
    /// The block cannot be read, so it must not be edited; report the fault to the owner.
    #[error("the frontmatter is faulty and was left alone: {fault}")]
    Faulty {
        /// What is wrong with the block, and where.
        fault: Fault,
    },
    /// The value cannot be changed without touching something else; report it to the owner.
    #[error("`{key}` is written in a way that cannot be edited by itself, change it by hand")]
    Unsupported {
        /// The key.
        key: String,
    },
}

/// Returns `source` with one of our keys set, and everything else as it was.
///
/// The key's old place is kept; a new key goes to the end of the block; a page without a block gets one, after its
/// byte-order mark. If the key already says the same, the text comes back unchanged.
pub fn set_key(source: &str, key: &str, value: Value<'_>) -> Result<String, SetKeyError> {
    if !KNOWN_KEYS.contains(&key) {
        return Err(SetKeyError::NotOurs {
            key: key.to_owned(),
        });
    }
    if LIST_KEYS.contains(&key) != matches!(value, Value::List(_)) {
        return Err(SetKeyError::WrongShape {
            key: key.to_owned(),
        });
    }
    let page = Frontmatter::parse(source);
    if let Some(fault) = page.faults.iter().find(|fault| fault.kind.hides_keys()) {
        return Err(SetKeyError::Faulty {
            fault: fault.clone(),
        });
    }
    let wanted = Wanted::new(value);
    let edited = if wanted.is_said_by(&page, key) {
        return Ok(source.to_owned());
    } else if page.block.is_none() {
        Some(with_new_block(source, &page, key, &wanted))
    } else {
        Edit {
            source,
            page: &page,
            key,
            wanted: &wanted,
        }
        .apply()
    };
    edited
        .filter(|edited| reads_back(source, &page, edited, key, &wanted))
        .ok_or_else(|| SetKeyError::Unsupported {
            key: key.to_owned(),
        })
}

/// Returns a new page: a block with the keys in the given order, then the body as it is.
#[must_use]
pub fn render(keys: &[(&str, Value<'_>)], body: &str) -> String {
    let mut out = String::from("---\n");
    for (key, value) in keys {
        out.push_str(&Wanted::new(*value).lines(key, "", "\n"));
    }
    out.push_str("---\n");
    out.push_str(body);
    out
}

/// Holds a value in the form in which it is read back.
enum Wanted {
    Text(String),
    List(Vec<String>),
}

impl Wanted {
    fn new(value: Value<'_>) -> Self {
        match value {
            Value::Text(text) => Self::Text(text.to_owned()),
            Value::List(items) => {
                Self::List(items.iter().filter_map(|item| trimmed(item)).collect())
            }
        }
    }

    fn is_said_by(&self, page: &Frontmatter, key: &str) -> bool {
        match self {
            Self::Text(text) => page.text(key) == Some(text),
            Self::List(_) if !page.contains(key) => false,
            Self::List(wanted) => {
                let phrases = matches!(key, "links" | "ref_files" | "ref_urls");
                let said = if phrases {
                    page.items(key)
                } else {
                    page.list(key)
                };
                *wanted == said
            }
        }
    }

    /// Returns the lines that write the key afresh.
    fn lines(&self, key: &str, indent: &str, newline: &str) -> String {
        match self {
            Self::Text(text) => format!(
                "{indent}{key}: {}{newline}",
                quoted(text, ScalarStyle::Plain)
            ),
            Self::List(items) if items.is_empty() => format!("{indent}{key}: []{newline}"),
            Self::List(items) => {
                format!(
                    "{indent}{key}:{newline}{}",
                    item_lines(items, &format!("{indent}  "), newline)
                )
            }
        }
    }
}

fn item_lines(items: &[String], indent: &str, newline: &str) -> String {
    items.iter().fold(String::new(), |mut out, item| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{indent}- {}{newline}", quoted_item(item));
        out
    })
}

fn with_new_block(source: &str, page: &Frontmatter, key: &str, wanted: &Wanted) -> String {
    let (before, body) = source.split_at(page.body.start);
    let newline = line_end(body);
    format!(
        "{before}---{newline}{}---{newline}{body}",
        wanted.lines(key, "", newline)
    )
}

/// Returns the line end that the first line of `text` uses.
fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Returns whether the edit changed what it should and nothing else.
fn reads_back(
    source: &str,
    before: &Frontmatter,
    edited: &str,
    key: &str,
    wanted: &Wanted,
) -> bool {
    let after = Frontmatter::parse(edited);
    let others = |page: &Frontmatter| -> Vec<(String, Node)> {
        let others = page.keys.entries.iter().filter(|entry| entry.key != key);
        others
            .map(|entry| (entry.key.clone(), entry.value.clone()))
            .collect()
    };
    let (old, new) = (others(before), others(&after));
    !after.faults.iter().any(|fault| fault.kind.hides_keys())
        && wanted.is_said_by(&after, key)
        && old.len() == new.len()
        && old
            .iter()
            .zip(&new)
            .all(|(old, new)| old.0 == new.0 && old.1.says_the_same(&new.1))
        && edited[after.body.clone()] == source[before.body.clone()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_key_changes() {
        let before = "\u{feff}---\r\n# mine\r\ntitle: \"My Doc\"  # keep\r\ntype: litnote\r\ntags: # of mine\r\n  - research # first\r\n  # then\r\n  - b\r\n\r\n# end\r\n---\r\n\r\n# Body\r\n";
        let after = set_key(before, "title", Value::Text("It's \"new\"")).unwrap();
        assert_eq!(after, before.replace("\"My Doc\"", "\"It's \\\"new\\\"\""));
        let after = set_key(before, "tags", Value::List(&["research", "b", "c: d"])).unwrap();
        assert_eq!(
            after,
            before.replace("  - b\r\n", "  - b\r\n  - \"c: d\"\r\n")
        );
        let after = set_key(before, "tags", Value::List(&["research"])).unwrap();
        assert_eq!(
            after,
            before.replace("  # then\r\n  - b\r\n", "  # then\r\n")
        );
        let after = set_key(before, "summary", Value::Text("short")).unwrap();
        assert_eq!(
            after,
            before.replace("# end\r\n", "# end\r\nsummary: short\r\n")
        );
        assert_eq!(
            set_key(before, "title", Value::Text("My Doc")).unwrap(),
            before
        );
        assert_eq!(
            set_key(before, "tags", Value::List(&["research", "b"])).unwrap(),
            before
        );
    }

    #[test]
    fn every_way_of_writing_a_value_can_be_edited() {
        for (yaml, key, value, expected) in [
            ("title: a", "title", Value::Text("b"), "title: b"),
            ("title: 'a'", "title", Value::Text("it's"), "title: 'it''s'"),
            (
                "title: 'a'",
                "title",
                Value::Text("x\ny"),
                "title: \"x\\ny\"",
            ),
            (
                "title: a # c",
                "title",
                Value::Text("no"),
                "title: \"no\" # c",
            ),
            ("title: # c", "title", Value::Text("b"), "title: b # c"),
            ("title:", "title", Value::Text("- b"), "title: \"- b\""),
            (
                "title: |\n  a\n  # b\n\nx: y",
                "title",
                Value::Text("c"),
                "title: c\n\nx: y",
            ),
            (
                "title: a\n  b # c\nx: y",
                "title",
                Value::Text("c"),
                "title: c\nx: y",
            ),
            ("title: !!str 5", "title", Value::Text("six"), "title: six"),
            (
                "  title: a\n  x: y",
                "kind",
                Value::Text("index"),
                "  title: a\n  x: y\n  kind: index",
            ),
            (
                "tags: [a, \"b\"] # c",
                "tags",
                Value::List(&["b", "c", "d, e"]),
                "tags: [\"b\", c, \"d, e\"] # c",
            ),
            ("tags: a, b", "tags", Value::List(&["a"]), "tags:\n  - a"),
            (
                "tags: '[\"a\"]'",
                "tags",
                Value::List(&["a", "b"]),
                "tags: '[\"a\",\"b\"]'",
            ),
            (
                "tags:\n- a\n- b\nx: y",
                "tags",
                Value::List(&["c"]),
                "tags:\n- c\nx: y",
            ),
            (
                "tags:\n- a\nx: y",
                "tags",
                Value::List(&[]),
                "tags: []\nx: y",
            ),
            (
                "tags: [\n  a,\n  b\n]\nx: y",
                "tags",
                Value::List(&["c"]),
                "tags:\n  - c\nx: y",
            ),
            (
                "tags:\nx: y",
                "tags",
                Value::List(&["c"]),
                "tags:\n  - c\nx: y",
            ),
            (
                "links:\n  - \"a — b\"",
                "links",
                Value::List(&["a — b", "c — d, e"]),
                "links:\n  - \"a — b\"\n  - \"c — d, e\"",
            ),
            (
                "origin_date: x",
                "origin_date",
                Value::Text("2024-01-05"),
                "origin_date: 2024-01-05",
            ),
        ] {
            let source = format!("---\n{yaml}\n---\nbody");
            assert_eq!(
                set_key(&source, key, value).unwrap(),
                format!("---\n{expected}\n---\nbody"),
                "{yaml}"
            );
        }
    }

    #[test]
    fn a_page_without_a_block_gets_exactly_one() {
        assert_eq!(
            set_key("# A\r\n", "title", Value::Text("A")).unwrap(),
            "---\r\ntitle: A\r\n---\r\n# A\r\n"
        );
        let once = set_key("\u{feff}text", "title", Value::Text("A")).unwrap();
        assert_eq!(once, "\u{feff}---\ntitle: A\n---\ntext");
        let twice = set_key(&once, "kind", Value::Text("index")).unwrap();
        assert_eq!(twice, "\u{feff}---\ntitle: A\nkind: index\n---\ntext");
        assert_eq!(
            set_key("---\n---\nx", "title", Value::Text("A")).unwrap(),
            "---\ntitle: A\n---\nx"
        );
    }

    #[test]
    fn what_cannot_be_edited_alone_is_refused() {
        let set = |source: &str| set_key(source, "title", Value::Text("new"));
        assert!(matches!(
            set("---\ntitle: *x*\n---\n"),
            Err(SetKeyError::Faulty { .. })
        ));
        assert!(matches!(
            set("---\nprose\n"),
            Err(SetKeyError::Faulty { .. })
        ));
        for source in [
            "---\n{title: a, b: c}\n---\n",
            "---\ntitle: &x a\nother: *x\n---\n",
            "---\nother: &x a\ntitle: *x\n---\n",
            "---\n? title\n: a\n---\n",
            "---\ntitle: {a: b}\n---\n",
        ] {
            assert!(
                matches!(set(source), Err(SetKeyError::Unsupported { .. })),
                "{source:?}"
            );
        }
        assert!(matches!(
            set_key("", "type", Value::Text("x")),
            Err(SetKeyError::NotOurs { .. })
        ));
        assert!(matches!(
            set_key("", "tags", Value::Text("x")),
            Err(SetKeyError::WrongShape { .. })
        ));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn rendered_keys_read_back(title in ".{0,30}", tags in prop::collection::vec(".{0,10}", 0..4), body in "(---\n)?.{0,20}") {
            let refs: Vec<&str> = tags.iter().map(String::as_str).collect();
            let source = render(&[("title", Value::Text(&title)), ("tags", Value::List(&refs))], &body);
            let page = Frontmatter::parse(&source);
            prop_assert!(page.faults().is_empty(), "{:?}", page.faults());
            prop_assert_eq!(page.text("title"), Some(title.as_str()));
            prop_assert_eq!(page.list("tags"), tags.iter().filter_map(|tag| trimmed(tag)).collect::<Vec<_>>());
            prop_assert_eq!(&source[page.body()], body.as_str());
        }

        #[test]
        fn an_edit_never_harms(
            yaml in prop::collection::vec("(title|tags|x|y): ?('a'|\"b\"|c d|\\[a, b\\]|&a z|\\*a|#c|\\|)?|  - [ab]|# c|  w|", 0..8),
            text in "[a-c:#'\" \n-]{0,8}",
            crlf in any::<bool>(),
        ) {
            let source = format!("---\n{}\n---\nbody\n", yaml.join("\n"));
            let source = if crlf { source.replace('\n', "\r\n") } else { source };
            if let Ok(edited) = set_key(&source, "title", Value::Text(&text)) {
                let page = Frontmatter::parse(&edited);
                prop_assert_eq!(page.text("title"), Some(text.as_str()));
                let again = set_key(&edited, "title", Value::Text(&text));
                prop_assert_eq!(again.as_ref(), Ok(&edited));
                prop_assert_eq!(edited.matches("\r\n").count() == edited.matches('\n').count(), crlf);
            }
            drop(set_key(&source, "tags", Value::List(&[&text, "z"])));
        }
    }
}
