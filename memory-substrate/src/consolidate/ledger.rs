//! What becomes of the item of an entry that was filed: it is processed, moves to the long term, and is cited from the page
//! that states it.
//!
//! What a person changed in an entry before it was filed is what the item says from then on.

use std::collections::BTreeMap;

use memory_core::item::{
    Actor, Change, Citation, Claim, Commit, Item, ItemId, ItemState, Layer,
    MAX_PROCESSED_CHARACTERS, Operation, OperationKey, Processed, Processing, Status,
};
use memory_core::provenance::{Authority, Origin};
use memory_core::store::{StoreError, StoreResult};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;
use rusqlite::Connection;

use super::batch::Entry;
use super::install::changed;
use crate::remember::screened;
use crate::state::items;

/// What consolidation is known as in the ledger.
const NAME: &str = "consolidation";

/// What wrote the receipt of an item, and in which version.
const PROCESSOR: (&str, &str) = ("verbatim", "1");

/// Follows with the item of an entry that a run has put on a page. An entry may have none.
pub(super) fn follow(
    connection: &Connection,
    (run, at): (&str, Timestamp),
    entry: &Entry,
    page: &Slug,
    section: Option<SectionId>,
) -> StoreResult<()> {
    let Some(read) = &entry.item else {
        return Ok(());
    };
    let mut step = Step {
        connection,
        run,
        at,
        item: current(connection, read)?,
    };
    if step.item.revision != read.revision {
        return Err(changed(&entry.id));
    }
    if step.item.status == Status::Active {
        step.correct(entry)?;
        step.process()?;
        step.promote()?;
    }
    step.cite(page, section)
}

/// Notes that an item is not stated on a page any more.
pub(super) fn leave(
    connection: &Connection,
    (run, at): (&str, Timestamp),
    item: &Item,
    page: &Slug,
) -> StoreResult<()> {
    let mut step = Step {
        connection,
        run,
        at,
        item: current(connection, item)?,
    };
    let mut citations = items::citations_of(connection, &item.id)?;
    let before = citations.len();
    citations.retain(|citation| citation.page != *page);
    if citations.len() == before {
        return Ok(());
    }
    step.take("leave", &system(), Change::Cite, Some(citations))
}

/// Notes that an item is stated on another page than before. One that is not known, or was forgotten, has nothing to note.
pub(super) fn carry(
    connection: &Connection,
    (run, at): (&str, Timestamp),
    id: &str,
    (from, to): (&Slug, &Slug),
    section: Option<SectionId>,
) -> StoreResult<()> {
    let Ok(id) = ItemId::minted(id) else {
        return Ok(());
    };
    let Some(ItemState::Live(item)) = items::current(connection, &id)? else {
        return Ok(());
    };
    let mut citations = items::citations_of(connection, &item.id)?;
    citations.retain(|citation| citation.page != *from && citation.page != *to);
    citations.push(Citation {
        page: to.clone(),
        section,
        evidence: None,
    });
    citations.sort();
    let mut step = Step {
        connection,
        run,
        at,
        item,
    };
    step.take("carry", &system(), Change::Cite, Some(citations))
}

fn current(connection: &Connection, item: &Item) -> StoreResult<Item> {
    match items::current(connection, &item.id)? {
        Some(ItemState::Live(item)) => Ok(item),
        _ => Err(changed(item.id.as_str())),
    }
}

fn system() -> Actor {
    Actor::System(NAME.to_owned())
}

/// One item on its way.
struct Step<'a> {
    connection: &'a Connection,
    run: &'a str,
    at: Timestamp,
    item: Item,
}

impl Step<'_> {
    /// What the owner said, and then edited in their own file, is what they say.
    fn correct(&mut self, entry: &Entry) -> StoreResult<()> {
        let item = &self.item;
        if !item.is_stated() || item.authority != Authority::Owner {
            return Ok(());
        }
        let (texts, _) = screened(std::slice::from_ref(&entry.content));
        let Some(claim) = texts.first().and_then(|text| Claim::new(text).ok()) else {
            return Ok(());
        };
        if claim == item.claim {
            return Ok(());
        }
        let change = Change::Correct {
            claim,
            origin: Origin::UserFile,
            authority: Authority::Owner,
            evidence: BTreeMap::new(),
            valid: None,
        };
        let owner = Actor::Owner("memory/buffer.md".to_owned());
        self.take("correct", &owner, change, None)
    }

    /// An entry that is filed word for word is its own claim.
    fn process(&mut self) -> StoreResult<()> {
        let is_short = self.item.claim.as_str().chars().count() <= MAX_PROCESSED_CHARACTERS;
        if self.item.processing != Processing::Pending || !is_short {
            return Ok(());
        }
        let (processor, version) = PROCESSOR;
        let processed = Processed {
            claim: self.item.claim.clone(),
            processor: processor.to_owned(),
            version: version.to_owned(),
        };
        self.take("process", &system(), Change::Process(processed), None)
    }

    fn promote(&mut self) -> StoreResult<()> {
        let is_processed = matches!(self.item.processing, Processing::Processed { .. });
        if is_processed && matches!(self.item.layer, Layer::ShortTerm { .. }) {
            self.take("promote", &system(), Change::Promote, None)?;
        }
        Ok(())
    }

    fn cite(&mut self, page: &Slug, section: Option<SectionId>) -> StoreResult<()> {
        let mut citations = items::citations_of(self.connection, &self.item.id)?;
        let citation = Citation {
            page: page.clone(),
            section,
            evidence: None,
        };
        if citations.contains(&citation) {
            return Ok(());
        }
        citations.retain(|known| known.page != *page);
        citations.push(citation);
        citations.sort();
        self.take("cite", &system(), Change::Cite, Some(citations))
    }

    /// Makes one change and goes on with what the item is then.
    fn take(
        &mut self,
        name: &str,
        actor: &Actor,
        change: Change,
        citations: Option<Vec<Citation>>,
    ) -> StoreResult<()> {
        let key = format!("{name}:{}:{}", self.run, self.item.id);
        let key = OperationKey::parse(&key).map_err(|error| StoreError::BadRequest {
            reason: error.to_string(),
        })?;
        let commit = Commit {
            actor: actor.clone(),
            at: self.at,
            expected_head: None,
            operations: vec![Operation {
                key,
                item: self.item.id.clone(),
                expected: Some(self.item.revision),
                change,
                citations,
            }],
        };
        items::ledger::commit(self.connection, &commit).map_err(StoreError::from)?;
        self.item = current(self.connection, &self.item)?;
        Ok(())
    }
}
