//! Finds, verifies, loads, swaps and contains the plugins that tiers come as.
//!
//! A tier is a library with every right the host has, so nothing of it runs before its hash or its signer is on the operator's list, and
//! it is loaded from a private copy that nobody can change underneath. It is never unloaded: a swap is a new instance
//! beside the old one, a switch of one pointer, and a drain. Whatever a plugin does, short of corrupting memory, costs a
//! turn its memory and nothing else: a panic, a hang or nonsense is an error with a code.
//!
//! [`PluginHost`] is the machinery of a process, [`Slot`] what serves one assistant, and [`PinnedTurn`] one turn's hold on
//! the instance that began it.
//!
//! # Limitations
//!
//! A call that blocks its thread costs the thread, which is replaced a few times; while it is away its build is not used. A
//! plugin that overflows its stack, aborts or corrupts memory ends the process; plugins are for code one trusts.
//! Only Linux has been tried.

mod allow;
mod build;
mod call;
mod drain;
mod error;
mod files;
mod gate;
mod host;
mod incident;
mod library;
mod limits;
mod loader;
mod log;
mod method;
mod metrics;
mod panics;
mod pinned;
mod record;
mod registry;
mod sidecar;
mod signature;
mod slot;
mod staging;
mod step;
mod text;
mod threads;
mod trust;

pub use self::allow::{AllowEntry, AllowFile, AllowList, TrustedKey};
pub use self::build::Build;
pub use self::call::{TurnControl, new_call};
pub use self::drain::Drained;
pub use self::error::{HostError, LoadError, SlotError};
pub use self::host::{BuildIncidents, PluginHost, Verified};
pub use self::incident::{Incident, IncidentKind, Quarantine};
pub use self::limits::{HostOptions, Limits};
pub use self::loader::{LoadTimings, sha256_hex};
pub use self::metrics::{Bucket, BuildMetrics, ChangeMetrics, MethodMetrics, Metrics, SlotMetrics};
pub use self::pinned::PinnedTurn;
pub use self::registry::{Candidate, Registry};
pub use self::sidecar::{SIDECAR_SUFFIX, Sidecar};
pub use self::signature::{KeyError, PublicKey, SIGNATURE_SUFFIX, SigningKey, signature_path};
pub use self::slot::{
    Begun, Change, Newcomer, Outcome, Pending, Serving, Slot, SlotStatus, Wanted,
};
pub use self::step::Step;
pub use self::trust::{Trust, Trusted};
