//! Plugins that a host must judge by their border, and hosts of another border: built against a changed copy of it.
//!
//! A version or layout that differs cannot be faked in a manifest, because the loader looks into the library. So the
//! border itself is copied, changed in the named places, and built for real: a test plugin, and a host where a newer host
//! has to be tried. What is changed is listed beside the test plugins; here is only how.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use toml_edit::{Array, DocumentMut, Item, Table, value};

use crate::checkout::Checkout;
use crate::files;

/// One way in which the border differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variant {
    /// The name of the plugin that comes out.
    pub(super) name: String,
    /// The test plugin that is built.
    base: String,
    /// The version that `memory-core` claims, where it is not its own.
    version: Option<String>,
    /// Features of the test plugin that use what was added.
    pub(super) features: Vec<String>,
    /// The test host that is built as well.
    host: Option<String>,
    replacements: Vec<Replacement>,
}

/// One change of a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Replacement {
    /// The path from the root.
    file: String,
    from: String,
    to: String,
}

/// Reads the list of variants; a missing list has none.
pub(super) fn read(path: &Path) -> Result<Vec<Variant>> {
    match fs::read_to_string(path) {
        Ok(text) => {
            parse(&text).with_context(|| format!("`{}` is no list of variants", path.display()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
}

fn parse(text: &str) -> Result<Vec<Variant>> {
    let document: DocumentMut = text.parse()?;
    tables(document.get("variant"))
        .map(|table| {
            let name = text_of(table, "name")?;
            let replacements = tables(table.get("replace")).map(|replacement| {
                Ok(Replacement {
                    file: text_of(replacement, "file")?,
                    from: text_of(replacement, "from")?,
                    to: text_of(replacement, "to")?,
                })
            });
            Ok(Variant {
                base: text_of(table, "base")?,
                version: table
                    .get("version")
                    .and_then(Item::as_str)
                    .map(str::to_owned),
                features: table
                    .get("features")
                    .and_then(Item::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(|feature| feature.as_str().map(str::to_owned))
                    .collect(),
                host: table.get("host").and_then(Item::as_str).map(str::to_owned),
                replacements: replacements
                    .collect::<Result<_>>()
                    .with_context(|| format!("variant `{name}`"))?,
                name,
            })
        })
        .collect()
}

fn tables(item: Option<&Item>) -> impl Iterator<Item = &Table> {
    item.and_then(Item::as_array_of_tables)
        .into_iter()
        .flatten()
}

fn text_of(table: &Table, key: &str) -> Result<String> {
    let text = table.get(key).and_then(Item::as_str);
    Ok(text
        .with_context(|| format!("an entry lacks the text `{key}`"))?
        .to_owned())
}

/// Where the crates to build lie in a copy.
pub(super) struct LaidOut {
    /// The plugin's manifest.
    pub(super) plugin: PathBuf,
    /// The host's manifest, where there is one.
    pub(super) host: Option<PathBuf>,
}

/// Lays the changed copy out under `target/plugin-variants`.
///
/// The copy keeps the places of the original, so that the paths between the crates hold. Files that are equal already are
/// left alone, so that cargo sees nothing to do.
pub(super) fn lay_out(checkout: &Checkout, variant: &Variant) -> Result<LaidOut> {
    let root = checkout
        .root()
        .join("target")
        .join("plugin-variants")
        .join(&variant.name);
    let plugin = variant.plugin();
    let mut wanted = BTreeSet::new();
    for folder in variant.folders() {
        for path in files::walk_sources(&checkout.root().join(&folder))? {
            // The copy has versions of its own, so it gets a lock file of its own.
            if path.file_name().is_some_and(|name| name == "Cargo.lock") {
                continue;
            }
            let inside = path
                .strip_prefix(checkout.root())
                .context("a walked file lies below its root")?;
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
            let bytes = variant.change(inside, &plugin, bytes)?;
            let copy = root.join(inside);
            files::write_atomic(&copy, &bytes)?;
            wanted.insert(copy);
        }
    }
    let workspace = root.join("Cargo.toml");
    let manifest = workspace_manifest(checkout, &variant.members())?;
    files::write_atomic(&workspace, manifest.as_bytes())?;
    wanted.insert(workspace);
    for path in files::walk(&root)? {
        let is_lock = path.file_name().is_some_and(|name| name == "Cargo.lock");
        if !is_lock && !wanted.contains(&path) {
            fs::remove_file(&path)
                .with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
    }
    let host = variant.host_folder();
    Ok(LaidOut {
        plugin: root.join(plugin).join("Cargo.toml"),
        host: host.map(|host| root.join(host).join("Cargo.toml")),
    })
}

/// Returns the root manifest with only the copied members: they inherit their keys and versions from there.
fn workspace_manifest(checkout: &Checkout, members: &[&str]) -> Result<String> {
    let mut manifest = super::read_toml(&checkout.root().join("Cargo.toml"))?;
    let workspace = manifest.get_mut("workspace").and_then(Item::as_table_mut);
    let workspace = workspace.context("the root manifest has no `[workspace]`")?;
    workspace.insert("members", value(members.iter().copied().collect::<Array>()));
    workspace.remove("exclude");
    workspace.remove("default-members");
    Ok(manifest.to_string())
}

impl Variant {
    /// The members of the workspace that are copied.
    fn members(&self) -> Vec<&'static str> {
        match self.host {
            Some(_) => vec!["memory-core", "plugin-host"],
            None => vec!["memory-core"],
        }
    }

    /// The folder of the plugin.
    fn plugin(&self) -> PathBuf {
        Path::new("tests").join("plugins").join(&self.base)
    }

    /// The folder of the host, where there is one.
    fn host_folder(&self) -> Option<PathBuf> {
        let host = self.host.as_ref()?;
        Some(Path::new("tests").join("hosts").join(host))
    }

    /// Every folder that is copied.
    fn folders(&self) -> Vec<PathBuf> {
        let members = self.members().into_iter().map(PathBuf::from);
        members
            .chain([self.plugin()])
            .chain(self.host_folder())
            .collect()
    }

    /// Returns a file's content as this variant wants it.
    fn change(&self, inside: &Path, plugin: &Path, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let edited = if inside == plugin.join("Cargo.toml") {
            Some(set_package_key(&bytes, "name", &self.name))
        } else if inside == Path::new("memory-core/Cargo.toml") {
            let version = self.version.as_ref();
            version.map(|version| set_package_key(&bytes, "version", version))
        } else {
            None
        };
        let mut bytes = edited.transpose()?.unwrap_or(bytes);
        for replacement in &self.replacements {
            if inside == Path::new(&replacement.file) {
                bytes = self.replace(replacement, &bytes)?;
            }
        }
        Ok(bytes)
    }

    fn replace(&self, replacement: &Replacement, bytes: &[u8]) -> Result<Vec<u8>> {
        let text = std::str::from_utf8(bytes)
            .with_context(|| format!("`{}` is not text", replacement.file))?;
        match text.matches(&replacement.from).count() {
            1 => Ok(text
                .replacen(&replacement.from, &replacement.to, 1)
                .into_bytes()),
            count => bail!(
                "variant `{}`: its text for `{}` occurs {count} times instead of once; \
                 bring tests/plugins/variants.toml up to date",
                self.name,
                replacement.file
            ),
        }
    }

    /// Fails if it names a file that is not copied, which would otherwise build an unchanged border.
    pub(super) fn check(&self, checkout: &Checkout) -> Result<()> {
        let crates = self.folders();
        for replacement in &self.replacements {
            let file = Path::new(&replacement.file);
            let copied = crates.iter().any(|folder| file.starts_with(folder));
            if !copied || !checkout.root().join(file).is_file() {
                bail!(
                    "variant `{}`: there is no `{}` in what it copies",
                    self.name,
                    replacement.file
                );
            }
        }
        for folder in crates {
            if !checkout.root().join(&folder).join("Cargo.toml").is_file() {
                bail!(
                    "variant `{}`: there is no crate `{}`",
                    self.name,
                    folder.display()
                );
            }
        }
        Ok(())
    }
}

fn set_package_key(manifest: &[u8], key: &str, text: &str) -> Result<Vec<u8>> {
    let mut document: DocumentMut = std::str::from_utf8(manifest)
        .context("a manifest is not text")?
        .parse()?;
    document["package"][key] = value(text);
    Ok(document.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{lay_out, parse};
    use crate::checkout::Checkout;

    const LIST: &str = "[[variant]]\nname = \"newer\"\nbase = \"probe\"\nversion = \"2.0.0\"\n\n\
                        [[variant.replace]]\nfile = \"memory-core/src/lib.rs\"\nfrom = \"f32\"\nto = \"f64\"\n";

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("create");
        fs::write(path, text).expect("write");
    }

    fn checkout(source: &str) -> (tempfile::TempDir, Checkout) {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        write(
            folder.path(),
            "Cargo.toml",
            "[workspace]\nmembers = [\"memory-core\", \"tier-*\"]\n",
        );
        write(
            folder.path(),
            "memory-core/Cargo.toml",
            "[package]\nname = \"memory-core\"\nversion = \"1.0.0\"\n",
        );
        write(folder.path(), "memory-core/src/lib.rs", source);
        write(
            folder.path(),
            "tests/plugins/probe/Cargo.toml",
            "[package]\nname = \"probe\"\n[workspace]\n",
        );
        let checkout = Checkout::at(folder.path()).expect("a checkout");
        (folder, checkout)
    }

    #[test]
    fn copy_is_changed_where_the_list_says_and_nowhere_else() {
        let variant = &parse(LIST).expect("a list")[0];
        let (folder, checkout) = checkout("score: f32");
        variant
            .check(&checkout)
            .expect("everything it names is there");
        let laid = lay_out(&checkout, variant).expect("laid out");
        let root = folder.path().join("target/plugin-variants/newer");
        let read = |file: &str| fs::read_to_string(root.join(file)).expect("read");
        assert_eq!(laid.plugin, root.join("tests/plugins/probe/Cargo.toml"));
        assert_eq!(laid.host, None);
        assert!(read("tests/plugins/probe/Cargo.toml").contains("name = \"newer\""));
        assert!(read("memory-core/Cargo.toml").contains("version = \"2.0.0\""));
        assert_eq!(read("memory-core/src/lib.rs"), "score: f64");
        assert_eq!(
            read("Cargo.toml"),
            "[workspace]\nmembers = [\"memory-core\"]\n"
        );
        assert_eq!(
            fs::read_to_string(folder.path().join("memory-core/src/lib.rs")).expect("read"),
            "score: f32"
        );

        write(&root, "memory-core/src/gone.rs", "stale");
        lay_out(&checkout, variant).expect("laid out again");
        assert!(!root.join("memory-core/src/gone.rs").exists());
    }

    #[test]
    fn a_host_is_copied_with_the_loader() {
        let (folder, checkout) = checkout("score: f32");
        let list = LIST.replace("base =", "host = \"small\"\nfeatures = [\"more\"]\nbase =");
        let variant = &parse(&list).expect("a list")[0];
        assert_eq!(variant.features, ["more"]);
        let error = variant.check(&checkout).expect_err("no loader");
        assert!(error.to_string().contains("plugin-host"), "{error}");
        write(folder.path(), "plugin-host/Cargo.toml", "");
        write(folder.path(), "tests/hosts/small/Cargo.toml", "");
        write(folder.path(), "tests/hosts/other/Cargo.toml", "");
        variant.check(&checkout).expect("all is there");
        let laid = lay_out(&checkout, variant).expect("laid out");
        let root = folder.path().join("target/plugin-variants/newer");
        assert_eq!(laid.host, Some(root.join("tests/hosts/small/Cargo.toml")));
        assert!(root.join("plugin-host/Cargo.toml").is_file());
        assert!(!root.join("tests/hosts/other").exists());
        let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("read");
        assert!(manifest.contains("\"plugin-host\""), "{manifest}");
    }

    #[test]
    fn replacement_must_match_once_and_its_file_exist() {
        let variant = &parse(LIST).expect("a list")[0];
        for (source, count) in [("score: i64", "0 times"), ("f32 f32", "2 times")] {
            let (_folder, checkout) = checkout(source);
            let error = lay_out(&checkout, variant).err().expect("no single match");
            assert!(error.to_string().contains(count), "{error}");
        }
        let (_folder, checkout) = checkout("f32");
        for path in ["memory-core/src/abi.rs", "Cargo.toml"] {
            let list = LIST.replace("memory-core/src/lib.rs", path);
            let elsewhere = &parse(&list).expect("a list")[0];
            assert!(elsewhere.check(&checkout).is_err(), "{path}");
        }
        assert!(parse("[[variant]]\nname = \"x\"\n").is_err());
    }
}
