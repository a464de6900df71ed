//! Processes that are killed while they write: what they were told is kept, is kept, once.
//!
//! A child writes notes, pages and turns, says what it begins and what it was told is durable, and is killed at some
//! moment of that. The parent opens the memory after it, holds it against everything that was acknowledged in all rounds,
//! and lets the next child go on.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memory_core::env::{Rng as _, SeededRng};
use memory_substrate::embed::SeededEmbedder;
use tests::host::{TempHost, given, home_in};
use tests::measure::percentile;

use crate::child;
use crate::told::{
    Acknowledged, LIVING, Rows, assistant, check, note, page_text, say, speak, take_in,
};

/// Rounds without being told otherwise.
const ROUNDS: usize = 20;

/// How many rounds, for `cargo xtask crash`.
const ROUNDS_VARIABLE: &str = "STRATA_CRASH_ROUNDS";

/// The home that a child writes to, and its round.
const HOME_VARIABLE: &str = "STRATA_CRASH_HOME";
const ROUND_VARIABLE: &str = "STRATA_CRASH_ROUND";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_kills() {
    let _machine = child::MACHINE.lock().await;
    let rounds = std::env::var(ROUNDS_VARIABLE)
        .map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    let host = TempHost::new(given(SeededEmbedder::default())).await;
    let folder = host
        .expect("a home: run `cargo xtask build-plugins` first")
        .closed();
    let home = home_in(folder.path());
    let (mut told, numbers) = (Acknowledged::default(), SeededRng::new(1));
    let (mut in_the_middle, mut recoveries) = (0, Vec::new());
    let mut before = Rows::default();
    for round in 0..rounds {
        in_the_middle += usize::from(write_and_be_killed(&home, round, &numbers, &mut told));
        let (opening, rows) = check(&home, &told).await;
        recoveries.push(opening);
        assert!(
            rows.index >= before.index && rows.items >= before.items,
            "round {round} lost rows: {rows:?} after {before:?}"
        );
        before = rows;
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
            0 => note(&assistant, &name).await,
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
