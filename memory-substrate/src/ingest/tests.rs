//! Tests of ingest on folders as people have them.

use std::io;
use std::path::Path;
use std::sync::Mutex;

use memory_core::env::{FileInfo, Fs};
use memory_core::store::{PageOrigin, StateStore as _, StoreError};
use memory_core::text::fault::FaultKind;

use super::*;
use crate::fs::RealFs;
use crate::writer::testing;

struct Place {
    folder: tempfile::TempDir,
    ingester: Ingester,
}

/// When the write of a page fails.
#[derive(Clone, Copy, Debug)]
enum Fails {
    Before,
    After,
}

/// What happens when a file of this name is written.
#[derive(Debug)]
enum Surprise {
    Fails(&'static str, Fails),
    /// Somebody writes another file first.
    Edit(&'static str, PathBuf, &'static str),
}

/// The operating system's files, with one surprise.
#[derive(Debug, Default)]
struct Unreliable(Mutex<Option<Surprise>>);

impl Unreliable {
    fn surprise(&self, surprise: Surprise) {
        *self.0.lock().expect("nobody panics") = Some(surprise);
    }
}

impl Fs for Unreliable {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        RealFs.read(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut surprise = self.0.lock().expect("nobody panics");
        let fails = match &*surprise {
            Some(Surprise::Fails(name, fails)) if path.ends_with(name) => Some(*fails),
            Some(Surprise::Edit(name, other, text)) if path.ends_with(name) => {
                std::fs::write(other, text)?;
                *surprise = None;
                None
            }
            _ => None,
        };
        if !matches!(fails, Some(Fails::Before)) {
            RealFs.write(path, bytes)?;
        }
        match fails {
            Some(_) => Err(io::Error::other("the disk gave up")),
            None => Ok(()),
        }
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        RealFs.append(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealFs.remove(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        RealFs.create_dir_all(path)
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        RealFs.info(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FileInfo>> {
        RealFs.list(path)
    }
}

impl Place {
    fn new() -> Self {
        Self::with(Arc::new(RealFs))
    }

    fn with(fs: Arc<dyn Fs>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let writer = testing::create(&folder.path().join("home"), fs);
        Self {
            folder,
            ingester: Ingester::new(&writer, FilePages::of_writer(&writer)),
        }
    }

    /// Returns the same place after the writer has ended and another has come.
    fn reopened(self) -> Self {
        let Self { folder, ingester } = self;
        let workspace = ingester.workspace.with_fs(Arc::new(RealFs));
        drop(ingester);
        let writer = testing::open(&workspace);
        Self {
            folder,
            ingester: Ingester::new(&writer, FilePages::of_writer(&writer)),
        }
    }

    fn concepts(&self, name: &str) -> PathBuf {
        self.ingester.workspace.concepts_dir().join(name)
    }

    fn file(&self, path: &str, bytes: impl AsRef<[u8]>) {
        RealFs
            .write(&self.folder.path().join(path), bytes.as_ref())
            .expect("write");
    }

    fn run(&self, source: &IngestSource, options: IngestOptions) -> IngestReport {
        self.ingester
            .run(source, options, &mut |_| {})
            .expect("the source can be used")
    }

    fn vault(&self) -> IngestReport {
        self.run(
            &IngestSource::Folder(self.folder.path().join("vault")),
            IngestOptions::default(),
        )
    }

    fn page(&self, slug: &str) -> Option<Vec<u8>> {
        let slug = Slug::parse(slug).expect("a slug");
        self.ingester
            .pages
            .read_blocking(&slug)
            .expect("read")
            .map(|page| page.bytes)
    }

    /// Returns how a page came in, if that is recorded.
    fn origin(&self, slug: &str) -> Option<Origin> {
        let origins = self.ingester.state.read_blocking(origins::all);
        let mut origins = origins.expect("read").into_iter();
        origins
            .find(|origin| origin.slug.as_str() == slug)
            .map(|origin| origin.origin)
    }

    /// Ingests the vault over what is there.
    fn overwrite(
        &self,
        origin: Origin,
        progress: &mut dyn FnMut(IngestProgress<'_>),
    ) -> SubstrateResult<IngestReport> {
        let options = IngestOptions {
            overwrite: true,
            origin,
            ..IngestOptions::default()
        };
        let source = IngestSource::Folder(self.folder.path().join("vault"));
        self.ingester.run(&source, options, progress)
    }

    fn slugs(&self) -> Vec<String> {
        self.ingester
            .pages
            .scan()
            .expect("scan")
            .files
            .into_keys()
            .map(|slug| slug.to_string())
            .collect()
    }
}

fn slug_of<'a>(report: &'a IngestReport, name: &str) -> &'a str {
    let page = report
        .pages
        .iter()
        .find(|page| page.original_name == name)
        .expect("the file is in the report");
    page.slug.as_ref().expect("it has a name").as_str()
}

#[test]
fn a_vault_is_taken_in_byte_for_byte_and_a_second_run_changes_nothing() {
    let place = Place::new();
    place.file(
        "vault/Projects/Kiwi Plan.md",
        "\u{feff}---\r\ntitle: no\r\n---\r\n# Plan\r\n",
    );
    place.file("vault/大语言模型概述.md", "甲");
    place.file("vault/断路器自动恢复.md", "乙");
    place.file("vault/.obsidian/workspace.md", "x");
    place.file("vault/.trash/old.md", "x");
    place.file("vault/.gitignore", "*.md\n");
    place.file("vault/image.png", "x");
    let report = place.vault();
    assert_eq!(
        (report.written, report.invalid, report.other_files),
        (3, 0, 1)
    );
    assert_eq!(
        place.page("projects/kiwi-plan").expect("there"),
        "\u{feff}---\r\ntitle: no\r\n---\r\n# Plan\r\n".as_bytes()
    );
    assert_eq!(
        place.page("大语言模型概述").expect("there"),
        "甲".as_bytes()
    );
    let again = place.vault();
    assert_eq!((again.written, again.unchanged, again.skipped), (0, 3, 0));
    assert_eq!(place.slugs().len(), 3);
}

#[test]
fn bad_files_cost_only_themselves() {
    let place = Place::new();
    for number in 0..20 {
        place.file(&format!("vault/good {number}.md"), "fine");
    }
    for (name, text) in [
        ("windows", "---\nkey: `C:\\agent\\x`\n---\nbody"),
        ("rule", "---\nthis is a rule and prose\n"),
        ("italic", "---\ntitle: *Italic*\n---\nbody"),
        ("item", "---\nrelated:\n  - [[wikilink]]suffix\n---\nbody"),
    ] {
        place.file(&format!("vault/{name}.md"), text);
    }
    place.file("vault/latin.md", b"caf\xe9");
    place.file("vault/picture.md", b"\x89PNG\0\0\0");
    let report = place.vault();
    assert_eq!((report.written, report.invalid), (25, 1));
    let faulty: Vec<&str> = report
        .pages
        .iter()
        .filter(|page| !page.faults.is_empty())
        .map(|page| page.original_name.as_str())
        .collect();
    assert_eq!(
        faulty,
        ["italic.md", "item.md", "latin.md", "rule.md", "windows.md"]
    );
    let latin = report
        .pages
        .iter()
        .find(|page| page.original_name == "latin.md")
        .expect("reported");
    assert_eq!(
        (latin.faults[0].kind, latin.faults[0].column),
        (FaultKind::InvalidUtf8, 4)
    );
    assert_eq!(place.page("latin").expect("there"), b"caf\xe9");
    let picture = report
        .pages
        .iter()
        .find(|page| page.original_name == "picture.md")
        .expect("reported");
    assert!(
        picture
            .error
            .as_ref()
            .is_some_and(|error| error.contains("not text")),
        "{picture:?}"
    );
}

#[test]
fn names_that_collide_get_the_same_suffix_every_time() {
    let (first, second) = (Place::new(), Place::new());
    for place in [&first, &second] {
        place.file("vault/A B.md", "one");
        place.file("vault/a b!.md", "two");
        place.file("vault/a-b.md", "three");
    }
    let report = first.vault();
    assert_eq!(report.written, 3);
    let slugs = first.slugs();
    assert_eq!(slugs.len(), 3);
    second.vault();
    assert_eq!(second.slugs(), slugs);
    let again = first.vault();
    assert_eq!(again.unchanged, 3);
    assert_eq!(slug_of(&again, "a b!.md"), slug_of(&report, "a b!.md"));
}

#[test]
fn a_different_page_is_never_overwritten() {
    let place = Place::new();
    place.file(
        "home/assistants/kiwi/memory/concepts/kiwi.md",
        "the owner's own",
    );
    place.file("vault/Kiwi!.md", "another");
    let options = IngestOptions {
        overwrite: true,
        ..IngestOptions::default()
    };
    let report = place.run(
        &IngestSource::Folder(place.folder.path().join("vault")),
        options,
    );
    assert_ne!(slug_of(&report, "Kiwi!.md"), "kiwi");
    assert_eq!(place.page("kiwi").expect("there"), b"the owner's own");
    assert_eq!(
        place.page(slug_of(&report, "Kiwi!.md")).expect("there"),
        b"another"
    );
}

#[test]
fn another_version_is_kept_unless_overwriting_is_asked_for() {
    let place = Place::new();
    place.file("vault/kiwi.md", "one");
    place.vault();
    place.file("vault/kiwi.md", "two");
    let report = place.vault();
    assert_eq!((report.skipped, report.written), (1, 0));
    assert_eq!(place.page("kiwi").expect("there"), b"one");
    let options = IngestOptions {
        overwrite: true,
        ..IngestOptions::default()
    };
    let report = place.run(
        &IngestSource::Folder(place.folder.path().join("vault")),
        options,
    );
    assert_eq!(report.written, 1);
    assert_eq!(place.page("kiwi").expect("there"), b"two");
}

#[test]
fn a_dry_run_tells_and_does_nothing() {
    let place = Place::new();
    place.file("vault/kiwi.md", "one");
    let options = IngestOptions {
        dry_run: true,
        ..IngestOptions::default()
    };
    let report = place.run(
        &IngestSource::Folder(place.folder.path().join("vault")),
        options,
    );
    assert_eq!((report.written, report.dry_run), (1, true));
    assert!(place.slugs().is_empty());
}

#[tokio::test]
async fn how_pages_came_in_is_recorded_with_their_old_names() {
    let place = Place::new();
    place.file("vault/Fruit/Kiwi!.md", "one");
    let options = IngestOptions {
        origin: Origin::Import,
        ..IngestOptions::default()
    };
    place.run(
        &IngestSource::Folder(place.folder.path().join("vault")),
        options,
    );
    let expected = PageOrigin {
        slug: Slug::parse("fruit/kiwi").expect("a slug"),
        original_name: "Fruit/Kiwi!.md".to_owned(),
        origin: Origin::Import,
        authority: Authority::Owner,
        at: testing::NOW,
    };
    assert_eq!(
        place.ingester.state.page_origins().await.expect("read"),
        [expected]
    );
    let nobody = IngestOptions {
        origin: Origin::Import,
        authority: Authority::None,
        ..IngestOptions::default()
    };
    let source = IngestSource::Folder(place.folder.path().join("vault"));
    let refused = place.ingester.run(&source, nobody, &mut |_| {});
    assert!(
        matches!(refused, Err(SubstrateError::Refused { .. })),
        "{refused:?}"
    );
}

/// How a page came in before, how the file that replaces it comes in.
const CHANGES: [(Option<Origin>, Origin); 5] = [
    (Some(Origin::Import), Origin::UserFile),
    (Some(Origin::UserFile), Origin::Import),
    (Some(Origin::UserFile), Origin::UserFile),
    (Some(Origin::Import), Origin::ExternalDoc),
    (None, Origin::Import),
];

/// A page that came in some way, and a vault with another version of it and of a page before it.
fn replaced(fs: Arc<dyn Fs>, before: Option<Origin>) -> Place {
    let place = Place::with(fs);
    place.file("vault/a.md", "first");
    match before {
        Some(before) => {
            place.file("vault/kiwi.md", "old");
            let report = place.overwrite(before, &mut |_| {}).expect("ingested");
            assert_eq!(report.written, 2);
        }
        None => place.file("home/assistants/kiwi/memory/concepts/kiwi.md", "old"),
    }
    assert_eq!(place.origin("kiwi"), before);
    place.file("vault/a.md", "second");
    place.file("vault/kiwi.md", "new");
    place
}

#[test]
fn a_replaced_page_has_the_origin_of_its_new_bytes() {
    for (before, after) in CHANGES {
        let place = replaced(Arc::new(RealFs), before);
        place.overwrite(after, &mut |_| {}).expect("ingested");
        assert_eq!(place.page("kiwi").expect("there"), b"new");
        assert_eq!(place.origin("kiwi"), Some(after), "{before:?} {after:?}");
    }
}

/// Checks that both texts are there, each with its origin.
fn check_both(
    place: &Place,
    report: &IngestReport,
    edited: (&[u8], Option<Origin>),
    after: Origin,
) {
    let kiwi = report
        .pages
        .iter()
        .find(|page| page.original_name == "kiwi.md");
    let warnings = &kiwi.expect("reported").warnings;
    assert!(warnings[0].contains("(conflict "), "{warnings:?}");
    assert_eq!(place.page("kiwi").expect("there"), edited.0);
    assert_eq!(place.origin("kiwi"), edited.1, "{after:?}");
    let slugs = place.slugs();
    let copy = slugs.iter().find(|slug| slug.starts_with("kiwi-conflict"));
    let copy = copy.expect("a page of its own");
    assert_eq!(place.page(copy).expect("there"), b"new");
    assert_eq!(place.origin(copy), Some(after));
}

#[test]
fn a_page_that_was_edited_meanwhile_is_kept_with_its_origin_beside_the_new_one() {
    for (before, after) in CHANGES {
        let fs = Arc::new(Unreliable::default());
        let place = replaced(fs.clone(), before);
        fs.surprise(Surprise::Edit("a.md", place.concepts("kiwi.md"), "edited"));
        let report = place.overwrite(after, &mut |_| {}).expect("ingested");
        check_both(&place, &report, (b"edited", before), after);
    }
}

#[test]
fn a_page_that_appeared_meanwhile_is_the_owners() {
    let fs = Arc::new(Unreliable::default());
    let place = Place::with(fs.clone());
    place.file("vault/a.md", "first");
    place.file("vault/kiwi.md", "new");
    fs.surprise(Surprise::Edit("a.md", place.concepts("kiwi.md"), "own"));
    let report = place
        .overwrite(Origin::Import, &mut |_| {})
        .expect("ingested");
    check_both(&place, &report, (b"own", None), Origin::Import);
}

#[test]
fn a_failed_write_leaves_the_lower_trust_until_it_is_made_up_for() {
    let untrusted = |origin: Option<Origin>| !matches!(origin, None | Some(Origin::UserFile));
    for (before, after) in CHANGES {
        for fails in [Fails::Before, Fails::After] {
            let fs = Arc::new(Unreliable::default());
            let place = replaced(fs.clone(), before);
            fs.surprise(Surprise::Fails("kiwi.md", fails));
            let failed = place.overwrite(after, &mut |_| {});
            assert!(
                matches!(
                    failed,
                    Err(SubstrateError::Store(StoreError::ReadOnly { .. }))
                ),
                "{failed:?}"
            );
            let on_disk = std::fs::read(place.concepts("kiwi.md")).expect("there");
            assert_eq!(
                on_disk,
                match fails {
                    Fails::Before => b"old",
                    Fails::After => b"new",
                }
            );
            assert_eq!(
                place.page("kiwi").expect("there"),
                b"new",
                "it was acknowledged"
            );
            assert_eq!(
                untrusted(place.origin("kiwi")),
                untrusted(before) || untrusted(Some(after)),
                "{before:?} {after:?} {fails:?}"
            );
            let place = place.reopened();
            let on_disk = std::fs::read(place.concepts("kiwi.md")).expect("there");
            assert_eq!(on_disk, b"new");
            assert_eq!(
                place.origin("kiwi"),
                Some(after),
                "{before:?} {after:?} {fails:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_run_that_was_cut_off_is_completed_under_the_same_names() {
    let place = Place::new();
    place.file("vault/a b!.md", "one");
    place.file("vault/a b.md", "two");
    let clean = Place::new();
    clean.file("vault/a b!.md", "one");
    clean.file("vault/a b.md", "two");
    clean.vault();
    // What a crash leaves after the origins were recorded and before any page was written.
    let origins = clean.ingester.state.page_origins().await.expect("read");
    place
        .ingester
        .state
        .put_page_origins(origins.clone())
        .await
        .expect("put");
    let report = place.vault();
    assert_eq!(report.written, 2);
    assert_eq!(place.slugs(), clean.slugs());
    assert_eq!(
        place.ingester.state.page_origins().await.expect("read"),
        origins
    );
}

#[test]
fn without_the_records_of_earlier_runs_equal_pages_are_recognised() {
    let place = Place::new();
    place.file("vault/Kiwi Plan.md", "one");
    place.file("home/assistants/kiwi/memory/concepts/kiwi-plan.md", "one");
    let report = place.vault();
    assert_eq!((report.unchanged, report.written), (1, 0));
}

#[test]
fn a_page_in_a_reserved_folder_is_placed_elsewhere() {
    let place = Place::new();
    place.file("vault/Skills/Baking.md", "one");
    let report = place.vault();
    assert_eq!(slug_of(&report, "Skills/Baking.md"), "notes/skills/baking");
    assert_eq!(place.page("notes/skills/baking").expect("there"), b"one");
    assert_eq!(place.vault().unchanged, 1);
}

#[test]
fn a_text_is_named_by_slug_or_title() {
    let place = Place::new();
    let text = |name: &str| IngestSource::Text {
        name: name.to_owned(),
        text: "x".to_owned(),
    };
    let options = IngestOptions::default();
    assert_eq!(
        slug_of(&place.run(&text("people/ada"), options), "people/ada"),
        "people/ada"
    );
    let title = "Coupon Enable/Disable Feature";
    assert_eq!(
        slug_of(&place.run(&text(title), options), title),
        "coupon-enable-disable-feature"
    );
    let reserved = place.ingester.run(&text("skills/x"), options, &mut |_| {});
    assert!(
        matches!(reserved, Err(SubstrateError::Refused { .. })),
        "{reserved:?}"
    );
}

#[test]
fn a_file_is_taken_in_by_its_own_name() {
    let place = Place::new();
    place.file("notes/Kiwi Plan.md", "one");
    let path = place.folder.path().join("notes/Kiwi Plan.md");
    let report = place.run(&IngestSource::File(path), IngestOptions::default());
    assert_eq!(slug_of(&report, "Kiwi Plan.md"), "kiwi-plan");
    let missing = IngestSource::File(place.folder.path().join("none.md"));
    assert!(
        place
            .ingester
            .run(&missing, IngestOptions::default(), &mut |_| {})
            .is_err()
    );
    let folder = IngestSource::File(place.folder.path().join("notes"));
    assert!(
        place
            .ingester
            .run(&folder, IngestOptions::default(), &mut |_| {})
            .is_err()
    );
}

#[test]
fn a_memory_folder_brings_its_views_and_knowledge_base() {
    let place = Place::new();
    for path in [
        "concepts/a.md",
        "essentials.md",
        "core-pages.md",
        "buffer.md",
        "pkb/topics/b.md",
        "pkb/c.txt",
    ] {
        place.file(&format!("corpus/{path}"), path);
    }
    let corpus = IngestSource::MemoryFolder(place.folder.path().join("corpus"));
    let report = place.run(&corpus, IngestOptions::default());
    let placed: Vec<&str> = report.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        placed,
        ["core-pages.md", "essentials.md", "pkb/topics/b.md"]
    );
    assert_eq!((report.written, report.pages.len()), (4, 1));
    let memory = place.ingester.workspace.memory_dir();
    let read = |path: &str| std::fs::read_to_string(memory.join(path)).expect("placed");
    assert_eq!(read("pkb/topics/b.md"), "pkb/topics/b.md");
    assert!(!Path::new(&memory.join("buffer.md")).exists());
    std::fs::write(memory.join("essentials.md"), "edited").expect("write");
    let again = place.run(&corpus, IngestOptions::default());
    assert_eq!((again.unchanged, again.skipped), (3, 1));
    assert_eq!(read("essentials.md"), "edited");
    let untrusted = IngestOptions {
        origin: Origin::Import,
        overwrite: true,
        ..IngestOptions::default()
    };
    let refused = place.run(&corpus, untrusted);
    assert_eq!(refused.invalid, 3);
    assert_eq!(read("essentials.md"), "edited");
}

#[test]
fn progress_reaches_the_total() {
    let place = Place::new();
    for number in 0..450 {
        place.file(&format!("vault/{number}.md"), number.to_string());
    }
    let mut last = (0, 0);
    let source = IngestSource::Folder(place.folder.path().join("vault"));
    let report = place
        .ingester
        .run(&source, IngestOptions::default(), &mut |progress| {
            last = (progress.done, progress.total);
        })
        .expect("run");
    assert_eq!((last, report.written), ((450, 450), 450));
}

fn manifest(pages: &[(&str, &str)]) -> IngestSource {
    let page = |(slug, content): &(&str, &str)| ManifestPage {
        slug: (*slug).to_owned(),
        content: (*content).to_owned(),
    };
    IngestSource::Manifest(pages.iter().map(page).collect())
}

#[test]
fn pages_of_a_manifest_get_the_very_slugs_they_name() {
    let place = Place::new();
    place.file("vault/Topics/Ada.md", "By hand.\n");
    place.vault();
    let dated = "---\nsource: letters\norigin_date: 2020-02-30\n---\nBy a program.\n";
    let source = manifest(&[
        ("topics/ada", "By a program.\n"),
        ("people/bob", dated),
        ("skills/x", "Reserved.\n"),
        ("../etc/passwd", "Outside.\n"),
        ("bad\u{0}name", "Nothing.\n"),
    ]);
    let report = place.run(&source, IngestOptions::default());
    let action = |report: &IngestReport, name: &str| {
        let page = report.pages.iter().find(|page| page.original_name == name);
        page.expect("it is reported").action
    };
    assert_eq!(report.pages.len(), 5);
    assert_eq!((report.written, report.skipped, report.invalid), (1, 1, 3));
    assert_eq!(action(&report, "topics/ada"), IngestAction::SkippedExists);
    assert_eq!(action(&report, "people/bob"), IngestAction::Written);
    assert_eq!(
        place.page("topics/ada").as_deref(),
        Some(&b"By hand.\n"[..])
    );
    assert_eq!(place.page("people/bob").as_deref(), Some(dated.as_bytes()));
    let bob = report.pages.iter().find(|page| page.source.is_some());
    let bob = bob.expect("one names its source");
    assert_eq!(
        (bob.source.as_deref(), bob.origin_date.as_deref()),
        (Some("letters"), Some("2020-02-30"))
    );
    assert_eq!(
        bob.faults.len(),
        1,
        "there is no such day: {:?}",
        bob.faults
    );

    let over = IngestOptions {
        overwrite: true,
        ..IngestOptions::default()
    };
    let report = place.run(&source, over);
    assert_eq!(
        (report.written, report.unchanged, report.invalid),
        (1, 1, 3)
    );
    assert_eq!(
        place.page("topics/ada").as_deref(),
        Some(&b"By a program.\n"[..])
    );
}

#[test]
fn a_long_manifest_is_taken_in_and_told_page_by_page() {
    let place = Place::new();
    let pages: Vec<ManifestPage> = (0..450)
        .map(|number| ManifestPage {
            slug: format!("note-{number:03}"),
            content: format!("About {number}.\n"),
        })
        .collect();
    let (mut told, mut last) = (0, (0, 0));
    let report = place.ingester.run(
        &IngestSource::Manifest(pages),
        IngestOptions::default(),
        &mut |at| {
            told += 1;
            last = (at.done, at.total);
        },
    );
    assert_eq!(report.expect("taken in").written, 450);
    assert_eq!((told, last), (450, (450, 450)));
}
