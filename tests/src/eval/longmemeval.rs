//! lme-lite: a pooled subset derived from `LongMemEval`, a page a document.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::set::{Corpus, EvalSet, Question, Unit, document_page, read_text};

#[derive(Deserialize)]
struct Document {
    id: String,
    date: String,
    role: String,
    text: String,
}

#[derive(Deserialize)]
struct Query {
    question: String,
    gold_docs: Vec<String>,
}

/// Reads the set from its folder. Questions without a gold document are left out: they measure abstention.
pub fn read(folder: &Path) -> Result<EvalSet> {
    let corpus = read_text(&folder.join("lite_corpus.jsonl.gz"))?;
    let queries = read_text(&folder.join("lite_queries.jsonl.gz"))?;
    let pages = lines::<Document>(&corpus)?
        .into_iter()
        .map(|document| {
            let date = iso_date(&document.date);
            let title = format!("{} {}", document.role, document.date);
            document_page(
                &document.id.to_lowercase(),
                Some(&title),
                date.as_deref(),
                &document.text,
            )
        })
        .collect();
    let questions = lines::<Query>(&queries)?
        .into_iter()
        .filter(|query| !query.gold_docs.is_empty())
        .map(|query| Question {
            text: query.question,
            gold: query
                .gold_docs
                .iter()
                .map(|document| document.to_lowercase())
                .collect(),
        })
        .collect();
    let corpora = vec![Corpus {
        name: "lme-lite".to_owned(),
        pages,
        questions,
    }];
    Ok(EvalSet {
        name: "lme-lite".to_owned(),
        unit: Unit::Page,
        corpora,
        dropped: 0,
    })
}

fn lines<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Vec<T>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).context("a line of lme-lite is not as expected"))
        .collect()
}

/// Returns `2023/04/10 (Mon) 14:47` as `2023-04-10`.
fn iso_date(date: &str) -> Option<String> {
    let day = date.get(..10)?.replace('/', "-");
    day.chars()
        .all(|character| character.is_ascii_digit() || character == '-')
        .then_some(day)
}
