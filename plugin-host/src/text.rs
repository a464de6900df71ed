//! Texts that come from outside: those a plugin made are cut, and files are read as TOML.

use std::borrow::Cow;

use toml_edit::DocumentMut;

/// Returns at most so many bytes of a text, cut between two characters, and says what was cut.
pub(crate) fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(limit);
    Cow::Owned(format!("{}… ({end} of {} bytes)", &text[..end], text.len()))
}

/// Returns a text as TOML, or why it is none, in one line.
pub(crate) fn parse_toml(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let first = error.message().lines().next().unwrap_or_default();
        format!("not TOML: {first}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(cut("äöü", 6), "äöü");
        assert_eq!(cut("äöü", 5), "äö… (4 of 6 bytes)");
        assert_eq!(cut("äöü", 1), "… (0 of 6 bytes)");
        assert_eq!(cut("", 0), "");
    }
}
