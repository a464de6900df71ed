//! Whether a word that stands where a secret would stand looks like one.
//!
//! Beside `password is` there may be a password, a placeholder for one, or a remark about it. The first must go and the
//! others stay, so this is where most false alarms are prevented.

use words::{DESCRIBING, FOREIGN_REMARKS, REMARKS, STAND_INS, TYPES};

mod words;

/// Returns whether a text only stands in for a secret.
pub(super) fn is_stand_in(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut characters = text.chars();
    let first = characters.next();
    let is_variable = || {
        text.strip_prefix('$').is_some_and(|name| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        })
    };
    STAND_INS.iter().any(|start| lower.starts_with(start))
        || is_variable()
        // One character over and over, as in `********`.
        || (text.chars().count() > 2 && characters.all(|character| Some(character) == first) && !text.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns whether a text is a place, a piece of code or a date rather than a secret. In quotes it is no code.
pub(super) fn is_something_else(text: &str, quoted: bool) -> bool {
    let is_code = || {
        (text.starts_with(['&', '@', '#']) && !is_signed(text))
            || text.starts_with("--")
            || text.starts_with(':')
            || is_indexed(text)
            || is_variable(text)
            || ["::", "->", "<"].iter().any(|part| text.contains(part))
            || is_chain(text)
    };
    ["/", "./", "../", "~/", "\\\\"]
        .iter()
        .any(|start| text.starts_with(start))
        || text.contains("://")
        || is_date(text)
        || is_drive(text)
        || (!quoted && is_code())
}

/// Returns whether a text takes something out of a list or a table, or is a type with another in it.
fn is_indexed(text: &str) -> bool {
    let Some((name, inside)) = text.split_once('[') else {
        return false;
    };
    let is_name = name.len() > 1
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    inside.is_empty() || is_name || is_chain(name)
}

/// Returns whether a text is the name of a variable for a password, such as `key_password`.
fn is_variable(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let names = ["pass", "password", "passwd", "passphrase", "pwd"];
    text.contains('_')
        && text.bytes().all(is_name)
        && text.split('_').any(|part| names.contains(&part))
}

/// Returns whether a text with a sign before it is a password such as `@dmin123` rather than a name: it has digits among
/// its letters, and no sign with which a name goes on.
fn is_signed(text: &str) -> bool {
    let fits = |character: char| character.is_alphanumeric() || "!@#$%^&*_+=~?".contains(character);
    text.chars().all(fits)
        && text.contains(|c: char| c.is_ascii_digit())
        && text.contains(char::is_alphabetic)
}

/// Returns whether a text with a bracket in it calls something, given how the text goes on.
pub(super) fn is_call(text: &str, after: impl Iterator<Item = char>) -> bool {
    let Some((_, inside)) = text.split_once('(') else {
        return false;
    };
    let line = inside.chars().chain(after).take(200);
    let mut line = line.take_while(|character| *character != '\n').peekable();
    let mut is_closed = false;
    while let Some(character) = line.next() {
        is_closed |= character == ')' && !line.peek().is_some_and(|next| next.is_alphanumeric());
    }
    inside.is_empty() || is_closed || !is_no_word(text)
}

/// Returns whether a text is a chain of names such as `self.config.token`.
fn is_chain(text: &str) -> bool {
    let mut count = 0;
    let is_name = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
    };
    for part in text.split('.') {
        if !is_name(part) {
            return false;
        }
        count += 1;
    }
    count > 1
}

fn is_drive(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() > 2
        && bytes[0].is_ascii_alphabetic()
        && bytes[1] == b':'
        && matches!(bytes[2], b'\\' | b'/')
}

/// Returns whether a text begins like `2026-11-30`.
fn is_date(text: &str) -> bool {
    let shape = b"0000-00-00";
    text.len() >= shape.len()
        && text.bytes().zip(shape).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            _ => byte == *shape,
        })
}

/// Returns whether a word only says of what kind a value is.
pub(super) fn is_type(word: &str) -> bool {
    TYPES.contains(&word.to_lowercase().as_str())
}

/// Returns whether a word says something about a secret instead of being one.
pub(super) fn is_remark(word: &str) -> bool {
    let lower = word.to_lowercase();
    REMARKS.contains(&lower.as_str())
        || FOREIGN_REMARKS.contains(&lower.as_str())
        || (lower.len() > 4 && DESCRIBING.iter().any(|end| lower.ends_with(end)))
}

/// Returns whether a word is written as no word of a language is: with digits or signs, or with capitals inside.
pub(super) fn is_no_word(text: &str) -> bool {
    let is_sign = |character: char| "!@#$%^&*_+=~|\\/?".contains(character);
    let has_digit = text.chars().any(|character| character.is_ascii_digit());
    let has_inner_sign = text.trim_end_matches(is_sign).contains(is_sign);
    has_digit || is_mixed(text) || has_inner_sign
}

/// Returns whether a character is of Chinese, Japanese or Korean writing.
pub(super) fn is_unspaced(character: char) -> bool {
    matches!(character, '\u{3000}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' | '\u{F900}'..='\u{FAFF}' | '\u{FF00}'..='\u{FFEF}' | '\u{20000}'..='\u{323AF}')
}

/// Returns whether a text has capitals elsewhere than at its beginning, among small letters.
pub(super) fn is_mixed(text: &str) -> bool {
    text.chars().skip(1).any(char::is_uppercase) && text.chars().any(char::is_lowercase)
}

/// Returns whether a text has what keys are made of: letters and digits, and nothing that keys do not have.
pub(super) fn is_like_a_key(text: &str, shortest: usize, digits: usize) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+/=.~:%!@#$^&*".contains(&byte);
    text.len() >= shortest
        && text.bytes().all(fits)
        && text.bytes().filter(u8::is_ascii_digit).count() >= digits
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !is_a_measure(text)
}

/// Returns whether a text is a number with a unit, a version or a time, such as `4096MB`, `v2.1` or `15min`.
fn is_a_measure(text: &str) -> bool {
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit() || ".,:/-".contains(c));
    number.len() < text.len()
        && number.len() <= 8
        && number.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Returns whether a text was drawn at random, as far as can be told from its look. Hashes and UUIDs were not: they
/// stand for something that is no secret.
pub(super) fn is_random(text: &str) -> bool {
    if text
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    {
        return false;
    }
    let longest = text
        .split(['-', '_', '.', '/', '+', '=', '~'])
        .max_by_key(|part| part.len())
        .unwrap_or_default();
    let kind = |byte: u8| match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        _ => 2,
    };
    let bytes = longest.as_bytes();
    let changes = bytes
        .windows(2)
        .filter(|pair| kind(pair[0]) != kind(pair[1]))
        .count();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    bytes.len() >= 16 && digits >= 2 && changes * 4 >= bytes.len() && entropy(longest) >= 3.0
}

/// Returns the entropy of a text's bytes, in bits a byte.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let total = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = f64::from(*count) / total;
            -share * share.log2()
        })
        .sum()
}
