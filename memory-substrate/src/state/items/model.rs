//! Items in memory: the shortest code that does what an item store promises, to hold the real one against.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use memory_core::item::{
    Citation, Commit, Committed, Head, Item, ItemId, ItemQuery, ItemState, LedgerCheck,
    LedgerError, LedgerFault, LedgerResult, Link, Operation, apply, digest,
};
use memory_core::provenance::Trust;
use memory_core::store::{
    ItemStore, OUTBOX_ATTEMPTS, OutboxBacklog, OutboxEvent, Released, StoreResult, outbox_retry,
};
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;

/// Items in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryItems(Mutex<Inner>);

#[derive(Clone, Debug, Default)]
struct Inner {
    written: Vec<(Operation, Committed)>,
    /// Each item's revisions with the times from which they were known.
    items: BTreeMap<ItemId, Vec<(Timestamp, ItemState)>>,
    citations: BTreeMap<ItemId, BTreeSet<Citation>>,
    outbox: Vec<Waiting>,
    events: u64,
}

#[derive(Clone, Debug)]
struct Waiting {
    event: OutboxEvent,
    available_at: Timestamp,
    dead: bool,
}

impl Inner {
    fn head(&self) -> Head {
        self.written
            .last()
            .map_or_else(Head::genesis, |(_, done)| done.head.clone())
    }

    fn current(&self, id: &ItemId) -> Option<&ItemState> {
        Some(&self.items.get(id)?.last()?.1)
    }

    fn commit(&mut self, commit: &Commit) -> LedgerResult<Vec<Committed>> {
        let mut expected = commit.expected_head.as_ref();
        let mut done = Vec::new();
        for operation in &commit.operations {
            let known = self
                .written
                .iter()
                .find(|(known, _)| known.key == operation.key);
            if let Some((known, committed)) = known {
                let gone = matches!(self.current(&known.item), Some(ItemState::Forgotten(_)));
                let last = self.current(&known.item).map(ItemState::revision);
                let scrubbed = gone && Some(committed.revision) != last;
                if known.item != operation.item || !(scrubbed || known == operation) {
                    let key = operation.key.clone();
                    return Err(LedgerError::KeyReused { key });
                }
                done.push(Committed {
                    replayed: true,
                    ..committed.clone()
                });
                continue;
            }
            let head = self.head();
            if let Some(expected) = expected.take()
                && *expected != head
            {
                let (expected, found) = (Box::new(expected.clone()), Box::new(head));
                return Err(LedgerError::StaleHead { expected, found });
            }
            done.push(self.write(operation, commit, &head)?);
        }
        Ok(done)
    }

    fn write(
        &mut self,
        operation: &Operation,
        commit: &Commit,
        head: &Head,
    ) -> LedgerResult<Committed> {
        let newest = self.written.last().map_or(commit.at, |(_, last)| last.at);
        let at = commit.at.max(newest);
        let other = operation
            .change
            .other()
            .and_then(|other| self.current(other));
        let next = apply(
            operation,
            &commit.actor,
            at,
            self.current(&operation.item),
            other,
        )?;
        let link = Link {
            sequence: head.sequence + 1,
            previous: &head.hash,
            key: operation.key.as_str(),
            change: operation.change.name(),
            item: operation.item.as_str(),
            revision: next.revision().get(),
            actor: commit.actor.kind(),
            actor_name: commit.actor.name(),
            at,
            request: "",
            result: &digest("", &next),
        };
        let committed = Committed {
            key: operation.key.clone(),
            item: operation.item.clone(),
            revision: next.revision(),
            head: Head {
                sequence: link.sequence,
                hash: link.hash(),
            },
            at,
            replayed: false,
        };
        let revisions = self.items.entry(operation.item.clone()).or_default();
        if matches!(next, ItemState::Forgotten(_)) {
            revisions.clear();
            self.citations.remove(&operation.item);
        }
        revisions.push((at, next));
        if let Some(citations) = &operation.citations {
            let citations = citations.iter().cloned().collect();
            self.citations.insert(operation.item.clone(), citations);
        }
        self.events += 1;
        self.outbox.push(Waiting {
            event: OutboxEvent {
                event: self.events,
                item: operation.item.clone(),
                revision: committed.revision,
                sequence: committed.head.sequence,
                token: 0,
            },
            available_at: at,
            dead: false,
        });
        self.written.push((operation.clone(), committed.clone()));
        Ok(committed)
    }

    /// Returns the items that pass the pure rules at the query's two times, whatever was asked for by name.
    fn shown(&self, query: &ItemQuery) -> Vec<Item> {
        let query = ItemQuery {
            only: Vec::new(),
            claim_hash: None,
            ..query.clone()
        };
        let then = |revisions: &[(Timestamp, ItemState)]| {
            let known = |from: Timestamp| query.known_at.is_none_or(|known_at| from <= known_at);
            let newest = revisions.iter().rfind(|(from, _)| known(*from))?;
            let trust = revisions
                .last()?
                .1
                .live()
                .map_or(Trust::Untrusted, |item| item.trust);
            newest
                .1
                .live()
                .filter(|item| query.shows(item, trust))
                .cloned()
        };
        self.items
            .values()
            .filter_map(|revisions| then(revisions))
            .collect()
    }

    fn held(&mut self, event: u64, token: u64) -> LedgerResult<usize> {
        self.outbox
            .iter()
            .position(|held| held.event.event == event && held.event.token == token && !held.dead)
            .ok_or(LedgerError::LeaseLost { event, token })
    }
}

impl MemoryItems {
    fn with<T>(&self, use_it: impl FnOnce(&mut Inner) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl ItemStore for MemoryItems {
    async fn commit_items(&self, commit: Commit) -> LedgerResult<Vec<Committed>> {
        self.with(|inner| {
            let mut next = inner.clone();
            let done = next.commit(&commit)?;
            *inner = next;
            Ok(done)
        })
    }

    async fn item_state(&self, id: &ItemId) -> StoreResult<Option<ItemState>> {
        Ok(self.with(|inner| inner.current(id).cloned()))
    }

    async fn items(&self, query: ItemQuery) -> StoreResult<Vec<Item>> {
        let shown = self.with(|inner| inner.shown(&query));
        let mut items: Vec<Item> = shown
            .iter()
            .filter(|item| query.shows(item, item.trust))
            .filter(|item| {
                !query.hides_shadowed()
                    || !shown.iter().any(|other| other.shadows.contains(&item.id))
            })
            .cloned()
            .collect();
        items.sort_by(|a, b| b.learnt.cmp(&a.learnt).then_with(|| a.id.cmp(&b.id)));
        items.truncate(query.limit as usize);
        Ok(items)
    }

    async fn citations(&self, item: &ItemId) -> StoreResult<Vec<Citation>> {
        Ok(self.with(|inner| {
            inner
                .citations
                .get(item)
                .into_iter()
                .flatten()
                .cloned()
                .collect()
        }))
    }

    async fn cited_on(&self, page: &Slug) -> StoreResult<Vec<(ItemId, Citation)>> {
        Ok(self.with(|inner| {
            let all = inner.citations.iter();
            let pairs =
                all.flat_map(|(id, cited)| cited.iter().map(move |one| (id.clone(), one.clone())));
            pairs
                .filter(|(_, citation)| citation.page == *page)
                .collect()
        }))
    }

    async fn ledger_head(&self) -> StoreResult<Head> {
        Ok(self.with(|inner| inner.head()))
    }

    async fn verify_ledger(&self) -> StoreResult<LedgerCheck> {
        Ok(self.with(|inner| {
            let numbers = inner.written.iter().zip(1..);
            LedgerCheck {
                operations: inner.written.len() as u64,
                faults: numbers
                    .filter(|((_, done), number)| done.head.sequence != *number)
                    .map(|(_, sequence)| LedgerFault {
                        sequence,
                        reason: "a gap".to_owned(),
                    })
                    .collect(),
            }
        }))
    }

    async fn lease_outbox(
        &self,
        now: Timestamp,
        lease_ms: i64,
        limit: u32,
    ) -> StoreResult<Vec<OutboxEvent>> {
        Ok(self.with(|inner| {
            for held in &mut inner.outbox {
                held.dead |= held.available_at <= now && held.event.token >= OUTBOX_ATTEMPTS;
            }
            let mut busy = BTreeSet::new();
            let mut taken = Vec::new();
            for held in inner.outbox.iter_mut().filter(|held| !held.dead) {
                let first = busy.insert(held.event.item.clone());
                if first && held.available_at <= now && taken.len() < limit as usize {
                    held.event.token += 1;
                    held.available_at = now.plus_millis(lease_ms.max(1));
                    taken.push(held.event.clone());
                }
            }
            taken
        }))
    }

    async fn ack_outbox(&self, event: u64, token: u64) -> LedgerResult<()> {
        self.with(|inner| {
            let place = inner.held(event, token)?;
            inner.outbox.remove(place);
            Ok(())
        })
    }

    async fn release_outbox(
        &self,
        event: u64,
        token: u64,
        now: Timestamp,
    ) -> LedgerResult<Released> {
        self.with(|inner| {
            let place = inner.held(event, token)?;
            let held = &mut inner.outbox[place];
            if token >= OUTBOX_ATTEMPTS {
                held.dead = true;
                return Ok(Released::Dead);
            }
            held.available_at = outbox_retry(now, token);
            Ok(Released::Retry(held.available_at))
        })
    }

    async fn outbox_backlog(&self) -> StoreResult<OutboxBacklog> {
        Ok(self.with(|inner| {
            let dead = inner.outbox.iter().filter(|held| held.dead).count() as u64;
            OutboxBacklog {
                waiting: inner.outbox.len() as u64 - dead,
                dead,
            }
        }))
    }
}
