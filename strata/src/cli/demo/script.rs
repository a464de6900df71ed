//! The conversation that the demonstration plays, read from `examples/demo/conversation.toml`.

use std::path::Path;

use strata::{ErrorKind, Tier};
use toml_edit::{DocumentMut, Table};

use crate::cli::output::Failure;

/// One turn of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptTurn {
    /// The tier the settings are switched to before the turn.
    pub(super) tier: Tier,
    /// What the user says.
    pub(super) user: String,
    /// What the assistant answers.
    pub(super) reply: String,
    /// Pages that should be in context.
    pub(super) expect: Vec<String>,
}

/// Reads the conversation.
pub(super) fn read(path: &Path) -> Result<Vec<ScriptTurn>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|source| strata::StrataError::Io {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|reason| {
        Failure::new(ErrorKind::Failed, format!("`{}`: {reason}", path.display()))
    })
}

fn parse(text: &str) -> Result<Vec<ScriptTurn>, String> {
    let document: DocumentMut = text.parse().map_err(|error| format!("{error}"))?;
    let turns = document
        .get("turn")
        .and_then(toml_edit::Item::as_array_of_tables)
        .ok_or("there is no `[[turn]]`")?;
    turns
        .iter()
        .enumerate()
        .map(|(index, table)| turn(table).map_err(|reason| format!("turn {}: {reason}", index + 1)))
        .collect()
}

fn turn(table: &Table) -> Result<ScriptTurn, String> {
    let text = |key: &str| {
        let value = table.get(key).and_then(toml_edit::Item::as_str);
        value
            .map(str::to_owned)
            .ok_or_else(|| format!("`{key}` is missing or not a text"))
    };
    let expect = table
        .get("expect")
        .and_then(toml_edit::Item::as_array)
        .ok_or("`expect` is missing or not a list")?;
    let expect: Option<Vec<String>> = expect
        .iter()
        .map(|page| page.as_str().map(str::to_owned))
        .collect();
    Ok(ScriptTurn {
        tier: text("tier")?
            .parse()
            .map_err(|error: memory_core::predicates::UnknownTier| error.to_string())?,
        user: text("user")?,
        reply: text("reply")?,
        expect: expect.ok_or("`expect` holds something that is not a text")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_read() {
        let text =
            "[[turn]]\ntier = \"v2\"\nuser = \"why?\"\nreply = \"because\"\nexpect = [\"a/b\"]\n";
        let expected = ScriptTurn {
            tier: Tier::V2,
            user: "why?".into(),
            reply: "because".into(),
            expect: vec!["a/b".into()],
        };
        assert_eq!(parse(text), Ok(vec![expected]));
    }

    #[test]
    fn what_is_missing_is_named_with_its_turn() {
        let error = parse("[[turn]]\ntier = \"v2\"\nreply = \"x\"\nexpect = []\n").unwrap_err();
        assert_eq!(error, "turn 1: `user` is missing or not a text");
        assert!(
            parse("[[turn]]\ntier = \"v9\"\nuser=\"\"\nreply=\"\"\nexpect=[]\n")
                .unwrap_err()
                .contains("v9")
        );
    }
}
