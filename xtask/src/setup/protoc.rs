//! The protobuf compiler, which LanceDB's build scripts call, placed under `.tools/`.
//!
//! It comes out of a crate that packs the official binary. Cargo downloads that crate for a throw-away manifest, so the
//! user's registry mirror and cargo's own checksums apply; the crate is never compiled.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use cargo_metadata::MetadataCommand;

use crate::checkout::{Checkout, describe};
use crate::files;
use crate::output::note;

const VERSION: &str = "3.3.0";

/// Puts `protoc` and the well-known types that it looks for beside itself in place.
pub(crate) fn provision(checkout: &Checkout) -> Result<()> {
    let platform = platform(std::env::consts::OS, std::env::consts::ARCH)?;
    let package = format!("protoc-bin-vendored-{platform}");
    let tools = checkout.tools();
    let binary = tools.join(format!("protoc{}", std::env::consts::EXE_SUFFIX));
    let stamp = tools.join("protoc.version");
    let wanted = format!("{package} {VERSION}\n");
    if binary.is_file() && fs::read_to_string(&stamp).is_ok_and(|present| present == wanted) {
        note(format_args!("protoc: present ({package} {VERSION})"));
        return Ok(());
    }

    let _lock = files::lock(&tools.join("setup.lock"))?;
    note(format_args!(
        "protoc: fetching the crate {package} {VERSION} with cargo"
    ));
    let source = fetch(checkout, &package)?;
    let vendored = source
        .join("bin")
        .join(format!("protoc{}", std::env::consts::EXE_SUFFIX));
    let compiler =
        fs::read(&vendored).with_context(|| format!("cannot read `{}`", vendored.display()))?;
    let include = source.join("include");
    let types = files::walk(&include.join("google"))?;
    if types.is_empty() {
        bail!("`{}` holds no well-known types", include.display());
    }
    for path in &types {
        let inside = path
            .strip_prefix(&include)
            .context("a walked file lies below its root")?;
        let bytes = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        files::write_atomic(&tools.join(inside), &bytes)?;
    }
    write_executable(&binary, &compiler)?;
    files::write_atomic(&stamp, wanted.as_bytes())?;
    note(format_args!(
        "protoc: ready in `{}` with {} type definitions",
        binary.display(),
        types.len()
    ));
    Ok(())
}

/// Lets cargo download one crate and returns the folder it was unpacked to.
fn fetch(checkout: &Checkout, package: &str) -> Result<std::path::PathBuf> {
    let stub = checkout
        .tools()
        .join(format!("fetch-{}", std::process::id()));
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n\n\
         [dependencies]\n{package} = \"={VERSION}\"\n\n[workspace]\n"
    );
    files::write_atomic(&stub.join("Cargo.toml"), manifest.as_bytes())?;
    files::write_atomic(&stub.join("lib.rs"), b"")?;
    let mut command = checkout.cargo();
    command
        .args(["metadata", "--format-version", "1", "--manifest-path"])
        .arg(stub.join("Cargo.toml"));
    let output = command
        .output()
        .with_context(|| format!("cannot start `{}`", describe(&command)));
    fs::remove_dir_all(&stub).ok();
    let output = output?;
    if !output.status.success() {
        bail!(
            "cargo could not fetch `{package}` {VERSION}; check the network or the registry mirror and run this again\n{}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let metadata = MetadataCommand::parse(String::from_utf8_lossy(&output.stdout))
        .context("cannot read what `cargo metadata` printed")?;
    let found = metadata
        .packages
        .iter()
        .find(|known| known.name.as_str() == package);
    let folder = found.and_then(|known| known.manifest_path.parent());
    Ok(folder
        .with_context(|| format!("`cargo metadata` does not list `{package}`"))?
        .as_std_path()
        .to_path_buf())
}

fn platform(os: &str, arch: &str) -> Result<&'static str> {
    Ok(match (os, arch) {
        ("linux", "x86_64") => "linux-x86_64",
        ("linux", "aarch64") => "linux-aarch_64",
        ("macos", "x86_64") => "macos-x86_64",
        ("macos", "aarch64") => "macos-aarch_64",
        ("windows", _) => "win32",
        _ => bail!(
            "no packed protobuf compiler exists for {os} on {arch}; install `protoc` and name it by the variable `PROTOC`"
        ),
    })
}

/// Writes the compiler with its executable bit set before the name appears.
fn write_executable(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = files::part_path(path);
    let context = || format!("cannot write `{}`", path.display());
    fs::write(&part, bytes).with_context(context)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&part, fs::Permissions::from_mode(0o755)).with_context(context)?;
    }
    fs::rename(&part, path).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::platform;

    #[test]
    fn platforms_map_to_crates() {
        assert_eq!(
            platform("linux", "aarch64").expect("supported"),
            "linux-aarch_64"
        );
        assert_eq!(platform("windows", "aarch64").expect("supported"), "win32");
        let error = platform("freebsd", "x86_64").expect_err("unsupported");
        assert!(error.to_string().contains("`PROTOC`"), "{error}");
    }
}
