//! The header of a library: the one symbol it exports, with the version and layout of everything behind it.

use std::ffi::c_void;
use std::fmt;

use abi_stable::library::{
    AbiHeader, AbiHeaderRef, LibHeader, LibraryError, RootModule as _, RootModuleError,
};
use abi_stable::sabi_types::VersionNumber;
use thiserror::Error;

use crate::abi::module::TierModuleRef;

use super::layout::{self, LayoutMismatch};
use super::module::PluginModule;

/// Name of the symbol to look up, without a terminating zero.
pub const HEADER_SYMBOL: &str = abi_stable::library::ROOT_MODULE_LOADER_NAME;

/// A version of the border.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AbiVersion {
    /// A different one means a different border.
    pub major: u32,
    /// A larger one means more methods at the ends.
    pub minor: u32,
    /// Of no meaning to the border.
    pub patch: u32,
}

impl AbiVersion {
    /// Returns the version this host speaks.
    pub fn host() -> Self {
        VersionNumber::new(TierModuleRef::VERSION_STRINGS).map_or(
            Self {
                major: 0,
                minor: 0,
                patch: 0,
            },
            Self::from,
        )
    }

    /// Returns whether a host of this version can run a plugin of another: the major must be the same, and below 1.0
    /// the minor too.
    pub const fn accepts(self, plugin: Self) -> bool {
        self.major == plugin.major && (self.major != 0 || self.minor == plugin.minor)
    }
}

impl From<VersionNumber> for AbiVersion {
    fn from(version: VersionNumber) -> Self {
        Self {
            major: version.major,
            minor: version.minor,
            patch: version.patch,
        }
    }
}

impl fmt::Display for AbiVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// Why a header cannot be used. None of these is worth a retry with the same file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// The symbol is not a header of the border library. It is not a plugin.
    #[error("not a tier plugin")]
    NotAPlugin,
    /// The library was built with another version of the border library. Build it again.
    #[error("built with `abi_stable` {found}, the host uses {host}")]
    BorderLibrary {
        /// The version in the header.
        found: String,
        /// The version here.
        host: String,
    },
    /// The compiler passes values differently. Build it again for this machine.
    #[error("its calling convention differs: {reason}")]
    CallingConvention {
        /// What differed.
        reason: String,
    },
    /// The version in the header is not a version. It is damaged.
    #[error("its version is not a version: {reason}")]
    BadVersion {
        /// What is wrong.
        reason: String,
    },
    /// The library carries no layout, so nothing can be checked. It is refused.
    #[error("it carries no layout to check")]
    NoLayout,
    /// The root module could not be made. Report it to the plugin's author.
    #[error("root module failed: {reason}")]
    RootModule {
        /// What it said.
        reason: String,
    },
}

/// The header of a loaded library, its border library already found to agree.
#[derive(Clone, Copy)]
pub struct Header(&'static LibHeader);

impl fmt::Debug for Header {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Header")
            .field(&self.0.version_strings())
            .finish()
    }
}

impl Header {
    /// Reads the header at an address.
    ///
    /// # Safety
    ///
    /// The address must be that of the symbol [`HEADER_SYMBOL`] in a loaded library that is never unloaded.
    pub unsafe fn at(address: *const c_void) -> Result<Self, HeaderError> {
        if address.is_null() || !address.cast::<AbiHeader>().is_aligned() {
            return Err(HeaderError::NotAPlugin);
        }
        // SAFETY: by the caller's promise the symbol is a header in memory that stays mapped. Whatever lies there is
        // readable for the header's length, and each of its fields takes any bytes.
        let header: &'static AbiHeader = unsafe { &*address.cast::<AbiHeader>() };
        if header.magic_string != AbiHeader::VALUE.magic_string {
            return Err(HeaderError::NotAPlugin);
        }
        // SAFETY: the handle is a transparent wrapper of a reference to this type.
        let header = unsafe { std::mem::transmute::<&'static AbiHeader, AbiHeaderRef>(header) };
        match header.upgrade() {
            Ok(header) => Ok(Self(header)),
            Err(LibraryError::InvalidAbiHeader(found)) => Err(HeaderError::BorderLibrary {
                found: format!("{}.{}", found.abi_major, found.abi_minor),
                host: format!(
                    "{}.{}",
                    AbiHeader::VALUE.abi_major,
                    AbiHeader::VALUE.abi_minor
                ),
            }),
            Err(other) => Err(HeaderError::CallingConvention {
                reason: one_line(&other),
            }),
        }
    }

    /// Returns the border version the library was built with.
    pub fn version(self) -> Result<AbiVersion, HeaderError> {
        VersionNumber::new(self.0.version_strings())
            .map(AbiVersion::from)
            .map_err(|error| HeaderError::BadVersion {
                reason: one_line(&error),
            })
    }

    /// Compares the layout of everything that crosses the border, the older side being what both must agree on.
    pub fn check_layout(self) -> Result<Result<(), LayoutMismatch>, HeaderError> {
        let plugin = self.0.layout().ok_or(HeaderError::NoLayout)?;
        let host = <TierModuleRef as abi_stable::StableAbi>::LAYOUT;
        Ok(layout::check(
            host,
            plugin,
            self.version()? > AbiVersion::host(),
        ))
    }

    /// Makes the root module. The layout must have been found to agree.
    ///
    /// # Safety
    ///
    /// [`Self::check_layout`] must have returned no mismatch for this header.
    pub unsafe fn module(self) -> Result<PluginModule, HeaderError> {
        // SAFETY: by the caller's promise the layout agrees, which is what this function needs.
        let module = unsafe { self.0.unchecked_layout::<TierModuleRef>() };
        module
            .map(PluginModule::new)
            .map_err(|error| HeaderError::RootModule {
                reason: match error {
                    RootModuleError::Unwound => "its constructor panicked".to_owned(),
                    RootModuleError::Returned(error) => one_line(&error),
                },
            })
    }
}

fn one_line(value: &dyn fmt::Display) -> String {
    value
        .to_string()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}
