//! Stores with one fault each, and the rule that finds it: a suite that cannot fail proves nothing.

use std::sync::Arc;

use super::*;
use crate::embed::SpaceId;
use crate::env::{ManualClock, SeededRng};
use crate::store::IndexSpace;
use crate::store::in_memory::{InMemoryEvidence, InMemoryIndex, InMemoryPages, InMemoryState};

mod spoilt;

/// A good store of which one thing is spoilt.
#[derive(Debug)]
struct Spoilt<S>(S, Fault);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    // Of pages.
    NeverCompares,
    ListsBackwards,
    TrimsText,
    RenamesOver,
    TakesAnyName,
    // Of state.
    ForgetsBlocks,
    IgnoresLimits,
    RecordsTwice,
    MixesOwners,
    // Of the tree.
    RewindsByDeleting,
    ForksAgain,
    SweepsAtOnce,
    // Of an index.
    KeepsOldRows,
    FindsWorstFirst,
    // Of evidence.
    IgnoresHeads,
    ErasesNothing,
    AddsAgain,
    SaysAllIsWell,
    Miscounts,
}

/// Returns what a suite makes of a spoilt store, which must be broken rules, and these among them.
fn check(fault: Fault, report: &Report, expected: &[&str]) {
    let broken = report.broken();
    for rule in expected {
        assert!(
            broken.contains(rule),
            "{fault:?} should break {rule}: {report}"
        );
    }
    let text = report.to_string();
    assert!(text.contains(expected[0]), "{text}");
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(value) = work.as_mut().poll(&mut context) {
            return value;
        }
    }
}

#[test]
fn spoilt_pages_are_found_out() {
    for (fault, expected) in [
        (Fault::NeverCompares, "a_write_compares_first"),
        (Fault::NeverCompares, "of_several_writers_one_wins"),
        (Fault::ListsBackwards, "listings_are_complete_and_sorted"),
        (Fault::TrimsText, "any_bytes_are_kept"),
        (Fault::RenamesOver, "a_rename_takes_no_page_away"),
        (Fault::TakesAnyName, "synthetic_names_are_refused"),
    ] {
        let make = async || {
            let pages = InMemoryPages::new(Arc::new(ManualClock::default()));
            Box::new(Spoilt(pages, fault))
        };
        check(fault, &run(pages::suite(make)), &[expected]);
    }
}

#[test]
fn spoilt_state_is_found_out() {
    for (fault, expected) in [
        (Fault::ForgetsBlocks, "attached_blocks_keep_their_order"),
        (
            Fault::IgnoresLimits,
            "the_newest_messages_come_oldest_first",
        ),
        (Fault::IgnoresLimits, "logs_come_newest_first"),
        (
            Fault::RecordsTwice,
            "what_is_in_context_comes_in_order_and_once",
        ),
        (Fault::MixesOwners, "values_of_different_owners_do_not_meet"),
    ] {
        let make = async || Box::new(Spoilt(InMemoryState::default(), fault));
        check(fault, &run(state::suite(make)), &[expected]);
    }
    for (fault, expected) in [
        (
            Fault::RewindsByDeleting,
            "going_back_hides_and_deletes_nothing",
        ),
        (
            Fault::ForksAgain,
            "a_fork_is_made_once_and_takes_no_name_away",
        ),
        (
            Fault::SweepsAtOnce,
            "rows_without_a_conversation_go_when_they_were_seen_before",
        ),
    ] {
        let make = async || Box::new(Spoilt(InMemoryState::default(), fault));
        check(fault, &run(tree::suite(make)), &[expected]);
    }
}

#[test]
fn a_spoilt_index_is_found_out() {
    for (fault, expected) in [
        (
            Fault::KeepsOldRows,
            &[
                "a_page_is_replaced_whole",
                "what_was_removed_is_never_found",
            ][..],
        ),
        (Fault::FindsWorstFirst, &["vectors_are_found_nearest_first"]),
        (Fault::IgnoresLimits, &["limits_are_kept"]),
    ] {
        let make = async || {
            let space = IndexSpace {
                segmentation: "test".to_owned(),
                embedding: Some(SpaceId::new("test")),
                dims: 4,
                schema: 1,
            };
            Box::new(Spoilt(InMemoryIndex::new(space), fault))
        };
        check(fault, &run(index::suite(make)), expected);
    }
}

#[test]
fn spoilt_evidence_is_found_out() {
    for (fault, expected) in [
        (
            Fault::IgnoresHeads,
            &[
                "a_stream_that_moved_on_is_a_conflict",
                "of_several_writers_at_one_head_one_wins",
            ][..],
        ),
        (
            Fault::ErasesNothing,
            &["erasing_takes_what_was_said_and_leaves_the_chain"],
        ),
        (Fault::AddsAgain, &["the_same_key_gives_the_first_record"]),
        (Fault::SaysAllIsWell, &["records_are_chained"]),
        (Fault::Miscounts, &["a_record_comes_back_as_it_went_in"]),
    ] {
        let make = async || {
            let evidence = InMemoryEvidence::new(Arc::new(SeededRng::new(1)));
            Box::new(Spoilt(evidence, fault))
        };
        check(fault, &run(evidence::suite(make)), expected);
    }
}

/// A store that forgets everything with its end breaks the promise to survive it.
#[test]
fn forgetting_everything_at_the_end_is_found_out() {
    fn lost<S>(make: impl Fn() -> S) -> impl AsyncFn(S) -> S {
        async move |_| make()
    }
    let pages = || Box::new(InMemoryPages::new(Arc::new(ManualClock::default())));
    let evidence = || Box::new(InMemoryEvidence::new(Arc::new(SeededRng::new(1))));
    let state = || Box::new(InMemoryState::default());
    let reports = [
        run(pages::survives(async || pages(), lost(pages))),
        run(state::survives(async || state(), lost(state))),
        run(tree::survives(async || state(), lost(state))),
        run(evidence::survives(async || evidence(), lost(evidence))),
    ];
    for report in reports {
        assert_eq!(report.broken(), ["what_was_acknowledged_survives"]);
    }
}
