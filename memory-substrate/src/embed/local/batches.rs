//! Cuts a list of texts into batches that cost about the same.
//!
//! A batch is padded to its longest text and the runtime keeps the largest memory it ever needed, so texts of like
//! length go together and the padded size has a limit. The limit also bounds how long a query waits behind a batch
//! of an ingest that runs at the same time.

/// Texts in one batch at most.
const MAX_TEXTS: usize = 32;

/// Padded tokens in one batch at most: four texts of full length, or 32 of an eighth of it.
const MAX_PADDED: usize = 1_024;

/// Returns the indices of the texts, shortest first, grouped into batches.
pub(super) fn plan(texts: &[String], max_tokens: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<(usize, usize)> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| (estimate(text).min(max_tokens), index))
        .collect();
    order.sort_unstable();
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for (tokens, index) in order {
        match batches.last_mut() {
            // The order is ascending, so this text is the longest so far and sets the padding.
            Some(batch) if batch.len() < MAX_TEXTS && (batch.len() + 1) * tokens <= MAX_PADDED => {
                batch.push(index);
            }
            _ => batches.push(vec![index]),
        }
    }
    batches
}

/// Returns roughly how many tokens a text has: a word piece is four ASCII letters or one other character.
fn estimate(text: &str) -> usize {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let others = text.bytes().filter(|byte| *byte >= 0xc0).count();
    ascii / 4 + others + 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_texts_fill_a_batch_and_long_ones_do_not() {
        let sizes = |texts: &[String]| plan(texts, 256).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(&vec!["a few words".to_owned(); 70]), [32, 32, 6]);
        assert_eq!(sizes(&vec!["word ".repeat(400); 20]), [4, 4, 4, 4, 4]);
        assert_eq!(sizes(&[]), Vec::<usize>::new());
        let mixed: Vec<String> = ["word ".repeat(400), "short".into(), "word ".repeat(300)].into();
        assert_eq!(plan(&mixed, 256).concat()[0], 1);
    }

    proptest! {
        #[test]
        fn every_text_is_in_exactly_one_batch(lengths in proptest::collection::vec(0_usize..3_000, 0..100)) {
            let texts: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
            let mut all = plan(&texts, 256).concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..texts.len()).collect::<Vec<_>>());
        }
    }
}
