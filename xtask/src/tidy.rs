//! `cargo xtask tidy`: the house rules that no compiler knows.
//!
//! Each rule is a function over the files' text. What a machine checks is what exists a year later.

use std::fmt;
use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::checkout::Checkout;
use crate::files;
use crate::output::{note, say};

mod abi;
mod documents;
mod manifests;
mod release;
mod sources;

/// A file of the checkout that a person wrote.
#[derive(Debug)]
pub(crate) struct File {
    /// The path from the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    fn extension(&self) -> &str {
        self.path
            .rsplit_once('.')
            .map_or("", |(_, extension)| extension)
    }
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Worth a thought; does not fail.
    Warn,
    /// Fails.
    Fail,
}

/// One thing that is untidy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// A path, with a line number where there is one.
    pub(crate) place: String,
    pub(crate) message: String,
}

impl Finding {
    fn fail(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            level: Level::Fail,
            place: place.into(),
            message: message.into(),
        }
    }

    fn warn(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            level: Level::Warn,
            place: place.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Warn => "warning",
            Level::Fail => "error",
        };
        write!(formatter, "{level}: {}: {}", self.place, self.message)
    }
}

/// Checks everything; with `bless` the border's hash is written into its document first.
pub(crate) fn run(checkout: &Checkout, bless: bool) -> Result<()> {
    if bless {
        abi::bless(checkout, &load(checkout)?)?;
    }
    let files = load(checkout)?;
    let mut findings = check(&files);
    let (released, compared) = release::check(checkout)?;
    findings.extend(released);
    note(format_args!("tidy: {compared}"));
    for finding in &findings {
        say(format_args!("tidy: {finding}"));
    }
    let failures = findings
        .iter()
        .filter(|finding| finding.level == Level::Fail)
        .count();
    if failures > 0 {
        bail!("tidy found {failures} error(s)");
    }
    note(format_args!(
        "tidy: {} files in order, {} warning(s)",
        files.len(),
        findings.len()
    ));
    Ok(())
}

/// Applies every rule.
fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = sources::check(files);
    findings.extend(manifests::check(files));
    findings.extend(documents::check(files));
    findings.extend(abi::check(files));
    findings
}

/// Reads every text file that has a rule.
fn load(checkout: &Checkout) -> Result<Vec<File>> {
    let mut found = Vec::new();
    for path in files::walk_sources(checkout.root())? {
        let ruled = path
            .extension()
            .is_some_and(|extension| ["rs", "toml", "md"].iter().any(|ruled| extension == *ruled));
        if ruled {
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
            // Test data may be broken on purpose; the rules look at text only.
            let text = String::from_utf8_lossy(&bytes).into_owned();
            found.push(File {
                path: files::relative(checkout.root(), &path),
                text,
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{File, Finding, Level};

    /// Makes files from `(path, text)`.
    pub(super) fn files(given: &[(&str, &str)]) -> Vec<File> {
        given
            .iter()
            .map(|(path, text)| File {
                path: (*path).to_owned(),
                text: (*text).to_owned(),
            })
            .collect()
    }

    /// Returns the places of failures.
    pub(super) fn failures(findings: &[Finding]) -> Vec<&str> {
        findings
            .iter()
            .filter(|finding| finding.level == Level::Fail)
            .map(|finding| finding.place.as_str())
            .collect()
    }

    #[test]
    fn findings_print_level_place_and_message() {
        assert_eq!(
            Finding::warn("a.rs", "is long").to_string(),
            "warning: a.rs: is long"
        );
        assert_eq!(
            Finding::fail("a.rs:3", "says no").to_string(),
            "error: a.rs:3: says no"
        );
    }
}
