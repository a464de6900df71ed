//! Unit tests of the snapshot: the plain formulas against the image, however it was put together.

#![expect(clippy::cast_precision_loss, reason = "counts of a small corpus")]

use std::collections::HashSet;

use memory_core::provenance::{Channel, Trust};
use proptest::prelude::*;

use super::testing::{row, slug, vector, words};
use super::*;
use crate::segment;

fn everything() -> Visibility {
    Visibility::channels([])
}

fn search(terms: &[String], limit: usize) -> TermSearch<'_> {
    TermSearch {
        terms,
        head_weight: 2.5,
        body_weight: 1.0,
        k1: 1.5,
        b: 0.75,
        limit,
        best_per_page: false,
    }
}

fn corpus(pages: u64, dims: usize) -> Vec<IndexRow> {
    let mut rows = Vec::new();
    for page in 0..pages {
        for (number, heading) in ["", "Plan", "Outcome"].into_iter().enumerate() {
            let seed = page * 3 + u64::try_from(number).expect("small");
            let count = 5 + usize::try_from(seed % 40).expect("small");
            let mut made = row(&format!("page-{page}"), heading, &words(seed, count));
            made.page_rows = 3;
            made.vector = (dims > 0 && seed % 7 != 0).then(|| vector(seed, dims));
            rows.push(made);
        }
    }
    rows
}

/// The formula written down plainly, over the rows themselves.
fn plain_scores(rows: &[IndexRow], terms: &[String]) -> Vec<(SectionId, f64)> {
    let count =
        |text: &str, term: &str| text.split(' ').filter(|word| *word == term).count() as f64;
    let length = |row: &IndexRow| {
        let words = |text: &str| text.split(' ').filter(|word| !word.is_empty()).count() as f64;
        2.5 * words(&row.head_terms) + words(&row.body_terms)
    };
    let sections = rows.len() as f64;
    let average = rows.iter().map(length).sum::<f64>() / sections;
    let distinct: HashSet<&String> = terms.iter().collect();
    let mut scored: Vec<(SectionId, f64)> = rows
        .iter()
        .map(|row| {
            let score = distinct
                .iter()
                .map(|term| {
                    let holds = |row: &&IndexRow| {
                        count(&row.head_terms, term) + count(&row.body_terms, term) > 0.0
                    };
                    let frequency = rows.iter().filter(holds).count() as f64;
                    let inverse = ((sections - frequency + 0.5) / (frequency + 0.5)).ln_1p();
                    let weight = 2.5 * count(&row.head_terms, term) + count(&row.body_terms, term);
                    inverse * weight * 2.5 / (weight + 1.5 * (0.25 + 0.75 * length(row) / average))
                })
                .sum();
            (row.id.clone(), score)
        })
        .filter(|(_, score)| *score > 0.0)
        .collect();
    scored.sort_by(|left, right| {
        right
            .1
            .total_cmp(&left.1)
            .then_with(|| left.0.cmp(&right.0))
    });
    scored
}

#[test]
fn lexical_scores_are_those_of_the_formula() {
    let rows = corpus(40, 0);
    let snapshot = Snapshot::from_rows(0, &rows);
    let terms = segment::analyze("w12 w5 plan w200 w12 unheard");
    let hits = snapshot.lexical_search(&search(&terms, 1_000), &everything());
    let plain = plain_scores(&rows, &terms);
    assert_eq!(hits.len(), plain.len());
    let close = |(hit, (_, score)): (&SectionHit, &(SectionId, f64))| {
        (f64::from(hit.score) - score).abs() < 1e-4
    };
    assert!(
        hits.iter().zip(&plain).all(close),
        "ranked scores differ from the formula"
    );
    assert!(hits.len() > 20);
}

#[test]
fn the_spread_over_segments_changes_no_answer() {
    let rows = corpus(60, 48);
    let whole = Snapshot::from_rows(48, &rows);
    let mut patched = Snapshot::empty(48);
    for (number, page) in rows.chunks(3).enumerate() {
        let name = page[0].id.slug.clone();
        // Every page comes with other words first, so that there are tombstones everywhere.
        let mut older = page.to_vec();
        older[0].body_terms = words(9_000 + number as u64, 30);
        patched = patched.patched(std::slice::from_ref(&name), &older);
        patched = patched.patched(&[name], page);
        assert!(patched.stats().segments <= 8);
    }
    assert_eq!(patched.section_count(), whole.section_count());
    let terms = segment::analyze("w1 w2 w3 w8 outcome w48");
    for best_per_page in [false, true] {
        let query = TermSearch {
            best_per_page,
            ..search(&terms, 25)
        };
        assert_eq!(
            patched.lexical_search(&query, &everything()),
            whole.lexical_search(&query, &everything())
        );
    }
    let query = vector(4_711, 48);
    assert_eq!(
        patched.dense_search(&query, 25, &everything()),
        whole.dense_search(&query, 25, &everything())
    );
    assert!((patched.idf("w1") - whole.idf("w1")).abs() < f32::EPSILON);
}

#[test]
fn dense_search_is_exact_and_skips_sections_without_a_vector() {
    let rows = corpus(200, 64);
    let snapshot = Snapshot::from_rows(64, &rows);
    let query = vector(31_337, 64);
    let mut plain: Vec<(SectionId, f32)> = rows
        .iter()
        .filter_map(|row| Some((row.id.clone(), dot(row.vector.as_deref()?, &query))))
        .collect();
    plain.sort_by(|left, right| {
        right
            .1
            .total_cmp(&left.1)
            .then_with(|| left.0.cmp(&right.0))
    });
    for limit in [1, 10, 100, 10_000] {
        let hits = snapshot.dense_search(&query, limit, &everything());
        let ids: Vec<&SectionId> = hits.iter().map(|hit| &hit.id).collect();
        let expected: Vec<&SectionId> = plain.iter().take(limit).map(|(id, _)| id).collect();
        assert_eq!(ids, expected, "limit {limit}");
    }
    assert!(
        snapshot
            .dense_search(&vec![0.0; 64], 5, &everything())
            .is_empty()
    );
    assert!(
        snapshot
            .dense_search(&query[..32], 5, &everything())
            .is_empty()
    );
}

#[test]
fn what_must_not_be_seen_takes_no_place() {
    let mut rows = corpus(30, 16);
    for (number, row) in rows.iter_mut().enumerate() {
        match number % 3 {
            0 => row.trust = Trust::Untrusted,
            1 => row.channel = Channel::User("ada".to_owned()),
            _ => {}
        }
    }
    let snapshot = Snapshot::from_rows(16, &rows);
    let terms = segment::analyze("w0 w1 w2 w3 w4 w6 w8");
    let query = vector(5, 16);
    let seen = |visibility: &Visibility| {
        let mut ids: Vec<SectionId> = snapshot
            .lexical_search(&search(&terms, 5), visibility)
            .into_iter()
            .map(|hit| hit.id)
            .collect();
        assert_eq!(ids.len(), 5, "hidden sections must not use up the limit");
        ids.extend(
            snapshot
                .dense_search(&query, 5, visibility)
                .into_iter()
                .map(|hit| hit.id),
        );
        assert_eq!(ids.len(), 10);
        ids
    };
    let of = |id: &SectionId| {
        rows.iter()
            .find(|row| row.id == *id)
            .expect("a known section")
    };
    let global = seen(&everything());
    assert!(
        global
            .iter()
            .all(|id| of(id).trust == Trust::Trusted && of(id).channel == Channel::Global)
    );
    let ada = Visibility::channels([Channel::User("ada".to_owned())]);
    assert!(seen(&ada).iter().all(|id| of(id).trust == Trust::Trusted));
    assert!(
        snapshot
            .lexical_search(&search(&terms, 5), &Visibility::nothing())
            .is_empty()
    );
    assert!(
        snapshot
            .dense_search(&query, 5, &Visibility::nothing())
            .is_empty()
    );
}

#[test]
fn the_best_section_speaks_for_its_page() {
    let rows = [
        row("cats", "", "they purr"),
        row("cats", "Food", "fish fish fish"),
        row(
            "cats",
            "Play",
            "a fish of wool in a long text about something else and more and more",
        ),
        row("dogs", "", "fish is not for dogs"),
    ];
    let snapshot = Snapshot::from_rows(0, &rows);
    let terms = segment::analyze("fish");
    let hits = snapshot.lexical_search(
        &TermSearch {
            best_per_page: true,
            ..search(&terms, 10)
        },
        &everything(),
    );
    let ids: Vec<String> = hits.iter().map(|hit| hit.id.to_string()).collect();
    assert_eq!(ids, ["cats#1.0#food", "dogs#1.0#"]);
}

#[test]
fn scripts_without_spaces_are_found() {
    let pairs = [
        ("今日は成語しりとりをした", "しりとり"),
        ("今天玩成语接龙游戏", "成语接龙"),
        ("오늘 끝말잇기 게임을 했다", "끝말잇기"),
        ("这个设备坏了", "设备"),
        ("重跑gen-itgc后50条", "itgc"),
        ("новосибирск красный проспект", "новосибирск"),
    ];
    for (text, query) in pairs {
        let rows = [
            row("found", "", text),
            row("other", "", "nothing of the kind"),
        ];
        let snapshot = Snapshot::from_rows(0, &rows);
        let terms = segment::analyze(query);
        let hits = snapshot.lexical_search(&search(&terms, 5), &everything());
        assert_eq!(
            hits.first().map(|hit| hit.id.slug.as_str()),
            Some("found"),
            "{query} in {text}"
        );
    }
}

#[test]
fn a_page_without_sections_is_gone() {
    let rows = corpus(3, 8);
    let snapshot = Snapshot::from_rows(8, &rows).patched(&[slug("page-1")], &[]);
    assert_eq!(snapshot.section_count(), 6);
    assert!(snapshot.page(&slug("page-1")).is_none());
    assert_eq!(
        snapshot
            .page(&slug("page-2"))
            .map(|page| (page.found, page.expected)),
        Some((3, 3))
    );
    let gone = snapshot.patched(&[slug("page-0"), slug("page-2")], &[]);
    assert_eq!(gone.stats().segments, 0);
    assert!(
        gone.lexical_search(&search(&["plan".to_owned()], 3), &everything())
            .is_empty()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_order_of_patches_ends_at_the_same_image(order in proptest::collection::vec((0_u64..12, any::<bool>()), 1..40)) {
        let rows = corpus(12, 8);
        let mut image = Snapshot::empty(8);
        let mut present: std::collections::BTreeSet<u64> = std::collections::BTreeSet::new();
        for (page, keep) in order {
            let name = slug(&format!("page-{page}"));
            let start = usize::try_from(page * 3).expect("small");
            let given = if keep { &rows[start..start + 3] } else { &[] };
            image = image.patched(&[name], given);
            if keep { present.insert(page); } else { present.remove(&page); }
        }
        let left: Vec<IndexRow> = present
            .iter()
            .flat_map(|page| { let start = usize::try_from(page * 3).expect("small"); rows[start..start + 3].to_vec() })
            .collect();
        let whole = Snapshot::from_rows(8, &left);
        let terms = segment::analyze("w1 w2 w3 w4 plan");
        prop_assert_eq!(
            image.lexical_search(&search(&terms, 7), &everything()),
            whole.lexical_search(&search(&terms, 7), &everything())
        );
        let query = vector(1, 8);
        prop_assert_eq!(image.dense_search(&query, 7, &everything()), whole.dense_search(&query, 7, &everything()));
    }
}
