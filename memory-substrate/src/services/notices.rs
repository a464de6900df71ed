//! Notices on their way to the user, each shown once for each change of state.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use memory_core::services::{Call, Notice, Notices, ServiceResult};

use super::Host;

/// Collects notices until the host takes them.
#[derive(Debug, Default)]
pub struct NoticeBoard {
    state: Mutex<Board>,
}

#[derive(Debug, Default)]
struct Board {
    /// The last message of every code that holds now.
    current: HashMap<String, String>,
    waiting: Vec<Notice>,
}

impl NoticeBoard {
    /// Adds a notice, unless the same was said and nothing has changed since.
    pub fn post(&self, notice: Notice) {
        let mut board = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if board.current.get(&notice.code) != Some(&notice.message) {
            board
                .current
                .insert(notice.code.clone(), notice.message.clone());
            board.waiting.push(notice);
        }
    }

    /// Says that what a code stands for is over, so that it is news when it happens again.
    pub fn resolve(&self, code: &str) {
        let mut board = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        board.current.remove(code);
        board.waiting.retain(|notice| notice.code != code);
    }

    /// Returns what was posted since the last call, oldest first.
    pub fn take(&self) -> Vec<Notice> {
        std::mem::take(
            &mut self
                .state
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .waiting,
        )
    }
}

#[async_trait]
impl Notices for Host {
    async fn post(&self, _call: &Call, notice: Notice) -> ServiceResult<()> {
        self.shared.notices.post(notice);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use memory_core::services::Severity;

    use super::*;

    fn notice(message: &str) -> Notice {
        Notice {
            code: "dense_unavailable".to_owned(),
            severity: Severity::Warning,
            message: message.to_owned(),
        }
    }

    #[test]
    fn a_state_is_told_once_until_it_changes() {
        let board = NoticeBoard::default();
        board.post(notice("no model"));
        board.post(notice("no model"));
        assert_eq!(board.take(), [notice("no model")]);
        board.post(notice("no model"));
        assert!(board.take().is_empty());
        board.post(notice("model broken"));
        assert_eq!(board.take(), [notice("model broken")]);
        board.resolve("dense_unavailable");
        board.post(notice("model broken"));
        assert_eq!(board.take(), [notice("model broken")]);
    }
}
