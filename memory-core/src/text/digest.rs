//! Short SHA-256 digests in lower-case hex, for slugs and section hashes.
//!
//! The digest only tells texts apart; nothing here is a signature, so cut digests are enough.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Returns the first `bytes` bytes (at most 32) of the SHA-256 digest of `parts`, as hex.
///
/// A zero byte goes between the parts, so that moving text from one part to the next changes the digest.
pub(crate) fn hex(parts: &[&str], bytes: usize) -> String {
    let mut hasher = Sha256::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            hasher.update([0]);
        }
        hasher.update(part.as_bytes());
    }
    let mut out = String::with_capacity(bytes * 2);
    for byte in hasher.finalize().iter().take(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// Returns the whole SHA-256 digest of some bytes, as hex.
pub(crate) fn hex_of_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn matches_the_published_vector_and_separates_parts() {
        assert_eq!(hex(&["abc"], 4), "ba7816bf");
        assert_ne!(hex(&["ab", "c"], 16), hex(&["a", "bc"], 16));
    }
}
