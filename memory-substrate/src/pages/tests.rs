//! Tests of the page store.

use super::*;
use crate::fs::RealFs;

struct Place {
    folder: tempfile::TempDir,
    pages: FilePages,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pages = FilePages::new(Arc::new(RealFs), folder.path().join("concepts"));
        Self { folder, pages }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join("concepts").join(relative)
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
    assert!(matches!(gone, Err(StoreError::Conflict { found, .. }) if found == NOTHING));
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
