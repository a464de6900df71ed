//! A client that does not give up at once, and does not ask more than it may.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use backon::{ExponentialBuilder, Retryable as _};
use memory_core::env::Clock;
use memory_core::llm::{LlmAnswer, LlmClient, LlmError, LlmRequest};
use tokio::sync::Semaphore;

use super::account::Account;
use super::breaker::Breaker;

/// How calls are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The first wait; each later one is twice as long, and all have some chance in them.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// Tries in all.
    pub tries: usize,
}

/// Asks another client: again when that may help, no more often at a time than it may, and not at all for a while when the
/// provider is down.
pub struct Patient {
    client: Arc<dyn LlmClient>,
    turns: Semaphore,
    patience: Patience,
    breaker: Breaker,
    account: Arc<Account>,
}

impl fmt::Debug for Patient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Patient")
            .field("client", &self.client)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

impl Patient {
    /// Returns a client around another one.
    pub fn new(
        client: Arc<dyn LlmClient>,
        concurrency: usize,
        patience: Patience,
        clock: Arc<dyn Clock>,
        account: Arc<Account>,
    ) -> Self {
        Self {
            client,
            turns: Semaphore::new(concurrency.max(1)),
            patience,
            breaker: Breaker::new(clock),
            account,
        }
    }

    /// Tries until it works, trying again is useless, or there were tries enough.
    async fn tried(&self, request: &LlmRequest) -> Result<LlmAnswer, LlmError> {
        let _turn = self
            .turns
            .acquire()
            .await
            .map_err(|_| LlmError::Unavailable {
                reason: "the client is closed".to_owned(),
                retry_after: None,
            })?;
        let leave = self.breaker.enter().map_err(|wait| LlmError::Unavailable {
            reason: "it failed several times in a row, so it is left alone for a while".to_owned(),
            retry_after: Some(wait),
        })?;
        let waits = ExponentialBuilder::default()
            .with_min_delay(self.patience.first)
            .with_max_delay(self.patience.longest)
            .with_max_times(self.patience.tries.saturating_sub(1))
            .with_jitter();
        let tries = AtomicU64::new(0);
        let answered = (|| {
            tries.fetch_add(1, Ordering::Relaxed);
            self.client.complete(request.clone())
        })
        .retry(waits)
        .when(LlmError::may_pass)
        .adjust(|error, wait| {
            // Who is told when to come back does so, and not before.
            let told = error.retry_after();
            wait.map(|wait| told.map_or(wait, |told| told.max(wait)))
        })
        .notify(|error, wait| {
            tracing::debug!(%error, ?wait, call_site = request.call_site, "a model is asked again");
        })
        .await;
        // A request that is refused says that the provider is there.
        leave.tell(matches!(&answered, Err(error) if error.may_pass()));
        tracing::debug!(
            call_site = request.call_site,
            tries = tries.load(Ordering::Relaxed),
            is_answered = answered.is_ok(),
            "a model was asked"
        );
        answered
    }
}

#[async_trait]
impl LlmClient for Patient {
    fn model(&self) -> &str {
        self.client.model()
    }

    async fn complete(&self, request: LlmRequest) -> Result<LlmAnswer, LlmError> {
        let after = request.timeout;
        let answered = tokio::time::timeout(after, self.tried(&request)).await;
        let answer = answered.unwrap_or(Err(LlmError::TimedOut { after }))?;
        self.account.add(&request.call_site, answer.usage);
        Ok(answer)
    }
}
