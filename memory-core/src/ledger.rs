//! The context ledger: fits blocks into a token budget.
//!
//! A prompt has room for only so much memory, and several producers want it. The ledger decides in one place and
//! gives a reason for everything it leaves out, so that "why is this not in the prompt" always has an answer. It
//! works on sizes alone: it never edits a text, because only the producer of a block knows how to shorten it, and
//! offers shorter variants for that. The same blocks and the same budget give the same result, since prompt caches
//! depend on it.

use std::cmp::Reverse;
use std::fmt;

use crate::tier::Block;

/// What the ledger has to know about a block.
///
/// It is a trait so that callers keep their own block type and get indices back, without a copy of any text.
pub trait LedgerBlock {
    /// Returns the name of the block, which breaks ties.
    fn id(&self) -> &str;

    /// Returns the tag the text is wrapped in at use; empty for a text that is used as it is.
    fn tag(&self) -> &str;

    /// Returns the position in the prompt; smaller comes first.
    fn order(&self) -> i32;

    /// Returns how important the block is; larger is served first.
    fn priority(&self) -> i32;

    /// Tells whether the block must be in the prompt whatever it costs.
    fn mandatory(&self) -> bool;

    /// Returns the complete text, without its wrapper.
    fn text(&self) -> &str;

    /// Returns how many shorter variants there are, the largest first.
    fn variant_count(&self) -> usize;

    /// Returns the shorter variant at `index`, which is below [`Self::variant_count`].
    fn variant(&self, index: usize) -> &str;

    /// Returns the size below which a shorter variant is not worth showing.
    fn minimum_tokens(&self) -> usize;
}

impl LedgerBlock for Block {
    fn id(&self) -> &str {
        &self.id
    }

    fn tag(&self) -> &str {
        &self.tag
    }

    fn order(&self) -> i32 {
        self.order
    }

    fn priority(&self) -> i32 {
        self.priority
    }

    fn mandatory(&self) -> bool {
        self.mandatory
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn variant_count(&self) -> usize {
        self.variants.len()
    }

    fn variant(&self, index: usize) -> &str {
        &self.variants[index]
    }

    fn minimum_tokens(&self) -> usize {
        usize::try_from(self.minimum_tokens).unwrap_or(usize::MAX)
    }
}

/// Which text of a block was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The complete text.
    Full,
    /// The shorter variant at this index.
    Shorter(usize),
}

/// A block that is in the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Index into the blocks that were given.
    pub index: usize,
    /// The text to use.
    pub choice: Choice,
    /// What that text costs, wrapper included.
    pub tokens: usize,
}

/// Why a block was left out: mandatory blocks and those of higher priority left too little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropReason {
    /// What the smallest acceptable text costs.
    pub needed: usize,
    /// What was left when the block had its turn.
    pub left: usize,
}

impl fmt::Display for DropReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needed, left } = self;
        write!(formatter, "needs {needed} tokens, {left} were left")
    }
}

/// A block that is not in the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Index into the blocks that were given.
    pub index: usize,
    /// The name of the block.
    pub id: String,
    /// Why it was left out.
    pub reason: DropReason,
}

/// The outcome of fitting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fitted {
    /// The blocks to use, in prompt order.
    pub kept: Vec<Kept>,
    /// The blocks left out, in the order they were considered.
    pub dropped: Vec<Dropped>,
    /// The budget that was given.
    pub budget_tokens: usize,
    /// What the kept blocks cost together.
    pub used_tokens: usize,
}

impl Fitted {
    /// Returns by how much the mandatory blocks alone exceed the budget; zero when everything fits.
    pub const fn overflow_tokens(&self) -> usize {
        self.used_tokens.saturating_sub(self.budget_tokens)
    }
}

/// Estimates the tokens of `bytes` bytes of UTF-8, rounded up.
///
/// The divisor is 3.6: English prose has about four bytes to a token in common vocabularies, code, names and
/// non-Latin scripts fewer, and an estimate that is a little too high costs a few tokens while one that is too low
/// breaks a request.
pub const fn estimate_tokens(bytes: usize) -> usize {
    // Five eighteenths is 1 / 3.6 without leaving whole numbers.
    bytes.saturating_mul(5).div_ceil(18)
}

/// A token budget to be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledger {
    budget_tokens: usize,
}

impl Ledger {
    /// Returns a ledger with this budget.
    pub const fn new(budget_tokens: usize) -> Self {
        Self { budget_tokens }
    }

    /// Chooses which blocks, and which text of each, go into the prompt.
    ///
    /// Room for the smallest text of every mandatory block is set aside first, so a mandatory block is never lost to
    /// another one's length. Then blocks get the largest text that still fits: mandatory ones first, then by
    /// priority, order and id. A block that does not fit is left out with a reason, and a less important but smaller
    /// one may still take the room. The budget is exceeded only when the mandatory blocks cannot fit at their
    /// smallest.
    pub fn fit<B: LedgerBlock>(&self, blocks: &[B]) -> Fitted {
        let mut offers: Vec<Offer<'_, B>> = blocks
            .iter()
            .enumerate()
            .map(|(index, block)| Offer::new(index, block))
            .collect();
        offers.sort_by_key(Offer::rank);

        let mut reserved: usize = offers
            .iter()
            .filter(|offer| offer.block.mandatory())
            .map(Offer::smallest)
            .sum();
        let mut fitted = Fitted {
            budget_tokens: self.budget_tokens,
            ..Fitted::default()
        };
        for offer in &offers {
            let mandatory = offer.block.mandatory();
            if mandatory {
                reserved -= offer.smallest();
            }
            let left = self
                .budget_tokens
                .saturating_sub(fitted.used_tokens + reserved);
            let candidate = offer.largest_within(left).or_else(|| {
                // A mandatory block is shown even over budget; the overflow tells the caller.
                mandatory.then(|| offer.smallest_candidate())
            });
            match candidate {
                Some((choice, tokens)) => {
                    fitted.used_tokens += tokens;
                    fitted.kept.push(Kept {
                        index: offer.index,
                        choice,
                        tokens,
                    });
                }
                None => fitted.dropped.push(Dropped {
                    index: offer.index,
                    id: offer.block.id().to_owned(),
                    reason: DropReason {
                        needed: offer.smallest(),
                        left,
                    },
                }),
            }
        }
        fitted.kept.sort_by_key(|kept| {
            let block = &blocks[kept.index];
            (block.order(), block.id(), kept.index)
        });
        fitted
    }
}

/// A block with the texts that may be chosen and what each costs.
struct Offer<'a, B> {
    index: usize,
    block: &'a B,
    /// The complete text, then the variants that are worth showing, as the producer ordered them.
    candidates: Vec<(Choice, usize)>,
}

impl<'a, B: LedgerBlock> Offer<'a, B> {
    fn new(index: usize, block: &'a B) -> Self {
        let mut candidates = vec![(Choice::Full, cost(block.tag(), block.text()))];
        for variant in 0..block.variant_count() {
            let tokens = cost(block.tag(), block.variant(variant));
            if tokens >= block.minimum_tokens() {
                candidates.push((Choice::Shorter(variant), tokens));
            }
        }
        Self {
            index,
            block,
            candidates,
        }
    }

    /// Orders by who is served first; the index keeps equal blocks in the order they were given.
    fn rank(&self) -> (bool, Reverse<i32>, i32, &'a str, usize) {
        (
            !self.block.mandatory(),
            Reverse(self.block.priority()),
            self.block.order(),
            self.block.id(),
            self.index,
        )
    }

    /// Returns the largest candidate within `left`; among equals the more complete one.
    fn largest_within(&self, left: usize) -> Option<(Choice, usize)> {
        self.candidates
            .iter()
            .filter(|(_, tokens)| *tokens <= left)
            .rev()
            .max_by_key(|(_, tokens)| *tokens)
            .copied()
    }

    fn smallest_candidate(&self) -> (Choice, usize) {
        self.candidates
            .iter()
            .min_by_key(|(_, tokens)| *tokens)
            .copied()
            .expect("the complete text is always a candidate")
    }

    fn smallest(&self) -> usize {
        self.smallest_candidate().1
    }
}

/// Returns what a text costs once wrapped in its tag; an empty text is never wrapped and costs nothing.
fn cost(tag: &str, text: &str) -> usize {
    if text.is_empty() {
        return 0;
    }
    let wrapper = if tag.is_empty() {
        0
    } else {
        // An opening and a closing tag, each on a line of its own.
        "<>\n\n</>".len() + 2 * tag.len()
    };
    estimate_tokens(text.len() + wrapper)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tier::Placement;

    /// The wrapper of these blocks has 19 bytes, so this text makes the block cost exactly `tokens`.
    fn text(tokens: usize) -> String {
        "x".repeat(tokens * 18 / 5 - 19)
    }

    fn block(id: &str, order: i32, priority: i32, text: String) -> Block {
        Block {
            id: id.to_owned(),
            tag: "memory".to_owned(),
            placement: Placement::Append,
            order,
            priority,
            mandatory: false,
            persistence_key: None,
            text,
            variants: Vec::new(),
            minimum_tokens: 0,
            shows: Vec::new(),
            commit: None,
        }
    }

    /// Shows what was kept, in prompt order, with the index of a shorter variant behind the id.
    fn kept(fitted: &Fitted, blocks: &[Block]) -> String {
        let show = |kept: &Kept| match kept.choice {
            Choice::Full => blocks[kept.index].id.clone(),
            Choice::Shorter(variant) => format!("{}/{variant}", blocks[kept.index].id),
        };
        fitted.kept.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tokens_are_bytes_over_three_point_six_rounded_up() {
        for (bytes, tokens) in [
            (0, 0),
            (1, 1),
            (3, 1),
            (4, 2),
            (18, 5),
            (19, 6),
            (36, 10),
            (3600, 1000),
        ] {
            assert_eq!(estimate_tokens(bytes), tokens, "{bytes} bytes");
        }
    }

    #[test]
    fn everything_fits_and_comes_out_in_prompt_order() {
        let blocks = [
            block("b", 20, 9, text(50)),
            block("z", 10, 1, text(50)),
            block("a", 20, 5, text(50)),
        ];
        let fitted = Ledger::new(150).fit(&blocks);
        assert_eq!(kept(&fitted, &blocks), "z a b");
        assert_eq!(fitted.used_tokens, 150);
        assert_eq!(fitted.overflow_tokens(), 0);
    }

    #[test]
    fn low_priority_gives_way_but_a_smaller_block_may_fill_the_gap() {
        let blocks = [
            block("low", 1, 1, text(40)),
            block("mid", 2, 5, text(80)),
            block("high", 3, 9, text(60)),
        ];
        let fitted = Ledger::new(100).fit(&blocks);
        assert_eq!(kept(&fitted, &blocks), "low high");
        let [dropped] = &fitted.dropped[..] else {
            panic!("one block is left out: {fitted:?}");
        };
        assert_eq!((dropped.index, dropped.id.as_str()), (1, "mid"));
        assert_eq!(dropped.reason.to_string(), "needs 80 tokens, 40 were left");
    }

    #[test]
    fn the_largest_variant_that_fits_is_chosen_down_to_the_minimum() {
        let mut shrinkable = block("s", 1, 1, text(100));
        shrinkable.variants = vec![text(70), text(40), text(20)];
        for (budget, minimum, expected) in [
            (100, 0, Some(Choice::Full)),
            (99, 0, Some(Choice::Shorter(0))),
            (69, 0, Some(Choice::Shorter(1))),
            (39, 0, Some(Choice::Shorter(2))),
            (39, 30, None),
            (19, 0, None),
        ] {
            shrinkable.minimum_tokens = minimum;
            let fitted = Ledger::new(budget).fit(std::slice::from_ref(&shrinkable));
            assert_eq!(
                fitted.kept.first().map(|kept| kept.choice),
                expected,
                "budget {budget}"
            );
        }
    }

    #[test]
    fn mandatory_blocks_shrink_for_each_other_and_overflow_is_reported() {
        let mut first = block("first", 1, 9, text(100));
        first.variants = vec![text(30)];
        first.mandatory = true;
        let mut second = block("second", 2, 1, text(60));
        second.mandatory = true;
        let blocks = [first, second, block("other", 3, 99, text(10))];

        let fitted = Ledger::new(120).fit(&blocks);
        assert_eq!(kept(&fitted, &blocks), "first/0 second other");

        let fitted = Ledger::new(70).fit(&blocks);
        assert_eq!(kept(&fitted, &blocks), "first/0 second");
        assert_eq!(fitted.overflow_tokens(), 20);
        assert_eq!(fitted.dropped.len(), 1);
    }

    #[test]
    fn an_empty_block_is_kept_for_free() {
        let blocks = [block("empty", 1, 1, String::new())];
        let fitted = Ledger::new(0).fit(&blocks);
        assert_eq!(fitted.kept.len(), 1);
        assert_eq!(fitted.used_tokens, 0);
    }

    fn any_block() -> impl Strategy<Value = Block> {
        let place = ("[a-d]{1,2}", -2..3, -2..3, any::<bool>());
        let sizes = (
            0_usize..400,
            proptest::collection::vec(0_usize..300, 0..4),
            0_u32..40,
        );
        (place, sizes).prop_map(
            |((id, order, priority, mandatory), (bytes, mut shorter, minimum))| {
                shorter.sort_unstable_by(|left, right| right.cmp(left));
                Block {
                    mandatory,
                    variants: shorter.into_iter().map(|bytes| "y".repeat(bytes)).collect(),
                    minimum_tokens: minimum,
                    ..block(&id, order, priority, "x".repeat(bytes))
                }
            },
        )
    }

    proptest! {
        #[test]
        fn the_budget_holds_unless_mandatory_blocks_alone_break_it(
            blocks in proptest::collection::vec(any_block(), 0..12),
            budget in 0_usize..400,
        ) {
            let fitted = Ledger::new(budget).fit(&blocks);
            prop_assert_eq!(&fitted, &Ledger::new(budget).fit(&blocks));

            let mut seen: Vec<usize> = fitted.kept.iter().map(|kept| kept.index).collect();
            seen.extend(fitted.dropped.iter().map(|dropped| dropped.index));
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..blocks.len()).collect::<Vec<_>>());
            prop_assert!(fitted.dropped.iter().all(|dropped| !blocks[dropped.index].mandatory));

            let total: usize = fitted.kept.iter().map(|kept| kept.tokens).sum();
            prop_assert_eq!(total, fitted.used_tokens);
            if fitted.overflow_tokens() > 0 {
                let mandatory: usize = fitted
                    .kept
                    .iter()
                    .filter(|kept| blocks[kept.index].mandatory)
                    .map(|kept| kept.tokens)
                    .sum();
                prop_assert!(mandatory > budget);
                let free = |kept: &Kept| blocks[kept.index].mandatory || kept.tokens == 0;
                prop_assert!(fitted.kept.iter().all(free));
            }
            let keys: Vec<_> = fitted
                .kept
                .iter()
                .map(|kept| (blocks[kept.index].order, &blocks[kept.index].id, kept.index))
                .collect();
            prop_assert!(keys.is_sorted());
        }
    }
}
