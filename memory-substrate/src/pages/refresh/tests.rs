//! Tests of the page index as the folder changes.

use std::path::PathBuf;

use memory_core::env::{Fs as _, ManualClock};
use memory_core::provenance::{Authority, Channel, Origin, Trust};
use memory_core::text::links::Resolution;
use memory_core::time::Timestamp;

use super::*;
use crate::fs::RealFs;

/// A clock far in the future, so that a file's time is always a proof.
const LATER: Timestamp = Timestamp::from_millis(4_000_000_000_000);

struct Place {
    folder: tempfile::TempDir,
    state: Arc<SqliteState>,
    clock: Arc<ManualClock>,
}

impl Place {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clock = Arc::new(ManualClock::at(LATER));
        let state =
            SqliteState::open(&folder.path().join("state.db"), clock.as_ref()).expect("open");
        let place = Self {
            folder,
            state: Arc::new(state),
            clock,
        };
        for (path, text) in files {
            place.file(path, text);
        }
        place
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join("concepts").join(relative)
    }

    fn file(&self, relative: &str, text: &str) {
        RealFs
            .write(&self.path(relative), text.as_bytes())
            .expect("write");
    }

    fn indexer(&self) -> PageIndexer {
        let pages = FilePages::new(Arc::new(RealFs), self.folder.path().join("concepts"));
        PageIndexer::new(
            pages,
            Arc::clone(&self.state),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
        )
    }

    fn refresh(&self, previous: &Arc<PageIndex>) -> Refreshed {
        self.indexer().refresh_blocking(previous).expect("refresh")
    }

    fn index(&self) -> Arc<PageIndex> {
        self.refresh(&Arc::default()).index
    }

    fn came_in(&self, page: &str, name: &str, origin: Origin) {
        let row = PageOrigin {
            slug: slug(page),
            original_name: name.to_owned(),
            origin,
            authority: Authority::Owner,
            at: LATER,
        };
        self.state
            .write_blocking(|transaction| origins::put(transaction, &[row]))
            .expect("put");
    }
}

fn slug(text: &str) -> Slug {
    Slug::parse(text).expect("a slug")
}

fn texts(slugs: &[Slug]) -> Vec<&str> {
    slugs.iter().map(Slug::as_str).collect()
}

#[test]
fn what_is_no_text_or_too_long_is_reported_and_left_out() {
    let place = Place::new(&[("good.md", "text"), ("picture.md", "PNG\0\0")]);
    let long = std::fs::File::create(place.path("long.md")).expect("a file");
    long.set_len(LARGEST_PAGE + 1).expect("a long file");
    let index = place.index();
    assert_eq!(index.len(), 1);
    let reasons: Vec<String> = index
        .unreadable()
        .iter()
        .map(|(path, reason)| format!("{path}: {reason}"))
        .collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(
        reasons[0].starts_with("long.md: it has 8388609 bytes"),
        "{reasons:?}"
    );
    assert!(
        reasons[1].starts_with("picture.md: it is not text: byte 3"),
        "{reasons:?}"
    );
    place.file("picture.md", "text now");
    assert_eq!(place.refresh(&index).index.len(), 2);
}

#[test]
fn a_page_is_indexed_with_everything_the_turn_needs() {
    let place = Place::new(&[(
        "kiwi.md",
        "---\ntitle: The Kiwi\nsummary: >\n  round\n  fruit\naliases: [actinidia]\nchannel: _project_x\n\
         origin_date: 2026-03-01\n---\nlead\n\n## Taste\nsour\n",
    )]);
    let index = place.index();
    let page = index.get(&slug("kiwi")).expect("indexed");
    assert_eq!(
        (page.title.as_str(), page.summary.as_deref()),
        ("The Kiwi", Some("round fruit"))
    );
    assert_eq!(
        (page.aliases.as_slice(), page.channel.clone()),
        (
            &["actinidia".to_owned()][..],
            Channel::Project("x".to_owned())
        )
    );
    assert_eq!(page.fresh_at.utc_date(), "2026-03-01");
    assert_eq!(page.trust, Trust::Trusted);
    let sections: Vec<(&str, u32)> = page
        .sections
        .iter()
        .map(|section| (section.heading.as_str(), section.ordinal))
        .collect();
    assert_eq!(sections, [("", 0), ("Taste", 1)]);
    assert_eq!(PageIndex::entry(page).sections, 2);
}

#[test]
fn links_resolve_with_their_in_degree() {
    let place = Place::new(&[
        (
            "a.md",
            "---\nlinks:\n  - b \u{2014} the friend\n---\n[[b]] [[Old Name]] [[nowhere]] [[a]]",
        ),
        ("b.md", "[[a]]"),
        ("c.md", "---\naliases: [Old Name]\n---\n[[b]] [[twin]]"),
        ("x/twin.md", "x"),
        ("y/twin.md", "y"),
    ]);
    let index = place.index();
    let links = index.resolved_links(&slug("a"));
    let found: Vec<(&str, Option<&str>, u32)> = links
        .iter()
        .map(|link| {
            (
                link.target.as_str(),
                link.description.as_deref(),
                link.target_in_degree,
            )
        })
        .collect();
    assert_eq!(found, [("b", Some("the friend"), 2), ("c", None, 1)]);
    assert_eq!(index.in_degree(&slug("a")), 1);
    assert_eq!(
        index
            .dangling()
            .iter()
            .map(|link| link.target.as_str())
            .collect::<Vec<_>>(),
        ["nowhere"]
    );
    assert_eq!(
        index
            .ambiguous()
            .iter()
            .map(|link| link.target.as_str())
            .collect::<Vec<_>>(),
        ["twin"]
    );
    assert_eq!(index.resolve("old name"), Resolution::Found(slug("c")));
    assert_eq!(
        texts(&index.core("- [[b]]\n- [[missing]]\n- [[Old Name]]\n- [[b]]\n")),
        ["b", "c"]
    );
}

#[test]
fn the_freshest_pages_come_first() {
    let dated = |date: &str| format!("---\norigin_date: {date}\n---\nx");
    let place = Place::new(&[
        ("a.md", &dated("2024-01-01")),
        ("b.md", &dated("2026-01-01")),
        ("c.md", &dated("2026-01-01")),
        ("d.md", &dated("1961-04-12")),
    ]);
    let index = place.index();
    let order: Vec<&str> = index.freshest(3).map(|page| page.slug.as_str()).collect();
    assert_eq!(order, ["b", "c", "a"]);
}

#[test]
fn nothing_changed_gives_the_same_index() {
    let place = Place::new(&[("a.md", "x")]);
    let first = place.refresh(&Arc::default());
    assert_eq!(texts(&first.changed), ["a"]);
    let second = place.refresh(&first.index);
    assert!(
        Arc::ptr_eq(&first.index, &second.index)
            && second.changed.is_empty()
            && second.removed.is_empty()
    );
}

#[test]
fn edits_moves_and_deletions_are_seen_without_reading_the_rest() {
    let place = Place::new(&[("a.md", "one"), ("b.md", "two"), ("c.md", "three")]);
    let first = place.refresh(&Arc::default());
    place.file("a.md", "one, edited");
    std::fs::rename(place.path("b.md"), place.path("moved.md")).expect("rename");
    std::fs::remove_file(place.path("c.md")).expect("remove");
    let second = place.refresh(&first.index);
    assert_eq!(texts(&second.changed), ["a", "moved"]);
    assert_eq!(texts(&second.removed), ["b", "c"]);
    let files: Vec<&str> = second
        .index
        .pages()
        .iter()
        .map(|page| page.path.as_str())
        .collect();
    assert_eq!(files, ["a.md", "moved.md"]);
}

#[test]
fn a_cold_start_reads_only_what_changed() {
    let place = Place::new(&[
        ("Kept Page.md", "---\naliases: [k]\n---\n# Kept\n[[b]]"),
        ("b.md", "two"),
    ]);
    let warm = place.index();
    // The bytes change but neither length nor time, so only a reader of the bytes would notice.
    let time = std::fs::metadata(place.path("b.md"))
        .and_then(|metadata| metadata.modified())
        .expect("time");
    std::fs::write(place.path("b.md"), "TWO").expect("write");
    std::fs::File::options()
        .append(true)
        .open(place.path("b.md"))
        .and_then(|file| file.set_modified(time))
        .expect("set the time");
    let cold = place.index();
    assert_eq!(cold.pages(), warm.pages());
    assert_eq!(cold.resolved_links(&slug("kept-page")).len(), 1);
    place.file("b.md", "three");
    let other = place.index();
    assert_eq!(
        other.get(&slug("b")).expect("there").hash,
        hash_bytes(b"three")
    );
    assert_eq!(other.get(&slug("kept-page")), warm.get(&slug("kept-page")));
}

#[test]
fn a_file_that_changed_just_before_it_was_read_is_read_again() {
    let place = Place::new(&[("a.md", "one")]);
    let modified = RealFs.info(&place.path("a.md")).expect("info").modified_ms;
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(modified)));
    let pages = FilePages::new(Arc::new(RealFs), place.folder.path().join("concepts"));
    let indexer = PageIndexer::new(pages, Arc::clone(&place.state), clock);
    let first = indexer.refresh_blocking(&Arc::default()).expect("refresh");
    let time = std::fs::metadata(place.path("a.md"))
        .and_then(|metadata| metadata.modified())
        .expect("time");
    std::fs::write(place.path("a.md"), "two").expect("write");
    std::fs::File::options()
        .append(true)
        .open(place.path("a.md"))
        .and_then(|file| file.set_modified(time))
        .expect("set the time");
    let second = indexer.refresh_blocking(&first.index).expect("refresh");
    assert_eq!(texts(&second.changed), ["a"]);
}

#[test]
fn how_a_page_came_in_decides_trust_and_adds_its_name() {
    let place = Place::new(&[("kiwi-0a1b.md", "x\n## P\ny"), ("own.md", "[[Kiwi!]]")]);
    let first = place.refresh(&Arc::default());
    assert!(first.index.resolved_links(&slug("own")).is_empty());
    place.came_in("kiwi-0a1b", "Fruit/Kiwi!.md", Origin::Import);
    let second = place.refresh(&first.index);
    assert_eq!(texts(&second.changed), ["kiwi-0a1b"]);
    let page = second.index.get(&slug("kiwi-0a1b")).expect("there");
    assert_eq!(page.trust, Trust::Untrusted);
    assert!(
        page.sections
            .iter()
            .all(|section| section.trust == Trust::Untrusted)
    );
    assert_eq!(
        second.index.get(&slug("own")).expect("there").trust,
        Trust::Trusted
    );
    assert_eq!(second.index.resolved_links(&slug("own")).len(), 1);
    place.came_in("kiwi-0a1b", "Fruit/Kiwi!.md", Origin::UserFile);
    let third = place.refresh(&second.index);
    assert_eq!(
        third.index.get(&slug("kiwi-0a1b")).expect("there").trust,
        Trust::Trusted
    );
}

#[test]
fn faults_and_collisions_are_reported_and_cost_no_page() {
    let place = Place::new(&[
        ("bad.md", "---\ntitle: *x\n---\nbody stays\n"),
        ("A B.md", "one"),
        ("a-b.md", "two"),
    ]);
    std::fs::write(place.path("latin.md"), b"caf\xe9 au lait").expect("write");
    let index = place.index();
    assert_eq!(index.len(), 4);
    let mut faulty: Vec<(&str, usize)> = index
        .faults()
        .map(|(page, fault)| (page.path.as_str(), fault.line))
        .collect();
    faulty.dedup();
    assert_eq!(faulty, [("bad.md", 2), ("latin.md", 1)]);
    assert_eq!(index.renamed().len(), 1);
    assert_eq!(index.renamed()[0].path, "A B.md");
    assert!(!index.get(&slug("bad")).expect("there").sections.is_empty());
}

#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_read_is_reported_and_the_rest_is_indexed() {
    #[derive(Debug)]
    struct Refusing;

    impl memory_core::env::Fs for Refusing {
        fn read(&self, path: &std::path::Path) -> io::Result<Vec<u8>> {
            if path.ends_with("locked.md") {
                return Err(io::Error::from(io::ErrorKind::PermissionDenied));
            }
            RealFs.read(path)
        }
        fn write(&self, path: &std::path::Path, bytes: &[u8]) -> io::Result<()> {
            RealFs.write(path, bytes)
        }
        fn append(&self, path: &std::path::Path, bytes: &[u8]) -> io::Result<()> {
            RealFs.append(path, bytes)
        }
        fn rename(&self, from: &std::path::Path, to: &std::path::Path) -> io::Result<()> {
            RealFs.rename(from, to)
        }
        fn remove(&self, path: &std::path::Path) -> io::Result<()> {
            RealFs.remove(path)
        }
        fn create_dir_all(&self, path: &std::path::Path) -> io::Result<()> {
            RealFs.create_dir_all(path)
        }
        fn info(&self, path: &std::path::Path) -> io::Result<memory_core::env::FileInfo> {
            RealFs.info(path)
        }
        fn list(&self, path: &std::path::Path) -> io::Result<Vec<memory_core::env::FileInfo>> {
            RealFs.list(path)
        }
    }

    let place = Place::new(&[("a.md", "x"), ("locked.md", "y")]);
    let pages = FilePages::new(Arc::new(Refusing), place.folder.path().join("concepts"));
    let indexer = PageIndexer::new(
        pages,
        Arc::clone(&place.state),
        Arc::clone(&place.clock) as Arc<dyn Clock>,
    );
    let index = indexer
        .refresh_blocking(&Arc::default())
        .expect("refresh")
        .index;
    assert_eq!(index.len(), 1);
    assert_eq!(
        index
            .unreadable()
            .iter()
            .map(|(path, _)| path.as_str())
            .collect::<Vec<_>>(),
        ["locked.md"]
    );
}
