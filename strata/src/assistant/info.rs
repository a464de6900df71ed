//! The static `<info>` block: what an assistant should know in every conversation.
//!
//! It is the host's and not a tier's, so that changing tiers neither loses nor repeats it. It is shown on the first turn
//! of a conversation and then stays in its history; a row in the state database says so, and compaction takes the row
//! away together with the history. It holds what the owner said to nobody else, so only the owner is shown it.

use std::sync::Arc;

use memory_core::config::Config;
use memory_core::ledger::estimate_tokens;
use memory_core::predicates::uses_concept_page_memory;
use memory_core::provenance::Authority;
use memory_core::services::KvScope;
use memory_core::store::{StateStore as _, StoreError, StoreResult};
use memory_core::tier::{Block, Placement};
use memory_core::time::Timestamp;
use memory_core::wire;
use memory_substrate::assistant::AssistantStore;
use memory_substrate::blocking;
use memory_substrate::state::BufferReader;
use memory_substrate::views::InfoFiles;

use super::call;
use crate::turn::TurnInput;

/// Namespace of the host's own rows.
const NAMESPACE: &str = "host";

/// Key of the row that names the message which carries the block.
const KEY: &str = "static_info_message";

/// Buffer lengths of the shorter forms.
const SHORTER_BUFFERS: [usize; 2] = [20, 0];

/// The block, and why a file is missing from it.
#[derive(Debug, Default)]
pub(super) struct StaticInfo {
    pub(super) block: Option<Block>,
    pub(super) unreadable: Vec<StoreError>,
}

/// Returns the block, unless it is in the conversation already or there is nothing to say.
pub(super) async fn block(
    store: &AssistantStore,
    config: &Config,
    input: &TurnInput,
    now: Timestamp,
) -> StoreResult<StaticInfo> {
    if input.authority != Authority::Owner || !uses_concept_page_memory(config.memory.switches()) {
        return Ok(StaticInfo::default());
    }
    if !input.context_lost
        && store
            .state()
            .kv_get(NAMESPACE, KvScope::Conversation, &input.conversation, KEY)
            .await?
            .is_some()
    {
        return Ok(StaticInfo::default());
    }
    let reader = BufferReader {
        requester: input.authority,
        channels: call::channels(input),
        now,
    };
    let state = Arc::clone(store.state());
    let longest = config
        .memory
        .substrate
        .consolidation_max_buffer_lines
        .map(|lines| lines as usize);
    let budget = config.memory.retrieval.max_inject_tokens as usize;
    let workspace = store.workspace().clone();
    let (texts, unreadable) =
        blocking::run(move || {
            let files = InfoFiles::read(&workspace, Some((&reader, &*state)));
            let mut texts: Vec<String> = files.text(longest).into_iter().collect();
            if texts
                .iter()
                .any(|full| estimate_tokens(full.len()) > budget / 2)
            {
                for lines in SHORTER_BUFFERS {
                    let shorter = files.text(Some(lines.min(longest.unwrap_or(usize::MAX))));
                    texts.extend(shorter.filter(|shorter| {
                        texts.last().is_some_and(|last| shorter.len() < last.len())
                    }));
                }
                // One view or entry may be longer than everything a prompt has room for; its beginning is better than nothing.
                texts.extend(texts.last().and_then(|last| cut(last, budget / 2)));
            }
            Ok::<_, StoreError>((texts, files.unreadable))
        })
        .await?;
    let mut texts = texts.into_iter();
    let block = texts.next().map(|text| Block {
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
    });
    Ok(StaticInfo { block, unreadable })
}

/// Returns the whole lines at the beginning of a text that cost at most so many tokens, and says that it was cut; `None`
/// when it need not be.
fn cut(text: &str, tokens: usize) -> Option<String> {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        if estimate_tokens(end + line.len()) > tokens {
            break;
        }
        end += line.len();
    }
    if end == text.len() {
        return None;
    }
    if end == 0 {
        // One line alone is too long, so it is cut itself.
        let short = text.char_indices().map(|(at, _)| at);
        end = short
            .take_while(|at| estimate_tokens(*at) <= tokens)
            .last()?;
    }
    Some(format!(
        "{}\n\n(Cut here: the files under `memory/` hold the rest.)",
        text[..end].trim_end()
    ))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut_at_a_line_or_inside_one() {
        assert_eq!(cut("short\n", 100), None);
        let lines = "a line of some length\n".repeat(100);
        let shorter = cut(&lines, 50).expect("it is too long");
        assert!(
            shorter.starts_with("a line of some length\na line"),
            "{shorter}"
        );
        assert!(estimate_tokens(shorter.len()) < 80, "{}", shorter.len());
        let one = cut(&"语".repeat(10_000), 50).expect("it is too long");
        assert!(one.starts_with("语语") && one.len() < 400, "{}", one.len());
    }
}
