//! The plugin's side of the border: what [`export_tier!`](crate::export_tier) puts around a tier.
//!
//! A panic that reaches the border ends the host's process, so every method, every poll, every dropped future and the
//! instance's own drop run inside a guard that turns the panic into an error. The kit also sends the library's log to
//! the host, because each library has its own log machinery, and turns the host's objects into the service traits a
//! tier is written against.

mod call;
mod export;
mod forward;
mod guard;
mod instance;
mod panics;
mod services;

pub use self::export::private;
