//! The rule about source text: only the predicates and the tuning resolver read the raw keys that choose a tier.
//!
//! Every other place asks a named predicate. The systems this one learnt from decided by raw keys in dozens of places,
//! and the places disagreed.

use super::{Exemption, Violation};
use crate::lexer::{Placed, Token, code_tokens};

/// The sections whose keys are guarded.
const SECTIONS: [&str; 3] = ["v2", "v3", "substrate"];

/// The leaves that choose a tier. A field access to another leaf is fine: the typed configuration hands out what the
/// resolver made, and does not hand out these.
const SWITCHES: [&str; 2] = ["enabled", "live"];

/// The methods by which a generic table is asked for a key.
const LOOKUPS: [&str; 6] = [
    "get",
    "get_mut",
    "contains_key",
    "entry",
    "remove",
    "pointer",
];

const REASON: &str = "tier and tuning keys are read by memory_core::predicates and memory_core::config alone; \
                      call the predicate, so that every part decides alike";

/// Checks `(path, text)` pairs; files of the owners and exempted ones may read raw keys.
pub(crate) fn check(
    sources: &[(String, String)],
    owners: &[&str],
    exemptions: &[Exemption],
) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut needed = vec![false; exemptions.len()];
    for (path, text) in sources {
        if owners.iter().any(|owner| is_module(owner, path)) {
            continue;
        }
        let reads = raw_reads(text);
        if let Some(position) = exemptions
            .iter()
            .position(|exemption| exemption.path == path)
        {
            needed[position] |= !reads.is_empty();
            continue;
        }
        violations.extend(reads.into_iter().map(|(line, read)| Violation {
            path: format!("{path}:{line}"),
            what: format!("reads the raw key `{read}`"),
            reason: REASON.to_owned(),
        }));
    }
    for (exemption, _) in exemptions.iter().zip(needed).filter(|(_, needed)| !needed) {
        violations.push(Violation {
            path: exemption.path.to_owned(),
            what: format!(
                "is exempt from the raw-key rule (\"{}\") but has nothing to exempt",
                exemption.reason
            ),
            reason: "exemptions are frozen; a row nothing needs must go from xtask/src/boundary.rs"
                .to_owned(),
        });
    }
    violations
}

/// Returns whether `path` is the module `owner` (`a/b.rs`) or lies in its folder (`a/b/…`).
fn is_module(owner: &str, path: &str) -> bool {
    path.strip_prefix(owner)
        .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// Returns the raw reads of a source text as (line, key).
fn raw_reads(text: &str) -> Vec<(usize, String)> {
    let tokens = code_tokens(text);
    let mut reads: Vec<(usize, String)> = (0..tokens.len())
        .filter_map(|start| {
            let read = read_at(&tokens, start)?;
            Some((tokens[start].line, read))
        })
        .collect();
    reads.dedup();
    reads
}

fn read_at(tokens: &[Placed], start: usize) -> Option<String> {
    let token = |ahead: usize| tokens.get(start + ahead).map(|placed| &placed.token);
    let word = |ahead: usize| match token(ahead) {
        Some(Token::Word(word)) => Some(word.as_str()),
        _ => None,
    };
    let text = |ahead: usize| match token(ahead) {
        Some(Token::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let sign = |ahead: usize, expected: char| token(ahead) == Some(&Token::Sign(expected));
    let is_section = |name: &str| SECTIONS.contains(&name);

    // "memory.v3.live" or "/memory/v3/live" anywhere in a literal.
    if let Some(key) = text(0).and_then(key_in_literal) {
        return Some(key);
    }
    // x.v3.live, x.memory.v2.enabled
    if sign(0, '.')
        && let (Some(section), true, Some(leaf)) = (word(1), sign(2, '.'), word(3))
        && matches!(section, "v2" | "v3")
        && SWITCHES.contains(&leaf)
    {
        return Some(format!("memory.{section}.{leaf}"));
    }
    // x["v3"]["live"], x["v3"].get("live")
    if sign(0, '[')
        && sign(2, ']')
        && (sign(3, '[') || sign(3, '.'))
        && let Some(section) = text(1).filter(|section| is_section(section))
    {
        return Some(format!("memory.{section}"));
    }
    // x.get("v3")
    if sign(0, '.')
        && word(1).is_some_and(|method| LOOKUPS.contains(&method))
        && sign(2, '(')
        && let Some(section) = text(3).filter(|section| is_section(section))
    {
        return Some(format!("memory.{section}"));
    }
    None
}

fn key_in_literal(text: &str) -> Option<String> {
    SECTIONS.into_iter().find_map(|section| {
        ['.', '/'].into_iter().find_map(|separator| {
            let start = format!("memory{separator}{section}{separator}");
            let (_, rest) = text.split_once(&start)?;
            let leaf: String = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            Some(format!("memory.{section}.{leaf}"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{check, is_module, raw_reads};
    use crate::boundary::Exemption;

    /// Fills in section names, so that this file does not itself contain what it looks for.
    fn planted(template: &str) -> String {
        template
            .replace("V2", "v2")
            .replace("V3", "v3")
            .replace("SUB", "substrate")
    }

    fn reads(template: &str) -> Vec<String> {
        raw_reads(&planted(template))
            .into_iter()
            .map(|(_, key)| key)
            .collect()
    }

    #[test]
    fn every_spelling_of_a_raw_read_is_found() {
        for (template, key) in [
            ("config.get(\"memory.V3.live\")", "memory.V3.live"),
            ("table.pointer(\"/memory/V2/enabled\")", "memory.V2.enabled"),
            (
                "if config.memory.V3.live == Some(true) {}",
                "memory.V3.live",
            ),
            ("if memory.V2.enabled {}", "memory.V2.enabled"),
            ("let on = settings\n    .V3\n    .live;", "memory.V3.live"),
            ("value[\"V3\"][\"live\"]", "memory.V3"),
            ("value[\"V3\"].get(\"live\")", "memory.V3"),
            ("value.get(\"V3\")", "memory.V3"),
            (
                "format!(r#\"set memory.SUB.spread_k = 1\"#)",
                "memory.SUB.spread_k",
            ),
        ] {
            assert_eq!(reads(template), [planted(key)], "{template}");
        }
    }

    #[test]
    fn innocent_code_is_left_alone() {
        for template in [
            "// memory.V3.live is read by the predicate\nfn f() {}",
            "/// Asks for `memory.V3.live`.\nfn f() {}",
            "self.SUB.open()",
            "config.memory.SUB.bm25_k1",
            "config.memory.V3.needle_k",
            "let text = \"[memory.V3]\\nlive = true\";",
            "registry.V3.load()",
            "let tier = Tier::V3;",
            "names[\"V3\"]",
            "predicates::is_v3_live(&config)",
        ] {
            assert_eq!(reads(template), [""; 0], "{template}");
        }
    }

    #[test]
    fn owners_may_and_others_may_not() {
        let text = planted("x.memory.V3.live");
        let sources = [
            "memory-core/src/predicates.rs",
            "memory-core/src/predicates/table.rs",
            "strata/src/turn.rs",
        ]
        .map(|path| (path.to_owned(), text.clone()));
        let found = check(&sources, &["memory-core/src/predicates"], &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, "strata/src/turn.rs:1");
        assert!(found[0].what.contains(&planted("`memory.V3.live`")));
        assert!(found[0].reason.contains("predicate"));
        assert!(!is_module(
            "memory-core/src/predicates",
            "memory-core/src/predicates_other.rs"
        ));
    }

    #[test]
    fn exemption_is_honoured_while_needed_and_reported_afterwards() {
        let exemptions = [Exemption {
            path: "strata/src/init.rs",
            reason: "writes the first file",
        }];
        let source = |template: &str| [("strata/src/init.rs".to_owned(), planted(template))];
        assert_eq!(check(&source("\"memory.V3.live\""), &[], &exemptions), []);
        for sources in [&source("fn clean() {}")[..], &[]] {
            let found = check(sources, &[], &exemptions);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].path, "strata/src/init.rs");
            assert!(found[0].reason.contains("frozen"));
        }
    }
}
