//! What is known of the index's upkeep, for this process and for others.
//!
//! Upkeep that fails costs nothing at once, and a disk in the end. So it never stops a write, and it is kept in the state
//! database until upkeep has worked again: whoever looks then sees it, in whichever process it happened.

use memory_core::services::Severity;
use memory_core::store::StoreResult;

use super::AssistantStore;
use super::open::notice;
use crate::sync::{SyncReport, describe};

/// The key under which the state database keeps why the index could not be tidied.
const KEY: &str = "index_upkeep_error";

impl AssistantStore {
    /// Returns why the index could not be tidied the last time; `None` when it could.
    pub(super) async fn upkeep_error(&self) -> StoreResult<Option<String>> {
        self.engine.shared.state.meta(KEY).await
    }

    /// Tells how upkeep ended.
    pub(super) async fn tell_upkeep(&self, report: &SyncReport) {
        let shared = &self.engine.shared;
        match &report.maintenance_error {
            Some(error) => shared.notices.post(notice(
                "index_maintenance_failed",
                Severity::Error,
                format!("the index works but could not be tidied and will grow ({error}), see `strata doctor`"),
            )),
            None => shared.notices.resolve("index_maintenance_failed"),
        }
        let kept = async {
            if self.upkeep_error().await? != report.maintenance_error {
                let error = report.maintenance_error.clone();
                shared.state.put_meta(KEY, error).await?;
            }
            Ok::<_, memory_core::store::StoreError>(())
        };
        if let Err(error) = kept.await {
            tracing::warn!(
                error = describe(&error),
                "how upkeep ended could not be kept"
            );
        }
    }
}
