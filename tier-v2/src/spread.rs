//! Spreading activation over links.
//!
//! For a page n with own activation o(n), decay k and H hops:
//! a(n) = (o(n) + Σ kʳ · rms(r)) / (1 + Σ kʳ), r = 1..H, both sums over the rings that are not empty,
//! where ring r holds the candidates whose shortest path of links to n has r steps, and rms is the root mean square of
//! their own activations.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::text::slug::Slug;

/// Outgoing links among candidates.
pub(crate) type Links = BTreeMap<Slug, Vec<Slug>>;

/// Returns each candidate's activation after spreading.
pub(crate) fn spread(
    own: &BTreeMap<Slug, f64>,
    links: &Links,
    decay: f64,
    hops: u32,
) -> BTreeMap<Slug, f64> {
    if decay <= 0.0 || hops == 0 {
        return own.clone();
    }
    let mut incoming: BTreeMap<&Slug, Vec<&Slug>> = BTreeMap::new();
    for (from, targets) in links {
        for target in targets {
            if own.contains_key(from) && own.contains_key(target) && from != target {
                incoming.entry(target).or_default().push(from);
            }
        }
    }
    own.iter()
        .map(|(page, activation)| {
            let (mut sum, mut weights, mut factor) = (*activation, 1.0, 1.0);
            let mut seen: BTreeSet<&Slug> = BTreeSet::from([page]);
            let mut ring: Vec<&Slug> = vec![page];
            for _ in 0..hops {
                factor *= decay;
                ring = ring
                    .into_iter()
                    .flat_map(|reached| incoming.get(reached).into_iter().flatten().copied())
                    .filter(|candidate| seen.insert(candidate))
                    .collect();
                if ring.is_empty() {
                    break;
                }
                sum += factor * root_mean_square(ring.iter().map(|candidate| own[*candidate]));
                weights += factor;
            }
            (page.clone(), (sum / weights).clamp(0.0, 1.0))
        })
        .collect()
}

fn root_mean_square(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a ring has at most a few hundred pages"
    )]
    let count = values.len() as f64;
    (values.map(|value| value * value).sum::<f64>() / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slug(name: &str) -> Slug {
        Slug::from_title(name)
    }

    fn check(own: &[(&str, f64)], links: &[(&str, &str)], expected: &[(&str, f64)]) {
        let own = own
            .iter()
            .map(|(name, value)| (slug(name), *value))
            .collect();
        let mut graph = Links::new();
        for (from, to) in links {
            graph.entry(slug(from)).or_default().push(slug(to));
        }
        let result = spread(&own, &graph, 0.5, 2);
        for (name, value) in expected {
            assert!(
                (result[&slug(name)] - value).abs() < 1e-6,
                "{name}: {} is not {value}",
                result[&slug(name)]
            );
        }
    }

    #[test]
    fn hand_computed_vectors() {
        check(
            &[("a", 0.6), ("b", 0.0)],
            &[("a", "b")],
            &[("a", 0.6), ("b", 0.3 / 1.5)],
        );
        check(
            &[("a", 0.0), ("b", 0.8)],
            &[("a", "b"), ("b", "a")],
            &[("a", 0.4 / 1.5), ("b", 0.8 / 1.5)],
        );
        check(
            &[("a", 1.0), ("b", 1.0), ("c", 0.0), ("d", 0.0)],
            &[("a", "b"), ("b", "c"), ("c", "d")],
            &[("d", 0.25 / 1.75)],
        );
        check(
            &[("hub", 0.6), ("x", 0.5)],
            &[("x", "hub"), ("gone", "hub")],
            &[("hub", 0.85 / 1.5)],
        );
    }

    #[test]
    fn no_decay_or_no_hops_changes_nothing() {
        let own = BTreeMap::from([(slug("a"), 0.4)]);
        let links = Links::from([(slug("a"), vec![slug("a")])]);
        assert_eq!(spread(&own, &links, 0.0, 2), own);
        assert_eq!(spread(&own, &links, 0.5, 0), own);
    }
}
