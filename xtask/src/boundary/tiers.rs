//! The rule that keeps a tier removable: it has a folder and one row in the registry, and nothing else names it.
//!
//! A name elsewhere would have to be found and edited on the day of the removal. Unit tests may say anything, since text
//! in them is a sample; whether they still pass without a tier is tried by removing it.

use super::Violation;
use crate::files;
use crate::lexer::{Placed, Token, code_tokens};

/// Where the rows stand.
pub(crate) const REGISTRY: &str = "memory-core/src/predicates/registry.rs";

const REASON: &str = "a tier is removed by deleting its folder and its row in the registry; whatever needs a tier's name \
                      asks the registry for it";

/// Returns the crates that the registry's rows name, oldest generation first.
pub(crate) fn rows(registry: &str) -> Vec<String> {
    let tokens = shipped_tokens(registry);
    let named = tokens.windows(3).filter_map(|window| {
        let [key, sign, name] = window else {
            return None;
        };
        match (&key.token, &sign.token, &name.token) {
            (Token::Word(key), Token::Sign(':'), Token::Text(name)) if key == "plugin" => {
                Some(name.clone())
            }
            _ => None,
        }
    });
    named.collect()
}

/// Returns the tiers that can be removed: all but the newest, which new assistants are configured to.
pub(crate) fn removable(rows: &[String]) -> &[String] {
    rows.split_last().map_or(&[], |(_, others)| others)
}

/// Returns the registry's text without the rows of these tiers, or the tier whose row is not exactly one line.
pub(crate) fn without_rows(registry: &str, tiers: &[String]) -> Result<String, String> {
    let mut text = registry.to_owned();
    for tier in tiers {
        let is_row = |line: &str| line.contains(&format!("plugin: \"{tier}\""));
        if text.lines().filter(|line| is_row(line)).count() != 1 {
            return Err(tier.clone());
        }
        text = text
            .split_inclusive('\n')
            .filter(|line| !is_row(line))
            .collect();
    }
    Ok(text)
}

/// Holds the rows against the tier crates.
pub(crate) fn check_rows(rows: &[String], crates: &[String]) -> Vec<Violation> {
    let lacking = |names: &[String], others: &[String], what: &str| -> Vec<Violation> {
        names
            .iter()
            .filter(|name| !others.contains(name))
            .map(|name| Violation {
                path: format!("`{name}`"),
                what: format!("{what} `{REGISTRY}`"),
                reason: REASON.to_owned(),
            })
            .collect()
    };
    let mut violations = lacking(crates, rows, "is a tier without a row in");
    violations.extend(lacking(
        rows,
        crates,
        "is no crate of the workspace, but has a row in",
    ));
    violations
}

/// Finds the names of tiers in `(path, text)` pairs of Rust and TOML, outside the tiers' own folders.
pub(crate) fn check_names(tiers: &[String], texts: &[(String, String)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in texts {
        let others = || tiers.iter().filter(|tier| !is_below(tier, path));
        if path == REGISTRY || is_unit_test(path) {
            continue;
        }
        let found: Vec<(usize, &String)> = if files::is_rust(path) {
            let tokens = shipped_tokens(text);
            let named = |placed: &Placed| others().find(|tier| names(&placed.token, tier));
            tokens
                .iter()
                .filter_map(|placed| Some((placed.line, named(placed)?)))
                .collect()
        } else {
            let code = |line: &str| line.split('#').next().unwrap_or_default().to_owned();
            (1..)
                .zip(text.lines())
                .filter_map(|(number, line)| {
                    let line = code(line);
                    Some((number, others().find(|tier| contains(&line, tier))?))
                })
                .collect()
        };
        violations.extend(found.into_iter().map(|(line, tier)| Violation {
            path: format!("{path}:{line}"),
            what: format!("names `{tier}`"),
            reason: REASON.to_owned(),
        }));
    }
    violations
}

fn is_below(folder: &str, path: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Returns whether a file holds a module of unit tests, as `src/a/tests.rs` does.
fn is_unit_test(path: &str) -> bool {
    path.contains("/src/") && (path.ends_with("/tests.rs") || path.contains("/tests/"))
}

fn names(token: &Token, tier: &str) -> bool {
    match token {
        Token::Text(text) => contains(text, tier),
        Token::Word(word) => *word == tier.replace('-', "_"),
        Token::Comment(_) | Token::Sign(_) => false,
    }
}

/// Returns whether a text contains the tier's name, as a crate or as a library is called, and not only the beginning of a
/// longer one.
fn contains(text: &str, tier: &str) -> bool {
    [tier.to_owned(), tier.replace('-', "_")]
        .iter()
        .any(|name| {
            text.match_indices(name.as_str()).any(|(at, _)| {
                let next = text[at + name.len()..].chars().next();
                next.is_none_or(|next| !next.is_alphanumeric())
            })
        })
}

/// Returns the tokens before the module of unit tests at a file's end.
fn shipped_tokens(text: &str) -> Vec<Placed> {
    let mut tokens = code_tokens(text);
    let word = |at: usize, expected: &str| matches!(tokens.get(at).map(|placed| &placed.token), Some(Token::Word(word)) if word == expected);
    let sign = |at: usize, expected: char| {
        tokens.get(at).map(|placed| &placed.token) == Some(&Token::Sign(expected))
    };
    // # [ cfg ( test ) ] mod name {
    let is_module = |at: usize| {
        sign(at, '#')
            && word(at + 2, "cfg")
            && word(at + 4, "test")
            && sign(at + 6, ']')
            && word(at + 7, "mod")
            && sign(at + 9, '{')
    };
    if let Some(end) = (0..tokens.len()).find(|at| is_module(*at)) {
        tokens.truncate(end);
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::{check_names, check_rows, removable, rows, without_rows};

    const TABLE: &str = "//! Rows.\n\nconst BUILT: &[Row] = &[\n    Row { tier: A, plugin: \"tier-a\" },\n    \
                         Row { tier: B, plugin: \"tier-b\" },\n    Row { tier: C, plugin: \"tier-c\" },\n];\n\n\
                         #[cfg(test)]\nmod tests {\n    const X: Row = Row { tier: A, plugin: \"other\" };\n}\n";

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn rows_are_read_and_removed_by_the_line() {
        let all = rows(TABLE);
        assert_eq!(all, ["tier-a", "tier-b", "tier-c"]);
        assert_eq!(removable(&all), ["tier-a", "tier-b"]);
        assert!(removable(&[]).is_empty());
        let text = without_rows(TABLE, &owned(&["tier-a"])).expect("one row");
        assert_eq!(rows(&text), ["tier-b", "tier-c"]);
        assert_eq!(text.lines().count() + 1, TABLE.lines().count());
        let lost = without_rows(TABLE, &owned(&["tier-b", "tier-x"]));
        assert_eq!(lost, Err("tier-x".to_owned()));
    }

    #[test]
    fn rows_and_crates_must_be_the_same() {
        let all = rows(TABLE);
        assert_eq!(check_rows(&all, &all), []);
        let found = check_rows(&all, &owned(&["tier-a", "tier-c", "tier-d"]));
        let paths: Vec<&str> = found
            .iter()
            .map(|violation| violation.path.as_str())
            .collect();
        assert_eq!(paths, ["`tier-d`", "`tier-b`"]);
    }

    #[track_caller]
    fn check_found(path: &str, text: &str, expected: &[&str]) {
        let files = [(path.to_owned(), text.to_owned())];
        let found = check_names(&owned(&["tier-a", "tier-b"]), &files);
        let places: Vec<&str> = found
            .iter()
            .map(|violation| violation.path.as_str())
            .collect();
        assert_eq!(places, expected, "{found:?}");
    }

    #[test]
    fn names_are_found_in_code_and_manifests() {
        check_found(
            "x/src/a.rs",
            "fn f() {\n    g(\"tier-a\");\n}\n",
            &["x/src/a.rs:2"],
        );
        check_found(
            "x/tests/it/a.rs",
            "use tier_b::X;\n",
            &["x/tests/it/a.rs:1"],
        );
        check_found(
            "x/src/a.rs",
            "const L: &str = \"libtier_b.so\";",
            &["x/src/a.rs:1"],
        );
        check_found(
            "x/Cargo.toml",
            "[dependencies]\ntier-a.workspace = true\n",
            &["x/Cargo.toml:2"],
        );
    }

    #[test]
    fn what_a_removal_does_not_touch_is_left_alone() {
        check_found(
            "x/src/a.rs",
            "// As tier-a does.\nlet tier_a_like = \"tier-abc\";",
            &[],
        );
        check_found("tier-a/src/lib.rs", "const ID: &str = \"tier-a\";", &[]);
        check_found(
            "tier-a/src/lib.rs",
            "const ID: &str = \"tier-b\";",
            &["tier-a/src/lib.rs:1"],
        );
        check_found(super::REGISTRY, TABLE, &[]);
        check_found(
            "x/Cargo.toml",
            "# tier-a and others\nmembers = [\"tier-*\"]\n",
            &[],
        );
        check_found(
            "x/src/a.rs",
            "fn f() {}\n#[cfg(test)]\nmod tests {\n    const A: &str = \"tier-a\";\n}\n",
            &[],
        );
        check_found("x/src/a/tests.rs", "const A: &str = \"tier-a\";", &[]);
    }
}
