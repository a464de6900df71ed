//! Writes a text as a YAML scalar that every reader takes for that text.
//!
//! Plain style is kept for texts that no reader, not even one of the older standard, could take for something else.

use std::fmt::Write as _;

use serde_saphyr::granit_parser::ScalarStyle;

use crate::text::origin_date;

/// Writes an item of a list, which may stand in brackets.
pub(super) fn quoted_item(text: &str) -> String {
    let plain = is_plain(text) && !text.contains([',', '[', ']', '{', '}']);
    quoted(
        text,
        if plain {
            ScalarStyle::Plain
        } else {
            ScalarStyle::DoubleQuoted
        },
    )
}

/// Writes a text in the style asked for, or in double quotes where that style cannot hold it.
pub(super) fn quoted(text: &str, style: ScalarStyle) -> String {
    match style {
        ScalarStyle::SingleQuoted if !text.contains(needs_escape) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        ScalarStyle::Plain if is_plain(text) => text.to_owned(),
        _ => {
            let mut out = String::with_capacity(text.len() + 2);
            out.push('"');
            for c in text.chars() {
                match c {
                    '"' | '\\' => out.extend(['\\', c]),
                    '\n' => out.push_str("\\n"),
                    '\t' => out.push_str("\\t"),
                    '\r' => out.push_str("\\r"),
                    c if needs_escape(c) => {
                        // Writing to a string cannot fail; every such character fits four digits.
                        let _ = write!(out, "\\u{:04x}", u32::from(c));
                    }
                    c => out.push(c),
                }
            }
            out.push('"');
            out
        }
    }
}

/// Returns whether a YAML reader may refuse, fold or drop the character when it is written as it is.
fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}'
        )
}

/// Returns whether a text without quotes is that text to every YAML reader, including those that type values.
fn is_plain(text: &str) -> bool {
    const TYPED: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    if origin_date::day(text) == Some(text) {
        return true;
    }
    let mut before = ' ';
    text.chars().next().is_some_and(char::is_alphabetic)
        && !text.ends_with([':', ' '])
        && !text.contains(needs_escape)
        && !TYPED.contains(&text.to_lowercase().as_str())
        && text.chars().all(|c| {
            let allowed =
                !(before == ':' && c.is_whitespace() || before.is_whitespace() && c == '#');
            before = c;
            allowed
        })
}
