//! Tests of the page store.

use memory_core::provenance::{Authority, Origin};
use memory_core::store::PageOrigin;

use super::*;
use crate::fs::RealFs;
use crate::state::origins;

struct Place {
    _home: tempfile::TempDir,
    writer: Writer,
    pages: FilePages,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let writer = crate::writer::testing::create(home.path(), Arc::new(RealFs));
        Self {
            _home: home,
            pages: FilePages::of_writer(&writer),
            writer,
        }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.writer.workspace().concepts_dir().join(relative)
    }

    async fn text(&self, page: &str) -> Option<String> {
        let page = self.pages.read(&slug(page)).await.expect("read");
        page.map(|page| String::from_utf8(page.bytes).expect("text"))
    }

    fn origin(&self, page: &str) -> Option<PageOrigin> {
        let page = slug(page);
        let read = self
            .writer
            .state()
            .read_blocking(|connection| origins::of(connection, &page));
        read.expect("read")
    }

    fn file(&self, relative: &str, text: &str) {
        RealFs
            .write(&self.path(relative), text.as_bytes())
            .expect("write");
    }
}

fn slug(text: &str) -> Slug {
    Slug::parse(text).expect("a slug")
}

#[tokio::test]
async fn pages_are_written_read_listed_and_deleted() {
    let place = Place::new();
    assert!(place.pages.list().await.expect("list").is_empty());
    let hash = place
        .pages
        .write(&slug("people/ada"), b"# Ada\n".to_vec(), Expected::Absent)
        .await
        .expect("write");
    let page = place
        .pages
        .read(&slug("people/ada"))
        .await
        .expect("read")
        .expect("there");
    assert_eq!(
        (page.bytes.as_slice(), page.hash.as_str()),
        (&b"# Ada\n"[..], hash.as_str())
    );
    assert!(place.path("people/ada.md").is_file());
    let listed = place.pages.list().await.expect("list");
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].slug.as_str(), listed[0].bytes),
        ("people/ada", 6)
    );
    place
        .pages
        .delete(&slug("people/ada"), Expected::Hash(hash))
        .await
        .expect("delete");
    assert_eq!(
        place.pages.read(&slug("people/ada")).await.expect("read"),
        None
    );
    place
        .pages
        .delete(&slug("people/ada"), Expected::Any)
        .await
        .expect("deleting nothing is fine");
}

#[tokio::test]
async fn a_write_compares_what_is_on_disk() {
    let place = Place::new();
    let page = slug("kiwi");
    let first = place
        .pages
        .write(&page, b"one".to_vec(), Expected::Absent)
        .await
        .expect("write");
    place.file("kiwi.md", "edited by hand");
    for (bytes, expected) in [
        ("two", Expected::Hash(first.clone())),
        ("three", Expected::Absent),
    ] {
        let refused = place.pages.write(&page, bytes.into(), expected).await;
        match refused {
            Err(StoreError::Conflict { found, .. }) => {
                assert_eq!(found, hash_bytes(b"edited by hand"));
            }
            other => panic!("expected a conflict, got {other:?}"),
        }
    }
    let refused = place.pages.delete(&page, Expected::Hash(first)).await;
    assert!(
        matches!(refused, Err(StoreError::Conflict { .. })),
        "{refused:?}"
    );
    let gone = place
        .pages
        .write(
            &slug("none"),
            b"x".to_vec(),
            Expected::Hash("00".to_owned()),
        )
        .await;
    assert!(matches!(gone, Err(StoreError::Conflict { found, .. }) if found == write::NOTHING));
    place
        .pages
        .write(&page, b"four".to_vec(), Expected::Any)
        .await
        .expect("anything goes");
    assert_eq!(std::fs::read(place.path("kiwi.md")).expect("read"), b"four");
}

#[tokio::test]
async fn of_concurrent_writers_exactly_one_wins() {
    let place = Place::new();
    let tasks: Vec<_> = (0..16_u8)
        .map(|number| {
            let pages = place.pages.clone();
            tokio::spawn(async move {
                pages
                    .write(&slug("kiwi"), vec![number], Expected::Absent)
                    .await
            })
        })
        .collect();
    let mut winners = 0;
    for task in tasks {
        winners += u32::from(task.await.expect("no panic").is_ok());
    }
    assert_eq!(winners, 1);
}

#[tokio::test]
async fn a_page_keeps_the_file_name_its_owner_gave_it() {
    let place = Place::new();
    place.file("Kiwi Plan (2026).md", "one");
    let page = slug("kiwi-plan-2026");
    let read = place.pages.read(&page).await.expect("read").expect("there");
    assert_eq!(read.bytes, b"one");
    place
        .pages
        .write(&page, b"two".to_vec(), Expected::Hash(read.hash))
        .await
        .expect("write");
    assert_eq!(
        std::fs::read(place.path("Kiwi Plan (2026).md")).expect("read"),
        b"two"
    );
    assert!(!place.path("kiwi-plan-2026.md").exists());
}

#[tokio::test]
async fn reserved_names_are_refused() {
    let place = Place::new();
    place.file("skills/cooking.md", "x");
    let refused = place
        .pages
        .write(&slug("skills/cooking"), b"y".to_vec(), Expected::Any)
        .await;
    assert!(
        matches!(refused, Err(StoreError::BadRequest { .. })),
        "{refused:?}"
    );
    assert_eq!(
        place
            .pages
            .read(&slug("skills/cooking"))
            .await
            .expect("read"),
        None
    );
    let page = place
        .pages
        .read(&slug("notes/skills/cooking"))
        .await
        .expect("read");
    assert_eq!(page.expect("found under another name").bytes, b"x");
}

#[cfg(unix)]
#[tokio::test]
async fn links_lead_nowhere_for_reading_and_writing() {
    let place = Place::new();
    place.file("a.md", "x");
    let outside = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(outside.path().join("secret.md"), "s").expect("write");
    std::os::unix::fs::symlink(outside.path(), place.path("out")).expect("link");
    std::os::unix::fs::symlink(outside.path().join("secret.md"), place.path("link.md"))
        .expect("link");
    for page in ["out/secret", "link"] {
        assert_eq!(
            place.pages.read(&slug(page)).await.expect("read"),
            None,
            "{page}"
        );
        let refused = place
            .pages
            .write(&slug(page), b"y".to_vec(), Expected::Any)
            .await;
        assert!(
            matches!(refused, Err(StoreError::BadRequest { .. })),
            "{page}: {refused:?}"
        );
    }
    assert_eq!(
        std::fs::read(outside.path().join("secret.md")).expect("read"),
        b"s"
    );
}

#[tokio::test]
async fn a_renamed_page_keeps_its_text_and_its_origin() {
    let place = Place::new();
    let context = WriteContext::new("test", Origin::ExternalDoc, Authority::Owner);
    place
        .pages
        .write_as(&slug("a"), b"text".to_vec(), Expected::Absent, context)
        .await
        .expect("write");
    place.file("taken.md", "other");
    let taken = place
        .pages
        .rename(&slug("a"), &slug("taken"), Expected::Any)
        .await;
    assert!(
        matches!(taken, Err(StoreError::Conflict { .. })),
        "{taken:?}"
    );
    let wrong = Expected::Hash(hash_bytes(b"else"));
    let wrong = place.pages.rename(&slug("a"), &slug("b"), wrong).await;
    assert!(
        matches!(wrong, Err(StoreError::Conflict { .. })),
        "{wrong:?}"
    );
    let hash = Expected::Hash(hash_bytes(b"text"));
    place
        .pages
        .rename(&slug("a"), &slug("deep/b"), hash)
        .await
        .expect("renamed");
    assert_eq!(place.text("a").await, None);
    assert_eq!(place.text("deep/b").await.as_deref(), Some("text"));
    assert_eq!(place.origin("a"), None);
    let origin = place.origin("deep/b").expect("recorded");
    assert_eq!(origin.origin, Origin::ExternalDoc);
    place
        .pages
        .delete(&slug("deep/b"), Expected::Any)
        .await
        .expect("deleted");
    assert_eq!(place.origin("deep/b"), None);
    let missing = place
        .pages
        .rename(&slug("none"), &slug("x"), Expected::Any)
        .await;
    assert!(
        matches!(missing, Err(StoreError::NotFound { .. })),
        "{missing:?}"
    );
}

#[tokio::test]
async fn a_write_is_trusted_as_the_least_of_its_writers() {
    let place = Place::new();
    let as_of = |origin| WriteContext::new("test", origin, Authority::Owner);
    let page = slug("a");
    let write = |text: &'static str, context| {
        place
            .pages
            .write_as(&page, text.into(), Expected::Any, context)
    };
    write("one", WriteContext::host()).await.expect("write");
    assert_eq!(place.origin("a"), None);
    for origin in [Origin::ToolOutput, Origin::AssistantInferred] {
        write("two", as_of(origin)).await.expect("write");
        write("three", as_of(origin)).await.expect("write");
        assert_eq!(
            place.origin("a").map(|page| page.origin),
            Some(Origin::ToolOutput)
        );
    }
    let nobody = WriteContext::new("test", Origin::UserDirect, Authority::None);
    let refused = write("four", nobody).await;
    assert!(
        matches!(refused, Err(StoreError::BadRequest { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_repeated_request_is_answered_as_the_first_time() {
    let place = Place::new();
    let keyed = || WriteContext::host().with_key("k");
    let page = slug("a");
    let write = |text: &'static str| {
        place
            .pages
            .write_as(&page, text.into(), Expected::Absent, keyed())
    };
    let first = write("one").await.expect("write");
    place.file("a.md", "edited since");
    assert_eq!(write("one").await.expect("answered"), first);
    assert_eq!(place.text("a").await.as_deref(), Some("edited since"));
    write("two").await.expect_err("the key is taken");
}

#[tokio::test]
async fn old_versions_are_kept() {
    let place = Place::new();
    for text in ["one", "two"] {
        place
            .pages
            .write(&slug("a"), text.into(), Expected::Any)
            .await
            .expect("write");
    }
    place
        .pages
        .delete(&slug("a"), Expected::Any)
        .await
        .expect("delete");
    for old in ["one", "two"] {
        let kept = place.writer.log().old_version(&hash_bytes(old.as_bytes()));
        assert_eq!(kept.expect("read").as_deref(), Some(old.as_bytes()));
    }
}
