//! Fits blocks into the budget and puts them into prompt order.
//!
//! Several producers make blocks for one message: the tier, and the host's own static text. The ledger of the core
//! decides what fits; this module feeds it and turns its answer into the order in which a model reads the message.

use std::cmp::Reverse;

use memory_core::ledger::{Choice, Ledger, LedgerBlock};
use memory_core::tier::{Block, CommitToken, Placement};
use memory_core::wire;

use crate::turn::{DroppedBlock, InjectedBlock};

/// The outcome of fitting.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// The blocks to inject, in prompt order.
    pub(crate) blocks: Vec<InjectedBlock>,
    /// What to commit for each block that has something to commit, by block.
    pub(crate) tokens: Vec<(String, CommitToken)>,
    /// Tokens of blocks that did not fit: nobody will attach them.
    pub(crate) discarded: Vec<CommitToken>,
    /// The blocks that did not fit.
    pub(crate) dropped: Vec<DroppedBlock>,
    /// What the blocks cost together.
    pub(crate) used_tokens: usize,
}

struct Offer(Block);

impl LedgerBlock for Offer {
    fn id(&self) -> &str {
        &self.0.id
    }
    fn tag(&self) -> &str {
        &self.0.tag
    }
    fn order(&self) -> i32 {
        self.0.order
    }
    fn priority(&self) -> i32 {
        self.0.priority
    }
    fn mandatory(&self) -> bool {
        self.0.mandatory
    }
    fn text(&self) -> &str {
        &self.0.text
    }
    fn variant_count(&self) -> usize {
        self.0.variants.len()
    }
    fn variant(&self, index: usize) -> &str {
        &self.0.variants[index]
    }
    fn minimum_tokens(&self) -> usize {
        self.0.minimum_tokens as usize
    }
}

/// Fits the blocks into a budget. A block without text attaches nothing, but its token is kept.
pub(crate) fn lay_out(blocks: Vec<Block>, budget_tokens: usize) -> Layout {
    let mut layout = Layout::default();
    let (empty, filled): (Vec<Block>, Vec<Block>) =
        blocks.into_iter().partition(|block| block.text.is_empty());
    for block in empty {
        layout
            .tokens
            .extend(block.commit.map(|token| (String::new(), token)));
    }
    let offers: Vec<Offer> = filled.into_iter().map(Offer).collect();
    let fitted = Ledger::new(budget_tokens).fit(&offers);
    let mut offers: Vec<Option<Offer>> = offers.into_iter().map(Some).collect();
    layout.used_tokens = fitted.used_tokens;
    for dropped in fitted.dropped {
        let token = offers[dropped.index]
            .take()
            .and_then(|offer| offer.0.commit);
        layout.discarded.extend(token);
        layout.dropped.push(DroppedBlock {
            id: dropped.id,
            reason: dropped.reason.to_string(),
        });
    }
    for kept in fitted.kept {
        let Some(Offer(mut block)) = offers[kept.index].take() else {
            continue;
        };
        let shortened = match kept.choice {
            Choice::Full => false,
            Choice::Shorter(index) => {
                block.text = block.variants.swap_remove(index);
                true
            }
        };
        layout
            .tokens
            .extend(block.commit.map(|token| (block.id.clone(), token)));
        layout.blocks.push(InjectedBlock {
            id: block.id,
            tag: block.tag,
            placement: block.placement,
            order: block.order,
            persistence_key: block.persistence_key,
            text: block.text,
            tokens: kept.tokens,
            shortened,
            shows: block.shows,
        });
    }
    layout.blocks.sort_by_key(position);
    layout
}

/// Returns where a block stands in the message.
///
/// Blocks that count as memory come right after what is prepended, ascending. Each other block of that placement is
/// put directly behind them when its turn comes and so pushes the earlier ones down: those stand in descending order.
fn position(block: &InjectedBlock) -> (u8, Reverse<i32>, i32, String) {
    let counts_as_memory = [wire::tag::MEMORY, wire::tag::INFO].contains(&block.tag.as_str());
    let (group, pushed_down) = match block.placement {
        Placement::Prepend => (0, 0),
        Placement::AfterMemoryPrefix if counts_as_memory => (1, 0),
        Placement::AfterMemoryPrefix => (2, block.order),
        Placement::Append => (3, 0),
    };
    (group, Reverse(pushed_down), block.order, block.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(id: &str, tag: &str, placement: Placement, order: i32) -> Block {
        Block {
            id: id.to_owned(),
            tag: tag.to_owned(),
            placement,
            order,
            priority: 100,
            mandatory: false,
            persistence_key: None,
            text: "text ".repeat(20),
            variants: Vec::new(),
            minimum_tokens: 0,
            shows: Vec::new(),
            commit: Some(CommitToken(id.to_owned())),
        }
    }

    fn ids(layout: &Layout) -> Vec<&str> {
        layout
            .blocks
            .iter()
            .map(|block| block.id.as_str())
            .collect()
    }

    #[test]
    fn blocks_stand_as_a_model_reads_them() {
        use Placement::{AfterMemoryPrefix, Append, Prepend};
        let blocks = vec![
            block("focus", "thread_focus", Append, 70),
            block("reminder", "system_reminder", AfterMemoryPrefix, 35),
            block("pkb", "knowledge_base", AfterMemoryPrefix, 30),
            block("cards", "memory", AfterMemoryPrefix, 1000),
            block("info", "info", AfterMemoryPrefix, 38),
            block("dynamic", "memory", Prepend, 0),
        ];
        let layout = lay_out(blocks, 10_000);
        assert_eq!(
            ids(&layout),
            ["dynamic", "info", "cards", "reminder", "pkb", "focus"]
        );
        assert_eq!(layout.tokens.len(), 6);
    }

    #[test]
    fn what_does_not_fit_is_named_and_its_token_given_up() {
        let mut large = block("large", "memory", Placement::Prepend, 0);
        large.text = "long ".repeat(200);
        large.priority = 1;
        let layout = lay_out(
            vec![large, block("small", "info", Placement::Prepend, 1)],
            60,
        );
        assert_eq!(ids(&layout), ["small"]);
        assert_eq!(layout.discarded, [CommitToken("large".to_owned())]);
        assert_eq!(layout.dropped[0].id, "large");
        assert!(
            layout.dropped[0].reason.contains("tokens"),
            "{}",
            layout.dropped[0].reason
        );
    }

    #[test]
    fn a_shorter_form_is_taken_when_the_text_is_too_long() {
        let mut long = block("long", "info", Placement::Prepend, 0);
        long.text = "long ".repeat(200);
        long.variants = vec!["middle ".repeat(20), "short".to_owned()];
        let layout = lay_out(vec![long], 20);
        assert_eq!(
            (layout.blocks[0].text.as_str(), layout.blocks[0].shortened),
            ("short", true)
        );
    }

    #[test]
    fn an_empty_block_attaches_nothing_but_is_committed() {
        let mut empty = block("empty", "memory", Placement::Prepend, 0);
        empty.text.clear();
        let layout = lay_out(vec![empty], 100);
        assert!(layout.blocks.is_empty());
        assert_eq!(layout.tokens.len(), 1);
    }
}
