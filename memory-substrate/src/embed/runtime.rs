//! Loads ONNX Runtime once for the process, with its telemetry off.
//!
//! The library allows one environment per process and cannot make a second one after the first is gone, so it is kept
//! in a static and handed to every model. It is always loaded by path: the implicit search panics when it finds
//! nothing. Builds after 1.24 carry a telemetry uploader that is on by default and decided before our environment
//! exists, which is why such a library is refused unless its own switch is off.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use memory_core::embed::EmbedError;
use ort::environment::Environment;
use ort::logging::LogLevel;

use super::provision::Runtime;

/// The newest minor version whose builds keep to themselves (outside Windows, where the environment turns it off).
const NEWEST_QUIET_MINOR: u32 = 24;

/// Turns the telemetry of newer builds off; read by the library itself.
const TELEMETRY_VARIABLE: &str = "ORT_DISABLE_TELEMETRY";

/// Returns the process's environment, loading the library at the first call.
///
/// Later calls get the same environment whatever library they name. A failed load may be tried again.
pub(super) fn environment(
    runtime: &Runtime,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Environment, EmbedError> {
    static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);
    let mut slot = ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = &*slot {
        return Ok(environment.clone());
    }
    let path = runtime.path();
    if matches!(runtime, Runtime::Supplied(_))
        && variable(TELEMETRY_VARIABLE).is_none_or(|value| value != "1")
    {
        check_quiet(path)?;
    }
    let refuse = |reason: String| EmbedError::Unavailable {
        reason: format!(
            "`{}` cannot be used as ONNX Runtime ({reason}), run `cargo xtask setup`",
            path.display()
        ),
    };
    let builder = ort::init_from(path).map_err(|error| refuse(error.to_string()))?;
    let environment = builder
        .with_name("strata")
        .with_telemetry(false)
        .with_logger(Arc::new(forward_log))
        .build()
        .map_err(|error| refuse(error.to_string()))?;
    // The builder leaves the level at verbose, which would send every graph rewrite through the logger.
    environment.set_log_level(LogLevel::Warning);
    *slot = Some(environment.clone());
    Ok(environment)
}

/// Sends what the library would print to the process's log.
fn forward_log(level: LogLevel, category: &str, _id: &str, location: &str, message: &str) {
    match level {
        LogLevel::Fatal | LogLevel::Error => {
            tracing::warn!(target: "onnxruntime", category, location, message, "runtime error");
        }
        LogLevel::Warning => {
            tracing::debug!(target: "onnxruntime", category, location, message, "runtime warning");
        }
        LogLevel::Info | LogLevel::Verbose => {
            tracing::trace!(target: "onnxruntime", category, location, message, "runtime note");
        }
    }
}

/// Refuses a library that may report to its maker.
fn check_quiet(path: &Path) -> Result<(), EmbedError> {
    let refuse = |what: String| EmbedError::Unavailable {
        reason: format!(
            "the ONNX Runtime at `{}` {what}, use version 1.{NEWEST_QUIET_MINOR} or set `{TELEMETRY_VARIABLE}=1` before starting",
            path.display()
        ),
    };
    match minor_version(path) {
        Some(minor) if minor <= NEWEST_QUIET_MINOR => Ok(()),
        Some(minor) => Err(refuse(format!(
            "is version 1.{minor}, which may send telemetry"
        ))),
        None => Err(refuse(
            "does not say its version and may send telemetry".into(),
        )),
    }
}

/// Returns the minor version that a library states, without loading it.
///
/// On Linux the exported symbols carry it; elsewhere the file is named after it, as are Linux files of a release.
fn minor_version(path: &Path) -> Option<u32> {
    const MARK: &[u8] = b"VERS_1.";
    let stated = |text: &[u8]| -> Option<u32> {
        let digits: Vec<u8> = text
            .iter()
            .copied()
            .take_while(u8::is_ascii_digit)
            .collect();
        let ends = text.get(digits.len()) == Some(&b'.');
        String::from_utf8(digits)
            .ok()
            .filter(|_| ends)?
            .parse()
            .ok()
    };
    let bytes = std::fs::read(path).ok()?;
    // A statically linked library brings marks of its own (`VERS_1.0`); ours has a patch number behind.
    let marks = bytes
        .windows(MARK.len())
        .enumerate()
        .filter(|(_, window)| *window == MARK);
    if let Some(minor) = marks
        .filter_map(|(at, _)| stated(&bytes[at + MARK.len()..]))
        .max()
    {
        return Some(minor);
    }
    let name = path.file_name()?.to_str()?;
    name.match_indices("1.").find_map(|(at, _)| {
        let starts = !name[..at].ends_with(|last: char| last.is_ascii_digit());
        stated(&name.as_bytes()[at + 2..]).filter(|_| starts)
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn check_version(name: &str, content: &[u8], expected: Option<u32>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        assert_eq!(minor_version(&path), expected, "{name}");
    }

    #[test]
    fn the_version_is_read_without_loading() {
        check_version("libonnxruntime.so", b"\0VERS_1.0\0VERS_1.24.4\0", Some(24));
        check_version("libonnxruntime.so.1.24.4", b"\0VERS_1.32.0\0", Some(32));
        check_version("libonnxruntime.1.24.4.dylib", b"", Some(24));
        check_version("libonnxruntime.11.24.4.dylib", b"", None);
        check_version("onnxruntime.dll", b"VERS_1.", None);
    }

    #[test]
    fn a_library_that_may_report_is_refused_before_it_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("libonnxruntime.so");
        std::fs::write(&path, b"VERS_1.32.0\0").unwrap();
        let message = check_quiet(&path).unwrap_err().to_string();
        assert!(
            message.contains("1.32") && message.contains(TELEMETRY_VARIABLE),
            "{message}"
        );
        std::fs::write(&path, b"VERS_1.24.1\0").unwrap();
        check_quiet(&path).unwrap();
    }
}
