//! The measures, with exact names.
//!
//! For a gold set G and a ranking R without repeats: `any@k` is 1 when G meets the first k of R, `recall@k` is the share
//! of G in the first k, `all@k` is 1 when all of G is there; `ndcg@10` has binary gains (Järvelin and Kekäläinen 2002);
//! `mrr@10` is the reciprocal rank of the first gold unit, 0 beyond ten.

use std::collections::BTreeSet;

/// The measures of one question, or their means.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Measures {
    /// `any@5`.
    pub any_5: f64,
    /// `recall@5`.
    pub recall_5: f64,
    /// `all@5`.
    pub all_5: f64,
    /// `any@10`.
    pub any_10: f64,
    /// `recall@10`.
    pub recall_10: f64,
    /// `all@10`.
    pub all_10: f64,
    /// `ndcg@10`.
    pub ndcg_10: f64,
    /// `mrr@10`.
    pub mrr_10: f64,
}

/// The largest k that is measured; a corpus must hold more units than that.
pub const LARGEST_K: usize = 10;

/// Measures one ranking.
pub fn measure(ranking: &[String], gold: &BTreeSet<String>) -> Measures {
    let hits: Vec<bool> = ranking
        .iter()
        .take(LARGEST_K)
        .map(|unit| gold.contains(unit))
        .collect();
    let found = |k: usize| hits.iter().take(k).filter(|hit| **hit).count();
    let share = |k: usize| ratio(found(k), gold.len());
    let flag = |condition: bool| if condition { 1.0 } else { 0.0 };
    let discount = |rank: usize| 1.0 / ratio(rank + 2, 1).log2();
    let gained: f64 = hits
        .iter()
        .enumerate()
        .filter(|(_, hit)| **hit)
        .map(|(rank, _)| discount(rank))
        .sum();
    let ideal: f64 = (0..gold.len().min(LARGEST_K)).map(discount).sum();
    Measures {
        any_5: flag(found(5) > 0),
        recall_5: share(5),
        all_5: flag(found(5) == gold.len()),
        any_10: flag(found(10) > 0),
        recall_10: share(10),
        all_10: flag(found(10) == gold.len()),
        ndcg_10: if ideal > 0.0 { gained / ideal } else { 0.0 },
        mrr_10: hits
            .iter()
            .position(|hit| *hit)
            .map_or(0.0, |rank| 1.0 / ratio(rank + 1, 1)),
    }
}

/// Returns the means.
pub fn mean(all: &[Measures]) -> Measures {
    let of = |field: fn(&Measures) -> f64| average(all.iter().map(field));
    Measures {
        any_5: of(|one| one.any_5),
        recall_5: of(|one| one.recall_5),
        all_5: of(|one| one.all_5),
        any_10: of(|one| one.any_10),
        recall_10: of(|one| one.recall_10),
        all_10: of(|one| one.all_10),
        ndcg_10: of(|one| one.ndcg_10),
        mrr_10: of(|one| one.mrr_10),
    }
}

/// A mean paired difference with its 95 % interval, from the normal approximation: mean ± 1.96 · s / √n.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Difference {
    /// Mean of the differences.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Returns the mean difference `left − right` over the same questions.
pub fn paired(left: &[f64], right: &[f64]) -> Difference {
    let differences: Vec<f64> = left
        .iter()
        .zip(right)
        .map(|(left, right)| left - right)
        .collect();
    let mean = average(differences.iter().copied());
    let degrees = differences.len().saturating_sub(1).max(1);
    let variance = differences
        .iter()
        .map(|difference| (difference - mean).powi(2))
        .sum::<f64>()
        / ratio(degrees, 1);
    let half = 1.96 * (variance / ratio(differences.len().max(1), 1)).sqrt();
    Difference {
        mean,
        low: mean - half,
        high: mean + half,
    }
}

fn average(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    if count == 0 {
        0.0
    } else {
        sum / ratio(count, 1)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of questions and ranks are small"
)]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ranking: &[&str], gold: &[&str]) -> Measures {
        let ranking: Vec<String> = ranking.iter().map(|unit| (*unit).to_owned()).collect();
        measure(
            &ranking,
            &gold.iter().map(|unit| (*unit).to_owned()).collect(),
        )
    }

    #[test]
    fn hand_computed_measures() {
        let measures = check(&["x", "a", "y", "z", "w", "b"], &["a", "b"]);
        assert_eq!(
            (measures.any_5, measures.recall_5, measures.all_5),
            (1.0, 0.5, 0.0)
        );
        assert_eq!(
            (measures.any_10, measures.recall_10, measures.all_10),
            (1.0, 1.0, 1.0)
        );
        assert!((measures.mrr_10 - 0.5).abs() < 1e-12);
        let expected = (1.0 / 3_f64.log2() + 1.0 / 7_f64.log2()) / (1.0 + 1.0 / 3_f64.log2());
        assert!((measures.ndcg_10 - expected).abs() < 1e-12);
        assert_eq!(check(&[], &["a"]), Measures::default());
    }

    #[test]
    fn paired_differences_have_the_textbook_interval() {
        let difference = paired(&[1.0, 0.0, 1.0, 1.0], &[0.0, 0.0, 1.0, 0.0]);
        assert!((difference.mean - 0.5).abs() < 1e-12);
        let half = 1.96 * (1.0_f64 / 3.0 / 4.0).sqrt();
        assert!(
            (difference.high - 0.5 - half).abs() < 1e-12
                && (difference.low - 0.5 + half).abs() < 1e-12
        );
    }
}
