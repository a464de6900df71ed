//! A fixed set of row numbers.
//!
//! Tombstones and "has a vector" marks are asked for millions of times a second, so they are single bits in one
//! allocation instead of a set of numbers.

/// Which of a fixed number of rows are marked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Vec<u64>,
    marked: usize,
}

impl Bits {
    /// Returns a set for that many rows, none marked.
    pub(crate) fn new(rows: usize) -> Self {
        Self {
            words: vec![0; rows.div_ceil(64)],
            marked: 0,
        }
    }

    /// Returns whether a row is marked.
    pub(crate) fn contains(&self, row: usize) -> bool {
        self.words
            .get(row / 64)
            .is_some_and(|word| word & (1 << (row % 64)) != 0)
    }

    /// Marks a row.
    pub(crate) fn insert(&mut self, row: usize) {
        let bit = 1 << (row % 64);
        if let Some(word) = self.words.get_mut(row / 64)
            && *word & bit == 0
        {
            *word |= bit;
            self.marked += 1;
        }
    }

    /// Returns how many rows are marked.
    pub(crate) const fn count(&self) -> usize {
        self.marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_counted_once() {
        let mut bits = Bits::new(130);
        for row in [0, 63, 64, 129, 129] {
            bits.insert(row);
        }
        assert_eq!(bits.count(), 4);
        assert!(bits.contains(129) && !bits.contains(128) && !bits.contains(1_000));
    }
}
