//! The border after a release: what changed since the newest tag, and whether the version says so.
//!
//! The layout snapshot decides, not the source text: a comment or another implementation behind the same layout needs no
//! version, growth at the ends of what may grow needs a minor one, anything else a major one. Until a release is tagged the
//! border may move freely; a checkout that cannot know (no git, no tags, a shallow clone) is told so and passes.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use anyhow::{Context as _, Result};
use cargo_metadata::semver::Version;
use toml_edit::DocumentMut;

use super::Finding;
use crate::checkout::Checkout;
use crate::git;

/// The crate whose version is that of the border.
const MANIFEST: &str = "memory-core/Cargo.toml";

/// The layout of everything that crosses, kept true by a test beside it.
const SNAPSHOT: &str = "memory-core/src/abi/host/layout/border.txt";

/// The ends of the names of types that may grow: tables of methods, and the root module.
const GROWING: [&str; 2] = ["::VTable", "::TierModule"];

/// What became of the border since a release; the text names the first difference.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Nothing,
    Grown(String),
    Broken(String),
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => formatter.write_str("the layout is the same"),
            Self::Grown(first) => write!(formatter, "the layout has grown: {first}"),
            Self::Broken(first) => write!(formatter, "the layout has changed: {first}"),
        }
    }
}

/// Holds the border against the newest release, and returns one line on what was compared.
pub(super) fn check(checkout: &Checkout) -> Result<(Vec<Finding>, String)> {
    let unarmed = |why: &str| {
        let line = format!("the border's version is not checked: {why}");
        Ok((Vec::new(), line))
    };
    let root = checkout.root();
    let Some((tag, _)) = git::newest_release(root) else {
        return unarmed("this commit descends from no release tag (`v*`) that git knows of");
    };
    let (Some(manifest), Some(before)) = (
        git::file_at(root, &tag, MANIFEST),
        git::file_at(root, &tag, SNAPSHOT),
    ) else {
        return unarmed(&format!("release `{tag}` has no border"));
    };
    let read = |file: &str| {
        fs::read_to_string(root.join(file)).with_context(|| format!("cannot read `{file}`"))
    };
    let then = version(&manifest).with_context(|| format!("`{MANIFEST}` at `{tag}`"))?;
    let now = version(&read(MANIFEST)?).with_context(|| format!("`{MANIFEST}`"))?;
    let change = compare(&before, &read(SNAPSHOT)?);
    let line = format!("the border is held against `{tag}` (memory-core {then}): {change}");
    let finding = judge(&tag, &then, &now, &change);
    Ok((finding.into_iter().collect(), line))
}

fn version(manifest: &str) -> Result<Version> {
    let manifest: DocumentMut = manifest.parse()?;
    let version = manifest
        .get("package")
        .and_then(|package| package.get("version")?.as_str());
    Ok(Version::parse(
        version.context("it has no version of its own")?,
    )?)
}

/// Returns what is wrong with a version, given what changed since another.
fn judge(tag: &str, then: &Version, now: &Version, change: &Change) -> Option<Finding> {
    let least = match change {
        Change::Nothing => then.clone(),
        Change::Grown(_) => Version::new(then.major, then.minor + 1, 0),
        Change::Broken(_) => Version::new(then.major + 1, 0, 0),
    };
    (now.cmp_precedence(&least) == Ordering::Less).then(|| {
        Finding::fail(
            MANIFEST,
            format!(
                "says {now}, but since `{tag}` (memory-core {then}) {change}; set the version to {least} or later, or take the \
                 change back (docs/abi.md has the rules)"
            ),
        )
    })
}

/// One type of a snapshot: its size and alignment, and its fields or methods in order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Type {
    size: String,
    alignment: String,
    entries: Vec<String>,
}

/// Reads a snapshot. Its first line names the version, which is compared elsewhere.
fn types(snapshot: &str) -> BTreeMap<String, Type> {
    let mut types: BTreeMap<String, Type> = BTreeMap::new();
    let mut current = None;
    for line in snapshot.lines().skip(1).filter(|line| !line.is_empty()) {
        let mut parts = line.rsplitn(3, ", ");
        let (alignment, size, name) = (parts.next(), parts.next(), parts.next());
        if let (Some(alignment), Some(size), Some(name)) = (alignment, size, name)
            && alignment.starts_with("alignment ")
            && size.ends_with(" bytes")
        {
            let found = Type {
                size: size.to_owned(),
                alignment: alignment.to_owned(),
                entries: Vec::new(),
            };
            types.insert(name.to_owned(), found);
            current = Some(name.to_owned());
        } else if let Some(found) = current.as_ref().and_then(|name| types.get_mut(name)) {
            match found.entries.last_mut() {
                // What belongs to an entry stands below it, not indented.
                Some(entry) if !line.starts_with(' ') => {
                    entry.push('\n');
                    entry.push_str(line);
                }
                _ => found.entries.push(line.trim().to_owned()),
            }
        }
    }
    types
}

fn compare(before: &str, now: &str) -> Change {
    let (before, now) = (types(before), types(now));
    let mut grown = None;
    for (name, old) in &before {
        let Some(new) = now.get(name) else {
            return Change::Broken(format!("`{name}` is gone"));
        };
        let may_grow = GROWING.iter().any(|end| name.ends_with(end));
        if old == new {
            continue;
        }
        let common = old.entries.iter().zip(&new.entries);
        let differing = common.clone().find(|(old, new)| old != new);
        if let Some((old, _)) = differing {
            return Change::Broken(format!("`{}` of `{name}`", first_word(old)));
        }
        let added = new.entries.get(old.entries.len());
        match added {
            Some(added) if may_grow && old.alignment == new.alignment => {
                grown.get_or_insert(format!("`{}` of `{name}`", first_word(added)));
            }
            _ => return Change::Broken(format!("`{name}`")),
        }
    }
    let added = now.keys().find(|name| !before.contains_key(*name));
    grown
        .or_else(|| added.map(|name| format!("`{name}`")))
        .map_or(Change::Nothing, Change::Grown)
}

/// Returns the name that an entry begins with.
fn first_word(entry: &str) -> &str {
    entry.split(':').next().unwrap_or(entry)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::{Change, check, compare};
    use crate::checkout::Checkout;

    const BORDER: &str = include_str!("../../../memory-core/src/abi/host/layout/border.txt");

    const SMALL: &str = "border 1.0.0\n\ncore::Hit, 8 bytes, alignment 4\n    page: u32\n    score: f32\n\n\
                         core::Search_trait::VTable, 16 bytes, alignment 8\n    count: unsafe fn(_self,: RRef<'a>)->u32\n\
                         lifetime indices:[A, B]\n\n    find: unsafe fn(_self,: RRef<'a>)->Hit\nlifetime indices:[A, B]\n\n";

    const ADDED: &str = "    more: unsafe fn(_self,: RRef<'a>)->u32\nlifetime indices:[A, B]\n\n";

    fn grown() -> String {
        SMALL.replace("VTable, 16 bytes", "VTable, 24 bytes") + ADDED
    }

    #[test]
    fn the_real_snapshot_is_understood() {
        let types = super::types(BORDER);
        let heads = BORDER
            .lines()
            .filter(|line| line.contains(" bytes, alignment "))
            .count();
        assert_eq!((types.len(), types.len() > 40), (heads, true));
        for end in super::GROWING {
            let growing = types.iter().find(|(name, _)| name.ends_with(end));
            let (_, growing) = growing.expect("there is one");
            assert!(!growing.entries.is_empty());
        }
        assert_eq!(compare(BORDER, BORDER), Change::Nothing);
    }

    #[test]
    fn growth_at_the_end_is_told_from_any_other_change() {
        let is = |now: &str| compare(SMALL, now);
        assert_eq!(
            is(&SMALL.replace("border 1.0.0", "border 1.0.1")),
            Change::Nothing
        );
        let method = "`more` of `core::Search_trait::VTable`";
        assert_eq!(is(&grown()), Change::Grown(method.to_owned()));
        let new = format!("{SMALL}core::New, 4 bytes, alignment 4\n    x: u32\n\n");
        assert_eq!(is(&new), Change::Grown("`core::New`".to_owned()));
        for (now, first) in [
            (
                SMALL.replace("score: f32", "score: f64"),
                "`score` of `core::Hit`",
            ),
            (
                SMALL.replace("    score: f32\n", "    score: f32\n    rank: u32\n"),
                "`core::Hit`",
            ),
            (
                SMALL.replace("core::Hit, 8", "core::Hit, 12"),
                "`core::Hit`",
            ),
            (
                SMALL.replace("    find: ", "    seek: "),
                "`find` of `core::Search_trait::VTable`",
            ),
            (
                SMALL.replace(
                    "->Hit\nlifetime indices:[A, B]",
                    "->Hit\nlifetime indices:[A, A]",
                ),
                "`find` of `core::Search_trait::VTable`",
            ),
            (
                SMALL.replace("core::Hit", "core::Found"),
                "`core::Hit` is gone",
            ),
        ] {
            assert_eq!(is(&now), Change::Broken(first.to_owned()));
        }
        // A method in the middle moves those behind it.
        let middle = SMALL.replace("    find: ", &format!("{ADDED}    find: "));
        assert!(matches!(is(&middle), Change::Broken(_)));
        assert!(
            matches!(compare(&grown(), SMALL), Change::Broken(_)),
            "a method is gone"
        );
    }

    /// A checkout with a border, in a repository of its own.
    struct Repository {
        folder: tempfile::TempDir,
    }

    impl Repository {
        fn new() -> Self {
            let repository = Self {
                folder: tempfile::tempdir().expect("a temporary folder can be made"),
            };
            repository.write("Cargo.toml", "");
            repository.write_border("1.0.0", SMALL);
            repository
        }

        fn path(&self) -> &Path {
            self.folder.path()
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("create");
            std::fs::write(path, text).expect("write");
        }

        fn write_border(&self, version: &str, snapshot: &str) {
            let manifest = format!("[package]\nname = \"memory-core\"\nversion = \"{version}\"\n");
            self.write(super::MANIFEST, &manifest);
            self.write(super::SNAPSHOT, snapshot);
        }

        fn git(&self, arguments: &[&str]) {
            let status = Command::new("git")
                .arg("-C")
                .arg(self.path())
                .args([
                    "-c",
                    "user.name=A",
                    "-c",
                    "user.email=a@example.org",
                    "-c",
                    "commit.gpgsign=false",
                ])
                .args(["-c", "tag.gpgsign=false"])
                .args(arguments)
                .output()
                .expect("git runs");
            assert!(status.status.success(), "{arguments:?}: {status:?}");
        }

        fn release(&self, tag: &str) {
            self.git(&["add", "--all"]);
            self.git(&["commit", "--quiet", "--allow-empty", "--message", tag]);
            self.git(&["tag", tag]);
        }

        /// Returns what is found, and the line on what was compared.
        fn check(&self) -> (Vec<String>, String) {
            let checkout = Checkout::at(self.path()).expect("a checkout");
            let (findings, line) = check(&checkout).expect("it can be read");
            let findings = findings.iter().map(ToString::to_string).collect();
            (findings, line)
        }
    }

    #[test]
    fn without_a_release_nothing_is_checked() {
        let repository = Repository::new();
        let unarmed = |repository: &Repository| {
            let (findings, line) = repository.check();
            assert_eq!(findings, Vec::<String>::new());
            assert!(line.contains("is not checked"), "{line}");
        };
        unarmed(&repository);
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        unarmed(&repository);
        repository.release("first");
        repository.release("v1.0.0-rc.1");
        repository.write_border("1.0.0", &grown());
        unarmed(&repository);

        // A clone that has the commit and not the tag.
        repository.release("v1.0.0");
        let clone = Repository::new();
        let source = format!("file://{}", repository.path().display());
        let target = clone.path().join("clone");
        clone.git(&[
            "clone",
            "--quiet",
            "--depth",
            "1",
            "--no-tags",
            &source,
            &target.display().to_string(),
        ]);
        let checkout = Checkout::at(&target).expect("a checkout");
        let (_, line) = check(&checkout).expect("it can be read");
        assert!(line.contains("is not checked"), "{line}");
    }

    #[test]
    fn a_release_arms_the_version() {
        let repository = Repository::new();
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        repository.release("v0.1.0");
        let (findings, line) = repository.check();
        assert_eq!(findings, Vec::<String>::new());
        assert_eq!(
            line,
            "the border is held against `v0.1.0` (memory-core 1.0.0): the layout is the same"
        );
        let broken = SMALL.replace("score: f32", "score: f64");
        for (version, snapshot, needed) in [
            ("1.0.0", SMALL, None),
            ("1.0.1", SMALL, None),
            ("0.9.0", SMALL, Some("1.0.0")),
            ("1.0.0", &grown(), Some("1.1.0")),
            ("1.0.9", &grown(), Some("1.1.0")),
            ("1.1.0", &grown(), None),
            ("2.0.0", &grown(), None),
            ("1.1.0", &broken, Some("2.0.0")),
            ("2.0.0", &broken, None),
        ] {
            repository.write_border(version, snapshot);
            let (findings, _) = repository.check();
            assert_eq!(
                findings.len(),
                usize::from(needed.is_some()),
                "{version}: {findings:?}"
            );
            if let (Some(needed), Some(finding)) = (needed, findings.first()) {
                assert!(
                    finding.contains(&format!("set the version to {needed} or later")),
                    "{finding}"
                );
            }
        }

        // The next release is the new measure, by version and not by the order of tags.
        repository.write_border("1.1.0", &grown());
        repository.release("v0.10.0");
        repository.git(&["tag", "v0.9.0", "v0.1.0"]);
        let (findings, line) = repository.check();
        assert_eq!(findings, Vec::<String>::new());
        assert!(line.contains("`v0.10.0` (memory-core 1.1.0)"), "{line}");
    }
}
