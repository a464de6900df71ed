//! What waits for its attachment.
//!
//! Every tier must hold on to what a block stands for until the host says that the block was really attached. The book
//! is bounded, because a host that crashes between the two calls never comes back for its token.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use crate::services::{Call, Residency, Resident, ServiceResult};
use crate::tier::{CommitToken, ShownSection};

/// How many tokens are kept; the oldest is forgotten first.
const CAPACITY: usize = 256;

/// Values that wait for a commit, by token.
#[derive(Debug)]
pub struct CommitBook<T> {
    /// Tells the tokens of this book from those of every other, in whichever build or process.
    mark: u64,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    issued: u64,
    attached: u64,
    waiting: VecDeque<(CommitToken, T)>,
}

impl<T> Default for CommitBook<T> {
    fn default() -> Self {
        Self {
            // Chance that no answer depends on: a token is read by nobody but the book that made it.
            mark: RandomState::new().hash_one(CAPACITY),
            state: Mutex::new(State {
                issued: 0,
                attached: 0,
                waiting: VecDeque::new(),
            }),
        }
    }
}

impl<T: Clone> CommitBook<T> {
    /// Returns the value of a token without giving it up, so that a commit which fails half-way can be repeated.
    pub fn get(&self, token: &CommitToken) -> Option<T> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = state.waiting.iter().find(|(waiting, _)| waiting == token);
        waiting.map(|(_, value)| value.clone())
    }
}

impl<T: AsRef<[ShownSection]> + Clone + Send> CommitBook<T> {
    /// Records that what a token stands for is in context, and returns its value; `None` for a token that is unknown or was
    /// used, since a host may repeat a commit whose answer it never saw.
    pub async fn attach(
        &self,
        call: &Call,
        residency: &dyn Residency,
        token: &CommitToken,
        message: String,
    ) -> ServiceResult<Option<T>> {
        let Some(value) = self.get(token) else {
            return Ok(None);
        };
        let resident = value.as_ref().iter().map(|shown| Resident {
            slug: shown.section.slug.clone(),
            section: Some(shown.section.clone()),
            bytes: shown.bytes,
        });
        residency.record(call, message, resident.collect()).await?;
        // Only now: a commit that failed before this line can be repeated. Of two at once, the one that removes it counts.
        if self.take(token).is_some() {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.attached += value.as_ref().len() as u64;
        }
        Ok(Some(value))
    }
}

impl<T> CommitBook<T> {
    /// Keeps a value and returns its token, which no other book has.
    pub fn issue(&self, call: &Call, value: T) -> CommitToken {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.issued += 1;
        let token = CommitToken(format!(
            "{}/{}/{:016x}-{}",
            call.scope().conversation,
            call.scope().turn,
            self.mark,
            state.issued
        ));
        if state.waiting.len() == CAPACITY {
            state.waiting.pop_front();
        }
        state.waiting.push_back((token.clone(), value));
        token
    }

    /// Removes and returns the value of a token; `None` for a token that is unknown or was used.
    pub fn take(&self, token: &CommitToken) -> Option<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let position = state
            .waiting
            .iter()
            .position(|(waiting, _)| waiting == token)?;
        state.waiting.remove(position).map(|(_, value)| value)
    }

    /// Returns how many sections were recorded by [`Self::attach`], each once.
    pub fn attached(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.attached
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use async_trait::async_trait;

    use super::*;
    use crate::services::{CallControl, CallScope, ResidentEntry, ServiceError};
    use crate::text::section::SectionId;
    use crate::text::slug::Slug;

    struct Still;

    impl CallControl for Still {
        fn is_cancelled(&self) -> bool {
            false
        }
        fn remaining_ms(&self) -> u64 {
            1_000
        }
        fn yield_now(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::ready(()))
        }
        fn token(&self) -> u64 {
            1
        }
    }

    fn call() -> Call {
        Call::new(Arc::new(CallScope::default()), Arc::new(Still))
    }

    #[test]
    fn a_token_is_good_for_one_commit_and_old_ones_are_forgotten() {
        let call = call();
        let book = CommitBook::default();
        let first = book.issue(&call, 1);
        assert_eq!(book.get(&first), Some(1), "looking does not use it up");
        assert_eq!(book.take(&first), Some(1));
        assert_eq!(book.take(&first), None);
        let oldest = book.issue(&call, 2);
        let tokens: Vec<_> = (0..CAPACITY)
            .map(|value| book.issue(&call, value))
            .collect();
        assert_eq!(book.take(&oldest), None, "the oldest must make room");
        assert_eq!(book.take(&tokens[CAPACITY - 1]), Some(CAPACITY - 1));
    }

    #[test]
    fn a_token_of_one_book_is_nothing_to_another() {
        let call = call();
        let (one, other) = (CommitBook::default(), CommitBook::default());
        let token = one.issue(&call, 1);
        other.issue(&call, 2);
        assert_eq!(other.get(&token), None);
        assert_eq!(other.take(&token), None);
        assert_eq!(one.take(&token), Some(1));
    }

    /// Residency that refuses the first time and keeps what it is told from then on.
    #[derive(Default)]
    struct Reluctant(Mutex<(bool, Vec<Resident>)>);

    #[async_trait]
    impl Residency for Reluctant {
        async fn active(&self, _call: &Call) -> ServiceResult<Vec<ResidentEntry>> {
            Ok(Vec::new())
        }
        async fn record(
            &self,
            _call: &Call,
            _message: String,
            shown: Vec<Resident>,
        ) -> ServiceResult<()> {
            let mut kept = self.0.lock().expect("no test panics with it");
            if !std::mem::replace(&mut kept.0, true) {
                return Err(ServiceError::Cancelled);
            }
            kept.1.extend(shown);
            Ok(())
        }
        async fn clear(&self, _call: &Call) -> ServiceResult<()> {
            Ok(())
        }
    }

    /// Returns what a future that never waits comes to.
    fn now<T>(future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        match future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    #[test]
    fn a_commit_that_failed_can_be_repeated_and_counts_once() {
        let (call, book, residency) = (call(), CommitBook::default(), Reluctant::default());
        let shown = vec![ShownSection {
            section: SectionId::lead(Slug::from_title("garden")),
            lane: "words".to_owned(),
            score: 1.0,
            bytes: 7,
        }];
        let token = book.issue(&call, shown.clone());
        let attach = || now(book.attach(&call, &residency, &token, "m1".to_owned()));
        assert_eq!(attach(), Err(ServiceError::Cancelled));
        assert_eq!(book.attached(), 0);
        assert_eq!(attach(), Ok(Some(shown)));
        assert_eq!(attach(), Ok(None), "it is used");
        assert_eq!(book.attached(), 1);
        let kept = residency.0.lock().expect("no test panics with it");
        assert_eq!(kept.1.len(), 1);
        assert_eq!(kept.1[0].bytes, 7);
    }
}
