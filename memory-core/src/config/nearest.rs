//! Finds the key that somebody probably meant.
//!
//! Three kinds of slips are common: another spelling of the same words (`needle_k` for `needleK`), the right name in
//! the wrong table, and a plain typing error. They are tried in that order, so that a name which is exactly right
//! somewhere beats a similar one.

use super::schema::KEYS;

/// Returns the key nearest to an unknown one, if any is near enough to be worth naming.
pub fn suggest(key: &str) -> Option<&'static str> {
    nearest(key, &KEYS.iter().map(|spec| spec.key).collect::<Vec<_>>())
}

/// Returns the table nearest to an unknown one.
pub(crate) fn suggest_table(path: &str) -> Option<&'static str> {
    let mut tables: Vec<&'static str> = Vec::new();
    for spec in KEYS {
        for (dot, _) in spec.key.match_indices('.') {
            let table = &spec.key[..dot];
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
    }
    nearest(path, &tables)
}

fn nearest(given: &str, candidates: &[&'static str]) -> Option<&'static str> {
    let plain = plain(given);
    let last = last_segment(&plain).to_owned();
    let closest = |matches: &dyn Fn(&str) -> bool| {
        candidates
            .iter()
            .copied()
            .filter(|candidate| matches(&self::plain(candidate)))
            .min_by_key(|candidate| distance(&plain, &self::plain(candidate)))
    };
    closest(&|candidate| candidate == plain)
        .or_else(|| closest(&|candidate| candidate.ends_with(&format!(".{plain}"))))
        .or_else(|| closest(&|candidate| last.len() > 1 && last_segment(candidate) == last))
        .or_else(|| {
            // About one slip in four characters is still recognisable as the same word.
            let allowed = (last.chars().count() / 4).max(2);
            closest(&|candidate| distance(&plain, candidate) <= allowed)
        })
}

/// Drops what people vary when they write the same name.
fn plain(key: &str) -> String {
    key.chars()
        .filter(|character| !matches!(character, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

fn last_segment(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Counts the insertions, deletions, replacements and swaps of neighbours that turn one text into the other.
fn distance(left: &str, right: &str) -> usize {
    // Keys are short; a pasted page is not worth the quadratic work.
    const LONGEST: usize = 128;
    let left: Vec<char> = left.chars().take(LONGEST).collect();
    let right: Vec<char> = right.chars().take(LONGEST).collect();
    let mut before_last = vec![0; right.len() + 1];
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (row, from) in left.iter().enumerate() {
        let mut current = vec![row + 1; right.len() + 1];
        for (column, to) in right.iter().enumerate() {
            let replaced = last[column] + usize::from(from != to);
            let mut best = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped =
                row > 0 && column > 0 && left[row - 1] == *to && right[column - 1] == *from;
            if swapped {
                best = best.min(before_last[column - 1] + 1);
            }
            current[column + 1] = best;
        }
        before_last = last;
        last = current;
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_lead_to_the_key_that_was_meant() {
        for (given, meant) in [
            ("memory.v3.needle_k", Some("memory.v3.needleK")),
            ("memory.v3.nedleK", Some("memory.v3.needleK")),
            ("memory.v3.lvie", Some("memory.v3.live")),
            ("memory.v2.cUser", Some("memory.v2.c_user")),
            (
                "memory.v3.max_page_ids",
                Some("memory.v2.router.max_page_ids"),
            ),
            ("gate.topK", Some("memory.v3.gate.topK")),
            ("timezone", Some("time_zone")),
            ("memory.time_zone", Some("time_zone")),
            ("plugin.v3", Some("plugins.v3")),
            ("memory.substrate.bm25k1", Some("memory.substrate.bm25_k1")),
            ("colour.of.the.sky", None),
            ("", None),
        ] {
            assert_eq!(suggest(given), meant, "{given}");
        }
        assert_eq!(suggest_table("memry"), Some("memory"));
        assert_eq!(suggest_table("memory.v3.hotset"), Some("memory.v3.hotSet"));
        assert_eq!(suggest_table("server"), None);
    }

    #[test]
    fn distance_counts_slips() {
        for (left, right, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("live", "lvie", 1),
            ("live", "liv", 1),
            ("live", "love", 1),
            ("live", "dense", 4),
        ] {
            assert_eq!(distance(left, right), expected, "{left} {right}");
            assert_eq!(distance(right, left), expected, "{right} {left}");
        }
    }
}
