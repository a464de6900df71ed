//! An allow file while something is added to it.
//!
//! People keep such a list by hand: comments say why something is trusted, and the order says what belongs together. So an
//! entry is added to the text that is there, and nothing else of it changes.

use std::path::Path;

use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

use super::{AllowEntry, AllowList, TrustedKey, parse, read_text};
use crate::error::LoadError;

/// An allow file that is being changed.
#[derive(Clone, Debug, Default)]
pub struct AllowFile {
    document: DocumentMut,
    list: AllowList,
}

impl AllowFile {
    /// Reads a file; a missing one is empty.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let file = path.display().to_string();
        Self::parse(&file, &read_text(path)?.unwrap_or_default())
    }

    /// Parses the text of a file; `file` is its name for messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, LoadError> {
        let (document, list) = parse(file, text)?;
        Ok(Self { document, list })
    }

    /// Returns what the file trusts.
    pub const fn list(&self) -> &AllowList {
        &self.list
    }

    /// Adds a library, once, and returns whether it was not there before.
    pub fn trust(&mut self, entry: AllowEntry) -> bool {
        let mut table = Table::new();
        table["id"] = value(entry.id.as_str());
        table["sha256"] = value(entry.sha256.as_str());
        table["note"] = value(entry.note.as_str());
        let added = self.list.trust(entry);
        if added {
            self.push("allow", table);
        }
        added
    }

    /// Adds a key, once, and returns whether it was not there before.
    pub fn trust_key(&mut self, key: TrustedKey) -> bool {
        let mut table = Table::new();
        table["id"] = value(key.id.as_str());
        table["ed25519"] = value(key.ed25519.to_string());
        table["note"] = value(key.note.as_str());
        if let Some(plugins) = &key.plugins {
            table["plugins"] = value(plugins.iter().collect::<Array>());
        }
        let added = self.list.trust_key(key);
        if added {
            self.push("key", table);
        }
        added
    }

    fn push(&mut self, name: &str, table: Table) {
        // A text with anything else under the name was refused when it was parsed.
        let tables = self.document.entry(name);
        let tables = tables.or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        if let Some(tables) = tables.as_array_of_tables_mut() {
            tables.push(table);
        }
    }

    /// Returns the text of the file.
    pub fn text(&self) -> String {
        self.document.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::PublicKey;

    const KEY: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

    fn entry(id: &str, digit: &str) -> AllowEntry {
        AllowEntry {
            id: id.to_owned(),
            sha256: digit.repeat(64),
            note: "by hand".to_owned(),
        }
    }

    fn key(plugins: Option<Vec<String>>) -> TrustedKey {
        TrustedKey {
            id: "release".to_owned(),
            ed25519: PublicKey::parse(KEY).expect("a key"),
            note: String::new(),
            plugins,
        }
    }

    /// Checks that a changed file says what its list does.
    fn check_agrees(file: &AllowFile) {
        let again = AllowFile::parse("a", &file.text()).expect("as written");
        assert_eq!(again.list(), file.list());
    }

    #[test]
    fn comments_order_and_layout_stay_as_they_are() {
        let (first, second) = ("1".repeat(64), "2".repeat(64));
        let text = format!(
            "# What we load. Ask Nora before you add to it.\n\n\
             # From the release of May.\n[[allow]]\nsha256 = \"{first}\" # reviewed twice\nid = 'tier-v3'\n\n\
             [[key]]\n# Their build machine.\nid = \"theirs\"\ned25519   = \"{KEY}\"\nplugins = [ \"tier-x\" ]\n\n\
             [[allow]]\nid = \"tier-v1\"\nsha256 = \"{second}\"\n"
        );
        let mut file = AllowFile::parse("a", &text).expect("a good file");
        assert!(!file.trust(entry("tier-v1", "2")), "it is there already");
        assert_eq!(file.text(), text);

        assert!(file.trust(entry("tier-v2", "3")));
        check_agrees(&file);
        let added = file.text();
        let rest = added.strip_prefix(text.as_str());
        let third = "3".repeat(64);
        assert_eq!(
            rest,
            Some(
                format!(
                    "\n[[allow]]\nid = \"tier-v2\"\nsha256 = \"{third}\"\nnote = \"by hand\"\n"
                )
                .as_str()
            ),
            "{added}"
        );

        assert!(file.trust_key(key(None)));
        check_agrees(&file);
        for line in text.lines().chain(added.lines()) {
            assert!(
                file.text().contains(line),
                "`{line}` is lost:\n{}",
                file.text()
            );
        }
    }

    #[test]
    fn an_empty_file_gets_its_first_entries() {
        let mut file = AllowFile::default();
        assert_eq!(file.text(), "");
        for (id, digit) in [("tier-v1", "1"), ("tier-v2", "2"), ("tier-v1", "1")] {
            file.trust(entry(id, digit));
        }
        for plugins in [None, Some(vec!["tier-v1".to_owned()]), None] {
            file.trust_key(key(plugins));
        }
        let list = file.list();
        assert_eq!((list.entries().len(), list.keys().len()), (2, 2));
        check_agrees(&file);
    }
}
