//! The host's side of the border: reading a library's header, checking its layout, and the objects handed to it.
//!
//! The code that really loads a file is elsewhere; this module takes the address of the header it found. It offers the
//! loaded library as [`PluginModule`] and an instance as [`GuestTier`], both in standard types, so that a host names no
//! border library. Nothing here knows a runtime: work of a service is handed to a [`Spawner`].

mod call;
mod header;
mod layout;
mod log;
mod module;
mod services;
mod slot;
mod tier;

pub use self::header::{AbiVersion, HEADER_SYMBOL, Header, HeaderError};
pub use self::layout::LayoutMismatch;
pub use self::log::{LogFields, LogSink};
pub use self::module::{PluginManifest, PluginModule};
pub use self::services::Spawner;
pub use self::tier::{GuestTier, TierCallError};
