//! The functions a library exports and the macro that exports them.

/// What the expansion of [`export_tier!`](crate::export_tier) uses. Not for anybody else.
#[doc(hidden)]
pub mod private {
    use abi_stable::erased_types::TD_Opaque;
    use abi_stable::prefix_type::PrefixTypeTrait as _;
    use abi_stable::std_types::{RBox, RResult, RStr};

    pub use abi_stable::library::{
        __call_root_module_loader as call_root_module_loader, CheckTypeLayout, LibHeader,
        RootModuleResult,
    };

    use crate::abi::convert::Cross as _;
    use crate::abi::error::AbiError;
    pub use crate::abi::module::TierModuleRef;
    use crate::abi::module::{TierModule, TierObject};
    use crate::abi::services::{HostServices_TO, LibraryHost_TO, Shared};
    use crate::abi::tier::Tier_TO;
    use crate::abi::types::Manifest;
    use crate::tier::MemoryTier;

    use super::super::guard::{guard, guard_unit};
    use super::super::instance::Instance;
    use super::super::{forward, panics, services};

    /// Returns the root module of a tier.
    pub fn module<T: MemoryTier>() -> TierModuleRef {
        TierModule {
            manifest: manifest::<T>,
            init,
            set_max_level,
            create: create::<T>,
        }
        .leak_into_prefix()
    }

    extern "C" fn manifest<T: MemoryTier>() -> RResult<Manifest, AbiError> {
        guard(|| {
            let manifest = T::manifest();
            let names = |list: Vec<crate::services::Capability>| {
                list.into_iter()
                    .map(|capability| capability.name().to_owned())
                    .collect::<Vec<_>>()
                    .into_abi()
            };
            Ok(Manifest {
                id: manifest.id.into_abi(),
                tier: manifest.tier.into_abi(),
                version: manifest.version.into_abi(),
                abi: crate::abi::VERSION.into(),
                rust_version: env!("CARGO_PKG_RUST_VERSION").into(),
                panic_strategy: if cfg!(panic = "unwind") {
                    "unwind"
                } else {
                    "abort"
                }
                .into(),
                requires: names(manifest.requires),
                uses: names(manifest.uses),
                ext: Vec::new().into(),
            })
        })
        .into()
    }

    extern "C" fn init(host: LibraryHost_TO<'static, Shared>) -> RResult<(), AbiError> {
        guard(|| {
            forward::connect(host);
            panics::install_hook();
            Ok(())
        })
        .into()
    }

    extern "C" fn set_max_level(level: u32) {
        guard_unit(|| forward::set_max_level(level));
    }

    extern "C" fn create<T: MemoryTier>(
        host: HostServices_TO<'static, Shared>,
        config: RStr<'_>,
    ) -> RResult<TierObject, AbiError> {
        guard(|| {
            let services = services::from_border(&host);
            let tier = T::create(services, config.as_str())?;
            Ok(Tier_TO::from_ptr(RBox::new(Instance::new(tier)), TD_Opaque))
        })
        .into()
    }
}

/// Makes a crate the plugin of a tier: exports the one symbol a host looks for.
///
/// The argument is the type that implements [`MemoryTier`](crate::tier::MemoryTier). Use it once, at the crate's root.
/// The crate needs no `unsafe` and no dependency besides this one.
#[macro_export]
macro_rules! export_tier {
    ($tier:ty) => {
        #[doc(hidden)]
        mod __strata_export {
            use super::*;

            fn module() -> $crate::abi::guest::private::TierModuleRef {
                $crate::abi::guest::private::module::<$tier>()
            }

            extern "C" fn constructor() -> $crate::abi::guest::private::RootModuleResult {
                $crate::abi::guest::private::call_root_module_loader(module)
            }

            // SAFETY: the constructor returns what `module` made, which is the named module type.
            #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
            pub static HEADER: $crate::abi::guest::private::LibHeader = unsafe {
                $crate::abi::guest::private::LibHeader::from_constructor::<
                    $crate::abi::guest::private::TierModuleRef,
                >(
                    constructor,
                    $crate::abi::guest::private::CheckTypeLayout::Yes,
                )
            };
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_exported_name_is_the_one_hosts_look_for() {
        assert_eq!(
            abi_stable::library::ROOT_MODULE_LOADER_NAME,
            "_1as_0lib_1header_0root_bmodule_bloader"
        );
    }
}
