//! The list of libraries that an operator trusts: `plugins.allow.toml`.
//!
//! A loaded plugin has every right the host has, so a library is only loaded when its hash is on this list, or when its
//! manifest is signed with a key that is. The list never stands beside the plugins, where whoever may write one may write
//! the other. It is integrity, not a sandbox.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Table};

use crate::error::LoadError;
use crate::files::{self, FileFault};
use crate::sidecar::is_sha256;
use crate::signature::PublicKey;
use crate::text::parse_toml;

pub use self::file::AllowFile;

mod file;

/// Bytes an allow file may have: some ten thousand entries.
const FILE_LIMIT: u64 = 1 << 20;

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

/// One trusted key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKey {
    /// What the operator calls it.
    pub id: String,
    /// The key.
    pub ed25519: PublicKey,
    /// Why it is trusted, for the reader.
    pub note: String,
    /// The plugins whose manifests it may sign; `None` for all of them.
    pub plugins: Option<Vec<String>>,
}

impl TrustedKey {
    /// Returns whether it is trusted for a plugin.
    pub fn may_sign(&self, plugin: &str) -> bool {
        let named = |plugins: &Vec<String>| plugins.iter().any(|named| named == plugin);
        self.plugins.as_ref().is_none_or(named)
    }
}

/// The trusted libraries and keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList {
    entries: Vec<AllowEntry>,
    keys: Vec<TrustedKey>,
}

impl AllowList {
    /// Reads a list; a missing file is an empty one.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        match read_text(path)? {
            None => Ok(Self::default()),
            Some(text) => Self::parse(&path.display().to_string(), &text),
        }
    }

    /// Parses the text of a list; `file` is its name for messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, LoadError> {
        Ok(parse(file, text)?.1)
    }

    /// Returns whether a library is trusted under an identifier.
    pub fn allows(&self, id: &str, sha256: &str) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.id == id && entry.sha256 == sha256)
    }

    /// Adds a library, once, and returns whether it was not there before.
    pub fn trust(&mut self, entry: AllowEntry) -> bool {
        let added = !self.allows(&entry.id, &entry.sha256);
        if added {
            self.entries.push(entry);
        }
        added
    }

    /// Adds a key, once, and returns whether it was not there before.
    pub fn trust_key(&mut self, key: TrustedKey) -> bool {
        let same = |known: &TrustedKey| {
            known.id == key.id && known.ed25519 == key.ed25519 && known.plugins == key.plugins
        };
        let added = !self.keys.iter().any(same);
        if added {
            self.keys.push(key);
        }
        added
    }

    /// Adds every entry and key of another list.
    pub fn extend(&mut self, other: Self) {
        for entry in other.entries {
            self.trust(entry);
        }
        for key in other.keys {
            self.trust_key(key);
        }
    }

    /// Returns the entries in the order of the file.
    pub fn entries(&self) -> &[AllowEntry] {
        &self.entries
    }

    /// Returns the keys in the order of the file.
    pub fn keys(&self) -> &[TrustedKey] {
        &self.keys
    }

    /// Returns the list as the text of a new file. To add to a file that people keep, there is [`AllowFile`].
    pub fn render(&self) -> String {
        let mut file = AllowFile::default();
        for entry in &self.entries {
            file.trust(entry.clone());
        }
        for key in &self.keys {
            file.trust_key(key.clone());
        }
        file.text()
    }
}

/// Returns the text of an allow file; `None` when there is none.
fn read_text(path: &Path) -> Result<Option<String>, LoadError> {
    let file = path.display().to_string();
    let bytes = match files::read(path, FILE_LIMIT) {
        Ok(bytes) => bytes,
        Err(FileFault::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(fault) => {
            return Err(match fault.reason(FILE_LIMIT) {
                Ok(reason) => LoadError::AllowList { file, reason },
                Err(source) => LoadError::ReadAllowList { file, source },
            });
        }
    };
    let text = String::from_utf8(bytes).map_err(|_| LoadError::AllowList {
        file,
        reason: "not UTF-8".to_owned(),
    })?;
    Ok(Some(text))
}

/// Returns an allow file's text as a document, and what it trusts.
fn parse(file: &str, text: &str) -> Result<(DocumentMut, AllowList), LoadError> {
    let wrong = |reason: String| LoadError::AllowList {
        file: file.to_owned(),
        reason,
    };
    let document = parse_toml(text).map_err(wrong)?;
    if let Some((key, _)) = document
        .iter()
        .find(|(key, _)| !matches!(*key, "allow" | "key"))
    {
        return Err(wrong(format!("unknown key `{key}`")));
    }
    let tables = |name: &str| match document.get(name) {
        None => Ok(Vec::new()),
        Some(item) => match item.as_array_of_tables() {
            Some(tables) => Ok(tables.iter().enumerate().collect()),
            None => Err(wrong(format!("`{name}` must be tables `[[{name}]]`"))),
        },
    };
    let mut list = AllowList::default();
    for (index, table) in tables("allow")? {
        let entry = AllowEntry::parse(table);
        list.entries
            .push(entry.map_err(|reason| wrong(format!("entry {}: {reason}", index + 1)))?);
    }
    for (index, table) in tables("key")? {
        let key = TrustedKey::parse(table);
        list.keys
            .push(key.map_err(|reason| wrong(format!("key {}: {reason}", index + 1)))?);
    }
    Ok((document, list))
}

fn text_of(table: &Table, key: &str) -> Result<String, String> {
    let text = table.get(key).and_then(Item::as_str);
    text.map(str::to_owned)
        .ok_or_else(|| format!("missing key `{key}`"))
}

impl AllowEntry {
    fn parse(table: &Table) -> Result<Self, String> {
        let sha256 = text_of(table, "sha256")?;
        if !is_sha256(&sha256) {
            return Err("`sha256` must be 64 lower-case hexadecimal digits".to_owned());
        }
        Ok(Self {
            id: text_of(table, "id")?,
            sha256,
            note: text_of(table, "note").unwrap_or_default(),
        })
    }
}

impl TrustedKey {
    fn parse(table: &Table) -> Result<Self, String> {
        // A misspelt `plugins` would trust a key for everything.
        let known = |key: &str| matches!(key, "id" | "ed25519" | "note" | "plugins");
        if let Some((key, _)) = table.iter().find(|(key, _)| !known(key)) {
            return Err(format!("unknown key `{key}`"));
        }
        let ed25519 = text_of(table, "ed25519")?;
        let plugins = table.get("plugins").map(|plugins| {
            let texts = plugins
                .as_array()
                .into_iter()
                .flatten()
                .map(|plugin| plugin.as_str().map(str::to_owned));
            let texts = texts
                .collect::<Option<Vec<_>>>()
                .filter(|texts| !texts.is_empty());
            texts.ok_or("`plugins` must be a list of identifiers")
        });
        Ok(Self {
            id: text_of(table, "id")?,
            ed25519: PublicKey::parse(&ed25519).map_err(|reason| format!("`ed25519`: {reason}"))?,
            note: text_of(table, "note").unwrap_or_default(),
            plugins: plugins.transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_trusted_once_and_for_its_own_plugin_only() {
        let mut list = AllowList::default();
        for (id, digit, added) in [
            ("tier-v1", "0a", true),
            ("tier-v2", "1b", true),
            ("tier-v1", "0a", false),
        ] {
            let entry = AllowEntry {
                id: id.to_owned(),
                sha256: digit.repeat(32),
                note: String::new(),
            };
            assert_eq!(list.trust(entry), added);
        }
        assert_eq!(list.entries().len(), 2);
        assert!(list.allows("tier-v1", &"0a".repeat(32)));
        assert!(!list.allows("tier-v2", &"0a".repeat(32)));
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

    const KEY: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

    #[test]
    fn a_key_is_listed_once_for_each_scope() {
        let mut list = AllowList::default();
        for plugins in [None, Some(vec!["tier-v1".to_owned()]), None] {
            list.trust_key(TrustedKey {
                id: "release".to_owned(),
                ed25519: PublicKey::parse(KEY).expect("a key"),
                note: String::new(),
                plugins,
            });
        }
        let [everything, scoped] = list.keys() else {
            panic!("{:?}", list.keys());
        };
        assert!(everything.may_sign("tier-v2"));
        assert!(scoped.may_sign("tier-v1") && !scoped.may_sign("tier-v2"));
    }

    #[test]
    fn a_broken_key_is_refused() {
        let check_refused = |text: &str, expected: &str| {
            let error =
                AllowList::parse("a", &format!("[[key]]\nid = \"x\"\n{text}")).expect_err("broken");
            assert_eq!(
                error.to_string(),
                format!("allow-list `a`: key 1: {expected}")
            );
        };
        check_refused("", "missing key `ed25519`");
        check_refused(
            "ed25519 = \"0a\"",
            "`ed25519`: it is not 64 lower-case hexadecimal digits",
        );
        check_refused(
            &format!("ed25519 = \"{KEY}\"\nplugin = [\"x\"]"),
            "unknown key `plugin`",
        );
        for plugins in ["[]", "7", "[7]"] {
            check_refused(
                &format!("ed25519 = \"{KEY}\"\nplugins = {plugins}"),
                "`plugins` must be a list of identifiers",
            );
        }
    }

    #[test]
    fn only_a_file_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = AllowList::read(folder.path()).expect_err("a folder is no file");
        assert!(
            error.to_string().ends_with("it is a folder, not a file"),
            "{error}"
        );
        assert_eq!(
            AllowList::read(&folder.path().join("none")),
            Ok(AllowList::default())
        );
    }
}
