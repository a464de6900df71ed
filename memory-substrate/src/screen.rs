//! What text is relieved of before any of it is written: characters nobody sees, and secrets.
//!
//! A note is kept for years, read by models and copied into backups, so a key that was pasted into one must not get that
//! far, and neither must instructions that a person cannot see. Both are taken out rather than the note refused: the
//! rest of it is worth keeping, and the caller is told what was done. A page that a person wrote is never changed; for
//! those there is [`inspect`], which only says what stands where.
//!
//! The same text always comes out the same, and coming through a second time changes nothing. Nothing here keeps, logs
//! or reports the text of a secret.
//!
//! # Limitations
//!
//! Secrets are recognised by their form or by words beside them, so a bare word that only its owner knows to be a
//! password is kept. That is the price of leaving hashes, identifiers and prose alone.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

mod hidden;
mod secrets;
mod spots;

pub use spots::inspect;

/// What kind of thing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingClass {
    /// Something that gives access.
    Secret,
    /// Characters that cannot be seen.
    Hidden,
}

/// Things of one kind that a text was relieved of, never the things themselves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Finding {
    /// Secret or hidden.
    pub class: FindingClass,
    /// What it was, such as `aws access key`.
    pub what: Cow<'static, str>,
    /// How many there were.
    pub count: usize,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = match self.class {
            FindingClass::Secret => "redacted",
            FindingClass::Hidden => "removed",
        };
        write!(formatter, "{done}: {}", self.what)?;
        if self.count > 1 {
            write!(formatter, " ({} times)", self.count)?;
        }
        Ok(())
    }
}

/// A text as it may be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Screened {
    /// The text, in Unicode's composed form.
    pub text: String,
    /// What it was relieved of, sorted, one entry a kind.
    pub findings: Vec<Finding>,
}

/// Where something stands in a text that is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Spot {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Secret or hidden.
    pub class: FindingClass,
    /// What it is.
    pub what: &'static str,
}

impl fmt::Display for Spot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, .. } = self;
        match self.class {
            FindingClass::Secret => write!(formatter, "{line}:{column}: a secret ({})", self.what),
            FindingClass::Hidden => write!(formatter, "{line}:{column}: {}", self.what),
        }
    }
}

/// How often a text is gone through for what only shows once something else is gone.
///
/// Twice is usual, and nobody writes by chance what needs more than a few. A text that was made to need one more each
/// time would be gone through without end, so from then on the rest of a line goes with the secret in it.
const PATIENCE: usize = 8;

/// Returns a text without hidden characters and with a mark in place of every secret.
pub fn screen(text: &str) -> Screened {
    settle(text, |text, reach, findings| {
        let bare = hidden::bare(text);
        for (_, what) in &bare.hidden {
            findings.add(FindingClass::Hidden, what);
        }
        // Composed afterwards, as an accent would change the end of a key and the key would be none.
        let secrets = secrets::find(&bare.text);
        composed(marked(&bare.text, secrets, reach, findings).into()).into_owned()
    })
}

/// Returns a text with a mark in place of every secret and otherwise as it was: the record of what was said keeps every
/// character that is no secret.
///
/// A secret goes with the hidden characters that divide it.
pub fn redact(text: &str) -> Screened {
    settle(text, |text, reach, findings| {
        let mut secrets = secrets::find(text);
        let bare = hidden::bare(text);
        if bare.text != text {
            secrets.extend(divided(&bare));
            secrets = secrets::merged(secrets);
        }
        marked(text, secrets, reach, findings)
    })
}

/// Returns the secrets of a bare text, where they stand in the text as it was.
fn divided(bare: &hidden::Bare<'_>) -> impl Iterator<Item = secrets::Secret> {
    secrets::find(&bare.text).into_iter().map(|mut secret| {
        let place = bare.origin(secret.start..secret.end);
        (secret.start, secret.end) = (place.start, place.end);
        secret
    })
}

/// What was found so far.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, class: FindingClass, what: &'static str) {
        let same = |known: &&mut Finding| known.class == class && known.what == what;
        match self.0.iter_mut().find(same) {
            Some(known) => known.count += 1,
            None => self.0.push(Finding {
                class,
                what: Cow::Borrowed(what),
                count: 1,
            }),
        }
    }
}

/// How much goes with a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Nothing.
    Itself,
    /// What stands behind it on its line.
    Line,
}

/// Repeats a step until it finds nothing more. It ends because every change takes away characters that no mark has.
fn settle(text: &str, step: impl Fn(&str, Reach, &mut Findings) -> String) -> Screened {
    let mut findings = Findings::default();
    let mut text = text.to_owned();
    for turn in 0_usize.. {
        let reach = if turn < PATIENCE {
            Reach::Itself
        } else {
            Reach::Line
        };
        let next = step(&text, reach, &mut findings);
        if next == text {
            break;
        }
        text = next;
    }
    let mut findings = findings.0;
    findings.sort_unstable();
    Screened { text, findings }
}

/// Returns a text with marks in place of secrets.
fn marked(
    text: &str,
    secrets: Vec<secrets::Secret>,
    reach: Reach,
    findings: &mut Findings,
) -> String {
    let mut marked = String::with_capacity(text.len());
    let mut at = 0;
    for secret in secrets {
        // It went with the one before.
        if secret.start < at {
            continue;
        }
        marked.push_str(&text[at..secret.start]);
        marked.push_str(&secrets::mark(secret.what));
        findings.add(FindingClass::Secret, secret.what);
        at = match reach {
            Reach::Itself => secret.end,
            Reach::Line => {
                let rest = text[secret.end..].find('\n');
                rest.map_or(text.len(), |length| secret.end + length)
            }
        };
    }
    marked.push_str(&text[at..]);
    marked
}

fn composed(text: Cow<'_, str>) -> Cow<'_, str> {
    match is_nfc_quick(text.chars()) {
        IsNormalized::Yes => text,
        _ => Cow::Owned(text.nfc().collect()),
    }
}

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
