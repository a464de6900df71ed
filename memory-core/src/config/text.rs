//! Writes and removes single values in the text of a file, and leaves everything else in it alone.

use toml_edit::{Decor, DocumentMut, Item, Table, TableLike};

use super::report::{ConfigError, Origin, Place};
use super::value::Value;

pub(crate) fn parse(text: &str) -> Result<DocumentMut, ConfigError> {
    text.parse::<DocumentMut>()
        .map_err(|error| ConfigError::Malformed {
            origin: Origin::Assistant,
            place: error.span().map(|span| Place::of(text, span.start)),
            source: Box::new(error),
        })
}

/// Writes a value at a path; the error is how much of the path is in the way.
pub(crate) fn put(table: &mut dyn TableLike, path: &[&str], value: &Value) -> Result<(), usize> {
    let (name, rest) = path.split_first().expect("a key has at least one segment");
    if rest.is_empty() {
        return put_leaf(table, name, value);
    }
    if !table.contains_key(name) {
        let mut inner = Table::new();
        // A table that only leads to another needs no header, and one made by dotted keys cannot be continued under a
        // header.
        inner.set_implicit(true);
        inner.set_dotted(table.is_dotted());
        table.insert(name, Item::Table(inner));
    }
    let inner = table
        .get_mut(name)
        .and_then(Item::as_table_like_mut)
        .ok_or(1_usize)?;
    put(inner, rest, value).map_err(|depth| depth + 1)
}

fn put_leaf(table: &mut dyn TableLike, name: &str, value: &Value) -> Result<(), usize> {
    let mut new = value.to_toml();
    match table.get_mut(name) {
        None | Some(Item::None) => {
            table.insert(name, Item::Value(new));
            Ok(())
        }
        Some(Item::Value(old)) if !old.is_inline_table() => {
            // The decor holds the blanks before the value and the comment after it.
            let decor: Decor = old.decor().clone();
            *new.decor_mut() = decor;
            *old = new;
            Ok(())
        }
        Some(_) => Err(1),
    }
}

/// Removes a key; one that is not there is fine.
pub(crate) fn remove(table: &mut dyn TableLike, path: &[&str]) -> Result<(), usize> {
    let (name, rest) = path.split_first().expect("a key has at least one segment");
    if rest.is_empty() {
        table.remove(name);
        return Ok(());
    }
    match table.get_mut(name) {
        None => Ok(()),
        Some(item) => {
            let inner = item.as_table_like_mut().ok_or(1_usize)?;
            remove(inner, rest).map_err(|depth| depth + 1)
        }
    }
}

/// Returns the text of a document.
///
/// A file that held only comments has them at the end of the document; they open the file, so that is where they stay.
pub(crate) fn render(document: &mut DocumentMut, was_bare: bool) -> String {
    if !was_bare {
        return document.to_string();
    }
    let mut head = document.trailing().as_str().unwrap_or_default().to_owned();
    if !head.is_empty() && !head.ends_with('\n') {
        head.push('\n');
    }
    document.set_trailing("");
    head + &document.to_string()
}

/// Gives a new text the byte order mark and the line ends of the old one, which the editor does not keep.
pub(crate) fn with_line_ends_of(old: &str, new: &str) -> String {
    const MARK: char = '\u{feff}';
    let unix = new.trim_start_matches(MARK).replace("\r\n", "\n");
    let windows_lines = old.matches("\r\n").count();
    let text = if windows_lines * 2 > old.matches('\n').count() {
        unix.replace('\n', "\r\n")
    } else {
        unix
    };
    if old.starts_with(MARK) {
        format!("{MARK}{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Layers, set};

    #[track_caller]
    fn check_set(before: &str, key: &str, value: &str, after: &str) {
        let (text, warnings) =
            set(&Layers::of_assistant(before), &[(key, value)]).expect("accepted");
        assert_eq!(text, after);
        assert_eq!(warnings, []);
    }

    #[test]
    fn a_change_keeps_comments_order_and_blanks() {
        check_set(
            "# mine\ntime_zone = 'UTC' # home\n\n[memory.v3] # three\n  live = true # yes\nneedleK=3\n\n[other]\nx = 1\n",
            "memory.v3.live",
            "false",
            "# mine\ntime_zone = 'UTC' # home\n\n[memory.v3] # three\n  live = false # yes\nneedleK=3\n\n[other]\nx = 1\n",
        );
        check_set(
            "[memory.v3]\nlive = true # yes\n\n# last\n[plugins]\nv1 = 'a'\n",
            "memory.v3.needleK",
            "5",
            "[memory.v3]\nlive = true # yes\nneedleK = 5\n\n# last\n[plugins]\nv1 = 'a'\n",
        );
    }

    #[test]
    fn missing_tables_are_made_in_the_style_of_their_surroundings() {
        check_set(
            "# mine",
            "memory.v3.live",
            "true",
            "# mine\n[memory.v3]\nlive = true\n",
        );
        check_set("", "memory.v3.hotSet.k", "5", "[memory.v3.hotSet]\nk = 5\n");
        check_set(
            "",
            "time_zone",
            "Asia/Tokyo",
            "time_zone = \"Asia/Tokyo\"\n",
        );
        check_set(
            "memory.enabled = true\n",
            "memory.v3.live",
            "true",
            "memory.enabled = true\nmemory.v3.live = true\n",
        );
        check_set(
            "memory = { enabled = true }\n",
            "memory.v3.live",
            "true",
            "memory = { enabled = true , v3 = { live = true } }\n",
        );
        check_set(
            "[memory.v2]\nk = 0.1\n",
            "memory.enabled",
            "false",
            "[memory]\nenabled = false\n[memory.v2]\nk = 0.1\n",
        );
    }

    #[test]
    fn line_ends_and_the_byte_order_mark_stay() {
        check_set(
            "# a\r\n[memory.v3]\r\nlive = true\r\n",
            "memory.v3.needleK",
            "5",
            "# a\r\n[memory.v3]\r\nlive = true\r\nneedleK = 5\r\n",
        );
        check_set(
            "\u{feff}[memory.v3]\nlive = true\n",
            "memory.v3.live",
            "false",
            "\u{feff}[memory.v3]\nlive = false\n",
        );
    }
}
