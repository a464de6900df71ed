//! Remembers the vectors of recent single texts.
//!
//! One turn asks for the same query from several lanes and a host often asks again with the same words; a batch of
//! pages never repeats. The least recently used entry goes first, found by a scan, which at this size costs less than
//! the bookkeeping of a linked list.

use std::collections::HashMap;

/// Entries kept; at 384 dimensions about 400 KB.
const CAPACITY: usize = 256;

/// Longest text that is kept, in bytes; queries are shorter, and a key is held in memory.
const MAX_TEXT: usize = 2_048;

/// Vectors of recent texts of one space.
#[derive(Debug, Default)]
pub(super) struct RecentVectors {
    entries: HashMap<String, Entry>,
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    used: u64,
    vector: Vec<f32>,
}

impl RecentVectors {
    /// Returns the vector of a text and marks it as used.
    pub(super) fn get(&mut self, text: &str) -> Option<Vec<f32>> {
        let entry = self.entries.get_mut(text)?;
        self.clock += 1;
        entry.used = self.clock;
        Some(entry.vector.clone())
    }

    /// Keeps the vector of a text, dropping the one that was not used for longest.
    pub(super) fn put(&mut self, text: String, vector: Vec<f32>) {
        if text.len() > MAX_TEXT {
            return;
        }
        if self.entries.len() >= CAPACITY && !self.entries.contains_key(&text) {
            let oldest = self
                .entries
                .iter()
                .min_by_key(|(_, entry)| entry.used)
                .map(|(text, _)| text.clone());
            if let Some(oldest) = oldest {
                self.entries.remove(&oldest);
            }
        }
        self.clock += 1;
        self.entries.insert(
            text,
            Entry {
                used: self.clock,
                vector,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_text_goes_first() {
        let mut cache = RecentVectors::default();
        for number in 0..CAPACITY {
            cache.put(number.to_string(), vec![0.0]);
        }
        assert_eq!(cache.get("0"), Some(vec![0.0]));
        cache.put("new".into(), vec![-1.0]);
        assert_eq!(cache.entries.len(), CAPACITY);
        assert_eq!(cache.get("1"), None);
        assert_eq!(cache.get("0"), Some(vec![0.0]));
        assert_eq!(cache.get("new"), Some(vec![-1.0]));
    }

    #[test]
    fn long_texts_are_not_kept() {
        let mut cache = RecentVectors::default();
        cache.put("x".repeat(MAX_TEXT + 1), vec![1.0]);
        assert!(cache.entries.is_empty());
    }
}
