//! Reads files, variables and flags into settings, and collects what is wrong with them.
//!
//! All three end in the same two places, an accepted value or a finding, so that a setting behaves alike wherever it
//! is written.

use std::collections::BTreeMap;

use toml_edit::{Document, Item, TableLike};

use super::layers::{Layers, Setting, Settings};
use super::nearest::{suggest, suggest_table};
use super::report::{ConfigError, ConfigWarning, Origin, Place, WarningKind};
use super::schema::{self, KeySpec};
use super::value::Value;

/// Start of the names of environment variables that hold settings.
const VARIABLE_PREFIX: &str = "STRATA_";

/// A warning in the making: which tier is configured is known only after all layers are read.
pub(crate) struct Finding {
    pub(crate) warning: ConfigWarning,
    pub(crate) concerns_tier: bool,
}

impl Finding {
    pub(crate) fn new(
        kind: WarningKind,
        key: &str,
        origin: Origin,
        place: Option<Place>,
        message: String,
    ) -> Self {
        Self {
            warning: ConfigWarning {
                kind,
                key: key.to_owned(),
                origin,
                place,
                message,
                suggestion: None,
                tier: None,
            },
            concerns_tier: false,
        }
    }

    /// Adds the key that was probably meant; `show` turns it into what the reader has to write.
    fn suggesting(mut self, key: Option<&str>, show: impl Fn(&str) -> String) -> Self {
        self.warning.suggestion = key.map(show);
        // A name that is nearly a switch, or a table with one in it, may hold a switch that the owner counts on.
        self.concerns_tier |= key.is_some_and(holds_switch);
        self
    }

    fn concerning(mut self, key: &str) -> Self {
        self.concerns_tier |= holds_switch(key);
        self
    }
}

/// Tells whether a key is a switch of the tier or a table with one in it.
fn holds_switch(path: &str) -> bool {
    schema::KEYS
        .iter()
        .any(|spec| spec.is_switch() && (spec.key == path || schema::is_below(spec.key, path)))
}

/// Collects settings and warnings, layer by layer.
#[derive(Default)]
pub(crate) struct Reader {
    pub(crate) settings: Settings,
    pub(crate) findings: Vec<Finding>,
}

impl Reader {
    /// Reads all layers, later ones over earlier ones.
    pub(crate) fn read(layers: &Layers) -> Result<Self, ConfigError> {
        let mut reader = Self::default();
        let files = [
            (Origin::Home, &layers.home),
            (Origin::Assistant, &layers.assistant),
        ];
        for (origin, text) in files {
            if let Some(text) = text {
                reader.read_file(text, origin)?;
            }
        }
        reader.read_environment(&layers.environment);
        reader.read_flags(&layers.flags);
        Ok(reader)
    }

    fn read_file(&mut self, text: &str, origin: Origin) -> Result<(), ConfigError> {
        let document = Document::parse(text).map_err(|error| ConfigError::Malformed {
            origin,
            place: error.span().map(|span| Place::of(text, span.start)),
            source: Box::new(error),
        })?;
        let file = File { text, origin };
        self.read_table(document.as_table(), "", file);
        Ok(())
    }

    fn read_table(&mut self, table: &dyn TableLike, path: &str, file: File<'_>) {
        for (name, item) in table.iter() {
            let span = table
                .key(name)
                .and_then(toml_edit::Key::span)
                .or_else(|| item.span());
            let place = span.map(|span| Place::of(file.text, span.start));
            // A quoted name with a dot in it must not pass for a path, nor one with a line break for two lines.
            let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            let shown = if !name.is_empty() && name.bytes().all(is_bare) {
                name.to_owned()
            } else {
                format!("{name:?}")
            };
            let key = if path.is_empty() {
                shown
            } else {
                format!("{path}.{shown}")
            };
            if let Some(spec) = schema::find(&key) {
                self.accept(spec, spec.read(item), file.origin, place);
            } else if schema::is_table(&key) {
                self.read_inner(item, &key, file, place);
            } else {
                self.report_unknown(&key, item, file.origin, place);
            }
        }
    }

    fn read_inner(&mut self, item: &Item, path: &str, file: File<'_>, place: Option<Place>) {
        if let Some(table) = item.as_table_like() {
            self.read_table(table, path, file);
            return;
        }
        let message = format!(
            "`{path}` expects a table, found a value of type `{}`, ignored; write `[{path}]`",
            item.type_name()
        );
        let finding = Finding::new(WarningKind::NotATable, path, file.origin, place, message);
        self.findings.push(finding.concerning(path));
    }

    fn report_unknown(&mut self, key: &str, item: &Item, origin: Origin, place: Option<Place>) {
        let is_table = item.is_table_like() || item.is_array_of_tables();
        let (what, suggestion) = if is_table {
            let table = suggest_table(key);
            ("table", table.or_else(|| suggest(key)))
        } else {
            ("key", suggest(key))
        };
        let message = format!("unknown {what} `{key}`, ignored");
        let finding = Finding::new(WarningKind::UnknownKey, key, origin, place, message);
        self.findings
            .push(finding.suggesting(suggestion, str::to_owned));
    }

    fn read_environment(&mut self, environment: &BTreeMap<String, String>) {
        for (name, text) in environment {
            let upper = name.to_uppercase();
            if let Some(spec) = schema::KEYS.iter().find(|spec| variable(spec.key) == upper) {
                self.accept(spec, spec.parse(text), Origin::Environment, None);
            } else if let Some(key) = almost_variable(&upper) {
                let message = format!("unknown variable `{}`, ignored", name.escape_debug());
                let origin = Origin::Environment;
                let finding = Finding::new(WarningKind::UnknownKey, name, origin, None, message);
                self.findings
                    .push(finding.suggesting(suggest(&key), variable));
            }
        }
    }

    fn read_flags(&mut self, flags: &BTreeMap<String, String>) {
        for (key, text) in flags {
            if let Some(spec) = schema::find(key) {
                self.accept(spec, spec.parse(text), Origin::Flag, None);
            } else {
                let message = format!("unknown key `{}`, ignored", key.escape_debug());
                let finding =
                    Finding::new(WarningKind::UnknownKey, key, Origin::Flag, None, message);
                self.findings
                    .push(finding.suggesting(suggest(key), str::to_owned));
            }
        }
    }

    fn accept(
        &mut self,
        spec: &'static KeySpec,
        value: Result<Value, String>,
        origin: Origin,
        place: Option<Place>,
    ) {
        match value {
            Ok(value) => self.settings.write(
                spec.key,
                Setting {
                    value,
                    origin,
                    place,
                },
            ),
            Err(reason) => {
                let message = format!("`{}` {reason}", spec.key);
                let finding = Finding::new(WarningKind::BadValue, spec.key, origin, place, message);
                self.findings.push(finding.concerning(spec.key));
            }
        }
    }
}

/// A file while it is read.
#[derive(Clone, Copy)]
struct File<'a> {
    text: &'a str,
    origin: Origin,
}

/// Returns the name of the environment variable for a key.
pub fn variable(key: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", key.replace('.', "__").to_uppercase())
}

/// Returns the key that an unknown variable was meant for, if it can only have been meant for a setting.
fn almost_variable(upper: &str) -> Option<String> {
    let rest = upper.strip_prefix(VARIABLE_PREFIX)?;
    rest.contains("__")
        .then(|| rest.replace("__", ".").to_lowercase())
}
