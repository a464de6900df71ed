//! The identifiers that items are spoken of by.
//!
//! Each is a type of its own, so that an evidence id is never taken for an item's, and each can only be made of text
//! that survives a file name, a footnote and a log line.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longest identifier in bytes.
const MAX_BYTES: usize = 200;

/// What every item's identifier starts with.
const ITEM_PREFIX: &str = "mem_";

/// A text that is no identifier. Fix the caller.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not {what}: {reason}")]
pub struct NameError {
    /// What it should have named.
    what: &'static str,
    /// The text.
    text: String,
    /// What is wrong with it.
    reason: &'static str,
}

macro_rules! name {
    ($(#[$docs:meta])* $name:ident, $what:literal, $check:expr) => {
        $(#[$docs])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Returns the identifier that a text spells.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                let check: fn(&str) -> Result<(), &'static str> = $check;
                match check(text) {
                    Ok(()) => Ok(Self(text.to_owned())),
                    Err(reason) => Err(NameError {
                        what: $what,
                        text: text.to_owned(),
                        reason,
                    }),
                }
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    };
}

name! {
    /// Names an item: `mem_` and lower-case letters, digits, `-` or `_`.
    ItemId, "an item's identifier", |text| {
        let rest = text.strip_prefix(ITEM_PREFIX).unwrap_or_default();
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        if rest.is_empty() || text.len() > MAX_BYTES || !rest.bytes().all(fits) {
            Err("it must be `mem_` and lower-case letters, digits, `-` or `_`")
        } else {
            Ok(())
        }
    }
}

name! {
    /// Names one piece of evidence, such as a turn or a commit.
    EvidenceId, "an identifier of evidence", |text| printable(text)
}

name! {
    /// Names one operation for whoever repeats it: the same key again is the same operation.
    OperationKey, "an operation's key", |text| printable(text)
}

impl ItemId {
    /// Returns the item's identifier for a freshly minted one of `Ids`.
    pub fn minted(id: &str) -> Result<Self, NameError> {
        Self::parse(&format!("{ITEM_PREFIX}{id}"))
    }
}

fn printable(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.len() > MAX_BYTES {
        Err("it must have 1 to 200 bytes")
    } else if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        Err("it must have neither blanks nor control characters")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_text_is_an_identifier() {
        assert_eq!(ItemId::minted("a1").unwrap().as_str(), "mem_a1");
        for bad in ["", "mem_", "mem_A", "mem_a b", "a1", "mem_é"] {
            ItemId::parse(bad).unwrap_err();
            let json = serde_json::to_string(bad).unwrap();
            serde_json::from_str::<ItemId>(&json).unwrap_err();
        }
        for bad in ["", "two words", "line\n", &"x".repeat(201)] {
            EvidenceId::parse(bad).unwrap_err();
            OperationKey::parse(bad).unwrap_err();
        }
        assert_eq!(
            EvidenceId::parse("turn:会話/1").unwrap().as_str(),
            "turn:会話/1"
        );
    }
}
