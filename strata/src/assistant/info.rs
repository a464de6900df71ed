//! The static `<info>` block: what an assistant should know in every conversation.
//!
//! It is the host's and not a tier's, so that changing tiers neither loses nor repeats it. It is shown on the first turn
//! of a conversation and then stays in its history; a row in the state database says so, and compaction takes the row
//! away together with the history.

use std::collections::HashSet;

use memory_core::ledger::estimate_tokens;
use memory_core::predicates::uses_concept_page_memory;
use memory_core::services::KvScope;
use memory_core::store::{StateStore as _, StoreError, StoreResult};
use memory_core::tier::{Block, Placement};
use memory_core::wire;
use memory_substrate::assistant::AssistantStore;
use memory_substrate::blocking;
use memory_substrate::views::{self, InfoRequest};

use memory_core::config::Config;
use memory_core::provenance::Channel;

/// Namespace of the host's own rows.
const NAMESPACE: &str = "host";

/// Key of the row that names the message which carries the block.
const KEY: &str = "static_info_message";

/// Buffer lengths of the shorter forms.
const SHORTER_BUFFERS: [usize; 2] = [20, 0];

/// Returns the block, unless it is in the conversation already or there is nothing to say.
pub(super) async fn block(
    store: &AssistantStore,
    config: &Config,
    conversation: &str,
    channels: &[Channel],
    context_lost: bool,
) -> StoreResult<Option<Block>> {
    if !uses_concept_page_memory(config.memory.switches()) {
        return Ok(None);
    }
    if !context_lost
        && store
            .state()
            .kv_get(NAMESPACE, KvScope::Conversation, conversation, KEY)
            .await?
            .is_some()
    {
        return Ok(None);
    }
    let withheld = store.state().withheld_entries(channels.to_vec()).await?;
    let longest = config
        .memory
        .substrate
        .consolidation_max_buffer_lines
        .map(|lines| lines as usize);
    let budget = config.memory.retrieval.max_inject_tokens as usize;
    let workspace = store.workspace().clone();
    let texts =
        blocking::run(move || {
            let read = |lines: Option<usize>| text(&workspace, lines, &withheld);
            let Some(full) = read(longest)? else {
                return Ok::<_, StoreError>(Vec::new());
            };
            let mut texts = vec![full];
            if estimate_tokens(texts[0].len()) > budget / 2 {
                for lines in SHORTER_BUFFERS {
                    let shorter = read(Some(lines.min(longest.unwrap_or(usize::MAX))))?;
                    texts.extend(shorter.filter(|shorter| {
                        texts.last().is_some_and(|last| shorter.len() < last.len())
                    }));
                }
            }
            Ok(texts)
        })
        .await?;
    let mut texts = texts.into_iter();
    Ok(texts.next().map(|text| Block {
        id: wire::block::STATIC_INFO.to_owned(),
        tag: wire::tag::INFO.to_owned(),
        placement: Placement::AfterMemoryPrefix,
        order: wire::order::STATIC_INFO,
        // What always holds is worth more than what this turn happens to recall.
        priority: 200,
        mandatory: false,
        persistence_key: Some(wire::metadata::STATIC_BLOCK.to_owned()),
        text,
        variants: texts.collect(),
        minimum_tokens: 0,
        shows: Vec::new(),
        commit: None,
    }))
}

/// Records that a message of the conversation carries the block.
pub(super) async fn mark_attached(
    store: &AssistantStore,
    conversation: &str,
    message: &str,
) -> StoreResult<()> {
    let message = Some(message.to_owned());
    store
        .state()
        .kv_put(NAMESPACE, KvScope::Conversation, conversation, KEY, message)
        .await
}

/// Forgets that the conversation carries the block.
pub(super) async fn mark_lost(store: &AssistantStore, conversation: &str) -> StoreResult<()> {
    store
        .state()
        .kv_put(NAMESPACE, KvScope::Conversation, conversation, KEY, None)
        .await
}

fn text(
    workspace: &memory_substrate::workspace::Workspace,
    max_buffer_lines: Option<usize>,
    withheld: &HashSet<String>,
) -> StoreResult<Option<String>> {
    views::info_text(
        workspace,
        &InfoRequest {
            max_buffer_lines,
            withheld: Some(withheld),
        },
    )
}
