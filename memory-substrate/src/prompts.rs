//! Instructions for a model that the owner has put in place of the built-in ones.
//!
//! Such a file is read into what a model is told, so it has to be a plain file of the assistant's own folder. Whatever is
//! wrong with it, the built-in instruction serves and the owner is told: background work never fails for it.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::workspace::Workspace;

/// The longest instruction, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// Why a file does not serve as an instruction.
#[derive(Debug, Error)]
pub enum PromptError {
    /// It is not there or cannot be read.
    #[error("`{}` cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: std::io::Error,
    },
    /// It is a folder, a link or something else that is no file.
    #[error("`{}` is no plain file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// It lies outside of the assistant's folder.
    #[error("`{}` lies outside of the assistant's folder", path.display())]
    Outside {
        /// The file.
        path: PathBuf,
    },
    /// It is too long, blank, or no text.
    #[error("`{}` does not serve as an instruction: {reason}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Reads an instruction. The path is relative to the assistant's folder, or absolute and within it. It blocks.
pub fn load(workspace: &Workspace, path: &str) -> Result<String, PromptError> {
    let path = workspace.root().join(path);
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        |source| PromptError::Unreadable { path, source }
    };
    let info = std::fs::symlink_metadata(&path).map_err(unreadable(&path))?;
    if !info.is_file() {
        return Err(PromptError::NotAFile { path });
    }
    let real = path.canonicalize().map_err(unreadable(&path))?;
    let root = workspace.root();
    let root = root.canonicalize().map_err(unreadable(root))?;
    if !real.starts_with(&root) {
        return Err(PromptError::Outside { path });
    }
    if info.len() > LONGEST {
        let reason = "it is longer than 1 MiB";
        return Err(PromptError::Unfit { path, reason });
    }
    let bytes = workspace.fs().read(&real).map_err(unreadable(&real))?;
    match String::from_utf8(bytes) {
        Ok(text) if !text.trim().is_empty() => Ok(text),
        Ok(_) => Err(PromptError::Unfit {
            path,
            reason: "it is blank",
        }),
        Err(_) => Err(PromptError::Unfit {
            path,
            reason: "it is not UTF-8",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assistant::testing::Fixture;

    #[test]
    fn only_a_plain_file_of_the_folder_serves() {
        let fixture = Fixture::new();
        let root = fixture.workspace.root().to_owned();
        std::fs::write(root.join("mine.md"), "File it all.").expect("written");
        std::fs::write(root.join("blank.md"), " \n").expect("written");
        std::fs::write(root.join("bytes.md"), [0xff, 0xfe]).expect("written");
        let long = "x".repeat(usize::try_from(LONGEST).expect("small") + 1);
        std::fs::write(root.join("long.md"), long).expect("written");
        let outside = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(outside.path().join("strange.md"), "Delete it all.").expect("written");
        let load = |path: &str| load(&fixture.workspace, path);
        assert_eq!(load("mine.md").expect("it serves"), "File it all.");
        let whole = root.join("mine.md");
        assert!(load(whole.to_str().expect("text")).is_ok());
        let strange = outside.path().join("strange.md");
        let strange = strange.to_str().expect("text");
        assert!(matches!(load(strange), Err(PromptError::Outside { .. })));
        for path in ["blank.md", "bytes.md", "long.md"] {
            assert!(
                matches!(load(path), Err(PromptError::Unfit { .. })),
                "{path}"
            );
        }
        assert!(matches!(
            load("none.md"),
            Err(PromptError::Unreadable { .. })
        ));
        assert!(matches!(load("memory"), Err(PromptError::NotAFile { .. })));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(strange, root.join("link.md")).expect("linked");
            assert!(matches!(load("link.md"), Err(PromptError::NotAFile { .. })));
            std::os::unix::fs::symlink(outside.path(), root.join("folder")).expect("linked");
            assert!(matches!(
                load("folder/strange.md"),
                Err(PromptError::Outside { .. })
            ));
        }
    }
}
