//! Taking a consolidation back: its pages say again what they said, as far as nobody has gone on from there, and its entries
//! stand in the buffer.
//!
//! Later runs write beside what this one wrote, so taking it back by lines alone would seldom succeed. What it filed is known
//! by its marks, and where the lines do not merge, those are taken out and everything else stays.

use std::collections::BTreeSet;
use std::ops::Range;

use memory_core::item::{ItemId, ItemState};
use memory_core::store::StoreResult;
use memory_core::text::citation::marks;
use memory_core::time::Timestamp;
use rusqlite::Connection;

use super::{ledger, views};
use crate::oplog::{Change, OriginChange, Part, ids_of};
use crate::pages::{FilePages, hash_bytes, page_of_path};
use crate::state::history::PastPart;
use crate::state::runs::RunEntry;
use crate::state::{items, origins, runs};
use crate::undo::Bench;
use crate::workspace::Workspace;

/// What taking a run back comes to.
pub(crate) struct Unfiled {
    pub(crate) parts: Vec<Part>,
    /// The entries that stand in the buffer again.
    pub(crate) entries: Vec<String>,
}

/// Plans taking back a run that did these parts and took these entries.
pub(crate) fn take_back(
    bench: &Bench,
    connection: &Connection,
    parts: &[PastPart],
    taken: &[RunEntry],
    (operation, at): (&str, Timestamp),
) -> StoreResult<Unfiled> {
    let mut planned = Vec::new();
    let ids: BTreeSet<&str> = taken.iter().map(|entry| entry.entry.as_str()).collect();
    let views = views::Undone::of(parts, taken);
    for part in parts.iter().filter(|part| part.change == "write") {
        if part.met_an_edit() {
            continue;
        }
        planned.extend(if views::is_view(connection, &part.path)? {
            views.reversed(bench, connection, part)?
        } else {
            write(bench, connection, part, taken)?
        });
    }
    let entries = put_back(bench, parts, taken, &mut planned)?;
    leave(connection, parts, &ids, (operation, at))?;
    Ok(Unfiled {
        parts: planned,
        entries,
    })
}

/// Plans taking an entry out of every page and view where runs have put it. What a person has made of it there goes too, as
/// far as it stands on the line with its mark.
pub(crate) fn without_entry(
    connection: &Connection,
    files: &FilePages,
    workspace: &Workspace,
    id: &str,
) -> StoreResult<Vec<Part>> {
    let taken = runs::taken_of(connection, id)?;
    let mark = format!(" ^m-{id}");
    let mut parts = Vec::new();
    for slug in files.scan()?.files.into_keys() {
        let Some(page) = files.read_blocking(&slug)? else {
            continue;
        };
        if !String::from_utf8_lossy(&page.bytes).contains(&mark) {
            continue;
        }
        let blocks: Vec<RunEntry> = taken
            .iter()
            .filter(|entry| entry.block.is_some())
            .cloned()
            .collect();
        let content = without_lines(&without_blocks(&page.bytes, &blocks, true), id);
        let now = origins::of(connection, &slug)?;
        parts.push(Part {
            path: files.place_of(&slug)?,
            change: Change::Write {
                base: Some(page.bytes),
                content,
                merged: false,
            },
            origin: OriginChange::of(slug, now.clone(), now),
        });
    }
    parts.extend(views::without_entry(connection, workspace, &taken)?);
    Ok(parts)
}

/// Returns a text without the lines that state only this entry.
fn without_lines(text: &[u8], id: &str) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(text) else {
        return text.to_vec();
    };
    let kept = text.split_inclusive('\n').filter_map(|line| {
        let marks = marks(line);
        if !marks.iter().any(|mark| mark.id == id) {
            return Some(line.to_owned());
        }
        // Somebody else has said the same.
        (marks.len() > 1).then(|| unmarked(line, id))
    });
    kept.collect::<String>().into_bytes()
}

/// Plans giving one file what it had before.
fn write(
    bench: &Bench,
    connection: &Connection,
    part: &PastPart,
    taken: &[RunEntry],
) -> StoreResult<Option<Part>> {
    let Some(current) = bench.read(&part.path)? else {
        return Ok(None);
    };
    let after = part.after.as_deref().unwrap_or_default();
    if hash_bytes(&current) == after {
        // Nobody has gone on from there.
        return bench.reversed(connection, part);
    }
    let before = match &part.before {
        Some(hash) => bench.old(&part.path, hash, Some(&current))?,
        None => Vec::new(),
    };
    let merged = match bench.version(&part.path, after, Some(&current))? {
        Some(after) => diffy::merge_bytes(&after, &before, &current).ok(),
        None => None,
    };
    // A page that the run made is not emptied of what others have put on it since.
    let merged = merged.filter(|_| part.before.is_some());
    let content = merged.unwrap_or_else(|| without_blocks(&current, taken, false));
    if content == current {
        return Ok(None);
    }
    let origin = match &part.origin {
        Some(OriginChange { slug, .. }) => {
            let now = origins::of(connection, slug)?;
            OriginChange::of(slug.clone(), now.clone(), now)
        }
        None => None,
    };
    Ok(Some(Part {
        path: part.path.clone(),
        change: Change::Write {
            base: Some(current),
            content,
            merged: false,
        },
        origin,
    }))
}

/// Plans putting the entries back that do not stand in the buffer, and returns which.
fn put_back(
    bench: &Bench,
    parts: &[PastPart],
    taken: &[RunEntry],
    planned: &mut Vec<Part>,
) -> StoreResult<Vec<String>> {
    let Some(buffer) = parts.iter().find(|part| part.change == "remove") else {
        return Ok(Vec::new());
    };
    let there = bench.read(&buffer.path)?.unwrap_or_default();
    let standing = ids_of(&String::from_utf8_lossy(&there));
    let gone: Vec<&RunEntry> = taken
        .iter()
        .filter(|entry| !standing.contains(&entry.entry))
        .collect();
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let mut content = String::new();
    for entry in &gone {
        content.push_str(&entry.text);
        if !entry.text.ends_with('\n') {
            content.push('\n');
        }
    }
    planned.push(Part {
        path: buffer.path.clone(),
        change: Change::Append {
            header: String::new(),
            content,
        },
        origin: None,
    });
    Ok(gone.iter().map(|entry| entry.entry.clone()).collect())
}

/// Notes that the items of the entries are not stated on the run's pages any more.
fn leave(
    connection: &Connection,
    parts: &[PastPart],
    ids: &BTreeSet<&str>,
    (operation, at): (&str, Timestamp),
) -> StoreResult<()> {
    let pages: Vec<_> = parts
        .iter()
        .filter(|part| part.change == "write")
        .filter_map(|part| part.path.strip_prefix("memory/concepts/"))
        .map(|path| page_of_path(path).0)
        .collect();
    for id in ids {
        let Ok(item) = ItemId::minted(id) else {
            continue;
        };
        for (number, page) in pages.iter().enumerate() {
            if let Some(ItemState::Live(item)) = items::current(connection, &item)? {
                let key = format!("{operation}:{number}");
                ledger::leave(connection, (&key, at), &item, page)?;
            }
        }
    }
    Ok(())
}

/// Returns a text without what was put there for these entries. What a person has changed in that, and lines that said the
/// same before, only lose their marks.
fn without_blocks(text: &[u8], taken: &[RunEntry], only_whole: bool) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(text) else {
        return text.to_vec();
    };
    let mut kept = text.to_owned();
    for entry in taken {
        if let Some(place) = entry.block.as_ref().and_then(|block| whole(&kept, block)) {
            kept.replace_range(place, "");
        } else if !only_whole && marks(&kept).iter().any(|mark| mark.id == entry.entry) {
            kept = kept
                .split_inclusive('\n')
                .map(|line| {
                    if marks(line).iter().any(|mark| mark.id == entry.entry) {
                        unmarked(line, &entry.entry)
                    } else {
                        line.to_owned()
                    }
                })
                .collect();
        }
    }
    kept.into_bytes()
}

/// Returns a line without the mark of an entry.
fn unmarked(line: &str, entry: &str) -> String {
    let mark = format!(" ^m-{entry}");
    let mut places = line.match_indices(&mark);
    let place = places.find(|(at, mark)| {
        let rest = &line[at + mark.len()..];
        rest.is_empty() || rest.starts_with(char::is_whitespace)
    });
    match place {
        Some((at, mark)) => format!("{}{}", &line[..at], &line[at + mark.len()..]),
        None => line.to_owned(),
    }
}

/// Returns where a block stands as it was put there: whole lines, with nothing of a person's below that belongs to it.
fn whole(text: &str, block: &str) -> Option<Range<usize>> {
    let lines = text.replace("\r\n", "\n");
    if lines.len() != text.len() {
        // As long as the file has other line ends, so has the block.
        return place(text, &block.replace('\n', "\r\n"));
    }
    place(text, block)
}

fn place(text: &str, block: &str) -> Option<Range<usize>> {
    let (mut begin, bare) = (0, block.trim_end());
    while let Some(found) = text[begin..].find(bare) {
        let start = begin + found;
        let end = start + bare.len();
        let rest = &text[end..];
        let line = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let is_whole =
            (start == 0 || text[..start].ends_with('\n')) && rest[..line].trim().is_empty();
        let is_left_alone = !rest[line..].starts_with([' ', '\t'])
            || rest[line..]
                .trim_start_matches([' ', '\t'])
                .starts_with('\n');
        if is_whole && is_left_alone {
            return Some(start..end + line);
        }
        begin = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, block: Option<&str>) -> RunEntry {
        RunEntry {
            entry: id.to_owned(),
            text: String::new(),
            block: block.map(str::to_owned),
        }
    }

    #[test]
    fn only_what_was_put_there_goes() {
        let text = "# T\n\n- a ^m-1\n  more\n- b ^m-2\n- c ^m-1b ^m-4\n- d changed ^m-3\n- e ^m-5\n  - mine\n";
        let taken = [
            entry("1", Some("- a ^m-1\n  more\n")),
            entry("3", Some("- d ^m-3\n")),
            entry("4", None),
            entry("5", Some("- e ^m-5\n")),
        ];
        let left = without_blocks(text.as_bytes(), &taken, false);
        assert_eq!(
            String::from_utf8(left).expect("text"),
            "# T\n\n- b ^m-2\n- c ^m-1b\n- d changed\n- e\n  - mine\n"
        );
        let crossed = "- a ^m-1\r\n  more\r\nx\r\n";
        assert_eq!(without_blocks(crossed.as_bytes(), &taken, false), b"x\r\n");
    }
}
