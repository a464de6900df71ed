//! Finds words in ASCII text, byte by byte.
//!
//! Most text that is indexed is ASCII, where the Unicode word rules shrink to six classes of bytes. The result is
//! equal to that of the general rules, which a property test holds it to.

/// What a byte is to the word rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Other,
    Letter,
    Digit,
    /// Joins anything to anything, and is no letter itself.
    Underscore,
    /// Joins letters.
    Colon,
    /// Joins digits.
    Comma,
    /// Joins letters, and joins digits.
    Dot,
}

const CLASSES: [Class; 128] = {
    let mut classes = [Class::Other; 128];
    let mut byte = 0;
    while byte < 128_u8 {
        classes[byte as usize] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b'_' => Class::Underscore,
            b':' => Class::Colon,
            b',' | b';' => Class::Comma,
            b'.' | b'\'' => Class::Dot,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

/// Calls `found` with every word of an ASCII text, and whether it is letters and digits throughout.
pub(super) fn words<'t>(text: &'t str, mut found: impl FnMut(&'t str, bool)) {
    let bytes = text.as_bytes();
    let class = |at: usize| {
        bytes
            .get(at)
            .map_or(Class::Other, |byte| CLASSES[usize::from(byte & 0x7f)])
    };
    let mut at = 0;
    while at < bytes.len() {
        if !matches!(class(at), Class::Letter | Class::Digit | Class::Underscore) {
            at += 1;
            continue;
        }
        let start = at;
        let (mut plain, mut solid) = (true, false);
        loop {
            let here = class(at);
            match here {
                Class::Underscore => plain = false,
                _ => solid = true,
            }
            let next = class(at + 1);
            if matches!(next, Class::Letter | Class::Digit | Class::Underscore) {
                at += 1;
                continue;
            }
            let joins = match next {
                Class::Dot => matches!(here, Class::Letter | Class::Digit),
                Class::Colon => here == Class::Letter,
                Class::Comma => here == Class::Digit,
                _ => false,
            };
            if joins && class(at + 2) == here {
                plain = false;
                at += 2;
                continue;
            }
            at += 1;
            break;
        }
        if solid {
            found(&text[start..at], plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_segmentation::UnicodeSegmentation as _;

    use super::*;

    fn ascii_words(text: &str) -> Vec<&str> {
        let mut all = Vec::new();
        words(text, |word, plain| {
            assert_eq!(
                plain,
                word.bytes().all(|byte| byte.is_ascii_alphanumeric()),
                "{word}"
            );
            all.push(word);
        });
        all
    }

    #[test]
    fn joiners_hold_only_between_their_own_kind() {
        assert_eq!(
            ascii_words("don't 3.14 a.b a.1 1,000;x 14:05 _x__ ___ e.g."),
            [
                "don't", "3.14", "a.b", "a", "1", "1,000", "x", "14", "05", "_x__", "e.g",
            ]
        );
    }

    proptest! {
        #[test]
        fn the_general_rules_give_the_same_words(text in "[ -~\\r\\n\\t]{0,60}|[a1_:.,;' -]{0,40}") {
            prop_assert_eq!(ascii_words(&text), text.unicode_words().collect::<Vec<_>>());
        }
    }
}
