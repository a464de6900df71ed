//! How near a page has to be so that an entry goes there.

/// Fewest pairs from which anything can be said.
const FEWEST: usize = 45;

/// Standard deviations above what unrelated pages have in common.
const ABOVE: f32 = 4.0;

/// Scale that makes the median absolute deviation an estimate of the standard deviation of a normal distribution.
const TO_DEVIATION: f32 = 1.4826;

/// Returns the similarity from which a page is near to an entry, given what unrelated sections have in common; `None` when
/// too little is known to say.
///
/// It is the median of the background plus four robust standard deviations (1.4826 times the median absolute deviation, see
/// Rousseeuw and Croux, "Alternatives to the Median Absolute Deviation", 1993), which a few related pairs among the
/// others do not move, and never below the greatest but a hundredth of them.
pub(in super::super) fn threshold(background: &[f32]) -> Option<f32> {
    if background.len() < FEWEST {
        return None;
    }
    let mut sorted = background.to_vec();
    sorted.sort_by(f32::total_cmp);
    let median = middle(&sorted);
    let mut away: Vec<f32> = sorted.iter().map(|one| (one - median).abs()).collect();
    away.sort_by(f32::total_cmp);
    let spread = median + ABOVE * TO_DEVIATION * middle(&away);
    let top = sorted[sorted.len() - 1 - sorted.len() / 100];
    Some(spread.max(top).min(1.0))
}

fn middle(sorted: &[f32]) -> f32 {
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn it_lies_above_what_unrelated_pages_have_in_common() {
        assert_eq!(threshold(&[0.1; FEWEST - 1]), None);
        let background: Vec<f32> = (0..1000).map(|n| 0.1 + (n % 100) as f32 / 1000.0).collect();
        let found = threshold(&background).expect("enough");
        assert!(found > 0.25 && found < 0.4, "{found}");
        // A few pages that belong together do not move it.
        let mut related = background;
        related.extend([0.95; 5]);
        let moved = threshold(&related).expect("enough");
        assert!((moved - found).abs() < 0.01, "{moved}");
    }
}
