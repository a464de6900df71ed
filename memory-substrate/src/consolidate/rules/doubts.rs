//! Statements that may not both be so. Both stay; a person decides.
//!
//! Only what is plain is told of: the same sentence with a negation, or with one word changed. Everything else would be
//! guessing, and a list that is mostly wrong is not read.

use memory_core::text::slug::Slug;

use super::shelf::Shelf;
use super::words::{is_common, statement};
use crate::consolidate::batch::Entry;
use crate::consolidate::check::shortened;
use crate::consolidate::filing::Doubt;

/// Fewest words of a sentence whose one changed word is told of.
const FEWEST_WORDS: usize = 4;

/// Words that turn a sentence round, in the form in which words are compared.
const NEGATIONS: &[&str] = &[
    "not", "no", "never", "cannot", "n't", "nicht", "kein", "keine", "keinen", "nie", "pas",
    "jamais", "nunca", "don't", "doesn't", "isn't", "won't", "can't", "aren't", "wasn't",
];

/// Returns what a page says against an entry.
pub(super) fn found(shelf: &Shelf<'_>, page: &Slug, entry: &Entry) -> Vec<Doubt> {
    let new = statement(entry.content.lines().next().unwrap_or_default());
    let new: Vec<&str> = new.split(' ').collect();
    let against = |line: &str| {
        let old = statement(line);
        let old: Vec<&str> = old.split(' ').collect();
        why(&new, &old)
    };
    shelf
        .lines(page)
        .into_iter()
        .filter_map(|line| {
            Some(Doubt {
                entry: entry.id.clone(),
                page: page.clone(),
                why: against(&line)?.to_owned(),
                statement: shortened(line.trim()),
            })
        })
        .collect()
}

fn why(new: &[&str], old: &[&str]) -> Option<&'static str> {
    let is_negation = |word: &&str| NEGATIONS.contains(word);
    let without = |words: &[&str]| -> Vec<String> {
        let kept = words.iter().filter(|word| !is_negation(word));
        kept.map(|word| (*word).to_owned()).collect()
    };
    let negated = |words: &[&str]| words.iter().any(is_negation);
    if negated(new) != negated(old) && without(new) == without(old) && without(new).len() > 1 {
        return Some("one says the opposite of the other");
    }
    if new.len() != old.len() || new.len() < FEWEST_WORDS {
        return None;
    }
    let mut differing = new.iter().zip(old).filter(|(new, old)| new != old);
    let (new, old) = differing.next()?;
    let is_one = differing.next().is_none();
    (is_one && !is_common(new) && !is_common(old)).then_some("they differ in one word")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_plain_is_told_of() {
        let check = |new: &str, old: &str| {
            let (new, old) = (statement(new), statement(old));
            let (new, old): (Vec<_>, Vec<_>) = (new.split(' ').collect(), old.split(' ').collect());
            why(&new, &old)
        };
        assert!(check("The restore is on Friday 14", "The restore is on Friday 15").is_some());
        assert!(check("Nora does not eat nuts", "Nora does eat nuts").is_some());
        assert!(check("Nora eats nuts", "Nora eats nuts").is_none());
        assert!(check("Nora eats nuts", "Nora drinks tea").is_none());
        assert!(check("Nora eats it", "Nora eats them").is_none());
        assert!(check("Nora lives in Leith", "Nora lives in Porto").is_some());
    }
}
