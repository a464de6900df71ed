//! Items and their ledger in the state database.
//!
//! A commit is one transaction: the operations, the revisions they make, evidence, citations and word for the outbox are
//! there together or not at all. What an operation means is decided by `memory_core::item::apply`; the tables only refuse
//! what must not exist, whoever writes it.

use async_trait::async_trait;
use memory_core::item::{
    Citation, Commit, Committed, Head, Item, ItemId, ItemQuery, ItemState, LedgerCheck,
    LedgerError, LedgerResult,
};
use memory_core::store::{
    ItemStore, OutboxBacklog, OutboxEvent, Released, StoreError, StoreResult,
};
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

use super::SqliteState;

pub(crate) use self::citations::{citing_pages, of as citations_of};
pub(crate) use self::read::items as matching;
pub(crate) use self::revision::current;

mod citations;
pub(crate) mod ledger;
mod outbox;
mod read;
mod revision;
mod verify;

#[async_trait]
impl ItemStore for SqliteState {
    async fn commit_items(&self, commit: Commit) -> LedgerResult<Vec<Committed>> {
        self.write(move |transaction| {
            ledger::commit(transaction, &commit).map_err(StoreError::from)
        })
        .await
        .map_err(LedgerError::from)
    }

    async fn item_state(&self, id: &ItemId) -> StoreResult<Option<ItemState>> {
        let id = id.clone();
        self.read(move |connection| current(connection, &id)).await
    }

    async fn items(&self, query: ItemQuery) -> StoreResult<Vec<Item>> {
        self.read(move |connection| read::items(connection, &query))
            .await
    }

    async fn citations(&self, item: &ItemId) -> StoreResult<Vec<Citation>> {
        let item = item.clone();
        self.read(move |connection| citations::of(connection, &item))
            .await
    }

    async fn cited_on(&self, page: &Slug) -> StoreResult<Vec<(ItemId, Citation)>> {
        let page = page.clone();
        self.read(move |connection| citations::on(connection, &page))
            .await
    }

    async fn ledger_head(&self) -> StoreResult<Head> {
        self.read(|connection| Ok(ledger::head(connection)?.0))
            .await
    }

    async fn verify_ledger(&self) -> StoreResult<LedgerCheck> {
        self.read(verify::check).await
    }

    async fn lease_outbox(
        &self,
        now: Timestamp,
        lease_ms: i64,
        limit: u32,
    ) -> StoreResult<Vec<OutboxEvent>> {
        // A lease that a power failure takes back is handed out again, which its taker must expect anyway.
        self.write_unflushed(move |transaction| outbox::lease(transaction, now, lease_ms, limit))
            .await
    }

    async fn ack_outbox(&self, event: u64, token: u64) -> LedgerResult<()> {
        self.write_unflushed(move |transaction| {
            outbox::ack(transaction, event, token).map_err(StoreError::from)
        })
        .await
        .map_err(LedgerError::from)
    }

    async fn release_outbox(
        &self,
        event: u64,
        token: u64,
        now: Timestamp,
    ) -> LedgerResult<Released> {
        self.write_unflushed(move |transaction| {
            outbox::release(transaction, event, token, now).map_err(StoreError::from)
        })
        .await
        .map_err(LedgerError::from)
    }

    async fn outbox_backlog(&self) -> StoreResult<OutboxBacklog> {
        self.read(outbox::backlog).await
    }
}

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
