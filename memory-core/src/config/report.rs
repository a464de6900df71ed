//! What loading and editing settings has to say: origins, places, warnings and errors.
//!
//! A bad setting is a warning and a bad file is an error, because a bad setting can be ignored without harm while
//! ignoring a whole file would silently put the assistant on another tier.

use std::fmt;

use thiserror::Error;

use crate::predicates::Tier;
use crate::predicates::registry::RemovedTier;

/// Where a value comes from; later ones win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The table of settings.
    Default,
    /// The file that all assistants of a home share.
    Home,
    /// The assistant's own file.
    Assistant,
    /// A variable of the environment.
    Environment,
    /// A flag on the command line.
    Flag,
}

impl Origin {
    /// Returns the name shown by `config show --origin`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Home => "home",
            Self::Assistant => "assistant",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// A position in a file, counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Place {
    /// Returns the place of a byte offset in a text; an offset past the end is the end.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}", self.line, self.column)
    }
}

/// What a warning is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WarningKind {
    /// No such setting; it is ignored.
    UnknownKey,
    /// The value is not accepted; the setting counts as not written there.
    BadValue,
    /// A table of settings is something else; everything in it counts as not written there.
    NotATable,
    /// Values that belong together contradict each other; all of them went back to their defaults.
    Contradiction,
    /// The setting was written, and another one beats it everywhere.
    Shadowed,
    /// The setting was written, and another one beats it in a part of the product.
    Split,
    /// The setting was written, and the environment or a flag beats it.
    Overridden,
}

/// Something about the settings that the owner should know; none stops the product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    /// What it is about.
    pub kind: WarningKind,
    /// The key or the variable.
    pub key: String,
    /// Where the value was read.
    pub origin: Origin,
    /// The position in that file.
    pub place: Option<Place>,
    /// What happened and what applies instead.
    pub message: String,
    /// The key that was probably meant.
    pub suggestion: Option<String>,
    /// The tier that is configured now, when a switch of the tier is concerned: show such a warning prominently.
    pub tier: Option<Tier>,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} settings", self.origin)?;
        if let Some(place) = self.place {
            write!(formatter, ", {place}")?;
        }
        write!(formatter, ": {}", self.message)?;
        if let Some(suggestion) = &self.suggestion {
            write!(formatter, "; did you mean `{suggestion}`?")?;
        }
        if let Some(tier) = self.tier {
            write!(formatter, "; the configured tier is now `{tier}`")?;
        }
        Ok(())
    }
}

/// Settings could not be read.
#[derive(Clone, Debug, Error)]
pub enum ConfigError {
    /// The file is not TOML. Keep the settings in force and report it; defaults could be another tier.
    #[error("the {origin} settings file is not valid TOML{}: repair it, nothing of it applies", at(place.as_ref()))]
    Malformed {
        /// Which file.
        origin: Origin,
        /// Where reading stopped.
        place: Option<Place>,
        /// What the parser says.
        source: Box<toml_edit::TomlError>,
    },
}

/// A setting could not be shown or changed. The file is as it was; report the reason to whoever asked.
#[derive(Clone, Debug, Error)]
pub enum ConfigSetError {
    /// There is no such key. Report it with the suggestion.
    #[error("unknown key `{}`{}", key.escape_debug(), meant(suggestion.as_deref()))]
    UnknownKey {
        /// The key that was given.
        key: String,
        /// The key that was probably meant.
        suggestion: Option<&'static str>,
    },
    /// The key does not take this value. Report what it takes.
    #[error("`{key}` {reason}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// What it takes and what was found.
        reason: String,
    },
    /// The value contradicts others. Report it; values that belong together are changed together.
    #[error("{message}: change them in one call")]
    Contradiction {
        /// The keys that belong together.
        keys: Vec<&'static str>,
        /// How they contradict each other.
        message: String,
    },
    /// The file has something else where the key belongs. Report it: only a person can tell what it was meant to be.
    #[error("`{path}` in the file is not a table of settings: repair it by hand")]
    NotATable {
        /// The path at which the file differs.
        path: String,
    },
    /// The tier was removed from this build. Report it; it names what can be set.
    #[error(transparent)]
    Removed(#[from] RemovedTier),
    /// A file cannot be read. Report it with its place.
    #[error(transparent)]
    File(#[from] ConfigError),
}

fn at(place: Option<&Place>) -> String {
    place.map_or_else(String::new, |place| format!(" at {place}"))
}

fn meant(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(
        || ": `config show` lists all keys".to_owned(),
        |key| format!(": did you mean `{key}`?"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let text = "a\nbü = 1\n";
        for (offset, line, column) in [(0, 1, 1), (2, 2, 1), (5, 2, 3), (4, 2, 2), (999, 3, 1)] {
            assert_eq!(Place::of(text, offset), Place { line, column }, "{offset}");
        }
    }

    #[test]
    fn a_warning_is_one_line_with_place_suggestion_and_tier() {
        let warning = ConfigWarning {
            kind: WarningKind::UnknownKey,
            key: "memory.v3.lvie".to_owned(),
            origin: Origin::Assistant,
            place: Some(Place { line: 3, column: 1 }),
            message: "unknown key `memory.v3.lvie`, ignored".to_owned(),
            suggestion: Some("memory.v3.live".to_owned()),
            tier: Some(Tier::V2),
        };
        assert_eq!(
            warning.to_string(),
            "assistant settings, line 3, column 1: unknown key `memory.v3.lvie`, ignored; did you mean `memory.v3.live`?; \
             the configured tier is now `v2`"
        );
    }
}
