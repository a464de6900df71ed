//! Rules about Rust files.

use super::{File, Finding};
use crate::lexer::{Placed, Token, tokens};

const WARN_LINES: usize = 500;
const FAIL_LINES: usize = 900;

/// Where macro output leaves no choice but to allow lints.
const ALLOW_OWNER: &str = "memory-core/src/abi";

/// Checks every Rust file.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.extension() == "rs") {
        check_opening(file, &mut findings);
        check_length(file, &mut findings);
        check_module_name(file, &mut findings);
        check_tokens(file, &mut findings);
    }
    findings
}

fn check_opening(file: &File, findings: &mut Vec<Finding>) {
    if !file
        .text
        .lines()
        .next()
        .is_some_and(|line| line.starts_with("//!"))
    {
        findings.push(Finding::fail(
            format!("{}:1", file.path),
            "opens without `//!`; say in one sentence what the file is, then why it is that way",
        ));
    }
}

fn check_length(file: &File, findings: &mut Vec<Finding>) {
    let lines = file.text.lines().count();
    if lines > FAIL_LINES {
        findings.push(Finding::fail(
            &file.path,
            format!("has {lines} lines, more than {FAIL_LINES}; split it"),
        ));
    } else if lines > WARN_LINES {
        findings.push(Finding::warn(
            &file.path,
            format!("has {lines} lines, more than {WARN_LINES}"),
        ));
    }
}

fn check_module_name(file: &File, findings: &mut Vec<Finding>) {
    let in_tests = file.path.split('/').any(|part| part == "tests");
    if file.path.ends_with("/mod.rs") && !in_tests {
        findings.push(Finding::fail(
            &file.path,
            "is a `mod.rs`; call it after its folder, beside it",
        ));
    }
}

fn check_tokens(file: &File, findings: &mut Vec<Finding>) {
    let may_allow = file
        .path
        .strip_prefix(ALLOW_OWNER)
        .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'));
    let tokens = tokens(&file.text);
    for start in 0..tokens.len() {
        let place = || format!("{}:{}", file.path, tokens[start].line);
        if !may_allow && is_allow(&tokens[start..]) {
            findings.push(Finding::fail(
                place(),
                "uses `allow`; write `#[expect(lint, reason = \"...\")]`",
            ));
        }
        if let Some(name) = unfinished_macro(&tokens[start..]) {
            findings.push(Finding::fail(
                place(),
                format!("calls `{name}!`; finish it or leave it out"),
            ));
        }
        if let Token::Comment(text) = &tokens[start].token
            && has_bare_marker(text)
        {
            findings.push(Finding::fail(
                place(),
                "leaves work open without an issue number; write the marker as `(#number)` after the word",
            ));
        }
    }
}

fn sign(tokens: &[Placed], position: usize, expected: char) -> bool {
    tokens
        .get(position)
        .is_some_and(|placed| placed.token == Token::Sign(expected))
}

fn word(tokens: &[Placed], position: usize) -> Option<&str> {
    match tokens.get(position).map(|placed| &placed.token) {
        Some(Token::Word(word)) => Some(word),
        _ => None,
    }
}

/// `#[allow(` and `#![allow(`, and the same inside `cfg_attr`.
fn is_allow(tokens: &[Placed]) -> bool {
    let inner = usize::from(sign(tokens, 1, '!'));
    if !(sign(tokens, 0, '#') && sign(tokens, 1 + inner, '[')) {
        return false;
    }
    let body = &tokens[2 + inner..];
    match word(body, 0) {
        Some("allow") => sign(body, 1, '('),
        Some("cfg_attr") => {
            let end = body
                .iter()
                .position(|placed| placed.token == Token::Sign(']'))
                .unwrap_or(body.len());
            (0..end).any(|position| {
                word(body, position) == Some("allow") && sign(body, position + 1, '(')
            })
        }
        _ => false,
    }
}

/// The two macros that stand for code not yet written.
fn unfinished_macro(tokens: &[Placed]) -> Option<&str> {
    let name = word(tokens, 0).filter(|name| matches!(*name, "todo" | "unimplemented"))?;
    let called = sign(tokens, 1, '!') && ['(', '[', '{'].iter().any(|open| sign(tokens, 2, *open));
    called.then_some(name)
}

/// A marker of open work that is not followed by an issue number in brackets.
fn has_bare_marker(comment: &str) -> bool {
    ["TODO", "FIXME", "XXX"].iter().any(|marker| {
        comment.match_indices(marker).any(|(start, _)| {
            let before = comment[..start].chars().next_back();
            let after = &comment[start + marker.len()..];
            let is_word = !before.is_some_and(char::is_alphanumeric)
                && !after
                    .chars()
                    .next()
                    .is_some_and(|next| next.is_alphanumeric() || next == '_');
            let number = after
                .strip_prefix("(#")
                .and_then(|rest| rest.split_once(')'))
                .map(|(number, _)| number);
            let has_issue = number.is_some_and(|number| {
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            });
            is_word && !has_issue
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{failures, files};
    use super::check;

    fn check_one(path: &str, text: &str, expected: &[&str]) {
        assert_eq!(
            failures(&check(&files(&[(path, text)]))),
            expected,
            "{text}"
        );
    }

    #[test]
    fn file_must_open_with_its_doc() {
        check_one("a/src/x.rs", "//! What it is.\n", &[]);
        check_one("a/src/x.rs", "use std::fmt;\n", &["a/src/x.rs:1"]);
        check_one("a/src/x.rs", "", &["a/src/x.rs:1"]);
    }

    #[test]
    fn long_file_warns_then_fails() {
        let long = format!("//! x\n{}", "\n".repeat(500));
        let found = check(&files(&[("x.rs", &long)]));
        assert_eq!((found.len(), failures(&found).len()), (1, 0));
        check_one("x.rs", &format!("//! x\n{}", "\n".repeat(900)), &["x.rs"]);
    }

    #[test]
    fn allow_is_for_the_border_only() {
        for text in [
            "//! x\n#[allow(dead_code)]\nfn f() {}",
            "//! x\n#![allow(dead_code)]\nfn f() {}",
            "//! x\n#[cfg_attr(test, allow(dead_code))]\nfn f() {}",
        ] {
            check_one("strata/src/x.rs", text, &["strata/src/x.rs:2"]);
            check_one("memory-core/src/abi/x.rs", text, &[]);
            check_one("memory-core/src/abi.rs", text, &[]);
            check_one(
                "memory-core/src/abilities.rs",
                text,
                &["memory-core/src/abilities.rs:2"],
            );
        }
        check_one(
            "x.rs",
            "//! x\n// never #[allow(x)]\n#[expect(dead_code, reason = \"\")]\nfn allow() {}",
            &[],
        );
    }

    #[test]
    fn unfinished_code_and_bare_markers_fail() {
        check_one("x.rs", "//! x\nfn f() { todo!() }", &["x.rs:2"]);
        check_one(
            "x.rs",
            "//! x\nfn f() { unimplemented!(\"later\") }",
            &["x.rs:2"],
        );
        check_one("x.rs", "//! x\n// TODO: later", &["x.rs:2"]);
        check_one("x.rs", "//! x\n// TODO(someone): later", &["x.rs:2"]);
        check_one("x.rs", "//! x\n/* FIXME */", &["x.rs:2"]);
        check_one("x.rs", "//! x\n// TODO(#12): later", &[]);
        check_one(
            "x.rs",
            "//! x\nlet task = \"TODO buy milk\"; let todo = 1; // TODOS",
            &[],
        );
    }

    #[test]
    fn module_files_stand_beside_their_folder() {
        check_one("a/src/x/mod.rs", "//! x", &["a/src/x/mod.rs"]);
        check_one("a/tests/it/mod.rs", "//! x", &[]);
    }
}
