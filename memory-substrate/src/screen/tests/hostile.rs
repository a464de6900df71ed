//! Texts that were written to take long.
//!
//! Each is so long that the time for it would run into minutes if it grew with the square of the length.

use std::cell::Cell;

use super::*;

const LONG: usize = 400_000;
const LONGER: usize = 2_000_000;

fn repeated(piece: &str, length: usize) -> String {
    piece.repeat(length / piece.len())
}

/// Returns how many turns it takes until nothing more is found.
fn turns(text: &str) -> usize {
    let turns = Cell::new(0);
    settle(text, |text, reach, findings| {
        turns.set(turns.get() + 1);
        marked(text, secrets::find(text), reach, findings)
    });
    turns.get()
}

#[test]
fn a_line_of_direction_marks_is_looked_through_once() {
    let text = repeated("a\u{200E}", LONG);
    assert_eq!(screen(&text).text, text.replace('\u{200E}', ""));
    assert_eq!(inspect(&text).len(), text.matches('\u{200E}').count());
    let both = format!("{text}ש");
    assert_eq!(screen(&both).text, both);
}

#[test]
fn skin_tones_that_nobody_wears_are_not_walked_over_again() {
    let text = repeated("\u{1F3FB}\u{200D}", LONGER);
    assert_eq!(screen(&text).text, text.replace('\u{200D}', ""));
}

#[test]
fn fillers_without_a_syllable_go_at_once() {
    let text = repeated("\u{115F}", LONG);
    assert_eq!(screen(&format!("{text}x")).text, "x");
    assert_eq!(screen(&repeated("\u{1160}", LONG)).text, "");
}

#[test]
fn keys_that_only_begin_are_read_once() {
    let begin = "-----BEGIN PRIVATE KEY-----\n";
    let bare = repeated(begin, LONG);
    assert_eq!(screen(&bare).text, bare);
    let body = format!("{begin}{}\n", alnum(64));
    let text = repeated(&body, LONG);
    assert_eq!(
        screen(&text).text,
        "[redacted: private key]\n".repeat(text.len() / body.len())
    );
    // Nor is one a line at the beginning of another.
    let noted = format!("Note: {body}");
    let text = repeated(&noted, LONG);
    assert_eq!(
        screen(&text).text,
        "Note: [redacted: private key]\n".repeat(text.len() / noted.len())
    );
}

#[test]
fn keys_with_nothing_between_them_go_in_one_turn() {
    let key = format!("PMAK-{}-{}", hex(24), hex(34));
    let text = repeated(&key, LONG);
    assert_eq!(secrets::find(&text).len(), text.len() / key.len());
    assert_eq!(turns(&text), 2);
}

#[test]
fn a_text_that_needs_one_more_turn_each_time_is_cut_short() {
    let pair = format!("PMAK-{}-{}bkua_{}", hex(24), hex(34), hex(40));
    let text = format!("before {} behind\nnext", repeated(&pair, LONG));
    assert!(turns(&text) <= PATIENCE + 2, "{}", turns(&text));
    let screened = screen(&text);
    assert!(screened.text.starts_with("before [redacted: postman"));
    assert!(screened.text.ends_with("]\nnext"), "{}", screened.text);
    assert_eq!(screen(&screened.text).text, screened.text);
}

#[test]
fn lines_with_something_hidden_are_gone_through_side_by_side() {
    let text = repeated("a\u{200B}b\n", LONGER) + "pass\u{200B}word: hunter2";
    let lines = text.lines().count();
    let spots = inspect(&text);
    assert_eq!(spots.len(), lines + 1);
    let secret = spots.last().map(ToString::to_string);
    assert_eq!(secret, Some(format!("{lines}:12: a secret (password)")));
}

#[test]
fn names_without_values_are_passed_over() {
    for piece in [
        "token-",
        "token=",
        "password:",
        "password: ",
        "password is blue ",
        "_key=",
        "curl -u a:$A ",
        "eyJaaaaaaaa-",
    ] {
        let text = piece.repeat(60_000 / piece.len());
        let screened = screen(&text);
        assert!(screened.text.len() >= text.len() - 100, "{piece}");
    }
}
