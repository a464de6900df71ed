//! Where plugins are looked for.
//!
//! An installed program, a checkout and a test each keep plugins in another place, so there is one rule with a fixed
//! order, and `doctor` says which line of it applied. The allow-list is never looked for inside the plugin folder:
//! whoever could replace a plugin there could replace the list with it.

use std::path::{Path, PathBuf};

/// Name of an allow-list.
pub const ALLOW_FILE: &str = "plugins.allow.toml";

/// Where tier plugins come from and which of them are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSource {
    /// The folder; `None` when there is none, and then no tier can serve.
    pub directory: Option<PathBuf>,
    /// Allow-lists, all of which count. Those that do not exist are skipped.
    pub allow_files: Vec<PathBuf>,
    /// Private folder into which libraries are copied before they are loaded.
    pub staging: PathBuf,
    /// Which rule found the folder, for people.
    pub found_by: String,
}

/// What the search goes by.
#[derive(Clone, Debug, Default)]
pub struct PluginSearch {
    /// A folder somebody named; nothing else is tried then.
    pub given: Option<PathBuf>,
    /// The home folder, which holds the user's own allow-list.
    pub home: PathBuf,
    /// The running program.
    pub executable: Option<PathBuf>,
    /// The folder the program was started in.
    pub current_dir: Option<PathBuf>,
    /// The cache folder, for staged copies.
    pub cache_dir: Option<PathBuf>,
}

impl PluginSource {
    /// Returns the first folder of the rule that exists, with its allow-lists.
    pub fn search(search: &PluginSearch) -> Self {
        let staging = search
            .cache_dir
            .as_ref()
            .unwrap_or(&search.home)
            .join("plugins");
        let (directory, found_by) = find_directory(search);
        let mut allow_files = vec![search.home.join(ALLOW_FILE)];
        // `build-plugins` puts its list beside the folder of a checkout, never into it.
        if let Some(target) = directory.as_deref().and_then(checkout_target) {
            allow_files.push(target.join(ALLOW_FILE));
        }
        Self {
            directory,
            allow_files,
            staging,
            found_by: found_by.to_owned(),
        }
    }
}

fn find_directory(search: &PluginSearch) -> (Option<PathBuf>, &'static str) {
    if let Some(given) = &search.given {
        let absolute = std::path::absolute(given).unwrap_or_else(|_| given.clone());
        return (
            Some(absolute),
            "named by `--plugins` or `STRATA_PLUGIN_DIR`",
        );
    }
    let beside = search.executable.as_deref().and_then(Path::parent);
    let candidates = [
        (
            beside.map(|folder| folder.join("plugins")),
            "beside the program",
        ),
        (
            beside
                .and_then(Path::parent)
                .map(|folder| folder.join("lib/strata/plugins")),
            "in the library folder of the installation",
        ),
        (
            search
                .current_dir
                .as_ref()
                .map(|folder| folder.join("target/plugins")),
            "in the checkout at hand",
        ),
    ];
    for (folder, found_by) in candidates {
        if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
            return (Some(folder), found_by);
        }
    }
    (
        None,
        "not found: build them with `cargo xtask build-plugins` or name a folder with `--plugins`",
    )
}

/// Returns the `target` folder of a checkout when the plugin folder is `target/plugins`.
fn checkout_target(directory: &Path) -> Option<&Path> {
    let target = directory.parent()?;
    (directory.file_name()? == "plugins" && target.file_name()? == "target").then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_folder_wins_even_if_it_is_missing() {
        let source = PluginSource::search(&PluginSearch {
            given: Some("/nowhere/p".into()),
            home: "/home/h".into(),
            ..PluginSearch::default()
        });
        assert_eq!(source.directory, Some("/nowhere/p".into()));
        assert_eq!(
            source.allow_files,
            [PathBuf::from("/home/h/plugins.allow.toml")]
        );
        assert_eq!(source.staging, PathBuf::from("/home/h/plugins"));
    }

    #[test]
    fn the_first_existing_folder_is_used() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let search = PluginSearch {
            home: at("home"),
            executable: Some(at("bin/strata")),
            current_dir: Some(at("checkout")),
            cache_dir: Some(at("cache")),
            ..PluginSearch::default()
        };
        assert_eq!(PluginSource::search(&search).directory, None);

        std::fs::create_dir_all(at("checkout/target/plugins")).unwrap();
        let source = PluginSource::search(&search);
        assert_eq!(source.directory, Some(at("checkout/target/plugins")));
        assert_eq!(
            source.allow_files,
            [
                at("home/plugins.allow.toml"),
                at("checkout/target/plugins.allow.toml")
            ]
        );
        assert_eq!(source.staging, at("cache/plugins"));

        std::fs::create_dir_all(at("lib/strata/plugins")).unwrap();
        let source = PluginSource::search(&search);
        assert_eq!(source.directory, Some(at("lib/strata/plugins")));
        assert_eq!(source.allow_files, [at("home/plugins.allow.toml")]);

        std::fs::create_dir_all(at("bin/plugins")).unwrap();
        assert_eq!(
            PluginSource::search(&search).directory,
            Some(at("bin/plugins"))
        );
    }
}
