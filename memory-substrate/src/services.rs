//! What a tier may ask of this host, each capability over the stores and the snapshot.
//!
//! Who may see what is decided in here, below every caller: a requester without authority gets nothing, untrusted text
//! is shown to nobody, a channel only to calls that name it, and what belongs to no channel only to the owner. The
//! services hold no state of their own, so every tier instance of an assistant shares one image and a change of tier
//! re-indexes nothing.

mod notices;
mod pages;
mod pkb;
mod search;
mod state;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use memory_core::embed::{EmbedError, Embedder};
use memory_core::env::Clock;
use memory_core::predicates::Tier;
use memory_core::provenance::{Channel, Trust};
use memory_core::services::{Call, Capability, ServiceError, ServiceResult, Services};
use memory_core::store::StoreError;

use crate::pages::{FilePages, PageIndex};
use crate::snapshot::{Snapshot, Visibility};
use crate::state::SqliteState;
use crate::sync::describe;
use crate::workspace::Workspace;

pub use self::notices::NoticeBoard;
pub(crate) use self::pkb::PkbSearch;

/// What a turn reads: the pages and the image of their sections, exchanged together.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    pub(crate) pages: Arc<PageIndex>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// How many pages there are of each channel and trust.
    counts: HashMap<(Channel, Trust), u32>,
}

impl Serving {
    pub(crate) fn new(pages: Arc<PageIndex>, snapshot: Arc<Snapshot>) -> Self {
        let mut counts: HashMap<(Channel, Trust), u32> = HashMap::new();
        for page in pages.pages() {
            *counts
                .entry((page.channel.clone(), page.trust))
                .or_default() += 1;
        }
        Self {
            pages,
            snapshot,
            counts,
        }
    }

    /// Returns the same pages with another image.
    pub(crate) fn with_snapshot(&self, snapshot: Arc<Snapshot>) -> Self {
        Self {
            pages: self.pages.clone(),
            snapshot,
            counts: self.counts.clone(),
        }
    }

    fn visible_pages(&self, visibility: &Visibility) -> u32 {
        let visible = self
            .counts
            .iter()
            .filter(|((channel, trust), _)| visibility.allows(channel, *trust));
        visible.map(|(_, count)| count).sum()
    }

    fn hides_something(&self, visibility: &Visibility) -> bool {
        self.counts
            .keys()
            .any(|(channel, trust)| !visibility.allows(channel, *trust))
    }
}

/// What every service of an assistant works on.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) workspace: Workspace,
    pub(crate) state: Arc<SqliteState>,
    pub(crate) files: FilePages,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) serving: ArcSwap<Serving>,
    pub(crate) notices: NoticeBoard,
    pub(crate) pkb: PkbSearch,
    pub(crate) writable: bool,
}

impl Shared {
    /// Returns the model if the image has its vectors, or why dense search is not to be had.
    fn dense_model(&self) -> ServiceResult<&Arc<dyn Embedder>> {
        let embedder = self
            .embedder
            .as_ref()
            .ok_or_else(|| ServiceError::Unavailable {
                reason:
                    "there is no embedding model, run `cargo xtask setup` or see `strata doctor`"
                        .to_owned(),
            })?;
        if self.serving.load().snapshot.dims() == embedder.dims() {
            Ok(embedder)
        } else {
            Err(ServiceError::Unavailable {
                reason: "the index was not made with this embedding model, run `strata reindex`"
                    .to_owned(),
            })
        }
    }

    fn require_writable(&self) -> ServiceResult<()> {
        if self.writable {
            Ok(())
        } else {
            Err(ServiceError::Unavailable {
                reason: "this assistant was opened for reading only".to_owned(),
            })
        }
    }
}

/// Returns every service a tier is given: what its row allows and its manifest asked for.
pub(crate) fn services(shared: &Arc<Shared>, tier: Tier, asked: &[Capability]) -> Services {
    every_service(shared, tier).narrowed(tier, asked)
}

/// Returns every service there is, as a tier would be given it.
pub(crate) fn every_service(shared: &Arc<Shared>, tier: Tier) -> Services {
    let host = Arc::new(Host {
        shared: shared.clone(),
        tier,
    });
    Services {
        pages: Some(host.clone()),
        sections: Some(host.clone()),
        dense: Some(host.clone()),
        lexical: Some(host.clone()),
        pkb: Some(host.clone()),
        residency: Some(host.clone()),
        log: Some(host.clone()),
        kv: Some(host.clone()),
        messages: Some(host.clone()),
        clock: Some(shared.clock.clone()),
        notices: Some(host),
    }
}

/// The services of one tier.
#[derive(Debug)]
struct Host {
    shared: Arc<Shared>,
    tier: Tier,
}

/// Stops early when nobody waits for the answer any more, else says what the requester may see.
fn admit(call: &Call) -> ServiceResult<Visibility> {
    if call.is_cancelled() {
        Err(ServiceError::Cancelled)
    } else {
        Ok(Visibility::of(call.scope()))
    }
}

/// Returns a store's failure as a tier may see it.
fn failed(error: StoreError) -> ServiceError {
    match error {
        StoreError::Locked { holder } => ServiceError::Unavailable { reason: holder },
        error @ StoreError::ReadOnly { .. } => ServiceError::Unavailable {
            reason: error.to_string(),
        },
        StoreError::BadRequest { reason } => ServiceError::BadRequest { reason },
        error => ServiceError::Failed {
            reason: describe(&error),
        },
    }
}

/// Returns an embedder's failure as a tier may see it.
fn not_embedded(error: &EmbedError) -> ServiceError {
    match error {
        EmbedError::Unavailable { reason } => ServiceError::Unavailable {
            reason: reason.clone(),
        },
        EmbedError::BadInput { reason } => ServiceError::BadRequest {
            reason: reason.clone(),
        },
        EmbedError::Failed { reason } => ServiceError::Failed {
            reason: reason.clone(),
        },
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
