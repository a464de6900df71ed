//! A folder as people really have it: nasty names, broken frontmatter, every script, links in every form.
//!
//! Three things must hold for all of it at once: every page is found by a word that only it has, every fault is reported
//! with its place, and not one byte of a file is changed.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use memory_core::text::fault::Fault;
use strata::{EmbedderChoice, IngestAction, IngestOptions, IngestReport, IngestSource, TurnInput};
use tests::host::TempHost;

/// Path in the vault, bytes, a question that only this page answers, and whether a fault must be reported.
type Note = (&'static str, &'static [u8], &'static str, bool);

const NOTES: &[Note] = &[
    // Frontmatter that a second block must never be put in front of.
    ("My Doc.md", b"---\ntitle: \"My Doc\"\ntype: litnote\ntags:\n  - research\n---\n\n# Body\n\nquokkaword\n", "quokkaword", false),
    // Invalid YAML, which must not cost the page.
    ("quotes.md", b"---\ndescription: \"abc \"def\" ghi\"\n---\n\nnarwhalword\n", "narwhalword", true),
    ("curly.md", "---\ndescription: \"contains a left double quote \u{201c}\n---\n\npangolinword\n".as_bytes(), "pangolinword", true),
    ("tick.md", b"---\nkey: `C:\\agent\\x`\n---\n\naxolotlword\n", "axolotlword", true),
    ("star.md", b"---\ntitle: *Italic*\n---\n\nokapiword\n", "okapiword", true),
    ("suffix.md", b"---\nlinks:\n  - [[wikilink]]suffix\n---\n\ntapirword\n", "tapirword", true),
    ("rule.md", b"---\nA leading rule, and no frontmatter at all: ibexword\n", "ibexword", true),
    // Values that YAML would give a type.
    ("typed.md", b"---\ntitle: no\ntags: foo, bar\n---\n\nlemurword\n", "lemurword", false),
    ("dated.md", b"---\ntitle: 2024-01-05\n---\n\nmarmotword\n", "marmotword", false),
    ("duplicate.md", b"---\ntitle: one\ntitle: two\n---\n\ngeckoword\n", "geckoword", true),
    ("windows.md", b"\xef\xbb\xbf---\r\ntitle: Windows\r\n---\r\n\r\nferretword\r\n", "ferretword", false),
    // Names with the reserved characters of some platform, and names in other scripts.
    ("Coupon: Enable.md", b"civetword\n", "civetword", false),
    ("trailing dots....md", b"genetword\n", "genetword", false),
    ("CON.md", b"margayword\n", "margayword", false),
    ("\u{5927}\u{8bed}\u{8a00}\u{6a21}\u{578b}\u{6982}\u{8ff0}.md", "今天玩成语接龙游戏\n".as_bytes(), "成语接龙", false),
    ("\u{65ad}\u{8def}\u{5668}\u{81ea}\u{52a8}\u{6062}\u{590d}.md", "检查设备\n".as_bytes(), "设备", false),
    ("\u{d55c}\u{ae00} \u{d14c}\u{c2a4}\u{d2b8}.md", "오늘 끝말잇기 게임을 했다\n".as_bytes(), "끝말잇기", false),
    ("\u{1f389}.md", "今日は成語しりとりをした\n".as_bytes(), "しりとり", false),
    ("Проспект.md", "новосибирск красный проспект\n".as_bytes(), "новосибирск", false),
    ("mixed.md", "重跑gen-itgc后50条\n".as_bytes(), "itgc", false),
    // Words that a query language would read as syntax.
    ("syntax.md", b"pre-edit of Downloads/transcripts with --error-on-warnings on ubuntu 20.04\n", "--error-on-warnings", false),
    // Links in every form, in folders.
    ("Folder/Deep Note.md", b"See [[My Doc|the doc]], ![[typed]], [dated](../dated.md) and [[Nowhere]]. caracalword\n", "caracalword", false),
];

fn write_vault(folder: &Path) {
    for (name, bytes, ..) in NOTES {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a note is in a folder")).expect("made");
        fs::write(path, bytes).expect("written");
    }
    for hidden in [".obsidian/workspace.md", ".trash/old.md"] {
        let path = folder.join(hidden);
        fs::create_dir_all(path.parent().expect("a note is in a folder")).expect("made");
        fs::write(path, "hiddenword\n").expect("written");
    }
    fs::write(folder.join("picture.png"), [0x89, b'P', b'N', b'G']).expect("written");
}

async fn ingest(host: &TempHost, folder: &Path) -> IngestReport {
    let source = IngestSource::Folder(folder.to_owned());
    let (report, _) = host
        .assistant
        .ingest(source, IngestOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .await
        .expect("a folder with bad files is taken in all the same");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn every_note_is_found_every_fault_is_placed_and_no_byte_is_touched() {
    let host = TempHost::new(EmbedderChoice::None).await.expect("a host");
    let vault = host.folder.path().join("vault");
    write_vault(&vault);
    let report = ingest(&host, &vault).await;

    let by_name: BTreeMap<&str, &strata::IngestedPage> = report
        .pages
        .iter()
        .map(|page| (page.original_name.trim_end_matches(".md"), page))
        .collect();
    assert_eq!(
        report.pages.len(),
        NOTES.len(),
        "hidden folders and pictures are no pages"
    );
    let concepts = host.assistant.workspace().concepts_dir();
    for (name, bytes, question, faulty) in NOTES {
        let page = by_name[name.trim_end_matches(".md")];
        assert_eq!(
            page.action,
            IngestAction::Written,
            "{name}: {:?}",
            page.error
        );
        let places: Vec<&Fault> = page.faults.iter().collect();
        assert_eq!(!places.is_empty(), *faulty, "{name}: {places:?}");
        assert!(
            places
                .iter()
                .all(|fault| fault.line > 0 && fault.column > 0),
            "{name}: {places:?}"
        );

        let slug = page.slug.as_ref().expect("a written page has a slug");
        let stored = fs::read(concepts.join(slug.to_relative_path()))
            .expect("the page is where its slug says");
        assert_eq!(stored, *bytes, "{name} was changed");
        assert_eq!(
            fs::read(vault.join(name)).expect("the original"),
            *bytes,
            "the original of {name} was changed"
        );

        let input = TurnInput::owner(format!("about {name}"), *question);
        let found = host
            .assistant
            .explain(input)
            .await
            .expect("an explanation")
            .candidates;
        assert_eq!(
            found.first().map(|first| &first.slug),
            Some(slug),
            "`{question}` did not find {name}: {found:?}"
        );
    }

    let again = ingest(&host, &vault).await;
    assert_eq!(
        (again.unchanged, again.written),
        (NOTES.len(), 0),
        "the same folder again changes nothing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_resolved_as_obsidian_does_and_the_missing_one_is_named() {
    let host = TempHost::new(EmbedderChoice::None).await.expect("a host");
    let vault = host.folder.path().join("vault");
    write_vault(&vault);
    ingest(&host, &vault).await;
    let pages = host.assistant.store().await.expect("the stores").pages();
    let from = pages
        .pages()
        .iter()
        .find(|page| page.slug.as_str().starts_with("folder/"))
        .expect("the linking page");
    let targets: Vec<&str> = pages
        .resolved_links(&from.slug)
        .iter()
        .map(|link| link.target.as_str())
        .collect();
    assert_eq!(targets, ["my-doc", "typed", "dated"]);
    let dangling: Vec<&str> = pages
        .dangling()
        .iter()
        .filter(|dangling| dangling.from == from.slug)
        .map(|dangling| dangling.target.as_str())
        .collect();
    assert_eq!(dangling, ["Nowhere"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn user_text_is_never_search_syntax() {
    let host = TempHost::new(EmbedderChoice::None).await.expect("a host");
    let vault = host.folder.path().join("vault");
    write_vault(&vault);
    ingest(&host, &vault).await;
    for (number, text) in [
        "don't use agents",
        "a AND OR",
        "(bypass only)",
        "*",
        "",
        "\"",
        "ubuntu 20.04",
        "title:no^2~",
        "[x TO y]",
    ]
    .into_iter()
    .enumerate()
    {
        let injection = host
            .assistant
            .begin_turn(TurnInput::owner(format!("syntax {number}"), text))
            .await;
        assert!(
            injection.trace.serving.is_some(),
            "{text}: {:?}",
            injection.notices
        );
        let errors: Vec<_> = injection
            .notices
            .iter()
            .filter(|notice| notice.severity == strata::Severity::Error)
            .collect();
        assert!(errors.is_empty(), "{text}: {errors:?}");
    }
}
