//! Turns, what was shown in them and small values in plain collections.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;

use super::locked;
use crate::predicates::Tier;
use crate::services::{KvScope, LogKind, LogRow, Resident, ResidentEntry};
use crate::store::{PageOrigin, StateStore, StoreError, StoreResult, TurnNode};
use crate::text::slug::Slug;
use crate::time::Timestamp;

mod fork;
mod tree;

/// Turns and what belongs to them, in memory. It keeps the tree of messages too.
#[derive(Debug, Default)]
pub struct InMemoryState(Mutex<Inner>);

#[derive(Clone, Debug, Default)]
struct Inner {
    /// In order of arrival.
    nodes: Vec<TurnNode>,
    conversations: BTreeMap<String, Conversation>,
    /// With their conversation, in order of attachment.
    resident: Vec<(String, ResidentEntry)>,
    /// With their conversation, the oldest first.
    log: Vec<(String, LogRow)>,
    values: BTreeMap<ValueKey, String>,
    origins: BTreeMap<Slug, PageOrigin>,
    /// Conversations of which there are rows and no messages, and since when that has been known.
    orphans: BTreeMap<String, Timestamp>,
}

/// Where a conversation stands.
#[derive(Clone, Debug, Default)]
struct Conversation {
    branch: String,
    forked_from: Option<String>,
    /// The last visible message of each branch.
    heads: BTreeMap<String, Option<String>>,
}

/// Names a small value. The assistant's own have no owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ValueKey {
    owner: String,
    namespace: String,
    key: String,
}

impl InMemoryState {
    fn read<T>(&self, query: impl FnOnce(&Inner) -> T) -> T {
        query(&locked(&self.0))
    }

    /// Makes a change, all of it or nothing.
    fn write<T>(&self, change: impl FnOnce(&mut Inner) -> StoreResult<T>) -> StoreResult<T> {
        let mut inner = locked(&self.0);
        let mut next = inner.clone();
        let value = change(&mut next)?;
        *inner = next;
        Ok(value)
    }
}

impl ValueKey {
    fn new(namespace: &str, scope: KvScope, owner: &str, key: &str) -> StoreResult<Self> {
        if (scope == KvScope::Assistant) != owner.is_empty() {
            return refuse(format!(
                "a value of scope `{scope:?}` cannot belong to `{owner}`"
            ));
        }
        if namespace.is_empty() || key.is_empty() {
            return refuse("a value needs a namespace and a key");
        }
        Ok(Self {
            owner: owner.to_owned(),
            namespace: namespace.to_owned(),
            key: key.to_owned(),
        })
    }
}

impl Inner {
    fn node(&self, id: &str) -> Option<&TurnNode> {
        self.nodes.iter().find(|node| node.id == id)
    }

    fn put(&mut self, mut node: TurnNode) -> StoreResult<()> {
        let blocks = std::mem::take(&mut node.attached_blocks);
        let id = node.id.clone();
        let mut frozen = false;
        match self.nodes.iter_mut().find(|known| known.id == id) {
            None => {
                self.check(&node)?;
                let conversation = self
                    .conversations
                    .entry(node.conversation.clone())
                    .or_default();
                conversation.branch.clone_from(&node.branch);
                conversation
                    .heads
                    .insert(node.branch.clone(), Some(id.clone()));
                self.nodes.push(node);
            }
            Some(known) if same(known, &node) => frozen = known.finalised,
            Some(known) if known.finalised || !same_place(known, &node) => {
                return Err(conflict(
                    format!("message {id}"),
                    "a message that may still change",
                    "a final one, or one in another place",
                ));
            }
            Some(known) => {
                node.attached_blocks = std::mem::take(&mut known.attached_blocks);
                *known = node;
            }
        }
        self.attach(&id, blocks, frozen)
    }

    fn check(&self, node: &TurnNode) -> StoreResult<()> {
        let is_object = serde_json::from_str::<serde_json::Map<_, _>>(&node.metadata).is_ok();
        if node.id.is_empty() || node.conversation.is_empty() || node.turn == 0 || !is_object {
            return refuse("a message needs an identifier, a conversation, a turn and an object");
        }
        let is_there = |parent: &String| {
            self.node(parent)
                .is_some_and(|parent| parent.conversation == node.conversation)
        };
        if !node.parent.as_ref().is_none_or(is_there) {
            return refuse(format!("message {} follows one that is not there", node.id));
        }
        Ok(())
    }

    fn attach(
        &mut self,
        message: &str,
        blocks: Vec<(String, String)>,
        frozen: bool,
    ) -> StoreResult<()> {
        let Some(node) = self.nodes.iter_mut().find(|node| node.id == message) else {
            return Err(unknown("message", message));
        };
        for (key, text) in blocks {
            if key.is_empty() {
                return refuse("a block needs a key");
            }
            let known = node.attached_blocks.iter_mut().find(|known| known.0 == key);
            if known.as_ref().is_some_and(|known| known.1 == text) {
                continue;
            }
            if frozen {
                return Err(conflict(
                    format!("block `{key}` of message {message}"),
                    "a message that may still change",
                    "a final one, whose blocks stay as they are",
                ));
            }
            match known {
                Some(known) => known.1 = text,
                None => node.attached_blocks.push((key, text)),
            }
        }
        Ok(())
    }

    fn record(&mut self, conversation: &str, message: &str, entry: ResidentEntry) {
        let is_known = self.resident.iter().any(|(of, known)| {
            of == conversation
                && known.message == message
                && known.slug == entry.slug
                && known.section == entry.section
        });
        if !is_known {
            self.resident.push((conversation.to_owned(), entry));
        }
    }

    /// Returns what is in context. What hangs on a message that is not visible is not.
    fn in_context(&self, conversation: &str) -> Vec<ResidentEntry> {
        let visible = self.current_way(conversation);
        let counts = |entry: &ResidentEntry| {
            visible.iter().any(|node| node.id == entry.message)
                || !self
                    .nodes
                    .iter()
                    .any(|node| node.id == entry.message && node.conversation == conversation)
        };
        self.resident
            .iter()
            .filter(|(of, entry)| of == conversation && counts(entry))
            .map(|(_, entry)| entry.clone())
            .collect()
    }
}

#[async_trait]
impl StateStore for InMemoryState {
    async fn put_turn_node(&self, node: TurnNode) -> StoreResult<()> {
        self.write(|inner| inner.put(node))
    }

    async fn turn_node(&self, id: &str) -> StoreResult<Option<TurnNode>> {
        Ok(self.read(|inner| inner.node(id).cloned()))
    }

    async fn recent_turn_nodes(
        &self,
        conversation: &str,
        branch: &str,
        limit: u32,
    ) -> StoreResult<Vec<TurnNode>> {
        Ok(self.read(|inner| tree::newest(inner.way(conversation, branch), limit)))
    }

    async fn last_turn(&self, conversation: &str, branch: &str) -> StoreResult<u64> {
        Ok(self.read(|inner| {
            let way = inner.way(conversation, branch);
            way.last().map_or(0, |node| node.turn)
        }))
    }

    async fn attach_blocks(&self, message: &str, blocks: Vec<(String, String)>) -> StoreResult<()> {
        self.write(|inner| {
            let frozen = inner.node(message).is_some_and(|node| node.finalised);
            inner.attach(message, blocks, frozen)
        })
    }

    async fn resident(&self, conversation: &str) -> StoreResult<Vec<ResidentEntry>> {
        Ok(self.read(|inner| inner.in_context(conversation)))
    }

    async fn record_resident(
        &self,
        conversation: &str,
        message: &str,
        tier: Tier,
        shown: Vec<Resident>,
        at: Timestamp,
    ) -> StoreResult<()> {
        self.write(|inner| {
            for resident in shown {
                let entry = ResidentEntry {
                    slug: resident.slug,
                    section: resident.section,
                    message: message.to_owned(),
                    tier,
                    bytes: resident.bytes,
                    at,
                };
                inner.record(conversation, message, entry);
            }
            Ok(())
        })
    }

    async fn clear_resident(&self, conversation: &str) -> StoreResult<()> {
        self.write(|inner| {
            inner.resident.retain(|(of, _)| of != conversation);
            Ok(())
        })
    }

    async fn append_log(
        &self,
        conversation: &str,
        _turn: u64,
        _tier: Tier,
        rows: Vec<LogRow>,
        _at: Timestamp,
    ) -> StoreResult<()> {
        self.write(|inner| {
            for row in rows {
                if serde_json::from_str::<serde_json::Value>(&row.body).is_err() {
                    return refuse("the body of a log row is no JSON");
                }
                inner.log.push((conversation.to_owned(), row));
            }
            Ok(())
        })
    }

    async fn newest_log(
        &self,
        conversation: &str,
        kind: LogKind,
        limit: u32,
    ) -> StoreResult<Vec<LogRow>> {
        Ok(self.read(|inner| {
            let ours = inner.log.iter().rev();
            ours.filter(|(of, row)| of == conversation && row.kind == kind)
                .map(|(_, row)| row.clone())
                .take(limit as usize)
                .collect()
        }))
    }

    async fn kv_get(
        &self,
        namespace: &str,
        scope: KvScope,
        owner: &str,
        key: &str,
    ) -> StoreResult<Option<String>> {
        let key = ValueKey::new(namespace, scope, owner, key)?;
        Ok(self.read(|inner| inner.values.get(&key).cloned()))
    }

    async fn kv_put(
        &self,
        namespace: &str,
        scope: KvScope,
        owner: &str,
        key: &str,
        value: Option<String>,
    ) -> StoreResult<()> {
        let key = ValueKey::new(namespace, scope, owner, key)?;
        self.write(|inner| {
            match value {
                Some(value) => inner.values.insert(key, value),
                None => inner.values.remove(&key),
            };
            Ok(())
        })
    }

    async fn page_origins(&self) -> StoreResult<Vec<PageOrigin>> {
        Ok(self.read(|inner| inner.origins.values().cloned().collect()))
    }

    async fn put_page_origins(&self, origins: Vec<PageOrigin>) -> StoreResult<()> {
        self.write(|inner| {
            let named = origins.into_iter().map(|one| (one.slug.clone(), one));
            inner.origins.extend(named);
            Ok(())
        })
    }
}

/// Compares where two messages stand in the tree.
fn same_place(known: &TurnNode, node: &TurnNode) -> bool {
    known.conversation == node.conversation
        && known.parent == node.parent
        && known.branch == node.branch
        && known.turn == node.turn
        && known.role == node.role
}

/// Compares what a message says; when it was stored and what was attached later do not count.
fn same(known: &TurnNode, node: &TurnNode) -> bool {
    let mut node = node.clone();
    node.ingestion_time = known.ingestion_time;
    node.attached_blocks.clone_from(&known.attached_blocks);
    *known == node
}

fn refuse<T>(reason: impl Into<String>) -> StoreResult<T> {
    Err(StoreError::BadRequest {
        reason: reason.into(),
    })
}

fn unknown(what: &str, name: &str) -> StoreError {
    StoreError::NotFound {
        what: format!("{what} {name}"),
    }
}

fn conflict(what: String, expected: &str, found: &str) -> StoreError {
    StoreError::Conflict {
        what,
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}
