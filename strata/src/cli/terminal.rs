//! Text on its way to a terminal: colours of ours go through, and nothing else that steers one.
//!
//! File names and pages are other people's texts and may hold sequences that move the cursor, hide what was printed or
//! make it look like something else. So all that is printed for people goes through one function. It has to tell our own
//! colours from theirs, and does so by a mark that is made up anew for each process and that no text can know.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::OnceLock;

/// Begins and ends a mark. No text may hold these, by the rules of Unicode.
const BEGIN: char = '\u{FDD0}';
const END: char = '\u{FDD1}';

/// The codes that [`Style`] uses.
const CODES: [&str; 7] = ["0", "1", "2", "1;31", "32", "33", "36"];

/// Tells whether text is coloured: never with `NO_COLOR`, always with `CLICOLOR_FORCE`, else on a terminal.
pub(crate) fn wants_colour(terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    if set("NO_COLOR") {
        return false;
    }
    let forced = variable("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
    forced || (terminal && variable("TERM").is_none_or(|term| term != "dumb"))
}

/// Colours text, or leaves it plain.
///
/// What it returns is not for a terminal yet: [`for_terminal`] makes it so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    on: bool,
}

impl Style {
    pub(crate) const fn new(on: bool) -> Self {
        Self { on }
    }

    /// Returns the style that leaves everything plain.
    #[cfg(test)]
    pub(crate) const fn plain() -> Self {
        Self { on: false }
    }

    fn paint(self, code: &str, text: impl Display) -> String {
        if self.on {
            let (open, close) = (mark(code), mark("0"));
            format!("{open}{text}{close}")
        } else {
            text.to_string()
        }
    }

    pub(crate) fn bold(self, text: impl Display) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: impl Display) -> String {
        self.paint("2", text)
    }

    pub(crate) fn red(self, text: impl Display) -> String {
        self.paint("1;31", text)
    }

    pub(crate) fn green(self, text: impl Display) -> String {
        self.paint("32", text)
    }

    pub(crate) fn yellow(self, text: impl Display) -> String {
        self.paint("33", text)
    }

    pub(crate) fn cyan(self, text: impl Display) -> String {
        self.paint("36", text)
    }
}

/// Returns the mark that stands for a colour until the text is printed.
fn mark(code: &str) -> String {
    static KEY: OnceLock<String> = OnceLock::new();
    let key = KEY.get_or_init(|| uuid::Uuid::now_v7().simple().to_string());
    format!("{BEGIN}{key} {code}{END}")
}

/// Returns a text as a terminal may get it: with our colours and without anything else that steers one.
pub(crate) fn for_terminal(text: &str) -> String {
    let mut text = escaped(text).into_owned();
    if text.contains(BEGIN) {
        for code in CODES {
            text = text.replace(&mark(code), &format!("\x1b[{code}m"));
        }
    }
    text
}

/// Returns a text in which characters that steer a terminal are written out, such as `\u{1b}`.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        // The line end of another system is no more than a line end.
        let ends_line = letter == '\r' && letters.peek() == Some(&'\n');
        if steers(letter) && !ends_line {
            safe.extend(letter.escape_unicode());
        } else {
            safe.push(letter);
        }
    }
    Cow::Owned(safe)
}

/// Tells whether a character steers a terminal, or the order in which it shows others.
fn steers(letter: char) -> bool {
    let reorders = matches!(letter, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    reorders || (letter.is_control() && letter != '\n' && letter != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_follows_the_conventions() {
        let with = |pairs: &'static [(&'static str, &'static str)]| {
            move |name: &str| {
                pairs
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| (*value).to_owned())
            }
        };
        assert!(wants_colour(true, with(&[])));
        assert!(!wants_colour(false, with(&[])));
        assert!(!wants_colour(true, with(&[("NO_COLOR", "1")])));
        assert!(wants_colour(true, with(&[("NO_COLOR", "")])));
        assert!(wants_colour(false, with(&[("CLICOLOR_FORCE", "1")])));
        assert!(!wants_colour(false, with(&[("CLICOLOR_FORCE", "0")])));
        assert!(!wants_colour(
            true,
            with(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")])
        ));
        assert!(!wants_colour(true, with(&[("TERM", "dumb")])));
    }

    #[test]
    fn plain_style_adds_nothing() {
        assert_eq!(Style::plain().red("x"), "x");
        assert_eq!(
            for_terminal(&Style::new(true).red("x")),
            "\x1b[1;31mx\x1b[0m"
        );
    }

    #[test]
    fn what_steers_a_terminal_is_written_out() {
        for (text, expected) in [
            ("plain\ttext\nof two lines", "plain\ttext\nof two lines"),
            ("\x1b[2Jgone", "\\u{1b}[2Jgone"),
            ("\u{9b}31mred", "\\u{9b}31mred"),
            ("a\rb\r\nc", "a\\u{d}b\r\nc"),
            ("bell\u{7}del\u{7f}", "bell\\u{7}del\\u{7f}"),
            ("\u{202e}drawkcab", "\\u{202e}drawkcab"),
            ("Rösterei 杯测", "Rösterei 杯测"),
        ] {
            assert_eq!(escaped(text), expected);
            assert_eq!(for_terminal(text), expected);
        }
    }

    #[test]
    fn nobody_elses_text_is_coloured() {
        let foreign = format!("{BEGIN}0123456789abcdef 1;31{END}\x1b[31mred");
        let shown = for_terminal(&Style::new(true).bold(&foreign));
        assert_eq!(shown.matches('\x1b').count(), 2, "{shown:?}");
        assert!(shown.starts_with("\x1b[1m") && shown.ends_with("\x1b[0m"));
    }
}
