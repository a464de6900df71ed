//! Several processes that write at once: all of it is there afterwards, each thing once, whichever of them were killed.
//!
//! The processes are this very test program, told to run one test that is otherwise ignored.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use memory_core::env::{Rng as _, SeededRng};
use memory_core::item::{Consumer, ItemQuery};
use memory_core::store::ItemStore as _;
use strata::{
    Access, Assistant, Authority, Channel, EmbedderChoice, IngestOptions, IngestSource,
    InitOptions, Origin, RememberInput, Strata, StrataOptions, Timestamp, TurnInput,
};

use crate::fixture::Fixture;

const HOME: &str = "STRATA_TEST_HOME";
const NAME: &str = "STRATA_TEST_NAME";
const FROM: &str = "STRATA_TEST_FROM";

/// Processes that say notes, and notes of each.
const SPEAKERS: u64 = 4;
const NOTES: u64 = 20;

/// Processes that write pages, pages that they share, and how often each of them writes one.
const WRITERS: u64 = 8;
const PAGES: u64 = 50;
const WRITES: u64 = 12;

fn options(home: &Path) -> StrataOptions {
    StrataOptions {
        embedder: EmbedderChoice::None,
        ..StrataOptions::new(home)
    }
}

async fn open(home: &Path, access: Access) -> Assistant {
    let strata = Strata::open(options(home)).unwrap();
    strata.assistant("default", access).await.unwrap()
}

/// Makes a home with an assistant, without plugins and without a model.
async fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let strata = Strata::open(options(home.path())).unwrap();
    strata
        .init("default", InitOptions::default())
        .await
        .unwrap();
    home
}

/// Starts a process of this home.
fn start(test: &str, home: &Path, name: u64, from: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env(HOME, home)
        .env(NAME, name.to_string())
        .env(FROM, from.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn given(variable: &str) -> u64 {
    std::env::var(variable).unwrap().parse().unwrap()
}

/// Says what is done at once, so that it is heard even if this process ends with it.
fn say(number: u64) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\ndone {number}").unwrap();
    out.flush().unwrap();
}

/// Listens to a process, kills it when it has done so much and a moment has passed, and returns the last that it said.
fn listen(mut child: Child, until: Option<u64>, spins: u64) -> Option<u64> {
    let mut last = None;
    let mut killed = false;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some(done) = line.strip_prefix("done ") else {
            continue;
        };
        last = Some(done.parse().unwrap());
        if !killed && last == until {
            killed = true;
            for _ in 0..spins {
                std::hint::spin_loop();
            }
            child.kill().unwrap();
        }
    }
    let ended = child.wait().unwrap();
    assert!(killed || ended.success(), "a process failed after {last:?}");
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_notes_of_each_of_four_processes_outlive_kills() {
    let home = home().await;
    let path = home.path();
    let kills: u64 = std::thread::scope(|scope| {
        let speakers: Vec<_> = (0..SPEAKERS)
            .map(|speaker| {
                scope.spawn(move || {
                    let (numbers, mut next, mut kills) = (SeededRng::new(speaker), 0, 0);
                    while next < NOTES {
                        let child = start("processes::says_its_notes", path, speaker, next);
                        let until = next + 2 + numbers.next_u64() % 9;
                        kills += u64::from(until < NOTES);
                        let last = listen(child, Some(until), numbers.next_u64() % 1_000_000);
                        next = last.map_or(next, |last| last + 1);
                    }
                    kills
                })
            })
            .collect();
        speakers
            .into_iter()
            .map(|speaker| speaker.join().unwrap())
            .sum()
    });
    assert!(kills >= SPEAKERS, "only {kills} were killed");

    let assistant = open(path, Access::ReadWrite).await;
    let workspace = assistant.store().await.unwrap().workspace().clone();
    let buffer = workspace.fs().read(&workspace.buffer_path()).unwrap();
    let buffer = String::from_utf8(buffer).unwrap();
    for speaker in 0..SPEAKERS {
        for number in 0..NOTES {
            let text = said(speaker, number);
            assert_eq!(buffer.matches(&text).count(), 1, "{text}");
        }
    }
    // What was said and not acknowledged any more was said again under its key.
    assert_eq!(buffer.matches(" ^m-").count() as u64, SPEAKERS * NOTES);
    let query = ItemQuery {
        limit: u32::MAX,
        ..ItemQuery::new(
            Authority::Owner,
            Consumer::Listing,
            Timestamp::from_millis(i64::MAX),
        )
    };
    let state = assistant.store().await.unwrap().state();
    let items = state.items(query).await.unwrap();
    assert_eq!(items.len() as u64, SPEAKERS * NOTES);
    assert_eq!(state.verify_ledger().await.unwrap().faults, []);
}

fn said(speaker: u64, number: u64) -> String {
    format!("Speaker {speaker} says number {number} of them.")
}

#[test]
#[ignore = "it is the process that another test kills"]
fn says_its_notes() {
    let home = PathBuf::from(std::env::var_os(HOME).unwrap());
    let (speaker, from) = (given(NAME), given(FROM));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let assistant = open(&home, Access::ReadWrite).await;
        for number in from..NOTES {
            let input = RememberInput {
                texts: vec![said(speaker, number)],
                origin: Origin::UserDirect,
                authority: Authority::Owner,
                channel: Channel::Global,
            };
            let key = format!("{speaker}-{number}");
            assistant.remember_once(input, &key).await.unwrap();
            say(number);
        }
        assistant.close().await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_eight_processes_write_at_once_are_there_once_and_whole() {
    let home = home().await;
    let writers: Vec<Child> = (0..WRITERS)
        .map(|writer| start("processes::writes_its_pages", home.path(), writer, 0))
        .collect();
    for writer in writers {
        assert_eq!(listen(writer, None, 0), Some(WRITES - 1));
    }
    let assistant = open(home.path(), Access::ReadWrite).await;
    let store = assistant.store().await.unwrap();
    assistant
        .sync(&mut |_| ControlFlow::Continue(()))
        .await
        .unwrap();
    let stats = store.stats().await.unwrap();
    let rows = stats.index.map(|index| index.rows);
    assert_eq!((stats.pages as u64, rows), (PAGES, Some(PAGES)));
    assert!(store.integrity().await.unwrap().is_clean());
    let folder = assistant.workspace().concepts_dir();
    let mut pages = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let page = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(
            text.starts_with("Writer ") && text.ends_with(&format!(" of {page}.\n")),
            "{page}: {text}"
        );
        assert_eq!(text.lines().count(), 1, "{page}: {text}");
        pages.insert(page);
    }
    assert_eq!(pages.len() as u64, PAGES, "{pages:?}");
}

#[test]
#[ignore = "it is one of the processes of another test"]
fn writes_its_pages() {
    let home = PathBuf::from(std::env::var_os(HOME).unwrap());
    let writer = given(NAME);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let assistant = open(&home, Access::ReadWrite).await;
        for number in 0..WRITES {
            // Each page is written by about two of them, at about the same time.
            let page = format!("page-{}", (writer * PAGES / WRITERS + number) % PAGES);
            let source = IngestSource::Text {
                text: format!("Writer {writer} wrote version {number} of {page}.\n"),
                name: page,
            };
            let options = IngestOptions {
                overwrite: true,
                ..IngestOptions::default()
            };
            let go_on = &mut |_| ControlFlow::Continue(());
            let (report, _) = assistant.ingest(source, options, go_on).await.unwrap();
            assert_eq!(report.written, 1, "{report:?}");
            say(number);
        }
        assistant.close().await;
    });
}

/// Without a retry and without anything in between.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_just_written_is_found_here_and_in_another_process() {
    let fixture = Fixture::new();
    let assistant = fixture.assistant().await;
    for number in 0..3 {
        let source = IngestSource::Text {
            name: format!("page-{number}"),
            text: format!("# Page {number}\n\nThe xylograph{number} hangs in room {number}.\n"),
        };
        let go_on = &mut |_| ControlFlow::Continue(());
        let options = IngestOptions::default();
        assistant.ingest(source, options, go_on).await.unwrap();
        let question = format!("xylograph{number}");
        let answer = format!("in room {number}");
        let here = assistant.begin_turn(TurnInput::owner("c", &question)).await;
        assert!(here.text().contains(&answer), "{}", here.text());
        let there = fixture.run(&["context", &question]).expect(0);
        assert!(there.out.contains(&answer), "{there:?}");
    }
}

/// A file that cannot be opened, until it is dropped.
struct Shut {
    path: PathBuf,
    aside: PathBuf,
}

impl Shut {
    fn new(path: PathBuf) -> Self {
        use std::os::unix::fs::PermissionsExt as _;

        let aside = path.with_extension("aside");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).unwrap();
        if std::fs::File::open(&path).is_ok() {
            // Whoever may open everything cannot open a folder as a file.
            std::fs::rename(&path, &aside).unwrap();
            std::fs::create_dir(&path).unwrap();
        }
        Self { path, aside }
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        use std::os::unix::fs::PermissionsExt as _;

        if self.aside.exists() {
            // Fails if anything was made in its place.
            std::fs::remove_dir(&self.path).unwrap();
            std::fs::rename(&self.aside, &self.path).unwrap();
        }
        std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

#[test]
fn a_store_that_may_not_be_opened_is_an_error_and_is_left_as_it_is() {
    let fixture = Fixture::ingested();
    fixture
        .run(&["remember", "The key hangs behind the door."])
        .expect(0);
    let before = std::fs::read(fixture.workspace("state.db")).unwrap();
    let shut = Shut::new(fixture.workspace("state.db"));
    let notes = fixture.path("notes");
    for arguments in [
        ["remember", "The key hangs elsewhere now."],
        ["ingest", notes.to_str().unwrap()],
        ["forget", "m1"],
        ["undo", "m1"],
        ["doctor", "--json"],
        ["doctor", "--fix"],
    ] {
        let run = fixture.run(&arguments);
        assert!(
            run.code.is_some_and(|code| code != 0),
            "{arguments:?}: {run:?}"
        );
        let said = format!("{}{}", run.out, run.err);
        assert!(said.contains("state"), "{arguments:?}: {run:?}");
    }
    drop(shut);
    let after = std::fs::read(fixture.workspace("state.db")).unwrap();
    assert!(after == before, "the store was changed");
    let said = fixture.data(&["remember", "The key hangs behind the door."]);
    assert_eq!(said["entries"][0]["duplicate"], true, "{said}");
    let buffer = std::fs::read_to_string(fixture.workspace("memory/buffer.md")).unwrap();
    assert!(!buffer.contains("elsewhere"), "{buffer}");
    fixture.run(&["doctor"]).expect(0);
}
