//! The layout check, and one line on what differs.
//!
//! The check of the border library expects its first argument to be the older side: it refuses a first side that has
//! more than the second. A plugin host meets plugins that are older as well as newer than itself, so the sides are put
//! in order first and the answer is read back accordingly. The library's own report is thousands of lines long; the line
//! made here names the method and the field at which the trees part, and the report is kept for whoever wants it.

use std::fmt;

use abi_stable::abi_stability::abi_checking::{
    AbiInstability, AbiInstabilityError, ExpectedFound, check_layout_compatibility,
};
use abi_stable::type_layout::{TLFieldOrFunction, TypeLayout};
use thiserror::Error;

/// Two sides disagree on the layout of something that crosses. Build the plugin again with this host's sources.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("interface differs at `{place}`: host {host}, plugin {plugin}")]
pub struct LayoutMismatch {
    /// The method and the field at which the two sides part.
    pub place: String,
    /// What this host has there.
    pub host: String,
    /// What the plugin has there.
    pub plugin: String,
    /// The full report, thousands of lines.
    pub report: String,
}

impl fmt::Debug for LayoutMismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LayoutMismatch({self})")
    }
}

/// Compares two layouts.
pub(super) fn check(
    host: &'static TypeLayout,
    plugin: &'static TypeLayout,
    plugin_is_newer: bool,
) -> Result<(), LayoutMismatch> {
    let (older, newer) = if plugin_is_newer {
        (host, plugin)
    } else {
        (plugin, host)
    };
    check_layout_compatibility(older, newer).map_err(|errors| {
        let (place, mine, theirs) = errors
            .errors
            .iter()
            .flat_map(|error| error.errs.iter().map(move |difference| (error, difference)))
            .max_by_key(|(error, difference)| (weight(difference), error.stack_trace.len()))
            .map_or_else(
                || {
                    (
                        "the root module".to_owned(),
                        "one layout".to_owned(),
                        "another".to_owned(),
                    )
                },
                |(error, difference)| {
                    let (mine, theirs) = sides(difference);
                    (place(error), mine, theirs)
                },
            );
        let (host, plugin) = if plugin_is_newer {
            (mine, theirs)
        } else {
            (theirs, mine)
        };
        LayoutMismatch {
            place,
            host,
            plugin,
            report: errors.to_string(),
        }
    })
}

/// Returns how much a difference explains. Sizes follow from something deeper.
const fn weight(difference: &AbiInstability) -> u8 {
    match difference {
        AbiInstability::Size(_) | AbiInstability::Alignment(_) => 0,
        AbiInstability::FieldCountMismatch(_) => 1,
        _ => 2,
    }
}

/// Returns the last method and the last field on the way to a difference.
fn place(error: &AbiInstabilityError) -> String {
    let mut method = None;
    let mut field = None;
    let mut owner: Option<&'static TypeLayout> = None;
    for step in &error.stack_trace {
        if let TLFieldOrFunction::Field(step) = step.expected {
            let name = step.name();
            if let Some(owner) = owner.filter(|owner| owner.package() == env!("CARGO_PKG_NAME")) {
                let owner_name = owner_name(owner);
                if step.is_function() {
                    method = Some(format!("{owner_name}.{name}"));
                    field = None;
                } else {
                    field = Some(format!("{owner_name}.{name}"));
                }
            }
            owner = Some(step.layout());
        }
    }
    match (method, field) {
        (Some(method), Some(field)) => format!("{method} -> {field}"),
        (Some(method), None) => method,
        (None, Some(field)) => field,
        (None, None) => "the root module".to_owned(),
    }
}

/// Returns the name an author knows a type by: a trait's table of methods is named after the trait.
fn owner_name(owner: &'static TypeLayout) -> String {
    let path = owner.mod_path().to_string();
    let module = path.rsplit("::").next().unwrap_or_default();
    match module.strip_suffix("_trait") {
        Some(name) if owner.name() == "VTable" => name.to_owned(),
        _ => owner.name().to_owned(),
    }
}

/// Returns both sides of a difference, in the order of the check.
fn sides(difference: &AbiInstability) -> (String, String) {
    fn both<T>(pair: &ExpectedFound<T>, text: impl Fn(&T) -> String) -> (String, String) {
        (text(&pair.expected), text(&pair.found))
    }
    let counted = |noun: &'static str| move |count: &usize| format!("{count} {noun}");
    match difference {
        AbiInstability::Name(pair) | AbiInstability::GenericParamCount(pair) => {
            both(pair, |name| format!("{name:#}"))
        }
        AbiInstability::Package(pair) => both(pair, |package| format!("a type of `{package}`")),
        AbiInstability::PackageVersion(pair) => both(pair, |version| format!("version {version}")),
        AbiInstability::Size(pair) => both(pair, counted("bytes")),
        AbiInstability::Alignment(pair) => both(pair, |align| format!("alignment {align}")),
        AbiInstability::FieldCountMismatch(pair) => both(pair, counted("fields")),
        AbiInstability::TooManyVariants(pair) => both(pair, counted("variants")),
        AbiInstability::UnexpectedField(pair) | AbiInstability::FieldLifetimeMismatch(pair) => {
            both(pair, |field| format!("`{}`", field.name()))
        }
        AbiInstability::UnexpectedVariant(pair) => both(pair, |variant| format!("`{variant}`")),
        AbiInstability::MismatchedPrimitive(pair) => {
            both(pair, |primitive| format!("{primitive:?}"))
        }
        AbiInstability::MismatchedPrefixSize(pair) => both(pair, |count| {
            format!("{count} methods of the first version")
        }),
        AbiInstability::FnLifetimeMismatch(pair) | AbiInstability::FnQualifierMismatch(pair) => {
            both(pair, ToString::to_string)
        }
        other => {
            let kind = format!("{other:?}");
            let kind = kind
                .split(['(', ' ', '{'])
                .next()
                .unwrap_or_default()
                .to_owned();
            (format!("one `{kind}`"), "another".to_owned())
        }
    }
}

#[cfg(test)]
mod tests;
