//! Processes that are killed while they write: what they were told is kept, is kept, once.
//!
//! A child writes notes, pages and turns, says what it begins and what it was told is durable, and is killed at some
//! moment of that. The parent opens the memory after it, holds it against everything that was acknowledged in all rounds,
//! and lets the next child go on.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use memory_core::env::{Rng as _, SeededRng};
use memory_core::store::StateStore as _;
use memory_substrate::embed::SeededEmbedder;
use strata::{
    Access, Assistant, Authority, Channel, DoctorOptions, Finding, IngestOptions, IngestSource,
    Origin, RememberInput, TurnEnd, TurnInput,
};
use tests::host::{ASSISTANT, TempHost, given, home_in, open};
use tests::measure::percentile;

/// Rounds without being told otherwise.
const ROUNDS: usize = 20;

/// How many rounds, for `cargo xtask crash`.
const ROUNDS_VARIABLE: &str = "STRATA_CRASH_ROUNDS";

/// The home that a child writes to, and its round.
const HOME_VARIABLE: &str = "STRATA_CRASH_HOME";
const ROUND_VARIABLE: &str = "STRATA_CRASH_ROUND";

/// The page that each child writes again and again.
const LIVING: &str = "living";

/// What the children were told is durable.
#[derive(Debug, Default)]
struct Acknowledged {
    notes: Vec<String>,
    pages: Vec<String>,
    /// Messages, and whether their blocks were acknowledged as attached.
    turns: BTreeMap<String, bool>,
    /// The newest version of the page that is written again and again.
    version: u64,
}

impl Acknowledged {
    fn take(&mut self, line: &str) {
        let mut words = line.split(' ');
        let (Some("ack"), Some(kind), Some(what)) = (words.next(), words.next(), words.next())
        else {
            return;
        };
        match kind {
            "note" => self.notes.push(what.to_owned()),
            "page" => self.pages.push(what.to_owned()),
            "version" => self.version = what.parse().expect("a number"),
            "turn" => drop(self.turns.entry(what.to_owned()).or_default()),
            "attached" => drop(self.turns.insert(what.to_owned(), true)),
            other => panic!("nobody acknowledges `{other}`"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_kills() {
    let rounds = std::env::var(ROUNDS_VARIABLE)
        .map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    let host = TempHost::new(given(SeededEmbedder::default())).await;
    let folder = host
        .expect("a home: run `cargo xtask build-plugins` first")
        .closed();
    let home = home_in(folder.path());
    let (mut told, numbers) = (Acknowledged::default(), SeededRng::new(1));
    let (mut in_the_middle, mut recoveries) = (0, Vec::new());
    for round in 0..rounds {
        in_the_middle += usize::from(write_and_be_killed(&home, round, &numbers, &mut told));
        recoveries.push(check(&home, &told).await);
    }
    let (usual, longest) = (
        percentile(&mut recoveries, 0.5),
        percentile(&mut recoveries, 1.0),
    );
    println!("opened again in {usual:?}, at most {longest:?}");
    println!(
        "{rounds} kills, {in_the_middle} of them in the middle of something: {} notes, {} pages, {} turns kept, and version {} of a page",
        told.notes.len(),
        told.pages.len(),
        told.turns.len(),
        told.version
    );
    assert!(told.notes.len() + told.pages.len() + told.turns.len() >= rounds);
}

/// Lets a child write, kills it, and returns whether that was in the middle of something.
fn write_and_be_killed(
    home: &Path,
    round: usize,
    numbers: &SeededRng,
    told: &mut Acknowledged,
) -> bool {
    let program = std::env::current_exe().expect("a program knows where it is");
    let mut child = Command::new(program)
        .args([
            "crash::writes_until_it_is_killed",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(HOME_VARIABLE, home)
        .env(ROUND_VARIABLE, round.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    // So many things are begun, and then it has so much time for the last one.
    let (things, spins) = (1 + numbers.next_u64() % 24, numbers.next_u64() % 2_000_000);
    let (mut begun, mut open) = (0, false);
    for line in lines.by_ref() {
        let line = line.expect("text");
        told.take(&line);
        open = line.starts_with("try ");
        begun += u64::from(open);
        if begun == things {
            break;
        }
    }
    assert_eq!(begun, things, "the child ended by itself in round {round}");
    for _ in 0..spins {
        std::hint::spin_loop();
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    // What it said before it died counts.
    for line in lines {
        let line = line.expect("text");
        told.take(&line);
        open = line.starts_with("try ");
    }
    open
}

/// Holds what is there against what was acknowledged, and returns how long it took to open it.
async fn check(home: &Path, told: &Acknowledged) -> Duration {
    let start = Instant::now();
    let assistant = assistant(home).await;
    let store = assistant.store().await.expect("open");
    let opening = start.elapsed();
    let buffer = std::fs::read_to_string(assistant.workspace().buffer_path()).unwrap_or_default();
    let archive = archived(assistant.workspace().archive_dir());
    for note in &told.notes {
        let sentence = format!("The {note} stands.");
        for (place, text) in [("buffer", &buffer), ("archive", &archive)] {
            assert_eq!(text.matches(&sentence).count(), 1, "{note} in the {place}");
        }
    }
    let concepts = assistant.workspace().concepts_dir();
    let read = |page: &str| {
        let text = std::fs::read_to_string(concepts.join(format!("{page}.md")));
        text.unwrap_or_else(|error| panic!("`{page}` is lost: {error}"))
    };
    for page in &told.pages {
        assert_eq!(read(page), page_text(page));
    }
    if told.version > 0 {
        let text = read(LIVING);
        let version: u64 = text
            .strip_prefix("Version ")
            .and_then(|text| text.strip_suffix(".\n"))
            .and_then(|version| version.parse().ok())
            .unwrap_or_else(|| panic!("half a page: {text:?}"));
        assert!(version >= told.version, "{version} < {}", told.version);
    }
    for (message, attached) in &told.turns {
        let node = store.state().turn_node(message).await.expect("read");
        let node = node.unwrap_or_else(|| panic!("turn `{message}` is lost"));
        assert!(!attached || !node.attached_blocks.is_empty(), "{node:?}");
    }
    assistant.warm().await.expect("warm");
    let go_on = &mut |_| ControlFlow::Continue(());
    assistant.sync(go_on).await.expect("indexed");
    let stats = store.stats().await.expect("counted");
    assert_eq!(stats.waiting, 0);
    let report = assistant
        .doctor(DoctorOptions::default())
        .await
        .expect("examined");
    let bad: Vec<_> = report
        .checks
        .iter()
        .filter(|check| check.severity == Finding::Problem)
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
    opening
}

/// Returns everything below the archive, one text.
fn archived(folder: PathBuf) -> String {
    let mut folders = vec![folder];
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("listed").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                text.push_str(&std::fs::read_to_string(path).expect("text"));
            }
        }
    }
    text
}

async fn assistant(home: &Path) -> Assistant {
    let strata = open(home.to_owned(), given(SeededEmbedder::default())).expect("opened");
    let assistant = strata.assistant(ASSISTANT, Access::ReadWrite).await;
    assistant.expect("nobody else has it")
}

fn page_text(name: &str) -> String {
    format!("# {name}\n\nThis page is about {name}.\n\n## Part\n\nAnd so is this.\n")
}

/// Says something at once, so that it is heard even if this process ends with it.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("somebody listens");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by `what_was_acknowledged_outlives_kills`"]
async fn writes_until_it_is_killed() {
    let home = PathBuf::from(std::env::var_os(HOME_VARIABLE).expect("given"));
    let round: u64 = std::env::var(ROUND_VARIABLE)
        .expect("given")
        .parse()
        .expect("a number");
    let assistant = assistant(&home).await;
    // More than any parent waits for.
    for number in 0..1_000 {
        let name = format!("thing-{round}-{number}");
        say(&format!("try {name}"));
        match number % 4 {
            0 => {
                let input = RememberInput {
                    texts: vec![format!("The {name} stands.")],
                    origin: Origin::UserDirect,
                    authority: Authority::Owner,
                    channel: Channel::Global,
                };
                assistant.remember(input).await.expect("kept");
                say(&format!("ack note {name}"));
            }
            1 => {
                take_in(&assistant, &name, page_text(&name)).await;
                say(&format!("ack page {name}"));
            }
            2 => {
                let version = round * 1_000 + number;
                take_in(&assistant, LIVING, format!("Version {version}.\n")).await;
                say(&format!("ack version {version}"));
            }
            _ => speak(&assistant, &name).await,
        }
    }
}

async fn take_in(assistant: &Assistant, name: &str, text: String) {
    let source = IngestSource::Text {
        name: name.to_owned(),
        text,
    };
    let options = IngestOptions {
        overwrite: true,
        ..IngestOptions::default()
    };
    let go_on = &mut |_| ControlFlow::Continue(());
    let (report, _) = assistant
        .ingest(source, options, go_on)
        .await
        .expect("taken in");
    assert_eq!((report.written, report.invalid), (1, 0), "{report:?}");
}

async fn speak(assistant: &Assistant, name: &str) {
    let input = TurnInput::owner(name.to_owned(), format!("What of {name}?"));
    let injection = assistant.begin_turn(input).await;
    assistant.attached(&injection).await.expect("attached");
    let end = TurnEnd::reply("It stands.".to_owned());
    let ids = assistant.end_turn(&injection, end).await.expect("ended");
    let message = ids.expect("the owner's turns are stored").message;
    say(&format!("ack turn {message}"));
    if !injection.blocks.is_empty() {
        say(&format!("ack attached {message}"));
    }
}
