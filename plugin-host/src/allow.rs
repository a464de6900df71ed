//! The list of libraries that an operator trusts: `plugins.allow.toml`.
//!
//! A loaded plugin has every right the host has, so a library is only loaded when its hash is on this list. The list
//! never stands beside the plugins, where whoever may write one may write the other. It is integrity, not a sandbox.

use std::path::Path;

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

use crate::error::LoadError;
use crate::sidecar::is_sha256;

/// One trusted library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowEntry {
    /// Identifier of the plugin.
    pub id: String,
    /// SHA-256 of the library, lower-case hexadecimal.
    pub sha256: String,
    /// Why it is trusted, for the reader.
    pub note: String,
}

/// The trusted libraries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList {
    entries: Vec<AllowEntry>,
}

impl AllowList {
    /// Reads a list; a missing file is an empty one.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(LoadError::ReadAllowList { file, source }),
        }
    }

    /// Parses the text of a list; `file` is its name for messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, LoadError> {
        let wrong = |reason: String| LoadError::AllowList {
            file: file.to_owned(),
            reason,
        };
        let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
            wrong(format!(
                "not TOML: {}",
                error.message().lines().next().unwrap_or_default()
            ))
        })?;
        if let Some((key, _)) = document.iter().find(|(key, _)| *key != "allow") {
            return Err(wrong(format!("unknown key `{key}`")));
        }
        let Some(tables) = document.get("allow") else {
            return Ok(Self::default());
        };
        let tables = tables
            .as_array_of_tables()
            .ok_or_else(|| wrong("`allow` must be tables `[[allow]]`".to_owned()))?;
        let mut entries = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            let text = |key: &str| table.get(key).and_then(Item::as_str).map(str::to_owned);
            let missing = |key: &str| wrong(format!("entry {}: missing key `{key}`", index + 1));
            let sha256 = text("sha256").ok_or_else(|| missing("sha256"))?;
            if !is_sha256(&sha256) {
                return Err(wrong(format!(
                    "entry {}: `sha256` must be 64 lower-case hexadecimal digits",
                    index + 1
                )));
            }
            let id = text("id").ok_or_else(|| missing("id"))?;
            entries.push(AllowEntry {
                id,
                sha256,
                note: text("note").unwrap_or_default(),
            });
        }
        Ok(Self { entries })
    }

    /// Returns whether a library is trusted under an identifier.
    pub fn allows(&self, id: &str, sha256: &str) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.id == id && entry.sha256 == sha256)
    }

    /// Adds a library, once.
    pub fn trust(&mut self, entry: AllowEntry) {
        if !self.allows(&entry.id, &entry.sha256) {
            self.entries.push(entry);
        }
    }

    /// Adds every entry of another list.
    pub fn extend(&mut self, other: Self) {
        for entry in other.entries {
            self.trust(entry);
        }
    }

    /// Returns the entries in the order of the file.
    pub fn entries(&self) -> &[AllowEntry] {
        &self.entries
    }

    /// Returns the list as the text of its file.
    pub fn render(&self) -> String {
        let mut tables = ArrayOfTables::new();
        for entry in &self.entries {
            let mut table = Table::new();
            table["id"] = value(entry.id.as_str());
            table["sha256"] = value(entry.sha256.as_str());
            table["note"] = value(entry.note.as_str());
            tables.push(table);
        }
        let mut document = DocumentMut::new();
        document["allow"] = Item::ArrayOfTables(tables);
        document.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_its_file() {
        let mut list = AllowList::default();
        assert_eq!(AllowList::parse("a", &list.render()), Ok(list.clone()));
        for (id, digit) in [("tier-v1", "0a"), ("tier-v2", "1b"), ("tier-v1", "0a")] {
            list.trust(AllowEntry {
                id: id.to_owned(),
                sha256: digit.repeat(32),
                note: "built here \"today\"".to_owned(),
            });
        }
        assert_eq!(list.entries().len(), 2);
        assert_eq!(AllowList::parse("a", &list.render()), Ok(list.clone()));
        assert!(list.allows("tier-v1", &"0a".repeat(32)));
        assert!(
            !list.allows("tier-v2", &"0a".repeat(32)),
            "a hash is trusted for its own plugin only"
        );
    }

    #[test]
    fn a_broken_list_is_refused_with_the_entry() {
        let error =
            AllowList::parse("plugins.allow.toml", "[[allow]]\nid = \"x\"\n").expect_err("no hash");
        assert_eq!(
            error.to_string(),
            "allow-list `plugins.allow.toml`: entry 1: missing key `sha256`"
        );
        assert!(AllowList::parse("a", "allowed = 1\n").is_err());
        assert!(AllowList::parse("a", "[[allow]]\nid = \"x\"\nsha256 = \"zz\"\n").is_err());
    }
}
