//! Finds dependencies that a crate names in its manifest and nowhere in its code.
//!
//! Every unused crate is compiled by everybody for ever. The check is a word search in code and literals (comments do not
//! count): coarse, but it needs no nightly compiler and no further tool.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result, bail};
use cargo_metadata::DependencyKind;

use crate::boundary::Graph;
use crate::checkout::Checkout;
use crate::files;
use crate::lexer::{Token, code_tokens};
use crate::output::{note, say};

/// Dependencies that are needed without being named in code. A row nobody needs is a finding.
const EXEMPTIONS: &[Exemption] = &[];

/// One dependency that may stay unnamed.
#[derive(Debug, Clone, Copy)]
struct Exemption {
    member: &'static str,
    dependency: &'static str,
    reason: &'static str,
}

/// A crate: its normal dependencies and every word of its code.
struct Member {
    name: String,
    dependencies: Vec<String>,
    words: BTreeSet<String>,
}

/// Checks every crate of the workspace.
pub(crate) fn run(checkout: &Checkout) -> Result<()> {
    let graph = Graph::load(checkout)?;
    let mut members = Vec::new();
    for package in graph.members() {
        let mut words = BTreeSet::new();
        for path in files::walk_sources(&package.folder)? {
            if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("cannot read `{}`", path.display()))?;
                words.extend(words_of(&text));
            }
        }
        let normal = package
            .declared
            .iter()
            .filter(|dependency| dependency.kind == DependencyKind::Normal);
        let dependencies = normal.map(|dependency| dependency.name.clone()).collect();
        members.push(Member {
            name: package.name.clone(),
            dependencies,
            words,
        });
    }
    let findings = check(&members, EXEMPTIONS);
    for finding in &findings {
        say(format_args!("unused: {finding}"));
    }
    if !findings.is_empty() {
        bail!("found {} unused dependencies or exemptions", findings.len());
    }
    note("unused: every dependency is named in code");
    Ok(())
}

/// Returns the words of code and of literals, where paths in attributes hide.
fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for placed in code_tokens(text) {
        match placed.token {
            Token::Word(word) => words.push(word),
            Token::Text(text) => {
                words.extend(
                    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
                        .map(str::to_owned),
                );
            }
            Token::Comment(_) | Token::Sign(_) => {}
        }
    }
    words
}

fn check(members: &[Member], exemptions: &[Exemption]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut needed = vec![false; exemptions.len()];
    for member in members {
        for dependency in &member.dependencies {
            if member.words.contains(&dependency.replace('-', "_")) {
                continue;
            }
            let exemption = exemptions.iter().position(|exemption| {
                exemption.member == member.name && exemption.dependency == dependency
            });
            match exemption {
                Some(position) => needed[position] = true,
                None => findings.push(format!(
                    "{}/Cargo.toml: `{dependency}` is named nowhere in the crate's code; remove it",
                    member.name
                )),
            }
        }
    }
    for (exemption, _) in exemptions.iter().zip(needed).filter(|(_, needed)| !needed) {
        findings.push(format!(
            "xtask/src/unused.rs: `{}` of {} needs no exemption any more (\"{}\")",
            exemption.dependency, exemption.member, exemption.reason
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{Exemption, Member, check, words_of};

    fn member(code: &str) -> Member {
        Member {
            name: "strata".to_owned(),
            dependencies: vec!["serde-saphyr".to_owned(), "tokio".to_owned()],
            words: words_of(code).into_iter().collect(),
        }
    }

    #[test]
    fn dependency_must_be_named_in_code() {
        assert!(
            check(
                &[member(
                    "use serde_saphyr::from_str; #[tokio::main] fn main() {}"
                )],
                &[]
            )
            .is_empty()
        );
        assert!(
            check(
                &[member(
                    "#[serde(with = \"serde_saphyr::x\")] use tokio as t;"
                )],
                &[]
            )
            .is_empty()
        );
        let found = check(
            &[member(
                "use serde_saphyr::from_str; // tokio would be nice\nfn tokio_like() {}",
            )],
            &[],
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("strata/Cargo.toml: `tokio`"),
            "{found:?}"
        );
    }

    #[test]
    fn exemption_is_used_or_reported() {
        let exemptions = [Exemption {
            member: "strata",
            dependency: "tokio",
            reason: "turns a feature on",
        }];
        assert!(check(&[member("serde_saphyr")], &exemptions).is_empty());
        let found = check(&[member("serde_saphyr tokio")], &exemptions);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("needs no exemption"));
    }
}
