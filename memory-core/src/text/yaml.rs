//! Reads the keys of a YAML block as text, without ever deciding what a value means.
//!
//! A typed reader turns `title: no` into a boolean and `1.10` into `1.1`. So this one takes the parser's events,
//! in which a scalar is still the text that was written, and builds the small tree that frontmatter needs. Limits
//! are counted here, on the events: an alias is charged for everything it repeats.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, StructureStyle};

use super::fault::FaultKind;

/// Largest block that is read, in bytes.
pub(super) const MAX_BLOCK_BYTES: usize = 64 * 1024;
const MAX_NODES: usize = 2_000;
const MAX_DEPTH: usize = 16;
const MAX_ALIASES: usize = 16;

/// Holds one value and where it is written; an alias keeps the place of its anchor.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) span: Range<usize>,
    /// Number of nodes in this tree, itself included.
    size: usize,
}

/// Holds what a value is made of.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Nothing was written.
    Empty,
    Text {
        text: String,
        style: ScalarStyle,
    },
    List {
        items: Vec<Node>,
        flow: bool,
    },
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Compares two trees by what they say, wherever and however it is written.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Empty, Value::Empty) => true,
            (Value::Text { text: a, .. }, Value::Text { text: b, .. }) => a == b,
            (Value::List { items: a, .. }, Value::List { items: b, .. }) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.says_the_same(b))
            }
            (Value::Map(a), Value::Map(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .zip(b)
                        .all(|(a, b)| a.0 == b.0 && a.1.says_the_same(&b.1))
            }
            _ => false,
        }
    }
}

/// Holds one key of the block.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) value: Node,
}

/// Holds the keys of a block in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub(super) entries: Vec<Entry>,
    /// Whether the keys stand in braces, so that there are no lines to edit.
    pub(super) flow: bool,
}

/// Says what keeps a block from being read, and where.
#[derive(Debug)]
pub(super) struct YamlError {
    pub(super) kind: FaultKind,
    pub(super) offset: usize,
    pub(super) message: String,
}

/// Reads the one mapping of a block; nothing but comments counts as an empty mapping.
pub(super) fn parse(yaml: &str) -> Result<Block, YamlError> {
    if yaml.len() > MAX_BLOCK_BYTES {
        let message = format!(
            "the frontmatter is larger than {MAX_BLOCK_BYTES} bytes, its keys are not read"
        );
        return Err(YamlError {
            kind: FaultKind::OverBudget,
            offset: 0,
            message,
        });
    }
    let mut builder = Builder::default();
    let mut parser = Parser::new_from_str(yaml);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| YamlError {
            kind: FaultKind::Yaml,
            offset: error.marker().byte_offset().unwrap_or(0),
            message: format!("the frontmatter is not valid YAML: {}", error.info()),
        })?;
        builder.take(event, span.byte_range().unwrap_or(0..0))?;
    }
    Ok(builder.block)
}

/// Holds a collection that is still open.
struct Frame {
    span: Range<usize>,
    anchor: usize,
    size: usize,
    kind: FrameKind,
}

enum FrameKind {
    List {
        items: Vec<Node>,
        flow: bool,
    },
    Map {
        entries: Vec<Entry>,
        seen: HashSet<String>,
        key: Option<(String, Range<usize>)>,
        flow: bool,
    },
}

#[derive(Default)]
struct Builder {
    block: Block,
    stack: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    aliases: usize,
    documents: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Range<usize>) -> Result<(), YamlError> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(not_keys(span.start));
                }
            }
            Event::Scalar(text, style, anchor, _) => {
                let value = if matches!(style, ScalarStyle::Plain) && span.is_empty() {
                    Value::Empty
                } else {
                    Value::Text {
                        text: text.into_owned(),
                        style,
                    }
                };
                self.close(
                    Node {
                        value,
                        span,
                        size: 1,
                    },
                    anchor,
                )?;
            }
            Event::Alias(anchor) => {
                self.aliases += 1;
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    let message =
                        "the frontmatter is not valid YAML: an alias stands inside its own anchor";
                    return Err(YamlError {
                        kind: FaultKind::Yaml,
                        offset: span.start,
                        message: message.into(),
                    });
                };
                if self.aliases > MAX_ALIASES {
                    return Err(over_budget(span.start, "aliases", MAX_ALIASES));
                }
                self.close(node, 0)?;
            }
            Event::SequenceStart(style, anchor, _) => {
                let flow = matches!(style, StructureStyle::Flow);
                self.open(
                    span,
                    anchor,
                    FrameKind::List {
                        items: Vec::new(),
                        flow,
                    },
                )?;
            }
            Event::MappingStart(style, anchor, _) => {
                let flow = matches!(style, StructureStyle::Flow);
                let (entries, seen) = (Vec::new(), HashSet::new());
                self.open(
                    span,
                    anchor,
                    FrameKind::Map {
                        entries,
                        seen,
                        key: None,
                        flow,
                    },
                )?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(frame) = self.stack.pop() {
                    self.finish(frame, span.end)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn open(
        &mut self,
        span: Range<usize>,
        anchor: usize,
        kind: FrameKind,
    ) -> Result<(), YamlError> {
        if self.stack.len() == MAX_DEPTH {
            return Err(over_budget(span.start, "levels", MAX_DEPTH));
        }
        self.charge(1, span.start)?;
        self.stack.push(Frame {
            span,
            anchor,
            size: 1,
            kind,
        });
        Ok(())
    }

    fn finish(&mut self, frame: Frame, end: usize) -> Result<(), YamlError> {
        let span = frame.span.start..end.max(frame.span.start);
        match frame.kind {
            FrameKind::Map { entries, flow, .. } if self.stack.is_empty() => {
                self.block = Block { entries, flow };
                Ok(())
            }
            _ if self.stack.is_empty() => Err(not_keys(span.start)),
            FrameKind::List { items, flow } => {
                let node = Node {
                    value: Value::List { items, flow },
                    span,
                    size: frame.size,
                };
                self.attach(node, frame.anchor)
            }
            FrameKind::Map { entries, .. } => {
                let entries = entries
                    .into_iter()
                    .map(|entry| (entry.key, entry.value))
                    .collect();
                self.attach(
                    Node {
                        value: Value::Map(entries),
                        span,
                        size: frame.size,
                    },
                    frame.anchor,
                )
            }
        }
    }

    /// Takes a finished node that was not charged for yet.
    fn close(&mut self, node: Node, anchor: usize) -> Result<(), YamlError> {
        self.charge(node.size, node.span.start)?;
        self.attach(node, anchor)
    }

    fn attach(&mut self, node: Node, anchor: usize) -> Result<(), YamlError> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(frame) = self.stack.last_mut() else {
            // A bare `---` before the keys gives an empty document, which is as good as no keys.
            return if matches!(node.value, Value::Empty) {
                Ok(())
            } else {
                Err(not_keys(node.span.start))
            };
        };
        frame.size += node.size;
        match &mut frame.kind {
            FrameKind::List { items, .. } => items.push(node),
            FrameKind::Map {
                entries, seen, key, ..
            } => match key.take() {
                Some((key, key_span)) => entries.push(Entry {
                    key,
                    key_span,
                    value: node,
                }),
                None => *key = Some(as_key(node, seen)?),
            },
        }
        Ok(())
    }

    fn charge(&mut self, nodes: usize, offset: usize) -> Result<(), YamlError> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            Err(over_budget(offset, "values", MAX_NODES))
        } else {
            Ok(())
        }
    }
}

/// Returns the text of a key, which may stand once in its mapping.
fn as_key(node: Node, seen: &mut HashSet<String>) -> Result<(String, Range<usize>), YamlError> {
    let key = match node.value {
        Value::Text { text, .. } => text,
        Value::Empty => String::new(),
        Value::List { .. } | Value::Map(_) => {
            let message = "a key of the frontmatter is a collection, its keys are not read".into();
            return Err(YamlError {
                kind: FaultKind::Yaml,
                offset: node.span.start,
                message,
            });
        }
    };
    if !seen.insert(key.clone()) {
        let message = format!("the key `{key}` occurs twice, remove one of them");
        return Err(YamlError {
            kind: FaultKind::DuplicateKey,
            offset: node.span.start,
            message,
        });
    }
    Ok((key, node.span))
}

fn over_budget(offset: usize, what: &str, limit: usize) -> YamlError {
    let message = format!("the frontmatter has more than {limit} {what}, its keys are not read");
    YamlError {
        kind: FaultKind::OverBudget,
        offset,
        message,
    }
}

fn not_keys(offset: usize) -> YamlError {
    let message =
        "the text between the first two rules is not a set of keys, it is read as body".into();
    YamlError {
        kind: FaultKind::NotFrontmatter,
        offset,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_error(yaml: &str) -> FaultKind {
        parse(yaml).expect_err(yaml).kind
    }

    #[test]
    fn scalars_stay_the_text_that_was_written() {
        let block =
            parse("a: no\nb: 1.10\nc: null\nd: ~\ne:\nf: 'it''s'\n1: x\ng: &x 2024-01-05\nh: *x\n")
                .unwrap();
        let shown: Vec<_> = block
            .entries
            .iter()
            .map(|entry| match &entry.value.value {
                Value::Text { text, .. } => format!("{}={text}", entry.key),
                _ => format!("{} is empty", entry.key),
            })
            .collect();
        assert_eq!(
            shown,
            [
                "a=no",
                "b=1.10",
                "c=null",
                "d=~",
                "e is empty",
                "f=it's",
                "1=x",
                "g=2024-01-05",
                "h=2024-01-05"
            ]
        );
    }

    #[test]
    fn limits_hold() {
        let bomb = (0..15).fold("a: &a0 [x, x]\n".to_owned(), |yaml, i| {
            format!("{yaml}b{i}: &a{} [*a{i}, *a{i}]\n", i + 1)
        });
        assert_eq!(check_error(&bomb), FaultKind::OverBudget);
        let wide = format!("a: &a [{}]\nb: [*a, *a, *a]\n", "x,".repeat(900));
        assert_eq!(check_error(&wide), FaultKind::OverBudget);
        assert_eq!(
            check_error(&format!("a: {}", "[".repeat(100_000))),
            FaultKind::OverBudget
        );
        assert_eq!(
            check_error(&format!("a: {}", "x ".repeat(40_000))),
            FaultKind::OverBudget
        );
        assert_eq!(check_error("a: &a [*a]"), FaultKind::Yaml);
        assert_eq!(
            check_error("a: 1\nb: {c: 1, c: 2}"),
            FaultKind::DuplicateKey
        );
        assert_eq!(check_error("- a"), FaultKind::NotFrontmatter);
        assert_eq!(check_error("prose"), FaultKind::NotFrontmatter);
        assert_eq!(check_error("[a]: b"), FaultKind::Yaml);
        assert!(
            parse("").unwrap().entries.is_empty()
                && parse("# only a comment\n").unwrap().entries.is_empty()
        );
    }
}
