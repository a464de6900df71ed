//! Telling what stands where in a text that is left as it is.
//!
//! It has to find all that [`screen`](super::screen) would take out, though that only shows step by step there, and to
//! say of each where it stands in the text as a person sees it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::secrets::{self, Secret};
use super::{FindingClass, Spot, composed, divided, hidden};

/// A byte offset, and what stands there.
type Place = (usize, FindingClass, &'static str);

/// Returns what [`screen`](super::screen) would take out of a text, in the order in which it stands there.
///
/// What only shows once something else is gone, such as a key with an invisible character in its middle, is found too,
/// at the place of what hides it, and what only shows in Unicode's composed form, at the beginning of its line.
pub fn inspect(text: &str) -> Vec<Spot> {
    let bare = hidden::bare(text);
    // A byte order mark at the very beginning is the file's and no part of its text.
    let of_file = usize::from(text.starts_with('\u{FEFF}'));
    let hidden = bare.hidden.get(of_file..).unwrap_or_default();
    let mut found: Vec<Place> = hidden
        .iter()
        .map(|(at, what)| (*at, FindingClass::Hidden, *what))
        .collect();
    // Without anything hidden there is nothing that could hide a secret.
    let open = match hidden {
        [] => Vec::new(),
        _ => secrets::find(text),
    };
    let is_open = |secret: &Secret| {
        let before = open.partition_point(|known| known.end <= secret.start);
        open.get(before)
            .is_some_and(|known| known.start < secret.end)
    };
    found.extend(divided(&bare).map(|secret| {
        let first = hidden.partition_point(|(at, _)| *at < secret.start);
        let hides = hidden
            .get(first)
            .filter(|(at, _)| *at < secret.end && !is_open(&secret));
        let place = hides.map_or(secret.start, |(at, _)| *at);
        (place, FindingClass::Secret, secret.what)
    }));
    found.extend(spelt_apart(&bare));
    found.sort_unstable();
    found.dedup();
    spots(text, &found)
}

/// Returns the secrets that show in a text once its accents are one with their letters, and do not before.
fn spelt_apart(bare: &hidden::Bare<'_>) -> Vec<Place> {
    let text = composed(Cow::Borrowed(&bare.text));
    if text == bare.text {
        return Vec::new();
    }
    let known: BTreeSet<_> = lines_of(&bare.text, &secrets::find(&bare.text)).collect();
    let secrets = secrets::find(&text);
    let new = lines_of(&text, &secrets).filter(|found| !known.contains(found));
    let mut starts = std::iter::once(0).chain(bare.text.match_indices('\n').map(|(at, _)| at + 1));
    let (mut line, mut start) = (0, starts.next().unwrap_or_default());
    new.map(|(number, what)| {
        if number > line {
            start = starts.nth(number - line - 1).unwrap_or(start);
            line = number;
        }
        (bare.origin(start..start).start, FindingClass::Secret, what)
    })
    .collect()
}

/// Returns the lines, from 0, on which secrets begin.
fn lines_of<'a>(
    text: &'a str,
    secrets: &'a [Secret],
) -> impl Iterator<Item = (usize, &'static str)> + 'a {
    let (mut line, mut at) = (0, 0);
    secrets.iter().map(move |secret| {
        line += text[at..secret.start].matches('\n').count();
        at = secret.start;
        (line, secret.what)
    })
}

/// Turns sorted byte offsets into lines and columns.
fn spots(text: &str, found: &[Place]) -> Vec<Spot> {
    let (mut line, mut column, mut at) = (1, 1, 0);
    found
        .iter()
        .map(|(offset, class, what)| {
            for character in text[at..*offset].chars() {
                if character == '\n' {
                    (line, column) = (line + 1, 1);
                } else {
                    column += 1;
                }
            }
            at = *offset;
            Spot {
                line,
                column,
                class: *class,
                what,
            }
        })
        .collect()
}
