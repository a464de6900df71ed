//! How much work a text can make for one rule.

use std::cell::Cell;

use super::*;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

fn never(_: &Found<'_>) -> Option<usize> {
    ASKED.set(ASKED.get() + 1);
    None
}

#[test]
fn a_value_that_was_rejected_is_not_looked_at_for_every_name_in_it() {
    let rule = Compiled {
        what: "test",
        regex: Regex::new("token[^\n]{0,60}?(?-u:\\b)(?<secret>[a-z][a-z-]{19,400})")
            .expect("it is valid"),
        accept: never,
    };
    let text = "token-".repeat(10_000);
    assert!(rule.spans(&text).is_empty());
    let values = text.len() / 400;
    assert!(
        ASKED.get() <= (values + 1) * (TRIES_WITHIN + 1),
        "{}",
        ASKED.get()
    );
}

#[test]
fn a_second_name_inside_a_rejected_value_is_found() {
    let found = find("?token=&x_token=&password=hunter2");
    assert_eq!(
        found.iter().map(|secret| secret.what).collect::<Vec<_>>(),
        ["password"]
    );
    assert_eq!(find("token:password:hunter2").len(), 1);
}
