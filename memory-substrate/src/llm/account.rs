//! What models cost, by what asked them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use memory_core::llm::Usage;

/// Adds up tokens since it was made.
#[derive(Debug, Default)]
pub struct Account(Mutex<BTreeMap<String, Usage>>);

impl Account {
    /// Adds what a call cost.
    pub fn add(&self, call_site: &str, usage: Usage) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = sums.entry(call_site.to_owned()).or_default();
        *sum = sum.plus(usage);
    }

    /// Returns the sums by call site.
    pub fn totals(&self) -> BTreeMap<String, Usage> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
