//! The store of items and of the ledger of everything that was done to them.

use std::fmt;

use async_trait::async_trait;

use super::StoreResult;
use crate::item::{
    Citation, Commit, Committed, Head, Item, ItemId, ItemQuery, ItemState, LedgerCheck,
    LedgerResult, Revision,
};
use crate::text::slug::Slug;
use crate::time::Timestamp;

/// How often an event is handed out before it is given up.
pub const OUTBOX_ATTEMPTS: u64 = 5;

/// How long an event waits before it is handed out again after a failure, in milliseconds: twice as long each time.
pub const OUTBOX_BACKOFF_MS: (i64, i64) = (30_000, 1_800_000);

/// Word for what derives something from items that one of them changed.
///
/// It says which item and not what to do: whoever takes it looks at the item as it is then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxEvent {
    /// Number of the event, never used again.
    pub event: u64,
    /// The item.
    pub item: ItemId,
    /// The revision that was made.
    pub revision: Revision,
    /// Number of the operation that made it.
    pub sequence: u64,
    /// The lease under which it is held. A later lease of the same event has a greater one.
    pub token: u64,
}

/// What became of an event that could not be dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It is handed out again from this instant on.
    Retry(Timestamp),
    /// It failed too often and stays for somebody to look at.
    Dead,
}

/// How much waits in the outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxBacklog {
    /// Events that are not done, those that somebody holds included.
    pub waiting: u64,
    /// Events that were given up.
    pub dead: u64,
}

/// Items and their ledger.
#[async_trait]
pub trait ItemStore: Send + Sync + fmt::Debug {
    /// Writes operations, all or none, and returns what became of each. One that was written before is not written again.
    async fn commit_items(&self, commit: Commit) -> LedgerResult<Vec<Committed>>;

    /// Returns an item as it is, for our own machinery. Whoever answers somebody asks [`items`](Self::items).
    async fn item_state(&self, id: &ItemId) -> StoreResult<Option<ItemState>>;

    /// Returns the items that a query may see, the last learnt first, ties by identifier.
    async fn items(&self, query: ItemQuery) -> StoreResult<Vec<Item>>;

    /// Returns where an item is cited, sorted.
    async fn citations(&self, item: &ItemId) -> StoreResult<Vec<Citation>>;

    /// Returns what a page cites, sorted by item and place.
    async fn cited_on(&self, page: &Slug) -> StoreResult<Vec<(ItemId, Citation)>>;

    /// Returns where the ledger ends.
    async fn ledger_head(&self) -> StoreResult<Head>;

    /// Reads the whole ledger and every revision, and says where they are not what was written.
    async fn verify_ledger(&self) -> StoreResult<LedgerCheck>;

    /// Takes events for a while, the oldest of each item. Who does not come back in time loses them to the next.
    async fn lease_outbox(
        &self,
        now: Timestamp,
        lease_ms: i64,
        limit: u32,
    ) -> StoreResult<Vec<OutboxEvent>>;

    /// Marks an event as dealt with, if it is still held under this lease.
    async fn ack_outbox(&self, event: u64, token: u64) -> LedgerResult<()>;

    /// Gives an event back that could not be dealt with, if it is still held under this lease.
    async fn release_outbox(
        &self,
        event: u64,
        token: u64,
        now: Timestamp,
    ) -> LedgerResult<Released>;

    /// Returns how much waits.
    async fn outbox_backlog(&self) -> StoreResult<OutboxBacklog>;
}

/// Returns when an event is handed out again after so many attempts.
pub fn outbox_retry(now: Timestamp, attempts: u64) -> Timestamp {
    let (first, longest) = OUTBOX_BACKOFF_MS;
    let doubled = u32::try_from(attempts.saturating_sub(1))
        .ok()
        .and_then(|times| 1_i64.checked_shl(times))
        .and_then(|factor| first.checked_mul(factor))
        .filter(|wait| *wait > 0);
    now.plus_millis(doubled.unwrap_or(longest).min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_doubles_up_to_a_limit() {
        let wait = |attempts| outbox_retry(Timestamp::from_millis(0), attempts).as_millis();
        assert_eq!([1, 2, 3].map(wait), [30_000, 60_000, 120_000]);
        assert_eq!([7, 40, 63, 64, u64::MAX].map(wait), [1_800_000; 5]);
    }
}
