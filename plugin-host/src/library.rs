//! What only unsafe code can do: opening a library, and asking the system whose process this is.

#![expect(
    unsafe_code,
    reason = "loading foreign code cannot be safe; everything before it has been checked. The rest is here to be in one place"
)]

use std::ffi::c_void;
use std::path::Path;
use std::time::{Duration, Instant};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use memory_core::abi::host::{AbiVersion, HEADER_SYMBOL, Header, PluginModule};
use memory_core::causes::with_causes;

use crate::error::LoadError;

/// A loaded library, and how long each step took.
pub(crate) struct Opened {
    pub(crate) module: PluginModule,
    pub(crate) open: Duration,
    pub(crate) header: Duration,
    pub(crate) layout: Duration,
    pub(crate) root: Duration,
}

/// Opens a staged library whose hash is trusted, checks its version and layout, and returns its module.
///
/// The library stays loaded for good, also when it is refused: a part of it may have run already.
pub(crate) fn open(plugin: &str, path: &Path) -> Result<Opened, LoadError> {
    let start = Instant::now();
    // SAFETY: opening runs the library's initialisers. Its hash is on the operator's list, and the file is a private copy.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|error| LoadError::Open {
        plugin: plugin.to_owned(),
        reason: loader_text(&error, path),
    })?;
    let open = start.elapsed();

    let start = Instant::now();
    let refused = |reason: String| LoadError::Header {
        plugin: plugin.to_owned(),
        reason,
    };
    // SAFETY: the symbol is only used as an address here.
    let symbol: Result<Symbol<*const c_void>, _> = unsafe { library.get(HEADER_SYMBOL) };
    let address = symbol.map(|symbol| symbol.as_raw_ptr().cast_const());
    std::mem::forget(library);
    let address = address.map_err(|_| refused("not a tier plugin".to_owned()))?;
    // SAFETY: the address is that of the header symbol, and the library was just made to stay loaded.
    let header = unsafe { Header::at(address) }.map_err(|error| refused(error.to_string()))?;
    let version = header
        .version()
        .map_err(|error| refused(error.to_string()))?;
    let host = AbiVersion::host();
    if !host.accepts(version) {
        let (found, host) = (version.to_string(), host.to_string());
        return Err(LoadError::Version {
            plugin: plugin.to_owned(),
            found,
            host,
        });
    }
    let header_time = start.elapsed();

    let start = Instant::now();
    let agreed = header
        .check_layout()
        .map_err(|error| refused(error.to_string()))?;
    agreed.map_err(|mismatch| {
        tracing::debug!(plugin, report = %mismatch.report, "the full layout report");
        LoadError::Layout {
            plugin: plugin.to_owned(),
            place: mismatch.place,
            host: mismatch.host,
            found: mismatch.plugin,
        }
    })?;
    let layout = start.elapsed();

    let start = Instant::now();
    // SAFETY: the layout was just found to agree.
    let module = unsafe { header.module() }.map_err(|error| refused(error.to_string()))?;
    Ok(Opened {
        module,
        open,
        header: header_time,
        layout,
        root: start.elapsed(),
    })
}

/// Returns the user whose rights this process has.
pub(crate) fn user() -> u32 {
    // SAFETY: the call takes nothing, cannot fail and only returns a number.
    unsafe { libc::geteuid() }
}

/// Returns what the loader said, without the path of our private copy, which says nothing to anybody.
fn loader_text(error: &libloading::Error, path: &Path) -> String {
    with_causes(error).replace(&format!("{}: ", path.display()), "")
}
