//! What every evaluation set is turned into: corpora of pages and questions with gold answers.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use flate2::read::GzDecoder;

/// The unit that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Whole pages.
    Page,
    /// Sections below the lead.
    Section,
}

/// One page of a corpus. Its name is its slug.
#[derive(Clone, Debug)]
pub struct EvalPage {
    /// The slug.
    pub name: String,
    /// The page's Markdown.
    pub text: String,
    /// Identifiers of its sections below the lead, in order; empty when pages are judged.
    pub units: Vec<String>,
}

/// A question and what people judged relevant to it.
#[derive(Clone, Debug)]
pub struct Question {
    /// What is asked.
    pub text: String,
    /// Identifiers of the relevant units.
    pub gold: BTreeSet<String>,
}

/// One corpus with its questions.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// Its name, unique in its set.
    pub name: String,
    /// Its pages.
    pub pages: Vec<EvalPage>,
    /// Its questions.
    pub questions: Vec<Question>,
}

/// An evaluation set.
#[derive(Clone, Debug)]
pub struct EvalSet {
    /// Its name in the report.
    pub name: String,
    /// What is judged.
    pub unit: Unit,
    /// Its corpora; a question is asked of its own corpus only.
    pub corpora: Vec<Corpus>,
    /// Judgements that could not be read and were left out.
    pub dropped: usize,
}

impl Corpus {
    /// Returns how many units can be ranked.
    pub fn size(&self, unit: Unit) -> usize {
        match unit {
            Unit::Page => self.pages.len(),
            Unit::Section => self.pages.iter().map(|page| page.units.len()).sum(),
        }
    }
}

/// Returns a page that holds one document. The text is indented away from our own syntax where it would be read as such.
pub fn document_page(name: &str, title: Option<&str>, date: Option<&str>, text: &str) -> EvalPage {
    let mut page = String::new();
    if title.is_some() || date.is_some() {
        page.push_str("---\n");
        if let Some(title) = title {
            writeln!(page, "title: {}", quoted(title)).expect("writing to a string cannot fail");
        }
        if let Some(date) = date {
            writeln!(page, "origin_date: {date}").expect("writing to a string cannot fail");
        }
        page.push_str("---\n\n");
    }
    page.push_str(&plain(text));
    page.push('\n');
    EvalPage {
        name: name.to_owned(),
        text: page,
        units: Vec::new(),
    }
}

/// Returns text in which no line opens a heading, a fence or a frontmatter block.
pub fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.trim();
        if line.starts_with(['#', '`', '~', '-', '=', '<', '>']) {
            format!("\\{line}")
        } else {
            line.to_owned()
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a text as a YAML string.
pub fn quoted(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns a file's text, unpacked when its name says so.
pub fn read_text(path: &Path) -> Result<String> {
    let file = File::open(path).with_context(|| format!("cannot open `{}`", path.display()))?;
    let mut text = String::new();
    let read = if path.extension().is_some_and(|extension| extension == "gz") {
        GzDecoder::new(file).read_to_string(&mut text)
    } else {
        let mut file = file;
        file.read_to_string(&mut text)
    };
    read.with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(text)
}
