//! What becomes of a panic inside a plugin: one log event with its place, and an error that carries its message.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::error::{AbiError, ErrorCode};

use super::forward;

thread_local! {
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// Sends panics of this library to the host's log. The library has its own standard library, so the host's hook never
/// sees them, and the host's panics never come here.
pub(super) fn install_hook() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string);
        let message = message_of(info.payload());
        forward::log_panic(&message, place.as_deref().unwrap_or("unknown place"));
        PLACE.set(place);
    }));
}

/// Returns the error for a contained panic and disposes of its payload.
pub(super) fn contained(payload: Box<dyn Any + Send>) -> AbiError {
    let message = message_of(&*payload);
    // A payload may panic when it is dropped. Then it is better leaked than let out.
    if let Err(second) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
        std::mem::forget(second);
    }
    let text = match PLACE.take() {
        Some(place) => format!("panicked at {place}: {message}"),
        None => format!("panicked: {message}"),
    };
    AbiError::new(ErrorCode::PANICKED, text)
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&'static str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is not text".to_owned())
}
