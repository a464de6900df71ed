//! Rules about `Cargo.toml` files: lints inherited everywhere, versions at the root only.

use toml_edit::{DocumentMut, Item, TableLike};

use super::{File, Finding};

/// The one crate with a version of its own: it is the version of the plugin border.
const VERSIONED: &str = "memory-core";

const DEPENDENCY_TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Checks every member's manifest. Crates with a `[workspace]` of their own stand outside and cannot inherit.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in members(files) {
        match file.text.parse::<DocumentMut>() {
            Ok(manifest) if manifest.contains_key("workspace") => {}
            Ok(manifest) => check_manifest(file, &manifest, &mut findings),
            Err(error) => findings.push(Finding::fail(
                &file.path,
                format!("is not TOML: {}", error.message()),
            )),
        }
    }
    findings
}

/// Returns the manifests below the root.
pub(super) fn members(files: &[File]) -> impl Iterator<Item = &File> {
    files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml"))
}

fn check_manifest(file: &File, manifest: &DocumentMut, findings: &mut Vec<Finding>) {
    if !inherits(manifest.get("lints")) {
        findings.push(Finding::fail(
            &file.path,
            "lacks `[lints] workspace = true`",
        ));
    }
    let package = manifest.get("package").and_then(Item::as_table_like);
    let name = package
        .and_then(|package| package.get("name"))
        .and_then(Item::as_str)
        .unwrap_or_default();
    let version = package.and_then(|package| package.get("version"));
    if name != VERSIONED && !inherits(version) {
        findings.push(Finding::fail(
            &file.path,
            "has a version of its own; write `version.workspace = true`",
        ));
    }
    check_dependencies(file, manifest.as_table(), findings);
    let targets = manifest.get("target").and_then(Item::as_table_like);
    for (_, target) in targets.into_iter().flat_map(TableLike::iter) {
        if let Some(target) = target.as_table_like() {
            check_dependencies(file, target, findings);
        }
    }
}

fn check_dependencies(file: &File, owner: &dyn TableLike, findings: &mut Vec<Finding>) {
    for table in DEPENDENCY_TABLES {
        let dependencies = owner.get(table).and_then(Item::as_table_like);
        for (name, dependency) in dependencies.into_iter().flat_map(TableLike::iter) {
            if !inherits(Some(dependency)) {
                findings.push(Finding::fail(
                    &file.path,
                    format!("gives `{name}` under `{table}` without `workspace = true`; versions stand in the root manifest"),
                ));
            }
        }
    }
}

/// Returns whether an item is a table that says `workspace = true`.
fn inherits(item: Option<&Item>) -> bool {
    let table = item.and_then(Item::as_table_like);
    table
        .and_then(|table| table.get("workspace"))
        .and_then(Item::as_bool)
        == Some(true)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{failures, files};
    use super::check;

    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\n[dependencies]\nserde.workspace = true\n\
                        zip = { workspace = true, features = [\"x\"] }\n[lints]\nworkspace = true\n";

    fn count(path: &str, text: &str) -> usize {
        failures(&check(&files(&[(path, text)]))).len()
    }

    #[test]
    fn inherited_manifest_passes() {
        assert_eq!(count("a/Cargo.toml", GOOD), 0);
    }

    #[test]
    fn each_departure_is_found() {
        assert_eq!(
            count(
                "a/Cargo.toml",
                &GOOD.replace("[lints]\nworkspace = true\n", "")
            ),
            1
        );
        assert_eq!(
            count(
                "a/Cargo.toml",
                &GOOD.replace("version.workspace = true", "version = \"0.2.0\"")
            ),
            1
        );
        assert_eq!(
            count(
                "a/Cargo.toml",
                &GOOD.replace("serde.workspace = true", "serde = \"1\"")
            ),
            1
        );
        assert_eq!(
            count(
                "a/Cargo.toml",
                &GOOD.replace("workspace = true, features", "version = \"9\", features")
            ),
            1
        );
        assert_eq!(
            count(
                "a/Cargo.toml",
                &format!("{GOOD}[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n")
            ),
            1
        );
        assert_eq!(
            count(
                "a/Cargo.toml",
                &format!("{GOOD}[dev-dependencies]\nb = {{ path = \"../b\" }}\n")
            ),
            1
        );
        assert_eq!(count("a/Cargo.toml", "not toml ["), 1);
    }

    #[test]
    fn exceptions_are_the_border_crate_the_root_and_outsiders() {
        let versioned = GOOD
            .replace("\"a\"", "\"memory-core\"")
            .replace("version.workspace = true", "version = \"1.0.0\"");
        assert_eq!(count("memory-core/Cargo.toml", &versioned), 0);
        assert_eq!(
            count("Cargo.toml", "[workspace.dependencies]\nserde = \"1\"\n"),
            0
        );
        assert_eq!(
            count(
                "tests/plugins/a/Cargo.toml",
                "[workspace]\n[package]\nname = \"a\"\nversion = \"0.0.0\"\n"
            ),
            0
        );
    }
}
