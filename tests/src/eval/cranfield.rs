//! The Cranfield collection: 1 400 abstracts, 225 queries, a page an abstract.

use std::path::Path;

use anyhow::{Result, ensure};

use super::set::{Corpus, EvalSet, Question, Unit, document_page, read_text};
use super::tagged::{between, judgements};

/// Reads the collection from its folder. A query's number is its position in the file.
pub fn read(folder: &Path) -> Result<EvalSet> {
    let documents = read_text(&folder.join("cran.all.1400.xml.gz"))?;
    let pages: Vec<_> = between(&documents, "<doc>", "</doc>")
        .filter_map(|document| {
            let number = between(document, "<docno>", "</docno>").next()?.trim();
            let title = between(document, "<title>", "</title>")
                .next()
                .unwrap_or_default();
            let text = between(document, "<text>", "</text>")
                .next()
                .unwrap_or_default();
            Some(document_page(number, Some(title), None, text))
        })
        .collect();
    let gold = judgements(&read_text(&folder.join("cranqrel.trec.txt"))?);
    let queries = read_text(&folder.join("cran.qry.xml"))?;
    let questions: Vec<_> = between(&queries, "<top>", "</top>")
        .enumerate()
        .filter_map(|(position, query)| {
            let text = between(query, "<title>", "</title>")
                .next()?
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            let relevant = gold.iter().filter(|(number, _)| *number == position + 1);
            Some(Question {
                text,
                gold: relevant.map(|(_, document)| document.clone()).collect(),
            })
        })
        .collect();
    ensure!(
        pages.len() == 1_400 && questions.len() == 225,
        "the Cranfield collection is incomplete"
    );
    let corpora = vec![Corpus {
        name: "cranfield".to_owned(),
        pages,
        questions,
    }];
    Ok(EvalSet {
        name: "Cranfield".to_owned(),
        unit: Unit::Page,
        corpora,
        dropped: 0,
    })
}
