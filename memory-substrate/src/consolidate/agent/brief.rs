//! What a model is told: its instruction, the notes, and what is wrong with pages.
//!
//! Everything that comes from notes and pages stands on lines of JSON or on one line without marks, so that none of it can
//! pass for a part of the message.

use std::fmt::Write as _;

use memory_core::text::slug::Slug;
use serde_json::json;

use super::desk::Desk;
use crate::consolidate::check::shortened;

const INSTRUCTION: &str = include_str!("prompt.md");

/// Pages told in the first message; the others are found with the tools.
const PAGES: usize = 150;

/// Faults and links that lead nowhere told in the first message.
const DEFECTS: usize = 40;

/// Returns what a model is told before anything else.
pub(super) fn instruction(given: Option<&str>, longest: usize) -> String {
    given
        .unwrap_or(INSTRUCTION)
        .replace("{{LONGEST}}", &longest.to_string())
}

/// Returns the first message.
pub(super) fn opening(desk: &Desk) -> String {
    let mut text = String::new();
    let mut pages: Vec<&Slug> = desk.pages().map(|(slug, _)| slug).collect();
    pages.sort();
    let _ = writeln!(text, "There are {} pages.", pages.len());
    if !pages.is_empty() && pages.len() <= PAGES {
        text.push_str(&desk.list(None));
    }
    defects(desk, &pages, &mut text);
    let _ = writeln!(
        text,
        "\nThe notes of this batch, oldest first, one on a line, as JSON. `suggestion` is where they would go by simple rules.\n"
    );
    for (entry, suggestion) in desk.entries.iter().zip(&desk.suggestions) {
        let line = json!({
            "note": entry.id,
            "day": entry.day,
            "text": entry.content,
            "suggestion": suggestion,
        });
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns what a model is told when its work does not hold yet.
pub(super) fn refusal(problems: &[String]) -> String {
    let mut text = "Not yet. What does not hold:\n".to_owned();
    for problem in problems {
        let _ = writeln!(text, "- {}", one_line(problem));
    }
    text
}

/// Tells what is wrong with the pages, so that it can be mended along the way.
fn defects(desk: &Desk, pages: &[&Slug], text: &mut String) {
    let index = &desk.material.index;
    let is_here = |slug: &Slug| pages.binary_search(&slug).is_ok();
    let mut told: Vec<String> = index
        .faults()
        .filter(|(page, _)| is_here(&page.slug))
        .map(|(page, fault)| format!("`{}`, line {}: {}", page.slug, fault.line, fault.message))
        .collect();
    let links = index.dangling().iter().filter(|link| is_here(&link.from));
    told.extend(links.map(|link| {
        format!(
            "`{}` links to {}, which is no page",
            link.from,
            shortened(&link.target)
        )
    }));
    if told.is_empty() {
        return;
    }
    text.push_str("\nWhat is wrong with pages; mend it where the notes lead you there anyway:\n");
    let more = told.len().saturating_sub(DEFECTS);
    for line in told.iter().take(DEFECTS) {
        let _ = writeln!(text, "- {}", one_line(line));
    }
    if more > 0 {
        let _ = writeln!(text, "- and {more} more");
    }
}

/// Returns a text as one line of a list.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = line.chars().take(LONGEST).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short.replace('`', "'")
}
