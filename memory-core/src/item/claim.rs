//! What an item states, and the two digests by which claims are compared.
//!
//! The digest of the exact text ties a receipt to the words it was given for. The digest of the folded text finds the
//! same claim written with other capitals or spacing.

use serde::{Deserialize, Serialize};

use super::ItemError;
use crate::text::{digest, fold_name};

/// Longest claim in characters. A note is one claim until it is processed, so this is how long a note may be.
pub const MAX_CLAIM_CHARACTERS: usize = 100_000;

/// Longest claim in characters that processing may return.
pub const MAX_PROCESSED_CHARACTERS: usize = 1_000;

/// One self-contained statement: trimmed, not blank, of bounded length.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Claim(String);

impl Claim {
    /// Returns the claim that a text makes.
    pub fn new(text: &str) -> Result<Self, ItemError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(ItemError::illegal("its claim is blank"));
        }
        let characters = text.chars().count();
        if characters > MAX_CLAIM_CHARACTERS {
            return Err(ItemError::illegal(format!(
                "its claim has {characters} characters, at most {MAX_CLAIM_CHARACTERS} are allowed"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the digest of the exact text.
    pub fn text_hash(&self) -> String {
        digest::hex(&[&self.0], 32)
    }

    /// Returns the digest under which two spellings of the claim count as the same.
    pub fn claim_hash(&self) -> String {
        digest::hex(&[&fold_name(&self.0)], 16)
    }
}

impl TryFrom<String> for Claim {
    type Error = ItemError;

    fn try_from(text: String) -> Result<Self, ItemError> {
        Self::new(&text)
    }
}

impl From<Claim> for String {
    fn from(claim: Claim) -> Self {
        claim.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_does_not_make_another_claim_but_another_text() {
        let one = Claim::new(" Ada likes  kiwis\n").unwrap();
        let other = Claim::new("ada LIKES\tkiwis").unwrap();
        assert_eq!(one.as_str(), "Ada likes  kiwis");
        assert_eq!(one.claim_hash(), other.claim_hash());
        assert_ne!(one.text_hash(), other.text_hash());
        assert_ne!(
            one.claim_hash(),
            Claim::new("Ada likes kiwi").unwrap().claim_hash()
        );
    }

    #[test]
    fn blank_and_endless_texts_are_no_claims() {
        Claim::new(" \n").unwrap_err();
        Claim::new(&"ä".repeat(MAX_CLAIM_CHARACTERS)).unwrap();
        Claim::new(&"ä".repeat(MAX_CLAIM_CHARACTERS + 1)).unwrap_err();
        serde_json::from_str::<Claim>("\" \"").unwrap_err();
    }
}
