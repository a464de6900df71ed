//! The manifest that stands beside a plugin library: `<name>.plugin.toml`.
//!
//! It is read before the library is, so that everything a host needs for refusing a plugin is known before any of the
//! plugin's code can run.

use std::path::Path;

use memory_core::predicates::Tier;

use crate::error::LoadError;
use crate::files;
use crate::text::parse_toml;

/// Suffix of a manifest's file name.
pub const SIDECAR_SUFFIX: &str = ".plugin.toml";

/// Bytes a manifest may have.
const FILE_LIMIT: u64 = 64 << 10;

/// Bytes a library may have, since all of it is read into memory: a hundred times what our own have.
const LIBRARY_LIMIT: u64 = 256 << 20;

/// What a manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// Identifier of the plugin.
    pub id: String,
    /// The tier it serves.
    pub tier: Tier,
    /// File name of the library, in the same folder.
    pub file: String,
    /// SHA-256 of the library, lower-case hexadecimal.
    pub sha256: String,
    /// Length of the library.
    pub bytes: u64,
    /// The border version it was built with.
    pub abi: String,
    /// Capabilities without which it cannot serve.
    pub requires: Vec<String>,
    /// Capabilities it uses when they are there.
    pub uses: Vec<String>,
}

impl Sidecar {
    /// Reads a manifest from disk.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        Self::read_with_text(path).map(|(sidecar, _)| sidecar)
    }

    /// Reads a manifest from disk and returns it with the very bytes it was made from.
    pub(crate) fn read_with_text(path: &Path) -> Result<(Self, Vec<u8>), LoadError> {
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let wrong = |reason: String| LoadError::Manifest {
            file: file.clone(),
            reason,
        };
        let bytes =
            files::read(path, FILE_LIMIT).map_err(|fault| match fault.reason(FILE_LIMIT) {
                Ok(reason) => wrong(reason),
                Err(source) => LoadError::ReadManifest {
                    file: file.clone(),
                    source,
                },
            })?;
        let text = str::from_utf8(&bytes).map_err(|_| wrong("not UTF-8".to_owned()))?;
        Ok((Self::parse(&file, text)?, bytes))
    }

    /// Parses the text of a manifest; `file` is its name for messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, LoadError> {
        let wrong = |reason: String| LoadError::Manifest {
            file: file.to_owned(),
            reason,
        };
        let document = parse_toml(text).map_err(wrong)?;
        let item = |key: &str| {
            document
                .get(key)
                .ok_or_else(|| wrong(format!("missing key `{key}`")))
        };
        let string = |key: &str| {
            item(key)?
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| wrong(format!("key `{key}` must be a text")))
        };
        let strings = |key: &str| {
            let array = item(key)?
                .as_array()
                .ok_or_else(|| wrong(format!("key `{key}` must be a list")))?;
            let texts = array
                .iter()
                .map(|value| value.as_str().map(str::to_owned))
                .collect::<Option<Vec<_>>>();
            texts.ok_or_else(|| wrong(format!("key `{key}` must be a list of texts")))
        };
        let id = string("id")?;
        if id.is_empty() {
            return Err(wrong("key `id` is empty".to_owned()));
        }
        let tier = string("tier")?;
        let tier = match tier.parse() {
            Ok(Tier::Off) | Err(_) => {
                return Err(wrong(format!(
                    "key `tier` is `{tier}`: use `v1`, `v2` or `v3`"
                )));
            }
            Ok(tier) => tier,
        };
        let library = string("file")?;
        if library.is_empty() || library == ".." || library.contains(['/', '\\', '\0']) {
            return Err(wrong(format!(
                "key `file` is `{library}`: it must be a file name in the same folder"
            )));
        }
        let sha256 = string("sha256")?;
        if !is_sha256(&sha256) {
            return Err(wrong(
                "key `sha256` must be 64 lower-case hexadecimal digits".to_owned(),
            ));
        }
        let bytes = item("bytes")?
            .as_integer()
            .and_then(|bytes| u64::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| wrong("key `bytes` must be a length".to_owned()))?;
        if bytes > LIBRARY_LIMIT {
            return Err(wrong(format!(
                "key `bytes` is {bytes}: a library has at most {LIBRARY_LIMIT}"
            )));
        }
        Ok(Self {
            id,
            tier,
            file: library,
            sha256,
            bytes,
            abi: string("abi")?,
            requires: strings("requires")?,
            uses: strings("uses")?,
        })
    }
}

/// Returns whether a text is a SHA-256 as we write it.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> String {
        format!(
            "id = \"tier-v3\"\ntier = \"v3\"\nfile = \"libtier_v3.so\"\nsha256 = \"{}\"\nbytes = 9\nabi = \"1.0.0\"\n\
             requires = [\"sections\"]\nuses = []\n",
            "0a".repeat(32)
        )
    }

    fn check_refused(text: &str, expected: &str) {
        let error = Sidecar::parse("t.plugin.toml", text).expect_err("must be refused");
        assert_eq!(
            error.to_string(),
            format!("plugin manifest `t.plugin.toml`: {expected}")
        );
    }

    #[test]
    fn a_good_manifest_is_read() {
        let sidecar = Sidecar::parse("t.plugin.toml", &good()).expect("good");
        assert_eq!(
            (sidecar.id.as_str(), sidecar.tier, sidecar.bytes),
            ("tier-v3", Tier::V3, 9)
        );
        assert_eq!(sidecar.requires, ["sections"]);
    }

    #[test]
    fn every_key_is_needed_and_checked() {
        for key in [
            "id", "tier", "file", "sha256", "bytes", "abi", "requires", "uses",
        ] {
            let text = good();
            let text = text
                .lines()
                .filter(|line| !line.starts_with(key))
                .collect::<Vec<_>>()
                .join("\n");
            check_refused(&text, &format!("missing key `{key}`"));
        }
        check_refused(
            &good().replace("\"v3\"", "\"off\""),
            "key `tier` is `off`: use `v1`, `v2` or `v3`",
        );
        check_refused(
            &good().replace("libtier_v3.so", "../evil.so"),
            "key `file` is `../evil.so`: it must be a file name in the same folder",
        );
        check_refused(
            &good().replace("0a", "0A"),
            "key `sha256` must be 64 lower-case hexadecimal digits",
        );
        check_refused(
            &good().replace("bytes = 9", "bytes = -9"),
            "key `bytes` must be a length",
        );
        check_refused(
            &good().replace("bytes = 9", "bytes = 1099511627776"),
            "key `bytes` is 1099511627776: a library has at most 268435456",
        );
        check_refused(
            &good().replace("[\"sections\"]", "[7]"),
            "key `requires` must be a list of texts",
        );
    }
}
