//! The Vaswani (NPL) collection: 11 429 short abstracts, 93 queries, a page an abstract.

use std::path::Path;

use anyhow::{Result, ensure};

use super::set::{Corpus, EvalSet, Question, Unit, document_page, read_text};
use super::tagged::{between, judgements};

/// Reads the collection from its folder.
pub fn read(folder: &Path) -> Result<EvalSet> {
    let documents = read_text(&folder.join("doc-text.trec.gz"))?;
    let pages: Vec<_> = between(&documents, "<DOC>", "</DOC>")
        .filter_map(|document| {
            let number = between(document, "<DOCNO>", "</DOCNO>").next()?.trim();
            let text = document.split_once("</DOCNO>")?.1;
            Some(document_page(number, None, None, text))
        })
        .collect();
    let gold = judgements(&read_text(&folder.join("qrels"))?);
    let queries = read_text(&folder.join("query-text.trec"))?;
    let questions: Vec<_> = between(&queries, "<top>", "</top>")
        .filter_map(|query| {
            let number: usize = between(query, "<num>", "</num>")
                .next()?
                .trim()
                .parse()
                .ok()?;
            let text = between(query, "<title>", "</title>")
                .next()?
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            let relevant = gold.iter().filter(|(query, _)| *query == number);
            Some(Question {
                text,
                gold: relevant.map(|(_, document)| document.clone()).collect(),
            })
        })
        .collect();
    ensure!(
        pages.len() == 11_429 && questions.len() == 93,
        "the Vaswani collection is incomplete"
    );
    let corpora = vec![Corpus {
        name: "vaswani".to_owned(),
        pages,
        questions,
    }];
    Ok(EvalSet {
        name: "Vaswani".to_owned(),
        unit: Unit::Page,
        corpora,
        dropped: 0,
    })
}
