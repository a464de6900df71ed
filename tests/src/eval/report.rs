//! The table that an evaluation prints.

use std::io::{self, Write};

use serde::Serialize;

use super::metrics::{Difference, Measures};

/// One row: a method on a set.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The set.
    pub set: String,
    /// The method.
    pub method: String,
    /// How many questions were measured.
    pub n: usize,
    /// Means over the questions.
    #[serde(flatten)]
    pub measures: Measures,
    /// Paired difference of `recall@5` against BM25 alone; absent for BM25 itself.
    pub recall_5_against_bm25: Option<Difference>,
    /// Paired difference of `ndcg@10` against BM25 alone; absent for BM25 itself.
    pub ndcg_10_against_bm25: Option<Difference>,
}

/// Writes the rows as a table.
pub fn table(rows: &[Row], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<16} {:<8} {:>5} {:>6} {:>9} {:>6} {:>7} {:>10} {:>7} {:>8} {:>7}  {:<24} {:<24}",
        "set",
        "method",
        "n",
        "any@5",
        "recall@5",
        "all@5",
        "any@10",
        "recall@10",
        "all@10",
        "ndcg@10",
        "mrr@10",
        "recall@5 - BM25 [95 %]",
        "ndcg@10 - BM25 [95 %]",
    )?;
    for row in rows {
        let measures = &row.measures;
        writeln!(
            out,
            "{:<16} {:<8} {:>5} {:>6.3} {:>9.3} {:>6.3} {:>7.3} {:>10.3} {:>7.3} {:>8.3} {:>7.3}  {:<24} {:<24}",
            row.set,
            row.method,
            row.n,
            measures.any_5,
            measures.recall_5,
            measures.all_5,
            measures.any_10,
            measures.recall_10,
            measures.all_10,
            measures.ndcg_10,
            measures.mrr_10,
            difference(row.recall_5_against_bm25),
            difference(row.ndcg_10_against_bm25),
        )?;
    }
    Ok(())
}

fn difference(difference: Option<Difference>) -> String {
    difference
        .map(|value| format!("{:+.3} [{:+.3}, {:+.3}]", value.mean, value.low, value.high))
        .unwrap_or_default()
}
