//! Reading what a model calls a tool with.

use memory_core::text::slug::Slug;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Says what is wrong with a call, for the model.
pub(super) type Answered<T> = Result<T, String>;

/// Arguments of `list`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// The page after which to go on.
    #[serde(default)]
    pub(super) after: Option<String>,
}

/// Arguments of `search`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    pub(super) query: String,
}

/// Arguments of `read`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    pub(super) page: String,
}

/// Arguments of `write`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Write {
    pub(super) page: String,
    pub(super) text: String,
}

/// Arguments of `edit`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    pub(super) page: String,
    pub(super) old: String,
    pub(super) new: String,
}

/// Arguments of `file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) note: String,
    /// A page that is there.
    #[serde(default)]
    pub(super) page: Option<String>,
    /// The title of one that is to be begun.
    #[serde(default)]
    pub(super) title: Option<String>,
}

/// Arguments of `done`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Done {
    #[serde(default)]
    pub(super) doubts: Vec<Doubt>,
}

/// Two statements that may not both be so.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Doubt {
    pub(super) note: String,
    pub(super) page: String,
    pub(super) statement: String,
    pub(super) why: String,
}

/// Reads the arguments of a call.
pub(super) fn read<T: DeserializeOwned>(arguments: &Value) -> Answered<T> {
    T::deserialize(arguments).map_err(|error| format!("these arguments cannot be read: {error}"))
}

/// Reads the name of a page.
pub(super) fn page(name: &str) -> Answered<Slug> {
    let name = name.trim().trim_start_matches("[[").trim_end_matches("]]");
    let name = name.strip_suffix(".md").unwrap_or(name);
    let slug = Slug::parse(name).map_err(|error| format!("there is no such page: {error}"))?;
    if slug.is_reserved() {
        return Err(format!("`{slug}` is not a page that can be written"));
    }
    Ok(slug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_have_names() {
        assert_eq!(page("[[people/nora]]"), Ok(Slug::from_path("people/nora")));
        assert_eq!(page("nora.md"), Ok(Slug::from_title("nora")));
        for name in [
            "../buffer",
            "/etc/passwd",
            "",
            "skills/x",
            "a/../b",
            "C:\\x",
            "Buffer File",
        ] {
            assert!(page(name).is_err(), "{name}");
        }
    }
}
