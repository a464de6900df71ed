//! A tier instance as it crosses the border.
//!
//! What a turn needs is typed. The rare and wide answers cross as JSON, so that they can gain fields without a new major
//! version.

#![allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_local_definitions,
    unused_braces,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    reason = "the attribute below generates items and expressions that these lints object to"
)]

use abi_stable::StableAbi;
use abi_stable::sabi_trait;
use abi_stable::std_types::{RResult, RString};

use super::error::AbiError;
use super::services::{CallControl_TO, Reply, Shared};
use super::types::{CallScope, TurnPlan, TurnRequest};

/// A call as a tier receives it: the scope for reading, and the host's own object for the rest.
#[repr(C)]
#[derive(StableAbi)]
pub struct Call {
    /// The scope.
    pub scope: CallScope,
    /// The host's object.
    pub control: CallControl_TO<'static, Shared>,
}

/// A tier instance.
#[sabi_trait]
pub trait Tier: Send + Sync {
    /// Returns whether the instance takes calls. Does nothing else, and is what a bench times.
    fn is_ready(&self) -> bool;
    fn begin_turn(&self, call: Call, request: TurnRequest) -> Reply<TurnPlan>;
    fn commit(&self, call: Call, token: RString, message: RString) -> Reply<()>;
    fn discard(&self, call: Call, token: RString) -> Reply<()>;
    /// Takes an event as JSON.
    fn on_event(&self, call: Call, event: RString) -> Reply<()>;
    /// Answers with an explanation as JSON.
    fn explain(&self, call: Call, request: TurnRequest) -> Reply<RString>;
    /// Answers with counters as JSON.
    fn stats(&self, call: Call) -> Reply<RString>;
    /// Answers with the health as JSON.
    fn health(&self, call: Call) -> Reply<RString>;
    /// Drops the instance; calls in flight keep it alive until they end.
    #[sabi(last_prefix_field)]
    fn shutdown(&self) -> RResult<(), AbiError>;
}
