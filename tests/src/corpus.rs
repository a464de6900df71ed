//! Made-up corpora of any size, the same for the same seed.
//!
//! Words are drawn with a frequency that falls with their rank, as in real text, so that postings lists have realistic
//! lengths: a few very long ones and many short ones.

use std::fmt::Write as _;
use std::path::Path;

use memory_core::env::{Rng as _, SeededRng};

/// Sections on a made page, the lead included.
pub const SECTIONS: usize = 5;

/// Words in a made section.
const WORDS: usize = 60;

/// Different words in a made corpus.
const VOCABULARY: u64 = 30_000;

/// Makes pages, questions and folders of them.
#[derive(Debug)]
pub struct Maker {
    rng: SeededRng,
}

impl Maker {
    /// Returns the maker of a seed.
    pub const fn new(seed: u64) -> Self {
        Self {
            rng: SeededRng::new(seed),
        }
    }

    /// Returns the text of a page, linked to three pages with lower numbers.
    pub fn page(&self, number: usize) -> String {
        let day = 1 + number % 28;
        let mut page = format!(
            "---\ntitle: Page {number}\norigin_date: 2026-{:02}-{day:02}\n---\n\n",
            1 + number % 11
        );
        self.sentence(&mut page, WORDS);
        for link in 0..3_u64.min(number as u64) {
            let target = self.below(number as u64);
            write!(
                page,
                "[[page-{target}]]{}",
                if link == 2 { "\n" } else { " " }
            )
            .expect("a string takes any text");
        }
        for section in 1..SECTIONS {
            write!(page, "\n## {} {section}\n\n", self.word()).expect("a string takes any text");
            self.sentence(&mut page, WORDS);
        }
        page
    }

    /// Returns a question of some twelve words.
    pub fn question(&self) -> String {
        let mut question = String::new();
        self.sentence(&mut question, 12);
        question.trim_end().to_owned()
    }

    /// Writes that many pages into a folder, a hundred to a sub-folder.
    pub fn folder(&self, folder: &Path, pages: usize) -> std::io::Result<()> {
        for number in 0..pages {
            let place = folder.join(format!("part-{:03}", number / 100));
            if number % 100 == 0 {
                std::fs::create_dir_all(&place)?;
            }
            std::fs::write(place.join(format!("page-{number}.md")), self.page(number))?;
        }
        Ok(())
    }

    fn sentence(&self, into: &mut String, words: usize) {
        for word in 0..words {
            into.push_str(&self.word());
            into.push(if word + 1 == words { '\n' } else { ' ' });
        }
    }

    /// Returns a word: the product of two uniform draws prefers low ranks.
    fn word(&self) -> String {
        let rank = self.below(VOCABULARY) * self.below(VOCABULARY) / VOCABULARY;
        let mut word = String::new();
        let mut rest = rank + 20;
        while rest > 0 {
            let syllable = usize::try_from(rest % 20).unwrap_or_default();
            word.push_str(SYLLABLES[syllable]);
            rest /= 20;
        }
        word
    }

    fn below(&self, limit: u64) -> u64 {
        self.rng.next_u64() % limit.max(1)
    }
}

const SYLLABLES: [&str; 20] = [
    "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "qui", "ro", "su",
    "ta", "ve", "wi", "xo", "zu",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_pages() {
        assert_eq!(Maker::new(7).page(40), Maker::new(7).page(40));
        assert_ne!(Maker::new(7).page(40), Maker::new(8).page(40));
        assert_eq!(
            Maker::new(7).page(40).matches("\n## ").count(),
            SECTIONS - 1
        );
    }
}
