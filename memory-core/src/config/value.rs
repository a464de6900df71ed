//! Values of settings: what a key accepts, and how values are read and shown.
//!
//! Settings arrive as TOML and as plain text (environment, flags, `config set`). Both go through the same check, so
//! that a value which one way accepts is never refused by the other.

use std::borrow::Cow;
use std::fmt;

use toml_edit::Item;

/// The text that stands for "no value" where a key allows it.
pub const NONE: &str = "none";

/// Longest piece of a refused value that is repeated in a message.
const SHOWN_CHARS: usize = 40;

/// One value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Explicitly no value, written `"none"`.
    None,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A finite number.
    Float(f64),
    /// A text of one line.
    Text(Cow<'static, str>),
}

impl Value {
    /// Returns the value as JSON, no value being `null`.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::None => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Int(value) => (*value).into(),
            Self::Float(value) => (*value).into(),
            Self::Text(value) => value.as_ref().into(),
        }
    }

    /// Returns the value as it is written into a file.
    pub(crate) fn to_toml(&self) -> toml_edit::Value {
        match self {
            Self::None => NONE.into(),
            Self::Bool(value) => (*value).into(),
            Self::Int(value) => (*value).into(),
            Self::Float(value) => (*value).into(),
            Self::Text(value) => value.as_ref().into(),
        }
    }

    pub(crate) const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) const fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) const fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }
}

/// Shows the value as `config set` takes it.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str(NONE),
            Self::Bool(value) => write!(formatter, "{value}"),
            Self::Int(value) => write!(formatter, "{value}"),
            Self::Float(value) => write!(formatter, "{value:?}"),
            Self::Text(value) => formatter.write_str(value),
        }
    }
}

/// What kind of value a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number within both bounds.
    Int {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A finite number within both bounds, the upper of which may be infinite.
    Float {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// A number above zero.
    Positive,
    /// A text of one line that is not empty.
    Text,
    /// One of some words.
    OneOf(&'static [&'static str]),
    /// The identifier of a plugin.
    PluginId,
    /// The name of a time zone, checked for its form only: the zone table belongs to the host.
    TimeZone,
}

impl Kind {
    /// Checks a value and returns it in the form that is kept; `None` when it is of another kind or out of range.
    fn admit(self, value: Value) -> Option<Value> {
        let float = |number: f64| number.is_finite().then_some(Value::Float(number + 0.0));
        match (self, value) {
            (Self::Bool, value @ Value::Bool(_)) => Some(value),
            (Self::Int { min, max }, Value::Int(number)) => {
                (min..=max).contains(&number).then_some(Value::Int(number))
            }
            (Self::Float { min, max }, value) => {
                let number = number(&value)?;
                (min..=max).contains(&number).then(|| float(number))?
            }
            (Self::Positive, value) => {
                let number = number(&value)?;
                (number > 0.0).then(|| float(number))?
            }
            (Self::Text, Value::Text(text)) => is_line(&text).then_some(Value::Text(text)),
            (Self::OneOf(words), Value::Text(text)) => {
                words.contains(&&*text).then_some(Value::Text(text))
            }
            (Self::PluginId, Value::Text(text)) => is_plugin_id(&text).then_some(Value::Text(text)),
            (Self::TimeZone, Value::Text(text)) => is_zone_name(&text).then_some(Value::Text(text)),
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bool => formatter.write_str("`true` or `false`"),
            Self::Int { min, max } if max == i64::from(u32::MAX) => {
                write!(formatter, "a whole number of at least {min}")
            }
            Self::Int { min, max } => write!(formatter, "a whole number from {min} to {max}"),
            Self::Float { min, max } if max.is_infinite() => {
                write!(formatter, "a number of at least {min}")
            }
            Self::Float { min, max } => write!(formatter, "a number from {min} to {max}"),
            Self::Positive => formatter.write_str("a number above 0"),
            Self::Text => formatter.write_str("a text of one line"),
            Self::OneOf(words) => {
                for (number, word) in words.iter().enumerate() {
                    let before = if number == 0 { "" } else { " or " };
                    write!(formatter, "{before}`{word}`")?;
                }
                Ok(())
            }
            Self::PluginId => {
                formatter.write_str("a plugin identifier (lower-case letters, digits, `-` and `_`)")
            }
            Self::TimeZone => {
                formatter.write_str("the name of a time zone, such as `Europe/Berlin` or `UTC`")
            }
        }
    }
}

/// Checks a value against a kind; the error is the reason, ready to follow the key's name.
pub(crate) fn check(kind: Kind, nullable: bool, value: Value) -> Result<Value, String> {
    let is_none = matches!(&value, Value::Text(text) if text == NONE) || value == Value::None;
    if is_none {
        return if nullable {
            Ok(Value::None)
        } else {
            Err(refusal(kind, nullable, "`none`"))
        };
    }
    let found = match &value {
        Value::Text(text) => quoted(text),
        other => format!("`{other}`"),
    };
    kind.admit(value)
        .ok_or_else(|| refusal(kind, nullable, &found))
}

/// Reads a value from TOML.
pub(crate) fn from_item(kind: Kind, nullable: bool, item: &Item) -> Result<Value, String> {
    let value = match item {
        Item::Value(toml_edit::Value::Boolean(value)) => Value::Bool(*value.value()),
        Item::Value(toml_edit::Value::Integer(value)) => Value::Int(*value.value()),
        Item::Value(toml_edit::Value::Float(value)) => Value::Float(*value.value()),
        Item::Value(toml_edit::Value::String(value)) => Value::Text(value.value().clone().into()),
        other => {
            let found = format!("a value of type `{}`", other.type_name());
            return Err(refusal(kind, nullable, &found));
        }
    };
    check(kind, nullable, value)
}

/// Reads a value from plain text.
pub(crate) fn from_text(kind: Kind, nullable: bool, text: &str) -> Result<Value, String> {
    let refuse = || refusal(kind, nullable, &quoted(text));
    if text == NONE {
        return check(kind, nullable, Value::None);
    }
    let value = match kind {
        Kind::Bool => Value::Bool(text.parse().map_err(|_| refuse())?),
        Kind::Int { .. } => Value::Int(text.parse().map_err(|_| refuse())?),
        Kind::Float { .. } | Kind::Positive => Value::Float(text.parse().map_err(|_| refuse())?),
        Kind::Text | Kind::OneOf(_) | Kind::PluginId | Kind::TimeZone => {
            Value::Text(text.to_owned().into())
        }
    };
    check(kind, nullable, value)
}

/// Describes what a key takes, `none` included.
pub(crate) fn describe(kind: Kind, nullable: bool) -> String {
    if nullable {
        format!("{kind}, or `none`")
    } else {
        kind.to_string()
    }
}

fn refusal(kind: Kind, nullable: bool, found: &str) -> String {
    format!("expects {}, found {found}", describe(kind, nullable))
}

fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("`{}`", shown.escape_debug())
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        // A whole number in a file, such as `1`, is a fine way to write the number 1.
        #[expect(clippy::cast_precision_loss, reason = "the bounds are far below 2^53")]
        Value::Int(number) => Some(*number as f64),
        _ => None,
    }
}

fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && !text.chars().any(char::is_control)
}

fn is_plugin_id(text: &str) -> bool {
    let inner =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(byte);
    (1..=64).contains(&text.len())
        && text.as_bytes()[0].is_ascii_alphanumeric()
        && text.as_bytes().iter().all(inner)
}

fn is_zone_name(text: &str) -> bool {
    let part_is_fine = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-+".contains(&byte))
    };
    text.len() <= 64 && text.split('/').all(part_is_fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(kind: Kind, nullable: bool, text: &str, expected: impl Into<Option<Value>>) {
        assert_eq!(
            from_text(kind, nullable, text).ok(),
            expected.into(),
            "{kind} from {text:?}"
        );
    }

    #[test]
    fn text_becomes_a_value_of_its_kind_or_nothing() {
        let int = Kind::Int { min: 1, max: 100 };
        let share = Kind::Float { min: 0.0, max: 1.0 };
        check_text(Kind::Bool, false, "true", Value::Bool(true));
        check_text(Kind::Bool, false, "yes", None);
        check_text(Kind::Bool, false, "none", None);
        check_text(int, false, "100", Value::Int(100));
        check_text(int, false, "101", None);
        check_text(int, false, "1.0", None);
        check_text(int, true, "none", Value::None);
        check_text(share, false, "1", Value::Float(1.0));
        check_text(share, false, "1.1", None);
        check_text(share, false, "NaN", None);
        check_text(Kind::Positive, false, "0", None);
        check_text(Kind::Positive, false, "inf", None);
        check_text(Kind::Text, false, " ", None);
        check_text(Kind::Text, false, "a\nb", None);
        check_text(Kind::Text, true, "none", Value::None);
        check_text(
            Kind::PluginId,
            false,
            "tier-v3",
            Value::Text("tier-v3".into()),
        );
        check_text(Kind::PluginId, false, "../tier", None);
        let words = Kind::OneOf(&["openai", "anthropic"]);
        check_text(words, true, "openai", Some(Value::Text("openai".into())));
        check_text(words, true, "OpenAI", None);
        assert_eq!(words.to_string(), "`openai` or `anthropic`");
        check_text(
            Kind::TimeZone,
            false,
            "Europe/Berlin",
            Value::Text("Europe/Berlin".into()),
        );
        check_text(
            Kind::TimeZone,
            false,
            "Etc/GMT+3",
            Value::Text("Etc/GMT+3".into()),
        );
        check_text(Kind::TimeZone, false, "Europe//Berlin", None);
        check_text(Kind::TimeZone, false, "../etc/passwd", None);
    }

    #[test]
    fn a_refusal_says_what_is_expected_and_what_was_found() {
        let reason = from_text(Kind::Int { min: 1, max: 200 }, true, "many");
        assert_eq!(
            reason,
            Err("expects a whole number from 1 to 200, or `none`, found `many`".to_owned())
        );
        let long = "x".repeat(60);
        let reason = from_text(Kind::Bool, false, &long).expect_err("not a boolean");
        assert!(reason.ends_with("x…`"), "{reason}");
    }

    #[test]
    fn minus_zero_is_zero() {
        let value = from_text(Kind::Float { min: 0.0, max: 1.0 }, false, "-0.0");
        assert_eq!(value.map(|value| value.to_string()), Ok("0.0".to_owned()));
    }
}
