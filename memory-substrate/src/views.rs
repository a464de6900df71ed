//! The files that a prompt shows as they are.

use std::borrow::Cow;
use std::path::Path;

use memory_core::provenance::Authority;
use memory_core::store::{StoreError, StoreResult};
use memory_core::text::prompt_file::{self, InfoParts};

use crate::entries::{only, without};
use crate::oplog::ids_of;
use crate::state::{BufferReader, SqliteState};
use crate::workspace::{Workspace, read_text_or_empty};

/// The files of the static part of a prompt, as they were when they were read.
#[derive(Debug)]
pub struct InfoFiles {
    views: Views,
    buffer: String,
    /// Why files are missing from it that are there and cannot be read. The rest is worth showing all the same.
    pub unreadable: Vec<StoreError>,
}

impl InfoFiles {
    /// Reads the files that can be read. `looks` says who looks at the buffer, and what knows whose its entries are;
    /// `None` shows all of it. It blocks.
    pub fn read(workspace: &Workspace, looks: Option<(&BufferReader, &SqliteState)>) -> Self {
        let mut reader = Reader::of(workspace);
        let views = Views::read(&mut reader);
        let mut buffer = reader.text(&workspace.buffer_path());
        if let Some((looks, state)) = looks {
            buffer = shown(&buffer, looks, state).map_or_else(
                |error| {
                    // Nobody knows who may see what is in it.
                    reader.unreadable.push(error);
                    String::new()
                },
                Cow::into_owned,
            );
        }
        Self {
            views,
            buffer,
            unreadable: reader.unreadable,
        }
    }

    /// Returns the inner text of the `<info>` block: core, essentials, threads, recent, and so many non-empty lines of the
    /// buffer, or all. `None` when there is nothing in them.
    pub fn text(&self, max_buffer_lines: Option<usize>) -> Option<String> {
        prompt_file::info_text(&InfoParts {
            buffer: &self.buffer,
            max_buffer_lines,
            ..self.views.parts()
        })
    }
}

/// Returns the core, essentials, threads and recent views as one text, without those that cannot be read; empty when all are.
///
/// It blocks.
pub fn now_text(workspace: &Workspace) -> String {
    let mut reader = Reader::of(workspace);
    let views = Views::read(&mut reader);
    prompt_file::info_text(&views.parts()).unwrap_or_default()
}

/// Reads files, each as if it were empty when it cannot be read.
struct Reader<'a> {
    workspace: &'a Workspace,
    unreadable: Vec<StoreError>,
}

impl<'a> Reader<'a> {
    fn of(workspace: &'a Workspace) -> Self {
        Self {
            workspace,
            unreadable: Vec::new(),
        }
    }

    fn text(&mut self, path: &Path) -> String {
        read_text_or_empty(self.workspace.fs().as_ref(), path).unwrap_or_else(|error| {
            self.unreadable.push(error);
            String::new()
        })
    }
}

#[derive(Debug)]
struct Views {
    core: String,
    essentials: String,
    threads: String,
    recent: String,
}

impl Views {
    fn read(reader: &mut Reader<'_>) -> Self {
        let workspace = reader.workspace;
        Self {
            core: reader.text(&workspace.core_path()),
            essentials: reader.text(&workspace.essentials_path()),
            threads: reader.text(&workspace.threads_path()),
            recent: reader.text(&workspace.recent_path()),
        }
    }

    fn parts(&self) -> InfoParts<'_> {
        InfoParts {
            core: &self.core,
            essentials: &self.essentials,
            threads: &self.threads,
            recent: &self.recent,
            ..InfoParts::default()
        }
    }
}

/// Returns the part of a buffer that somebody may see.
fn shown<'a>(
    buffer: &'a str,
    reader: &BufferReader,
    state: &SqliteState,
) -> StoreResult<Cow<'a, str>> {
    let withheld = state.withheld_entries(reader, &ids_of(buffer))?;
    let is_withheld = |id: &str| withheld.contains(id);
    let bytes = if reader.requester == Authority::Owner {
        if withheld.is_empty() {
            return Ok(Cow::Borrowed(buffer));
        }
        without(buffer.as_bytes(), is_withheld)
    } else {
        // What has no name is a person's own writing in the owner's file, and nobody else's to see.
        only(buffer.as_bytes(), |id| !is_withheld(id))
    };
    Ok(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memory_core::env::Fs as _;

    use super::*;
    use crate::fs::RealFs;
    use crate::workspace::AssistantId;

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let home = tempfile::tempdir().expect("a temporary folder");
        let id = AssistantId::new("kiwi").expect("a good name");
        let workspace = Workspace::create(home.path(), &id, "", Arc::new(RealFs)).expect("create");
        (home, workspace)
    }

    #[test]
    fn an_empty_workspace_shows_nothing() {
        let (_home, workspace) = workspace();
        let info = InfoFiles::read(&workspace, None);
        assert!(info.text(None).is_none() && info.unreadable.is_empty());
        assert_eq!(now_text(&workspace), "");
    }

    #[test]
    fn a_file_that_cannot_be_read_costs_only_itself() {
        let (_home, workspace) = workspace();
        std::fs::create_dir_all(workspace.recent_path()).expect("a folder in its place");
        RealFs
            .write(&workspace.essentials_path(), b"The kiwi is ripe.\n")
            .expect("write");
        let info = InfoFiles::read(&workspace, None);
        assert!(
            info.text(None)
                .expect("the rest")
                .contains("The kiwi is ripe.")
        );
        let [error] = &info.unreadable[..] else {
            panic!("{:?}", info.unreadable)
        };
        assert!(error.to_string().contains("recent.md"), "{error}");
        assert!(now_text(&workspace).contains("The kiwi is ripe."));
    }

    #[test]
    fn the_buffer_is_part_of_the_info_and_not_of_the_now_text() {
        let (_home, workspace) = workspace();
        RealFs
            .write(
                &workspace.essentials_path(),
                b"_comment\nThe kiwi is ripe.\n",
            )
            .expect("write");
        RealFs
            .write(
                &workspace.buffer_path(),
                b"- [2026-11-30 14:05] buy more ^m-1\n",
            )
            .expect("write");
        let info = InfoFiles::read(&workspace, None).text(None);
        let info = info.expect("some text");
        assert!(
            info.contains("The kiwi is ripe.") && info.contains("buy more"),
            "{info}"
        );
        let now = now_text(&workspace);
        assert!(
            now.contains("The kiwi is ripe.")
                && !now.contains("buy more")
                && !now.contains("comment"),
            "{now}"
        );
    }
}
