//! The stores in memory against the suites.

use std::sync::Arc;

use super::*;
use crate::embed::SpaceId;
use crate::env::{ManualClock, SeededRng};
use crate::store::{IndexSpace, conformance};

/// Runs what waits for nothing but itself.
fn run<T>(work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(value) = work.as_mut().poll(&mut context) {
            return value;
        }
    }
}

fn space(dims: u32) -> IndexSpace {
    IndexSpace {
        segmentation: "test".to_owned(),
        embedding: (dims > 0).then(|| SpaceId::new("test")),
        dims,
        schema: 1,
    }
}

#[test]
fn pages_in_memory_keep_every_rule() {
    let make = async || Box::new(InMemoryPages::new(Arc::new(ManualClock::default())));
    run(conformance::pages::suite(make)).require_clean();
}

#[test]
fn state_in_memory_keeps_every_rule() {
    let make = async || Box::new(InMemoryState::default());
    run(conformance::state::suite(make)).require_clean();
    run(conformance::tree::suite(make)).require_clean();
}

#[test]
fn an_index_in_memory_keeps_every_rule() {
    run(conformance::index::suite(async || {
        Box::new(InMemoryIndex::new(space(8)))
    }))
    .require_clean();
    run(conformance::index::suite_without_vectors(async || {
        Box::new(InMemoryIndex::new(space(0)))
    }))
    .require_clean();
}

#[test]
fn evidence_in_memory_keeps_every_rule() {
    let make = async || Box::new(InMemoryEvidence::new(Arc::new(SeededRng::new(1))));
    run(conformance::evidence::suite(make)).require_clean();
}
