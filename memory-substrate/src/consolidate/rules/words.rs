//! Words as the rules compare them.

use memory_core::text::citation::without_marks;

use crate::segment::analyze;

/// Words that say nothing of what a text is about, in the languages that are most often written, lower case.
#[rustfmt::skip]
const COMMON: &[&str] = &[
    "a", "about", "after", "all", "also", "always", "an", "and", "any", "are", "as", "at", "be", "been",
    "before", "but", "by", "can", "did", "do", "does", "every", "for", "from", "had", "has", "have", "he",
    "her", "here", "hers", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "like",
    "likes", "may", "me", "more", "most", "must", "my", "never", "new", "next", "no", "not", "now", "of", "on",
    "only", "or", "our", "out", "over", "please", "she", "should", "since", "so", "some", "than", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "to", "today", "tomorrow", "too",
    "under", "until", "up", "us", "use", "uses", "very", "was", "we", "were", "what", "when", "where", "which",
    "while", "who", "why", "will", "with", "would", "yesterday", "yet", "you", "your", "january", "february",
    "march", "april", "june", "july", "august", "september", "october", "november", "december", "monday",
    "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "remember", "note", "notes", "aber",
    "als", "am", "auch", "auf", "aus", "bei", "bin", "bis", "da", "das", "dass", "dem", "den", "der", "des",
    "die", "ein", "eine", "einem", "einen", "einer", "er", "es", "fur", "hat", "ich", "ihr", "im", "ist",
    "mein", "meine", "mit", "nach", "nicht", "noch", "nur", "oder", "sich", "sie", "sind", "um", "und", "uns",
    "unser", "unsere", "vom", "von", "vor", "war", "wenn", "wie", "wir", "wird", "zu", "zum", "zur", "au",
    "aux", "avec", "ce", "ces", "dans", "de", "du", "elle", "en", "est", "et", "il", "je", "la", "le", "les",
    "mais", "mon", "ne", "nous", "ou", "par", "pas", "pour", "que", "qui", "sa", "son", "sur", "un", "une",
    "vous", "con", "del", "el", "esta", "los", "las", "mi", "para", "pero", "por", "se", "su", "una", "y", "yo",
];

/// Returns whether a word, in its compared form, says nothing of what a text is about.
pub(super) fn is_common(word: &str) -> bool {
    COMMON.contains(&word)
}

/// Returns the words of a text that say something of what it is about.
pub(super) fn telling(text: &str) -> Vec<String> {
    let words = analyze(text).into_iter();
    words.filter(|word| !is_common(word)).collect()
}

/// Returns the words of a statement, without bullet, date and marks: two with the same words may still differ in a sign.
pub(super) fn statement(line: &str) -> String {
    analyze(plain(&without_marks(line))).join(" ")
}

/// Returns what a line of an entry says, in the form in which it is compared with lines of pages: every sign counts. Only
/// blanks, the case of the first letter and the stop at its end do not.
pub(super) fn said(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_end_matches(['.', '。']);
    let mut signs = line.chars();
    match signs.next() {
        Some(first) => first.to_lowercase().chain(signs).collect(),
        None => String::new(),
    }
}

/// Returns what a line of a page says as a whole, and, if it begins with a day as we put one before an entry, that day with
/// what stands behind it. The bullet and the marks do not count.
pub(super) fn stated(line: &str) -> (String, Option<(String, String)>) {
    let line = without_marks(line);
    let line = without_bullet(&line);
    let dated = line
        .split_once(": ")
        .filter(|(day, _)| is_day(day))
        .map(|(day, rest)| (day.to_owned(), said(rest)));
    (said(line), dated)
}

/// Returns a line without its bullet and the date that we put before an entry.
pub(in super::super) fn plain(line: &str) -> &str {
    let line = without_bullet(line);
    match line.split_once(": ") {
        Some((day, rest)) if is_day(day) => rest,
        _ => line,
    }
}

fn without_bullet(line: &str) -> &str {
    let line = line.trim();
    ["- ", "* ", "+ "]
        .iter()
        .find_map(|bullet| line.strip_prefix(bullet))
        .unwrap_or(line)
        .trim()
}

/// Returns whether a text has the shape of `2026-11-30`.
pub(super) fn is_day(text: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00";
    text.len() == SHAPE.len()
        && text.bytes().zip(SHAPE).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            _ => byte == *shape,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_can_make_another_statement() {
        let page = stated("- 2026-11-30: Nora writes C.  ^m-1");
        assert_eq!(
            page.1,
            Some(("2026-11-30".to_owned(), said("nora writes C")))
        );
        for (one, other) in [
            ("Nora writes C", "Nora writes C++"),
            ("it has 5 °C", "it has -5 °C"),
            ("Nora eats meat", "~~Nora eats meat~~"),
            ("the resume", "the résumé"),
            ("Polish is hard", "polish it hard"),
            ("ready?", "ready"),
        ] {
            assert_ne!(said(one), said(other));
        }
        assert_eq!(stated("paid rent"), (said("Paid  rent."), None));
    }

    #[test]
    fn a_statement_is_its_words() {
        let wanted = "nora is allergic to hazelnuts";
        for line in [
            "Nora is allergic to hazelnuts.",
            "- Nora is allergic to hazelnuts ^m-1",
            "* 2026-11-30: nora is **allergic** to hazelnuts! ^m-1 ^m-2",
        ] {
            assert_eq!(statement(line), wanted, "{line}");
        }
        assert_eq!(plain("- at 9: tea"), "at 9: tea");
        assert_eq!(
            telling("The roaster is in the cellar"),
            ["roaster", "cellar"]
        );
    }
}
