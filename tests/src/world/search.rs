//! Deterministic searches over the story: no model, no tables, the same answer to the same question everywhere.

use std::collections::BTreeMap;

use memory_core::services::LexicalQuery;

/// Length of a vector of this world.
pub(super) const DIMS: usize = 16;

/// Returns the words of a text in lower case.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Returns a text as a vector of length one: each word counts in the place that its letters give it.
pub(super) fn embed(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0_f32; DIMS];
    for word in words(text) {
        let sum = word.bytes().fold(7_usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        vector[sum % DIMS] += 1.0;
    }
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length > 0.0 {
        for value in &mut vector {
            *value /= length;
        }
    }
    vector
}

pub(super) fn cosine(left: &[f32], right: &[f32]) -> f32 {
    left.iter()
        .zip(right)
        .map(|(left, right)| left * right)
        .sum()
}

/// Terms and in how many of the sections they occur.
pub(super) struct Terms {
    sections: f32,
    frequency: BTreeMap<String, f32>,
}

impl Terms {
    pub(super) fn of<'a>(texts: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut terms = Self {
            sections: 0.0,
            frequency: BTreeMap::new(),
        };
        for (head, body) in texts {
            terms.sections += 1.0;
            let mut own = words(head);
            own.extend(words(body));
            own.sort_unstable();
            own.dedup();
            for word in own {
                *terms.frequency.entry(word).or_default() += 1.0;
            }
        }
        terms
    }

    pub(super) fn idf(&self, word: &str) -> f32 {
        let frequency = self.frequency.get(word).copied().unwrap_or(0.0);
        ((self.sections + 1.0) / (frequency + 0.5)).ln().max(0.05)
    }

    /// Scores one section in the manner of BM25, without length.
    pub(super) fn score(&self, query: &LexicalQuery, head: &str, body: &str) -> f32 {
        let (head, body) = (words(head), words(body));
        let mut asked = words(&query.text);
        asked.sort_unstable();
        asked.dedup();
        let mut score = 0.0;
        for word in &asked {
            let count = |among: &[String]| {
                let count = among.iter().filter(|own| *own == word).count();
                f32::from(u16::try_from(count).unwrap_or(u16::MAX))
            };
            let weight = query.head_weight * count(&head) + query.body_weight * count(&body);
            if weight > 0.0 {
                score += self.idf(word) * weight / (weight + query.k1.max(0.0));
            }
        }
        score
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> LexicalQuery {
        LexicalQuery {
            text: text.to_owned(),
            head_weight: 2.0,
            body_weight: 1.0,
            k1: 1.2,
            b: 0.75,
            limit: 10,
            best_per_page: false,
        }
    }

    #[test]
    fn rare_words_and_heads_count_more() {
        let texts = [("head", "common rare"), ("", "common"), ("", "common")];
        let terms = Terms::of(texts.into_iter());
        let rare = terms.score(&query("rare"), "", "rare");
        assert!(rare > terms.score(&query("common"), "", "common"));
        assert!(terms.score(&query("rare"), "rare", "") > rare);
        assert!(terms.score(&query("none"), "head", "common").abs() < f32::EPSILON);
    }

    #[test]
    fn equal_texts_are_nearest() {
        let (same, other) = (embed("one two three"), embed("four five six"));
        assert!((cosine(&same, &embed("three two one")) - 1.0).abs() < 1e-5);
        assert!(cosine(&same, &other) < 0.99);
        assert!(embed("").iter().all(|value| value.abs() < f32::EPSILON));
    }
}
