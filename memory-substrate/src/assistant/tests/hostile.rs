//! Names that try to lead out of their folder, over every function that takes a path, a name or an identifier.

use std::path::{Component, Path};

use memory_core::provenance::{Authority, Channel, Origin};
use memory_core::store::{Expected, PageStore as _};
use memory_core::text::slug::Slug;

use super::*;
use crate::backup::{RestoreOptions, restore};
use crate::erase::EraseTarget;
use crate::error::SubstrateError;
use crate::fs::RealFs;
use crate::ingest::{IngestAction, Ingester, ManifestPage};
use crate::oplog::WriteContext;
use crate::spool::{self, SpooledNote};
use crate::workspace::AssistantId;
use crate::writer::testing::{Tree, tree};

/// The text that nobody inside may read, and its file outside.
const OUTSIDE: &str = "It belongs to somebody else.";
const FILE: &str = "outside.md";

/// A hundred names, none of which may be the name of anything.
fn hostile() -> Vec<String> {
    let mut names: Vec<String> = [
        "",
        " ",
        "\t",
        "\n",
        ".",
        "..",
        "...",
        "/",
        "//",
        "\\",
        "./",
        "../",
        "/.",
        "/..",
        "~",
        "~/",
        "~root/.ssh/id_rsa",
        "../outside",
        "../outside.md",
        "../../outside.md",
        "../../../outside.md",
        "../../../../outside.md",
        "../../../../../outside.md",
        "../../../../../../outside.md",
        "../../etc/passwd",
        "../../../../../../../../etc/passwd",
        "/etc/passwd",
        "//etc/passwd",
        "///etc//passwd",
        "/proc/self/environ",
        "/dev/null",
        "/dev/stdin",
        "a/..",
        "a/../b",
        "a/../../b",
        "a/../../../outside",
        "a/./b",
        "a//b",
        "a/",
        "/a",
        "a/b/../../../outside.md",
        "notes/../../state.db",
        "../state.db",
        "../../state.db",
        "../LOCK",
        "../assistant.toml",
        "../memory/buffer.md",
        "..\\..\\outside.md",
        "..\\outside",
        "a\\..\\..\\b",
        "\\etc\\passwd",
        "C:\\x",
        "C:\\Windows\\win.ini",
        "C:/x",
        "C:x",
        "c:",
        "D:",
        "\\\\srv\\x",
        "\\\\?\\C:\\x",
        "\\\\.\\pipe\\x",
        "//srv/share/x",
        "/d%3A/PyCode",
        "%2e%2e/",
        "%2e%2e%2foutside.md",
        "..%2foutside.md",
        "%2e%2e\\outside",
        "..%5coutside",
        "%252e%252e%252f",
        "..%c0%afoutside",
        "..%00/",
        "file:///etc/passwd",
        "file:../../outside.md",
        "http://x.example/a",
        "a\0b",
        "\0",
        "../outside.md\0.md",
        "outside\0",
        "a\nb",
        "a\rb",
        "\u{1b}[31ma",
        "\u{202e}dm.edistuo",
        "\u{200b}..",
        ".\u{200b}.",
        "\u{ff0e}\u{ff0e}/outside",
        "..\u{2215}outside",
        "..\u{ff0f}outside",
        "\u{2024}\u{2024}/outside",
        "\u{e9}\u{301}\u{301}/..",
        ".git/config",
        ".ssh/authorized_keys",
        ".env",
        ".hidden",
        "a/.hidden",
        "CON",
        "NUL",
        "con",
        "nul.md",
        "aux",
        "com1",
        "LPT1.md",
        "A",
        "a b",
        "a:b",
        "a*b?",
        "a|b",
        "<a>",
        "\"a\"",
        "'; DROP TABLE pages; --",
        "$(touch x)",
        "`touch x`",
        "${HOME}",
        "$HOME/x",
        "-rf",
        "--help",
        "*",
        "a;b",
        "a&b",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("../".repeat(80) + "outside.md");
    names.push("a/".repeat(300) + "b");
    names.push("x".repeat(5_000));
    names.push("../".repeat(2_000));
    names
}

fn note(text: &str) -> RememberInput {
    RememberInput {
        texts: vec![text.to_owned()],
        origin: Origin::UserDirect,
        authority: Authority::Owner,
        channel: Channel::Global,
    }
}

/// A home in a folder, with a file that belongs to somebody else at every level above the assistant's own.
struct Place {
    fixture: Fixture,
}

impl Place {
    fn new() -> Self {
        let fixture = Fixture::in_home("deep/home");
        let above = fixture.workspace.root().ancestors().skip(1);
        for folder in above.take_while(|folder| folder.starts_with(fixture.around())) {
            std::fs::write(folder.join(FILE), OUTSIDE).expect("written");
        }
        Self { fixture }
    }

    /// Returns every file that does not belong to the assistant.
    fn outside(&self) -> Tree {
        let root = self.fixture.workspace.root();
        let below = root
            .strip_prefix(self.fixture.around())
            .expect("it is inside");
        let below = below.to_str().expect("text").to_owned();
        let mut files = tree(&RealFs, self.fixture.around());
        files.retain(|path, _| !path.starts_with(&below));
        files
    }

    /// Returns the assistant's own files but those of the database and the index.
    fn inside(&self) -> Vec<String> {
        let mut paths: Vec<String> = tree(&RealFs, self.fixture.workspace.root())
            .into_keys()
            .collect();
        paths.retain(|path| {
            let first = path.split('/').next().unwrap_or_default();
            !["index", "blobs", "LOCK", "assistant.toml"].contains(&first)
                && !first.starts_with("state.")
        });
        paths
    }
}

fn is_plain(path: &str) -> bool {
    !path.is_empty()
        && !path.contains(['\\', '\0', ':'])
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
        && path.split('/').all(|part| !part.starts_with('.'))
}

#[test]
fn no_name_of_an_assistant_or_a_page_leads_anywhere() {
    let names = hostile();
    assert!(names.len() >= 100, "{}", names.len());
    for name in &names {
        AssistantId::new(name).expect_err(name);
        Slug::parse(name).expect_err(name);
        for slug in [Slug::from_title(name), Slug::from_path(name)] {
            assert!(
                is_plain(&slug.to_relative_path()),
                "{name:?} became {slug:?}"
            );
            assert_eq!(Slug::parse(slug.as_str()).as_ref(), Ok(&slug), "{name:?}");
        }
    }
}

#[test]
fn no_name_of_a_page_that_is_written_taken_in_or_linked_leads_out_of_its_folder() {
    runtime(async {
        let place = Place::new();
        let store = place.fixture.open().await;
        let (outside, names) = (place.outside(), hostile());
        let listener = &mut |_: EngineProgress| ControlFlow::Continue(());

        // A program's names are taken as they are or not at all.
        let page = |name: &String| ManifestPage {
            slug: name.clone(),
            content: "x\n".to_owned(),
        };
        let manifest = IngestSource::Manifest(names.iter().map(page).collect());
        let ingested = store.ingest_and_index(manifest, IngestOptions::default(), listener);
        let (report, _) = ingested.await.expect("reported");
        assert_eq!((report.written, report.invalid), (0, names.len()));
        assert_eq!(place.inside(), [""; 0], "nothing was written");

        // A person's names are made into names of pages.
        let intake = Ingester::new(store.writer().expect("a writer"), store.files().clone());
        let mut pages = BTreeSet::new();
        for name in &names {
            let source = IngestSource::Text {
                name: name.clone(),
                // A zero byte in a text is refused for another reason.
                text: format!(
                    "This is {}.\n\nSee [[{name}]] and [x]({name}).\n",
                    pages.len()
                )
                .replace('\0', ""),
            };
            match intake.run(&source, IngestOptions::default(), &mut |_| {}) {
                Ok(report) => {
                    let page = &report.pages[0];
                    assert_eq!(page.action, IngestAction::Written, "{name:?}: {page:?}");
                    let slug = page.slug.clone().expect("a page");
                    let path = format!("memory/concepts/{}", slug.to_relative_path());
                    assert!(
                        is_plain(&path) && place.inside().contains(&path),
                        "{name:?}: {path}"
                    );
                    pages.insert(slug);
                }
                Err(error) => assert!(
                    matches!(error, SubstrateError::Refused { .. }),
                    "{name:?}: {error}"
                ),
            }
        }
        assert_eq!(place.inside().len(), pages.len());
        store.look(true).await.expect("looked");
        store.sync(&mut go_on).await.expect("synchronised");
        assert!(store.integrity().await.expect("compared").is_clean());
        let files = store.files();
        for (slug, name) in pages.iter().zip(&names) {
            let mut to = Slug::from_path(&format!("moved/{name}"));
            if pages.contains(&to) {
                // It would be renamed into another one's place, which is refused.
                to = slug.clone();
            }
            files
                .rename(slug, &to, Expected::Any)
                .await
                .expect("renamed");
            let path = format!("memory/concepts/{}", to.to_relative_path());
            assert!(place.inside().contains(&path), "{name:?}: {path}");
            files.delete(&to, Expected::Any).await.expect("deleted");
        }
        assert_eq!(place.inside(), [""; 0], "every page was deleted again");
        assert_eq!(place.outside(), outside);
    });
}

#[test]
fn no_identifier_of_a_note_an_operation_or_what_is_erased_leads_anywhere() {
    runtime(async {
        let place = Place::new();
        let store = place.fixture.open().await;
        let workspace = &place.fixture.workspace;
        store
            .remember(note("It stays."), "UTC")
            .await
            .expect("remembered");
        store.writer().expect("a writer").settle().expect("settled");
        place
            .fixture
            .write_pkb("_autoinject.md", &hostile().join("\n"));
        let (outside, inside) = (place.outside(), place.inside());
        let buffer = std::fs::read(workspace.buffer_path()).expect("read");
        let left = SpooledNote {
            input: note("Left."),
            zone: "UTC".to_owned(),
            actor: "hook".to_owned(),
            session: None,
            at: store.now(),
            key: None,
        };
        let keep_on = &mut |_| ControlFlow::Continue(());
        for name in hostile() {
            // Letters, digits and dashes name a note, though they are no name of a page.
            let plain = !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if !plain {
                spool::leave(workspace, &name, &left).expect_err(&name);
            }
            store
                .forget(&name, WriteContext::host())
                .await
                .expect_err(&name);
            store.undo(&name).await.expect_err(&name);
            for target in [
                EraseTarget::Entry(name.clone()),
                EraseTarget::Conversation(name.clone()),
                EraseTarget::Page(Slug::from_path(&name)),
            ] {
                let erased = store.erase(target, keep_on).await;
                assert!(
                    matches!(
                        erased,
                        Err(StoreError::NotFound { .. } | StoreError::BadRequest { .. })
                    ),
                    "{name:?}: {erased:?}"
                );
            }
        }
        // The list of what is always shown of a knowledge base shows nothing from outside of it.
        let call = crate::services::testing::owner();
        let pkb = store.every_service(Tier::V1).pkb.expect("there");
        let shown = pkb.always_shown(&call).await.expect("read");
        assert!(
            shown.iter().all(|file| !file.text.contains(OUTSIDE)),
            "{shown:?}"
        );
        assert_eq!(
            std::fs::read(workspace.buffer_path()).expect("read"),
            buffer
        );
        assert_eq!((place.outside(), place.inside()), (outside, inside));
    });
}

#[test]
fn no_zone_key_or_session_of_a_note_leads_anywhere() {
    runtime(async {
        let place = Place::new();
        let store = place.fixture.open().await;
        let outside = place.outside();
        let mut names = hostile();
        // A session without a name is refused, as what has no name.
        names.retain(|name| !name.is_empty());
        for (number, name) in names.iter().enumerate() {
            let context = WriteContext::new("test", Origin::UserDirect, Authority::Owner)
                .with_key(format!("{number} {name}"))
                .in_session(name.clone());
            let text = format!("Said as number {number}.");
            let kept = store.remember_as(note(&text), name, context).await;
            kept.unwrap_or_else(|error| panic!("{name:?}: {error}"));
        }
        store.writer().expect("a writer").settle().expect("settled");
        // In a zone that nobody knows it is the time in UTC, and no other file but these two is there.
        assert_eq!(
            place.inside(),
            ["memory/archive/2026-11-30.md", "memory/buffer.md"]
        );
        let buffer = std::fs::read_to_string(place.fixture.workspace.buffer_path()).expect("read");
        assert_eq!(
            buffer
                .matches("- [2026-11-30 15:00] Said as number ")
                .count(),
            names.len()
        );
        assert_eq!(place.outside(), outside);
    });
}

#[test]
fn no_file_of_a_copy_leads_out_of_what_is_restored() {
    runtime(async {
        let place = Place::new();
        let store = place.fixture.open().await;
        let copy = place.fixture.around().join("deep/copy");
        store
            .writer()
            .expect("a writer")
            .back_up(&copy)
            .expect("copied");
        let list = std::fs::read_to_string(copy.join("backup.json")).expect("read");
        let list: serde_json::Value = serde_json::from_str(&list).expect("a list");
        let outside = place.outside();
        let id = AssistantId::new("restored").expect("a name");
        let home = place.fixture.home();
        for name in hostile() {
            let mut forged = list.clone();
            let entry = serde_json::json!({
                "path": name,
                "bytes": OUTSIDE.len(),
                "sha256": crate::pages::hash_bytes(OUTSIDE.as_bytes()),
            });
            forged["files"]
                .as_array_mut()
                .expect("files")
                .insert(0, entry);
            std::fs::write(copy.join("backup.json"), forged.to_string()).expect("written");
            let restored = restore(home, &id, &copy, RestoreOptions::default(), store.now());
            restored.expect_err(&name);
            assert!(!home.join("assistants/restored").exists(), "{name:?}");
        }
        std::fs::write(copy.join("backup.json"), list.to_string()).expect("written");
        let mut now = place.outside();
        now.retain(|path, _| !path.ends_with("backup.json"));
        let mut before = outside;
        before.retain(|path, _| !path.ends_with("backup.json"));
        assert_eq!(now, before);
        restore(home, &id, &copy, RestoreOptions::default(), store.now()).expect("the honest list");
    });
}

/// A link that is there already, in the place of a folder and in that of a file.
#[cfg(unix)]
#[test]
fn no_link_leads_a_page_or_a_note_out_of_the_folder() {
    runtime(async {
        let place = Place::new();
        let store = place.fixture.open().await;
        let elsewhere = place.fixture.around().join("elsewhere");
        std::fs::create_dir_all(elsewhere.join("below")).expect("made");
        std::fs::write(elsewhere.join("secret.md"), OUTSIDE).expect("written");
        let concepts = place.fixture.workspace.concepts_dir();
        std::os::unix::fs::symlink(&elsewhere, concepts.join("out")).expect("linked");
        std::os::unix::fs::symlink(elsewhere.join("secret.md"), concepts.join("link.md"))
            .expect("linked");
        let buffer = place.fixture.workspace.buffer_path();
        std::os::unix::fs::symlink(elsewhere.join("secret.md"), &buffer).expect("linked");
        let outside = place.outside();
        let files = store.files();
        let inside = Slug::parse("inside").expect("a slug");
        files
            .write(&inside, b"x".to_vec(), Expected::Any)
            .await
            .expect("written");
        for name in ["out/new", "out/secret", "out/below/new", "link"] {
            let slug = Slug::parse(name).expect("a slug");
            assert_eq!(files.read(&slug).await.expect("read"), None, "{name}");
            files
                .write(&slug, b"y".to_vec(), Expected::Any)
                .await
                .expect_err(name);
            files
                .rename(&inside, &slug, Expected::Any)
                .await
                .expect_err(name);
            drop(files.delete(&slug, Expected::Any).await);
            let page = ManifestPage {
                slug: name.to_owned(),
                content: "z\n".to_owned(),
            };
            let options = IngestOptions {
                overwrite: true,
                ..IngestOptions::default()
            };
            let listener = &mut |_: EngineProgress| ControlFlow::Continue(());
            let ingested =
                store.ingest_and_index(IngestSource::Manifest(vec![page]), options, listener);
            let (report, _) = ingested.await.expect("reported");
            assert_eq!((report.written, report.invalid), (0, 1), "{name}");
        }
        // A note is safe although its file is a link, and is not written through it.
        let remembered = store.remember(note("It is said."), "UTC").await;
        drop(store.writer().expect("a writer").settle());
        assert_eq!(place.outside(), outside, "{remembered:?}");
    });
}
