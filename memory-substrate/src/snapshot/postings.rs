//! Which sections hold a term, how often, and in which field.
//!
//! Terms lie sorted in one string and are found by bisection; the postings of all terms lie in one array. Both cost a
//! few bytes a term, where a map of strings to lists would cost a hundred.

/// One section that holds a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posting {
    /// Row of the section in its segment.
    pub(crate) row: u32,
    /// How often the term stands in the head.
    pub(crate) head: u16,
    /// How often the term stands in the body.
    pub(crate) body: u16,
}

/// The inverted lists of a segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Postings {
    text: String,
    text_ends: Vec<u32>,
    list_ends: Vec<u32>,
    lists: Vec<Posting>,
}

impl Postings {
    /// Returns the sections that hold a term, by row; empty for an unknown term.
    pub(crate) fn of(&self, term: &str) -> &[Posting] {
        let mut low = 0;
        let mut high = self.text_ends.len();
        while low < high {
            let middle = low.midpoint(high);
            match self.term(middle).cmp(term) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return self.list(middle),
            }
        }
        &[]
    }

    /// Returns every term with its sections, by term.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[Posting])> {
        (0..self.text_ends.len()).map(|index| (self.term(index), self.list(index)))
    }

    /// Returns about how many bytes this takes.
    pub(crate) const fn bytes(&self) -> usize {
        self.text.len()
            + 4 * (self.text_ends.len() + self.list_ends.len())
            + size_of::<Posting>() * self.lists.len()
    }

    fn term(&self, index: usize) -> &str {
        let start = index
            .checked_sub(1)
            .map_or(0, |before| self.text_ends[before] as usize);
        &self.text[start..self.text_ends[index] as usize]
    }

    fn list(&self, index: usize) -> &[Posting] {
        let start = index
            .checked_sub(1)
            .map_or(0, |before| self.list_ends[before] as usize);
        &self.lists[start..self.list_ends[index] as usize]
    }

    /// Appends a term, which must sort after every term so far, with its sections by row.
    pub(crate) fn push(&mut self, term: &str, sections: impl IntoIterator<Item = Posting>) {
        let before = self.lists.len();
        self.lists.extend(sections);
        if self.lists.len() > before {
            self.text.push_str(term);
            self.text_ends.push(narrow(self.text.len()));
            self.list_ends.push(narrow(self.lists.len()));
        }
    }

    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.text_ends.shrink_to_fit();
        self.list_ends.shrink_to_fit();
        self.lists.shrink_to_fit();
    }
}

/// Returns a position as it is stored. A snapshot of more than four billion terms would not fit into memory anyway.
pub(crate) fn narrow(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// How many terms each field of a section has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// Terms of the head.
    pub(crate) head: u32,
    /// Terms of the body.
    pub(crate) body: u32,
}

/// Collects the terms of sections until all are known.
#[derive(Debug, Default)]
pub(crate) struct PostingsBuilder {
    terms: Terms,
    /// Blocks instead of one list, so that growing never copies and finishing frees block by block.
    found: Vec<Vec<(u32, Posting)>>,
    counts: Vec<(u32, u16, u16)>,
    /// For each term, the section that held it last and where it stands in `counts`.
    last: Vec<(u32, u32)>,
}

/// Terms found in one block.
const BLOCK: usize = 1 << 16;

impl PostingsBuilder {
    /// Adds a section's terms, each field joined by blanks, and returns the fields' lengths.
    pub(crate) fn add(&mut self, row: u32, head_terms: &str, body_terms: &str) -> Lengths {
        self.counts.clear();
        let head = self.count(row, head_terms, true);
        let body = self.count(row, body_terms, false);
        if self
            .found
            .last()
            .is_none_or(|block| block.len() + self.counts.len() > BLOCK)
        {
            self.found
                .push(Vec::with_capacity(BLOCK.max(self.counts.len())));
        }
        if let Some(block) = self.found.last_mut() {
            block.extend(
                self.counts
                    .iter()
                    .map(|&(term, head, body)| (term, Posting { row, head, body })),
            );
        }
        Lengths { head, body }
    }

    fn count(&mut self, row: u32, terms: &str, is_head: bool) -> u32 {
        let mut length = 0;
        for term in terms.split(' ').filter(|term| !term.is_empty()) {
            length += 1;
            let id = self.terms.number(term);
            let index = id as usize;
            if index == self.last.len() {
                self.last.push((u32::MAX, 0));
            }
            let (last_row, slot) = &mut self.last[index];
            if *last_row != row {
                (*last_row, *slot) = (row, narrow(self.counts.len()));
                self.counts.push((id, 0, 0));
            }
            let entry = &mut self.counts[*slot as usize];
            let field = if is_head { &mut entry.1 } else { &mut entry.2 };
            *field = field.saturating_add(1);
        }
        length
    }

    /// Returns the finished lists. `new_rows` says which row each added row has become.
    pub(crate) fn finish(self, new_rows: &[u32]) -> Postings {
        let order = self.terms.sorted();
        let mut rank = vec![0_u32; order.len()];
        for (position, id) in order.iter().enumerate() {
            rank[*id as usize] = narrow(position);
        }
        // A counting sort by term: the lists are far too long to sort as pairs.
        let mut ends = vec![0_u32; order.len()];
        for (id, _) in self.found.iter().flatten() {
            ends[rank[*id as usize] as usize] += 1;
        }
        let mut total = 0;
        for end in &mut ends {
            total += std::mem::replace(end, total);
        }
        let mut lists = vec![
            Posting {
                row: 0,
                head: 0,
                body: 0
            };
            total as usize
        ];
        for block in self.found {
            for (id, posting) in block {
                let next = &mut ends[rank[id as usize] as usize];
                lists[*next as usize] = Posting {
                    row: new_rows[posting.row as usize],
                    ..posting
                };
                *next += 1;
            }
        }
        let mut postings = Postings {
            list_ends: ends,
            lists,
            ..Postings::default()
        };
        let mut start = 0;
        for end in &postings.list_ends {
            postings.lists[start..*end as usize].sort_unstable_by_key(|posting| posting.row);
            start = *end as usize;
        }
        postings.text.reserve_exact(self.terms.text.len());
        postings.text_ends.reserve_exact(order.len());
        for id in order {
            postings.text.push_str(self.terms.term(id));
            postings.text_ends.push(narrow(postings.text.len()));
        }
        postings
    }
}

/// Numbers distinct terms in order of first sight. A table of numbers over one string: millions of look-ups are what
/// loading an index spends its time on, and this takes half of what a map of strings takes.
#[derive(Debug)]
struct Terms {
    text: String,
    ends: Vec<u32>,
    hashes: Vec<u32>,
    /// Number plus one of the term at each place, 0 for an empty place; a power of two long.
    table: Vec<u32>,
    seed: u64,
}

impl Default for Terms {
    fn default() -> Self {
        // A seed of its own for each process, so that no text can be made to collide.
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0_u8);
        Self {
            text: String::new(),
            ends: Vec::new(),
            hashes: Vec::new(),
            table: vec![0; 1_024],
            seed,
        }
    }
}

impl Terms {
    fn number(&mut self, term: &str) -> u32 {
        let hash = self.hash(term);
        let mask = self.table.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            match self.table[place] {
                0 => break,
                taken
                    if self.hashes[taken as usize - 1] == hash && self.term(taken - 1) == term =>
                {
                    return taken - 1;
                }
                _ => place = (place + 1) & mask,
            }
        }
        let id = narrow(self.ends.len());
        self.text.push_str(term);
        self.ends.push(narrow(self.text.len()));
        self.hashes.push(hash);
        self.table[place] = id + 1;
        if self.ends.len() * 2 > self.table.len() {
            self.grow();
        }
        id
    }

    #[inline]
    fn term(&self, id: u32) -> &str {
        let start = (id as usize)
            .checked_sub(1)
            .map_or(0, |before| self.ends[before] as usize);
        &self.text[start..self.ends[id as usize] as usize]
    }

    fn sorted(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..narrow(self.ends.len())).collect();
        order.sort_unstable_by(|left, right| self.term(*left).cmp(self.term(*right)));
        order
    }

    fn grow(&mut self) {
        let length = self.table.len() * 4;
        self.table.clear();
        self.table.resize(length, 0);
        for (id, hash) in self.hashes.iter().enumerate() {
            let mut place = *hash as usize & (length - 1);
            while self.table[place] != 0 {
                place = (place + 1) & (length - 1);
            }
            self.table[place] = narrow(id + 1);
        }
    }

    fn hash(&self, term: &str) -> u32 {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let (words, rest) = term.as_bytes().as_chunks::<8>();
        let mut last = [0_u8; 8];
        last[..rest.len()].copy_from_slice(rest);
        let mut hash = self.seed ^ (term.len() as u64);
        for word in words.iter().chain([&last]) {
            hash = (hash.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR);
            hash ^= hash >> 32;
        }
        (hash.wrapping_mul(FACTOR) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_counted_per_field_and_rows_follow_the_new_order() {
        let mut builder = PostingsBuilder::default();
        assert_eq!(
            builder.add(0, "red", "red blue red"),
            Lengths { head: 1, body: 3 }
        );
        assert_eq!(builder.add(1, "", "blue  "), Lengths { head: 0, body: 1 });
        let postings = builder.finish(&[1, 0]);
        assert_eq!(
            postings.of("red"),
            [Posting {
                row: 1,
                head: 1,
                body: 2
            }]
        );
        assert_eq!(
            postings.of("blue"),
            [
                Posting {
                    row: 0,
                    head: 0,
                    body: 1
                },
                Posting {
                    row: 1,
                    head: 0,
                    body: 1
                }
            ]
        );
        assert_eq!(postings.of("green"), []);
        assert_eq!(
            postings.iter().map(|(term, _)| term).collect::<Vec<_>>(),
            ["blue", "red"]
        );
    }

    #[test]
    fn many_terms_keep_their_numbers_while_the_table_grows() {
        let mut terms = Terms::default();
        let names: Vec<String> = (0..20_000)
            .map(|number| format!("term-{}", number * 7))
            .collect();
        for (number, name) in names.iter().enumerate() {
            assert_eq!(terms.number(name) as usize, number);
        }
        assert!(
            names
                .iter()
                .enumerate()
                .all(|(number, name)| terms.number(name) as usize == number)
        );
        assert_eq!(terms.sorted().len(), 20_000);
    }
}
