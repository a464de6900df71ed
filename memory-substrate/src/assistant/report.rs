//! What there is and whether it agrees: counters, and the comparison of index and files.

use std::collections::{BTreeSet, HashMap};

use memory_core::embed::SpaceId;
use memory_core::store::{IndexRow, IndexStats, IndexStore as _, StoreResult};
use memory_core::text::section::SectionId;
use memory_core::text::slug::Slug;
use memory_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::AssistantStore;
use crate::blocking;
use crate::pages::{PagesReport, validate};
use crate::screen::{Spot, inspect};
use crate::snapshot::SnapshotStats;
use crate::sync::rows::says_something;
use crate::sync::{PAGES_IN_A_BATCH, describe, read_rows};

/// Most sections named in a report, of each kind.
const NAMED: usize = 20;

/// Counters of an assistant's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EngineStats {
    /// Pages.
    pub pages: usize,
    /// Sections that can be found.
    pub sections: usize,
    /// Sections that can be found by meaning.
    pub vectors: usize,
    /// Pages that wait to be indexed.
    pub waiting: usize,
    /// The image that searches read.
    pub snapshot: SnapshotStats,
    /// The index; `None` when there is none.
    pub index: Option<IndexStats>,
    /// The space of the vectors; `None` without vectors.
    pub space: Option<SpaceId>,
    /// Why the index could not be tidied the last time.
    pub maintenance_error: Option<String>,
}

/// How the index compares with the files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegrityReport {
    /// Sections of the files.
    pub checked: usize,
    /// How many of them the index lacks.
    pub missing: usize,
    /// How many of its rows were made from something else.
    pub stale: usize,
    /// How many of its rows are of no section, or there twice.
    pub extra: usize,
    /// How many of its rows should have a vector and have none.
    pub without_vector: usize,
    /// Some of the sections concerned.
    pub examples: Vec<String>,
    /// Why the index could not be read; `None` when it could.
    pub damage: Option<String>,
    /// The pages concerned.
    #[serde(skip)]
    pub pages: BTreeSet<Slug>,
}

impl IntegrityReport {
    /// Returns whether the index says what the files say.
    pub const fn is_clean(&self) -> bool {
        self.missing == 0 && self.stale == 0 && self.extra == 0 && self.damage.is_none()
    }

    fn example(&mut self, id: &SectionId) {
        self.pages.insert(id.slug.clone());
        if self.examples.len() < NAMED {
            self.examples.push(id.to_string());
        }
    }
}

impl AssistantStore {
    /// Returns the counters.
    pub async fn stats(&self) -> StoreResult<EngineStats> {
        let serving = self.engine.shared.serving.load_full();
        let snapshot = serving.snapshot.stats();
        let index = self.engine.index.load_full();
        let maintenance_error = self.upkeep_error().await?;
        let space = index
            .as_ref()
            .and_then(|index| index.space().embedding.clone());
        let index = match index {
            Some(index) => Some(index.stats().await?),
            None => None,
        };
        Ok(EngineStats {
            pages: serving.pages.len(),
            sections: snapshot.sections,
            vectors: snapshot.vectors,
            waiting: self.pages_to_index(),
            snapshot,
            index,
            space,
            maintenance_error,
        })
    }

    /// Reads every page and returns, by path, what stands in them that should not. Nothing is changed.
    pub async fn inspect_pages(&self) -> StoreResult<Vec<(String, Spot)>> {
        let (files, pages) = (self.files().clone(), self.pages());
        blocking::run(move || {
            let mut spots = Vec::new();
            for page in pages.pages() {
                let Some(stored) = files.read_blocking(&page.slug)? else {
                    continue;
                };
                let text = String::from_utf8_lossy(&stored.bytes);
                spots.extend(
                    inspect(&text)
                        .into_iter()
                        .map(|spot| (page.path.clone(), spot)),
                );
            }
            Ok(spots)
        })
        .await
    }

    /// Returns what is wrong with pages as they were at the last look. `longest` is how many characters one should have.
    pub async fn validate(&self, longest: usize) -> StoreResult<PagesReport> {
        let (files, pages) = (self.files().clone(), self.pages());
        blocking::run(move || validate(&files, &pages, longest)).await
    }

    /// Reads every page and every row and compares them. Takes as long as reading everything takes.
    pub async fn integrity(&self) -> StoreResult<IntegrityReport> {
        let mut report = IntegrityReport::default();
        let Some(index) = self.engine.index.load_full() else {
            report.damage = Some("there is no index of the embedding model in use".to_owned());
            return Ok(report);
        };
        let rows = match index.all_rows().await {
            Ok(rows) => rows,
            Err(error) => {
                report.damage = Some(describe(&error));
                return Ok(report);
            }
        };
        let with_vectors = index.space().embedding.is_some();
        let mut found = HashMap::with_capacity(rows.len());
        for row in rows {
            let lacks_vector = with_vectors && row.vector.is_none() && says_something(&row);
            report.without_vector += usize::from(lacks_vector);
            let id = row.id.clone();
            if found.insert(id.clone(), without_vector(row)).is_some() {
                report.extra += 1;
                report.example(&id);
            }
        }
        let pages = self.pages();
        for chunk in pages.pages().chunks(PAGES_IN_A_BATCH) {
            for row in read_rows(&self.engine.shared.files, chunk).await? {
                report.checked += 1;
                match found.remove(&row.id) {
                    None => {
                        report.missing += 1;
                        report.example(&row.id);
                    }
                    // A vector cannot be compared; it was made from this text.
                    Some(found) if found != without_vector(row.clone()) => {
                        report.stale += 1;
                        report.example(&row.id);
                    }
                    Some(_) => {}
                }
            }
        }
        report.extra += found.len();
        let mut extra: Vec<SectionId> = found.into_keys().collect();
        extra.sort_unstable();
        for id in &extra {
            report.example(id);
        }
        Ok(report)
    }
}

/// Returns a row as its page alone says it. When a page was last touched is not what it says.
fn without_vector(row: IndexRow) -> IndexRow {
    IndexRow {
        vector: None,
        modified_at: Timestamp::default(),
        ..row
    }
}
