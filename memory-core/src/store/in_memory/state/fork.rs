//! Copying what is visible of a conversation.

use std::collections::BTreeMap;

use super::{Conversation, Inner, ValueKey, conflict, refuse, unknown};
use crate::store::{ForkExtent, Forked, StoreResult, TurnNode, content_hash};
use crate::time::Timestamp;

/// The branch that a copy is on.
const MAIN_BRANCH: &str = "main";

impl Inner {
    /// Copies a conversation under another name.
    pub(super) fn fork(
        &mut self,
        from: &str,
        to: &str,
        extent: &ForkExtent,
        at: Timestamp,
    ) -> StoreResult<Forked> {
        match self.conversations.get(to) {
            Some(known) if known.forked_from.as_deref() == Some(from) => {
                return Ok(Forked::default());
            }
            Some(_) => {
                return Err(conflict(
                    format!("conversation {to}"),
                    "no such conversation",
                    "one with a history of its own",
                ));
            }
            None if from == to => {
                return refuse(format!("conversation `{from}` cannot be its own fork"));
            }
            None => {}
        }
        let mut visible: Vec<TurnNode> = self.current_way(from).into_iter().cloned().collect();
        if let ForkExtent::UpTo(last) = extent {
            let kept = visible.iter().position(|node| node.id == *last);
            visible.truncate(kept.ok_or_else(|| unknown("visible message", last))? + 1);
        }
        let full = *extent == ForkExtent::Full;
        let names: BTreeMap<String, String> = visible
            .iter()
            .map(|node| (node.id.clone(), copy_of(to, &node.id)))
            .collect();
        let mut forked = Forked::default();
        self.copy_values(from, to, &names, full, &mut forked);
        self.copy_resident(from, to, &names, full, at, &mut forked);
        let mut parent = None;
        for mut node in visible {
            let copy = names[&node.id].clone();
            forked.blocks += node.attached_blocks.len() as u64;
            forked.messages.push((node.id.clone(), copy.clone()));
            node.metadata = with_source(&node.metadata, &node.id);
            node.id.clone_from(&copy);
            to.clone_into(&mut node.conversation);
            MAIN_BRANCH.clone_into(&mut node.branch);
            node.parent = parent.replace(copy);
            self.nodes.push(node);
        }
        let conversation = Conversation {
            branch: MAIN_BRANCH.to_owned(),
            forked_from: Some(from.to_owned()),
            heads: BTreeMap::from([(MAIN_BRANCH.to_owned(), parent)]),
        };
        self.conversations.insert(to.to_owned(), conversation);
        Ok(forked)
    }

    /// Copies values. One that names a message follows that message; the others speak of the whole conversation, so a
    /// part of it does not get them.
    fn copy_values(
        &mut self,
        from: &str,
        to: &str,
        names: &BTreeMap<String, String>,
        full: bool,
        forked: &mut Forked,
    ) {
        let ours = self.values.iter().filter(|(key, _)| key.owner == from);
        let copies: Vec<(ValueKey, String)> = ours
            .filter_map(|(key, value)| {
                let copy = self.follow(from, value, names, full)?;
                let owner = to.to_owned();
                Some((
                    ValueKey {
                        owner,
                        ..key.clone()
                    },
                    copy,
                ))
            })
            .collect();
        for (key, value) in copies {
            forked.values += u64::from(!self.values.contains_key(&key));
            self.values.entry(key).or_insert(value);
        }
    }

    fn copy_resident(
        &mut self,
        from: &str,
        to: &str,
        names: &BTreeMap<String, String>,
        full: bool,
        at: Timestamp,
        forked: &mut Forked,
    ) {
        for (of, mut entry) in self.resident.clone() {
            let copy = self.follow(from, &entry.message, names, full);
            if let Some(copy) = copy.filter(|_| of == from) {
                entry.message.clone_from(&copy);
                entry.at = at;
                let before = self.resident.len();
                self.record(to, &copy, entry);
                forked.resident += (self.resident.len() - before) as u64;
            }
        }
    }

    /// Returns what stands in a copy for a text that may name a message; `None` when it is left out.
    fn follow(
        &self,
        from: &str,
        text: &str,
        names: &BTreeMap<String, String>,
        full: bool,
    ) -> Option<String> {
        let is_message = || {
            self.node(text)
                .is_some_and(|node| node.conversation == from)
        };
        match names.get(text) {
            Some(copy) => Some(copy.clone()),
            None if full && !is_message() => Some(text.to_owned()),
            None => None,
        }
    }
}

/// Returns the identifier of a copy, which follows from what was copied where.
fn copy_of(to: &str, id: &str) -> String {
    content_hash(format!("{to}\0{id}").as_bytes())
}

fn with_source(metadata: &str, source: &str) -> String {
    let mut object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(metadata).unwrap_or_default();
    object.insert("forkSourceMessageId".to_owned(), source.into());
    serde_json::Value::Object(object).to_string()
}
