//! The root module: the only thing a plugin library exports.
//!
//! Four functions: what the library is, one-time set-up, a change of the log filter, and making an instance.

#![allow(
    missing_docs,
    missing_debug_implementations,
    non_local_definitions,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    reason = "the derive below generates items and expressions that these lints object to"
)]

use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::package_version_strings;
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::{RBox, RResult, RStr};

use super::error::AbiError;
use super::services::{HostServices_TO, LibraryHost_TO, Shared};
use super::tier::Tier_TO;
use super::types::Manifest;

/// A tier instance, owned by its caller.
pub type TierObject = Tier_TO<'static, RBox<()>>;

/// The functions of a plugin library.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = TierModuleRef, prefix_fields = TierModulePrefix)))]
#[sabi(missing_field(option))]
pub struct TierModule {
    /// Describes the plugin.
    pub manifest: extern "C" fn() -> RResult<Manifest, AbiError>,
    /// Prepares the library: log and panic hook. Called once.
    pub init: extern "C" fn(LibraryHost_TO<'static, Shared>) -> RResult<(), AbiError>,
    /// Takes a new most verbose level.
    pub set_max_level: extern "C" fn(u32),
    /// Makes an instance for one assistant.
    #[sabi(last_prefix_field)]
    pub create:
        extern "C" fn(HostServices_TO<'static, Shared>, RStr<'_>) -> RResult<TierObject, AbiError>,
}

impl RootModule for TierModuleRef {
    abi_stable::declare_root_module_statics! {TierModuleRef}
    const BASE_NAME: &'static str = "strata_tier";
    const NAME: &'static str = "strata tier";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}
