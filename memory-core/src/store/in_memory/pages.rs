//! Pages in a map.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::env::Clock;
use crate::store::{
    Expected, PageStamp, PageStore, StoreError, StoreResult, StoredPage, content_hash,
};
use crate::text::slug::Slug;
use crate::time::Timestamp;

/// Pages in memory.
#[derive(Debug)]
pub struct InMemoryPages {
    clock: Arc<dyn Clock>,
    pages: Mutex<Pages>,
}

type Pages = BTreeMap<Slug, (Vec<u8>, Timestamp)>;

impl InMemoryPages {
    /// Returns an empty store. The clock tells when a page changed.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            pages: Mutex::default(),
        }
    }
}

#[async_trait]
impl PageStore for InMemoryPages {
    async fn list(&self) -> StoreResult<Vec<PageStamp>> {
        let stamp = |(slug, (bytes, modified_at)): (&Slug, &(Vec<u8>, Timestamp))| PageStamp {
            slug: slug.clone(),
            bytes: bytes.len() as u64,
            modified_at: *modified_at,
        };
        Ok(locked(&self.pages).iter().map(stamp).collect())
    }

    async fn read(&self, slug: &Slug) -> StoreResult<Option<StoredPage>> {
        let pages = locked(&self.pages);
        Ok(pages.get(slug).map(|(bytes, modified_at)| StoredPage {
            slug: slug.clone(),
            bytes: bytes.clone(),
            hash: content_hash(bytes),
            modified_at: *modified_at,
        }))
    }

    async fn write(&self, slug: &Slug, bytes: Vec<u8>, expected: Expected) -> StoreResult<String> {
        require_free(slug)?;
        let mut pages = locked(&self.pages);
        compare(&pages, slug, &expected)?;
        let hash = content_hash(&bytes);
        if pages.get(slug).is_none_or(|(there, _)| *there != bytes) {
            pages.insert(slug.clone(), (bytes, self.clock.now()));
        }
        Ok(hash)
    }

    async fn delete(&self, slug: &Slug, expected: Expected) -> StoreResult<()> {
        let mut pages = locked(&self.pages);
        compare(&pages, slug, &expected)?;
        pages.remove(slug);
        Ok(())
    }

    async fn rename(&self, from: &Slug, to: &Slug, expected: Expected) -> StoreResult<()> {
        let mut pages = locked(&self.pages);
        compare(&pages, from, &expected)?;
        let Some(page) = pages.get(from).cloned() else {
            return Err(StoreError::NotFound {
                what: from.to_string(),
            });
        };
        if from != to {
            require_free(to)?;
            compare(&pages, to, &Expected::Absent)?;
            pages.remove(from);
            pages.insert(to.clone(), page);
        }
        Ok(())
    }
}

fn require_free(slug: &Slug) -> StoreResult<()> {
    if slug.is_reserved() {
        return Err(StoreError::BadRequest {
            reason: format!("`{slug}` stands for what is no page; choose another folder"),
        });
    }
    Ok(())
}

fn compare(pages: &Pages, slug: &Slug, expected: &Expected) -> StoreResult<()> {
    let found = pages.get(slug).map(|(bytes, _)| content_hash(bytes));
    let (agrees, expected) = match expected {
        Expected::Any => (true, "anything"),
        Expected::Absent => (found.is_none(), "nothing"),
        Expected::Hash(hash) => (found.as_ref() == Some(hash), hash.as_str()),
    };
    if agrees {
        return Ok(());
    }
    Err(StoreError::Conflict {
        what: slug.to_string(),
        expected: expected.to_owned(),
        found: found.unwrap_or_else(|| "nothing".to_owned()),
    })
}
