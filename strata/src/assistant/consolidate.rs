//! Filing the buffer into pages, and what past runs did.

use std::sync::Arc;

use memory_core::config::Config;
use memory_core::predicates::uses_concept_page_memory;
use memory_core::store::StoreError;
use memory_substrate::blocking;
use memory_substrate::consolidate::{Agent, ConsolidateOptions, PastRun, RunCause, RunReport};
use memory_substrate::error::SubstrateError;
use memory_substrate::jobs::Stop;
use memory_substrate::prompts;
use memory_substrate::workspace::Workspace;
use serde::{Deserialize, Serialize};

use super::Assistant;
use super::beside::{Request, go_on};
use crate::error::StrataError;
use crate::model::LiveModel;
use crate::socket::Operation;

/// What a process asks the writer to consolidate.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct ConsolidateWith {
    pub(super) cause: RunCause,
    pub(super) dry_run: bool,
}

/// Returns the model that files notes, if the settings name one, with what the owner tells it.
pub(super) fn agent(
    model: &LiveModel,
    workspace: &Workspace,
    config: &Config,
) -> Result<Option<Agent>, StrataError> {
    let Some(client) = model.client(&config.llm)? else {
        return Ok(None);
    };
    let path = config.memory.substrate.consolidation_prompt_path.as_deref();
    let prompt = path.and_then(|path| match prompts::load(workspace, path) {
        Ok(prompt) => Some(prompt),
        Err(error) => {
            tracing::warn!(%error, "the built-in instruction serves instead");
            None
        }
    });
    Ok(Some(Agent { client, prompt }))
}

impl Assistant {
    /// Files the oldest entries of the buffer into pages. Either all that the report says was done, or nothing; each run can
    /// be taken back by its operation. With `dry_run` nothing is done.
    pub async fn consolidate(
        &self,
        cause: RunCause,
        dry_run: bool,
    ) -> Result<RunReport, StrataError> {
        self.writable("consolidate")?;
        let with = ConsolidateWith { cause, dry_run };
        let request = Request::once("consolidate", Operation::Consolidate);
        if let Some(report) = self.hand_over(request, &with, &mut go_on).await? {
            return Ok(report);
        }
        let config = self.look().await?.config;
        if !uses_concept_page_memory(config.memory.switches()) {
            return Err(SubstrateError::from(StoreError::BadRequest {
                reason: "this assistant keeps no concept pages, so there is nothing to file into: see `strata tier show`"
                    .to_owned(),
            })
            .into());
        }
        self.embedding.warm();
        let substrate = &config.memory.substrate;
        let options = ConsolidateOptions {
            cause,
            dry_run,
            most_entries: substrate.consolidation_max_entries_per_run,
            longest_page: substrate.max_page_chars,
        };
        let (model, workspace) = (Arc::clone(&self.model), self.workspace.clone());
        let agent = blocking::run(move || Ok::<_, StrataError>(agent(&model, &workspace, &config)))
            .await??;
        let store = &self.engine().await?.store;
        Ok(store
            .consolidate_with(options, agent.as_ref(), &Stop::default())
            .await?)
    }

    /// Returns the newest runs, newest first.
    pub async fn runs(&self, limit: u32) -> Result<Vec<PastRun>, StrataError> {
        Ok(self.engine().await?.store.runs(limit).await?)
    }

    /// Returns a run; `None` when there was none of this name.
    pub async fn run(&self, id: &str) -> Result<Option<PastRun>, StrataError> {
        Ok(self.engine().await?.store.run(id).await?)
    }
}
