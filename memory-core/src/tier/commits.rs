//! What waits for its attachment.
//!
//! Every tier must hold on to what a block stands for until the host says that the block was really attached. The book
//! is bounded, because a host that crashes between the two calls never comes back for its token.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::services::Call;
use crate::tier::CommitToken;

/// How many tokens are kept; the oldest is forgotten first.
const CAPACITY: usize = 256;

/// Values that wait for a commit, by token.
#[derive(Debug)]
pub struct CommitBook<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    issued: u64,
    waiting: VecDeque<(CommitToken, T)>,
}

impl<T> Default for CommitBook<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                issued: 0,
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

impl<T> CommitBook<T> {
    /// Keeps a value and returns its token.
    pub fn issue(&self, call: &Call, value: T) -> CommitToken {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.issued += 1;
        let token = CommitToken(format!(
            "{}/{}/{}",
            call.scope().conversation,
            call.scope().turn,
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
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;

    use super::*;
    use crate::services::{CallControl, CallScope};

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

    #[test]
    fn a_token_is_good_for_one_commit_and_old_ones_are_forgotten() {
        let call = Call::new(Arc::new(CallScope::default()), Arc::new(Still));
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
}
