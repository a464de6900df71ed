//! Good stores of which one thing is spoilt.

use std::ops::Deref;

use async_trait::async_trait;

use super::{Fault, Spoilt};
use crate::item::{EvidenceId, ForgetReason};
use crate::predicates::Tier;
use crate::services::{KvScope, LogKind, LogRow, Resident, ResidentEntry};
use crate::store::in_memory::{InMemoryEvidence, InMemoryIndex, InMemoryPages, InMemoryState};
use crate::store::{
    Appended, BranchHead, ConversationRows, Erasure, EvidenceCheck, EvidenceRecord, EvidenceStore,
    EvidenceStream, Expected, ExpectedHead, ForkExtent, Forked, IndexRow, IndexSpace, IndexStats,
    IndexStore, NewEvidence, OrphanSweep, PageOrigin, PageStamp, PageStore, StateStore,
    StoreResult, StoredPage, StreamHead, TurnNode, TurnTree, content_hash,
};
use crate::text::section::SectionId;
use crate::text::slug::Slug;
use crate::time::Timestamp;

impl<S> Deref for Spoilt<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S> Spoilt<S> {
    fn has(&self, fault: Fault) -> bool {
        self.1 == fault
    }

    fn limit(&self, limit: u32) -> u32 {
        if self.has(Fault::IgnoresLimits) {
            u32::MAX
        } else {
            limit
        }
    }
}

#[async_trait]
impl PageStore for Spoilt<InMemoryPages> {
    async fn list(&self) -> StoreResult<Vec<PageStamp>> {
        let mut listed = self.0.list().await?;
        if self.has(Fault::ListsBackwards) {
            listed.reverse();
        }
        Ok(listed)
    }

    async fn read(&self, slug: &Slug) -> StoreResult<Option<StoredPage>> {
        self.0.read(slug).await
    }

    async fn write(&self, slug: &Slug, bytes: Vec<u8>, expected: Expected) -> StoreResult<String> {
        if self.has(Fault::TakesAnyName) && slug.is_reserved() {
            return Ok(content_hash(&bytes));
        }
        let bytes = if self.has(Fault::TrimsText) {
            bytes.trim_ascii_end().to_vec()
        } else {
            bytes
        };
        let expected = if self.has(Fault::NeverCompares) {
            Expected::Any
        } else {
            expected
        };
        self.0.write(slug, bytes, expected).await
    }

    async fn delete(&self, slug: &Slug, expected: Expected) -> StoreResult<()> {
        self.0.delete(slug, expected).await
    }

    async fn rename(&self, from: &Slug, to: &Slug, expected: Expected) -> StoreResult<()> {
        if self.has(Fault::RenamesOver) && from != to {
            self.0.delete(to, Expected::Any).await?;
        }
        self.0.rename(from, to, expected).await
    }
}

#[async_trait]
impl StateStore for Spoilt<InMemoryState> {
    async fn put_turn_node(&self, node: TurnNode) -> StoreResult<()> {
        self.0.put_turn_node(node).await
    }

    async fn turn_node(&self, id: &str) -> StoreResult<Option<TurnNode>> {
        self.0.turn_node(id).await
    }

    async fn recent_turn_nodes(
        &self,
        conversation: &str,
        branch: &str,
        limit: u32,
    ) -> StoreResult<Vec<TurnNode>> {
        let limit = self.limit(limit);
        self.0.recent_turn_nodes(conversation, branch, limit).await
    }

    async fn last_turn(&self, conversation: &str, branch: &str) -> StoreResult<u64> {
        self.0.last_turn(conversation, branch).await
    }

    async fn attach_blocks(&self, message: &str, blocks: Vec<(String, String)>) -> StoreResult<()> {
        let kept = if self.has(Fault::ForgetsBlocks) {
            1
        } else {
            blocks.len()
        };
        let blocks = blocks.into_iter().take(kept).collect();
        self.0.attach_blocks(message, blocks).await
    }

    async fn resident(&self, conversation: &str) -> StoreResult<Vec<ResidentEntry>> {
        let mut entries = self.0.resident(conversation).await?;
        if self.has(Fault::RecordsTwice) {
            entries.extend(entries.clone());
        }
        Ok(entries)
    }

    async fn record_resident(
        &self,
        conversation: &str,
        message: &str,
        tier: Tier,
        shown: Vec<Resident>,
        at: Timestamp,
    ) -> StoreResult<()> {
        self.0
            .record_resident(conversation, message, tier, shown, at)
            .await
    }

    async fn clear_resident(&self, conversation: &str) -> StoreResult<()> {
        self.0.clear_resident(conversation).await
    }

    async fn append_log(
        &self,
        conversation: &str,
        turn: u64,
        tier: Tier,
        rows: Vec<LogRow>,
        at: Timestamp,
    ) -> StoreResult<()> {
        self.0.append_log(conversation, turn, tier, rows, at).await
    }

    async fn newest_log(
        &self,
        conversation: &str,
        kind: LogKind,
        limit: u32,
    ) -> StoreResult<Vec<LogRow>> {
        let limit = self.limit(limit);
        self.0.newest_log(conversation, kind, limit).await
    }

    async fn kv_get(
        &self,
        namespace: &str,
        scope: KvScope,
        owner: &str,
        key: &str,
    ) -> StoreResult<Option<String>> {
        let owner = self.owner(owner);
        self.0.kv_get(namespace, scope, owner, key).await
    }

    async fn kv_put(
        &self,
        namespace: &str,
        scope: KvScope,
        owner: &str,
        key: &str,
        value: Option<String>,
    ) -> StoreResult<()> {
        let owner = self.owner(owner);
        self.0.kv_put(namespace, scope, owner, key, value).await
    }

    async fn page_origins(&self) -> StoreResult<Vec<PageOrigin>> {
        self.0.page_origins().await
    }

    async fn put_page_origins(&self, origins: Vec<PageOrigin>) -> StoreResult<()> {
        self.0.put_page_origins(origins).await
    }
}

impl Spoilt<InMemoryState> {
    fn owner<'a>(&self, owner: &'a str) -> &'a str {
        if self.has(Fault::MixesOwners) && !owner.is_empty() {
            "one"
        } else {
            owner
        }
    }
}

#[async_trait]
impl TurnTree for Spoilt<InMemoryState> {
    async fn conversation_head(&self, conversation: &str) -> StoreResult<Option<BranchHead>> {
        self.0.conversation_head(conversation).await
    }

    async fn branches(&self, conversation: &str) -> StoreResult<Vec<BranchHead>> {
        self.0.branches(conversation).await
    }

    async fn recent_in_conversation(
        &self,
        conversation: &str,
        limit: u32,
    ) -> StoreResult<Vec<TurnNode>> {
        self.0.recent_in_conversation(conversation, limit).await
    }

    async fn replies(&self, message: &str) -> StoreResult<Vec<TurnNode>> {
        self.0.replies(message).await
    }

    async fn create_branch(
        &self,
        conversation: &str,
        branch: &str,
        after: &str,
    ) -> StoreResult<()> {
        self.0.create_branch(conversation, branch, after).await
    }

    async fn switch_branch(&self, conversation: &str, branch: &str) -> StoreResult<()> {
        self.0.switch_branch(conversation, branch).await
    }

    async fn rewind(&self, conversation: &str, to: &str) -> StoreResult<u64> {
        let hidden = self.0.rewind(conversation, to).await?;
        if self.has(Fault::RewindsByDeleting) && hidden > 0 {
            self.0.delete_conversation(conversation).await?;
        }
        Ok(hidden)
    }

    async fn fork_conversation(
        &self,
        from: &str,
        to: &str,
        extent: ForkExtent,
        at: Timestamp,
    ) -> StoreResult<Forked> {
        if self.has(Fault::ForksAgain) {
            self.0.delete_conversation(to).await?;
        }
        self.0.fork_conversation(from, to, extent, at).await
    }

    async fn delete_conversation(&self, conversation: &str) -> StoreResult<ConversationRows> {
        self.0.delete_conversation(conversation).await
    }

    async fn sweep_orphans(
        &self,
        now: Timestamp,
        grace_ms: i64,
        dry_run: bool,
    ) -> StoreResult<OrphanSweep> {
        let grace_ms = if self.has(Fault::SweepsAtOnce) {
            0
        } else {
            grace_ms
        };
        self.0.sweep_orphans(now, grace_ms, dry_run).await
    }
}

#[async_trait]
impl IndexStore for Spoilt<InMemoryIndex> {
    fn space(&self) -> &IndexSpace {
        self.0.space()
    }

    async fn replace_pages(&self, pages: Vec<Slug>, rows: Vec<IndexRow>) -> StoreResult<()> {
        let mut rows = rows;
        if self.has(Fault::KeepsOldRows) {
            let is_old = |row: &IndexRow| {
                pages.contains(&row.id.slug) && !rows.iter().any(|new| new.id == row.id)
            };
            let old: Vec<IndexRow> = self.0.all_rows().await?;
            let old: Vec<IndexRow> = old.into_iter().filter(is_old).collect();
            rows.extend(old);
        }
        self.0.replace_pages(pages, rows).await
    }

    async fn all_rows(&self) -> StoreResult<Vec<IndexRow>> {
        self.0.all_rows().await
    }

    async fn search_vector(
        &self,
        vector: &[f32],
        limit: u32,
    ) -> StoreResult<Vec<(SectionId, f32)>> {
        let mut found = self.0.search_vector(vector, self.limit(limit)).await?;
        if self.has(Fault::FindsWorstFirst) {
            found.reverse();
        }
        Ok(found)
    }

    async fn search_terms(&self, terms: &str, limit: u32) -> StoreResult<Vec<(SectionId, f32)>> {
        self.0.search_terms(terms, self.limit(limit)).await
    }

    async fn maintain(&self) -> StoreResult<()> {
        self.0.maintain().await
    }

    async fn stats(&self) -> StoreResult<IndexStats> {
        self.0.stats().await
    }
}

#[async_trait]
impl EvidenceStore for Spoilt<InMemoryEvidence> {
    async fn append(
        &self,
        stream: &EvidenceStream,
        evidence: NewEvidence,
        expected: ExpectedHead,
    ) -> StoreResult<Appended> {
        let expected = if self.has(Fault::IgnoresHeads) {
            ExpectedHead::Any
        } else {
            expected
        };
        let appended = self.0.append(stream, evidence, expected).await?;
        if self.has(Fault::AddsAgain) {
            let replayed = false;
            return Ok(Appended {
                replayed,
                ..appended
            });
        }
        Ok(appended)
    }

    async fn evidence(&self, id: &EvidenceId) -> StoreResult<Option<EvidenceRecord>> {
        self.0.evidence(id).await
    }

    async fn list(
        &self,
        stream: &EvidenceStream,
        after: u64,
        limit: u32,
    ) -> StoreResult<Vec<EvidenceRecord>> {
        self.0.list(stream, after, limit).await
    }

    async fn head(&self, stream: &EvidenceStream) -> StoreResult<Option<StreamHead>> {
        self.0.head(stream).await
    }

    async fn streams(&self) -> StoreResult<Vec<StreamHead>> {
        self.0.streams().await
    }

    async fn erase(&self, what: Erasure, reason: ForgetReason, at: Timestamp) -> StoreResult<u64> {
        if self.has(Fault::ErasesNothing) {
            return Ok(1);
        }
        self.0.erase(what, reason, at).await
    }

    async fn verify(&self) -> StoreResult<EvidenceCheck> {
        if self.has(Fault::SaysAllIsWell) {
            return Ok(EvidenceCheck::default());
        }
        let mut check = self.0.verify().await?;
        if self.has(Fault::Miscounts) {
            check.streams += 1;
        }
        Ok(check)
    }
}
