//! `XQuAD`: 240 parallel passages and 1 190 questions in several languages, a page a passage.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::set::{Corpus, EvalSet, Question, Unit, document_page, read_text};

#[derive(Deserialize)]
struct Root {
    data: Vec<Article>,
}

#[derive(Deserialize)]
struct Article {
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    context: String,
    qas: Vec<Asked>,
}

#[derive(Deserialize)]
struct Asked {
    question: String,
}

/// Reads one language from the folder. Passages of equal text are one page.
pub fn read(folder: &Path, language: &str) -> Result<EvalSet> {
    let text = read_text(&folder.join(format!("xquad.{language}.json.gz")))?;
    let root: Root = serde_json::from_str(&text)
        .with_context(|| format!("XQuAD `{language}` is not as expected"))?;
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let (mut pages, mut questions) = (Vec::new(), Vec::new());
    for paragraph in root.data.into_iter().flat_map(|article| article.paragraphs) {
        let name = names.get(&paragraph.context).cloned().unwrap_or_else(|| {
            let name = format!("passage-{:03}", names.len());
            pages.push(document_page(&name, None, None, &paragraph.context));
            names.insert(paragraph.context.clone(), name.clone());
            name
        });
        questions.extend(paragraph.qas.into_iter().map(|asked| Question {
            text: asked.question,
            gold: [name.clone()].into(),
        }));
    }
    let corpora = vec![Corpus {
        name: format!("xquad-{language}"),
        pages,
        questions,
    }];
    Ok(EvalSet {
        name: format!("XQuAD {language}"),
        unit: Unit::Page,
        corpora,
        dropped: 0,
    })
}
