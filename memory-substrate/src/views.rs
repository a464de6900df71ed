//! The files that a prompt shows as they are.

use std::borrow::Cow;
use std::collections::HashSet;

use memory_core::store::StoreResult;
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

/// Returns the inner text of the `<info>` block: essentials, threads, recent, buffer. `None` when all are empty.
///
/// It blocks.
pub fn info_text(workspace: &Workspace, request: &InfoRequest<'_>) -> StoreResult<Option<String>> {
    let views = Views::read(workspace)?;
    let buffer = read_text_or_empty(workspace.fs().as_ref(), &workspace.buffer_path())?;
    let buffer = request
        .withheld
        .map_or(Cow::Borrowed(buffer.as_str()), |withheld| {
            without(&buffer, withheld)
        });
    Ok(prompt_file::info_text(&InfoParts {
        buffer: &buffer,
        max_buffer_lines: request.max_buffer_lines,
        ..views.parts()
    }))
}

/// Returns the essentials, threads and recent views as one text; empty when all are.
///
/// It blocks.
pub fn now_text(workspace: &Workspace) -> StoreResult<String> {
    let views = Views::read(workspace)?;
    Ok(prompt_file::info_text(&views.parts()).unwrap_or_default())
}

struct Views {
    essentials: String,
    threads: String,
    recent: String,
}

impl Views {
    fn read(workspace: &Workspace) -> StoreResult<Self> {
        let fs = workspace.fs().as_ref();
        Ok(Self {
            essentials: read_text_or_empty(fs, &workspace.essentials_path())?,
            threads: read_text_or_empty(fs, &workspace.threads_path())?,
            recent: read_text_or_empty(fs, &workspace.recent_path())?,
        })
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
        assert_eq!(
            info_text(&workspace, &InfoRequest::default()).expect("read"),
            None
        );
        assert_eq!(now_text(&workspace).expect("read"), "");
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
        let info = info_text(&workspace, &InfoRequest::default())
            .expect("read")
            .expect("some text");
        assert!(
            info.contains("The kiwi is ripe.") && info.contains("buy more"),
            "{info}"
        );
        let now = now_text(&workspace).expect("read");
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
        let info = info_text(&workspace, &request)
            .expect("read")
            .expect("some text");
        assert!(
            info.contains("open") && !info.contains("secret") && !info.contains("more of it"),
            "{info}"
        );
    }
}
