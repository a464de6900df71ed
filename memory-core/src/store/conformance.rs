//! What every implementation of a store is held to: one suite a trait, one named function a rule.
//!
//! It stands beside the traits and not in a test, because whoever keeps memory in another engine depends on this crate
//! alone, and it is compiled always, since this crate has no features. Rules return why they are broken instead of
//! panicking, so that one run tells everything that is wrong with a new store. They need no runtime: calls that should
//! meet are only polled together.
//!
//! A test of a store is three lines:
//!
//! ```
//! # use std::sync::Arc;
//! # use memory_core::env::SystemClock;
//! # use memory_core::store::{conformance, in_memory::InMemoryPages};
//! # futures_executor(async {
//! let report = conformance::pages::suite(async || Box::new(InMemoryPages::new(Arc::new(SystemClock)))).await;
//! report.require_clean();
//! # });
//! # fn futures_executor(work: impl Future<Output = ()>) {
//! #     let mut work = std::pin::pin!(work);
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     while work.as_mut().poll(&mut context).is_pending() {}
//! # }
//! ```

use std::fmt;

use thiserror::Error;

use super::{StoreError, StoreResult};

pub mod evidence;
pub mod index;
pub mod pages;
pub mod state;
pub mod tree;

/// How many callers meet where a rule lets several do the same at once.
const CALLERS: usize = 8;

/// Why a rule is broken. Fix the store.
#[derive(Debug, Error)]
pub enum Breach {
    /// It answered otherwise than it should.
    #[error("{reason}")]
    Wrong {
        /// What should have been, and what was.
        reason: String,
    },
    /// It failed where it should not.
    #[error("it failed: {source}")]
    Failed {
        /// What it said.
        #[from]
        source: StoreError,
    },
}

/// What came of holding a store to one rule.
pub type Verdict = Result<(), Breach>;

/// What came of holding a store to a suite.
#[derive(Debug, Default)]
#[must_use = "a report that nobody reads proves nothing"]
pub struct Report {
    kept: Vec<&'static str>,
    broken: Vec<(&'static str, Breach)>,
}

impl Report {
    fn note(&mut self, rule: &'static str, verdict: Verdict) {
        match verdict {
            Ok(()) => self.kept.push(rule),
            Err(breach) => self.broken.push((rule, breach)),
        }
    }

    /// Returns the rules that were kept, in their order.
    pub fn kept(&self) -> &[&'static str] {
        &self.kept
    }

    /// Returns the rules that were broken, in their order.
    pub fn broken(&self) -> Vec<&'static str> {
        self.broken.iter().map(|(rule, _)| *rule).collect()
    }

    /// Ends a test unless every rule was kept.
    ///
    /// # Panics
    ///
    /// When a rule was broken, with all of them in the message.
    pub fn require_clean(&self) {
        assert!(self.broken.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} rules kept, {} broken",
            self.kept.len(),
            self.broken.len()
        )?;
        for (rule, breach) in &self.broken {
            write!(formatter, "\n  {rule}: {breach}")?;
        }
        Ok(())
    }
}

/// Holds a fresh store to each rule. The store must not be dropped before its rule has ended.
macro_rules! hold {
    ($make:expr, [$($rule:ident),+ $(,)?]) => {{
        let mut report = $crate::store::conformance::Report::default();
        $(
            let place = $make().await;
            report.note(stringify!($rule), Box::pin($rule(&*place)).await);
            drop(place);
        )+
        report
    }};
}
use hold;

fn wrong(reason: impl Into<String>) -> Breach {
    Breach::Wrong {
        reason: reason.into(),
    }
}

fn require(holds: bool, reason: &str) -> Verdict {
    if holds { Ok(()) } else { Err(wrong(reason)) }
}

/// Requires that two values are equal.
fn equal<F, E>(what: &str, found: &F, expected: &E) -> Verdict
where
    F: fmt::Debug + PartialEq<E> + ?Sized,
    E: fmt::Debug + ?Sized,
{
    if found == expected {
        return Ok(());
    }
    Err(wrong(format!(
        "{what}: expected {}, found {}",
        short(expected),
        short(found)
    )))
}

/// Returns a value as text, cut where it would fill the screen.
fn short(value: &(impl fmt::Debug + ?Sized)) -> String {
    const LONGEST: usize = 400;
    let text = format!("{value:?}");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Requires a conflict that names these states.
fn conflict<T: fmt::Debug>(
    what: &str,
    answer: StoreResult<T>,
    seen: Option<(&str, &str)>,
) -> Verdict {
    match (answer, seen) {
        (Err(StoreError::Conflict { .. }), None) => Ok(()),
        (
            Err(StoreError::Conflict {
                expected, found, ..
            }),
            Some(seen),
        ) => equal(
            &format!("{what}: the states that a conflict names"),
            &(expected.as_str(), found.as_str()),
            &seen,
        ),
        (answer, _) => Err(wrong(format!(
            "{what}: expected a conflict, found {}",
            short(&answer)
        ))),
    }
}

fn not_found<T: fmt::Debug>(what: &str, answer: StoreResult<T>) -> Verdict {
    match answer {
        Err(StoreError::NotFound { .. }) => Ok(()),
        answer => Err(wrong(format!(
            "{what}: expected that it does not exist, found {}",
            short(&answer)
        ))),
    }
}

fn bad_request<T: fmt::Debug>(what: &str, answer: StoreResult<T>) -> Verdict {
    match answer {
        Err(StoreError::BadRequest { .. }) => Ok(()),
        answer => Err(wrong(format!(
            "{what}: expected that the request is refused, found {}",
            short(&answer)
        ))),
    }
}

/// Requires that one of several callers won and the others met a conflict, and returns which one won.
fn one_winner<T: fmt::Debug>(what: &str, answers: Vec<StoreResult<T>>) -> Result<usize, Breach> {
    let mut winners = Vec::new();
    for (number, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(_) => winners.push(number),
            answer => conflict(what, answer, None)?,
        }
    }
    match winners[..] {
        [winner] => Ok(winner),
        _ => Err(wrong(format!(
            "{what}: one caller should win, these did: {winners:?}"
        ))),
    }
}

#[cfg(test)]
mod tests;
