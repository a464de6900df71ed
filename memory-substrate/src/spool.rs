//! Notes that processes leave which may not wait for the writer.
//!
//! A hook has no time to wait for a lock. It leaves what it has as a file, written whole or not at all, and the next
//! writer keeps it as if it had been said then. The file's name is the key of the request, so a writer that is killed
//! between keeping a note and removing its file does not keep it twice. A file that cannot be understood is moved aside
//! and reported, so that it neither blocks the others nor is lost.

use std::io;
use std::path::Path;

use memory_core::env::EntryKind;
use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::store::StoreError;
use memory_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{SubstrateError, SubstrateResult};
use crate::oplog::WriteContext;
use crate::remember::{RememberInput, Rememberer, screened};
use crate::workspace::Workspace;

/// The form of a note. A writer refuses what is newer.
const FORM: u32 = 1;

/// Longer files are no notes.
const LONGEST: u64 = 4 << 20;

/// The folder of notes that could not be understood, in that of the notes.
pub(crate) const REFUSED: &str = "refused";

/// A note on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpooledNote {
    /// What is to be remembered.
    pub input: RememberInput,
    /// The time zone in which it is dated.
    pub zone: String,
    /// Who says so.
    pub actor: String,
    /// The session it belongs to.
    pub session: Option<String>,
    /// When it was said.
    pub at: Timestamp,
    /// The caller's name for the request, if it was or may have been made elsewhere too; without one, the file's name is.
    pub key: Option<String>,
}

/// A note as it is written.
#[derive(Serialize, Deserialize)]
struct Written {
    form: u32,
    texts: Vec<String>,
    origin: Origin,
    authority: Authority,
    channel: Channel,
    zone: String,
    actor: String,
    session: Option<String>,
    at: Timestamp,
    #[serde(default)]
    key: Option<String>,
}

/// What became of the notes that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolReport {
    /// Notes that were kept.
    pub kept: usize,
    /// Files that were moved aside, with the reason.
    pub refused: Vec<(String, String)>,
}

/// Leaves a note for the next writer, without what must not be written. The id names its file and must be new. It
/// blocks, but never for a lock.
pub fn leave(workspace: &Workspace, id: &str, note: &SpooledNote) -> SubstrateResult<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if id.is_empty() || !id.bytes().all(is_plain) {
        return Err(SubstrateError::Refused {
            reason: format!("`{id}` cannot name a note; use letters, digits, `-` and `_`"),
        });
    }
    let SpooledNote {
        input,
        zone,
        actor,
        session,
        at,
        key,
    } = note.clone();
    let (texts, _) = screened(&input.texts);
    let written = Written {
        form: FORM,
        texts,
        origin: input.origin,
        authority: input.authority,
        channel: input.channel,
        zone,
        actor,
        session,
        at,
        key,
    };
    let bytes = serde_json::to_vec(&written)
        .map_err(|error| StoreError::engine("write down a note", error))?;
    // What could not be taken in is refused now, while somebody is there to hear it.
    if bytes.len() as u64 > LONGEST {
        return Err(SubstrateError::Refused {
            reason: format!(
                "a note that is left for another process may have {LONGEST} bytes and this one has {}: leave its texts one by one",
                bytes.len()
            ),
        });
    }
    let path = workspace.spool_dir().join(format!("{id}.json"));
    workspace
        .fs()
        .write(&path, &bytes)
        .map_err(SubstrateError::io("write", &path))
}

/// Keeps every note that was left, oldest name first. Ends early when nothing can be written.
pub(crate) fn drain(
    workspace: &Workspace,
    rememberer: &Rememberer,
) -> SubstrateResult<SpoolReport> {
    let (fs, folder) = (workspace.fs().as_ref(), workspace.spool_dir());
    let entries = match fs.list(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(SubstrateError::io("list", &folder)(error)),
    };
    let mut report = SpoolReport::default();
    for entry in entries {
        let Some(id) = entry.name.strip_suffix(".json") else {
            continue;
        };
        if entry.kind != EntryKind::File || entry.name.starts_with('.') {
            continue;
        }
        let path = folder.join(&entry.name);
        let understood = if entry.bytes > LONGEST {
            Err(format!(
                "it has {} bytes, a note may have {LONGEST}",
                entry.bytes
            ))
        } else {
            match fs.read(&path) {
                Ok(bytes) => understand(&bytes),
                // Somebody else has just kept it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // That says nothing about the note.
                Err(error) => return Err(SubstrateError::io("read", &path)(error)),
            }
        };
        let kept = understood.and_then(|note| match keep(rememberer, id, note) {
            Ok(()) => Ok(Ok(())),
            Err(
                error @ (SubstrateError::Refused { .. }
                | SubstrateError::Store(StoreError::BadRequest { .. })),
            ) => Err(error.to_string()),
            Err(error) => Ok(Err(error)),
        });
        match kept {
            Ok(kept) => {
                kept?;
                report.kept += 1;
                match fs.remove(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(SubstrateError::io("remove", &path)(error));
                    }
                    _ => {}
                }
            }
            Err(reason) => {
                tracing::warn!(
                    note = entry.name,
                    reason,
                    "a note was left that cannot be kept"
                );
                move_aside(workspace, &path, &entry.name)?;
                report.refused.push((entry.name, reason));
            }
        }
    }
    Ok(report)
}

fn understand(bytes: &[u8]) -> Result<SpooledNote, String> {
    // What the reader of JSON says of a value would repeat it.
    let written: Written = serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("it is not a note, as line {line}, column {column} shows")
    })?;
    if written.form > FORM {
        return Err(format!(
            "it was written by a newer version (form {}, this program knows {FORM})",
            written.form
        ));
    }
    Ok(SpooledNote {
        input: RememberInput {
            texts: written.texts,
            origin: written.origin,
            authority: written.authority,
            channel: written.channel,
        },
        zone: written.zone,
        actor: written.actor,
        session: written.session,
        at: written.at,
        key: written.key,
    })
}

fn keep(rememberer: &Rememberer, id: &str, note: SpooledNote) -> SubstrateResult<()> {
    let SpooledNote {
        input,
        zone,
        actor,
        session,
        at,
        key,
    } = note;
    let key = key.unwrap_or_else(|| format!("spool/{id}"));
    let mut context = WriteContext::new(actor, input.origin, input.authority).with_key(key);
    context.session = session;
    rememberer.remember_at(&input, &zone, context, at).map(drop)
}

fn move_aside(workspace: &Workspace, path: &Path, name: &str) -> SubstrateResult<()> {
    let folder = workspace.spool_dir().join(REFUSED);
    let fs = workspace.fs();
    fs.create_dir_all(&folder)
        .and_then(|()| fs.rename(path, &folder.join(name)))
        .map_err(SubstrateError::io("move aside", path))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memory_core::env::Fs as _;

    use super::*;
    use crate::fs::RealFs;
    use crate::workspace::read_text_or_empty;
    use crate::writer::testing;

    fn note(text: &str) -> SpooledNote {
        SpooledNote {
            input: RememberInput {
                texts: vec![text.to_owned()],
                origin: Origin::UserDirect,
                authority: Authority::Owner,
                channel: Channel::Global,
            },
            zone: "UTC".to_owned(),
            actor: "hook".to_owned(),
            session: None,
            at: Timestamp::from_millis(0),
            key: None,
        }
    }

    #[test]
    fn a_note_that_was_kept_under_its_key_before_is_not_kept_again() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let workspace = testing::workspace(home.path(), Arc::new(RealFs));
        let keyed = SpooledNote {
            key: Some("k1".to_owned()),
            ..note("said once")
        };
        // Left twice, as by somebody who never got an answer; the buffer is emptied in between.
        leave(&workspace, "a", &keyed).expect("left");
        testing::open(&workspace).settle().expect("settled");
        RealFs.write(&workspace.buffer_path(), b"").expect("write");
        leave(&workspace, "b", &keyed).expect("left");
        let writer = testing::open(&workspace);
        assert_eq!(writer.recovery().spool.kept, 1);
        let buffer = read_text_or_empty(&RealFs, &workspace.buffer_path()).expect("read");
        assert_eq!(buffer, "");

        // The same key for something else is no repetition, and is told.
        let other = SpooledNote {
            key: Some("k1".to_owned()),
            ..note("something else")
        };
        drop(writer);
        leave(&workspace, "c", &other).expect("left");
        let writer = testing::open(&workspace);
        assert_eq!(writer.recovery().spool.refused.len(), 1);
    }

    #[test]
    fn notes_are_kept_once_and_what_is_none_is_moved_aside() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let workspace = testing::workspace(home.path(), Arc::new(RealFs));
        let holder = testing::open(&workspace);
        leave(&workspace, "b", &note("second")).expect("nobody is waited for");
        leave(&workspace, "a", &note("first")).expect("nobody is waited for");
        leave(&workspace, "../a", &note("outside")).expect_err("no name for a note");
        drop(holder);
        let spool = workspace.spool_dir();
        let nobody = SpooledNote {
            input: RememberInput {
                authority: Authority::None,
                ..note("nobody").input
            },
            ..note("nobody")
        };
        leave(&workspace, "nobody", &nobody).expect("left");
        RealFs
            .write(&spool.join("broken.json"), b"{\"form\":1")
            .expect("write");
        let first = RealFs.read(&spool.join("a.json")).expect("read");
        let writer = testing::open(&workspace);
        let report = &writer.recovery().spool;
        assert_eq!(report.kept, 2);
        let refused: Vec<&str> = report
            .refused
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(refused, ["broken.json", "nobody.json"]);
        assert!(spool.join("refused/broken.json").is_file());
        let buffer = || read_text_or_empty(&RealFs, &workspace.buffer_path()).expect("read");
        let kept = buffer();
        assert!(
            kept.starts_with("- [1970-01-01 00:00] first") && kept.contains("] second ^m-"),
            "{kept}"
        );
        drop(writer);

        // The file is still there if the writer was killed before it could remove it.
        RealFs.write(&spool.join("a.json"), &first).expect("write");
        drop(testing::open(&workspace));
        assert_eq!(buffer(), kept);
        assert!(!spool.join("a.json").exists());
    }
}
