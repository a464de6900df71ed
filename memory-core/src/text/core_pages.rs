//! `memory/core-pages.md`: the pages that a person wants always in reach, one to a list item.
//!
//! The file is a person's and is never edited by us. So prose around the list is welcome: whatever is not an item
//! with exactly one name at its front is passed over.

use std::collections::HashSet;

use super::links::parse_wikilink;
use super::slug::Slug;

/// Signs that introduce a note after a bare slug.
const DASHES: [&str; 3] = ["—", "–", "-"];

/// Holds one entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorePage {
    /// The page as it is named; a resolver says which one it is.
    pub target: String,
    /// What the person noted about it.
    pub note: Option<String>,
}

/// Returns the entries in the order of the file, each target once.
///
/// Entries are `- [[target]] note` and `- slug`, the latter alone or with a note after a dash.
#[must_use]
pub fn parse(text: &str) -> Vec<CorePage> {
    let mut seen = HashSet::new();
    text.lines()
        .filter_map(parse_item)
        .filter(|page| seen.insert(page.target.clone()))
        .collect()
}

fn parse_item(line: &str) -> Option<CorePage> {
    let item = line.trim().strip_prefix(['-', '*', '+'])?;
    let item = item.strip_prefix([' ', '\t'])?.trim_start();
    if let Some(rest) = item.strip_prefix("[[") {
        let (inner, note) = rest.split_once("]]")?;
        return Some(CorePage {
            target: parse_wikilink(inner)?.target,
            note: note_of(note),
        });
    }
    let (slug, note) = item.split_once(char::is_whitespace).unwrap_or((item, ""));
    let note = note.trim_start();
    if Slug::parse(slug).is_err() || !(note.is_empty() || note.starts_with(DASHES.map(first))) {
        return None;
    }
    Some(CorePage {
        target: slug.to_owned(),
        note: note_of(note),
    })
}

/// Returns a note without the dash before it.
fn note_of(text: &str) -> Option<String> {
    let text = text.trim();
    let note = DASHES
        .iter()
        .find_map(|dash| text.strip_prefix(dash))
        .unwrap_or(text)
        .trim();
    (!note.is_empty()).then(|| note.to_owned())
}

fn first(dash: &str) -> char {
    dash.chars().next().unwrap_or('-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn items_with_one_name_count_and_prose_does_not() {
        let text = "# Core\n\nPages I need:\n- [[people/alice|Alice]] my wife\n- projects/strata — the work\n* home\r\n  - [[My Note#x]]\n\
                    - home - again\n- buy some milk\n- Note this\n-none\n- [[ ]]\n- [[open\n- a/b - c\n- 大语言模型 – d\n-\n";
        let shown: Vec<_> = parse(text)
            .into_iter()
            .map(|page| (page.target, page.note.unwrap_or_default()))
            .collect();
        let expected = [
            ("people/alice", "my wife"),
            ("projects/strata", "the work"),
            ("home", ""),
            ("My Note", ""),
            ("a/b", "c"),
            ("大语言模型", "d"),
        ];
        assert_eq!(
            shown,
            expected.map(|(target, note)| (target.to_owned(), note.to_owned()))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn never_panics(text in "([-*] |\\[\\[|\\]\\]|[a—–\n -])*|\\PC{0,40}") {
            prop_assert!(parse(&text).iter().all(|page| !page.target.is_empty()));
        }
    }
}
