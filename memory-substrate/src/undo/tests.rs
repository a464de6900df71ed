//! Taking back each kind of operation, once, and never over what somebody did since.

use std::sync::Arc;

use memory_core::item::ItemState;
use memory_core::provenance::Channel;
use memory_core::store::{ItemStore as _, PageOrigin, PageStore as _, StateStore as _};
use memory_core::time::Timestamp;

use super::*;
use crate::assistant::testing::runtime;
use crate::fs::RealFs;
use crate::remember::RememberInput;
use crate::snapshot::testing::slug;
use crate::writer::testing;

const LONG: &str = "# Kiwi\n\none\ntwo\nthree\nfour\nfive\n";

struct Place {
    _folder: tempfile::TempDir,
    writer: Writer,
    pages: FilePages,
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
    let pages = FilePages::of_writer(&writer);
    Place {
        _folder: folder,
        writer,
        pages,
    }
}

impl Place {
    fn write(&self, text: &str) {
        let kiwi = slug("kiwi");
        let written = self.pages.write(&kiwi, text.into(), Expected::Any);
        runtime(written).expect("written");
    }

    fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.writer.workspace().concepts_dir().join(name)).ok()
    }

    fn last(&self) -> String {
        let newest = runtime(self.writer.state().past_operations(1)).expect("read");
        newest[0].id.clone()
    }

    fn undo(&self, operation: &str) -> UndoReport {
        self.writer
            .undo(&self.pages, operation)
            .expect("taken back")
    }
}

#[test]
fn a_write_is_taken_back_once_and_taking_back_can_be_too() {
    let place = place();
    place.write("first\n");
    place.write("second\n");
    let second = place.last();
    let report = place.undo(&second);
    assert_eq!(report.files, ["memory/concepts/kiwi.md"]);
    assert_eq!(place.text("kiwi.md").as_deref(), Some("first\n"));
    place.write("third\n");
    assert_eq!(place.undo(&second), report, "the same answer");
    assert_eq!(
        place.text("kiwi.md").as_deref(),
        Some("third\n"),
        "and nothing else"
    );
    let again = place.undo(&place.last());
    assert_eq!(again.conflicts, []);
    assert_eq!(place.text("kiwi.md").as_deref(), Some("first\n"));
    place.undo(&report.operation);
    assert_eq!(place.text("kiwi.md").as_deref(), Some("second\n"));
    let third = place.undo(&second);
    assert_ne!(third.operation, report.operation, "it was in effect again");
    assert_eq!(place.text("kiwi.md").as_deref(), Some("first\n"));
    assert_eq!(place.undo(&second), third, "the same answer");
    let unknown = place.writer.undo(&place.pages, "nothing");
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })));
}

#[test]
fn what_was_written_since_is_merged_and_what_was_edited_since_is_kept() {
    let longer = |text: &str| format!("{text}six\n");
    let titled = LONG.replace("Kiwi", "Kiwi fruit");
    let place = place();
    place.write(LONG);
    place.write(&longer(LONG));
    let operation = place.last();
    place.write(&longer(&titled));
    assert_eq!(place.undo(&operation).conflicts, []);
    assert_eq!(place.text("kiwi.md"), Some(titled));

    let place = self::place();
    place.write(LONG);
    let made = place.last();
    place.write(&longer(LONG));
    let path = place.writer.workspace().concepts_dir().join("kiwi.md");
    std::fs::write(&path, "edited by hand\n").expect("edited");
    let report = place.undo(&place.last());
    let copy = report.conflicts[0].copy.clone().expect("a copy");
    let copied = std::fs::read_to_string(place.writer.workspace().root().join(copy));
    assert_eq!(copied.expect("read"), LONG);
    let report = place.undo(&made);
    assert_eq!(report.conflicts[0].copy, None);
    assert_eq!(place.text("kiwi.md").as_deref(), Some("edited by hand\n"));
}

#[test]
fn a_page_that_was_made_goes_and_one_that_was_deleted_comes_back_as_trusted_as_it_was() {
    let place = place();
    place.write("made\n");
    let made = place.last();
    place.undo(&made);
    assert_eq!(place.text("kiwi.md"), None);

    let context = WriteContext::new("tool", Origin::ExternalDoc, Authority::Owner);
    runtime(async {
        let written = place
            .pages
            .write_as(
                &slug("web"),
                b"from the web\n".to_vec(),
                Expected::Any,
                context,
            )
            .await;
        written.expect("written");
        let deleted = place.pages.delete(&slug("web"), Expected::Any).await;
        deleted.expect("deleted");
    });
    place.undo(&place.last());
    assert_eq!(place.text("web.md").as_deref(), Some("from the web\n"));
    let origins: Vec<PageOrigin> = runtime(place.writer.state().page_origins()).expect("read");
    let came: Vec<_> = origins
        .iter()
        .map(|origin| (origin.slug.as_str(), origin.origin))
        .collect();
    assert_eq!(came, [("web", Origin::ExternalDoc)]);
    assert!(origins[0].at > Timestamp::default());
}

#[test]
fn a_rename_is_taken_back() {
    let place = place();
    place.write("here\n");
    let (from, to) = (slug("kiwi"), slug("fruit/kiwi"));
    let renamed = place.pages.rename(&from, &to, Expected::Any);
    runtime(renamed).expect("renamed");
    let renamed = place.last();
    for _ in 0..2 {
        let report = place.undo(&renamed);
        assert_eq!(report.operation, place.last());
        assert_eq!(place.text("kiwi.md").as_deref(), Some("here\n"));
        assert_eq!(place.text("fruit/kiwi.md"), None);
        place.undo(&report.operation);
        assert_eq!(place.text("kiwi.md"), None);
        assert_eq!(place.text("fruit/kiwi.md").as_deref(), Some("here\n"));
    }
}

#[test]
fn a_note_is_taken_out_of_buffer_and_archive_and_may_be_made_again() {
    let place = place();
    let remember = |text: &str| {
        let receipt = runtime(place.writer.rememberer().remember(note(text), "UTC"));
        receipt.expect("remembered").entries[0].clone()
    };
    let kept = remember("Kept.");
    let taken = remember("Taken back.");
    let report = place.undo(&taken.id);
    assert_eq!(report.entries, std::slice::from_ref(&taken.id));
    assert_eq!(report.files.len(), 2);
    for path in &report.files {
        let text = std::fs::read_to_string(place.writer.workspace().root().join(path));
        let text = text.expect("read");
        assert!(
            text.contains(&kept.id) && !text.contains("Taken back."),
            "{text}"
        );
    }
    let again = remember("Taken back.");
    assert!(!again.duplicate && again.id != taken.id);
}

#[test]
fn notes_that_were_taken_back_do_not_come_back_without_their_origin() {
    let place = place();
    let input = RememberInput {
        origin: Origin::ToolOutput,
        ..note("Heard from a stranger.")
    };
    let rememberer = place.writer.rememberer();
    runtime(rememberer.remember(input, "UTC")).expect("remembered");
    place.writer.settle().expect("settled");
    place.undo(&place.last());
    let refused = place.writer.undo(&place.pages, &place.last());
    let reason = refused.expect_err("nobody knows who said it").to_string();
    assert!(reason.contains("remember them again"), "{reason}");
}

#[test]
fn taking_a_note_back_leaves_what_a_person_put_behind_it() {
    let place = place();
    let input = note("Taken back.");
    let receipt = runtime(place.writer.rememberer().remember(input, "UTC"));
    place.writer.settle().expect("settled");
    let path = place.writer.workspace().buffer_path();
    let mut text = std::fs::read_to_string(&path).expect("read");
    text.push_str("My own prose.\n");
    std::fs::write(&path, text).expect("written");
    place.undo(&receipt.expect("remembered").entries[0].id);
    let left = std::fs::read_to_string(&path).expect("read");
    assert_eq!(left, "My own prose.\n");
}

#[test]
fn the_item_of_a_note_goes_with_it_and_a_forgotten_note_does_not_come_back() {
    let place = place();
    let rememberer = place.writer.rememberer();
    let remember = |text: &str| {
        let receipt = runtime(rememberer.remember(note(text), "UTC")).expect("remembered");
        receipt.entries[0].id.clone()
    };
    let state_of = |entry: &str| {
        let item = memory_core::item::ItemId::minted(entry).expect("an item");
        runtime(place.writer.state().item_state(&item))
            .expect("read")
            .expect("there")
    };
    let taken = remember("Taken back.");
    assert!(matches!(state_of(&taken), ItemState::Live(_)));
    place.undo(&taken);
    assert!(!matches!(state_of(&taken), ItemState::Live(_)));

    let forgotten = remember("Forgotten.");
    let context = WriteContext::new("test", Origin::UserDirect, Authority::Owner);
    runtime(rememberer.forget(&forgotten, context)).expect("forgotten");
    let refused = place.writer.undo(&place.pages, &place.last());
    let reason = refused.expect_err("its content is gone").to_string();
    assert!(reason.contains("remember them again"), "{reason}");
}
