//! Cuts text into the tokens of the keyword index, the same way for pages and for questions.
//!
//! One function serves both sides, so a text always finds itself. Text is normalised (NFKC) and lower-cased, then cut
//! by the Unicode word rules. Runs of scripts that write no spaces become overlapping pairs of characters, which needs
//! no dictionary and finds every word of two or more. What a word is glued from (`snake_case`, `20.04`, `a.b`) is
//! given beside the whole. Latin and Greek words lose their accents, so `uber` finds `über`; giving both forms instead
//! was measured and ranks worse in German and Spanish, because it counts the accented words of a question twice.
//!
//! Query text is only ever text: no character has a special meaning, and no input is an error.
//!
//! # Limitations
//!
//! Words are not stemmed. Words that differ in accents only are one word. A single character of a paired script finds only places where it stands alone.

mod ascii;
mod script;

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfkc_quick};
use unicode_segmentation::UnicodeSegmentation as _;

/// Identifies these rules. It is stored beside an index, and an index of another version is rebuilt.
pub const SEGMENTATION_VERSION: &str = "words-pairs/1+unicode-17.0";

/// Characters after which a token is cut.
pub const MAX_TOKEN_CHARS: usize = 40;

/// Returns the tokens of a text in order.
pub fn analyze(text: &str) -> Vec<String> {
    let mut tokens = Vec::with_capacity(text.len() / 6);
    for_each_token(text, |token| tokens.push(token.to_owned()));
    tokens
}

/// Returns the tokens of a text joined by single spaces, which is what a keyword index of whole words stores.
pub fn index_text(text: &str) -> String {
    let mut joined = String::with_capacity(text.len() + text.len() / 8);
    for_each_token(text, |token| {
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(token);
    });
    joined
}

/// Calls `emit` with every token of a text in order, without allocating for each.
pub fn for_each_token(text: &str, emit: impl FnMut(&str)) {
    let mut segmenter = Segmenter {
        emit,
        word: String::new(),
        folded: String::new(),
    };
    // No word and no normalisation reaches across a line end, so each line takes the cheapest way that fits it.
    for line in text.split('\n') {
        if line.is_ascii() {
            segmenter.ascii(line);
        } else {
            segmenter.unicode(line);
        }
    }
}

struct Segmenter<F> {
    emit: F,
    word: String,
    folded: String,
}

impl<F: FnMut(&str)> Segmenter<F> {
    fn ascii(&mut self, text: &str) {
        ascii::words(text, |word, plain| {
            if plain && word.bytes().any(|byte| byte.is_ascii_uppercase()) {
                self.word.clear();
                self.word.push_str(word);
                self.word.make_ascii_lowercase();
                (self.emit)(cut(&self.word));
            } else if plain {
                (self.emit)(cut(word));
            } else {
                self.compound(word);
            }
        });
    }

    fn unicode(&mut self, text: &str) {
        let text: Cow<'_, str> = match is_nfkc_quick(text.chars()) {
            IsNormalized::Yes => Cow::Borrowed(text),
            _ => Cow::Owned(text.nfkc().collect()),
        };
        let mut rest = &*text;
        while let Some(first) = rest.chars().next() {
            let paired = script::is_paired(first);
            let end = rest
                .find(|character| script::is_paired(character) != paired)
                .unwrap_or(rest.len());
            let (run, tail) = rest.split_at(end);
            rest = tail;
            if paired {
                self.pairs(run);
            } else if run.is_ascii() {
                self.ascii(run);
            } else {
                for word in run.unicode_words() {
                    self.compound(word);
                }
            }
        }
    }

    /// Emits every two neighbours of a run, or its only character.
    fn pairs(&mut self, run: &str) {
        let mut previous = None;
        for (start, character) in run.char_indices() {
            let end = start + character.len_utf8();
            match previous {
                Some(first) => (self.emit)(&run[first..end]),
                None if end == run.len() => (self.emit)(run),
                None => {}
            }
            previous = Some(start);
        }
    }

    /// Emits a word, and its parts if it is glued from several.
    fn compound(&mut self, source: &str) {
        let mut word = std::mem::take(&mut self.word);
        word.clear();
        for character in source
            .chars()
            .filter(|character| !script::is_ignored(*character))
        {
            match character {
                '\u{2019}' => word.push('\''),
                // The end form of sigma is not a letter of its own.
                'ς' => word.push('σ'),
                _ => word.extend(character.to_lowercase()),
            }
        }
        let whole = word.trim_matches(|character| !script::is_word(character));
        if whole.contains(|character: char| !script::is_word(character) && character != '\'') {
            self.token(whole);
        }
        let mut after_apostrophe = false;
        for part in whole.split_inclusive(|character| !script::is_word(character)) {
            let (part, joiner) = match part.char_indices().next_back() {
                Some((at, last)) if !script::is_word(last) => (&part[..at], Some(last)),
                _ => (part, None),
            };
            // The possessive `'s` says nothing about the word it follows.
            if !(after_apostrophe && part == "s") && part.contains(char::is_alphanumeric) {
                self.token(part);
            }
            after_apostrophe = joiner == Some('\'');
        }
        self.word = word;
    }

    fn token(&mut self, token: &str) {
        if token.is_ascii() {
            (self.emit)(cut(token));
        } else {
            script::fold(cut(token), &mut self.folded);
            (self.emit)(cut(&self.folded));
        }
    }
}

fn cut(token: &str) -> &str {
    if token.len() <= MAX_TOKEN_CHARS {
        return token;
    }
    token
        .char_indices()
        .nth(MAX_TOKEN_CHARS)
        .map_or(token, |(end, _)| &token[..end])
}

#[cfg(test)]
mod tests;
