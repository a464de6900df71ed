//! The files that a prompt shows as they are.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

use memory_core::store::StoreError;
use memory_core::text::buffer;
use memory_core::text::prompt_file::{self, InfoParts};

use crate::workspace::{Workspace, read_text_or_empty};

/// What the static part of a prompt shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct InfoRequest<'a> {
    /// Most non-empty lines of the buffer to show; `None` shows all.
    pub max_buffer_lines: Option<usize>,
    /// Entries of the buffer that must not be shown to this reader.
    pub withheld: Option<&'a HashSet<String>>,
}

/// The static part of a prompt.
#[derive(Debug, Default)]
pub struct Info {
    /// The inner text of the `<info>` block: essentials, threads, recent, buffer. `None` when all are empty.
    pub text: Option<String>,
    /// Why files are missing from it that are there and cannot be read. The rest is worth showing all the same.
    pub unreadable: Vec<StoreError>,
}

/// Returns the static part of a prompt, without the files that cannot be read.
///
/// It blocks.
pub fn info(workspace: &Workspace, request: &InfoRequest<'_>) -> Info {
    let mut reader = Reader::of(workspace);
    let views = Views::read(&mut reader);
    let buffer = reader.text(&workspace.buffer_path());
    let buffer = request
        .withheld
        .map_or(Cow::Borrowed(buffer.as_str()), |withheld| {
            without(&buffer, withheld)
        });
    let text = prompt_file::info_text(&InfoParts {
        buffer: &buffer,
        max_buffer_lines: request.max_buffer_lines,
        ..views.parts()
    });
    Info {
        text,
        unreadable: reader.unreadable,
    }
}

/// Returns the essentials, threads and recent views as one text, without those that cannot be read; empty when all are.
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

struct Views {
    essentials: String,
    threads: String,
    recent: String,
}

impl Views {
    fn read(reader: &mut Reader<'_>) -> Self {
        let workspace = reader.workspace;
        Self {
            essentials: reader.text(&workspace.essentials_path()),
            threads: reader.text(&workspace.threads_path()),
            recent: reader.text(&workspace.recent_path()),
        }
    }

    fn parts(&self) -> InfoParts<'_> {
        InfoParts {
            essentials: &self.essentials,
            threads: &self.threads,
            recent: &self.recent,
            ..InfoParts::default()
        }
    }
}

fn without<'a>(text: &'a str, withheld: &HashSet<String>) -> Cow<'a, str> {
    if withheld.is_empty() {
        return Cow::Borrowed(text);
    }
    let is_shown = |group: &buffer::Group<'_>| {
        group
            .opening
            .and_then(|opening| opening.id)
            .is_none_or(|id| !withheld.contains(id))
    };
    Cow::Owned(
        buffer::split(text)
            .into_iter()
            .filter(is_shown)
            .map(|group| group.raw)
            .collect(),
    )
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
        let info = info(&workspace, &InfoRequest::default());
        assert!(info.text.is_none() && info.unreadable.is_empty());
        assert_eq!(now_text(&workspace), "");
    }

    #[test]
    fn a_file_that_cannot_be_read_costs_only_itself() {
        let (_home, workspace) = workspace();
        std::fs::create_dir_all(workspace.recent_path()).expect("a folder in its place");
        RealFs
            .write(&workspace.essentials_path(), b"The kiwi is ripe.\n")
            .expect("write");
        let info = info(&workspace, &InfoRequest::default());
        assert!(info.text.expect("the rest").contains("The kiwi is ripe."));
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
        let info = info(&workspace, &InfoRequest::default()).text;
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

    #[test]
    fn withheld_entries_are_left_out_whole() {
        let (_home, workspace) = workspace();
        let buffer =
            "- [2026-11-30 14:05] secret ^m-1\n  more of it\n- [2026-11-30 14:06] open ^m-2\n";
        RealFs
            .write(&workspace.buffer_path(), buffer.as_bytes())
            .expect("write");
        let withheld = HashSet::from(["1".to_owned()]);
        let request = InfoRequest {
            withheld: Some(&withheld),
            ..InfoRequest::default()
        };
        let info = info(&workspace, &request).text.expect("some text");
        assert!(
            info.contains("open") && !info.contains("secret") && !info.contains("more of it"),
            "{info}"
        );
    }
}
