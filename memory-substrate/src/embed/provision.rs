//! Finds the model and the runtime library that `cargo xtask setup` put into the user's cache folder.
//!
//! Nothing is fetched here. The product either finds the pinned files or says which one is missing and what repairs
//! it, so a machine without them is served lexically instead of waiting on a network. Sizes are compared at every
//! start, which catches an interrupted copy for the price of a few `stat` calls; checksums are for `doctor`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use memory_core::embed::{EmbedError, SpaceId};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// The space of the default model: model, precision, pooling, longest input, normalisation and the weights' hash.
pub const DEFAULT_SPACE: &str = "all-MiniLM-L6-v2/fp32/mean/256/l2@53aa5117";

/// Length of a vector of the default model.
pub const DEFAULT_DIMS: usize = 384;

/// Tokens after which the default model's input is cut.
pub const DEFAULT_MAX_TOKENS: usize = 256;

/// Names another library than the provisioned one.
pub const RUNTIME_VARIABLE: &str = "ORT_DYLIB_PATH";

/// The weights within the model's folder.
pub(super) const MODEL_WEIGHTS: &str = "model.safetensors";

const MODEL_FOLDER: &str = "models/all-MiniLM-L6-v2-fp32-mean-256-l2-53aa5117";
const RUNTIME_FOLDER: &str = "runtime/onnxruntime-1.24.4";

const MODEL_PINS: [Pin; 5] = [
    Pin {
        name: MODEL_WEIGHTS,
        size: 90_868_376,
        sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
    Pin {
        name: "tokenizer.json",
        size: 466_247,
        sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    Pin {
        name: "tokenizer_config.json",
        size: 350,
        sha256: "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    },
    Pin {
        name: "special_tokens_map.json",
        size: 112,
        sha256: "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    },
    Pin {
        name: "config.json",
        size: 612,
        sha256: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    },
];

/// A file whose content is known in advance.
#[derive(Clone, Copy, Debug)]
struct Pin {
    name: &'static str,
    size: u64,
    sha256: &'static str,
}

/// Why the model cannot be used. Serve lexically and show the message.
#[derive(Debug, Error)]
pub enum ProvisionError {
    /// No cache folder is known. Ask the operator to name one.
    #[error(
        "no cache folder: none of `STRATA_CACHE_DIR` and the platform's own variables is set, set `STRATA_CACHE_DIR`"
    )]
    NoCacheFolder,
    /// No runtime library exists for this platform. Ask the operator for a library of their own.
    #[error(
        "no ONNX Runtime is provisioned for this platform, point `{RUNTIME_VARIABLE}` at a library of version 1.24 or work without a model"
    )]
    UnsupportedPlatform,
    /// A file is not there. Ask the operator to run the set-up.
    #[error("`{}` is missing, run `cargo xtask setup`", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// A file is incomplete or of another version. Ask the operator to run the set-up.
    #[error("`{}` has {found} bytes instead of {expected}, run `cargo xtask setup`", path.display())]
    WrongSize {
        /// The file.
        path: PathBuf,
        /// Bytes it should have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// A file has the right size and other content. Ask the operator to remove it and run the set-up.
    #[error("`{}` is damaged (its checksum is {found}), remove it and run `cargo xtask setup`", path.display())]
    WrongChecksum {
        /// The file.
        path: PathBuf,
        /// SHA-256 it should have, in hexadecimal.
        expected: String,
        /// SHA-256 it has, in hexadecimal.
        found: String,
    },
    /// A file is there and cannot be read. Report it; retrying may help.
    #[error("`{}` cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
}

impl From<ProvisionError> for EmbedError {
    fn from(error: ProvisionError) -> Self {
        Self::Unavailable {
            reason: error.to_string(),
        }
    }
}

/// The runtime library to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// The pinned library that the set-up installed.
    Pinned(PathBuf),
    /// A library that the operator named; nothing is known about it yet.
    Supplied(PathBuf),
}

impl Runtime {
    /// Returns the library's path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Pinned(path) | Self::Supplied(path) => path,
        }
    }
}

/// A model and a runtime that are present with the right sizes.
#[derive(Clone, Debug)]
pub struct Provisioned {
    /// The space of the model's vectors.
    pub space: SpaceId,
    /// Length of a vector.
    pub dims: usize,
    /// Tokens after which an input is cut.
    pub max_tokens: usize,
    /// Folder that holds the weights, the tokenizer and the configuration.
    pub model_dir: PathBuf,
    /// The library that runs the model.
    pub runtime: Runtime,
}

impl Provisioned {
    /// Returns the default model below a cache folder, or which file is wrong.
    ///
    /// `supplied_runtime` replaces the pinned library; see [`RUNTIME_VARIABLE`].
    pub fn find(
        cache_root: &Path,
        supplied_runtime: Option<PathBuf>,
    ) -> Result<Self, ProvisionError> {
        let model_dir = cache_root.join(MODEL_FOLDER);
        for pin in &MODEL_PINS {
            check_size(&model_dir, pin)?;
        }
        let runtime = if let Some(path) = supplied_runtime {
            file_size(&path)?;
            Runtime::Supplied(path)
        } else {
            let pin = runtime_pin().ok_or(ProvisionError::UnsupportedPlatform)?;
            Runtime::Pinned(check_size(&cache_root.join(RUNTIME_FOLDER), pin)?)
        };
        Ok(Self {
            space: SpaceId::new(DEFAULT_SPACE),
            dims: DEFAULT_DIMS,
            max_tokens: DEFAULT_MAX_TOKENS,
            model_dir,
            runtime,
        })
    }

    /// Returns the default model as the environment describes it, or which file is wrong.
    pub fn from_env(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, ProvisionError> {
        let supplied = variable(RUNTIME_VARIABLE)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from);
        let root = cache_root(variable).ok_or(ProvisionError::NoCacheFolder)?;
        Self::find(&root, supplied)
    }

    /// Compares the checksum of every pinned file. Reads about 110 MB.
    pub fn verify(&self) -> Result<(), ProvisionError> {
        for pin in &MODEL_PINS {
            check_sum(&self.model_dir.join(pin.name), pin.sha256)?;
        }
        if let (Runtime::Pinned(path), Some(pin)) = (&self.runtime, runtime_pin()) {
            check_sum(path, pin.sha256)?;
        }
        Ok(())
    }

    /// Returns a file of the model.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, ProvisionError> {
        let path = self.model_dir.join(name);
        std::fs::read(&path).map_err(|source| ProvisionError::Unreadable { path, source })
    }
}

/// Returns the folder that holds models and runtimes: `STRATA_CACHE_DIR`, else `strata` in the platform's cache.
pub fn cache_root(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(root) = folder("STRATA_CACHE_DIR") {
        return Some(root);
    }
    let platform = if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        folder("HOME").map(|home| home.join("Library/Caches"))
    } else {
        // A relative path in the variable is to be ignored, says the base directory specification.
        folder("XDG_CACHE_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| folder("HOME").map(|home| home.join(".cache")))
    };
    platform.map(|path| path.join("strata"))
}

/// The pinned library of the platform this was compiled for.
fn runtime_pin() -> Option<&'static Pin> {
    const LINUX_X86: Pin = Pin {
        name: "libonnxruntime.so.1.24.4",
        size: 22_159_232,
        sha256: "2d518e11c7767f9fdc4413bdbeb45acf30db504ff76a82fc19d9238a3f9f6c24",
    };
    const LINUX_ARM: Pin = Pin {
        name: "libonnxruntime.so.1.24.4",
        size: 18_625_376,
        sha256: "f373ae5fd4d878ed17ebea26e5480bd3d0a15e3bd6bc94b878e6c1b73998d22a",
    };
    const MACOS_ARM: Pin = Pin {
        name: "libonnxruntime.1.24.4.dylib",
        size: 27_708_456,
        sha256: "f7a4418c1fbbb12705f26991c52cd9e4a90c54d4802c487d0facb20897790fe9",
    };
    const WINDOWS_X86: Pin = Pin {
        name: "onnxruntime.dll",
        size: 16_119_840,
        sha256: "ef720fc44a4ea48626bfe1ebd29642de20222d7f104a509ea305d9f3cb3b7850",
    };
    if cfg!(all(
        target_os = "linux",
        target_env = "gnu",
        target_arch = "x86_64"
    )) {
        Some(&LINUX_X86)
    } else if cfg!(all(
        target_os = "linux",
        target_env = "gnu",
        target_arch = "aarch64"
    )) {
        Some(&LINUX_ARM)
    } else if cfg!(all(target_os = "macos", target_arch = "aarch64")) {
        Some(&MACOS_ARM)
    } else if cfg!(all(windows, target_arch = "x86_64")) {
        Some(&WINDOWS_X86)
    } else {
        None
    }
}

fn check_size(folder: &Path, pin: &Pin) -> Result<PathBuf, ProvisionError> {
    let path = folder.join(pin.name);
    let found = file_size(&path)?;
    if found == pin.size {
        Ok(path)
    } else {
        Err(ProvisionError::WrongSize {
            path,
            expected: pin.size,
            found,
        })
    }
}

fn file_size(path: &Path) -> Result<u64, ProvisionError> {
    let missing = |source| ProvisionError::Missing {
        path: path.to_owned(),
        source,
    };
    let metadata = std::fs::metadata(path).map_err(missing)?;
    if metadata.is_file() {
        Ok(metadata.len())
    } else {
        Err(missing(io::ErrorKind::NotFound.into()))
    }
}

fn check_sum(path: &Path, expected: &str) -> Result<(), ProvisionError> {
    let unreadable = |source| ProvisionError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(unreadable)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    let mut found = String::with_capacity(64);
    for byte in hasher.finalize() {
        write!(found, "{byte:02x}").expect("writing to a string succeeds");
    }
    if found == expected {
        Ok(())
    } else {
        Err(ProvisionError::WrongChecksum {
            path: path.to_owned(),
            expected: expected.to_owned(),
            found,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Creates files of the pinned sizes without content.
    fn lay_out(root: &Path) {
        let model = root.join(MODEL_FOLDER);
        fs::create_dir_all(&model).unwrap();
        for pin in &MODEL_PINS {
            File::create(model.join(pin.name))
                .unwrap()
                .set_len(pin.size)
                .unwrap();
        }
        if let Some(pin) = runtime_pin() {
            let runtime = root.join(RUNTIME_FOLDER);
            fs::create_dir_all(&runtime).unwrap();
            File::create(runtime.join(pin.name))
                .unwrap()
                .set_len(pin.size)
                .unwrap();
        }
    }

    fn environment(
        pairs: &'static [(&'static str, &'static str)],
    ) -> impl Fn(&str) -> Option<OsString> {
        |name| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        }
    }

    #[test]
    fn an_empty_cache_names_the_file_and_the_fix() {
        let root = tempfile::tempdir().unwrap();
        let message = Provisioned::find(root.path(), None)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("model.safetensors") && message.contains("cargo xtask setup"),
            "{message}"
        );
    }

    #[test]
    fn sizes_are_compared_at_once_and_content_on_demand() {
        let root = tempfile::tempdir().unwrap();
        lay_out(root.path());
        let supplied = root.path().join(MODEL_FOLDER).join("config.json");
        let found = Provisioned::find(root.path(), Some(supplied.clone())).unwrap();
        assert_eq!(found.space.as_str(), DEFAULT_SPACE);
        assert_eq!(found.runtime, Runtime::Supplied(supplied));
        assert!(matches!(
            found.verify(),
            Err(ProvisionError::WrongChecksum { .. })
        ));

        let tokenizer = root.path().join(MODEL_FOLDER).join("tokenizer.json");
        File::options()
            .write(true)
            .open(&tokenizer)
            .unwrap()
            .set_len(7)
            .unwrap();
        let error = Provisioned::find(root.path(), None).unwrap_err();
        assert!(
            matches!(error, ProvisionError::WrongSize { found: 7, .. }),
            "{error}"
        );
    }

    #[test]
    fn a_truncated_runtime_is_refused() {
        let Some(pin) = runtime_pin() else { return };
        let root = tempfile::tempdir().unwrap();
        lay_out(root.path());
        assert!(matches!(
            Provisioned::find(root.path(), None).unwrap().runtime,
            Runtime::Pinned(_)
        ));
        fs::write(root.path().join(RUNTIME_FOLDER).join(pin.name), "cut").unwrap();
        assert!(matches!(
            Provisioned::find(root.path(), None),
            Err(ProvisionError::WrongSize { found: 3, .. })
        ));
    }

    #[test]
    fn a_folder_is_not_a_runtime() {
        let root = tempfile::tempdir().unwrap();
        lay_out(root.path());
        let found = Provisioned::find(root.path(), Some(root.path().to_owned()));
        assert!(matches!(found, Err(ProvisionError::Missing { .. })));
    }

    #[test]
    fn the_override_wins_over_the_platform() {
        let root = cache_root(environment(&[
            ("STRATA_CACHE_DIR", "/a"),
            ("HOME", "/h"),
            ("XDG_CACHE_HOME", "/x"),
        ]));
        assert_eq!(root, Some(PathBuf::from("/a")));
        assert_eq!(cache_root(environment(&[])), None);
        assert!(matches!(
            Provisioned::from_env(environment(&[])),
            Err(ProvisionError::NoCacheFolder)
        ));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_follows_the_base_directory_rules() {
        let given = cache_root(environment(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]));
        assert_eq!(given, Some(PathBuf::from("/x/strata")));
        let relative = cache_root(environment(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")]));
        assert_eq!(relative, Some(PathBuf::from("/h/.cache/strata")));
        let empty = cache_root(environment(&[("HOME", "/h"), ("STRATA_CACHE_DIR", "")]));
        assert_eq!(empty, Some(PathBuf::from("/h/.cache/strata")));
    }
}
