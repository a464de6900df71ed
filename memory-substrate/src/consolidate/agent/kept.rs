//! What a page says, in units that may be moved and must not be lost.
//!
//! A unit is a paragraph, an item of a list with what belongs to it, a heading, or a block of code. Where its lines break, how
//! its list is marked and how deep its heading is belongs to the arrangement; its words and signs do not.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::text::citation::{marks, without_marks};
use memory_core::text::frontmatter::Frontmatter;

use crate::consolidate::rules::plain;

/// A unit and the items that it states.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unit {
    pub(super) text: String,
    pub(super) marks: Vec<String>,
}

/// Returns the units of a page, in order.
pub(super) fn units(source: &str) -> Vec<Unit> {
    let body = Frontmatter::parse(source).body();
    let mut units = Vec::new();
    let mut open = Open::default();
    for line in source[body].lines() {
        let bare = line.trim();
        let is_fence = bare.starts_with("```") || bare.starts_with("~~~");
        if open.in_code || is_fence {
            if !open.in_code {
                open.close(&mut units);
            }
            open.code(line);
            if is_fence && open.in_code {
                open.close(&mut units);
            } else {
                open.in_code = true;
            }
            continue;
        }
        if bare.is_empty() {
            open.close(&mut units);
        } else if bare.starts_with('#') {
            open.close(&mut units);
            open.text(bare.trim_start_matches('#'));
            open.close(&mut units);
        } else {
            let is_item = ["- ", "* ", "+ ", "|", ">"]
                .iter()
                .any(|mark| bare.starts_with(mark))
                || is_numbered(bare);
            if is_item {
                open.close(&mut units);
            }
            open.text(bare);
        }
    }
    open.close(&mut units);
    units
}

/// Returns what some texts say that others do not, shortened by nothing: the first such unit, if there is one.
pub(in super::super) fn lost<'a>(
    before: impl IntoIterator<Item = &'a str>,
    after: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let mut said: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for unit in after.into_iter().flat_map(units) {
        said.entry(unit.text).or_default().extend(unit.marks);
    }
    before.into_iter().flat_map(units).find_map(|unit| {
        let is_there = said
            .get(&unit.text)
            .is_some_and(|there| unit.marks.iter().all(|mark| there.contains(mark)));
        (!is_there).then_some(unit.text)
    })
}

/// A unit that is being read.
#[derive(Default)]
struct Open {
    unit: Unit,
    in_code: bool,
}

impl Open {
    /// Adds a line whose break means nothing.
    fn text(&mut self, line: &str) {
        self.marked(line);
        let bare = without_marks(line);
        let text = if self.unit.text.is_empty() {
            plain(&bare)
        } else {
            bare.trim()
        };
        for word in text.split_whitespace() {
            if !self.unit.text.is_empty() {
                self.unit.text.push(' ');
            }
            self.unit.text.push_str(word);
        }
    }

    /// Adds a line of code.
    fn code(&mut self, line: &str) {
        self.marked(line);
        self.unit.text.push_str(without_marks(line).trim_end());
        self.unit.text.push('\n');
    }

    fn marked(&mut self, line: &str) {
        let marks = marks(line).into_iter().map(|mark| mark.id.to_owned());
        self.unit.marks.extend(marks);
    }

    fn close(&mut self, units: &mut Vec<Unit>) {
        self.in_code = false;
        let unit = std::mem::take(&mut self.unit);
        if unit.text.chars().any(char::is_alphanumeric) {
            units.push(unit);
        }
    }
}

/// Returns whether a line begins like an item of a numbered list.
fn is_numbered(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && (rest.starts_with(". ") || rest.starts_with(") "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        units(source).into_iter().map(|unit| unit.text).collect()
    }

    #[test]
    fn a_unit_is_what_a_person_would_carry_elsewhere() {
        let source = "---\ntitle: x\n---\n# T\n\nOne line\nand another. ^m-1\n- 2026-11-30: tea ^m-2\n  and milk\n- x\n1. a\n```sh\nls  -l\n\n```\nafter\n\n---\n";
        assert_eq!(
            texts(source),
            [
                "T",
                "One line and another.",
                "tea and milk",
                "x",
                "1. a",
                "```sh\nls  -l\n\n```\n",
                "after"
            ]
        );
        assert_eq!(units(source)[2].marks, ["2"]);
    }

    #[test]
    fn arrangement_may_change_and_words_may_not() {
        let before = "# T\n\nOne two\nthree. ^m-1\n\n- four\n";
        for after in [
            "One two three. ^m-1\n## T\n* four\n\nmore",
            "# T\n- 2026-01-01: four\n- One two three. ^m-1 ^m-9\n",
        ] {
            assert_eq!(lost([before], [after]), None, "{after:?}");
        }
        for (after, gone) in [
            ("# T\n\nOne two\nthree.\n\n- four\n", "One two three."),
            (
                "# T\n\nOne two ^m-1\n\nthree.\n\n- four\n",
                "One two three.",
            ),
            ("# T\n\nOne two three ^m-1\n\n- four\n", "One two three."),
            ("# T\n\nOne two three. ^m-1\n", "four"),
            ("", "T"),
        ] {
            assert_eq!(lost([before], [after]).as_deref(), Some(gone), "{after:?}");
        }
        assert_eq!(lost([before, "five"], ["five", before]), None);
        assert_eq!(
            lost(["-5 degrees"], ["5 degrees"]).as_deref(),
            Some("-5 degrees")
        );
    }
}
