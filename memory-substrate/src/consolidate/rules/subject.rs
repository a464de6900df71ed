//! What an entry is about, for the title of a page that does not exist yet.
//!
//! A name is what people look for later, so that comes first: what is quoted, then what is written like a name. Whatever has
//! neither goes to a page of its month, because one page for each loose remark would be found by nobody.

use unicode_segmentation::UnicodeSegmentation as _;

use super::words::is_common;
use crate::segment::analyze;

/// Words of a name, at most.
const LONGEST_NAME: usize = 4;

/// Characters of a title, at most.
const LONGEST_TITLE: usize = 60;

/// Pairs of marks between which a name is quoted.
const QUOTES: [(char, char); 5] = [('"', '"'), ('“', '”'), ('„', '“'), ('«', '»'), ('`', '`')];

/// Returns the name that an entry is about.
pub(super) fn of(content: &str) -> Option<String> {
    let line = content.lines().next()?;
    quoted(line).or_else(|| named(line))
}

/// Returns the title of the page for loose remarks of a month.
pub(super) fn of_the_month(day: &str) -> String {
    match day.get(..7) {
        Some(month) => format!("Notes {month}"),
        None => "Notes".to_owned(),
    }
}

fn quoted(line: &str) -> Option<String> {
    QUOTES.iter().find_map(|(open, close)| {
        let (_, rest) = line.split_once(*open)?;
        let (name, _) = rest.split_once(*close)?;
        let words = name.split_whitespace().count();
        let is_a_name = (1..=LONGEST_NAME).contains(&words)
            && name.chars().count() <= LONGEST_TITLE
            && name.chars().any(char::is_alphabetic)
            && !name.contains(['[', ']', '/', '\\', '#', '|', '^']);
        is_a_name.then(|| name.split_whitespace().collect::<Vec<_>>().join(" "))
    })
}

/// Returns the first run of words that are written like a name. At the front of a sentence any word is written so, and
/// counts only if it is no common one; names in the middle come first.
fn named(line: &str) -> Option<String> {
    let mut runs: Vec<Run> = Vec::new();
    let mut open: Option<Run> = None;
    let mut at_front = true;
    for part in line.split_word_bounds() {
        if part.chars().all(char::is_whitespace) {
            continue;
        }
        if !part.chars().any(char::is_alphanumeric) {
            // A hyphen glues, anything else ends a name.
            if !matches!(part, "-" | "&") {
                runs.extend(open.take());
            }
            at_front = matches!(part, "." | "!" | "?" | ":" | "。");
            continue;
        }
        let is_name = part.chars().next().is_some_and(char::is_uppercase)
            && !analyze(part).iter().all(|word| is_common(word));
        if is_name {
            let run = open.get_or_insert(Run {
                words: Vec::new(),
                at_front,
            });
            run.words.push(part);
            if run.words.len() == LONGEST_NAME {
                runs.extend(open.take());
            }
        } else {
            runs.extend(open.take());
        }
        at_front = false;
    }
    runs.extend(open);
    let best = runs
        .iter()
        .find(|run| run.words.len() > 1)
        .or_else(|| runs.iter().find(|run| !run.at_front))
        .or_else(|| runs.first())?;
    let title = best.words.join(" ");
    (title.chars().count() > 1 && title.chars().count() <= LONGEST_TITLE).then_some(title)
}

struct Run<'a> {
    words: Vec<&'a str>,
    at_front: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_about_its_name() {
        for (content, wanted) in [
            ("Nora is allergic to hazelnuts.", Some("Nora")),
            ("Nora Weiss lives in Leith", Some("Nora Weiss")),
            ("The roaster \"Frieda\" needs new belts", Some("Frieda")),
            ("My sister lives in Lisbon.", Some("Lisbon")),
            ("Der Röster steht im Keller", Some("Röster")),
            ("we meet on Monday at nine", None),
            ("use the 2.3 branch for `deploy-tool`", Some("deploy-tool")),
            ("buy more tea", None),
            ("", None),
        ] {
            assert_eq!(of(content).as_deref(), wanted, "{content}");
        }
        assert_eq!(of_the_month("2026-11-30"), "Notes 2026-11");
        assert_eq!(of_the_month(""), "Notes");
    }
}
