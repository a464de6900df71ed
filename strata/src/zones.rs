//! Names of time zones: which are known, and which one was probably meant.
//!
//! A settings file may name any zone, since it may have been written on a computer that knows more of them. Somebody who
//! sets one here wants it to count here.

use memory_core::time::is_known_zone;

use crate::error::StrataError;

/// Letters that may differ for a name to be suggested.
const NEAR: usize = 3;

/// Returns an error unless a time zone is known.
pub(crate) fn check(zone: &str) -> Result<(), StrataError> {
    if is_known_zone(zone) {
        return Ok(());
    }
    Err(StrataError::UnknownTimeZone {
        zone: zone.to_owned(),
        suggestion: suggest(zone),
    })
}

/// Returns what to do about an unknown name.
pub(crate) fn advice(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(
        || "use a name such as `Europe/Berlin` or `UTC`".to_owned(),
        |name| format!("did you mean `{name}`?"),
    )
}

/// Returns the known name that is nearest to a text, if one is near: the same place in another region, or some letters off.
fn suggest(zone: &str) -> Option<String> {
    let wanted = zone.to_lowercase();
    let place = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    let known = jiff::tz::db();
    known
        .available()
        .map(|name| name.as_str().to_owned())
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let distance = if place(&lower) == place(&wanted) {
                0
            } else {
                distance(&lower, &wanted)
            };
            (distance <= NEAR).then_some((distance, name.len(), name))
        })
        .min()
        .map(|(_, _, name)| name)
}

/// Returns how many letters have to be changed, added or left out to make one text of another.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted() {
        assert_eq!(distance("berlin", "berlin"), 0);
        assert_eq!(distance("berlin", "brelin"), 2);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn a_name_that_is_near_is_suggested() {
        assert!(check("Europe/Berlin").is_ok());
        assert_eq!(suggest("Mars/Berlin").as_deref(), Some("Europe/Berlin"));
        assert_eq!(suggest("Europe/Brelin").as_deref(), Some("Europe/Berlin"));
        assert_eq!(suggest("Mars/X"), None);
        let error = check("Mars/Olympus_Mons").unwrap_err().to_string();
        assert!(error.contains("such as `Europe/Berlin`"), "{error}");
    }
}
