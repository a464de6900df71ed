//! Where the checkout is and how cargo is called in it.
//!
//! Every nested cargo goes through [`Checkout::cargo`], so that the environment rules are in one place: `CARGO_TARGET_DIR`
//! passes through untouched, and the variables that `cargo run` sets about xtask itself do not.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// One checkout of the workspace.
#[derive(Debug, Clone)]
pub(crate) struct Checkout {
    root: PathBuf,
    /// What a copy uses of another checkout.
    shared: Option<Shared>,
}

/// What a copy of a checkout uses of that one.
#[derive(Debug, Clone)]
struct Shared {
    target: PathBuf,
    protoc: PathBuf,
    /// Options by which the copy's own packages are not taken for those of the other checkout.
    apart: Vec<String>,
}

impl Checkout {
    /// Finds the checkout this xtask was started for.
    ///
    /// The run-time variable wins over the compile-time one: with a target folder shared between checkouts the binary may
    /// have been compiled for another one.
    pub(crate) fn locate() -> Result<Self> {
        let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest_dir
            .parent()
            .with_context(|| format!("`{}` has no parent folder", manifest_dir.display()))?;
        Self::at(root)
    }

    /// Returns the checkout rooted at `root`.
    pub(crate) fn at(root: &Path) -> Result<Self> {
        if !root.join("Cargo.toml").is_file() {
            bail!(
                "`{}` holds no Cargo.toml; run this through `cargo xtask`",
                root.display()
            );
        }
        Ok(Self {
            root: root.to_path_buf(),
            shared: None,
        })
    }

    /// Returns this checkout with another one's target folder, so that dependencies are not compiled again.
    ///
    /// The protobuf compiler is the same one too, because dependencies that were built with another count as changed. The
    /// members, which have the same names there, are told apart by something that changes nothing else: the number of
    /// units they are compiled in, another one for each copy.
    pub(crate) fn sharing_target_of(self, other: &Self, members: &[String], units: usize) -> Self {
        let or = |variable: &str, default: &str| {
            std::env::var_os(variable).map_or_else(|| other.root.join(default), PathBuf::from)
        };
        let shared = Shared {
            target: or("CARGO_TARGET_DIR", "target"),
            protoc: or("PROTOC", ".tools/protoc"),
            apart: members
                .iter()
                .map(|member| format!("profile.dev.package.{member}.codegen-units={units}"))
                .collect(),
        };
        Self {
            shared: Some(shared),
            ..self
        }
    }

    /// Returns the root folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of git-ignored build tools.
    pub(crate) fn tools(&self) -> PathBuf {
        self.root.join(".tools")
    }

    /// Returns the folder that `build-plugins` fills and hosts load from.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.root.join("target").join("plugins")
    }

    /// Returns the folder of the plugins that only tests load; a host that scans the other one does not see them.
    pub(crate) fn test_plugins(&self) -> PathBuf {
        self.plugins().join("test")
    }

    /// Returns a cargo command that runs in the root.
    pub(crate) fn cargo(&self) -> Command {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(program);
        command.current_dir(&self.root).stdin(Stdio::null());
        if let Some(shared) = &self.shared {
            for option in &shared.apart {
                command.args(["--config", option]);
            }
            command
                .env("CARGO_TARGET_DIR", &shared.target)
                .env("PROTOC", &shared.protoc);
        }
        // `cargo run` describes xtask in these. Some build scripts declare them as inputs and would rebuild their crate
        // each time the outer package changes.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        command
    }
}

/// Runs a command with inherited output and fails with its line when it does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = describe(command);
    let status = command
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Returns the command as a person would type it.
pub(crate) fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program
        .file_stem()
        .unwrap_or(program.as_os_str())
        .to_string_lossy()
        .into_owned();
    std::iter::once(name)
        .chain(
            command
                .get_args()
                .map(|argument| argument.to_string_lossy().into_owned()),
        )
        .collect::<Vec<_>>()
        .join(" ")
}
