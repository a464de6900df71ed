//! The plugin border: what crosses between a host and a separately compiled tier, and the code on both of its sides.
//!
//! Only this module names the border libraries. Everything outside it speaks standard types: a tier author implements
//! [`crate::tier::MemoryTier`] and writes [`export_tier!`](crate::export_tier), a host calls [`host::GuestTier`]. The
//! types that really cross are kept apart from the domain types on purpose, and converted at the border, so that the
//! border library can be replaced without touching a tier or a store.
//!
//! `docs/abi.md` holds the rules for changing anything below this module: within a major version a value type is
//! frozen, and traits and the root module may only grow at their end.

#![allow(
    unsafe_code,
    reason = "the border macros expand to unsafe blocks, and a foreign header must be read"
)]

pub mod error;
pub mod guest;
pub mod host;
pub mod module;
pub mod services;
pub mod tier;
pub mod types;

mod convert;
mod table;

#[cfg(test)]
mod loopback;

pub use self::convert::BadValue;
pub use self::error::{AbiError, ErrorCode};

/// The version of the border, which is this crate's own version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
