//! A manifest: pages that a program has made, as one JSON document.
//!
//! A program that converts another assistant's memory names the slug of each page itself, and its links rest on those
//! names. So a page gets the very slug it asks for or none, and a document that cannot mean what it says is refused whole,
//! with the place, before anything is written.

use std::collections::HashMap;

use memory_core::text::slug::Slug;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{SubstrateError, SubstrateResult};

/// One page of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestPage {
    /// The slug as it is written; whether a page may have it is found when it is taken in.
    pub slug: String,
    /// The page's whole text.
    pub content: String,
}

/// Reads a manifest: a JSON list of objects with `slug` and `content`, or an object that has such a list as `pages`.
///
/// An error says which page is wrong and how; pages are counted from 1.
pub fn parse(text: &str) -> SubstrateResult<Vec<ManifestPage>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document: Value = serde_json::from_str(text)
        .map_err(|error| refused(format!("the manifest is not JSON: {error}")))?;
    let list = match document {
        Value::Array(list) => list,
        Value::Object(mut object) => match object.remove("pages") {
            Some(Value::Array(list)) if object.is_empty() => list,
            _ => return Err(refused(SHAPE.to_owned())),
        },
        _ => return Err(refused(SHAPE.to_owned())),
    };
    let pages: Vec<ManifestPage> = list
        .into_iter()
        .enumerate()
        .map(|(index, value)| page(index + 1, value))
        .collect::<SubstrateResult<_>>()?;
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, page) in pages.iter().enumerate() {
        // Two names that are one slug would overwrite each other.
        let name =
            Slug::parse(&page.slug).map_or_else(|_| page.slug.clone(), |slug| slug.to_string());
        if let Some(first) = seen.insert(name, index + 1) {
            return Err(refused(format!(
                "pages {first} and {} both have the slug `{}`: give each its own",
                index + 1,
                page.slug
            )));
        }
    }
    Ok(pages)
}

const SHAPE: &str = "a manifest is a JSON list of objects with `slug` and `content`, or `{\"pages\": [...]}` and nothing else";

fn page(number: usize, value: Value) -> SubstrateResult<ManifestPage> {
    let Value::Object(mut object) = value else {
        return Err(refused(format!(
            "page {number} of the manifest is no object"
        )));
    };
    let mut text = |key: &str| match object.remove(key) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(refused(format!(
            "page {number} of the manifest: `{key}` is no string"
        ))),
        None => Err(refused(format!(
            "page {number} of the manifest has no `{key}`"
        ))),
    };
    let (slug, content) = (text("slug")?, text("content")?);
    if slug.trim().is_empty() {
        return Err(refused(format!(
            "page {number} of the manifest: `slug` is empty"
        )));
    }
    match object.keys().next() {
        Some(key) => Err(refused(format!(
            "page {number} of the manifest has `{key}`, which is not known: what belongs to a page is in its frontmatter"
        ))),
        None => Ok(ManifestPage { slug, content }),
    }
}

fn refused(reason: String) -> SubstrateError {
    SubstrateError::Refused { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_are_read() {
        let expected = [ManifestPage {
            slug: "people/ada".to_owned(),
            content: "# Ada\n".to_owned(),
        }];
        for text in [
            r##"[{"slug":"people/ada","content":"# Ada\n"}]"##,
            r##"{"pages":[{"content":"# Ada\n","slug":"people/ada"}]}"##,
            "\u{feff}[{\"slug\":\"people/ada\",\"content\":\"# Ada\\n\"}]",
        ] {
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        }
        assert_eq!(parse("[]").unwrap(), []);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, said) in [
            ("", "not JSON"),
            ("{", "not JSON"),
            ("3", "a JSON list"),
            (r#"{"pages":{}}"#, "a JSON list"),
            (r#"{"pages":[],"more":1}"#, "nothing else"),
            ("[3]", "page 1 of the manifest is no object"),
            (
                r#"[{"content":""}]"#,
                "page 1 of the manifest has no `slug`",
            ),
            (
                r#"[{"slug":"a"}]"#,
                "page 1 of the manifest has no `content`",
            ),
            (
                r#"[{"slug":"a","content":""},{"slug":7,"content":""}]"#,
                "page 2 of the manifest: `slug` is no string",
            ),
            (r#"[{"slug":" ","content":""}]"#, "`slug` is empty"),
            (
                r#"[{"slug":"a","content":"","title":"A"}]"#,
                "has `title`, which is not known",
            ),
            (
                r#"[{"slug":"a","content":""},{"slug":"b","content":""},{"slug":"a","content":""}]"#,
                "pages 1 and 3 both have the slug `a`",
            ),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
