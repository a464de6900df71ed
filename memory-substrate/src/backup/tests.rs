//! Tests of copies: of one moment, complete, checked, and refused when they are not what they should be.

use std::sync::Arc;

use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::store::{Expected, PageStore as _};

use super::*;
use crate::assistant::testing::runtime;
use crate::fs::RealFs;
use crate::pages::FilePages;
use crate::remember::RememberInput;
use crate::workspace::{AssistantId, Workspace, WriterLock};
use crate::writer::testing;

struct Place {
    folder: tempfile::TempDir,
    writer: Writer,
}

fn note(text: &str) -> RememberInput {
    RememberInput {
        texts: vec![text.to_owned()],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    }
}

fn place() -> Place {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let writer = testing::create(folder.path(), Arc::new(RealFs));
    runtime(async {
        let pages = FilePages::of_writer(&writer);
        let slug = crate::snapshot::testing::slug("kiwi");
        for text in ["first\n", "second\n"] {
            pages
                .write(&slug, text.into(), Expected::Any)
                .await
                .expect("written");
        }
        let remembered = writer
            .rememberer()
            .remember(note("Said once."), "UTC")
            .await;
        remembered.expect("remembered");
    });
    writer.settle().expect("settled");
    Place { folder, writer }
}

fn id(name: &str) -> AssistantId {
    AssistantId::new(name).expect("a good name")
}

impl Place {
    fn back_up(&self) -> PathBuf {
        let to = self.folder.path().join("copy");
        self.writer.back_up(&to).expect("copied");
        to
    }

    fn restore(&self, name: &str, replace: bool) -> SubstrateResult<Restored> {
        restore(
            self.folder.path(),
            &id(name),
            &self.folder.path().join("copy"),
            RestoreOptions { replace },
            testing::NOW,
        )
    }
}

#[test]
fn a_restored_assistant_is_the_one_that_was_copied() {
    let place = place();
    place.back_up();
    let restored = place.restore("ada", false).expect("restored");
    assert_eq!(
        (restored.assistant.as_str(), restored.replaced),
        ("kiwi", None)
    );
    let workspace = Workspace::open(place.folder.path(), &id("ada"), Arc::new(RealFs));
    let writer = testing::open(&workspace.expect("there"));
    assert_eq!(*writer.recovery(), crate::writer::Recovery::default());
    let (old, new) = (place.writer.workspace(), writer.workspace());
    for folder in ["memory", "blobs"] {
        let tree = |workspace: &Workspace| {
            let mut tree = testing::tree(&RealFs, &workspace.root().join(folder));
            tree.remove("reserve");
            tree
        };
        assert!(!tree(old).is_empty(), "{folder}");
        assert_eq!(tree(old), tree(new), "{folder}");
    }
    let again = runtime(writer.rememberer().remember(note("Said once."), "UTC"));
    assert!(
        again.expect("remembered").entries[0].duplicate,
        "it is known"
    );
}

#[test]
fn what_is_acknowledged_and_not_in_its_file_is_in_the_copy() {
    let place = place();
    let seen = std::fs::read(place.writer.workspace().buffer_path()).expect("read");
    let to = place.back_up();
    let copied = std::fs::read(to.join("files/memory/buffer.md")).expect("read");
    assert_eq!(copied, seen);
    let list: BackupList =
        serde_json::from_slice(&std::fs::read(to.join(LIST)).expect("read")).expect("a list");
    let listed: Vec<&str> = list.files.iter().map(|file| file.path.as_str()).collect();
    let there: Vec<String> = testing::tree(&RealFs, &to.join(FILES))
        .into_keys()
        .collect();
    let mut there: Vec<&str> = there.iter().map(String::as_str).collect();
    there.sort_unstable();
    assert_eq!(
        listed, there,
        "every file is listed and nothing else is there"
    );
    assert!(
        !there
            .iter()
            .any(|path| path.starts_with("index/") || path.contains("LOCK"))
    );
    let again = place.writer.back_up(&to);
    assert!(matches!(again, Err(SubstrateError::AlreadyExists { .. })));
}

#[test]
fn a_copy_that_was_changed_or_is_too_new_changes_nothing() {
    let place = place();
    let to = place.back_up();
    let list = std::fs::read_to_string(to.join(LIST)).expect("read");
    let put = |text: String| std::fs::write(to.join(LIST), text).expect("written");
    let refused = |what: &str| {
        let before = testing::tree(&RealFs, &place.folder.path().join("assistants"));
        let error = place.restore("ada", false).expect_err(what);
        assert_eq!(
            testing::tree(&RealFs, &place.folder.path().join("assistants")),
            before,
            "{what}"
        );
        error
    };
    put(list.replace("\"form\": 1", "\"form\": 2"));
    let newer = |error| matches!(error, SubstrateError::Store(StoreError::Newer { .. }));
    assert!(newer(refused("a newer form")));
    put("{\"form\": 9, \"other\": true}".to_owned());
    assert!(newer(refused("a form nobody knows")));
    let schema = SqliteState::newest_schema();
    put(list.replace(
        &format!("\"schema\": {schema}"),
        &format!("\"schema\": {}", schema + 1),
    ));
    assert!(newer(refused("a newer database")));
    let damaged = |error| matches!(error, SubstrateError::Store(StoreError::Damaged { .. }));
    put(list.replace("memory/buffer.md", "../buffer.md"));
    assert!(damaged(refused("a path that leads out")));
    put(list);
    std::fs::write(to.join("files/memory/buffer.md"), "other").expect("written");
    assert!(damaged(refused("a file that was changed")));
}

#[test]
fn an_assistant_is_replaced_only_when_asked_and_kept() {
    let Place { folder, writer } = place();
    let place = Place { folder, writer };
    place.back_up();
    assert!(matches!(
        place.restore("kiwi", false),
        Err(SubstrateError::AlreadyExists { .. })
    ));
    let Place { folder, writer } = place;
    let page = writer.workspace().concepts_dir().join("kiwi.md");
    std::fs::write(&page, "later\n").expect("written");
    drop(writer);
    let restored = restore(
        folder.path(),
        &id("kiwi"),
        &folder.path().join("copy"),
        RestoreOptions { replace: true },
        testing::NOW,
    );
    let kept = restored.expect("restored").replaced.expect("kept");
    let read = |root: &Path| std::fs::read_to_string(root.join("memory/concepts/kiwi.md"));
    assert_eq!(std::fs::read_to_string(page).expect("read"), "second\n");
    assert_eq!(read(&kept).expect("read"), "later\n");
}

#[test]
fn a_memory_without_a_configuration_is_replaced_only_when_nobody_writes_to_it() {
    let place = place();
    place.back_up();
    let other = place.folder.path().join("assistants").join("ada");
    std::fs::create_dir_all(&other).expect("made");
    std::fs::write(other.join("letter.md"), "kept\n").expect("written");
    let held = WriterLock::take(&other.join(LOCK), "somebody", std::time::Duration::ZERO);
    let held = held.expect("free");
    let refused = place.restore("ada", true).expect_err("somebody writes");
    assert!(
        matches!(refused, SubstrateError::Store(StoreError::Locked { .. })),
        "{refused}"
    );
    drop(held);
    let restored = place.restore("ada", true).expect("restored");
    let kept = restored.replaced.expect("kept");
    let letter = std::fs::read_to_string(kept.join("letter.md"));
    assert_eq!(letter.expect("read"), "kept\n");
    assert!(other.join("memory/concepts/kiwi.md").is_file());
    let left: Vec<_> = std::fs::read_dir(place.folder.path().join("assistants"))
        .expect("listed")
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
#[test]
fn a_writer_that_waited_while_the_memory_was_replaced_gets_the_lock_of_the_new_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    for folder in [&here, &there] {
        std::fs::create_dir(folder).expect("made");
    }
    let take = |folder: &Path, patience| {
        WriterLock::take(
            &folder.join(LOCK),
            "somebody",
            std::time::Duration::from_secs(patience),
        )
    };
    let first = take(&here, 0).expect("free");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| take(&here, 60));
        // Whether it has begun to wait or not, it must not be content with the lock of what was moved away.
        assert!(crate::fs::exchange(&here, &there).expect("exchanged"));
        drop(first);
        let second = waiting.join().expect("no panic").expect("the lock");
        assert!(take(&here, 0).is_err(), "it is held here");
        drop(second);
    });
}

#[test]
fn a_backup_never_goes_into_the_memory_nor_over_what_is_not_its_own() {
    let place = place();
    let inside = place.writer.workspace().root().join("memory/copy");
    let refused = place
        .writer
        .back_up(&inside)
        .expect_err("it would copy itself");
    assert!(
        refused.to_string().contains("inside of the memory"),
        "{refused}"
    );
    assert!(!with_suffix(&inside, ".unfinished").exists());

    let to = place.folder.path().join("copy");
    let mine = with_suffix(&to, ".unfinished").join("letters");
    std::fs::create_dir_all(&mine).expect("made");
    place
        .writer
        .back_up(&to)
        .expect_err("that folder is somebody's");
    assert!(mine.is_dir() && !to.exists());
    std::fs::rename(&mine, mine.with_file_name(FILES)).expect("renamed");
    place
        .writer
        .back_up(&to)
        .expect("that is an unfinished backup");
}
