//! Fusing the lanes' rankings into one.
//!
//! Reciprocal rank fusion, with each lane weighted. The dense lane's weight falls with the share of the message that its
//! model cannot read: the default model knows Latin script, and fusing a blind ranking at full weight would drag a good
//! lexical ranking below what it is worth alone.

use crate::candidates::{Candidate, Lane};
use crate::settings::{FRESH_WEIGHT, FUSION_K};

/// Weight of the dense lane for a message all in Latin script.
const DENSE_WEIGHT: f32 = 0.7;

/// Returns how much the dense lane counts for a message, 0 to [`DENSE_WEIGHT`].
pub(crate) fn dense_weight(message: &str) -> f32 {
    let (mut letters, mut latin) = (0_u32, 0_u32);
    for character in message
        .chars()
        .filter(|character| character.is_alphabetic())
    {
        letters += 1;
        // Basic Latin to Latin Extended-B, and Latin Extended Additional.
        if matches!(u32::from(character), 0..=0x24f | 0x1e00..=0x1eff) {
            latin += 1;
        }
    }
    if letters == 0 {
        return DENSE_WEIGHT;
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share of letters needs no more than 24 bits"
    )]
    let share = latin as f32 / letters as f32;
    DENSE_WEIGHT * share * share
}

/// Sets every candidate's fused score and sorts best first, ties by section.
pub(crate) fn rank(candidates: &mut [Candidate], dense_weight: f32) {
    for candidate in candidates.iter_mut() {
        candidate.fused = candidate
            .found_by
            .iter()
            .map(|(lane, _, rank)| {
                #[expect(clippy::cast_precision_loss, reason = "ranks are below the lane's k")]
                let reciprocal = 1.0 / (FUSION_K + *rank as f32 + 1.0);
                reciprocal
                    * match lane {
                        Lane::Needle => 1.0,
                        Lane::Dense => dense_weight,
                        Lane::Fresh => FRESH_WEIGHT,
                        Lane::Core => 0.0,
                    }
            })
            .sum();
    }
    candidates.sort_by(|left, right| {
        right
            .fused
            .total_cmp(&left.fused)
            .then_with(|| left.id.cmp(&right.id))
    });
}

#[cfg(test)]
mod tests {
    use memory_core::text::section::SectionId;
    use memory_core::text::slug::Slug;

    use super::*;
    use crate::candidates::Pool;

    fn lead(name: &str) -> SectionId {
        SectionId::lead(Slug::from_title(name))
    }

    #[test]
    fn a_message_the_model_cannot_read_silences_the_dense_lane() {
        assert!(dense_weight("where is the roastery").to_bits() == DENSE_WEIGHT.to_bits());
        assert!(dense_weight("烘焙店在哪里") < 0.001);
        let mixed = dense_weight("nginx 配置");
        assert!(mixed > 0.0 && mixed < DENSE_WEIGHT, "{mixed}");
    }

    #[test]
    fn agreement_beats_a_single_first_place() {
        let mut pool = Pool::default();
        pool.add(Lane::Needle, [(lead("one"), 9.0), (lead("both"), 8.0)]);
        pool.add(Lane::Dense, [(lead("two"), 0.9), (lead("both"), 0.8)]);
        let mut candidates = pool.into_candidates();
        rank(&mut candidates, DENSE_WEIGHT);
        assert_eq!(candidates[0].id, lead("both"));
        assert_eq!(candidates[1].id, lead("one"));
    }

    #[test]
    fn equals_are_ordered_by_section() {
        let mut pool = Pool::default();
        pool.add(Lane::Core, [(lead("b"), 0.0), (lead("a"), 0.0)]);
        let mut candidates = pool.into_candidates();
        rank(&mut candidates, DENSE_WEIGHT);
        assert_eq!(candidates[0].id, lead("a"));
    }
}
