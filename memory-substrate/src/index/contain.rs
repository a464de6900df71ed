//! Keeping a panic of the database an error of that one call.
//!
//! Malformed files and some orders of maintenance have made it panic in the past, and a turn must not end with it.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use memory_core::store::{StoreError, StoreResult};

/// Waits for work of the database; a panic in it becomes the error that `broken` makes of what the panic said.
///
/// The work must not leave anything of ours half changed; the database's own commits are all or nothing.
pub(crate) async fn contained<T>(
    work: impl Future<Output = StoreResult<T>>,
    broken: impl FnOnce(String) -> StoreError,
) -> StoreResult<T> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(result) => result,
        Err(panic) => Err(broken(message(&*panic))),
    }
}

/// Returns the error of work on the index that panicked and may be tried again.
pub(crate) fn panicked(action: &str) -> impl FnOnce(String) -> StoreError {
    move |message| StoreError::engine(action, format!("the database panicked: {message}"))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let result: StoreResult<()> = runtime.block_on(contained(
            async { panic!("index out of bounds") },
            panicked("tidying"),
        ));
        let error = result.expect_err("the panic is reported");
        assert_eq!(error.to_string(), "tidying failed");
        let source = std::error::Error::source(&error).expect("a cause");
        assert!(source.to_string().contains("index out of bounds"));
    }
}
