//! Branches, going back and deletion.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::{Conversation, InMemoryState, Inner, conflict, unknown};
use crate::store::{
    BranchHead, ConversationRows, ForkExtent, Forked, OrphanSweep, StoreResult, TurnNode, TurnTree,
};
use crate::time::Timestamp;

/// Returns the newest of some messages, oldest first.
pub(super) fn newest(way: Vec<&TurnNode>, limit: u32) -> Vec<TurnNode> {
    let skipped = way.len().saturating_sub(limit as usize);
    way.into_iter().skip(skipped).cloned().collect()
}

impl Inner {
    /// Returns the messages visible on a branch, oldest first.
    pub(super) fn way(&self, conversation: &str, branch: &str) -> Vec<&TurnNode> {
        let head = self
            .conversations
            .get(conversation)
            .and_then(|of| of.heads.get(branch)?.as_deref());
        let parent = |node: &&TurnNode| node.parent.as_deref().and_then(|id| self.node(id));
        let newest_first = std::iter::successors(head.and_then(|id| self.node(id)), parent);
        let mut way: Vec<&TurnNode> = newest_first.collect();
        way.reverse();
        way
    }

    /// Returns the messages visible in a conversation, oldest first.
    pub(super) fn current_way(&self, conversation: &str) -> Vec<&TurnNode> {
        match self.conversations.get(conversation) {
            Some(of) => self.way(conversation, &of.branch),
            None => Vec::new(),
        }
    }

    fn head(&self, branch: &str, message: Option<&String>) -> BranchHead {
        let turn = message
            .and_then(|id| self.node(id))
            .map_or(0, |node| node.turn);
        BranchHead {
            branch: branch.to_owned(),
            message: message.cloned(),
            turn,
        }
    }

    fn create(&mut self, conversation: &str, branch: &str, after: &str) -> StoreResult<()> {
        let is_ours = |node: &TurnNode| node.conversation == conversation;
        if !self.node(after).is_some_and(is_ours) {
            return Err(unknown("message", after));
        }
        let of = self.known(conversation)?;
        let after = Some(after.to_owned());
        match of.heads.get(branch) {
            Some(head) if *head != after => {
                return Err(conflict(
                    format!("branch {branch} of conversation {conversation}"),
                    "no such branch",
                    "one that ends with another message",
                ));
            }
            _ => of.heads.insert(branch.to_owned(), after),
        };
        branch.clone_into(&mut of.branch);
        Ok(())
    }

    fn switch(&mut self, conversation: &str, branch: &str) -> StoreResult<()> {
        let of = self.known(conversation)?;
        if !of.heads.contains_key(branch) {
            return Err(unknown("branch", branch));
        }
        branch.clone_into(&mut of.branch);
        Ok(())
    }

    fn rewind(&mut self, conversation: &str, to: &str) -> StoreResult<u64> {
        let way = self.current_way(conversation);
        let Some(kept) = way.iter().position(|node| node.id == to) else {
            return Err(unknown("visible message", to));
        };
        let hidden = way.len() - kept - 1;
        let of = self.known(conversation)?;
        of.heads.insert(of.branch.clone(), Some(to.to_owned()));
        Ok(hidden as u64)
    }

    fn known(&mut self, conversation: &str) -> StoreResult<&mut Conversation> {
        self.conversations
            .get_mut(conversation)
            .ok_or_else(|| unknown("conversation", conversation))
    }

    fn count(&self, conversation: &str) -> ConversationRows {
        let ours = self
            .nodes
            .iter()
            .filter(|node| node.conversation == conversation);
        let blocks = ours.clone().map(|node| node.attached_blocks.len());
        let of = |held: &String| held == conversation;
        ConversationRows {
            messages: ours.count() as u64,
            blocks: blocks.sum::<usize>() as u64,
            resident: self.resident.iter().filter(|(held, _)| of(held)).count() as u64,
            log: self.log.iter().filter(|(held, _)| of(held)).count() as u64,
            values: self.values.keys().filter(|key| of(&key.owner)).count() as u64,
        }
    }

    fn delete(&mut self, conversation: &str) -> ConversationRows {
        let removed = self.count(conversation);
        self.nodes.retain(|node| node.conversation != conversation);
        self.conversations.remove(conversation);
        self.resident.retain(|(of, _)| of != conversation);
        self.log.retain(|(of, _)| of != conversation);
        self.values.retain(|key, _| key.owner != conversation);
        self.orphans.remove(conversation);
        removed
    }

    /// Returns conversations of which there are rows, but which do not exist.
    fn without_messages(&self) -> BTreeSet<String> {
        let owners = self.values.keys().map(|key| &key.owner);
        self.resident
            .iter()
            .map(|(of, _)| of)
            .chain(self.log.iter().map(|(of, _)| of))
            .chain(owners.filter(|owner| !owner.is_empty()))
            .filter(|of| !self.conversations.contains_key(*of))
            .cloned()
            .collect()
    }

    fn look(&self, now: Timestamp, grace_ms: i64) -> OrphanSweep {
        let until = now.plus_millis(grace_ms.saturating_neg());
        let mut found = OrphanSweep::default();
        for conversation in self.without_messages() {
            if self
                .orphans
                .get(&conversation)
                .is_none_or(|since| *since > until)
            {
                found.waiting += 1;
                continue;
            }
            let rows = self.count(&conversation);
            found.rows.resident += rows.resident;
            found.rows.log += rows.log;
            found.rows.values += rows.values;
            found.conversations.push(conversation);
        }
        found
    }

    fn sweep(&mut self, now: Timestamp, grace_ms: i64) -> OrphanSweep {
        let found = self.look(now, grace_ms);
        for conversation in &found.conversations {
            self.delete(conversation);
        }
        let left = self.without_messages();
        self.orphans
            .retain(|conversation, _| left.contains(conversation));
        for conversation in left {
            self.orphans.entry(conversation).or_insert(now);
        }
        found
    }
}

#[async_trait]
impl TurnTree for InMemoryState {
    async fn conversation_head(&self, conversation: &str) -> StoreResult<Option<BranchHead>> {
        Ok(self.read(|inner| {
            let of = inner.conversations.get(conversation)?;
            let message = of.heads.get(&of.branch)?;
            Some(inner.head(&of.branch, message.as_ref()))
        }))
    }

    async fn branches(&self, conversation: &str) -> StoreResult<Vec<BranchHead>> {
        Ok(self.read(|inner| {
            let of = inner.conversations.get(conversation);
            of.into_iter()
                .flat_map(|of| &of.heads)
                .map(|(branch, message)| inner.head(branch, message.as_ref()))
                .collect()
        }))
    }

    async fn recent_in_conversation(
        &self,
        conversation: &str,
        limit: u32,
    ) -> StoreResult<Vec<TurnNode>> {
        Ok(self.read(|inner| newest(inner.current_way(conversation), limit)))
    }

    async fn replies(&self, message: &str) -> StoreResult<Vec<TurnNode>> {
        Ok(self.read(|inner| {
            let nodes = inner.nodes.iter();
            nodes
                .filter(|node| node.parent.as_deref() == Some(message))
                .cloned()
                .collect()
        }))
    }

    async fn create_branch(
        &self,
        conversation: &str,
        branch: &str,
        after: &str,
    ) -> StoreResult<()> {
        self.write(|inner| inner.create(conversation, branch, after))
    }

    async fn switch_branch(&self, conversation: &str, branch: &str) -> StoreResult<()> {
        self.write(|inner| inner.switch(conversation, branch))
    }

    async fn rewind(&self, conversation: &str, to: &str) -> StoreResult<u64> {
        self.write(|inner| inner.rewind(conversation, to))
    }

    async fn fork_conversation(
        &self,
        from: &str,
        to: &str,
        extent: ForkExtent,
        at: Timestamp,
    ) -> StoreResult<Forked> {
        self.write(|inner| inner.fork(from, to, &extent, at))
    }

    async fn delete_conversation(&self, conversation: &str) -> StoreResult<ConversationRows> {
        self.write(|inner| Ok(inner.delete(conversation)))
    }

    async fn sweep_orphans(
        &self,
        now: Timestamp,
        grace_ms: i64,
        dry_run: bool,
    ) -> StoreResult<OrphanSweep> {
        if dry_run {
            return Ok(self.read(|inner| inner.look(now, grace_ms)));
        }
        self.write(|inner| Ok(inner.sweep(now, grace_ms)))
    }
}
