//! Rules about the documents a newcomer reads first: there, short, and naming the two commands.

use super::manifests::members;
use super::{File, Finding};

const CRATE_README_LINES: usize = 20;
const README_LINES: usize = 80;
const ARCHITECTURE_LINES: std::ops::RangeInclusive<usize> = 80..=250;

/// The commands that are all a fresh machine needs.
const COMMANDS: [&str; 2] = ["cargo xtask demo", "cargo xtask test"];

/// Checks README files and the architecture document.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let find = |path: &str| files.iter().find(|file| file.path == path);

    // Crates that stand outside the workspace (test plugins) are explained where they are used.
    for manifest in members(files).filter(|manifest| {
        !manifest
            .text
            .lines()
            .any(|line| line.trim() == "[workspace]")
    }) {
        let path = format!("{}README.md", manifest.path.trim_end_matches("Cargo.toml"));
        match find(&path) {
            None => findings.push(Finding::fail(
                path,
                "is missing; say what the crate is for, what it may depend on, and what it must never know",
            )),
            Some(readme) => check_length(readme, 1..=CRATE_README_LINES, &mut findings),
        }
    }
    match find("README.md") {
        None => findings.push(Finding::fail("README.md", "is missing")),
        Some(readme) => {
            check_length(readme, 1..=README_LINES, &mut findings);
            for command in COMMANDS
                .iter()
                .filter(|command| !readme.text.contains(*command))
            {
                findings.push(Finding::fail(
                    "README.md",
                    format!("does not name `{command}`"),
                ));
            }
        }
    }
    match find("ARCHITECTURE.md") {
        None => findings.push(Finding::fail("ARCHITECTURE.md", "is missing")),
        Some(architecture) => check_length(architecture, ARCHITECTURE_LINES, &mut findings),
    }
    findings
}

fn check_length(
    file: &File,
    allowed: std::ops::RangeInclusive<usize>,
    findings: &mut Vec<Finding>,
) {
    let lines = file.text.lines().count();
    if !allowed.contains(&lines) {
        let (least, most) = allowed.into_inner();
        findings.push(Finding::fail(
            &file.path,
            format!("has {lines} lines; it should have {least} to {most}"),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{failures, files};
    use super::check;

    const README: &str = "cargo xtask demo\ncargo xtask test\n";

    #[test]
    fn complete_documents_pass() {
        let architecture = "line\n".repeat(100);
        let given = [
            ("Cargo.toml", ""),
            ("README.md", README),
            ("ARCHITECTURE.md", architecture.as_str()),
            ("a/Cargo.toml", "[package]\n"),
            ("a/README.md", "What it is for.\n"),
            ("tests/plugins/b/Cargo.toml", "[workspace]\n"),
        ];
        assert_eq!(check(&files(&given)), []);
    }

    #[test]
    fn missing_long_and_silent_documents_are_found() {
        let long = "line\n".repeat(81);
        let given = [
            ("README.md", long.as_str()),
            ("a/Cargo.toml", ""),
            ("ARCHITECTURE.md", "short\n"),
        ];
        let found = check(&files(&given));
        assert_eq!(
            failures(&found),
            [
                "a/README.md",
                "README.md",
                "README.md",
                "README.md",
                "ARCHITECTURE.md"
            ]
        );
        let crate_readme = "line\n".repeat(21);
        let found = check(&files(&[
            ("a/Cargo.toml", ""),
            ("a/README.md", &crate_readme),
        ]));
        assert_eq!(
            failures(&found),
            ["a/README.md", "README.md", "ARCHITECTURE.md"]
        );
    }
}
