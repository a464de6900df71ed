//! `cargo xtask build-plugins`: the tier libraries as hosts load them, each with its manifest, and the allow file.
//!
//! They are built in a target folder of the checkout's own. A folder shared between checkouts keeps libraries under
//! unhashed names, and once served a stale plugin that way.

use std::collections::BTreeSet;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use cargo_metadata::{Artifact, Message, Metadata, MetadataCommand, Package};
use toml_edit::DocumentMut;

use crate::checkout::{Checkout, describe};
use crate::files;
use crate::output::{human_bytes, note, say};

mod elsewhere;
mod sidecar;
mod variants;

pub(crate) use sidecar::{Sidecar, find as find_sidecars};

/// What `build-plugins` is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Whether the plugins that only tests load are built too.
    test_plugins: bool,
    /// A crate outside of the workspace that is built instead of the tiers.
    path: Option<PathBuf>,
}

impl Options {
    /// Reads the arguments of the verb.
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut rest = args.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--test-plugins" => options.test_plugins = true,
                "--path" => {
                    let folder = rest
                        .next()
                        .context("`--path` needs the folder of a crate")?;
                    options.path = Some(PathBuf::from(folder));
                }
                other => bail!("`build-plugins` does not know `{other}`"),
            }
        }
        if options.test_plugins && options.path.is_some() {
            bail!("`--path` and `--test-plugins` exclude each other");
        }
        Ok(options)
    }
}

/// Builds what the options ask for.
pub(crate) fn run(checkout: &Checkout, options: &Options) -> Result<()> {
    match &options.path {
        Some(folder) => elsewhere::build(checkout, folder),
        None => build(checkout, options.test_plugins),
    }
}

/// Builds every tier, and the plugins that only tests load if `test_plugins` is set.
pub(crate) fn build(checkout: &Checkout, test_plugins: bool) -> Result<()> {
    let _lock = files::lock(&checkout.root().join("target").join("plugins.lock"))?;
    let metadata = shallow_metadata(checkout, &checkout.root().join("Cargo.toml"))?;
    let tiers: Vec<&Package> = tiers(&metadata).collect();
    if tiers.is_empty() {
        bail!("the workspace has no `tier-*` crate to build");
    }
    let core = metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == "memory-core");
    let abi = core
        .context("the workspace has no `memory-core`")?
        .version
        .to_string();

    let (folder, test_folder) = (checkout.plugins(), checkout.test_plugins());
    let names: Vec<&str> = tiers.iter().map(|package| package.name.as_str()).collect();
    note(format_args!("plugins: building {}", names.join(", ")));
    let mut known: BTreeSet<PathBuf> = names
        .iter()
        .map(|name| folder.join(sidecar::file_name(name)))
        .collect();
    let mut arguments = Vec::new();
    for tier in &tiers {
        arguments.extend(["-p".to_owned(), tier.name.to_string()]);
    }
    let built = cargo_build(checkout, &arguments)?;
    for tier in &tiers {
        install(&folder, tier, &built, &abi)?;
    }

    for manifest in elsewhere::known(checkout)? {
        known.insert(folder.join(sidecar::file_name(&package_name(&manifest)?)));
    }
    for manifest in test_plugin_manifests(checkout)? {
        known.insert(test_folder.join(sidecar::file_name(&package_name(&manifest)?)));
        if test_plugins {
            build_test_plugin(checkout, &manifest, &[])?;
        }
    }
    for variant in variants::read(&checkout.root().join("tests/plugins/variants.toml"))? {
        known.insert(test_folder.join("hosts").join(&variant.name));
        known.insert(test_folder.join(sidecar::file_name(&variant.name)));
        if test_plugins {
            variant.check(checkout)?;
            let laid = variants::lay_out(checkout, &variant)?;
            build_test_plugin(checkout, &laid.plugin, &variant.features)?;
            if let Some(host) = &laid.host {
                build_test_host(
                    checkout,
                    host,
                    &test_folder.join("hosts").join(&variant.name),
                )?;
            }
        }
    }

    prune(checkout, &known)?;
    write_allow_file(checkout)
}

/// Returns the names of the tier crates.
pub(crate) fn tier_names(checkout: &Checkout) -> Result<Vec<String>> {
    let metadata = shallow_metadata(checkout, &checkout.root().join("Cargo.toml"))?;
    Ok(tiers(&metadata)
        .map(|package| package.name.to_string())
        .collect())
}

/// Returns the tier crates, which are known by the pattern of their names.
fn tiers(metadata: &Metadata) -> impl Iterator<Item = &Package> {
    metadata
        .packages
        .iter()
        .filter(|package| package.name.starts_with("tier-"))
}

/// The tier that third parties start from; it is built with the test plugins, so that it stays good.
pub(crate) const TEMPLATE: &str = "examples/tier-template";

/// Returns the manifests of the plugins that only tests load.
fn test_plugin_manifests(checkout: &Checkout) -> Result<Vec<PathBuf>> {
    let folder = checkout.root().join("tests").join("plugins");
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot list `{}`", folder.display()));
        }
    };
    let mut manifests = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list `{}`", folder.display()))?;
        manifests.push(entry.path().join("Cargo.toml"));
    }
    manifests.push(checkout.root().join(TEMPLATE).join("Cargo.toml"));
    manifests.retain(|manifest| manifest.is_file());
    manifests.sort();
    Ok(manifests)
}

/// Builds one standalone test plugin with the versions that the workspace has locked.
fn build_test_plugin(checkout: &Checkout, manifest: &Path, features: &[String]) -> Result<()> {
    build_standalone(checkout, manifest, features, &checkout.test_plugins()).map(drop)
}

/// Builds one crate that is no member, installs it in a folder and returns its library there.
fn build_standalone(
    checkout: &Checkout,
    manifest: &Path,
    features: &[String],
    folder: &Path,
) -> Result<PathBuf> {
    let lock = manifest.with_file_name("Cargo.lock");
    // A lock file in a folder of somebody else is theirs once it is there.
    if manifest.starts_with(checkout.root()) || !lock.exists() {
        seed_lock(&checkout.root().join("Cargo.lock"), &lock)?;
    }
    let metadata = shallow_metadata(checkout, manifest)?;
    let package = metadata.packages.first();
    let package =
        package.with_context(|| format!("`{}` describes no package", manifest.display()))?;
    note(format_args!("plugins: building {}", package.name));
    let mut arguments = vec!["--manifest-path".to_owned(), manifest.display().to_string()];
    if !features.is_empty() {
        arguments.extend(["--features".to_owned(), features.join(",")]);
    }
    let built = cargo_build(checkout, &arguments)?;
    let abi = locked_version(&lock, "memory-core")?;
    install(folder, package, &built, &abi)
}

/// Builds the host program of a variant and puts it into its place.
///
/// It has the profile and the versions of the variant's plugin, so the border and all below it are compiled once for both.
fn build_test_host(checkout: &Checkout, manifest: &Path, place: &Path) -> Result<()> {
    seed_lock(
        &checkout.root().join("Cargo.lock"),
        &manifest.with_file_name("Cargo.lock"),
    )?;
    note(format_args!(
        "plugins: building host {} for tests",
        package_name(manifest)?
    ));
    let arguments = ["--manifest-path".to_owned(), manifest.display().to_string()];
    let artifacts = artifacts(checkout, "--bins", &arguments)?;
    let program = artifacts
        .iter()
        .find_map(|artifact| artifact.executable.as_ref());
    let program = program.with_context(|| format!("`{}` builds no program", manifest.display()))?;
    let folder = place.parent().context("a program lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    // Copied aside and renamed: a running program cannot be written to.
    let part = files::part_path(place);
    fs::copy(program, &part)
        .and_then(|_| fs::rename(&part, place))
        .with_context(|| format!("cannot write `{}`", place.display()))
}

/// Returns the name that a manifest gives its package.
fn package_name(manifest: &Path) -> Result<String> {
    let document = read_toml(manifest)?;
    let name = document
        .get("package")
        .and_then(|package| package.get("name")?.as_str());
    Ok(name
        .with_context(|| format!("`{}` names no package", manifest.display()))?
        .to_owned())
}

/// Copies the workspace's lock file beside a plugin's manifest unless a newer one stands there; cargo prunes it.
///
/// Without that cargo would choose the newest version of everything and compile all of it a second time.
fn seed_lock(workspace: &Path, lock: &Path) -> Result<()> {
    let modified = |path: &Path| {
        fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    if modified(lock) < modified(workspace) {
        fs::copy(workspace, lock).with_context(|| format!("cannot write `{}`", lock.display()))?;
    }
    Ok(())
}

fn locked_version(lock: &Path, package: &str) -> Result<String> {
    let document = read_toml(lock)?;
    let packages = document
        .get("package")
        .and_then(toml_edit::Item::as_array_of_tables);
    packages
        .into_iter()
        .flatten()
        .find(|table| table.get("name").and_then(toml_edit::Item::as_str) == Some(package))
        .and_then(|table| Some(table.get("version")?.as_str()?.to_owned()))
        .with_context(|| format!("`{}` locks no `{package}`", lock.display()))
}

fn read_toml(path: &Path) -> Result<DocumentMut> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    text.parse()
        .with_context(|| format!("`{}` is not TOML", path.display()))
}

fn build_folder(checkout: &Checkout) -> PathBuf {
    checkout.root().join("target").join("plugin-build")
}

/// Returns the names of the packages that are members of the workspace.
pub(crate) fn members(checkout: &Checkout) -> Result<Vec<String>> {
    let metadata = shallow_metadata(checkout, &checkout.root().join("Cargo.toml"))?;
    Ok(metadata
        .workspace_packages()
        .into_iter()
        .map(|package| package.name.to_string())
        .collect())
}

/// Returns what cargo knows about the packages of one manifest, without resolving dependencies.
fn shallow_metadata(checkout: &Checkout, manifest: &Path) -> Result<Metadata> {
    let mut command = checkout.cargo();
    command
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--manifest-path",
        ])
        .arg(manifest);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start `{}`", describe(&command)))?;
    if !output.status.success() {
        bail!("`{}` failed ({})", describe(&command), output.status);
    }
    MetadataCommand::parse(String::from_utf8_lossy(&output.stdout))
        .context("cannot read what `cargo metadata` printed")
}

/// A library that cargo reported.
struct Built {
    package: String,
    library: PathBuf,
}

/// Builds under the `plugin` profile and returns the dynamic libraries, new or up to date.
fn cargo_build(checkout: &Checkout, arguments: &[String]) -> Result<Vec<Built>> {
    let library = |artifact: Artifact| {
        let library = artifact
            .filenames
            .iter()
            .find(|name| name.as_str().ends_with(std::env::consts::DLL_SUFFIX))
            .filter(|_| artifact.target.is_cdylib())?;
        Some(Built {
            package: artifact.manifest_path.as_str().to_owned(),
            library: library.as_std_path().to_path_buf(),
        })
    };
    let artifacts = artifacts(checkout, "--lib", arguments)?;
    Ok(artifacts.into_iter().filter_map(library).collect())
}

/// Builds one kind of target under the `plugin` profile and returns everything that cargo reports.
fn artifacts(checkout: &Checkout, kind: &str, arguments: &[String]) -> Result<Vec<Artifact>> {
    let mut command = checkout.cargo();
    command.args([
        "build",
        "--profile",
        "plugin",
        kind,
        "--message-format",
        "json-render-diagnostics",
    ]);
    command
        .arg("--target-dir")
        .arg(build_folder(checkout))
        .args(arguments);
    let line = describe(&command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    let output = child
        .stdout
        .take()
        .context("standard output was asked for as a pipe")?;
    let mut built = Vec::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        let message = message.with_context(|| format!("cannot read the output of `{line}`"))?;
        if let Message::CompilerArtifact(artifact) = message {
            built.push(artifact);
        }
    }
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(built)
}

/// Copies a built library into a plugin folder, writes its manifest beside it, and returns its path there.
fn install(folder: &Path, package: &Package, built: &[Built], abi: &str) -> Result<PathBuf> {
    let found = built
        .iter()
        .find(|candidate| candidate.package == package.manifest_path.as_str());
    let found = found.with_context(|| {
        format!("`{}` builds no dynamic library; its manifest needs `crate-type = [\"cdylib\", \"rlib\"]`", package.name)
    })?;
    install_library(folder, &package.name, &package.metadata, found, abi)
}

fn install_library(
    folder: &Path,
    id: &str,
    metadata: &serde_json::Value,
    built: &Built,
    abi: &str,
) -> Result<PathBuf> {
    let library = &built.library;
    let bytes =
        fs::read(library).with_context(|| format!("cannot read `{}`", library.display()))?;
    let file = library
        .file_name()
        .context("a library has a file name")?
        .to_string_lossy()
        .into_owned();
    let sidecar = Sidecar::new(id, metadata, file, &bytes, abi)?;

    let installed = folder.join(&sidecar.file);
    let changed = files::write_atomic(&installed, &bytes)?;
    let manifest = folder.join(sidecar.file_name());
    if files::write_atomic(&manifest, sidecar.render().as_bytes())? {
        remove_signature(&manifest)?;
    }
    say(format_args!(
        "{:<20} {:<4} {:>10}  {}{}",
        sidecar.id,
        sidecar.tier,
        human_bytes(sidecar.bytes),
        sidecar.file,
        if changed { "" } else { "  (unchanged)" }
    ));
    Ok(installed)
}

/// Removes the signature of a manifest that has just changed. It fits no longer, and a host that knows any key would refuse
/// the plugin for it.
fn remove_signature(manifest: &Path) -> Result<()> {
    let signature = sidecar::signature(manifest);
    match fs::remove_file(&signature) {
        Ok(()) => {
            note(format_args!(
                "plugins: removed `{}`, which signed the build before; sign this one with `strata plugins sign`",
                signature.display()
            ));
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => {
            Err(error).with_context(|| format!("cannot remove `{}`", signature.display()))
        }
    }
}

/// Removes what belongs to crates that are gone, so that a deleted tier cannot be loaded any more.
fn prune(checkout: &Checkout, known: &BTreeSet<PathBuf>) -> Result<()> {
    let folder = checkout.plugins();
    let mut wanted = BTreeSet::new();
    for path in find_sidecars(&folder)? {
        if known.contains(&path) {
            wanted.insert(path.with_file_name(Sidecar::read(&path)?.file));
            wanted.insert(sidecar::signature(&path));
            wanted.insert(path);
        }
    }
    for path in files::walk(&folder)? {
        if !wanted.contains(&path) && !known.contains(&path) {
            note(format_args!(
                "plugins: removing `{}`, which no crate makes any more",
                path.display()
            ));
            fs::remove_file(&path)
                .with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
    }
    Ok(())
}

/// Writes the hashes that a host may trust, outside the plugin folder: a list beside the plugins would vouch for itself.
///
/// Plugins that only tests load are not among them.
fn write_allow_file(checkout: &Checkout) -> Result<()> {
    let mut sidecars = Vec::new();
    let folder = checkout.plugins();
    for path in find_sidecars(&folder)? {
        if path.parent() == Some(folder.as_path()) {
            sidecars.push(Sidecar::read(&path)?);
        }
    }
    let path = checkout.root().join("target").join("plugins.allow.toml");
    files::write_atomic(&path, sidecar::render_allow_file(&sidecars).as_bytes())?;
    note(format_args!(
        "plugins: ready in `{}`, trusted by `{}`",
        checkout.plugins().display(),
        path.display()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::{Built, Options, install_library, locked_version, prune, seed_lock};
    use crate::checkout::Checkout;

    #[test]
    fn plugins_without_a_crate_are_removed() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        fs::write(folder.path().join("Cargo.toml"), "").expect("write");
        let checkout = Checkout::at(folder.path()).expect("a checkout");
        let plugins = checkout.plugins();
        fs::create_dir_all(&plugins).expect("write");
        for id in ["tier-a", "tier-b"] {
            let text = format!(
                "id = \"{id}\"\ntier = \"v1\"\nfile = \"lib{id}.so\"\nsha256 = \"00\"\nbytes = 1\nabi = \"1.0.0\"\nrequires = []\nuses = []\n"
            );
            fs::write(plugins.join(format!("{id}.plugin.toml")), text).expect("write");
            fs::write(plugins.join(format!("lib{id}.so")), "x").expect("write");
        }
        for stray in [
            "stray.so",
            "tier-a.plugin.toml.sig",
            "tier-b.plugin.toml.sig",
        ] {
            fs::write(plugins.join(stray), "x").expect("write");
        }
        prune(
            &checkout,
            &BTreeSet::from([plugins.join("tier-b.plugin.toml")]),
        )
        .expect("pruned");
        let left = crate::files::walk(&plugins).expect("walk");
        assert_eq!(
            left,
            [
                plugins.join("libtier-b.so"),
                plugins.join("tier-b.plugin.toml"),
                plugins.join("tier-b.plugin.toml.sig")
            ]
        );
    }

    #[test]
    fn a_signature_goes_with_the_build_that_it_signed() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let library = folder.path().join("libmine.so");
        let metadata =
            serde_json::json!({ "strata": { "tier": "v3", "requires": [], "uses": [] } });
        let plugins = folder.path().join("plugins");
        let signature = plugins.join("mine.plugin.toml.sig");
        let install = |bytes: &str| {
            fs::write(&library, bytes).expect("write");
            let built = Built {
                package: "Cargo.toml".to_owned(),
                library: library.clone(),
            };
            install_library(&plugins, "mine", &metadata, &built, "1.0.0").expect("installed");
        };
        install("one");
        fs::write(&signature, "signed").expect("write");
        install("one");
        assert!(signature.exists(), "an equal build has the same manifest");
        install("two");
        assert!(!signature.exists(), "it fits no longer");
    }

    #[test]
    fn arguments_are_read() {
        let parse = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|&text| text.to_owned()).collect();
            Options::parse(&args)
        };
        assert_eq!(parse(&[]).expect("fine"), Options::default());
        assert!(parse(&["--test-plugins"]).expect("fine").test_plugins);
        let path = parse(&["--path", "mine"]).expect("fine").path;
        assert_eq!(path.as_deref(), Some(Path::new("mine")));
        for wrong in [
            &["--path"][..],
            &["--frob"],
            &["--path", "x", "--test-plugins"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn lock_file_is_seeded_and_read() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let workspace = folder.path().join("Cargo.lock");
        let lock = folder.path().join("plugin.lock");
        fs::write(
            &workspace,
            "[[package]]\nname = \"memory-core\"\nversion = \"1.2.3\"\n",
        )
        .expect("write");
        seed_lock(&workspace, &lock).expect("seeded");
        assert_eq!(
            locked_version(&lock, "memory-core").expect("locked"),
            "1.2.3"
        );
        assert!(locked_version(&lock, "other").is_err());
    }
}
