//! Finds the lines of a key in a block and replaces as little of them as the new value needs.
//!
//! What is spliced here is only a proposal: the caller reads it back before anybody sees it.

use std::ops::Range;

use serde_saphyr::granit_parser::ScalarStyle;

use super::quote::{quoted, quoted_item};
use super::{Wanted, item_lines, line_end};
use crate::text::frontmatter::{Frontmatter, holds_map, json_list};
use crate::text::yaml::{self, Entry, Node};

/// Holds one edit of a block that can be read.
pub(super) struct Edit<'a> {
    pub(super) source: &'a str,
    pub(super) page: &'a Frontmatter,
    pub(super) key: &'a str,
    pub(super) wanted: &'a Wanted,
}

impl Edit<'_> {
    /// Returns the edited page, or nothing when the block is not written in lines of keys.
    pub(super) fn apply(&self) -> Option<String> {
        let entries = &self.page.keys.entries;
        if self.page.keys.flow {
            return None;
        }
        let newline = self.block_line_end();
        let Some(index) = entries.iter().position(|entry| entry.key == self.key) else {
            let indent = entries.first().map_or("", |first| {
                let key = self.page.yaml.start + first.key_span.start;
                &self.source[self.line_start(key)..key]
            });
            let end = self.page.yaml.end;
            return Some(self.replace(end..end, &self.wanted.lines(self.key, indent, newline)));
        };
        let place = self.place(&entries[index], entries.get(index + 1))?;
        let node = &entries[index].value;
        Some(match (self.wanted, &node.value) {
            (Wanted::Text(text), yaml::Value::Text { style, .. }) if place.is_one_line() => {
                self.replace(place.value, &quoted(text, *style))
            }
            (Wanted::Text(text), yaml::Value::Empty) => {
                let at = place.colon;
                self.replace(at..at, &format!(" {}", quoted(text, ScalarStyle::Plain)))
            }
            (Wanted::List(items), yaml::Value::Text { text, style })
                if place.is_one_line() && json_list(text).is_some() =>
            {
                // Some other tool keeps its list as JSON in a string, and will want to read it again.
                self.replace(
                    place.value,
                    &quoted(&serde_json::to_string(items).ok()?, *style),
                )
            }
            (
                Wanted::List(items),
                yaml::Value::List {
                    items: old,
                    flow: true,
                },
            ) if place.is_one_line() => self.replace(place.value, &self.flow_list(items, old)),
            (
                Wanted::List(items),
                yaml::Value::List {
                    items: old,
                    flow: false,
                },
            ) if !items.is_empty() => self.replace_items(items, old, &place).unwrap_or_else(|| {
                self.replace(
                    place.lines.clone(),
                    &self.wanted.lines(self.key, place.indent, newline),
                )
            }),
            _ => self.replace(
                place.lines.clone(),
                &self.wanted.lines(self.key, place.indent, newline),
            ),
        })
    }

    fn replace(&self, range: Range<usize>, text: &str) -> String {
        format!(
            "{}{text}{}",
            &self.source[..range.start],
            &self.source[range.end..]
        )
    }

    fn block_line_end(&self) -> &'static str {
        line_end(&self.source[self.page.block.as_ref().map_or(0, |block| block.start)..])
    }

    fn line_start(&self, at: usize) -> usize {
        self.source[..at]
            .rfind('\n')
            .map_or(0, |newline| newline + 1)
    }

    fn line_end(&self, at: usize) -> usize {
        self.source[at..]
            .find('\n')
            .map_or(self.source.len(), |newline| at + newline + 1)
    }

    /// Finds the lines of a key, unless its value is shared with other keys or of a shape that we never write.
    fn place(&self, entry: &Entry, next: Option<&Entry>) -> Option<Place<'_>> {
        let base = self.page.yaml.start;
        let key = base + entry.key_span.start..base + entry.key_span.end;
        let start = self.line_start(key.start);
        let end = next.map_or(self.page.yaml.end, |next| {
            self.line_start(base + next.key_span.start)
        });
        let indent = &self.source[start..key.start];
        let written = key.end - base..end.checked_sub(base)?;
        if start < base
            || !indent.trim().is_empty()
            || holds_map(&entry.value)
            || !is_inside(&entry.value, &written)
        {
            return None;
        }
        let gap = self.source[key.end..].find(':')?;
        if !self.source[key.end..key.end + gap].trim().is_empty() {
            return None;
        }
        let colon = key.end + gap + 1;
        let content_end = base + content_end(&entry.value, &self.source[self.page.yaml.clone()]);
        let value = base + entry.value.span.start..content_end.max(base + entry.value.span.start);
        let before_value = self.source.get(colon..value.start).unwrap_or_default();
        Some(Place {
            lines: start..self.line_end(content_end.max(colon)),
            indent,
            colon,
            bare: before_value.trim().is_empty() && !self.source[start..value.end].contains('\n'),
            value,
        })
    }

    /// Writes a list in brackets, with the old items as they were spelt.
    fn flow_list(&self, items: &[String], old: &[Node]) -> String {
        let spell = |item: &String| -> String {
            let same = old.iter().find(|node| match &node.value {
                yaml::Value::Text { text, .. } => text.trim() == item,
                _ => false,
            });
            same.map_or_else(
                || quoted_item(item),
                |node| {
                    let base = self.page.yaml.start;
                    self.source[base + node.span.start..base + node.span.end].to_owned()
                },
            )
        };
        format!(
            "[{}]",
            items.iter().map(spell).collect::<Vec<_>>().join(", ")
        )
    }

    /// Keeps the lines of the items that stay at the front and writes the rest anew.
    fn replace_items(&self, items: &[String], old: &[Node], place: &Place<'_>) -> Option<String> {
        let mut starts = Vec::with_capacity(old.len());
        for node in old {
            let at = self.page.yaml.start + node.span.start;
            let start = self.line_start(at);
            if self.source[start..at].trim() != "-" {
                return None;
            }
            starts.push(start);
        }
        let first = *starts.first()?;
        let dash = self.source[first..].find('-')?;
        let same = |(node, item): &(&Node, &String)| match &node.value {
            yaml::Value::Text { text, .. } => text.trim() == item.as_str(),
            _ => false,
        };
        let kept = old.iter().zip(items).take_while(same).count();
        let from = starts.get(kept).copied().unwrap_or(place.lines.end);
        let lines = item_lines(
            &items[kept..],
            &self.source[first..first + dash],
            self.block_line_end(),
        );
        Some(self.replace(from..place.lines.end, &lines))
    }
}

/// Holds where a key is written.
struct Place<'a> {
    /// Whole lines from the key to the end of its value.
    lines: Range<usize>,
    indent: &'a str,
    /// Byte after the colon.
    colon: usize,
    value: Range<usize>,
    /// Whether the value stands on the key's line with neither tag nor anchor before it.
    bare: bool,
}

impl Place<'_> {
    const fn is_one_line(&self) -> bool {
        self.bare
    }
}

/// Returns whether a value is written in `range` as a whole, which an alias is not.
fn is_inside(node: &Node, range: &Range<usize>) -> bool {
    let inside = range.start <= node.span.start && node.span.start <= range.end;
    match &node.value {
        yaml::Value::List { items, .. } => {
            inside && items.iter().all(|item| is_inside(item, range))
        }
        _ => inside && node.span.end <= range.end,
    }
}

/// Returns where the last written byte of a value is, in the YAML; comments after it do not count.
fn content_end(node: &Node, yaml: &str) -> usize {
    match &node.value {
        yaml::Value::List { items, flow: false } => items
            .last()
            .map_or(node.span.start, |item| content_end(item, yaml)),
        _ => {
            node.span.start
                + yaml
                    .get(node.span.clone())
                    .map_or(0, |written| written.trim_end().len())
        }
    }
}
