//! Finding secrets: by the form that their issuers gave them, or by the words beside them.
//!
//! A form is one regular expression and as good as certain. Words are less so, and what they point at must also look
//! like a secret, which is decided in code because expressions cannot. A rule is tried only on a text that has one of the
//! strings it asks for, and one look at the text tells which rules these are. Most texts are spared nearly all of them.
//!
//! A text may have been written to keep this busy, so everything here takes time in proportion to its length: what an
//! expression can match is bounded or goes when it matches, and what was rejected is not looked at many times again.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

mod context;
mod forms;
mod looks;

/// One way to recognise secrets.
struct Rule {
    /// What the secret is.
    what: &'static str,
    /// Strings of which the text has at least one, in lower case.
    hints: &'static [&'static str],
    /// The expression. Groups named `secret…` are the secret; without one it is all that matches.
    pattern: String,
    /// Whether what was found is to be taken for a secret, and how much of it.
    accept: fn(&Found<'_>) -> Option<usize>,
}

/// What an expression found.
struct Found<'a> {
    /// What may be the secret.
    value: &'a str,
    /// Name of the group that it is.
    group: &'a str,
    /// All that matched before it.
    before: &'a str,
    /// The rest of the text.
    after: &'a str,
}

/// A secret's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Secret {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) what: &'static str,
    /// Number of the rule that knows it.
    rule: usize,
}

/// How many more names are tried within the reach of a value that was rejected. A setting may well have another in its
/// value, but hardly a row of them.
const TRIES_WITHIN: usize = 3;

struct Compiled {
    what: &'static str,
    regex: Regex,
    accept: fn(&Found<'_>) -> Option<usize>,
}

struct Engine {
    rules: Vec<Compiled>,
    hints: RegexSet,
    /// The rule of each hint.
    rule_of: Vec<usize>,
    /// The marks that stand in place of secrets.
    marks: Regex,
}

static ENGINE: LazyLock<Engine> = LazyLock::new(Engine::new);

/// Returns where secrets stand in a text, in order and without overlaps.
pub(super) fn find(text: &str) -> Vec<Secret> {
    let engine = &*ENGINE;
    if !engine.hints.is_match(text) {
        return Vec::new();
    }
    // What was redacted before divides the text: no rule may take a mark for a secret.
    let mut found = Vec::new();
    let mut start = 0;
    for mark in engine.marks.find_iter(text) {
        engine.find(text, start..mark.start(), &mut found);
        start = mark.end();
    }
    engine.find(text, start..text.len(), &mut found);
    found
}

/// Returns secrets in order and without overlaps.
pub(super) fn merged(mut secrets: Vec<Secret>) -> Vec<Secret> {
    secrets.sort_unstable_by_key(|secret| (secret.start, secret.rule));
    let mut apart: Vec<Secret> = Vec::with_capacity(secrets.len());
    for secret in secrets {
        match apart.last_mut() {
            Some(known) if secret.start < known.end => {
                known.end = known.end.max(secret.end);
                // The rule that stands first says best what it is.
                if secret.rule < known.rule {
                    (known.what, known.rule) = (secret.what, secret.rule);
                }
            }
            _ => apart.push(secret),
        }
    }
    apart
}

/// Returns what stands in place of a secret.
pub(super) fn mark(what: &str) -> String {
    format!("[redacted: {what}]")
}

impl Engine {
    fn new() -> Self {
        let rules: Vec<Rule> = forms::rules().into_iter().chain(context::rules()).collect();
        let (mut hints, mut rule_of) = (Vec::new(), Vec::new());
        for (number, rule) in rules.iter().enumerate() {
            hints.extend(rule.hints.iter().map(|hint| regex::escape(hint)));
            rule_of.extend(rule.hints.iter().map(|_| number));
        }
        let mut names: Vec<String> = rules.iter().map(|rule| regex::escape(rule.what)).collect();
        names.sort_unstable();
        names.dedup();
        let built = "the rules are fixed, and a test builds them";
        Self {
            hints: RegexSetBuilder::new(hints)
                .case_insensitive(true)
                .build()
                .expect(built),
            rule_of,
            marks: Regex::new(&format!(r"\[redacted: (?:{})\]", names.join("|"))).expect(built),
            rules: rules
                .into_iter()
                .map(|rule| Compiled {
                    what: rule.what,
                    regex: RegexBuilder::new(&rule.pattern).build().expect(built),
                    accept: rule.accept,
                })
                .collect(),
        }
    }

    fn find(&self, text: &str, range: Range<usize>, found: &mut Vec<Secret>) {
        let part = &text[range.clone()];
        let mut wanted: Vec<usize> = self
            .hints
            .matches(part)
            .into_iter()
            .map(|hint| self.rule_of[hint])
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut secrets = Vec::new();
        for number in wanted {
            let rule = &self.rules[number];
            let spans = rule.spans(part).into_iter();
            secrets.extend(spans.map(|span| Secret {
                start: range.start + span.start,
                end: range.start + span.end,
                what: rule.what,
                rule: number,
            }));
        }
        found.append(&mut merged(secrets));
    }
}

impl Compiled {
    fn spans(&self, text: &str) -> Vec<Range<usize>> {
        let mut spans = Vec::new();
        // Where the text begins for the expression, and where it looks on.
        let (mut start, mut at) = (0, 0);
        // How far the value reaches that was rejected, and how many more were rejected within it.
        let (mut reach, mut tries) = (0, 0);
        while let Some(captures) = self.regex.captures_at(&text[start..], at - start) {
            let groups = self.regex.capture_names().enumerate();
            let named = groups
                .filter_map(|(index, name)| Some((captures.get(index)?, name?)))
                .find(|(_, name)| name.starts_with("secret"));
            let Some(all) = captures.get(0) else {
                break;
            };
            let (value, group) = named.unwrap_or((all, ""));
            let (first, begin, end) = (
                start + all.start(),
                start + value.start(),
                start + value.end(),
            );
            let found = Found {
                value: value.as_str(),
                group,
                before: &text[first..begin],
                after: &text[end..],
            };
            match (self.accept)(&found) {
                Some(length) if length > 0 => {
                    spans.push(begin..begin + length);
                    at = begin + length;
                    // There will be a mark before it, and the next secret may stand right behind that.
                    start = at;
                }
                _ => {
                    if first < reach {
                        tries += 1;
                    } else {
                        (reach, tries) = (end, 0);
                    }
                    // What was passed over may hold another match, such as a second name with a value.
                    at = next_start(text, first..start + all.end());
                    if tries >= TRIES_WITHIN {
                        at = at.max(reach);
                    }
                }
            }
            if at > text.len() {
                break;
            }
        }
        spans
    }
}

/// Returns where to look on after a match that was none: after the first word of it.
fn next_start(text: &str, passed: Range<usize>) -> usize {
    let word_end = text[passed.clone()]
        .char_indices()
        .skip(1)
        .find(|(_, character)| !character.is_alphanumeric())
        .map_or(passed.len(), |(at, _)| at);
    let mut at = passed.start + word_end.max(1);
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests;
