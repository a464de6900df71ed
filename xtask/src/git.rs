//! What the repository knows: which files are tracked, which releases were tagged, how a file was at one of them.
//!
//! A checkout without git, or a shallow one without tags, is a normal place to build in, so everything here can answer
//! "not known" and the callers say what that means.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::semver::Version;

/// The prefix of release tags.
const RELEASE: char = 'v';

/// Returns what git prints, or `None` where it cannot answer.
fn ask(root: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then_some(output.stdout)
}

/// Returns the tracked files, relative to the root of the checkout.
pub(crate) fn tracked_files(root: &Path) -> Option<Vec<PathBuf>> {
    let listed = ask(root, &["ls-files", "-z"])?;
    let names = String::from_utf8(listed).ok()?;
    Some(names.split_terminator('\0').map(PathBuf::from).collect())
}

/// Returns the newest release that this commit descends from, as its tag and version. Pre-releases promise nothing.
pub(crate) fn newest_release(root: &Path) -> Option<(String, Version)> {
    // Not a folder that happens to lie in somebody else's repository.
    let top = ask(root, &["rev-parse", "--show-toplevel"])?;
    let top = PathBuf::from(String::from_utf8(top).ok()?.trim_end());
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let tags = ask(root, &["tag", "--merged", "HEAD"])?;
    let tags = String::from_utf8(tags).ok()?;
    let releases = tags.lines().filter_map(|tag| {
        let version = Version::parse(tag.strip_prefix(RELEASE)?).ok()?;
        version.pre.is_empty().then(|| (tag.to_owned(), version))
    });
    releases.max_by(|left, right| left.1.cmp(&right.1))
}

/// Returns the text of a file as it was at a tag.
pub(crate) fn file_at(root: &Path, tag: &str, file: &str) -> Option<String> {
    String::from_utf8(ask(root, &["show", &format!("{tag}:{file}")])?).ok()
}
