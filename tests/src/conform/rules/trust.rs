//! The gates that every plugin passes before any code of it runs, tried on copies of this very one.

use std::path::PathBuf;
use std::sync::Arc;

use memory_core::causes::with_causes;
use plugin_host::{
    AllowEntry, AllowList, HostOptions, LoadError, PluginHost, PublicKey, SigningKey, Trust,
    TrustedKey, sha256_hex, signature_path,
};
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::conform::rig::Rig;
use crate::conform::rule::{Failure, Outcome, require};

/// What an author can do when a gate is open: nothing.
const GATE: &str = "report it as a fault of the loader";

/// A copy of the delivered plugin, with an allow file of its own.
struct Delivered<'a> {
    rig: &'a Rig,
    folder: TempDir,
    library: PathBuf,
    manifest: PathBuf,
    trusted: AllowList,
}

fn failed(what: &str, error: impl std::error::Error) -> Failure {
    Failure::new(
        format!("cannot {what}: {error}"),
        "make room for temporary files and try again",
    )
}

impl<'a> Delivered<'a> {
    fn new(rig: &'a Rig) -> Result<Self, Failure> {
        let folder = TempDir::with_prefix("strata-conform-");
        let folder = folder.map_err(|error| failed("make a temporary folder", error))?;
        let plugins = folder.path().join("plugins");
        std::fs::create_dir(&plugins).map_err(|error| failed("make a temporary folder", error))?;
        let copy = |from: &PathBuf| {
            let to = plugins.join(from.file_name().unwrap_or_default());
            std::fs::copy(from, &to).map_err(|error| failed("copy the plugin", error))?;
            Ok::<_, Failure>(to)
        };
        Ok(Self {
            rig,
            library: copy(&rig.files().library)?,
            manifest: copy(&rig.files().manifest)?,
            folder,
            trusted: AllowList::default(),
        })
    }

    fn list(&mut self, sha256: &str) {
        self.trusted.trust(AllowEntry {
            id: self.rig.sidecar().id.clone(),
            sha256: sha256.to_owned(),
            note: "listed by `conform`".to_owned(),
        });
    }

    fn list_key(&mut self, key: PublicKey) {
        self.trusted.trust_key(TrustedKey {
            id: "conform".to_owned(),
            ed25519: key,
            note: "listed by `conform`".to_owned(),
            plugins: None,
        });
    }

    fn sign(&self, key: &SigningKey) -> Result<(), Failure> {
        let manifest = read(&self.manifest)?;
        write(&signature_path(&self.manifest), key.sign(&manifest))
    }

    /// Changes one byte in the middle of the library, and returns the hash it has then.
    fn change_library(&self) -> Result<String, Failure> {
        let mut library = read(&self.library)?;
        let middle = library.len() / 2;
        if let Some(byte) = library.get_mut(middle) {
            *byte ^= 1;
        }
        write(&self.library, &library)?;
        Ok(sha256_hex(&library))
    }

    fn change_manifest(&self, change: impl FnOnce(String) -> String) -> Result<(), Failure> {
        let text = String::from_utf8_lossy(&read(&self.manifest)?).into_owned();
        write(&self.manifest, change(text))
    }

    fn host(&self) -> Result<Arc<PluginHost>, Failure> {
        let allow_file = self.folder.path().join("allow.toml");
        write(&allow_file, self.trusted.render())?;
        let options = HostOptions {
            folder: Some(self.folder.path().join("plugins")),
            allow_files: vec![allow_file],
            staging: self.folder.path().join("staging"),
            limits: self.rig.host().limits().clone(),
        };
        PluginHost::start(options, Handle::current())
            .map_err(|error| Failure::new(error.to_string(), "free some threads and try again"))
    }

    /// Returns by what the copy is trusted, without opening it.
    fn trust(&self) -> Result<Trust, Failure> {
        let broken = |error: &LoadError| Failure::new(with_causes(error), GATE);
        let verified = self.host()?.verify().map_err(|error| broken(&error))?;
        let own = verified.into_iter().next();
        match own.map(|own| own.and_then(|own| own.result.map(|()| own.trust))) {
            Some(Ok(Some(trust))) => Ok(trust),
            Some(Err(error)) => Err(broken(&error)),
            Some(Ok(None)) | None => Err(Failure::new("it is not found", GATE)),
        }
    }

    /// Asks a host for the tier, which must refuse it before it is opened, and checks the reason.
    async fn check_refused(
        &self,
        what: &str,
        is_reason: fn(&LoadError) -> bool,
    ) -> Result<(), Failure> {
        let host = self.host()?;
        let slot = host.slot("conform");
        let services = self.rig.world().services();
        slot.ensure(&self.rig.wanted(self.rig.config()), &services)
            .await;
        let status = slot.status();
        require!(
            status.serving.is_none() && host.builds().is_empty(),
            GATE,
            "{what} is loaded"
        );
        let problem = status.problem;
        require!(
            problem.as_deref().is_some_and(is_reason),
            GATE,
            "{what} is refused for another reason: {}",
            problem.map_or_else(String::new, |problem| with_causes(&*problem))
        );
        Ok(())
    }
}

fn read(path: &PathBuf) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| failed("read a copy of the plugin", error))
}

fn write(path: &PathBuf, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| failed("write a copy of the plugin", error))
}

pub(crate) async fn trust_gates(rig: &Rig) -> Outcome {
    let signed = check_delivered_signature(rig)?;
    check_hashes(rig).await?;
    check_signatures(rig).await?;
    Ok(format!(
        "{signed}; 7 changed or unlisted copies are refused unopened"
    ))
}

/// Checks that a signature which was delivered fits what was delivered with it.
fn check_delivered_signature(rig: &Rig) -> Result<&'static str, Failure> {
    let delivered = signature_path(&rig.files().manifest);
    if !delivered.exists() {
        return Ok("unsigned");
    }
    let text = String::from_utf8_lossy(&read(&delivered)?).into_owned();
    let mut copy = Delivered::new(rig)?;
    write(&signature_path(&copy.manifest), &text)?;
    // The second line names the key. One that is not named cannot be known here; then any key shows whether the rest of the
    // file is sound.
    let named = text
        .lines()
        .nth(1)
        .and_then(|line| line.trim().strip_prefix("key "));
    let Some(Ok(key)) = named.map(PublicKey::parse) else {
        return Ok("signed with a key that the signature does not name");
    };
    copy.list_key(key);
    copy.trust().map_err(|failure| {
        Failure::new(
            format!("the signature beside it does not fit: {}", failure.seen),
            "sign it again with `strata plugins sign` after each build, or remove the file; a host that lists any key refuses the plugin",
        )
    })?;
    Ok("signed")
}

/// Checks what a host does by the hash.
async fn check_hashes(rig: &Rig) -> Result<(), Failure> {
    let sha256 = &rig.sidecar().sha256;
    let mut copy = Delivered::new(rig)?;
    let is_unlisted = |error: &LoadError| matches!(error, LoadError::NotAllowed { .. });
    copy.check_refused("a build that nobody has listed", is_unlisted)
        .await?;
    copy.list(sha256);
    let by = copy.trust()?;
    require!(
        by == Trust::Hash,
        GATE,
        "a listed build is trusted by {by:?}"
    );

    let changed = copy.change_library()?;
    copy.check_refused("a library with one byte changed", |error| {
        matches!(error, LoadError::Hash { .. })
    })
    .await?;
    copy.change_manifest(|text| text.replace(sha256.as_str(), &changed))?;
    copy.check_refused(
        "a changed library with a manifest that fits it",
        is_unlisted,
    )
    .await?;

    let mut copy = Delivered::new(rig)?;
    copy.list(sha256);
    let library = read(&copy.library)?;
    write(&copy.library, &library[..library.len() / 2])?;
    copy.check_refused("a library that was cut short", |error| {
        matches!(error, LoadError::Length { .. })
    })
    .await
}

/// Checks what a host does by signatures.
async fn check_signatures(rig: &Rig) -> Result<(), Failure> {
    let make = || SigningKey::generate().map_err(|error| failed("make a key", error));
    let (listed, other) = (make()?, make()?);
    let is_misfit = |error: &LoadError| matches!(error, LoadError::Signature { .. });
    let mut copy = Delivered::new(rig)?;
    copy.list_key(listed.public());
    copy.sign(&listed)?;
    let by = copy.trust()?;
    require!(
        matches!(by, Trust::Key { .. }),
        GATE,
        "a build that a listed key signed is trusted by {by:?}"
    );
    copy.change_manifest(|text| format!("{text}\n"))?;
    copy.check_refused("a manifest that was changed after it was signed", is_misfit)
        .await?;
    copy.sign(&other)?;
    copy.check_refused("a build that an unlisted key signed", is_misfit)
        .await?;
    copy.list(&rig.sidecar().sha256);
    copy.check_refused(
        "a listed build with a signature that does not fit",
        is_misfit,
    )
    .await
}
